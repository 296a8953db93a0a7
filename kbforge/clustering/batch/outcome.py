"""What comes out of a batch run: by its own rule, out of time, or interrupted."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import Protocol

import numpy as np

from kbforge.clustering.batch.budget import OutOfTime, Watch
from kbforge.contracts import (
    Cluster,
    Ending,
    FloatArray,
    Fragment,
    Interrupted,
    OnStep,
    Posterior,
    Problem,
)
from kbforge.errors import LikelihoodError, quoted


class BatchRun(Protocol):
    """What goes on until something ends it."""

    def until_done(self, watch: Watch) -> Ending:
        """Go on until a rule of its own ends it; which one.

        Raises:
            OutOfTime: the budget is spent.
            Interrupted: the callback has had enough.

        """
        ...

    def posterior(self, ended: Ending) -> Posterior:
        """What has been found so far."""
        ...

    def log_terms(self, clusters: Sequence[Cluster]) -> FloatArray:
        """What clusters contribute to the log posterior, one each, nats."""
        ...


def concluded(
    make_run: Callable[[], BatchRun],
    fragments: Sequence[Fragment],
    problem: Problem,
    budget: float | None,
    on_step: OnStep | None,
) -> Posterior:
    """Begin a run and let it go on to its end; its posterior, which says what ended it.

    Args:
        make_run: begins it, which counts as its time; no fragments need none.
        fragments: what is clustered.
        problem: by what.
        budget: see `Watch`.
        on_step: see `Watch`.

    Raises:
        UsageError: the problem has constraints.
        LikelihoodError: a run ended by its own rule without having found a place for a fragment,
            which the message names. With more time it might have found one.

    """
    problem.require_free()
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
