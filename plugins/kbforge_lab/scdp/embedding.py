"""Vectors for references of which only pairwise distances are known.

The paper needs no vectors: all its formulas can be written with relative distances. Classical
scaling gives vectors that have these distances, which comes to the same for whatever does not ask
how the axes lie. What goes by squared distances does not: k-means, and SCDP with one type of equal
precisions (CDP), whose means are centred at the vectors' centre. Precisions by feature do ask. They
see the principal axes of the cloud of references, the longest first, and not features that a user
would name; the log joint density of rotated vectors is another one. Where features have distances
of their own, embed each feature by itself and set the columns side by side, as the paper does with
its string distances.

Source: Torgerson (1952), "Multidimensional scaling: I. Theory and method"; Daumé and Marcu (2005),
section 7.2.
"""

from __future__ import annotations

import numpy as np
from scipy.linalg import eigh

from kbforge.contracts import FloatArray
from kbforge.errors import UsageError

_ALIKE = 1e-9
"""Of the largest distance: what two that should be equal may differ by."""


def embedding(distances: FloatArray, dimensions: int) -> FloatArray:
    """Centred vectors whose Euclidean distances are nearest to these, by classical scaling.

    Distances of points in at most so many dimensions come out as they are. Of others the axes of
    the largest variance are kept, and what no Euclidean space can have is lost.

    Args:
        distances: symmetric, not negative, 0 between a reference and itself, shape [n, n].

    Returns:
        Shape [n, dimensions], the columns in order of falling variance, each with its largest
        entry positive.

    """
    _require_distances(distances)
    n = len(distances)
    if not 1 <= dimensions <= n:
        raise UsageError(f"dimensions: expected 1 to {n}, as many as references, got {dimensions}")
    squares = np.square(distances.astype(np.float64))
    by_row = squares.mean(axis=1)
    products = (by_row[:, None] + by_row - squares - by_row.mean()) / 2
    variances, axes = eigh(products, subset_by_index=[n - dimensions, n - 1])
    if len(variances) < dimensions:  # LAPACK may lose some of many equal ones
        variances, axes = (part[..., -dimensions:] for part in eigh(products))
    rounding = 10 * n * np.finfo(np.float64).eps * squares.max()
    spread = np.where(variances > rounding, variances, 0.0)
    points = (axes * np.sqrt(spread))[:, ::-1]
    largest = points[np.abs(points).argmax(axis=0), np.arange(dimensions)]
    return np.asarray(points * np.where(largest < 0, -1.0, 1.0))


def _require_distances(distances: FloatArray) -> None:
    if distances.ndim != 2 or distances.shape[0] != distances.shape[1] or not len(distances):
        raise UsageError(
            f"distances: expected a row and a column for each reference, got {distances.shape}"
        )
    if not np.isfinite(distances).all():
        raise UsageError(f"distances: {_at(~np.isfinite(distances))} is not finite")
    if (distances < 0).any():
        raise UsageError(f"distances: {_at(distances < 0)} is negative")
    slack = _ALIKE * float(distances.max())
    if (np.abs(distances.diagonal()) > slack).any():
        row = int(np.abs(distances.diagonal()).argmax())
        raise UsageError(f"distances: that of reference {row} and itself is not 0")
    apart = np.abs(distances - distances.T)
    if (apart > slack).any():
        raise UsageError(f"distances: {_at(apart > slack)} is another one the other way round")


def _at(wrong: np.ndarray) -> str:
    row, column = np.argwhere(wrong)[0].tolist()
    return f"that of references {row} and {column}"
