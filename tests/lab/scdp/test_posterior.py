"""The sampler of models 1 and 3 leaves its stated joint density as it is.

Two oracles that share nothing with it: states and data drawn from the joint density (separation by
rejection, as it is at most 1), which a chain that draws data and states in turns must agree with;
and quadrature over means and types for all groupings of two references.
"""

from collections.abc import Callable
from dataclasses import replace

import numpy as np
import pytest
from numpy.polynomial.hermite_e import hermegauss
from numpy.polynomial.laguerre import laggauss

from kbforge_lab.scdp.gaussian import Apart, Near
from kbforge_lab.scdp.references import UNKNOWN, References
from kbforge_lab.scdp.sampler import ChainState, GammaPrior, Scdp, sweep

FEATURES, DRAWS, BATCHES = 2, 2000, 40
LABELS = np.array([0, 0, 1, UNKNOWN, UNKNOWN, UNKNOWN])
GROUP = np.array([0, 0, 0, 1, 1, 1])
KNOWN = 3

MODELS = {
    "1": Scdp(proposals=1),
    "1, shared": Scdp(shared=True, proposals=0),
    "1, other priors": Scdp(2.0, 2.5, 1.5, types=GammaPrior(3.0, 2.0), proposals=0),
    "3, near": Scdp(separation=Near(0.1), proposals=1),
    "3, near, shared": Scdp(separation=Near(0.1), shared=True, auxiliaries=3, proposals=1),
}


def seats(rng: np.random.Generator, given: list[int], n: int, alpha: float) -> list[int]:
    """n more of a Chinese restaurant, after these."""
    found = list(given)
    for _ in range(n):
        weights = np.array([*np.bincount(found), alpha]) if found else np.array([alpha])
        found.append(int(rng.choice(len(weights), p=weights / weights.sum())))
    return found[len(given) :]


def log_separation(model: Scdp, means: np.ndarray, types: np.ndarray) -> float:
    total = 0.0
    for t in types:
        for j in range(len(means)):
            for k in range(j):
                distance = t * (means[j] - means[k]) ** 2
                if isinstance(model.separation, Near):
                    total -= model.separation.rate * distance.sum()
    return total


def from_the_joint(rng: np.random.Generator, model: Scdp) -> ChainState:
    while True:
        alpha_p = rng.gamma(model.publications.shape) / model.publications.rate
        # two labelled references of one publication and one of another; at most .172
        ewens = alpha_p / ((alpha_p + 1) * (alpha_p + 2))
        if rng.random() * 0.1716 > ewens:
            continue
        alpha_t = rng.gamma(model.types.shape) / model.types.rate
        known = [0, 0, 1]
        if model.shared:
            new = seats(rng, known, 3, alpha_p)
        else:
            new = [2 + seat for seat in seats(rng, [], 3, alpha_p)]
        publication, kind = np.array(known + new), np.array(seats(rng, [], 6, alpha_t))
        wide = (publication.max() + 1, FEATURES)
        means = rng.normal(size=wide) * np.sqrt(model.variance)
        types = rng.gamma(model.shape, size=(kind.max() + 1, FEATURES)) / model.rate
        if np.log(rng.random()) < log_separation(model, means, types):
            return ChainState(publication, means, kind, types, alpha_p, alpha_t)


def with_data(rng: np.random.Generator, state: ChainState) -> References:
    noise = rng.normal(size=(len(LABELS), FEATURES)) / np.sqrt(state.types[state.kind])
    return References(state.means[state.publication] + noise, LABELS, GROUP)


def functions(data: References, state: ChainState) -> list[float]:
    c, d = state.publication, state.kind
    bounded = np.tanh(data.values)
    precision = np.tanh(state.types[d])
    together, alike = float(c[3] == c[4]), float(d[0] == d[3])
    return [
        len(state.means),
        len(state.types),
        together,
        alike,
        float(c[3] in (0, 1)),
        np.tanh(state.alpha_p),
        np.tanh(state.alpha_t),
        bounded[0, 0],
        (bounded**2).mean(),
        (bounded[0] * bounded[1]).mean(),
        together * np.abs(bounded[3] - bounded[4]).mean(),
        precision.mean(),
        alike * (precision[0] ** 2).mean(),
        (np.tanh(state.means[c[3]] - state.means[0]) ** 2).mean(),
        len(state.means) * len(state.types),
    ]


def largest_z(model: Scdp, sampled: Scdp) -> float:
    rng = np.random.default_rng(11)
    independent = np.empty((DRAWS, len(functions(*_first(rng, model)))))
    successive = np.empty_like(independent)
    for i in range(DRAWS):
        independent[i] = functions(*_first(rng, model))
    _, state = _first(rng, model)
    for i in range(DRAWS):
        data = with_data(rng, state)
        successive[i] = functions(data, state)
        state = sweep(sampled, data, state, rng)
    batches = successive.reshape(BATCHES, -1, successive.shape[1]).mean(axis=1)
    variance = independent.var(axis=0) / DRAWS + batches.var(axis=0, ddof=1) / BATCHES
    difference = independent.mean(axis=0) - successive.mean(axis=0)
    return float((np.abs(difference) / np.sqrt(variance + 1e-300)).max())


def _first(rng: np.random.Generator, model: Scdp) -> tuple[References, ChainState]:
    state = from_the_joint(rng, model)
    return with_data(rng, state), state


@pytest.mark.parametrize("name", MODELS)
def test_the_joint_distribution_is_the_same_both_ways(name):
    assert largest_z(MODELS[name], MODELS[name]) < 4


WRONG = {
    "separation": ("3, near", Scdp(proposals=0)),
    "rate of separation": ("3, near", Scdp(separation=Near(0.4), proposals=0)),
    "variance": ("1", Scdp(variance=1.6, proposals=0)),
    "rate of types": ("1", Scdp(rate=1.5, proposals=0)),
    "concentration": ("1", Scdp(publications=GammaPrior(1.0, 2.0), proposals=0)),
}


@pytest.mark.parametrize("name", WRONG)
def test_another_model_is_noticed(name):
    right, wrong = WRONG[name]
    assert largest_z(MODELS[right], wrong) > 5


TWO = np.array([-0.4, 0.9])
ALPHA_P, ALPHA_T = 0.8, 1.4
Factor = Callable[[np.ndarray], np.ndarray]
PLAIN = Scdp(publications=None, proposals=1)
NEAR, APART = replace(PLAIN, separation=Near(0.7)), replace(PLAIN, separation=Apart(0.7))
FACTORS: dict[str, tuple[Scdp, Factor]] = {
    "1": (PLAIN, np.ones_like),
    "1, coarse": (replace(PLAIN, power=0.4), np.ones_like),
    "3, near": (NEAR, lambda x: np.exp(-0.7 * x)),
    "3, near, coarse": (replace(NEAR, power=0.4), lambda x: np.exp(-0.7 * x)),
    "3, apart": (APART, lambda x: -np.expm1(-0.7 * x)),
}


def by_quadrature(factor: Factor, power: float, together: bool, alike: bool) -> float:
    """The weight of a grouping of two references of one feature, their means and types away."""
    nodes, weights = hermegauss(40)
    times, masses = laggauss(40)
    p, wp = nodes, weights / np.sqrt(2 * np.pi)
    one, other = p[:, None, None, None], p[None, :, None, None]
    first, second = times[None, None, :, None], times[None, None, None, :]
    mean = [one, one if together else other]
    kind = [first, first if alike else second]
    joint = np.ones((40, 40, 40, 40))
    for r, m, t in zip(TWO, mean, kind, strict=True):
        density = np.sqrt(t / (2 * np.pi)) * np.exp(-t * (r - m) ** 2 / 2)
        joint = joint * density**power
    if not together:
        for t in [first] if alike else [first, second]:
            joint = joint * factor(t * (one - other) ** 2)
    integral = np.einsum("abcd,a,b,c,d", joint, wp, wp, masses, masses, optimize=True)
    prior = (1 if together else ALPHA_P) * (1 if alike else ALPHA_T)
    return float(integral * prior)


@pytest.mark.parametrize("name", FACTORS)
def test_groupings_of_two_have_their_probabilities(name):
    model, factor = FACTORS[name]
    exact = np.array(
        [[by_quadrature(factor, model.power, t, a) for a in (True, False)] for t in (True, False)]
    )
    exact /= exact.sum()
    data = References(TWO[:, None], np.full(2, UNKNOWN), np.zeros(2, dtype=np.int64))
    one = np.zeros(2, dtype=np.int64)
    state = ChainState(one, np.zeros((1, 1)), one, np.ones((1, 1)), ALPHA_P, ALPHA_T)
    rng, found = np.random.default_rng(3), np.zeros((30, 2, 2))
    for i in range(6000):
        state = sweep(model, data, state, rng)
        state = replace(state, alpha_p=ALPHA_P, alpha_t=ALPHA_T)
        found[i // 200, len(state.means) - 1, len(state.types) - 1] += 1 / 200
    error = found.std(axis=0, ddof=1) / np.sqrt(30)
    assert (np.abs(found.mean(axis=0) - exact) < 4 * error).all()
    assert error.max() < 0.02
