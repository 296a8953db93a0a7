"""A router alone: the messages, hand-overs and skew that a file would cost.

The router is the one of a real run, and is told what a run told. Nothing is sent, so that one
process can stand for any number of shards.

    steps = steps_of(fragments, problem, rules)       # takes every step once, on one shard
    simulate(steps, problem.index.families, shards=16)

A file of millions takes long to go through step by step. `steps_in_groups` makes do with the
subproblems that a run ended with.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from typing import TypeAlias

from kbforge.clustering.rules import Rules
from kbforge.clustering.sharding.router import KeyCounts, Router
from kbforge.clustering.sharding.shard import Shard, ShardReport
from kbforge.contracts import Fragment, Problem

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


def steps_of(fragments: Iterable[Fragment], problem: Problem, rules: Rules) -> Iterator[Step]:
    """The steps of a run: exactly what shards would report.

    Args:
        fragments: in order.
        problem: what to cluster by; `require_shardable` lets it through.
        rules: how.

    """
    index, shard = problem.index, None
    assert index is not None
    for number, x in enumerate(fragments):
        if shard is None:
            shard = Shard(problem, rules, x)
        keys = index.keys(x)
        yield keys, shard.add(number, x, ())


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
