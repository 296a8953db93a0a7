"""Merge, grow and split: turns the kept putative particles into subproblems.

*Merge.* Each kept putative particle fixes x and the grouping of its own subproblem; the groupings
of the other subproblems are independent of it, so every combination with their old particles is a
joint particle, and log weights add (split-SMC paper, section 3.4). The exact join takes the
subproblems one at a time and keeps the heaviest P after each, which loses nothing: the best P sums
only use the best P partial sums. Two lists, with x placed and not yet placed, make it linear in the
number of subproblems. Those that x hardly belongs to are left alone.

*Grow.* x is put into its place on every joint particle. The result is a draft, not yet in the
state: its clusters are numbered from 0 by their *place*.

*Split.* Fragments are connected if they share a cluster on any particle. Each connected component
is a subproblem of its own, with its distinct partial groupings (section 3.2, and proposition 3.1:
this never raises the reverse KL divergence to the posterior).
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from functools import lru_cache, reduce
from operator import or_
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from kbforge.clustering.propose import Pool, PutativeScores, Rules, Weights, distinct
from kbforge.clustering.state import Block, NewClusters, State
from kbforge.contracts import Cluster, FloatArray, IntArray, Resampler
from kbforge.numerics import GRID, in_units, log_sum_exp, normalised, on_grid


@dataclass(frozen=True, slots=True)
class Joint:
    """Combinations of particles, one row a combination, heaviest first.

    `value` [n]: unnormalised log weights; `putative` [n]: the putative particle's index in the
    pool; `rows` [n, subproblems]: the old particles' ranks, in the putative one's subproblem its
    parent's.
    """

    value: FloatArray
    putative: IntArray
    rows: IntArray

    def take(self, index: IntArray) -> Joint:
        """The entries of an index array, in its order."""
        return Joint(self.value[index], self.putative[index], self.rows[index])


def discard_weak_merges(pool: Pool, particles: int) -> Pool:
    """Drop subproblems whose pooled weight is below 1/P; the heaviest always stays.

    Such a merge would be undone by the next resampling more often than not (paper, section 3.4).
    """
    names = distinct(pool.subproblem)
    if len(names) == 1:
        return pool
    member = np.searchsorted(names, pool.subproblem)
    weights = list(map(math.exp, (pool.value - pool.value[0]).tolist()))
    masses: list[list[float]] = [[] for _ in names]
    for place, weight in zip(member.tolist(), weights, strict=True):
        masses[place].append(weight)
    mass = np.array(list(map(math.fsum, masses)))
    strong = mass >= math.fsum(weights) / particles
    strong[np.argmax(mass)] = True
    return pool if strong.all() else pool.take(strong[member])


def merge(
    state: State, names: IntArray, pool: Pool, rules: Rules, rng: np.random.Generator
) -> Joint:
    """The joint of the subproblems that x may belong to, at most P particles."""
    if len(names) == 1:
        return Joint(pool.value, state.arange(len(pool)), pool.row[:, None])
    if rules.sampled_merges:
        several = sum(len(state.blocks[name].weights) > 1 for name in names.tolist())
        if several > 2:
            return join_by_sampling(state, names, pool, rules.particles, rng)
    return join_exactly(state, names, pool, rules.particles, rules.resampler, rng)


def join_exactly(
    state: State,
    names: IntArray,
    pool: Pool,
    size: int,
    resampler: Resampler,
    rng: np.random.Generator,
) -> Joint:
    """The joint of several subproblems, at most `size` particles, resampled after each.

    The greedy resampler makes the result the exact top P of the joint.
    """

    def cut(joint: Joint) -> Joint:
        joint = joint.take(np.argsort(-joint.value, kind="stable"))
        kept, value = resampler.resample(joint.value, size, rng)
        value = joint.value[kept] if resampler.keeps_heaviest else on_grid(value)
        return Joint(value, joint.putative[kept], joint.rows[kept])

    placed = Joint(np.zeros(0), np.zeros(0, dtype=np.int64), np.zeros((0, 0), dtype=np.int64))
    waiting = Joint(np.zeros(1), np.array([-1]), np.zeros((1, 0), dtype=np.int64))
    reach = size if resampler.keeps_heaviest else None
    for name in names.tolist():
        old = state.blocks[name].weights
        ranks = state.arange(len(old))
        mine = np.flatnonzero(pool.subproblem == name)
        here = _outer(waiting, pool.value[mine], pool.row[mine], reach, putative=mine)
        placed = cut(_stacked(_outer(placed, old, ranks, reach), here))
        if name != names[-1]:
            # a lone particle changes neither the number of combinations nor their order
            waiting = _outer(waiting, old, ranks, reach)
            waiting = cut(waiting) if len(old) > 1 else waiting
    if resampler.keeps_heaviest:
        return placed
    return placed.take(np.argsort(-placed.value, kind="stable"))


def join_by_sampling(
    state: State, names: IntArray, pool: Pool, size: int, rng: np.random.Generator
) -> Joint:
    """Multinomial merging: `size` draws with replacement, equal draws pooled (paper, 3.4).

    A draw is an assignment of x by the putative weights, then one old particle of each other
    subproblem. Draws are equal if assignment *and* all particles are.
    """
    draws = draw(pool.value, size, rng)
    rows = np.empty((size, len(names)), dtype=np.int64)
    for column, name in enumerate(names.tolist()):
        old = draw(state.blocks[name].weights, size, rng)
        own = pool.subproblem[draws] == name
        rows[:, column] = np.where(own, pool.row[draws], old)
    drawn, counts = np.unique(np.column_stack([draws, rows]), axis=0, return_counts=True)
    shares = [math.log(count / size) for count in counts.tolist()]
    joint = Joint(on_grid(np.array(shares)), drawn[:, 0], drawn[:, 1:])
    return joint.take(np.argsort(-joint.value, kind="stable"))


def draw(log_weights: FloatArray, size: int, rng: np.random.Generator) -> IntArray:
    """Indices drawn with replacement in proportion to exp(log_weights), shape [size]."""
    cumulative = np.cumsum(np.exp(log_weights - log_sum_exp(log_weights)))
    found = np.searchsorted(cumulative, rng.random(size) * cumulative[-1], side="right")
    return np.asarray(np.minimum(found, len(cumulative) - 1))


def _outer(
    joint: Joint,
    values: FloatArray,
    rows: IntArray,
    reach: int | None,
    putative: IntArray | None = None,
) -> Joint:
    """Every combination of a joint with one more subproblem's (sorted) particles.

    With a `reach`, only those that can be among the `reach` heaviest: the combination of ranks (i,
    j) has at least (i + 1)(j + 1) - 1 others before it.
    """
    if len(values) == 1 and putative is None:  # the commonest subproblem: one particle, weight 0
        return Joint(
            joint.value + values[0],
            joint.putative,
            np.concatenate([joint.rows, np.zeros((len(joint.rows), 1), dtype=np.int64)], axis=1),
        )
    left, right = rank_pairs(len(joint.value), len(values), reach)
    return Joint(
        joint.value[left] + values[right],
        joint.putative[left] if putative is None else putative[right],
        np.concatenate([joint.rows[left], rows[right, None]], axis=1),
    )


@lru_cache(maxsize=128)  # the same few lengths recur; a pair of arrays is a few KiB
def rank_pairs(n: int, m: int, reach: int | None) -> tuple[IntArray, IntArray]:
    """Pairs (i, j) of ranks below n and m, i-major, with (i + 1)(j + 1) <= reach."""
    widths = np.full(n, m) if reach is None else np.minimum(reach // np.arange(1, n + 1), m)
    ends = np.cumsum(widths)
    left = np.repeat(np.arange(n), widths)
    return left, np.arange(len(left)) - (ends - widths)[left]


def _stacked(first: Joint, second: Joint) -> Joint:
    if not len(first.value):
        return second
    return Joint(
        np.concatenate([first.value, second.value]),
        np.concatenate([first.putative, second.putative]),
        np.concatenate([first.rows, second.rows]),
    )


@dataclass(slots=True)
class GrownParticles:
    """The joint's particles with x in its place.

    Clusters are addressed by place; `new` are those that hold x, with the last places. `used` says
    which some particle holds, `moved` which old ones have other masks than in the state.
    `row_start`, shape [particles + 1], is where rows begin in `cells`; log weights are normalised,
    descending.
    """

    name: int
    new: NewClusters
    slots: IntArray
    used: NDArray[np.bool_]
    masks: list[int]
    moved: list[int]
    cells: IntArray
    row_start: IntArray
    weights: FloatArray
    bits: int

    @property
    def n_old(self) -> int:
        """How many clusters there were before x: x's are at this place and after."""
        return len(self.slots) - len(self.new.slots)

    def first(self, state: State) -> IntArray:
        """Smallest fragments, by place, shape [n]."""
        return np.concatenate([state.first[self.slots[: self.n_old]], self.new.first])

    def order_rows(self, state: State) -> None:
        """Order the cells of each row by smallest fragments."""
        lengths = self.row_start[1:] - self.row_start[:-1]
        row = state.arange(len(lengths)).repeat(lengths)
        self.cells = self.cells[np.lexsort((self.first(state)[self.cells], row))]

    def term(self, state: State) -> FloatArray:
        """log alpha + lgamma(|C|) + L(C), by place, shape [n]."""
        return np.concatenate([state.term[self.slots[: self.n_old]], self.new.term])

    def members(self, state: State, place: int) -> Cluster:
        """The fragments of a cluster, ascending."""
        newest = place - self.n_old
        if newest < 0:
            return state.members(int(self.slots[place]))
        parent = int(self.new.parents[newest])
        held = state.members(parent) if parent >= 0 else ()
        return (*held, state.n_fragments)

    def dropped(self) -> IntArray:
        """The slots of clusters that no particle holds."""
        return self.slots[~self.used]

    def changed_masks(self) -> dict[int, int]:
        """By slot, the masks that are not as in the state."""
        changed = dict(zip(self.new.slots.tolist(), self.masks[self.n_old :], strict=True))
        if self.moved:
            slots, masks = self.slots.tolist(), self.masks
            changed.update({slots[place]: masks[place] for place in self.moved})
        return changed

    def whole(self) -> tuple[int, Block]:
        """All of it as one subproblem, with its name."""
        slots = self.slots
        block = Block(slots[self.cells], self.row_start, self.weights, slots[self.used], self.bits)
        return self.name, block


def grow(
    state: State,
    scores: PutativeScores,
    names: IntArray,
    pool: Pool,
    joint: Joint,
) -> GrownParticles:
    """Put x into its place on every joint particle."""
    old = [state.blocks[name] for name in names.tolist()]
    old_slots = old[0].slots if len(old) == 1 else np.concatenate([b.slots for b in old])
    chosen = pool.take(joint.putative)
    parents = distinct(chosen.slot)
    new = _new_clusters(state, scores, parents)
    slots = np.concatenate([old_slots, new.slots])
    place = state.place
    place[old_slots] = state.arange(len(old_slots))
    masks, moved = _stacked_masks(state, old)
    bits = sum(block.bits for block in old)
    bit = 1 << bits
    # a parent of -1 is no cluster's: whose place it would be given does not matter
    at = zip(parents.tolist(), place[parents].tolist(), strict=True)
    masks += [bit | masks[of] if parent >= 0 else bit for parent, of in at]
    child = len(old_slots) + parents.searchsorted(chosen.slot)
    cells, row_start = _copy_rows(state, names, chosen, joint, child)
    used = np.zeros(len(slots), dtype=np.bool_)
    used[cells] = True
    weights = normalised(joint.value)
    name = int(names[0])
    grown = GrownParticles(
        name, new, slots, used, masks, moved, cells, row_start, weights, bits + 1
    )
    if len(names) > 1:
        grown.order_rows(state)
    return grown


def _new_clusters(state: State, scores: PutativeScores, parents: IntArray) -> NewClusters:
    """The clusters that hold x, of these distinct parents."""
    score = np.empty(len(parents))
    joins = int(parents[0] < 0)  # a -1 sorts first
    score[:joins] = scores.alone
    score[joins:] = scores.log_marginal_of(state, parents[joins:])
    return state.new_clusters(state.n_fragments, parents, score)


def _stacked_masks(state: State, blocks: list[Block]) -> tuple[list[int], list[int]]:
    """The masks of several blocks with bits of their own; and the places of those that moved."""
    known = state.mask
    masks = [known[slot] for slot in blocks[0].slots.tolist()]
    staying, bits = len(masks), blocks[0].bits
    for block in blocks[1:]:
        masks += [known[slot] << bits for slot in block.slots.tolist()]
        bits += block.bits
    return masks, list(range(staying, len(masks)))


def _copy_rows(
    state: State,
    names: IntArray,
    chosen: Pool,
    joint: Joint,
    child: IntArray,
) -> tuple[IntArray, IntArray]:
    """The cells of the joint's particles, as places, and where each row starts.

    A particle's row is the concatenation of its subproblems' rows, with the cell that takes x
    replaced by `child`, or x's own cluster appended. Rows of several are not in order yet.
    """
    rows = state.row_start[names] + joint.rows
    begin = state.row_begin[rows]
    lengths = state.row_end[rows] - begin
    alone = chosen.cell < 0
    row_lengths = lengths.sum(axis=1) + alone
    row_start = np.zeros(len(row_lengths) + 1, dtype=np.int64)
    row_lengths.cumsum(out=row_start[1:])
    # where each segment lands: its row's start plus the segments before it
    landing = row_start[:-1, None] + lengths.cumsum(axis=1) - lengths
    flat = lengths.ravel()
    source = state.ranges(begin.ravel(), flat)
    cells = np.empty(row_start[-1], dtype=np.int64)
    cells[state.ranges(landing.ravel(), flat)] = state.place[state.cells[source]]
    column = names.searchsorted(chosen.subproblem)
    each = state.arange(len(chosen))
    offset = landing[each, column] + chosen.cell - begin[each, column]
    cells[np.where(alone, row_start[1:] - 1, offset)] = child
    return cells, row_start


# a mask may use this many bits more than it has fragments before it is renumbered
_SLACK_BITS = 64


def split(state: State, grown: GrownParticles, weights: Weights) -> list[tuple[int, Block]]:
    """The connected components of what has grown, each with its name, the smallest first."""
    components = _components(grown)
    if len(components) == 1:
        return [grown.whole()]
    first = grown.first(state)
    components.sort(key=lambda places: int(first[places].min()))
    number = np.empty(len(grown.slots), dtype=np.int64)
    for index, places in enumerate(components):
        number[places] = index
    lengths = np.diff(grown.row_start)
    row = np.repeat(state.arange(len(lengths)), lengths)
    cell_component = number[grown.cells]
    by_component = np.argsort(cell_component, kind="stable")
    ends = np.cumsum(np.bincount(cell_component, minlength=len(components))).tolist()
    place = grown.cells[by_component]
    cells = _CellColumns(
        grown.slots[place],
        row[by_component],
        state.hashes(grown.slots)[place],
        grown.term(state)[place],
    )
    out = []
    for places, begin, end in zip(components, [0, *ends], ends, strict=False):
        block = _part(state, grown, places, cells.cut(begin, end), weights)
        out.append((int(first[place[begin]]), block))
    return out


class _CellColumns(NamedTuple):
    """Cells, row-major: the cluster's slot, the rank of its particle, its hash and term."""

    slot: IntArray
    row: IntArray
    hash: NDArray[np.uint64]
    term: FloatArray

    def cut(self, begin: int, end: int) -> _CellColumns:
        part = slice(begin, end)
        return _CellColumns(self.slot[part], self.row[part], self.hash[part], self.term[part])


def _part(
    state: State, grown: GrownParticles, places: IntArray, cells: _CellColumns, weights: Weights
) -> Block:
    """One component's block: its distinct rows, weighed and sorted.

    Every particle groups every fragment, so each has cells of the component.
    """
    bits = _renumbered(state, grown, places)
    slots = grown.slots[places]
    if len(slots) == 1:
        return Block(slots, np.array([0, 1]), np.zeros(1), slots, bits)
    row = cells.row
    starts = np.concatenate([[0], np.flatnonzero(row[1:] != row[:-1]) + 1])
    # rows hold sets of slots; equal sets have equal sums of their slots' 64-bit hashes, and the
    # chance that any two of a step's few hundred rows collide otherwise is below 1e-14
    contents = np.add.reduceat(cells.hash, starts)
    _, distinct = np.unique(contents, return_index=True)
    if weights == "target":
        sums = np.add.reduceat(in_units(cells.term), starts)[distinct]
        value = (sums - sums.max()) / GRID
    else:
        value = _marginal(grown, contents)
    order = np.lexsort((distinct, -value))  # heaviest first, then the parents' ranking
    chosen = distinct[order]
    lengths = (np.concatenate([starts[1:], [len(row)]]) - starts)[chosen]
    row_start = np.concatenate([[0], np.cumsum(lengths)])
    return Block(
        cells.slot[state.ranges(starts[chosen], lengths)],
        row_start,
        normalised(value[order]),
        slots,
        bits,
    )


def _marginal(grown: GrownParticles, contents: NDArray[np.uint64]) -> FloatArray:
    """Log of the summed weights of the particles that show each distinct row."""
    _, source = np.unique(contents, return_inverse=True)
    mass = np.bincount(source, weights=list(map(math.exp, grown.weights.tolist())))
    # a particle may weigh less than the smallest float
    return on_grid(np.array([math.log(m) if m else -math.inf for m in mass.tolist()]))


def _components(grown: GrownParticles) -> list[IntArray]:
    """The clusters' places by connected component.

    The clusters of one particle hold all fragments; every other cluster can only connect some of
    them.
    """
    masks, held = grown.masks, np.flatnonzero(grown.used)
    parts = [masks[place] for place in grown.cells[: grown.row_start[1]].tolist()]
    # newest clusters first: they hold the new fragment, which is what connects
    for place in reversed(held.tolist()):
        if len(parts) == 1:
            return [held]
        mask = masks[place]
        touched = [part for part in parts if part & mask]
        if len(touched) > 1:
            parts = [part for part in parts if not part & mask]
            parts.append(reduce(or_, touched))
    if len(parts) == 1:
        return [held]
    groups: list[list[int]] = [[] for _ in parts]
    for place in held.tolist():
        mask = masks[place]
        for part, group in zip(parts, groups, strict=True):
            if part & mask:
                group.append(place)
                break
    return [np.array(group) for group in groups]


def _renumbered(state: State, grown: GrownParticles, places: IntArray) -> int:
    """Number the members of a component afresh once its masks are mostly holes."""
    listed, masks, bits = places.tolist(), grown.masks, grown.bits
    used = 0
    for place in listed:
        used |= masks[place]
    if bits <= 2 * used.bit_count() + _SLACK_BITS:
        return bits
    members = {place: grown.members(state, place) for place in listed}
    fragments = sorted({fragment for held in members.values() for fragment in held})
    bit = {fragment: 1 << i for i, fragment in enumerate(fragments)}
    for place in listed:
        masks[place] = sum(bit[fragment] for fragment in members[place])
    grown.moved.extend(listed)
    return len(fragments)
