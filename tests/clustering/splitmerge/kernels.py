"""The kernel of MinSM over small problems, with hashes that are given; chains of any kernel."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from kbforge.clustering.batch.chain import MarkovChain
from kbforge.clustering.batch.grouping import Grouping
from kbforge.clustering.batch.splitmerge import (
    AlikeKernel,
    Buckets,
    RandomChoices,
    Rotation,
    SplitMergeGains,
    SplitMergeKernel,
)
from kbforge.clustering.prior import DirichletProcess
from kbforge.contracts import Fragment, Problem

Make = Callable[[Sequence[Fragment], Problem, Grouping, SplitMergeGains], SplitMergeKernel]


def fixed(table: Any) -> Rotation[Any]:
    """One table for ever, already made: nothing is drawn but which of one it is."""
    rotation: Rotation[Any] = Rotation(lambda seed: table, n_fragments=1 << 60, kept=1)
    rotation.next(RandomChoices(np.random.default_rng(0)))
    return rotation


def alike(hashes: Sequence[int]) -> Make:
    buckets = Buckets(np.array(hashes))
    return lambda items, problem, grouping, clusters: AlikeKernel(clusters, fixed(buckets))


def chain_of(
    make: Make, fragments: Sequence[Fragment], problem: Problem, seed: int = 5
) -> tuple[MarkovChain, SplitMergeKernel]:
    """A chain that has begun, every fragment by itself."""
    prior = DirichletProcess(problem.alpha)
    grouping = Grouping(len(fragments))
    clusters = SplitMergeGains(problem.likelihood, fragments, grouping, prior.log_alpha)
    kernel = make(fragments, problem, grouping, clusters)
    chain = MarkovChain(kernel, grouping, prior, np.random.default_rng(seed))
    for _ in chain.start([(i,) for i in range(len(fragments))]):
        pass
    return chain, kernel
