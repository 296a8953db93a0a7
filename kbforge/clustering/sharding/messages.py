"""What router and shards tell each other: plain data, so that it may go to another machine."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import NamedTuple

from kbforge.contracts import Fragment, Led, Page


class Report(NamedTuple):
    """What taking in one fragment did, as far as the router must know.

    Attributes:
        fragment: its number.
        before: names of the subproblems that were replaced.
        after: those in their place, the fragment's own among them: name, and the families that
            live in it, ascending.
        led: the families of the clusters that hold the fragment; its open keys lead there now.
        closed: those of its keys that were found to lead too far.

    """

    fragment: int
    before: tuple[int, ...]
    after: tuple[tuple[int, tuple[int, ...]], ...]
    led: tuple[int, ...]
    closed: tuple[int, ...]


class Move(NamedTuple):
    """Subproblems that are to be handed over.

    Attributes:
        source: the shard that has them.
        target: the shard that is to have them.
        fragments: numbers; what holds any of them goes.

    """

    source: int
    target: int
    fragments: tuple[int, ...]


class Route(NamedTuple):
    """Where a fragment goes.

    Attributes:
        fragment: its number.
        shard: that takes it in.
        moves: what is to be handed over before.
        closed: those of its keys that are known to lead too far.

    """

    fragment: int
    shard: int
    moves: tuple[Move, ...]
    closed: tuple[int, ...]


@dataclass(frozen=True, slots=True, eq=False)
class Handed:
    """Subproblems on their way from one shard to another, or in a checkpoint.

    Attributes:
        pages: one a subproblem, by ascending name; slots are those of the shard that had it.
        fragments: of the subproblems, by number.
        led: where keys lead, as far as that is to families of these.

    """

    pages: tuple[Page, ...]
    fragments: Mapping[int, Fragment]
    led: Mapping[int, Led]
