"""A chain from start to end, what it remembers, and whether several chains have met.

Source of the scale reduction: Gelman, Carlin, Stern, Dunson, Vehtari and Rubin, "Bayesian Data
Analysis", third edition, section 11.4: each chain is split into halves.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from kbforge.clustering.supervised.joint import log_joint
from kbforge.clustering.supervised.references import References
from kbforge.clustering.supervised.sampler import Scdp, State, sweep
from kbforge.contracts import FloatArray, IntArray


@dataclass(frozen=True)
class Trace:
    """What a chain was like after some of its sweeps, S in all.

    Attributes:
        groupings: publications of the references to be grouped, shape [S, m].
        log_joint: nats, shape [S].
        publications: how many of those they have, shape [S].
        types: how many there are, shape [S].
        alpha_p: shape [S].
        alpha_t: shape [S].

    """

    groupings: IntArray
    log_joint: FloatArray
    publications: IntArray
    types: IntArray
    alpha_p: FloatArray
    alpha_t: FloatArray


def run(
    model: Scdp, data: References, state: State, sweeps: int, kept: int, rng: np.random.Generator
) -> tuple[State, Trace]:
    """The last state, and the trace of the second half of the sweeps.

    Args:
        model: any.
        data: all references.
        state: the first.
        sweeps: how many, at least 2.
        kept: how many sweeps of the second half to remember, at least 1, evenly spread.
        rng: of all draws.

    """
    remembered = np.unique(np.linspace(sweeps // 2, sweeps - 1, kept).astype(np.int64)).tolist()
    states: list[State] = []
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


def scale_reduction(chains: Sequence[FloatArray]) -> float:
    """Split R-hat: 1 if all halves of the chains look alike, far above it if they do not.

    Args:
        chains: the same quantity of each, of equal length, at least 4.

    """
    length = len(chains[0]) // 2
    halves = np.stack([half for chain in chains for half in (chain[:length], chain[-length:])])
    within = halves.var(axis=1, ddof=1).mean()
    between = halves.mean(axis=1).var(ddof=1)
    return float(np.sqrt((length - 1) / length + between / within))
