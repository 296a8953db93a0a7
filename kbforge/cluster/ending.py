"""How an offline run ends: by its own rule, or out of time."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace

import numpy as np

from kbforge.contracts import Cluster, FloatArray, Fragment, Posterior
from kbforge.errors import LikelihoodError, quoted

LogTerms = Callable[[Sequence[Cluster]], FloatArray]
"""log alpha + lgamma(|C|) + L(C) of clusters: their terms of the log posterior, nats."""


def concluded(
    posterior: Posterior, fragments: Sequence[Fragment], log_terms: LogTerms, out_of_time: bool
) -> Posterior:
    """A run's posterior, complete only if it is possible.

    Raises:
        LikelihoodError: a run ended by its own rule without having found a place for a fragment,
            which the message names. With more time it might have found one.

    """
    if not posterior.complete or posterior.log_posterior > -np.inf:
        return posterior
    if out_of_time:
        return replace(posterior, complete=False)
    clusters = posterior.clusters()
    stuck = fragments[clusters[int(log_terms(clusters).argmin())][0]]
    raise LikelihoodError(f'fragment "{quoted(stuck.id)}": the fragment has no finite assignment')
