"""References: vectors to group, and labelled ones with their publications.

Source: Daumé and Marcu (2005), "A Bayesian model for supervised clustering with the Dirichlet
process prior", JMLR 6, section 3; its words are kept here. A *reference* is a vector, its
*publication* is the cluster that it belongs to, and its *type* says how such vectors scatter around
their publications. Labelled references inform only the types, unless publications are shared.

Where only pairwise distances are known, classical scaling gives vectors that have them (Torgerson
1952, "Multidimensional scaling: I. Theory and method"; section 7.2 of the paper). Precisions by
feature then see the principal axes, not features that a user would name: embed features that have
distances of their own separately, and set the columns side by side.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from scipy.linalg import eigh

from kbforge.contracts import FloatArray, IntArray
from kbforge.errors import UsageError

UNKNOWN = -1
"""The publication of a reference that is to be grouped."""


@dataclass(frozen=True)
class References:
    """What a sampler is given.

    References of a labelled group (a document, say) are grouped among themselves, by a Dirichlet
    process of their own.
    """

    values: FloatArray  # [n, F]
    publication: IntArray  # 0, 1, ... of the labelled ones, else `UNKNOWN`, [n]
    group: IntArray  # 0, 1, ..., [n]

    @property
    def test(self) -> IntArray:
        """The rows that are to be grouped, ascending."""
        return np.flatnonzero(self.publication == UNKNOWN)

    @property
    def labelled(self) -> int:
        """How many publications the labels name."""
        return int(self.publication.max(initial=UNKNOWN)) + 1


def references(
    train: FloatArray, labels: IntArray, test: FloatArray, groups: IntArray | None = None
) -> References:
    """Labelled references [n, F], by any whole numbers, then those to be grouped [m, F]."""
    if train.ndim != 2 or test.ndim != 2 or train.shape[1] != test.shape[1]:
        raise UsageError(
            "labelled references and those to be grouped: expected rows of the same features, got "
            f"the shapes {train.shape} and {test.shape}"
        )
    groups = np.zeros(len(train), dtype=np.int64) if groups is None else groups
    if not len(train) == len(labels) == len(groups):
        raise UsageError(
            f"labelled references: {len(train)} rows, {len(labels)} labels, {len(groups)} groups"
        )
    if not len(test):
        raise UsageError("references to be grouped: there are none")
    values = np.concatenate([train, test]).astype(np.float64)
    if not np.isfinite(values).all():
        raise UsageError("references: a value is not finite")
    _, group = np.unique(groups, return_inverse=True)
    pairs = np.stack([group, labels], axis=1)
    _, publication = np.unique(pairs, axis=0, return_inverse=True)
    unknown = np.full(len(test), UNKNOWN)
    own = np.full(len(test), int(group.max(initial=-1)) + 1)
    return References(
        values,
        np.concatenate([publication.reshape(-1), unknown]).astype(np.int64),
        np.concatenate([group.reshape(-1), own]).astype(np.int64),
    )


_ALIKE = 1e-9
"""Of the largest distance: what two that should be equal may differ by."""


def embedding(distances: FloatArray, dimensions: int) -> FloatArray:
    """Centred vectors whose Euclidean distances are nearest to these, by classical scaling.

    Distances of points in at most so many dimensions come out as they are. Columns are in order of
    falling variance, each with its largest entry positive; smaller axes and what no Euclidean space
    can have are lost.
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
