"""What comes out of a batch run: by its own rule, out of time, or interrupted."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import Protocol

import numpy as np

from kbforge.clustering.batch.budget import OutOfTime, Watch
from kbforge.contracts import Cluster, Ending, FloatArray, Fragment, Interrupted, Posterior
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


def concluded(run: BatchRun, fragments: Sequence[Fragment], watch: Watch) -> Posterior:
    """Let a run go on to its end; its posterior, which says what ended it.

    Raises:
        LikelihoodError: a run ended by its own rule without having found a place for a fragment,
            which the message names. With more time it might have found one.

    """
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
