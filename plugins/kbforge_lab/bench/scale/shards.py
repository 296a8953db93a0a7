"""What a router of shards would send for the fragments of a finished run.

Only the end of the run is known: which subproblem every fragment is in. So what was connected for a
while is left out, and the counts are from below. The router is the one of a real run; nothing is
sent, so that one process can stand for any number of shards.
"""

from __future__ import annotations

import time
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from typing import TypeAlias

from kbforge.clustering.sharding.router import KeyCounts, Router
from kbforge.clustering.sharding.shard import ShardReport
from kbforge.contracts import CandidateIndex, Fragment, Posterior

AHEAD = 64
"""Fragments that are pending when the next one is routed."""


@dataclass(frozen=True, slots=True)
class Routed:
    """What so many shards would cost.

    Attributes:
        shards: how many.
        fragments: routed.
        messages: one a fragment and one a hand-over.
        crossing: fragments that had to look at subproblems of several shards.
        moves: hand-overs.
        skew: fragments of the busiest shard over the mean.
        seconds: that the router alone took, in one process.

    """

    shards: int
    fragments: int
    messages: int
    crossing: int
    moves: int
    skew: float
    seconds: float

    @property
    def busiest(self) -> float:
        """The share of all fragments that the busiest shard takes."""
        return self.skew / self.shards


def routed(
    fragments: Sequence[Fragment],
    index: CandidateIndex,
    posterior: Posterior,
    shards: Sequence[int],
) -> list[Routed]:
    """The costs of each number of shards."""
    keys = [tuple(index.keys(x)) for x in fragments]
    names = [0] * len(fragments)
    for subproblem in posterior.subproblems:
        name = min(subproblem.fragments)
        for number in subproblem.fragments:
            names[number] = name
    steps = list(steps_in_groups(keys, names, index.families))
    out = []
    for count in shards:
        begin = time.perf_counter()
        told = simulate(steps, index.families, count, AHEAD)
        seconds = time.perf_counter() - begin
        out.append(
            Routed(
                count,
                len(fragments),
                told.messages,
                told.crossing,
                told.moves,
                told.skew,
                seconds,
            )
        )
    return out


Step: TypeAlias = tuple[Sequence[int], ShardReport]
"""A fragment's keys, and what taking it in did."""


def simulate(steps: Iterable[Step], families: int, shards: int, ahead: int) -> KeyCounts:
    """What a router asks of its shards.

    Args:
        steps: of the fragments, in order, numbered from 0.
        families: of the index.
        shards: how many there are.
        ahead: how many fragments are pending, at most.

    """
    router, waiting = Router(shards, families), list[ShardReport]()
    for keys, report in steps:
        if len(waiting) == ahead:
            router.hear(waiting.pop(0))
        router.route(keys)
        waiting.append(report)
    return router.counts


def steps_in_groups(
    keys: Iterable[Sequence[int]], subproblem: Sequence[int], families: int
) -> Iterator[Step]:
    """The steps of a run of which only the end is known, as if every subproblem had one family.

    It leaves out two things that happen on the way: subproblems that were connected for a while,
    and families beside the first of a subproblem. So keys close later than in the run.

    Args:
        keys: of the fragments, in order.
        subproblem: that each fragment ended in, by name.
        families: of the index: a key that leads to more is closed.

    """
    led: dict[int, set[int]] = {}
    closed: set[int] = set()
    begun: set[int] = set()
    for number, (of_one, name) in enumerate(zip(keys, subproblem, strict=True)):
        found = tuple(
            key for key in of_one if key not in closed and len(led.get(key, ())) > families
        )
        closed.update(found)
        for key in of_one:
            if key in closed:
                led.pop(key, None)
            else:
                led.setdefault(key, set()).add(name)
        before = (name,) if name in begun else ()
        begun.add(name)
        yield of_one, ShardReport(number, before, ((name, (name,)),), (name,), found)
