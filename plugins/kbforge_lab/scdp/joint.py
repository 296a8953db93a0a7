"""The unnormalised log joint density that the phases of a sweep leave as it is.

A trace of it shows whether chains that started differently have met; and it is what the sampler is
tested against. It leaves out constants of the data and of the concentrations' priors.
"""

from __future__ import annotations

import numpy as np
from scipy.special import gammaln

from kbforge.contracts import FloatArray, IntArray
from kbforge_lab.scdp.references import References
from kbforge_lab.scdp.sampler import Scdp, State, type_prior

_LOG_2PI = float(np.log(2 * np.pi))


def log_joint(model: Scdp, data: References, state: State) -> float:
    """Nats, at the state's concentrations; of model 2 with a and b as its means have them."""
    prior = type_prior(model, state.means)
    total = _normal(state.means, np.full(1, 1 / model.variance))
    total += model.power * _normal(
        data.values - state.means[state.publication], state.types[state.kind]
    )
    a, b, t = prior.shape, prior.rate, state.types
    total += float((a * np.log(b) - gammaln(a) + (a - 1) * np.log(t) - b * t).sum())
    group = np.zeros_like(data.group) if model.shared else data.group
    for each in np.unique(group):
        total += log_ewens(np.bincount(state.publication[group == each]), state.alpha_p)
    total += log_ewens(np.bincount(state.kind), state.alpha_t)
    if model.separation is not None:
        total += float(model.separation.of_types(state.types, state.means).sum())
    return total


def log_ewens(sizes: IntArray, alpha: float) -> float:
    """log of the Dirichlet process's probability of clusters of these sizes, zeros left out."""
    sizes = sizes[sizes > 0]
    n = sizes.sum()
    normaliser = gammaln(alpha) - gammaln(alpha + n)
    return float(len(sizes) * np.log(alpha) + gammaln(sizes).sum() + normaliser)


def _normal(residuals: FloatArray, precisions: FloatArray) -> float:
    terms = np.log(precisions) - _LOG_2PI - precisions * np.square(residuals)
    return float(terms.sum() / 2)
