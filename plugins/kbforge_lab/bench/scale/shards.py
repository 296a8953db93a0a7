"""What a router of shards would send for the fragments of a finished run.

Only the end of the run is known: which subproblem every fragment is in. So what was connected for a
while is left out, and the counts are from below (`kbforge.clustering.sharding.simulation`).
"""

from __future__ import annotations

import time
from collections.abc import Sequence
from dataclasses import dataclass

from kbforge.clustering.sharding.simulation import simulate, steps_in_groups
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
