"""A plan from costs that are known: time, memory, workers, and what is said of them."""

from __future__ import annotations

import math
from dataclasses import replace

import pytest

from kbforge_lab.bench.scale.plan import Fits, Wishes, needs
from kbforge_lab.bench.scale.report import Scaled, grids, markdown, sentences, summary
from kbforge_lab.bench.scale.shards import Routed
from tests.lab.bench.scale.sizes import size

NS = (1_000, 10_000, 100_000)
HOUR = 3600.0


def fits(a_fragment: float, mib_a_fragment: float | None = 0.01) -> Fits:
    return Fits.of(
        [
            size(
                n,
                lambda n: a_fragment * n,
                None if mib_a_fragment is None else 100 + mib_a_fragment * n,
            )
            for n in NS
        ]
    )


def test_one_process() -> None:
    """Three parts of .1 ms a fragment and one of a second; 10 KiB a fragment."""
    found = needs(fits(1e-4), 10**7, Wishes(gib=200.0, hours=24.0))
    assert found.seconds.value == pytest.approx(3_001)
    assert found.gib is not None
    assert found.gib.value == pytest.approx((100 + 1e5) / 1024)
    assert (found.by_time, found.workers, found.bound) == (1, 1, "neither")
    assert found.with_workers == found.seconds


def test_what_others_of_the_machine_took_does_not_count() -> None:
    busy = [size(n, lambda n: 1e-4 * n) for n in NS]
    waited = [replace(one, wall={part: 3 * s for part, s in one.wall.items()}) for one in busy]
    threads = [replace(one, cpu={part: 2 * s for part, s in one.cpu.items()}) for one in busy]
    for sizes in (waited, threads):
        assert needs(Fits.of(sizes), 10**7, Wishes()).seconds.value == pytest.approx(3_001)


def test_memory_asks_for_workers_and_they_share_the_clustering() -> None:
    found = needs(fits(1e-4), 10**7, Wishes(gib=10.0, hours=24.0))
    assert (found.workers, found.bound) == (10, "memory")
    assert found.with_workers.value == pytest.approx(1 + 1_000 + 1_000 + 100)
    uneven = needs(fits(1e-4), 10**7, Wishes(gib=10.0, hours=24.0, share=0.1005))
    assert uneven.with_workers.value == pytest.approx(1 + 1_000 + 1_000 + 100.5)


def test_a_worker_that_takes_all_cannot_be_helped() -> None:
    found = needs(fits(1e-4), 10**7, Wishes(gib=10.0, hours=0.6, share=0.99))
    assert found.by_memory is not None
    assert math.isinf(found.by_memory.value)
    assert (found.by_time, found.workers, found.bound) == (None, 1, "one worker")
    scaled = Scaled(
        "x", "y", [size(n, lambda n: 1e-4 * n, 100 + 0.01 * n) for n in NS], Wishes(share=1.0)
    )
    assert grids(scaled)[2].rows[0][3] == "none are enough"


def test_time_asks_for_workers_until_none_are_enough() -> None:
    """Of 3,001 seconds 2,001 stay in one process: .6 hours leave 159 for the other 1,000."""
    hasty = needs(fits(1e-4), 10**7, Wishes(gib=1_000.0, hours=0.6))
    assert (hasty.by_time, hasty.workers, hasty.bound) == (7, 7, "time")
    assert hasty.with_workers.value <= 0.6 * HOUR
    never = needs(fits(1e-4), 10**7, Wishes(gib=1_000.0, hours=0.5))
    assert (never.by_time, never.bound) == (None, "one process")


def test_a_system_that_does_not_say_its_memory() -> None:
    found = needs(fits(1e-4, None), 10**8, Wishes())
    assert (found.gib, found.by_memory, found.workers) == (None, None, 1)


def test_what_is_told_of_a_plan() -> None:
    scaled = Scaled(
        "people.jsonl",
        "first fragments",
        [size(n, lambda n: 1e-4 * n, 0.01 * n + 100) for n in NS],
        Wishes(),
    )
    tables = grids(scaled)
    assert all(len(row) == len(grid.head) for grid in tables for row in grid.rows)
    assert [row[0] for row in tables[2].rows] == ["10,000,000", "100,000,000", "1,000,000,000"]
    fitted = {row[0]: row[1] for row in tables[1].rows}
    assert fitted["peak of memory, MiB"] == "100 + 10 a thousand"
    assert "50 (" not in fitted["writing, s"]
    page = markdown(scaled)
    assert "| 10,000,000 | 50 (" in page
    said = " ".join(sentences(scaled))
    assert "At 10,000,000, 100,000,000 fragments memory asks for more workers" in said
    assert "what one process does alone takes longer" in said
    figures = summary(scaled)
    assert figures["plans"][0]["workers"] == 7
    assert figures["memory_mib"]["a_fragment"] == pytest.approx(0.01)


def test_a_router_is_told_of_and_an_interval_without_an_end() -> None:
    sizes = [size(n, lambda n: (3e-4 if n == NS[1] else 1e-5) * n) for n in NS]
    routed = Routed(64, 1_000, 1_010, 10, 10, 32.0, 0.5)
    scaled = Scaled("x", "y", [*sizes[:-1], replace(sizes[-1], routed=[routed])], Wishes())
    table = grids(scaled)[-1]
    assert table.rows == [["64", "1.010", "1.0 %", "0.010", "32.00", "2,000"]]
    assert "Of 64 shards the busiest takes 50 % of the fragments" in " ".join(sentences(scaled))
    assert "to ?)" in grids(scaled)[2].rows[0][1]


def test_what_was_measured_is_not_planned() -> None:
    sizes = [size(n, lambda n: 1e-4 * n) for n in (10**5, 10**6, 10**7)]
    assert [one.fragments for one in Scaled("x", "y", sizes, Wishes()).plans] == [10**8, 10**9]
