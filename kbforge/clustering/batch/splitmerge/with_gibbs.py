"""Split-merge moves and Gibbs sampling by turns.

Split-merge moves change clusters, and Gibbs sampling puts right single fragments that they left in
the wrong one. Each leaves the posterior as it is, so doing one after the other does, too.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence

import numpy as np

from kbforge.clustering.batch.grouping import Grouping
from kbforge.clustering.batch.kernels import GibbsKernel, Kernel
from kbforge.clustering.batch.moves import Move
from kbforge.clustering.batch.splitmerge.kernel import SplitMergeKernel


class WithGibbs(Kernel):
    """A sweep of split-merge moves, then some sweeps of Gibbs sampling.

    Args:
        first: splits and merges.
        gibbs: moves single fragments, and places them at the start.
        sweeps: of Gibbs sampling after each sweep of the other; perhaps none.

    """

    def __init__(self, first: SplitMergeKernel, gibbs: GibbsKernel, sweeps: int) -> None:
        super().__init__(*dict.fromkeys([*first.models, *gibbs.models]))
        self._first, self._gibbs, self._sweeps = first, gibbs, sweeps

    def propose(self, grouping: Grouping, rng: np.random.Generator) -> Move:
        """A split or a merge."""
        return self._first.propose(grouping, rng)

    def sweep(self, grouping: Grouping, rng: np.random.Generator) -> Iterator[Move]:
        """One sweep of each, and so on."""
        yield from self._first.sweep(grouping, rng)
        for _ in range(self._sweeps):
            yield from self._gibbs.sweep(grouping, rng)

    def place(self, grouping: Grouping, fragment: int, u: Sequence[float]) -> Move:
        """By Gibbs sampling."""
        return self._gibbs.place(grouping, fragment, u)
