"""Regroup: give subproblems other particles.

A removal, a decision and a revision each end here, with rows for the fragments of some subproblems.
A row is one particle's clusters, by smallest fragment; the rows of one list group the same
fragments. Clusters of the rows that are not live are made, every row weighs its target density,
equal rows are one and are never summed, the heaviest P stay, and what no row connects falls apart.

`plan_replacement` asks, may fail, and leaves everything as it was; `put_in_place` writes, and
cannot fail.
"""

from __future__ import annotations

import itertools
from collections.abc import Collection, Iterable, Mapping, Sequence
from typing import NamedTuple, TypeAlias

import numpy as np

from kbforge.clustering.grow import rank_pairs
from kbforge.clustering.rules import Rules
from kbforge.clustering.state import Block, Lineage, Link, State
from kbforge.clustering.table import Regrouping, Scorer
from kbforge.contracts import Cluster, FloatArray
from kbforge.errors import LikelihoodError
from kbforge.numerics import log_sum_exp, normalised

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


class JointParticles(NamedTuple):
    """Particles of several subproblems together, at most P.

    Attributes:
        rows: the heaviest combinations, heaviest first.
        values: their log target densities, shape [rows].
        term: log alpha + lgamma(|C|) + L(C) of every cluster of the subproblems.
        mass: log of the sum of the densities of *all* combinations.

    """

    rows: list[Row]
    values: FloatArray
    term: Mapping[Cluster, float]
    mass: float


def joined(state: State, names: Collection[int], particles: int) -> JointParticles:
    """The particles of some subproblems together, at most so many."""
    parts = []
    term: dict[Cluster, float] = {}
    mass = 0.0
    for name in sorted(names):
        own = terms_of(state, name)
        rows = rows_of(state, name)
        # sampled merges and stochastic resamplers weigh otherwise, so the order may be another
        rows, values = heaviest(rows, log_densities(rows, own), len(rows))
        parts.append((rows, values))
        term |= own
        mass += log_sum_exp(values)
    return JointParticles(*joint(parts, particles), term, mass)


def rests_of(
    rows: Sequence[Row], taken: Collection[int], term: Mapping[Cluster, float]
) -> tuple[list[Row], FloatArray]:
    """What is left of rows without some fragments, of those that group these by themselves.

    Args:
        rows: any, of the same fragments.
        taken: some of them.
        term: log alpha + lgamma(|C|) + L(C) of the rows' clusters.

    """
    wanted = set(taken)
    rests = []
    for row in rows:
        rest = tuple(cluster for cluster in row if wanted.isdisjoint(cluster))
        if sum(map(len, rest)) + len(wanted) == sum(map(len, row)):
            rests.append(rest)
    return heaviest(rests, log_densities(rests, term), len(rests))


class ImpossibleError(LikelihoodError):
    """Every particle that is left is impossible."""


class Replacement(NamedTuple):
    """What to write; it holds for the state that it was made of, and no other.

    Attributes:
        gone: names of the subproblems that go.
        blocks: by name, what takes their place.
        new: by slot, what is to be placed there: the cluster as a list, and its L.
        masks: by slot, the membership masks of all clusters.
        regrouped: what the model is to be told.

    """

    gone: tuple[int, ...]
    blocks: Mapping[int, Block]
    new: Mapping[int, tuple[Link, float]]
    masks: Mapping[int, int]
    regrouped: Regrouping


def plan_replacement(
    state: State,
    model: Scorer,
    rules: Rules,
    gone: Collection[int],
    parts: Sequence[Sequence[Row]],
    removed: Collection[int] = (),
) -> Replacement:
    """Decide what takes the place of subproblems. Whatever is raised, nothing has changed.

    Args:
        state: before.
        model: has taken in every fragment of the rows.
        rules: P, and whether subproblems fall apart.
        gone: the subproblems that go.
        parts: lists of rows; those of one list group the same fragments, and all lists together
            those of the subproblems but for `removed`.
        removed: fragments that are no more.

    Raises:
        ImpossibleError: every row of a part is impossible.
        LikelihoodError: a likelihood is NaN.
        Exception: whatever the model or the index raises.

    """
    before = {state.members(slot): slot for name in gone for slot in _slots(state, name)}
    wanted = {cluster for rows in parts for row in rows for cluster in row}
    unknown = sorted(wanted.difference(before))
    new = dict(zip(state.vacant(len(unknown)).tolist(), unknown, strict=True))
    slot_of = {cluster: slot for cluster, slot in before.items() if cluster in wanted}
    slot_of |= {cluster: slot for slot, cluster in new.items()}
    keys = model.keys([f for name in sorted(gone) for f in fragments_held(state, name)])
    settled = removed and min(model.fragments) in removed
    made = model.make(new, state.n_slots, _all(state, slot_of, gone) if settled else None)
    try:
        term = _terms(state, slot_of, made.scores)
        blocks = [_block(slot_of, *part) for part in _fallen_apart(parts, term, rules)]
    except BaseException:
        model.unmake(made)
        raise
    held = {slot for block in blocks for slot in block.slots.tolist()}
    clusters = {slot: cluster for cluster, slot in sorted(slot_of.items()) if slot in held}
    slots = np.array([*before.values(), *new], dtype=np.int64)
    lineage = Lineage(new, state.n_slots + len(new))
    told = Regrouping(
        made,
        slots[: len(before)],
        slots[~np.isin(slots, sorted(held))],
        clusters,
        keys,
        tuple(sorted(removed)),
    )
    return Replacement(
        tuple(sorted(gone)),
        {clusters[int(block.cells[0])][0]: block for block in blocks},
        {slot: (lineage.link(slot), made.scores[slot]) for slot in new},
        _masks(blocks, clusters),
        told,
    )


def put_in_place(state: State, model: Scorer, replacement: Replacement) -> None:
    """Write what `plan_replacement` decided of this state; it and the model are updated."""
    for name in replacement.gone:
        state.remove(name)
    state.place_whole(replacement.new)
    for slot, mask in replacement.masks.items():
        state.mask[slot] = mask
    model.settle(replacement.regrouped)
    state.release(replacement.regrouped.dropped)
    for name, block in replacement.blocks.items():
        state.install(name, block)


def fragments_held(state: State, name: int) -> list[int]:
    """The fragments of a subproblem, ascending."""
    block = state.blocks[name]
    return sorted(f for slot in block.cells[: block.row_start[1]] for f in state.members(slot))


def _slots(state: State, name: int) -> list[int]:
    slots: list[int] = state.blocks[name].slots.tolist()
    return slots


def _all(state: State, slot_of: Mapping[Cluster, int], gone: Collection[int]) -> dict[int, Cluster]:
    """By slot, these clusters and those of all other subproblems.

    They are to be held by a new table where the first fragment goes, which settled what the old one
    reads: that must be as the first one left would settle it.
    """
    names = [name for name in state.blocks if name not in gone]
    others = {slot: state.members(slot) for name in names for slot in _slots(state, name)}
    return {slot: cluster for cluster, slot in slot_of.items()} | others


def _terms(
    state: State, slot_of: Mapping[Cluster, int], scores: Mapping[int, float]
) -> dict[Cluster, float]:
    """log alpha + lgamma(|C|) + L(C) of clusters old and new."""
    term = {
        cluster: float(state.term[slot]) for cluster, slot in slot_of.items() if slot not in scores
    }
    made = [cluster for cluster, slot in slot_of.items() if slot in scores]
    if made:
        sizes = np.array([len(cluster) for cluster in made], dtype=np.int64)
        score = np.array([scores[slot_of[cluster]] for cluster in made])
        term |= dict(zip(made, state.log_terms(sizes, score).tolist(), strict=True))
    return term


def _fallen_apart(
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


def _block(slot_of: Mapping[Cluster, int], rows: Sequence[Row], values: FloatArray) -> Block:
    """Rows as a subproblem's block."""
    cells = np.array([slot_of[cluster] for row in rows for cluster in row], dtype=np.int64)
    return Block(
        cells,
        np.cumsum([0, *(len(row) for row in rows)]),
        normalised(values),
        np.unique(cells),
        sum(len(cluster) for cluster in rows[0]),
    )


def _masks(blocks: Sequence[Block], clusters: Mapping[int, Cluster]) -> dict[int, int]:
    """By slot, membership masks; the bits of a block are its fragments, ascending."""
    masks: dict[int, int] = {}
    for block in blocks:
        slots = block.slots.tolist()
        fragments = sorted({fragment for slot in slots for fragment in clusters[slot]})
        bit = {fragment: 1 << i for i, fragment in enumerate(fragments)}
        masks |= {slot: sum(bit[f] for f in clusters[slot]) for slot in slots}
    return masks
