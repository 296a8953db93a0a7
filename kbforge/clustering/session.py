"""A session of sequential Monte Carlo: fragments come one after another, the state is kept.

`SequentialMonteCarlo` is what its clusterers are but for their options.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from kbforge.clustering.commit import commit
from kbforge.clustering.online.scoring import make_scorer
from kbforge.clustering.plan import consider
from kbforge.clustering.prior import DirichletProcess
from kbforge.clustering.rules import Rules
from kbforge.clustering.snapshot import restore, settings_of, snapshot_of
from kbforge.clustering.state import Block, State
from kbforge.contracts import (
    Fragment,
    Info,
    OnlineClusterer,
    Particle,
    Posterior,
    Problem,
    Snapshot,
    Subproblem,
    Touched,
)
from kbforge.errors import LikelihoodError, UsageError, quoted


class SequentialMonteCarlo(OnlineClusterer):
    """What greedy, plain and split clustering share: all but their rules."""

    def __init__(self, rules: Rules) -> None:
        self._rules = rules

    def open(
        self, problem: Problem, rng: np.random.Generator, snapshot: Snapshot | None = None
    ) -> OnlineSession:
        """See `kbforge.contracts.clusterer`."""
        return OnlineSession(problem, self._rules, rng, snapshot)


class OnlineSession:
    """See `kbforge.contracts.Session`.

    Args:
        problem: what to cluster by.
        rules: how.
        rng: the session's own.
        snapshot: of a session with the same problem and rules, to go on with.

    Raises:
        UsageError: there is nothing to cluster by, or the snapshot is of another session.

    """

    def __init__(
        self,
        problem: Problem,
        rules: Rules,
        rng: np.random.Generator,
        snapshot: Snapshot | None = None,
    ) -> None:
        self._rules = rules.settled(problem.index is not None)
        self._state = State(DirichletProcess(problem.alpha))
        self._model = make_scorer(problem, self._rules.limit)
        self._rng = rng
        self._settings = settings_of(problem, self._rules)
        self._changed: set[int] = set()
        self._gone: set[int] = set()
        if snapshot is not None:
            restore(snapshot, self._settings, self._state, self._model, rng)

    @property
    def n_fragments(self) -> int:
        """How many fragments have been taken in."""
        return self._state.n_fragments

    def add(self, fragments: Sequence[Fragment]) -> list[Info]:
        """Take in fragments, one after another."""
        return [self._add(fragment) for fragment in fragments]

    def _add(self, x: Fragment) -> Info:
        try:
            plan = consider(self._state, self._model, x, self._rules, self._rng)
        except LikelihoodError as error:
            raise LikelihoodError(f'fragment "{quoted(x.id)}": {error}') from error
        info = commit(self._state, self._model, plan)
        self._gone.update(info.before)
        self._gone.difference_update(info.after)
        self._changed.difference_update(info.before)
        self._changed.update(info.after)
        return info

    def remove(self, ids: Sequence[str]) -> None:
        """Not yet.

        Raises:
            UsageError: always.

        """
        raise UsageError(
            "a session cannot remove fragments yet: open a new one and add those that stay"
        )

    def posterior(self) -> Posterior:
        """What is known about the grouping of the fragments taken in."""
        return posterior_of(self._state, self._model.evaluations)

    def touched(self) -> Touched:
        """The subproblems changed since this was last asked, or else since the opening."""
        out = Touched(tuple(sorted(self._changed)), tuple(sorted(self._gone)))
        self._changed.clear()
        self._gone.clear()
        return out

    def snapshot(self) -> Snapshot:
        """The session as plain data."""
        return snapshot_of(self._settings, self._state, self._model, self._rng)


def posterior_of(state: State, evaluations: int) -> Posterior:
    """The state as plain tuples."""
    blocks = [state.blocks[name] for name in sorted(state.blocks)]
    return Posterior(
        subproblems=tuple(_subproblem(state, block) for block in blocks),
        log_posterior=float(
            sum(state.term[block.cells[: block.row_start[1]]].sum() for block in blocks)
        ),
        n_fragments=state.n_fragments,
        model_evaluations=evaluations,
    )


def _subproblem(state: State, block: Block) -> Subproblem:
    cells = block.cells.tolist()
    bounds = block.row_start.tolist()
    members = {slot: state.members(slot) for slot in block.slots.tolist()}
    particles = tuple(
        Particle(weight, tuple(members[slot] for slot in cells[begin:end]))
        for weight, begin, end in zip(block.weights.tolist(), bounds[:-1], bounds[1:], strict=True)
    )
    fragments = sorted(fragment for cluster in particles[0].clusters for fragment in cluster)
    return Subproblem(tuple(fragments), particles)
