"""The router: which shard adds a fragment, and which subproblems it needs first.

A step looks at the subproblems that hold a family to which one of the fragment's keys leads, and at
nothing else. So steps without a common subproblem may be taken in any order, on any machine. The
router brings all subproblems that a step may look at to one shard before the step is taken there.

The router knows where keys lead as of the last report. Fragments routed since then are *pending*:
what they do is not known, but it is bounded. A pending fragment may have connected everything that
it may look at, and its keys may lead to any of that. So what is handed over is closed under pending
fragments: with one thing that a pending fragment may look at, all of them go.

Reports are heard in the order of the fragments. If the number of pending fragments at each route is
also fixed, routes do not depend on the speed of shards. Nothing here knows processes or machines.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import NamedTuple

from kbforge.clustering.sharding.shard import ShardReport
from kbforge.errors import UsageError

_BUSY = 1.25
"""A shard with more than so many times the mean gives away what a fragment needs."""
_FEW = 16
"""Fragments in addition, so that nothing is given away at the beginning."""


@dataclass(slots=True)
class KeyCounts:
    """What a router has asked of its shards."""

    fragments: list[int]  # routed to each shard
    crossing: int = 0  # fragments that needed subproblems of several shards
    moves: int = 0  # hand-overs, each from one shard to another
    moved: int = 0  # subproblems and pending fragments in these

    @property
    def messages(self) -> int:
        """One for each fragment and each hand-over, if none are sent together."""
        return sum(self.fragments) + self.moves

    @property
    def skew(self) -> float:
        """Fragments of the busiest shard, as a multiple of the mean; 1 is none."""
        total = sum(self.fragments)
        return max(self.fragments) * len(self.fragments) / total if total else 1.0


class Route(NamedTuple):
    """Where a fragment goes."""

    fragment: int
    shard: int
    # before that, shards that hand over, and fragments whose subproblems they hand over
    moves: tuple[tuple[int, tuple[int, ...]], ...]
    closed: tuple[int, ...]  # those of its keys that are known to lead too far


class Router:
    """Knows which subproblems every key may lead to, and on which shard they are.

    A *node* is a subproblem by name or a pending fragment by number. Both are numbers of fragments,
    and stand for the subproblem that holds that fragment. A key that leads to more than `families`
    may be closed.
    """

    def __init__(self, shards: int, families: int) -> None:
        if shards < 1:
            raise UsageError(f"workers: expected at least 1, got {shards}")
        self.counts = KeyCounts([0] * shards)
        self._most = families
        # by pending fragment, its keys, and all nodes that it may look at or be in
        self._pending: dict[int, tuple[Sequence[int], set[int]]] = {}
        self._asking: dict[int, set[int]] = {}  # by key, its pending fragments
        self._touching: dict[int, set[int]] = {}  # by node, its pending fragments
        self._at: dict[int, int] = {}  # by node, its shard
        # as of the last report
        self._led: dict[int, list[int]] = {}  # by key, families
        self._closed: set[int] = set()
        self._home: dict[int, int] = {}  # by live family, the subproblem
        self._families: dict[int, tuple[int, ...]] = {}  # by subproblem, its live families
        self._next = 0

    @property
    def n_pending(self) -> int:
        return len(self._pending)

    @property
    def n_subproblems(self) -> int:
        return len(self._families)

    def route(self, keys: Sequence[int]) -> Route:
        """Where the next fragment goes; its keys are distinct."""
        number = self._next
        self._next += 1
        nodes = self._reached(keys)
        shard, moves = self._placed(nodes)
        self.counts.fragments[shard] += 1
        self.counts.crossing += bool(moves)
        self.counts.moves += len(moves)
        nodes.add(number)
        self._at[number] = shard
        self._pending[number] = keys, nodes
        for key in keys:
            self._asking.setdefault(key, set()).add(number)
        for node in nodes:
            self._touching.setdefault(node, set()).add(number)
        closed = tuple(key for key in keys if key in self._closed)
        return Route(number, shard, moves, closed)

    def hear(self, report: ShardReport) -> None:
        """Learn what the first pending fragment did."""
        number = report.fragment
        assert number == next(iter(self._pending)), (
            "reports are heard in the order of the fragments"
        )
        keys, nodes = self._pending.pop(number)
        for key in keys:
            _discard(self._asking, key, number)
        for node in nodes:
            _discard(self._touching, node, number)
        self._rename(number, report)
        for name in report.before:
            for family in self._families.pop(name):
                self._home.pop(family)
        for name, families in report.after:
            self._families[name] = families
            self._home.update(dict.fromkeys(families, name))
        self._closed.update(report.closed)
        for key in keys:
            if key not in self._closed:
                led = self._led.setdefault(key, [])
                led += [family for family in report.led if family not in led]

    def _rename(self, number: int, report: ShardReport) -> None:
        """Replace nodes of pending fragments by the subproblems in their place."""
        shard = self._at[number]
        after = [name for name, _ in report.after]
        gone = {number, *report.before}.difference(after)
        waiting: set[int] = set()
        for node in (number, *report.before):
            waiting |= self._touching.get(node, set())
        for other in waiting:
            nodes = self._pending[other][1]
            nodes.difference_update(gone)
            nodes.update(after)
        for node in gone:
            del self._at[node]
            self._touching.pop(node, None)
        for name in after:
            self._at[name] = shard
            if waiting:
                self._touching.setdefault(name, set()).update(waiting)

    def _reached(self, keys: Sequence[int]) -> set[int]:
        """All nodes that the step of a fragment with these keys may look at.

        Closed keys are followed only where open ones lead nowhere. A key surely leads somewhere if
        it does now and cannot be closed meanwhile: no pending fragment has it, and it leads to few
        families. A key that leads to a family always leads to a live one, because the fragment that
        brought it there stays in clusters of the families that it came to.
        """
        nodes: set[int] = set()
        sure = False
        for key in keys:
            if key in self._closed:
                continue
            families, pending = self._families_of(key), self._asking.get(key)
            nodes.update(self._home[family] for family in families)
            if pending:
                nodes |= pending
            elif families and len(families) <= self._most:
                sure = True
        if not sure:
            for key in self._closed.intersection(keys):
                nodes.update(self._home[family] for family in self._families_of(key))
        return nodes

    def _families_of(self, key: int) -> Sequence[int]:
        """The live families that a key leads to, as of the last report."""
        led = self._led.get(key)
        if led is None:
            return ()
        home = self._home
        if not all(family in home for family in led):
            led = self._led[key] = [family for family in led if family in home]
        return led

    def _placed(self, nodes: Iterable[int]) -> tuple[int, tuple[tuple[int, tuple[int, ...]], ...]]:
        """The shard with most of these nodes, or the idlest if that is too busy; and its moves.

        Nearly every fragment shares a key with something on a large shard. A shard that is too busy
        gives away what a fragment needs, or it would end up with everything.
        """
        given = self.counts.fragments
        idlest = given.index(min(given))
        by_shard: dict[int, list[int]] = {}
        for node in nodes:
            by_shard.setdefault(self._at[node], []).append(node)
        if not by_shard:
            return idlest, ()
        if len(by_shard) == 1 and not self._too_busy(only := next(iter(by_shard))):
            return only, ()
        whole = {shard: self._connected(held) for shard, held in by_shard.items()}
        target = max(whole, key=lambda shard: (len(whole[shard]), -shard))
        if self._too_busy(target):
            target = idlest
        moves = []
        for source in sorted(whole):
            if source != target:
                moved = whole[source]
                self._at.update(dict.fromkeys(moved, target))
                self.counts.moved += len(moved)
                moves.append((source, self._fragments_of(moved)))
        return target, tuple(moves)

    def _too_busy(self, shard: int) -> bool:
        given = self.counts.fragments
        return given[shard] * len(given) > _BUSY * sum(given) + _FEW * len(given)

    def _fragments_of(self, nodes: Iterable[int]) -> tuple[int, ...]:
        """At least one fragment of every subproblem that these nodes may have split into.

        Each part has a live family: an earlier one, or one that a pending fragment has begun.
        """
        return tuple(sorted({f for node in nodes for f in self._families.get(node, (node,))}))

    def _connected(self, nodes: Iterable[int]) -> set[int]:
        """These, and all nodes that pending fragments may have connected with them."""
        found, left = set(nodes), list(nodes)
        seen: set[int] = set()
        while left:
            for step in self._touching.get(left.pop(), ()):
                if step not in seen:
                    seen.add(step)
                    new = self._pending[step][1] - found
                    found |= new
                    left += new
        return found


def _discard(sets: dict[int, set[int]], key: int, number: int) -> None:
    """Take a number out of a set, and the set away with the last one."""
    held = sets[key]
    held.discard(number)
    if not held:
        del sets[key]
