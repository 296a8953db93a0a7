"""Runs chains side by side, and chooses a model by them.

A trace of the unnormalised log joint density shows whether chains that started differently have met
(`kbforge_lab.convergence`). In an annealed warm-up the likelihood has a power that grows to the
model's own, so that a chain forgets its start (Kirkpatrick, Gelatt and Vecchi 1983, "Optimization
by simulated annealing"). What a model leaves free (the power of its likelihood, its separation) is
chosen by how well hidden labelled publications are recovered.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from functools import partial

import numpy as np
from scipy.special import gammaln

from kbforge.contracts import FloatArray, IntArray
from kbforge_lab.pool import in_processes
from kbforge_lab.scdp.references import References, references
from kbforge_lab.scdp.sampler import ChainState, Scdp, sweep, type_prior

_LOG_2PI = float(np.log(2 * np.pi))


def log_joint(model: Scdp, data: References, state: ChainState) -> float:
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


@dataclass(frozen=True)
class Trace:
    """What a chain was like after S of its sweeps."""

    groupings: IntArray  # of the references to be grouped, [S, m]
    log_joint: FloatArray  # nats, [S]
    publications: IntArray  # their number, [S]
    types: IntArray  # their number, [S]
    alpha_p: FloatArray  # [S]
    alpha_t: FloatArray  # [S]


def run(
    model: Scdp,
    data: References,
    state: ChainState,
    sweeps: int,
    kept: int,
    rng: np.random.Generator,
) -> tuple[ChainState, Trace]:
    """The last state, and the trace of the second half of the sweeps."""
    remembered = np.unique(np.linspace(sweeps - 1, sweeps // 2, kept).astype(np.int64)).tolist()
    states: list[ChainState] = []
    for i in range(sweeps):
        state = sweep(model, data, state, rng)
        if i == remembered[len(states)]:
            states.append(state)
    groupings = np.stack([each.publication[data.test] for each in states])
    trace = Trace(
        groupings,
        np.array([log_joint(model, data, each) for each in states]),
        np.array([len(np.unique(grouping)) for grouping in groupings]),
        np.array([len(each.types) for each in states]),
        np.array([each.alpha_p for each in states]),
        np.array([each.alpha_t for each in states]),
    )
    return state, trace


def run_several(
    model: Scdp,
    data: References,
    starts: Sequence[ChainState],
    sweeps: int,
    kept: int,
    seed: int,
) -> list[tuple[ChainState, Trace]]:
    """What `run` gives of several chains, each in a process and with random numbers of its own."""
    streams = np.random.SeedSequence(seed).spawn(len(starts))
    chains = zip(starts, map(np.random.default_rng, streams), strict=True)
    return list(in_processes(partial(_run_one, model, data, sweeps, kept), chains))


def _run_one(
    model: Scdp,
    data: References,
    sweeps: int,
    kept: int,
    chain: tuple[ChainState, np.random.Generator],
) -> tuple[ChainState, Trace]:
    state, rng = chain
    return run(model, data, state, sweeps, kept, rng)


_LEAST = 0.02
"""Of the model's power, in the first sweep."""


def warmed_up(
    model: Scdp, data: References, state: ChainState, sweeps: int, rng: np.random.Generator
) -> ChainState:
    """A state to start a chain from."""
    for share in np.geomspace(_LEAST, 1.0, sweeps):
        state = sweep(replace(model, power=model.power * float(share)), data, state, rng)
    return state


Trial = Callable[[Scdp, References], IntArray]
"""Groupings that a model finds of the references to be grouped, shape [S, m]."""

Score = Callable[[IntArray, IntArray], float]
"""Of a grouping, given the right one; the larger the better."""


def hidden_in_turn(
    train: FloatArray, labels: IntArray, count: int
) -> Iterator[tuple[References, IntArray]]:
    """Problems with labelled publications hidden, as many as publications, and their solutions."""
    known = np.unique(labels)
    for first in range(len(known)):
        hidden = np.isin(labels, np.roll(known, -first)[:count])
        yield references(train[~hidden], labels[~hidden], train[hidden]), labels[hidden]


def scored(
    models: Sequence[Scdp],
    train: FloatArray,
    labels: IntArray,
    count: int,
    trial: Trial,
    score: Score,
) -> FloatArray:
    """What each model scores on hidden publications, shape [models].

    A score that rewards one large cluster misleads, as fewer publications are hidden than unknown;
    the adjusted Rand index does not.
    """
    found = np.zeros(len(models))
    for data, gold in hidden_in_turn(train, labels, count):
        for i, model in enumerate(models):
            found[i] += np.mean([score(grouping, gold) for grouping in trial(model, data)])
    return found / len(np.unique(labels))
