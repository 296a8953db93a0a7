"""Split: divide a subproblem into blocks that no particle connects.

Fragments are connected if they share a cluster on any particle. Each connected component is a
subproblem of its own, with its distinct partial groupings (split-SMC paper, section 3.2, and
proposition 3.1: this never raises the reverse KL divergence to the posterior).
"""

from __future__ import annotations

import math
from functools import reduce
from operator import or_
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from kbforge.clustering.online.grow import GrownParticles
from kbforge.clustering.rules import Weights
from kbforge.clustering.state import Block, State
from kbforge.contracts import FloatArray, IntArray
from kbforge.numerics import GRID, in_units, normalised, on_grid

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
    cells = _Cells(
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


class _Cells(NamedTuple):
    """Cells, row-major: the cluster's slot, the rank of its particle, its hash and term."""

    slot: IntArray
    row: IntArray
    hash: NDArray[np.uint64]
    term: FloatArray

    def cut(self, begin: int, end: int) -> _Cells:
        part = slice(begin, end)
        return _Cells(self.slot[part], self.row[part], self.hash[part], self.term[part])


def _part(
    state: State, grown: GrownParticles, places: IntArray, cells: _Cells, weights: Weights
) -> Block:
    """One component's block: its distinct rows, weighed and sorted.

    Args:
        state: before x.
        grown: what falls apart.
        places: the component's clusters.
        cells: the component's. Every particle groups every fragment, so each has cells here.
        weights: how to weigh.

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

    The clusters of one particle are disjoint and hold all fragments; every other cluster can
    only connect some of them.
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
