"""A plan from costs that are known: time, memory, workers, and what is said of them."""

from __future__ import annotations

import math
import os
import random
from collections import defaultdict
from collections.abc import Callable, Iterable, Iterator
from dataclasses import replace
from itertools import islice
from pathlib import Path

import pytest

from kbforge.clustering.propose import Rules
from kbforge.clustering.sharding.shard import Shard
from kbforge.contracts import Fragment, Problem
from kbforge.errors import KBForgeError, UsageError
from kbforge.files.fragments import read_fragments
from kbforge.fit.choices import Choices
from kbforge_lab.bench.scale.measuring import (
    PARTS,
    Measurement,
    RouterCosts,
    Step,
    count_fragments,
    measure_all,
    records,
    simulate,
    sizes_of,
    steps_in_groups,
    write_parts,
)
from kbforge_lab.bench.scale.plan import (
    Fits,
    ScaleReport,
    WorkerLimits,
    grids,
    growth,
    line,
    markdown,
    needs,
    sentences,
    summary,
)
from kbforge_plugins.resamplers import Greedy
from tests.clustering.test_sharding import of_people, sharded
from tests.people import write_people


def size(n: int, seconds: Callable[[int], float], mib: float | None = None) -> Measurement:
    """A size of which every part but reading, which takes a second, takes so many seconds."""
    wall = {part: 1.0 if part == "reading" else seconds(n) for part in PARTS}
    return Measurement(
        fragments=n,
        entities=n // 2,
        subproblems=n // 4,
        clusters=n,
        largest=5,
        wall=wall,
        cpu=wall,
        starting=0.5,
        peak_mib=mib,
        held_mib=dict.fromkeys(PARTS, mib),
        likelihood="attributes",
        kernel="a kernel",
        written=100 * n,
    )


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
    found = needs(fits(1e-4), 10**7, WorkerLimits(gib=200.0, hours=24.0))
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
        assert needs(Fits.of(sizes), 10**7, WorkerLimits()).seconds.value == pytest.approx(3_001)


def test_memory_asks_for_workers_and_they_share_the_clustering() -> None:
    found = needs(fits(1e-4), 10**7, WorkerLimits(gib=10.0, hours=24.0))
    assert (found.workers, found.bound) == (10, "memory")
    assert found.with_workers.value == pytest.approx(1 + 1_000 + 1_000 + 100)
    uneven = needs(fits(1e-4), 10**7, WorkerLimits(gib=10.0, hours=24.0, share=0.1005))
    assert uneven.with_workers.value == pytest.approx(1 + 1_000 + 1_000 + 100.5)


def test_a_worker_that_takes_all_cannot_be_helped() -> None:
    found = needs(fits(1e-4), 10**7, WorkerLimits(gib=10.0, hours=0.6, share=0.99))
    assert found.by_memory is not None
    assert math.isinf(found.by_memory.value)
    assert (found.by_time, found.workers, found.bound) == (None, 1, "one worker")
    scaled = ScaleReport(
        "x", "y", [size(n, lambda n: 1e-4 * n, 100 + 0.01 * n) for n in NS], WorkerLimits(share=1.0)
    )
    assert grids(scaled)[2].rows[0][3] == "none are enough"


def test_time_asks_for_workers_until_none_are_enough() -> None:
    """Of 3,001 seconds 2,001 stay in one process: .6 hours leave 159 for the other 1,000."""
    hasty = needs(fits(1e-4), 10**7, WorkerLimits(gib=1_000.0, hours=0.6))
    assert (hasty.by_time, hasty.workers, hasty.bound) == (7, 7, "time")
    assert hasty.with_workers.value <= 0.6 * HOUR
    never = needs(fits(1e-4), 10**7, WorkerLimits(gib=1_000.0, hours=0.5))
    assert (never.by_time, never.bound) == (None, "one process")


def test_a_system_that_does_not_say_its_memory() -> None:
    found = needs(fits(1e-4, None), 10**8, WorkerLimits())
    assert (found.gib, found.by_memory, found.workers) == (None, None, 1)


def test_what_is_told_of_a_plan() -> None:
    scaled = ScaleReport(
        "people.jsonl",
        "first fragments",
        [size(n, lambda n: 1e-4 * n, 0.01 * n + 100) for n in NS],
        WorkerLimits(),
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
    routed = RouterCosts(64, 1_000, 1_010, 10, 10, 32.0, 0.5)
    scaled = ScaleReport(
        "x", "y", [*sizes[:-1], replace(sizes[-1], routed=[routed])], WorkerLimits()
    )
    table = grids(scaled)[-1]
    assert table.rows == [["64", "1.010", "1.0 %", "0.010", "32.00", "2,000"]]
    assert "Of 64 shards the busiest takes 50 % of the fragments" in " ".join(sentences(scaled))
    assert "to ?)" in grids(scaled)[2].rows[0][1]


def test_what_was_measured_is_not_planned() -> None:
    sizes = [size(n, lambda n: 1e-4 * n) for n in (10**5, 10**6, 10**7)]
    assert [one.fragments for one in ScaleReport("x", "y", sizes, WorkerLimits()).plans] == [
        10**8,
        10**9,
    ]


# Lines and powers are found again, and intervals hold what they should.


SIZES = (1_000, 3_000, 10_000, 30_000, 100_000)


def test_a_line_without_errors_has_no_interval() -> None:
    found = line([1.0, 2.0, 4.0], [5.0, 7.0, 11.0])
    assert (found.slope, found.residual) == (pytest.approx(2.0), pytest.approx(0.0, abs=1e-12))
    assert found.at(10.0) == pytest.approx((23.0, 23.0, 23.0))


def test_the_interval_of_a_line_by_hand() -> None:
    """y = 0, 3, 0 at x = -1, 0, 1: slope 0, mean 1, s^2 = (1 + 4 + 1) / 1, t of one degree."""
    found = line([-1.0, 0.0, 1.0], [0.0, 3.0, 0.0])
    assert found.residual == pytest.approx(math.sqrt(6))
    half = 6.314 * math.sqrt(6) * math.sqrt(1 + 1 / 3 + 9 / 2)
    assert found.at(3.0) == pytest.approx((1.0, 1.0 - half, 1.0 + half))


def test_nine_in_ten_new_values_are_in_their_intervals() -> None:
    rng = random.Random(7)
    within = 0
    for _ in range(1_000):
        xs = [math.log(n) for n in SIZES]
        found = line(xs, [0.2 * x + rng.gauss(0, 0.1) for x in xs])
        ahead = math.log(1e7)
        _, low, high = found.at(ahead)
        within += low <= 0.2 * ahead + rng.gauss(0, 0.1) <= high
    assert 860 <= within <= 940


@pytest.mark.parametrize("exponent", [1.0, 1.2, 1.5])
def test_a_power_is_found_again(exponent: float) -> None:
    found = growth(SIZES, [2e-6 * n**exponent for n in SIZES])
    assert found.exponent == pytest.approx(exponent)
    assert found.total(10**9).value == pytest.approx(2e-6 * 1e9**exponent)


def test_a_fixed_cost_does_not_make_large_files_free() -> None:
    found = growth(SIZES, [5 + 1e-4 * n for n in SIZES])
    assert found.exponent < 1
    assert found.total(10**9).value == pytest.approx(5 + 1e5)
    fixed = growth(SIZES, [5 - 1e-9 * n for n in SIZES])
    assert fixed.total(10**12).low == pytest.approx(5, rel=1e-3)


def test_sizes_of_less_than_a_hundredth_do_not_count() -> None:
    costs = [1e-3 * n**1.1 for n in (1_000, 3_000, 10_000, 100_000, 1_000_000)]
    told = growth((1_000, 3_000, 10_000, 100_000, 1_000_000), [99.0, 99.0, *costs[2:]])
    assert told.exponent == pytest.approx(1.1)
    assert told.power.points == 3


def test_no_total_is_more_than_a_number() -> None:
    wild = growth((10, 100, 1_000), [1e-9, 1e3, 1e-4])
    assert all(map(math.isfinite, wild.total(10**9)))


def test_two_sizes_are_too_few() -> None:
    with pytest.raises(KBForgeError, match="3 sizes or more, got 2"):
        growth((10, 20), (1.0, 2.0))
    with pytest.raises(KBForgeError, match="got 1"):
        line((10.0, 10.0, 10.0), (1.0, 2.0, 3.0))


# Made-up people: as many as asked for, the same each time, with slips and gaps.


def test_the_same_records_each_time_and_others_by_another_seed() -> None:
    first, again, other = (list(islice(records(50, seed), 200)) for seed in (1, 1, 2))
    assert first == again
    assert [one.properties for one in first] != [one.properties for one in other]
    assert len({one.id for one in first}) == 200
    assert all(one.properties for one in first)


def test_the_population_is_fixed_and_its_records_have_slips() -> None:
    names: dict[str | None, set[str]] = defaultdict(set)
    for one in islice(records(10), 2_000):
        names[one.label].update(one.properties.get("name", ()))
    assert len(names) == 10
    assert all(len(spelled) > 5 for spelled in names.values())


def test_spellings_come_to_an_end() -> None:
    names: dict[str | None, set[str]] = defaultdict(set)
    for one in islice(records(5, spellings=3), 3_000):
        names[one.label].update(one.properties.get("name", ()))
    assert all(2 <= len(spelled) <= 4 for spelled in names.values())


def test_nobody_has_no_records() -> None:
    with pytest.raises(UsageError, match="1 or more, got 0"):
        next(records(0))


# Parts of a file, drawn and measured.


@pytest.mark.parametrize(
    ("total", "sizes"),
    [
        (None, (1_000, 3_000, 10_000, 30_000, 100_000)),
        (2_000_000, (1_000, 3_000, 10_000, 30_000, 100_000)),
        (50_576, (1_000, 3_000, 10_000, 30_000, 50_576)),
        (5_019, (627, 1_254, 2_509, 5_019)),
        (100, (12, 25, 50, 100)),
        (5, (1, 2, 5)),
    ],
)
def test_sizes_that_nobody_named(total: int | None, sizes: tuple[int, ...]) -> None:
    assert sizes_of(total) == sizes


def test_sizes_that_cannot_be() -> None:
    assert sizes_of(None, [30, 10, 20, 20]) == (10, 20, 30)
    for wrong in ([10, 20], [10, 10, 10], [0, 10, 20]):
        with pytest.raises(UsageError, match="three or more from 1"):
            sizes_of(100, wrong)
    with pytest.raises(UsageError, match="at most 100 fragments, got 101"):
        sizes_of(100, [10, 20, 101])
    with pytest.raises(KBForgeError, match="there are 3 fragments"):
        sizes_of(3)


def ids(path: Path) -> list[str]:
    return [one.id for one in read_fragments(str(path))]


def test_parts_are_beginnings_or_nested_draws(tmp_path: Path) -> None:
    file = write_people(tmp_path / "people.jsonl")
    everything = ids(file)
    assert count_fragments(str(file)) == len(everything)
    write_parts(str(file), (10, 30), "first", 0, tmp_path)
    assert ids(tmp_path / "30.jsonl") == everything[:30]
    assert ids(tmp_path / "10.jsonl") == everything[:10]
    write_parts(str(file), (10, 30), "random", 0, tmp_path)
    small, large = ids(tmp_path / "10.jsonl"), ids(tmp_path / "30.jsonl")
    assert (len(small), len(large)) == (10, 30)
    assert set(small) < set(large) != set(everything[:30])
    assert large == [id for id in everything if id in set(large)]
    write_parts(str(file), (10, 30), "random", 1, tmp_path)
    assert ids(tmp_path / "30.jsonl") != large


def test_made_up_people_are_as_many_as_the_records_allow(tmp_path: Path) -> None:
    write_parts(None, (60, 600), "first", 0, tmp_path)
    found = [{one.label for one in read_fragments(str(tmp_path / f"{n}.jsonl"))} for n in (60, 600)]
    assert 12 <= len(found[0]) <= 20
    assert 120 <= len(found[1]) <= 200


def test_sizes_go_all_the_way_in_processes_of_their_own(tmp_path: Path) -> None:
    told: list[tuple[int, str, float]] = []
    found = list(
        measure_all(
            None,
            (20, 40, 80),
            Choices(likelihood="attributes"),
            on_part=lambda *part: told.append(part),
            environment={"KBFORGE_KERNEL": "0"},
            shards=(1, 4),
        )
    )
    assert [one.fragments for one in found] == [20, 40, 80]
    for one in found:
        assert list(one.wall) == list(one.cpu) == list(PARTS)
        assert all(seconds > 0 for seconds in one.wall.values())
        assert 0 < one.subproblems <= one.entities <= one.clusters
        assert one.entities <= one.fragments
        assert one.written > 0
        assert one.kernel.startswith("no kernel")
    assert [part for size, part, _ in told if size == 80] == list(PARTS)
    assert [len(one.routed) for one in found] == [0, 0, 2]
    alone, four = found[-1].routed
    assert (alone.shards, alone.messages, alone.crossing, alone.skew) == (1, 80, 0, 1.0)
    assert four.shards == 4
    assert four.messages == 80 + four.moves
    assert 1.0 <= four.skew <= 4.0
    assert os.environ.get("KBFORGE_KERNEL") != "0"


def test_a_run_that_fails_says_at_which_size() -> None:
    choices = Choices(likelihood="gaussian")
    with pytest.raises(KBForgeError, match="at 10 fragments: "):
        list(measure_all(None, (10, 20, 30), choices))


# A router of shards without shards: what it would send, as counted in a run.


def steps_of(fragments: Iterable[Fragment], problem: Problem, rules: Rules) -> Iterator[Step]:
    """The steps of a run: exactly what shards would report."""
    index, shard = problem.index, None
    assert index is not None
    for number, x in enumerate(fragments):
        if shard is None:
            shard = Shard(problem, rules, x)
        keys = index.keys(x)
        yield keys, shard.add(number, x, ())


def test_a_simulation_counts_what_a_run_does() -> None:
    fragments, problem = of_people(120, 4)
    rules = Rules(20, Greedy(), splits=True)
    _, real = sharded(problem, rules, fragments, 3, 15)
    assert problem.index is not None
    families = problem.index.families
    steps = list(steps_of(fragments, problem, rules))
    assert simulate(steps, families, 3, 16) == real
    alone = simulate(steps, families, 1, 16)
    assert (alone.fragments, alone.moves, alone.skew) == ([len(fragments)], 0, 1.0)
    assert simulate([], families, 3, 16).skew == 1.0


def test_a_simulation_of_groups() -> None:
    """0 and 1 are one, 2 is another; 3 has a key of both, and 4 one that has led too far."""
    keys = [(1, 9), (1,), (2, 9), (1, 2), (9,)]
    steps = list(steps_in_groups(keys, [0, 0, 2, 0, 4], 1))
    assert [report.before for _, report in steps] == [(), (0,), (), (0,), ()]
    assert [report.closed for _, report in steps] == [(), (), (), (), (9,)]
    counts = simulate(steps, 1, 2, 1)
    # 2 has a key of 0, so that both are on one shard; so is what asks for both
    assert counts.fragments == [5, 0]
    assert counts.skew == 2


def test_unconnected_fragments_are_spread_evenly() -> None:
    counts = simulate(steps_in_groups([(i,) for i in range(90)], range(90), 8), 8, 3, 10)
    assert counts.fragments == [30, 30, 30]
    assert (counts.moves, counts.crossing, counts.messages) == (0, 0, 90)
