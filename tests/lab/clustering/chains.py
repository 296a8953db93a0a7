"""Chains that have begun, and how far what they visit is from the posterior."""

import math
from collections import Counter
from collections.abc import Sequence
from typing import Any

import numpy as np

from kbforge.clustering.rules import DirichletProcess
from kbforge.contracts import Cluster, Fragment, ModelSpec
from kbforge_lab.batch.chain import MakeKernel, MarkovChain
from kbforge_lab.batch.grouping import NEW, Move
from kbforge_lab.batch.grouping import Grouping as State
from tests.clustering.exact import Grouping


def chain_of(
    make_kernel: MakeKernel,
    fragments: Sequence[Fragment],
    spec: ModelSpec,
    rng: np.random.Generator | int = 11,
    start: Sequence[Cluster] | None = None,
) -> tuple[MarkovChain, Any]:
    """A chain that has begun, every fragment by itself unless a start is given, and its kernel."""
    prior, state = DirichletProcess(spec.alpha), State(len(fragments))
    kernel = make_kernel(fragments, spec, state, prior.log_alpha)
    chain = MarkovChain(kernel, state, prior, np.random.default_rng(rng))
    for _ in chain.start(start or [(i,) for i in range(len(fragments))]):
        pass
    return chain, kernel


def groups(state: State) -> Grouping:
    return frozenset(state.cluster(slot) for slot in state.slots())


def bring(chain: MarkovChain, grouping: Grouping) -> None:
    """Bring the chain into a state, by moves that its models are told of."""
    for cluster in sorted(grouping):
        first, *others = cluster
        chain.make(Move((first,), NEW, 0.0))
        for fragment in others:
            chain.make(Move((fragment,), chain.grouping.slot_of[first], 0.0))


def total_variation(states: Counter[Grouping], exact: dict[Grouping, float]) -> float:
    """Between the shares of states and a posterior of log probabilities."""
    return 0.5 * sum(abs(states[z] / states.total() - math.exp(w)) for z, w in exact.items())
