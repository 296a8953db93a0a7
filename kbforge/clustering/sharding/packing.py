"""Packed: all of a shard in a few long arrays, which cost next to nothing to send.

A shard has thousands of subproblems and tens of thousands of keys. As objects of their own they
take longer to send, and to receive, than to work out.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from itertools import chain
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from kbforge.contracts import FloatArray, IntArray, Led, Page


class PackedPages(NamedTuple):
    """Subproblems, one after another; the arrays behind `particles` are those of `Page`.

    Attributes:
        names: shape [pages].
        clusters: of each, shape [pages].
        particles: of each, shape [pages].

    """

    names: IntArray
    clusters: IntArray
    particles: IntArray
    slots: IntArray
    lengths: IntArray
    members: IntArray
    scores: FloatArray
    rows: IntArray
    cells: IntArray
    weights: FloatArray


class PackedLed(NamedTuple):
    """Where keys lead.

    Attributes:
        keys: shape [keys].
        counts: families of each, shape [keys].
        families: key after key.
        closed: shape [keys].

    """

    keys: IntArray
    counts: IntArray
    families: IntArray
    closed: NDArray[np.bool_]


def pack_pages(pages: Sequence[Page]) -> PackedPages:
    """Pages in arrays."""
    return PackedPages(
        _ints(page.name for page in pages),
        _ints(len(page.slots) for page in pages),
        _ints(len(page.rows) for page in pages),
        _joined([page.slots for page in pages], np.int64),
        _joined([page.lengths for page in pages], np.int64),
        _joined([page.members for page in pages], np.int64),
        _joined([page.scores for page in pages], np.float64),
        _joined([page.rows for page in pages], np.int64),
        _joined([page.cells for page in pages], np.int64),
        _joined([page.weights for page in pages], np.float64),
    )


def unpack_pages(packed: PackedPages) -> tuple[Page, ...]:
    """The pages again."""
    of_cluster, of_row = _ends(packed.clusters), _ends(packed.particles)
    of_member, of_cell = _ends(packed.lengths)[of_cluster], _ends(packed.rows)[of_row]
    return tuple(
        Page(
            name=name,
            slots=packed.slots[of_cluster[k] : of_cluster[k + 1]],
            lengths=packed.lengths[of_cluster[k] : of_cluster[k + 1]],
            members=packed.members[of_member[k] : of_member[k + 1]],
            scores=packed.scores[of_cluster[k] : of_cluster[k + 1]],
            rows=packed.rows[of_row[k] : of_row[k + 1]],
            cells=packed.cells[of_cell[k] : of_cell[k + 1]],
            weights=packed.weights[of_row[k] : of_row[k + 1]],
        )
        for k, name in enumerate(packed.names.tolist())
    )


def pack_led(led: Mapping[int, Led]) -> PackedLed:
    """Where keys lead, in arrays."""
    return PackedLed(
        _ints(led),
        _ints(len(one.families) for one in led.values()),
        _ints(chain.from_iterable(one.families for one in led.values())),
        np.fromiter((one.closed for one in led.values()), dtype=np.bool_, count=len(led)),
    )


def unpack_led(packed: PackedLed) -> dict[int, Led]:
    """Where keys lead, again."""
    ends, families = _ends(packed.counts).tolist(), packed.families.tolist()
    return {
        key: Led(tuple(families[ends[k] : ends[k + 1]]), closed)
        for k, (key, closed) in enumerate(
            zip(packed.keys.tolist(), packed.closed.tolist(), strict=True)
        )
    }


def _ints(numbers: Iterable[int]) -> IntArray:
    return np.fromiter(numbers, dtype=np.int64)


def _joined(parts: Sequence[NDArray[Any]], kind: type) -> Any:
    """Arrays one after another; of none, an empty one."""
    return np.concatenate([np.zeros(0, dtype=kind), *parts])


def _ends(lengths: IntArray) -> IntArray:
    """Where parts of these lengths begin, and where the last one ends, shape [parts + 1]."""
    return np.concatenate([[0], np.cumsum(lengths)]).astype(np.int64)
