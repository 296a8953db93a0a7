"""Split: fall apart into blocks that no particle connects.

Fragments are connected if they share a cluster on any particle. Each connected component is a
subproblem of its own, with its distinct partial groupings (split-SMC paper, section 3.2, and
proposition 3.1: this never raises the reverse KL divergence to the posterior).
"""

from __future__ import annotations

from functools import reduce
from operator import or_
from typing import Literal, TypeAlias

import numpy as np

from kbforge.clustering.state import Block, State
from kbforge.contracts import FloatArray, IntArray
from kbforge.numerics.logs import log_sum_exp

Weights: TypeAlias = Literal["target", "marginal"]
"""How a partial grouping is weighed: by the posterior's own value for it, which is the best
choice for the stored support, or by the sum over the particles that showed it, as published."""

# a mask may use this many bits more than it has fragments before it is renumbered
_SLACK_BITS = 64


def split(state: State, block: Block, weights: Weights) -> list[Block]:
    """The connected components of a block, by smallest fragment; [block] if it is connected."""
    components = _components(state, block)
    if len(components) == 1:
        return [block]
    number = np.zeros(state.n_slots, dtype=np.int64)
    for index, slots in enumerate(components):
        number[slots] = index
    lengths = np.diff(block.row_start)
    row = np.repeat(state.arange(len(lengths)), lengths)
    cell_component = number[block.cells]
    by_component = np.argsort(cell_component, kind="stable")
    counts = np.bincount(cell_component, minlength=len(components))
    ends = np.cumsum(counts)
    out = []
    for slots, begin, end in zip(components, ends - counts, ends, strict=True):
        part = by_component[begin:end]
        out.append(_part(state, block, slots, block.cells[part], row[part], weights))
    return out


def _part(
    state: State,
    block: Block,
    slots: IntArray,
    cells: IntArray,
    row: IntArray,
    weights: Weights,
) -> Block:
    """One component's block: its distinct rows, weighed and sorted.

    Args:
        state: holds the clusters.
        block: the block that falls apart.
        slots: the component's clusters.
        cells: the component's cells, row-major.
        row: the rank in `block` of each cell's particle. Every particle groups every fragment,
            so each has cells here.
        weights: how to weigh.

    """
    bits = _renumbered(state, slots, block.bits)
    if len(slots) == 1:
        return Block(slots, np.array([0, 1]), np.zeros(1), slots, bits)
    starts = np.concatenate([[0], np.flatnonzero(row[1:] != row[:-1]) + 1])
    # rows hold sets of slots; equal sets have equal sums of their slots' 64-bit hashes, and the
    # chance that any two of a step's few hundred rows collide otherwise is below 1e-14
    _, distinct, source = np.unique(
        np.add.reduceat(state.hash[cells], starts), return_index=True, return_inverse=True
    )
    value = _weigh(state, block, cells, starts, distinct, source, weights)
    order = np.lexsort((distinct, -value))  # heaviest first, then the parents' ranking
    chosen = distinct[order]
    lengths = (np.concatenate([starts[1:], [len(cells)]]) - starts)[chosen]
    row_start = np.concatenate([[0], np.cumsum(lengths)])
    return Block(
        cells[state.ranges(starts[chosen], lengths)],
        row_start,
        value[order] - log_sum_exp(value),
        slots,
        bits,
    )


def _weigh(
    state: State,
    block: Block,
    cells: IntArray,
    starts: IntArray,
    distinct: IntArray,
    source: IntArray,
    weights: Weights,
) -> FloatArray:
    if weights == "target":
        return np.asarray(np.add.reduceat(state.term[cells], starts)[distinct])
    mass = np.bincount(source, weights=np.exp(block.weights), minlength=len(distinct))
    with np.errstate(divide="ignore"):  # a particle may weigh less than the smallest float
        return np.log(mass)


def _components(state: State, block: Block) -> list[IntArray]:
    """The block's clusters by connected component, in order of the smallest fragment.

    The clusters of one particle are disjoint and hold all fragments; every other cluster can
    only connect some of them.
    """
    masks = state.mask
    parts = [masks[slot] for slot in block.cells[: block.row_start[1]].tolist()]
    # newest clusters first: they hold the new fragment, which is what connects
    for slot in reversed(block.slots.tolist()):
        if len(parts) == 1:
            return [block.slots]
        mask = masks[slot]
        touched = [part for part in parts if part & mask]
        if len(touched) > 1:
            parts = [part for part in parts if not part & mask]
            parts.append(reduce(or_, touched))
    if len(parts) == 1:
        return [block.slots]
    groups: list[list[int]] = [[] for _ in parts]
    for slot in block.slots.tolist():
        mask = masks[slot]
        for part, group in zip(parts, groups, strict=True):
            if part & mask:
                group.append(slot)
                break
    arrays = [np.array(group) for group in groups]
    return sorted(arrays, key=lambda slots: int(state.first[slots].min()))


def _renumbered(state: State, slots: IntArray, bits: int) -> int:
    """Number the members of a component afresh once its masks are mostly holes."""
    listed = slots.tolist()
    used = 0
    for slot in listed:
        used |= state.mask[slot]
    if bits <= 2 * used.bit_count() + _SLACK_BITS:
        return bits
    fragments = sorted({fragment for slot in listed for fragment in state.members(slot)})
    bit = {fragment: 1 << i for i, fragment in enumerate(fragments)}
    for slot in listed:
        state.mask[slot] = sum(bit[fragment] for fragment in state.members(slot))
    return len(fragments)
