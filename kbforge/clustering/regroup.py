"""Regroup: replaces the particles of subproblems.

Removals, decisions and revisions all end here, with rows for the fragments of some subproblems. A
row is one particle's clusters, by smallest fragment; the rows of one list group the same fragments.
Every row weighs its target density, equal rows count once and are never summed, the heaviest P
stay, and parts that no row connects become separate subproblems.

`SessionState.plan` prepares, may fail, and changes nothing; `SessionState.replace` writes, and
cannot fail.
"""

from __future__ import annotations

import itertools
from collections.abc import Collection, Iterable, Mapping, Sequence
from functools import lru_cache
from typing import NamedTuple, TypeAlias

import numpy as np

from kbforge.clustering.rules import DirichletProcess, Rules
from kbforge.clustering.tables import ClusterScorer
from kbforge.contracts import Cluster, FloatArray, IntArray, KeyFamilies, SubproblemData
from kbforge.errors import LikelihoodError
from kbforge.numerics import log_sum_exp, normalised

Row: TypeAlias = tuple[Cluster, ...]
"""The clusters of one particle, by smallest fragment."""


def rows_of(page: SubproblemData) -> list[Row]:
    """The particles of a subproblem, heaviest first."""
    members, cells = list(page.clusters().values()), page.cells.tolist()
    bounds = itertools.accumulate(page.rows.tolist(), initial=0)
    return [
        tuple(members[cell] for cell in cells[begin:end])
        for begin, end in itertools.pairwise(bounds)
    ]


def terms_of(page: SubproblemData, prior: DirichletProcess) -> dict[Cluster, float]:
    """log alpha + e lgamma(|C|) + L(C) of the clusters of a subproblem."""
    members = list(page.clusters().values())
    return dict(zip(members, prior.log_terms(members, page.scores).tolist(), strict=True))


def fragments_of(row: Iterable[Cluster]) -> list[int]:
    """The fragments that a row groups, ascending."""
    return sorted(fragment for cluster in row for fragment in cluster)


def without(row: Row, gone: Collection[int]) -> Row:
    """A row without some fragments; a cluster of only these disappears."""
    left = (tuple(f for f in cluster if f not in gone) for cluster in row)
    return in_order(cluster for cluster in left if cluster)


def in_order(clusters: Iterable[Cluster]) -> Row:
    """Clusters as a row."""
    return tuple(sorted(clusters))


def log_densities(rows: Sequence[Row], term: Mapping[Cluster, float]) -> FloatArray:
    """Log target density of each row, shape [rows]; `term` returns that of a cluster."""
    return np.array([sum(term[cluster] for cluster in row) for row in rows], dtype=np.float64)


def heaviest(rows: Sequence[Row], values: FloatArray, size: int) -> tuple[list[Row], FloatArray]:
    """The distinct rows of highest density, heaviest first; equal ones keep their order."""
    place: dict[Row, int] = {}
    for at, row in enumerate(rows):
        place.setdefault(row, at)
    distinct = np.fromiter(place.values(), dtype=np.int64, count=len(place))
    order = distinct[np.argsort(-values[distinct], kind="stable")][:size]
    return [rows[at] for at in order.tolist()], values[order]


@lru_cache(maxsize=128)  # the same few lengths recur; a pair of arrays is a few KiB
def rank_pairs(n: int, m: int, reach: int | None) -> tuple[IntArray, IntArray]:
    """Pairs (i, j) of ranks below n and m, i-major, with (i + 1)(j + 1) <= reach.

    This many pairs are at least as heavy as (i, j): only these can be among the `reach` heaviest.
    """
    widths = np.full(n, m) if reach is None else np.minimum(reach // np.arange(1, n + 1), m)
    ends = np.cumsum(widths)
    left = np.repeat(np.arange(n), widths)
    return left, np.arange(len(left)) - (ends - widths)[left]


def joint(
    parts: Iterable[tuple[Sequence[Row], FloatArray]], size: int
) -> tuple[list[Row], FloatArray]:
    """The `size` heaviest combinations of rows of several lists, exactly, heaviest first.

    Each list groups separate fragments, heaviest row first, with its values.
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
    """The rows of each set of fragments that rows connect, smallest first."""
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


class JointParticles(NamedTuple):
    """At most P joint particles of several subproblems, or groupings of some fragments, heaviest
    first.

    `values` are their log target densities, and `term` is log alpha + e lgamma(|C|) + L(C) of every
    cluster.
    """

    rows: list[Row]
    values: FloatArray
    term: Mapping[Cluster, float]


def joined(
    pages: Iterable[SubproblemData], prior: DirichletProcess, particles: int
) -> tuple[JointParticles, float]:
    """The joint particles of some subproblems, by ascending name, up to a maximum, and the log of
    the sum of the densities of *all* combinations."""
    parts = []
    term: dict[Cluster, float] = {}
    mass = 0.0
    for page in pages:
        own = terms_of(page, prior)
        rows = rows_of(page)
        # sampled merges and stochastic resamplers weigh otherwise, so the order may be another
        rows, values = heaviest(rows, log_densities(rows, own), len(rows))
        parts.append((rows, values))
        term |= own
        mass += log_sum_exp(values)
    return JointParticles(*joint(parts, particles), term), mass


def rests_of(
    rows: Sequence[Row], taken: Collection[int], term: Mapping[Cluster, float]
) -> tuple[list[Row], FloatArray]:
    """The rows that group the taken fragments by themselves, without these fragments, and
    values."""
    wanted = set(taken)
    rests = []
    for row in rows:
        rest = tuple(cluster for cluster in row if wanted.isdisjoint(cluster))
        if sum(map(len, rest)) + len(wanted) == sum(map(len, row)):
            rests.append(rest)
    return heaviest(rests, log_densities(rests, term), len(rests))


class ImpossibleError(LikelihoodError):
    """Every remaining particle is impossible."""


class Replacement(NamedTuple):
    """The planned changes, valid for the session as it was when they were planned."""

    gone: tuple[int, ...]  # names of the subproblems to drop
    pages: tuple[SubproblemData, ...]  # their replacements
    new: Mapping[int, Cluster]  # the new clusters, by slot
    dropped: Sequence[int]  # slots of the clusters, old and new, that no particle holds any more
    released: IntArray  # the slots among them that the table holds
    postings: Mapping[int, KeyFamilies]  # the new families of keys that change
    removed: Collection[int]  # fragments that no longer exist
    table: ClusterScorer  # the table that will hold the clusters


def settled_pages(
    slot_of: Mapping[Cluster, int],
    parts: Sequence[tuple[list[Row], FloatArray]],
    scores: Mapping[int, float],
) -> tuple[SubproblemData, ...]:
    """Rows as pages, by the slots of their clusters and L by slot."""
    pages = []
    cluster_of = {slot: cluster for cluster, slot in slot_of.items()}
    for rows, values in parts:
        cells = np.array([slot_of[cluster] for row in rows for cluster in row], dtype=np.int64)
        slots, places = np.unique(cells, return_inverse=True)
        clusters = [cluster_of[slot] for slot in slots.tolist()]
        pages.append(
            SubproblemData(
                name=rows[0][0][0],
                slots=slots,
                lengths=np.array([len(cluster) for cluster in clusters], dtype=np.int64),
                members=np.array([n for cluster in clusters for n in cluster], dtype=np.int64),
                scores=np.array([scores[slot] for slot in slots.tolist()], dtype=np.float64),
                rows=np.array([len(row) for row in rows], dtype=np.int64),
                cells=places.astype(np.int64),
                weights=normalised(values),
            )
        )
    return tuple(pages)


def postings_after(
    postings: Mapping[int, KeyFamilies],
    before: Collection[int],
    clusters: Iterable[Cluster],
    keys: Mapping[int, Sequence[int]],
) -> dict[int, KeyFamilies]:
    """The families of keys after the clusters of some subproblems change.

    A key of their fragments leads to the clusters with such a fragment, and to no other of these
    subproblems. A closed key does so only if it led to one of them before, and stays closed while
    it leads anywhere. `before` has the first fragments of the old clusters, `keys` those of each
    fragment.
    """
    families_of: dict[int, set[int]] = {fragment: set() for fragment in keys}
    for cluster in clusters:
        for fragment in cluster:
            families_of[fragment].add(cluster[0])
    now = {family for families in families_of.values() for family in families}
    leads: dict[int, set[int]] = {}
    for fragment, own in keys.items():
        for key in own:
            leads.setdefault(key, set()).update(families_of[fragment])
    after: dict[int, KeyFamilies] = {}
    for key, families in leads.items():
        known, closed = postings.get(key, KeyFamilies((), False))
        kept = [family for family in known if family not in before and family not in now]
        if not closed or not set(known).isdisjoint(before):
            kept += sorted(families)
        after[key] = KeyFamilies(tuple(kept), closed and bool(kept))
    return after


def fallen_apart(
    parts: Sequence[Sequence[Row]], term: Mapping[Cluster, float], rules: Rules
) -> list[tuple[list[Row], FloatArray]]:
    """The rows of every subproblem, heaviest first, with their values.

    Raises:
        ImpossibleError: every row of a part is impossible.
    """
    out = []
    for part in parts:
        rows, values = heaviest(part, log_densities(part, term), rules.particles)
        if not rows[0]:
            continue  # no fragment is left
        possible = int((values > -np.inf).sum())
        if not possible:
            raise ImpossibleError("the remaining fragments have no possible grouping")
        rows, values = rows[:possible], values[:possible]
        if not rules.splits:
            out.append((rows, values))
            continue
        for component in components(rows):
            out.append(heaviest(component, log_densities(component, term), len(component)))
    return out
