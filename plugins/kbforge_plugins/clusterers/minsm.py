"""Split-merge sampling by weighted MinHash (Luo and Shrivastava 2018), offline."""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Sequence
from functools import cached_property

from kbforge.clustering.batch.chain import GibbsKernel, Kernel
from kbforge.clustering.batch.grouping import Grouping
from kbforge.clustering.batch.grouping_model import GroupingModel, model_of
from kbforge.clustering.batch.splitmerge.alike import AlikeKernel, Buckets, Rotation
from kbforge.clustering.batch.splitmerge.clusters import SplitMergeGains
from kbforge.clustering.batch.splitmerge.kernel import SplitMergeKernel, WithGibbs
from kbforge.clustering.online.scoring import without_model
from kbforge.contracts import Features, Fragment, Likelihood, Problem
from kbforge.errors import UsageError
from kbforge_plugins.clusterers.offline import SEQUENTIAL, SINGLETONS, ChainSampler
from kbforge_plugins.indexes.features import features_of
from kbforge_plugins.indexes.minhash import Amounts


class KernelInput:
    """What a kernel is made of: fragments, their grouping, and models of it.

    Args:
        fragments: all of them.
        likelihood: L.
        grouping: of the fragments.
        log_alpha: of the prior.

    Attributes:
        clusters: of the grouping.

    """

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
        """That says what single fragments gain; one, whoever needs it."""
        return model_of(self.likelihood, self.fragments, self._grouping)


class SplitMerge(ChainSampler):
    """A chain that splits and merges clusters."""

    def __init__(
        self,
        particles: int = 100,
        start: str = SINGLETONS,
        patience: int | None = 500,
        sweeps: int | None = None,
        budget: float | None = None,
        moves: int | None = None,
        gibbs: int = 0,
    ) -> None:
        """Take what every split-merge sampler takes.

        Args:
            particles: P, the most groupings of a subproblem that are kept of the sample;
                subproblems are what fewer than one visit in P connects.
            start: `singletons` starts with every fragment by itself; `sequential` draws each one's
                place given those before it; `one` starts with one cluster; a file that `kbforge
                cluster` wrote, be it of an interrupted run, starts with its groups.
            patience: stop after so many sweeps without a more probable grouping; `none` never does.
            sweeps: stop after so many sweeps; `none` never does.
            budget: stop after so many seconds, which makes the result depend on the machine; `none`
                never does.
            moves: splits and merges that a sweep proposes; `none` is as many as there are
                fragments.
            gibbs: sweeps of Gibbs sampling, over single fragments, after each sweep.

        """
        super().__init__(particles, start, patience, sweeps, budget)
        if moves is not None and moves < 1:
            raise UsageError(f"moves: expected a number above 0, got {moves}")
        if gibbs < 0:
            raise UsageError(f"gibbs: must not be negative, got {gibbs}")
        self._moves, self._gibbs = moves, gibbs

    def make_kernel(
        self, fragments: Sequence[Fragment], problem: Problem, grouping: Grouping, log_alpha: float
    ) -> Kernel:
        """Splits and merges, and Gibbs sampling where it is asked for or places fragments."""
        ground = KernelInput(fragments, without_model(problem).likelihood, grouping, log_alpha)
        kernel = self.splitting(ground)
        if not self._gibbs and self._start != SEQUENTIAL:
            return kernel
        return WithGibbs(kernel, GibbsKernel(ground.model, log_alpha), self._gibbs)

    @abstractmethod
    def splitting(self, ground: KernelInput) -> SplitMergeKernel:
        """The kernel of the splits and merges."""


def require_tables(**options: int) -> None:
    """Refuse numbers of tables, rows or hashes below 1.

    Raises:
        UsageError: the first that is.

    """
    for name, value in options.items():
        if value < 1:
            raise UsageError(f"{name}: expected a number above 0, got {value}")


class MinSm(SplitMerge):
    """Split off fragments with the same hash, and merge clusters that share a hash.

    Similar fragments often have the same hash. The cost of a proposal grows with the clusters that
    it changes, and with nothing else. Hashes are of vectors, or of the n-grams that a likelihood of
    text reads.

    Args:
        rows: K, MinHashes of a hash. More of them separate many clusters better.
        hashes: number of hash functions to choose from; a new one replaces the oldest after as many
            moves as there are fragments.
        standardised: whether vectors are taken from their median, and each dimension is divided by
            the spread of its values, before they are hashed.

    """

    def __init__(
        self,
        particles: int = 100,
        start: str = SINGLETONS,
        patience: int | None = 500,
        sweeps: int | None = None,
        budget: float | None = None,
        moves: int | None = None,
        gibbs: int = 0,
        rows: int = 1,
        hashes: int = 10,
        standardised: bool = True,
    ) -> None:
        super().__init__(particles, start, patience, sweeps, budget, moves, gibbs)
        require_tables(rows=rows, hashes=hashes)
        self._rows, self._hashes = rows, hashes
        self._standardised = standardised

    def splitting(self, ground: KernelInput) -> AlikeKernel:
        """See `SplitMerge`."""
        tables = self.tables(self.features(ground))
        return AlikeKernel(ground.clusters, tables, self._moves)

    def features(self, ground: KernelInput) -> Features:
        """What is hashed of the fragments."""
        return features_of(ground.fragments, ground.likelihood, self._standardised)

    def tables(self, features: Features) -> Rotation[Buckets]:
        """The hash tables to take in turn."""
        amounts = Amounts(features)
        return Rotation(
            lambda seed: Buckets(amounts.firsts(seed, self._rows)),
            len(features.starts) - 1,
            self._hashes,
        )
