"""A run of an offline clusterer: its time budget, progress and ending."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace
from typing import Protocol

import numpy as np

from kbforge.contracts import (
    Cluster,
    Ending,
    FloatArray,
    Fragment,
    Interrupted,
    ModelSpec,
    OnStep,
    Posterior,
    Progress,
)
from kbforge.errors import LikelihoodError, UsageError, quoted

_SECONDS_BETWEEN_REPORTS = 0.1
_SETS_A_STEP = 64


class OutOfTime(Exception):
    """The budget is spent."""


class Watch:
    """Looks at the clock between the small steps of a run.

    The budget is in seconds, without those of `on_step`, which is called after every round and now
    and then within long ones. Without a `clock` it is `time.monotonic`.
    """

    def __init__(
        self,
        budget: float | None,
        on_step: OnStep | None,
        clock: Callable[[], float] | None = None,
    ) -> None:
        self._on_step, self._clock = on_step, clock or time.monotonic
        self._reported = self._clock()
        self._deadline = float("inf") if budget is None else self._reported + budget

    def step(self, progress: Callable[[], Progress]) -> None:
        """After a step within a round; raises `OutOfTime`, or the `Interrupted` of `on_step`."""
        self._look(progress, _SECONDS_BETWEEN_REPORTS)

    def round(self, progress: Callable[[], Progress]) -> None:
        """After a round, which is always reported; otherwise as `step`."""
        self._look(progress, 0.0)

    def _look(self, progress: Callable[[], Progress], apart: float) -> None:
        now = self._clock()
        if self._on_step is not None and now - self._reported >= apart:
            self._on_step(progress())
            self._reported = self._clock()
            self._deadline += self._reported - now
            now = self._reported
        if now >= self._deadline:
            raise OutOfTime


def stretches(count: int) -> Iterator[range]:
    """The numbers 0..count-1, few enough at a time to score as many sets between two looks."""
    for begin in range(0, count, _SETS_A_STEP):
        yield range(begin, min(begin + _SETS_A_STEP, count))


def require_positive(**options: float | None) -> None:
    """Refuse options that are not above 0; None sets no limit."""
    for name, value in options.items():
        if value is not None and not value > 0:
            raise UsageError(f"{name}: expected a number above 0, got {value}")


class BatchRun(Protocol):
    """A run that `concluded` carries to its end."""

    def until_done(self, watch: Watch) -> Ending:
        """Continue until a stop rule holds, and return it; raises the errors of `Watch`."""
        ...

    def posterior(self, ended: Ending) -> Posterior:
        """The result so far."""
        ...

    def log_terms(self, clusters: Sequence[Cluster]) -> FloatArray:
        """What clusters contribute to the log posterior, in nats, one each."""
        ...


def concluded(
    make_run: Callable[[], BatchRun],
    fragments: Sequence[Fragment],
    spec: ModelSpec,
    budget: float | None,
    on_step: OnStep | None,
) -> Posterior:
    """The posterior of a run, which says what ended it; `make_run` begins it, in the run's time.

    Raises:
        UsageError: the problem has constraints.
        LikelihoodError: the run ended by its own rule, and a fragment, which the message names, has
            no possible place.

    """
    spec.require_free()
    if not fragments:
        return Posterior((), 0.0, 0, 0)
    watch = Watch(budget, on_step)
    run = make_run()
    try:
        ended = run.until_done(watch)
    except OutOfTime:
        found = run.posterior(Ending.BUDGET)
        possible = found.n_fragments == len(fragments) and found.log_posterior > -np.inf
        return found if possible else replace(found, ended=Ending.INTERRUPTED)
    except Interrupted:
        return run.posterior(Ending.INTERRUPTED)
    found = run.posterior(ended)
    if found.log_posterior == -np.inf:
        clusters = found.clusters()
        stuck = fragments[clusters[int(run.log_terms(clusters).argmin())][0]]
        raise LikelihoodError(
            f'fragment "{quoted(stuck.id)}": the fragment has no finite assignment'
        )
    return found
