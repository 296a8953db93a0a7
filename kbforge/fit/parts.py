"""Parts: the fragments of a subproblem, as far as its groupings tell them apart.

Two fragments that share a cluster on every particle, and in the point estimate, are one *part*.
Every question about the one is the same question about the other, so that a subproblem of thousands
of fragments has no more questions than pairs of parts.

A cluster of the point estimate that all particles hold is left out: nothing is asked about it. Of
what is left, the `MOST` parts are kept that most fragments in doubt are in.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from kbforge.contracts import Cluster, FloatArray, IntArray, Subproblem

MOST = 96
"""Parts of a subproblem that are asked about; their pairs with all particles take 4 MB."""

MOST_PARTICLES = 100
"""Particles that are compared, the heaviest."""


@dataclass(frozen=True, slots=True, eq=False)
class Parts:
    """The parts of a subproblem that are in doubt.

    Attributes:
        first: smallest fragment of each part, ascending, shape [parts].
        sizes: fragments of each part, shape [parts].
        estimate: number of each part's cluster in the point estimate, shape [parts].
        rows: the same on each particle; equal numbers are one cluster, shape [parts, particles].
        weights: of the particles, descending, sum 1, shape [particles].

    """

    first: IntArray
    sizes: IntArray
    estimate: IntArray
    rows: IntArray
    weights: FloatArray

    def __len__(self) -> int:
        return len(self.first)


def parts_of(subproblem: Subproblem) -> Parts:
    """The parts of a subproblem that are in doubt; none if no particle disagrees."""
    particles = subproblem.particles[:MOST_PARTICLES]
    weights = np.exp([particle.log_weight for particle in particles])
    weights = weights / weights.sum()
    rows = _rows(subproblem, [p.clusters for p in particles])
    doubt = 1 - (rows[:, 1:] == rows[:, :1]) @ weights
    kept = (rows[:, 1:] != rows[:, :1]).any(axis=1)
    fragments, rows, doubt = np.array(subproblem.fragments)[kept], rows[kept], doubt[kept]
    _, at, sizes = np.unique(rows, axis=0, return_index=True, return_counts=True)
    if len(at) > MOST:
        most = np.argsort(-(sizes * doubt[at]), kind="stable")[:MOST]
        at, sizes = at[most], sizes[most]
    order = np.argsort(at)
    at, sizes = at[order], sizes[order]
    return Parts(fragments[at], sizes, rows[at, 0], rows[at, 1:], weights)


def _rows(subproblem: Subproblem, groupings: Sequence[Sequence[Cluster]]) -> IntArray:
    """Each fragment's cluster in the estimate, then in the groupings, shape [n, 1 + groupings].

    Equal numbers are one cluster, in whatever groupings they stand.
    """
    position = {fragment: at for at, fragment in enumerate(subproblem.fragments)}
    numbers: dict[Cluster, int] = {}
    rows = np.zeros((len(position), 1 + len(groupings)), np.int64)
    for column, clusters in enumerate((subproblem.clusters, *groupings)):
        for cluster in clusters:
            held = [position[fragment] for fragment in cluster]
            rows[held, column] = numbers.setdefault(cluster, len(numbers))
    return rows
