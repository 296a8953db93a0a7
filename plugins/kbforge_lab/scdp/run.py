"""A chain from start to end, what it remembers, and several chains side by side.

Whether they have met is what `kbforge_lab.convergence` says of their traces.
"""

from __future__ import annotations

import multiprocessing
from collections.abc import Sequence
from concurrent.futures import ProcessPoolExecutor
from dataclasses import dataclass

import numpy as np

from kbforge.contracts import FloatArray, IntArray
from kbforge_lab.scdp.joint import log_joint
from kbforge_lab.scdp.references import References
from kbforge_lab.scdp.sampler import Scdp, State, sweep


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
    """The last state, and the trace of the second half of the sweeps."""
    remembered = np.unique(np.linspace(sweeps - 1, sweeps // 2, kept).astype(np.int64)).tolist()
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


def run_several(
    model: Scdp,
    data: References,
    starts: Sequence[State],
    sweeps: int,
    kept: int,
    seed: int,
    workers: int = 1,
) -> list[tuple[State, Trace]]:
    """What `run` gives of several chains, which is the same for any number of workers."""
    streams = np.random.SeedSequence(seed).spawn(len(starts))
    chains = [
        (model, data, start, sweeps, kept, np.random.default_rng(stream))
        for start, stream in zip(starts, streams, strict=True)
    ]
    if workers == 1:
        return [run(*chain) for chain in chains]
    fresh = multiprocessing.get_context("spawn")
    with ProcessPoolExecutor(min(workers, len(chains)), fresh) as pool:
        return list(pool.map(run, *zip(*chains, strict=True)))
