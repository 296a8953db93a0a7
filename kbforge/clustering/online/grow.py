"""Grow: put x into its place on every particle of the joint.

What grows is a draft: the clusters that the particles may hold, old ones and those that hold x,
numbered from 0 by their *place* in it. Nothing of it is in the state yet.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from kbforge.clustering.online.merge import Joint
from kbforge.clustering.online.pool import Pool, distinct
from kbforge.clustering.online.scorer import Scorer
from kbforge.clustering.online.table import Reading
from kbforge.clustering.state import Block, NewClusters, State
from kbforge.contracts import Cluster, FloatArray, IntArray
from kbforge.numerics import normalised


@dataclass(slots=True)
class GrownParticles:
    """The joint's particles with x in its place.

    Attributes:
        name: the smallest fragment of all.
        new: the clusters that hold x; they have the last places.
        slots: of all clusters, by place, shape [n].
        used: whether some particle holds the cluster, by place, shape [n].
        masks: membership masks, by place; `split` may number their bits afresh.
        moved: places of old clusters whose masks are not as in the state.
        cells: places of all rows, row after row.
        row_start: where each row starts in `cells`, and the end; shape [particles + 1].
        weights: log weights, normalised, descending; shape [particles].
        bits: how many bits the masks use.

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
    model: Scorer,
    reading: Reading,
    alone: float,
    names: IntArray,
    pool: Pool,
    joint: Joint,
) -> GrownParticles:
    """Put x into its place.

    Args:
        state: before x.
        model: has scored the clusters that take x.
        reading: what it made of x.
        alone: L({x}), nats.
        names: the subproblems that x belongs to, ascending.
        pool: the kept putative particles.
        joint: the particles, as combinations of old ones.

    """
    old = [state.blocks[name] for name in names.tolist()]
    old_slots = old[0].slots if len(old) == 1 else np.concatenate([b.slots for b in old])
    chosen = pool.take(joint.putative)
    parents = distinct(chosen.slot)
    new = _new_clusters(state, model, reading, alone, parents)
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


def _new_clusters(
    state: State, model: Scorer, reading: Reading, alone: float, parents: IntArray
) -> NewClusters:
    """The clusters that hold x, of these distinct parents."""
    score = np.empty(len(parents))
    joins = int(parents[0] < 0)  # a -1 sorts first
    score[:joins] = alone
    score[joins:] = model.log_marginal_joined(state, reading, parents[joins:])
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
    replaced, or x's own cluster appended. Rows of several are not in order yet.

    Args:
        state: before x; `place` of the old clusters is set.
        names: the subproblems.
        chosen: of each particle, its putative particle.
        joint: the particles.
        child: of each particle, the place of the cluster that holds x, shape [particles].

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
