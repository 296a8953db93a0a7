"""Particles as plain groupings, which are easy to change and to split.

A row is one particle's clusters, by smallest fragment; rows of one list group the same fragments.
The arrays of the state are for steps, of which there are as many as fragments. What is here is for
the few subproblems that a removal, a decision or a revision concerns.
"""

from __future__ import annotations

import itertools
from collections.abc import Collection, Iterable, Mapping, Sequence
from typing import TypeAlias

import numpy as np

from kbforge.clustering.online.merge import rank_pairs
from kbforge.clustering.state import State
from kbforge.contracts import Cluster, FloatArray

Row: TypeAlias = tuple[Cluster, ...]
"""The clusters of one particle, by smallest fragment."""


def rows_of(state: State, name: int) -> list[Row]:
    """The particles of a subproblem, heaviest first."""
    block = state.blocks[name]
    members = {slot: state.members(slot) for slot in block.slots.tolist()}
    cells, bounds = block.cells.tolist(), block.row_start.tolist()
    return [
        tuple(members[slot] for slot in cells[begin:end])
        for begin, end in itertools.pairwise(bounds)
    ]


def terms_of(state: State, name: int) -> dict[Cluster, float]:
    """log alpha + lgamma(|C|) + L(C) of the clusters of a subproblem."""
    slots = state.blocks[name].slots
    terms = zip(slots.tolist(), state.term[slots].tolist(), strict=True)
    return {state.members(slot): term for slot, term in terms}


def fragments_of(row: Iterable[Cluster]) -> list[int]:
    """What a row groups, ascending."""
    return sorted(fragment for cluster in row for fragment in cluster)


def without(row: Row, gone: Collection[int]) -> Row:
    """A row without some fragments; a cluster of them alone is no more."""
    left = (tuple(f for f in cluster if f not in gone) for cluster in row)
    return in_order(cluster for cluster in left if cluster)


def in_order(clusters: Iterable[Cluster]) -> Row:
    """Clusters as a row."""
    return tuple(sorted(clusters))


def log_densities(rows: Sequence[Row], term: Mapping[Cluster, float]) -> FloatArray:
    """Log target density of each row, shape [rows].

    Args:
        rows: any.
        term: log alpha + lgamma(|C|) + L(C) of every cluster in them.

    """
    return np.array([sum(term[cluster] for cluster in row) for row in rows], dtype=np.float64)


def heaviest(rows: Sequence[Row], values: FloatArray, size: int) -> tuple[list[Row], FloatArray]:
    """The distinct rows of most density, heaviest first; equals keep their order."""
    place: dict[Row, int] = {}
    for at, row in enumerate(rows):
        place.setdefault(row, at)
    distinct = np.fromiter(place.values(), dtype=np.int64, count=len(place))
    order = distinct[np.argsort(-values[distinct], kind="stable")][:size]
    return [rows[at] for at in order.tolist()], values[order]


def joint(
    parts: Iterable[tuple[Sequence[Row], FloatArray]], size: int
) -> tuple[list[Row], FloatArray]:
    """The heaviest combinations of rows of several lists, exactly, heaviest first.

    Args:
        parts: rows and their values, each list heaviest first and of fragments of its own.
        size: how many combinations.

    """
    rows: list[Row] = [()]
    values: FloatArray = np.zeros(1)
    for others, more in parts:
        left, right = rank_pairs(len(values), len(more), size)
        total = values[left] + more[right]
        order = np.argsort(-total, kind="stable")[:size]
        pairs = zip(left[order].tolist(), right[order].tolist(), strict=True)
        rows = [rows[i] + others[j] for i, j in pairs]
        values = total[order]
    return [in_order(row) for row in rows], values


def components(rows: Sequence[Row]) -> list[list[Row]]:
    """The rows of every set of fragments that no row connects with others, smallest first.

    Rows are distinct, and in the order of those that showed them first.
    """
    bit = {fragment: 1 << i for i, fragment in enumerate(fragments_of(rows[0]))}
    mask = {c: sum(bit[f] for f in c) for c in dict.fromkeys(c for row in rows for c in row)}
    parts: list[int] = []
    for of_cluster in mask.values():
        touched, parts = (
            [part for part in parts if part & of_cluster],
            [part for part in parts if not part & of_cluster],
        )
        for part in touched:
            of_cluster |= part
        parts.append(of_cluster)
    parts.sort(key=lambda part: part & -part)
    if len(parts) == 1:
        return [list(dict.fromkeys(rows))]
    number = {c: next(i for i, part in enumerate(parts) if part & m) for c, m in mask.items()}
    found: list[dict[Row, None]] = [{} for _ in parts]
    for row in rows:
        pieces: list[list[Cluster]] = [[] for _ in parts]
        for cluster in row:
            pieces[number[cluster]].append(cluster)
        for piece, known in zip(pieces, found, strict=True):
            known[tuple(piece)] = None
    return [list(known) for known in found]
