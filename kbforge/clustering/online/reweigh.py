"""Reweigh: replace the surrogate's scores by the model's, and score x alone.

What a surrogate proposed is weighed by the likelihood itself, without the surrogate's term
(split-SMC paper, appendix C.1). After this phase no more is asked of the model.
"""

from __future__ import annotations

import numpy as np

from kbforge.clustering.online.pool import Pool
from kbforge.clustering.online.scorer import Scorer
from kbforge.clustering.online.table import Reading
from kbforge.clustering.state import State
from kbforge.errors import LikelihoodError


def reweigh(state: State, model: Scorer, reading: Reading, joins: Pool) -> Pool:
    """The joins with the likelihood's weights, those that it forbids left out."""
    joins = model.reweigh(state, reading, joins)
    finite = joins.value > -np.inf
    return joins if finite.all() else joins.take(finite)


def log_marginal_alone(model: Scorer, reading: Reading) -> float:
    """L({x}), nats, checked.

    Raises:
        LikelihoodError: it is NaN or +inf.

    """
    score = model.log_marginal_new(reading)
    if np.isnan(score) or score == np.inf:
        raise LikelihoodError(f"the likelihood of the fragment alone is {score}")
    return score
