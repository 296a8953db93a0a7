"""What larger files would take: time, memory and workers, with intervals and assumptions.

| cost | fitted as | where a fragment gets cheaper |
|---|---|---|
| seconds of reading, preparing, clustering, writing, each | c N^b | fixed + m N |
| peak of memory | fixed + m N | |
| entities, subproblems | c N^b, to be told | |

Workers share the clustering; one process does the rest. So W workers take

    reading + preparing + writing + clustering * max(1 / W, share),

where share is the part of all fragments that the busiest worker takes however many there are: 0, or
as it was simulated. The busiest one holds as large a part of the memory.

The interval of a sum adds the ends of its parts' intervals:
their errors go together.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from kbforge_lab.bench.scale.fit import Between, Growth, Line, growth, line
from kbforge_lab.bench.scale.measuring import PARTS, Measured

AHEAD = (10**7, 10**8, 10**9)
SHARED = "clustering"
_MIB_A_GIB = 1024
_SECONDS_AN_HOUR = 3600
_LEAST_SECONDS = 1e-6  # below what clocks show


@dataclass(frozen=True, slots=True)
class Fits:
    """How costs grow.

    Attributes:
        time: of each part, its own seconds.
        memory: MiB by fragments; None where the system does not say.
        counts: entities and subproblems.

    """

    time: Mapping[str, Growth]
    memory: Line | None
    counts: Mapping[str, Growth]

    @classmethod
    def of(cls, sizes: Sequence[Measured]) -> Fits:
        """Fit what was measured."""
        ns = [one.fragments for one in sizes]
        peaks = [one.peak_mib for one in sizes if one.peak_mib is not None]
        return cls(
            {
                part: growth(ns, [max(one.own(part), _LEAST_SECONDS) for one in sizes])
                for part in PARTS
            },
            line(ns, peaks) if len(peaks) == len(ns) else None,
            {
                "entities": growth(ns, [one.entities for one in sizes]),
                "subproblems": growth(ns, [one.subproblems for one in sizes]),
            },
        )


@dataclass(frozen=True, slots=True)
class Wishes:
    """What a worker has, and how long it all may take.

    Attributes:
        gib: memory of a worker.
        hours: from the file to the knowledge base.
        share: of all fragments that the busiest worker takes, however many workers there are.

    """

    gib: float = 16.0
    hours: float = 24.0
    share: float = 0.0


@dataclass(frozen=True, slots=True)
class Needs:
    """What so many fragments would take.

    Attributes:
        fragments: N.
        seconds: in one process.
        parts: of these, by part.
        gib: in one process, None where memory is not known.
        by_memory: workers for the memory, None where it is not known; infinitely many if none are
            enough: the busiest one would hold too much.
        by_time: workers for the time, None if none are enough: what one process does takes longer.
        workers: the larger of both; of what is known and enough, and at least one.
        with_workers: seconds with so many.

    """

    fragments: int
    seconds: Between
    parts: Mapping[str, Between]
    gib: Between | None
    by_memory: Between | None
    by_time: int | None
    workers: int
    with_workers: Between

    @property
    def bound(self) -> str:
        """What asks for more workers: "memory", "time" or "neither".

        It is "one process" or "one worker" where none are enough: for the time, for the memory.
        """
        by_memory = 0.0 if self.by_memory is None else self.by_memory.value
        if math.isinf(by_memory):
            return "one worker"
        if self.by_time is None:
            return "one process"
        if max(by_memory, self.by_time) <= 1:
            return "neither"
        return "memory" if by_memory >= self.by_time else "time"


def needs(fits: Fits, n: int, wishes: Wishes) -> Needs:
    """What so many fragments would take."""
    parts = {part: found.total(n) for part, found in fits.time.items()}
    gib = None if fits.memory is None else _memory(fits.memory, n)
    by_memory = None
    if gib is not None:
        by_memory = Between(*(_holders(value, wishes) for value in gib))
    alone = sum(found.value for part, found in parts.items() if part != SHARED)
    left = _SECONDS_AN_HOUR * wishes.hours - alone
    shared = parts[SHARED].value
    if alone + shared <= _SECONDS_AN_HOUR * wishes.hours:
        by_time: int | None = 1
    else:
        by_time = math.ceil(shared / left) if left > shared * wishes.share else None
    holders = 1.0 if by_memory is None or math.isinf(by_memory.value) else by_memory.value
    workers = max(by_time or 1, int(holders))
    return Needs(
        n,
        _sum(parts),
        parts,
        gib,
        by_memory,
        by_time,
        workers,
        _sum(_shared(parts, max(1 / workers, wishes.share))),
    )


def _holders(gib: float, wishes: Wishes) -> float:
    """How many workers hold so much, if the busiest one has no more than it may."""
    if gib <= wishes.gib:
        return 1.0
    return math.inf if gib * wishes.share > wishes.gib else float(math.ceil(gib / wishes.gib))


def _memory(fitted: Line, n: int) -> Between:
    """The line, which may not go below what was measured of smaller files; GiB."""
    value, low, high = (max(mib, fitted.mean_y) / _MIB_A_GIB for mib in fitted.at(n))
    return Between(value, low, high)


def _shared(parts: Mapping[str, Between], share: float) -> dict[str, Between]:
    """The parts, with such a share of the clustering on the busiest worker."""
    return {
        part: Between(*(share * value for value in found)) if part == SHARED else found
        for part, found in parts.items()
    }


def _sum(parts: Mapping[str, Between]) -> Between:
    return Between(*(sum(ends) for ends in zip(*parts.values(), strict=True)))
