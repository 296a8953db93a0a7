"""The sampler of supervised clustering: its models, its state, and one sweep.

| symbol | meaning |
|---|---|
| r | a reference |
| c, p | publications of the references, and the publications' means |
| d, t | types of the references, and the types' precisions |
| alpha_p, alpha_t | concentrations of the Dirichlet processes of publications and of types |
| s(p, t) | the separation of model 3, over all pairs of means and all types |

The unnormalised joint density of models 1 (s = 1) and 3, whose conditionals all phases of a sweep
draw from, is

    P(c | alpha_p) P(d | alpha_t) P(alpha_p) P(alpha_t)
        product of normal(p; 0, sigma)  product of gamma(t; a, b)  s(p, t)
        product of normal(r; p_c, 1 / t_d)^z

with Ewens' P and z the power, 1 in the paper. Publications of the labelled references are known. If
they are not shared, each group of labelled references and those to be grouped have a Dirichlet
process of their own, of the same alpha_p; their publications are different ones, but their types
are the same.

Model 2 has no joint density: before each sweep it sets a and b by the current means, so that the
precisions' mean ab is half the mean squared distance of two means, feature by feature, and their
variance is that of the squared distances. What it converges to, if it does, is nobody's posterior.

Sources: Daumé and Marcu (2005), sections 3 to 5 and figure 2; Miller and Dunson (2019), "Robust
Bayesian inference via coarsening", for the power; `seating` for what the paper has not.

*Means and types* are drawn from their conditionals without separation. With separation, an
independence sampler draws candidates from those conditionals, has the current value among them, and
chooses one by what separation gives to each, feature by feature. (Section 4.2 of the paper draws
the candidates from the base density; in 64 dimensions none of those would ever be chosen.)

*The concentration* of a Dirichlet process is drawn anew given how many clusters there are.

| symbol | meaning |
|---|---|
| alpha | the concentration; its prior is gamma with shape a and rate b |
| n_m, k_m | references and clusters of group m, one of M |
| x_m | an auxiliary variable, beta(alpha + 1, n_m) |

Given x, alpha's density is proportional to

    alpha^(a - M - 1 + sum k) exp(-alpha (b - sum log x)) product over m of (alpha + n_m)

The product is a polynomial in alpha whose coefficients are the elementary symmetric polynomials of
the n_m. So alpha is a mixture of M + 1 gammas, of the shapes a - M + sum k + s for s = 0, ..., M,
and its weights take O(M^2) steps: nothing of it needs a Gibbs sampler over the 2^M subsets.

Source: West (1992), "Hyperparameter estimation in Dirichlet process mixture models", for M = 1;
Daumé and Marcu (2005), appendix B, whose a-hat is one too small.
"""

from __future__ import annotations

from dataclasses import dataclass, field, replace

import numpy as np
from numpy.typing import NDArray
from scipy.special import gammaln

from kbforge.contracts import FloatArray, IntArray
from kbforge_lab.scdp.gaussian import (
    MeansOpening,
    Near,
    Separation,
    TypePrior,
    TypesOpening,
    draw_means,
    draw_types,
    sums,
)
from kbforge_lab.scdp.references import References
from kbforge_lab.scdp.seating import Scan, Seats, split_merge


@dataclass(frozen=True)
class GammaPrior:
    """Of a concentration: its shape a and its rate b, both > 0."""

    shape: float = 1.0
    rate: float = 1.0

    def resample(
        self, alpha: float, sizes: IntArray, clusters: IntArray, rng: np.random.Generator
    ) -> float:
        """alpha, given its present value; `sizes` [M >= 1] are n_m of groups that are not empty."""
        rate = self.rate - np.log(rng.beta(alpha + 1, sizes)).sum()
        shapes = self.shape - len(sizes) + clusters.sum() + np.arange(len(sizes) + 1)
        log_weights = mixture_log_weights(shapes, rate, sizes)
        weights = np.exp(log_weights - log_weights.max())
        return float(rng.gamma(rng.choice(shapes, p=weights / weights.sum())) / rate)


def mixture_log_weights(shapes: FloatArray, rate: float, sizes: IntArray) -> FloatArray:
    """Unnormalised log weights of the gammas of these shapes, shape [M + 1]."""
    ordinary = log_symmetric(np.log(sizes))[::-1]  # alpha^s goes with the products of M - s sizes
    return np.asarray(ordinary + gammaln(shapes) - shapes * np.log(rate))


def log_symmetric(log_terms: FloatArray) -> FloatArray:
    """Logs of the elementary symmetric polynomials e_0, ..., e_M of exp(log_terms), [M + 1]."""
    found = np.full(len(log_terms) + 1, -np.inf)
    found[0] = 0.0
    for done, term in enumerate(log_terms):
        found[1 : done + 2] = np.logaddexp(found[1 : done + 2], found[: done + 1] + term)
    return found


def _chosen(tried: FloatArray, log_weights: FloatArray, rng: np.random.Generator) -> FloatArray:
    """One of the values along the first axis, for each place of the others."""
    best = (log_weights + rng.gumbel(size=log_weights.shape)).argmax(axis=0)
    return np.asarray(np.take_along_axis(tried, best[None], axis=0)[0])


_LEAST = 1e-6
"""Of a re-estimated mean or variance of precisions, so that a gamma of them exists."""


@dataclass(frozen=True)
class Scdp:
    """A model; the defaults are those of model 1.

    Without priors, concentrations (and types) stay as they start. A power below 1 counts each
    reference as part of one: a coarsened posterior, for data that the normal density does not fit,
    with fewer publications.
    """

    variance: float = 1.0  # sigma, of the means' base density
    shape: float = 1.0  # a, of the precisions' gamma
    rate: float = 1.0  # b
    separation: Separation | None = None  # s of model 3; None is s = 1
    reestimated: bool = False  # a and b follow the means: model 2
    shared: bool = False  # references to be grouped may join the labelled publications
    auxiliaries: int = 8  # of an opening, and candidates of an independence sampler
    publications: GammaPrior | None = field(default_factory=GammaPrior)  # of alpha_p
    types: GammaPrior | None = field(default_factory=GammaPrior)  # of alpha_t, likewise
    power: float = 1.0  # of the likelihood, in (0, 1]
    proposals: int = 10  # splits and merges a sweep, each of publications and types


SCDP1 = Scdp()
SCDP2 = Scdp(reestimated=True)
SCDP3 = Scdp(separation=Near())
UNTRAINED = Scdp(publications=None, types=None)
"""The paper's CDP: started with one type of precisions 1 and alpha 1, and no labelled ones."""


def variant(model: int, rate: float, power: float) -> Scdp:
    """The model of a number; the rate is that of model 3's separation."""
    published = {1: SCDP1, 2: SCDP2, 3: replace(SCDP3, separation=Near(rate))}[model]
    return replace(published, power=power)


@dataclass(frozen=True)
class ChainState:
    """Of a chain.

    Attributes:
        publication: c, shape [n].
        means: p, shape [K, F]; those of labelled publications come first.
        kind: d, shape [n].
        types: t, shape [L, F].
        alpha_p: of publications.
        alpha_t: of types.

    """

    publication: IntArray
    means: FloatArray
    kind: IntArray
    types: FloatArray
    alpha_p: float = 1.0
    alpha_t: float = 1.0


def start(data: References, grouping: IntArray) -> ChainState:
    """One type of precisions 1, and the means of the clusters 0, 1, ..., of which none is empty."""
    publication = data.publication.copy()
    publication[data.test] = data.labelled + grouping
    means = np.stack(
        [data.values[publication == k].mean(axis=0) for k in range(publication.max() + 1)]
    )
    one = np.ones((1, data.values.shape[1]))
    return ChainState(publication, means, np.zeros(len(publication), dtype=np.int64), one)


def sweep(model: Scdp, data: References, state: ChainState, rng: np.random.Generator) -> ChainState:
    """Every variable once."""
    prior = type_prior(model, state.means)
    state = _move_means(model, data, state, rng)
    if model.types is not None:
        state = _move_types(model, data, state, prior, rng)
    state = _choose_publications(model, data, state, rng)
    if model.types is not None:
        state = _choose_types(model, data, state, prior, rng)
    return _draw_concentrations(model, data, state, rng)


def type_prior(model: Scdp, means: FloatArray) -> TypePrior:
    """Of the precisions; model 2's depends on the means as they are."""
    if not model.reestimated or len(means) < 2:
        features = means.shape[1]
        return TypePrior(np.full(features, model.shape), np.full(features, model.rate))
    k = len(means)
    pairs = k * (k - 1) / 2
    centred = means - means.mean(axis=0)
    second, fourth = (np.power(centred, power).sum(axis=0) for power in (2, 4))
    # sums over pairs of the squared distance, and of its square, where the means sum to 0
    square = k * second / pairs
    of_squares = (k * fourth + 3 * second * second) / pairs
    mean = np.maximum(square / 2, _LEAST)
    variance = np.maximum(of_squares - square * square, _LEAST)
    return TypePrior(mean * mean / variance, mean / variance)


def _move_means(
    model: Scdp, data: References, state: ChainState, rng: np.random.Generator
) -> ChainState:
    """New means, one publication after another where they depend on each other."""
    means, precisions = state.means, state.types[state.kind]
    total = model.power * sums(precisions, state.publication, len(means))
    weighted = model.power * sums(precisions * data.values, state.publication, len(means))
    if model.separation is None:
        return replace(state, means=draw_means(weighted, total, model.variance, rng))
    found = means.copy()
    wide = (model.auxiliaries - 1, *means.shape)
    drawn = draw_means(weighted, np.broadcast_to(total, wide), model.variance, rng)
    for k in range(len(means)):
        tried = np.concatenate([found[k][None], drawn[:, k]])
        others = np.delete(found, k, axis=0)
        found[k] = _chosen(tried, model.separation.of_means(tried, others, state.types), rng)
    return replace(state, means=found)


def _move_types(
    model: Scdp, data: References, state: ChainState, prior: TypePrior, rng: np.random.Generator
) -> ChainState:
    """New types, which are independent given the means."""
    types = state.types
    squares = np.square(data.values - state.means[state.publication])
    total = sums(squares, state.kind, len(types))
    counts = np.bincount(state.kind, minlength=len(types))[:, None].astype(np.float64)
    if model.separation is None:
        return replace(state, types=draw_types(total, counts, prior, model.power, rng))
    wide = np.broadcast_to(total, (model.auxiliaries - 1, *total.shape))
    tried = np.concatenate([types[None], draw_types(wide, counts, prior, model.power, rng)])
    log_weights = model.separation.of_types(tried, state.means)
    return replace(state, types=_chosen(tried, log_weights, rng))


def _choose_publications(
    model: Scdp, data: References, state: ChainState, rng: np.random.Generator
) -> ChainState:
    test = data.test
    types = state.types[state.kind[test]]
    opening = MeansOpening(
        data.values[test], types, state.types, model.variance, model.separation, model.power
    )
    labelled = np.arange(len(state.means)) < data.labelled
    known = np.bincount(data.publication[data.publication >= 0], minlength=len(state.means))
    joinable: NDArray[np.bool_] = ~labelled | model.shared
    seats = Seats(state.publication[test], known, joinable, state.means)
    seats = split_merge(seats, opening, state.alpha_p, model.proposals, rng)
    seats = Scan(seats, opening, state.alpha_p, model.auxiliaries, rng).run()
    publication = state.publication.copy()
    publication[test] = seats.of
    return replace(state, publication=publication, means=seats.values)


def _choose_types(
    model: Scdp, data: References, state: ChainState, prior: TypePrior, rng: np.random.Generator
) -> ChainState:
    squares = np.square(data.values - state.means[state.publication])
    opening = TypesOpening(squares, state.means, prior, model.separation, model.power)
    every = len(state.types)
    fixed, joinable = np.zeros(every, dtype=np.int64), np.ones(every, dtype=bool)
    seats = Seats(state.kind, fixed, joinable, state.types)
    seats = split_merge(seats, opening, state.alpha_t, model.proposals, rng)
    seats = Scan(seats, opening, state.alpha_t, model.auxiliaries, rng).run()
    return replace(state, kind=seats.of, types=seats.values)


def _draw_concentrations(
    model: Scdp, data: References, state: ChainState, rng: np.random.Generator
) -> ChainState:
    alpha_p, alpha_t = state.alpha_p, state.alpha_t
    if model.publications is not None:
        group = np.zeros_like(data.group) if model.shared else data.group
        held = np.unique(np.stack([group, state.publication], axis=1), axis=0)[:, 0]
        sizes, clusters = np.bincount(group), np.bincount(held)
        alpha_p = model.publications.resample(alpha_p, sizes, clusters, rng)
    if model.types is not None:
        size, kinds = np.array([len(state.kind)]), np.array([len(state.types)])
        alpha_t = model.types.resample(alpha_t, size, kinds, rng)
    return replace(state, alpha_p=alpha_p, alpha_t=alpha_t)
