"""Scorers: workers with a copy of a black box, which score sets for a local run.

    with scorers(likelihood, executor, 2) as elsewhere:
        elsewhere.log_marginal(clusters)

A batch is cut into pieces of consecutive sets, one a scorer, and the scores come back in the order
of the sets. So they are those of the likelihood itself, as far as a score does not depend on what
else is in a batch. A scorer that is lost is replaced, and asked again for its piece.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from functools import partial
from itertools import pairwise
from typing import Any

import numpy as np

from kbforge.contracts import FloatArray, Fragment, Likelihood
from kbforge.contracts.executor import Crew, Executor, WorkerLost
from kbforge.errors import KBForgeError, UsageError

LEAST = 8
"""Sets of a piece, at least: a batch of fewer goes to one scorer, and the others rest."""

_MOST_LOSSES = 10
"""Losses without any answer between them before the run is given up."""

Sets = Sequence[Sequence[Fragment]]


class ScoreWorker:
    """See `kbforge.contracts.executor.Worker`: an order is sets of fragments.

    Args:
        likelihood: scores them.

    """

    def __init__(self, likelihood: Likelihood) -> None:
        self._likelihood = likelihood

    def do(self, order: Sets, parcels: Sequence[Any]) -> tuple[FloatArray, None]:
        """L of each set, nats, shape [len(order)]."""
        return np.asarray(self._likelihood.log_marginal(order), dtype=np.float64), None


class RemoteLikelihood(Likelihood):
    """A likelihood that has its sets scored by a crew of `ScoreWorker`s.

    Attributes:
        losses: how many scorers were lost.

    """

    def __init__(self, crew: Crew) -> None:
        self._crew = crew
        self.losses = 0

    def log_marginal(self, clusters: Sequence[Sequence[Fragment]]) -> FloatArray:
        """L(C) of every cluster, in nats, shape [len(clusters)].

        Raises:
            KBForgeError: scorers are lost again and again.
            Exception: whatever the likelihood raises.

        """
        pieces = pieces_of(clusters, len(self._crew))
        scores: list[FloatArray | None] = [None] * len(pieces)
        in_vain = 0
        while missing := [k for k, known in enumerate(scores) if known is None]:
            sent = [(k, self._crew.send(k, pieces[k])) for k in missing]
            lost = False
            for k, one in sent:
                try:
                    scores[k], _ = self._crew.wait(one)
                    in_vain = 0
                except WorkerLost:
                    lost = True
            if lost:
                in_vain += 1
                self._replace(in_vain)
        known = [piece for piece in scores if piece is not None]
        return np.concatenate(known) if known else np.zeros(0)

    def _replace(self, in_vain: int) -> None:
        """Have lost scorers made anew.

        Raises:
            KBForgeError: it was in vain too often.

        """
        if in_vain > _MOST_LOSSES:
            raise KBForgeError(
                f"scorers were lost {_MOST_LOSSES} times without an answer between; check their "
                "logs and memory, and give them more memory"
            )
        for worker in self._crew.lost():
            self._crew.replace(worker)
            self.losses += 1


def pieces_of(sets: Sets, scorers: int) -> list[Sets]:
    """Consecutive sets, one piece a scorer at most, of about equal length and of `LEAST` at least.

    A batch of fewer sets is one piece.
    """
    n = min(scorers, max(len(sets) // LEAST, 1)) if sets else 0
    ends = [len(sets) * k // n for k in range(n + 1)] if n else []
    return [sets[i:j] for i, j in pairwise(ends)]


@contextmanager
def scorers(likelihood: Likelihood, executor: Executor, number: int) -> Iterator[RemoteLikelihood]:
    """The likelihood, held by scorers for as long as this lasts.

    Args:
        likelihood: fitted; a copy goes to each scorer.
        executor: starts them.
        number: how many.

    Raises:
        UsageError: there is to be none.
        KBForgeError: they cannot be started; the message says what to do.

    """
    if number < 1:
        raise UsageError(f"scorers: expected at least 1, got {number}")
    crew = executor.start(partial(ScoreWorker, likelihood), number)
    try:
        yield RemoteLikelihood(crew)
    finally:
        crew.close()
