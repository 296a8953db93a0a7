"""The clusters of pairs of a run in the compiled kernel, and how rows are told to it."""

from __future__ import annotations

import weakref
from collections.abc import Sequence
from ctypes import CDLL

import numpy as np

from kbforge.contracts import Encoded, Fragment
from kbforge.kernel.binding import address
from kbforge_plugins.models.pairs.odds import APART, UNITS, Odds
from kbforge_plugins.models.pairs.strings import starts_of


class CompiledPairs:
    """See `kbforge.contracts.CompiledClusters`.

    Args:
        kernel: the library.
        odds: of pairs; shared by all tables of a likelihood.

    Attributes:
        handle: address of the kernel's table.

    """

    def __init__(self, kernel: CDLL, odds: Odds) -> None:
        self._kernel, self._odds = kernel, odds
        self._arrays = odds.links.arrays  # the kernel reads them as long as the table lives
        self._told = len(odds.links.own)
        self.handle: int = kernel.kb_pairs_new(
            self._told, *map(address, self._arrays), APART, float(UNITS)
        )
        self._finalizer = weakref.finalize(self, kernel.kb_table_free, self.handle)

    def encode(self, fragments: Sequence[Fragment]) -> Encoded:
        """See `kbforge.contracts.CompiledClusters`."""
        odds = self._odds
        rows = np.array([odds.encode(fragment) for fragment in fragments], dtype=np.int32)
        starts = np.arange(len(rows) + 1)
        first, self._told = self._told, odds.n_rows
        # of each new row what is near among those before it, so that a pair is told once
        near = [
            [(other, above) for other, above in odds.near(row).items() if other <= row]
            for row in range(first, self._told)
        ]
        sizes = np.array([len(some) for some in near], dtype=np.int64)
        pairs = np.array([one for some in near for one in some], dtype=np.int32).reshape(-1, 2)
        told = first, starts_of(sizes), *pairs.T.copy()
        return Encoded(starts, np.zeros(len(rows), np.int32), rows, told)

    def tell(self, encoded: Encoded) -> None:
        """See `kbforge.contracts.CompiledClusters`."""
        first, starts, *arrays = encoded.new
        n = len(starts) - 1
        self._kernel.kb_pairs_rows(self.handle, first, n, address(starts), *map(address, arrays))
