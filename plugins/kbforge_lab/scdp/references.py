"""References: the vectors to group, and the publications of those that are labelled.

Source: Daumé and Marcu (2005), "A Bayesian model for supervised clustering with the Dirichlet
process prior", JMLR 6, section 3; its words are kept here. A *reference* is a vector, its
*publication* is the cluster that it belongs to, and its *type* says how such vectors scatter around
their publications. Publications are learned of the labelled references only by their types, unless
they are shared.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from kbforge.contracts import FloatArray, IntArray
from kbforge.errors import UsageError

UNKNOWN = -1
"""The publication of a reference that is to be grouped."""


@dataclass(frozen=True)
class References:
    """What a sampler is given.

    Attributes:
        values: one row a reference, shape [n, features].
        publication: 0, 1, ... of the labelled ones, `UNKNOWN` of the others, shape [n].
        group: of each reference, 0, 1, ...; the labelled ones of a group (a document, say) are
            grouped among themselves, by a Dirichlet process of their own, shape [n].

    """

    values: FloatArray
    publication: IntArray
    group: IntArray

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
    """Labelled references, then those to be grouped.

    Args:
        train: shape [n, features].
        labels: the publications of `train`, any whole numbers, shape [n].
        test: shape [m, features].

    """
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
