"""The counts of a run in the compiled kernel, and how rows are told to it."""

from __future__ import annotations

import weakref
from collections.abc import Sequence
from ctypes import CDLL
from typing import Any

import numpy as np

from kbforge.contracts import Encoded, Fragment
from kbforge.kernel.binding import FACTORS, address
from kbforge_plugins.models.dirichlet.rows import DirichletRows

_TOLD = 24
"""Counts of a row whose factors the kernel is told at first; it asks for those of larger ones."""


class CompiledRows:
    """See `kbforge.contracts.CompiledClusters`.

    Args:
        kernel: the library.
        rows: of the fragments, which no fragment counts in 2^31 times.

    Attributes:
        handle: address of the kernel's table.

    """

    def __init__(self, kernel: CDLL, rows: DirichletRows) -> None:
        self._kernel, self._rows = kernel, rows
        self._asked = FACTORS(self._more)  # the kernel calls it as long as the table lives
        self.handle: int = kernel.kb_counts_new(self._asked)
        self._finalizer = weakref.finalize(self, kernel.kb_table_free, self.handle)
        self._told = 0

    def encode(self, fragments: Sequence[Fragment]) -> Encoded:
        """See `kbforge.contracts.CompiledClusters`."""
        starts, rows, counts = self._rows.entries_of(fragments)
        first, self._told = self._told, self._rows.size
        new = np.arange(first, self._told)[:, None]
        factors = self._rows.factors(new, np.arange(_TOLD))
        return Encoded(starts, rows, counts, (first, factors))

    def tell(self, encoded: Encoded) -> None:
        """See `kbforge.contracts.CompiledClusters`."""
        first, factors = encoded.new
        self._kernel.kb_counts_rows(self.handle, first, *factors.shape, address(factors))

    def _more(self, row: int, begin: int, n: int, out: Any) -> None:
        factors = self._rows.factors(np.array(row), np.arange(begin, begin + n))
        np.ctypeslib.as_array(out, (n,))[:] = factors
