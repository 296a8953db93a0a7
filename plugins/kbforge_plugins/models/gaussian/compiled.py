"""The Gaussian clusters of a run in the compiled kernel, and how points are told to it."""

from __future__ import annotations

import weakref
from collections.abc import Sequence
from ctypes import CDLL

import numpy as np

from kbforge.contracts import Encoded, Fragment
from kbforge.kernel.binding import address
from kbforge.numerics.arrays import capacity_for
from kbforge_plugins.models.gaussian.prior import NormalInverseGamma, PlacedPrior


class CompiledGaussian:
    """See `kbforge.contracts.CompiledClusters`.

    Args:
        kernel: the library.
        prior: of the clusters.

    Attributes:
        handle: address of the kernel's table.

    """

    def __init__(self, kernel: CDLL, prior: NormalInverseGamma) -> None:
        self._kernel, self._prior = kernel, prior
        self.handle: int = kernel.kb_gaussian_new()
        self._finalizer = weakref.finalize(self, kernel.kb_table_free, self.handle)
        self._placed: PlacedPrior | None = None
        self._begun = False
        self._points = self._sizes = 0

    def encode(self, fragments: Sequence[Fragment]) -> Encoded:
        """See `kbforge.contracts.CompiledClusters`."""
        if self._placed is None and fragments:
            self._placed = PlacedPrior.by_first(self._prior, fragments[0])
        placed = self._placed
        points = placed.relative(fragments) if placed else np.zeros((0, 0))
        starts = np.arange(len(points) + 1)
        numbers = np.arange(self._points, self._points + len(points), dtype=np.int32)
        first, self._points = self._points, self._points + len(points)
        return Encoded(starts, np.zeros(len(points), np.int32), numbers, (first, points))

    def tell(self, encoded: Encoded) -> None:
        """See `kbforge.contracts.CompiledClusters`."""
        first, points = encoded.new
        if not len(points):
            return
        placed = self._placed
        assert placed is not None
        if not self._begun:
            self._begin(placed)
        if first + len(points) >= self._sizes:  # a cluster may hold all points
            self._sizes = capacity_for(first + len(points) + 1, self._sizes)
            ratios = placed.log_gamma_ratios(np.arange(self._sizes))
            self._kernel.kb_gaussian_sizes(self.handle, len(ratios), address(ratios))
        self._kernel.kb_gaussian_points(self.handle, first, len(points), address(points))

    def _begin(self, placed: PlacedPrior) -> None:
        ends = np.array([run.stop for run in placed.runs], dtype=np.int64)
        prior = placed.a, placed.b, placed.lam, placed.centre
        self._kernel.kb_gaussian_begin(
            self.handle, len(placed.origin), len(ends), address(ends), *map(address, prior)
        )
        self._begun = True
