"""Offline clusterers: collapsed Gibbs, Metropolis within Gibbs, and agglomerative merges.

Gibbs is algorithm 3 of Neal (2000); Metropolis with a surrogate's proposals and merges by the
Bayesian merge statistic are in appendix D.1 of the split-SMC paper. They start with every fragment
by itself, with all in one cluster, or from an earlier run. Samplers share their options and the run
of a chain; they differ in its kernel.
"""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Sequence
from functools import cached_property
from typing import Any

import numpy as np

from kbforge.clustering.scoring import without_model
from kbforge.contracts import (
    Clusterer,
    Features,
    Fragment,
    Likelihood,
    ModelSpec,
    OnStep,
    Posterior,
)
from kbforge.errors import UsageError
from kbforge_lab.batch.agglomerate import agglomerate
from kbforge_lab.batch.chain import (
    ChainRules,
    GibbsKernel,
    MetropolisKernel,
    TransitionKernel,
    run_chain,
)
from kbforge_lab.batch.grouping import Grouping
from kbforge_lab.batch.grouping_model import GroupingModel, SetModel, model_of, table_model
from kbforge_lab.batch.run import require_positive
from kbforge_lab.batch.splitmerge import (
    AlikeKernel,
    Buckets,
    Rotation,
    SplitMergeGains,
    SplitMergeKernel,
    WithGibbs,
)
from kbforge_lab.batch.starts import (
    ONE,
    SEQUENTIAL,
    SINGLETONS,
    chain_start,
    groups_from,
    require_start,
)
from kbforge_lab.hashing import features_of
from kbforge_lab.minhash import Amounts


class Agglomerative(Clusterer):
    """Make the merge with the largest gain of probability, until no merge has a gain.

    All pairs of clusters are compared; only those that the last merge changed are scored again.
    This takes 8 bytes for each pair of fragments. With a surrogate, the likelihood scores only the
    max-evals pairs with the largest gain by the surrogate. The result is one grouping without
    alternatives.

    Args:
        batch: compare this many random pairs at a time, and stop after 100 batches in a row without
            a gain; by default compare all pairs. With batches, a surrogate is not used.
        start: `singletons` starts with every fragment by itself; a file from `kbforge cluster`,
            even of an interrupted run, starts with its groups.
        budget: stop after this many seconds (the result then depends on the machine); by default
            there is no limit.

    """

    unindexed = True

    def __init__(
        self, batch: int | None = None, start: str = SINGLETONS, budget: float | None = None
    ) -> None:
        self._start = require_start(start, SINGLETONS)
        require_positive(batch=batch, budget=budget)
        self._batch, self._budget = batch, budget

    def cluster(
        self,
        fragments: Sequence[Fragment],
        spec: ModelSpec,
        rng: np.random.Generator,
        on_step: OnStep | None = None,
    ) -> Posterior:
        start = groups_from(self._start, fragments)
        return agglomerate(fragments, spec, start, rng, self._batch, self._budget, on_step)


class ChainSampler(Clusterer):
    """A Markov chain over groupings."""

    unindexed = True

    def __init__(
        self,
        particles: int = 100,
        start: str = SINGLETONS,
        patience: int | None = 500,
        sweeps: int | None = None,
        budget: float | None = None,
    ) -> None:
        """Take what every sampler takes.

        Args:
            particles: P, the maximum number of groupings kept for a subproblem. Clusters that at
                least one visit in P joins are one subproblem.
            start: `singletons` starts with every fragment by itself; `sequential` draws a cluster
                for each fragment, given the fragments before; `one` starts with one cluster; a file
                from `kbforge cluster`, even of an interrupted run, starts with its groups.
            patience: stop after this many sweeps without a more probable grouping; `none` sets no
                limit.
            sweeps: stop after this many sweeps; `none` sets no limit.
            budget: stop after this many seconds (the result then depends on the machine); `none`
                sets no limit.

        """
        self.particles = particles
        self._start = require_start(start, SINGLETONS, SEQUENTIAL, ONE)
        self._rules = ChainRules(patience, sweeps, budget, particles)

    @abstractmethod
    def make_kernel(
        self, fragments: Sequence[Fragment], spec: ModelSpec, grouping: Grouping, log_alpha: float
    ) -> TransitionKernel:
        """See `kbforge_lab.batch.chain.MakeKernel`."""

    def cluster(
        self,
        fragments: Sequence[Fragment],
        spec: ModelSpec,
        rng: np.random.Generator,
        on_step: OnStep | None = None,
    ) -> Posterior:
        start = chain_start(self._start, fragments)
        return run_chain(fragments, spec, self.make_kernel, self._rules, start, rng, on_step)


class Gibbs(ChainSampler):
    """Gibbs sampling: move one fragment at a time, in random order.

    Each fragment is taken out and placed by a draw from the posterior given all others. The second
    half of the sweeps is the sample; its most probable grouping is the point estimate. A black box
    scores every cluster with every fragment; a surrogate is not used (`metropolis` uses it), except
    that `--set max-evals=0` clusters by the surrogate alone.
    """

    @staticmethod
    def make_kernel(
        fragments: Sequence[Fragment], spec: ModelSpec, grouping: Grouping, log_alpha: float
    ) -> GibbsKernel:
        model = model_of(without_model(spec).likelihood, fragments, grouping)
        return GibbsKernel(model, log_alpha)


class Metropolis(ChainSampler):
    """Sampling for expensive likelihoods: each move scores one or two sets.

    The surrogate proposes another cluster for a fragment, and the likelihood accepts or rejects it.
    Without a surrogate the prior proposes, which is correct but slow with many clusters: name a
    surrogate, or use `gibbs`. max-evals has no effect, except that 0 clusters by the surrogate
    alone.

    Args:
        start: `singletons` starts with every fragment by itself; `sequential` draws a cluster for
            each fragment from the surrogate, given the fragments before; `one` starts with one
            cluster; a file from `kbforge cluster`, even of an interrupted run, starts with its
            groups.

    """

    @staticmethod
    def make_kernel(
        fragments: Sequence[Fragment], spec: ModelSpec, grouping: Grouping, log_alpha: float
    ) -> TransitionKernel:
        if spec.max_evals == 0:  # a surrogate that accepts its own proposals is a Gibbs sampler
            surrogate = without_model(spec).likelihood
            return GibbsKernel(model_of(surrogate, fragments, grouping), log_alpha)
        model = SetModel(spec.likelihood, fragments, grouping)
        proposal = None
        if spec.surrogate is not None:
            proposal = table_model(spec.surrogate, fragments, grouping)
        return MetropolisKernel(model, proposal, log_alpha)


class KernelInput:
    """What a split-merge kernel is made of: fragments, their grouping, and models of it."""

    def __init__(
        self,
        fragments: Sequence[Fragment],
        likelihood: Likelihood,
        grouping: Grouping,
        log_alpha: float,
    ) -> None:
        self.fragments, self.likelihood, self._grouping = fragments, likelihood, grouping
        self.clusters = SplitMergeGains(likelihood, fragments, grouping, log_alpha)

    @cached_property
    def model(self) -> GroupingModel:
        """A model of the gains of single fragments, shared by all that need one."""
        return model_of(self.likelihood, self.fragments, self._grouping)


class SplitMerge(ChainSampler):
    """A chain that splits and merges clusters.

    Args:
        moves: number of splits and merges that a sweep proposes; `none` is the number of fragments.
        gibbs: sweeps of Gibbs sampling, over single fragments, after each sweep of splits and
            merges.

    """

    def __init__(self, moves: int | None = None, gibbs: int = 0, **chain: Any) -> None:
        super().__init__(**chain)
        require_positive(moves=moves)
        if gibbs < 0:
            raise UsageError(f"gibbs: must not be negative, got {gibbs}")
        self._moves, self._gibbs = moves, gibbs

    def make_kernel(
        self, fragments: Sequence[Fragment], spec: ModelSpec, grouping: Grouping, log_alpha: float
    ) -> TransitionKernel:
        ground = KernelInput(fragments, without_model(spec).likelihood, grouping, log_alpha)
        kernel = self.splitting(ground)
        if not self._gibbs and self._start != SEQUENTIAL:
            return kernel
        return WithGibbs(kernel, GibbsKernel(ground.model, log_alpha), self._gibbs)

    @abstractmethod
    def splitting(self, ground: KernelInput) -> SplitMergeKernel:
        """The kernel of the splits and merges."""


class MinSm(SplitMerge):
    """Split off fragments with the same hash, and merge clusters that share a hash.

    Similar fragments often have the same hash. The cost of a proposal grows with the clusters that
    it changes, and with nothing else. Hashes are of vectors, or of the n-grams that a likelihood of
    text reads.

    Args:
        rows: K, MinHashes of a hash. More of them separate many clusters better.
        hashes: number of hash functions to choose from; a new one replaces the oldest after as many
            moves as there are fragments.
        standardised: whether, before vectors are hashed, their median is subtracted and each
            dimension is divided by the spread of its values.

    """

    def __init__(
        self, rows: int = 1, hashes: int = 10, standardised: bool = True, **chain: Any
    ) -> None:
        super().__init__(**chain)
        require_positive(rows=rows, hashes=hashes)
        self._rows, self._hashes = rows, hashes
        self._standardised = standardised

    def splitting(self, ground: KernelInput) -> AlikeKernel:
        features = features_of(ground.fragments, ground.likelihood, self._standardised)
        tables = hash_tables(features, self._rows, self._hashes)
        return AlikeKernel(ground.clusters, tables, self._moves)


def hash_tables(features: Features, rows: int, hashes: int) -> Rotation[Buckets]:
    """Tables of hashes to take in turn, each hash of so many MinHashes."""
    amounts = Amounts(features)
    return Rotation(
        lambda seed: Buckets(amounts.firsts(seed, rows)), len(features.starts) - 1, hashes
    )
