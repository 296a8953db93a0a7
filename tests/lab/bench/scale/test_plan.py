"""A plan from costs that are known: time, memory, workers, and what is said of them."""

import math
import random
from collections import defaultdict
from collections.abc import Callable
from dataclasses import replace
from itertools import islice
from pathlib import Path

import pytest

from kbforge.errors import KBForgeError, UsageError
from kbforge.files.fragments import read_fragments
from kbforge.fit.choices import RunOptions
from kbforge_lab.bench.scale.measuring import (
    PARTS,
    Measurement,
    count_fragments,
    measure_all,
    records,
    sizes_of,
    write_parts,
)
from kbforge_lab.bench.scale.plan import (
    Fits,
    ScaleReport,
    grids,
    growth,
    line,
    markdown,
    needs,
    sentences,
    summary,
)
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


def test_one_process():
    """Three parts of .1 ms a fragment and one of a second; 10 KiB a fragment."""
    found = needs(fits(1e-4), 10**7)
    assert found.seconds.value == pytest.approx(3_001)
    assert found.gib.value == pytest.approx((100 + 1e5) / 1024)


def test_what_others_of_the_machine_took_does_not_count():
    busy = [size(n, lambda n: 1e-4 * n) for n in NS]
    waited = [replace(one, wall={part: 3 * s for part, s in one.wall.items()}) for one in busy]
    threads = [replace(one, cpu={part: 2 * s for part, s in one.cpu.items()}) for one in busy]
    for sizes in (waited, threads):
        assert needs(Fits.of(sizes), 10**7).seconds.value == pytest.approx(3_001)


def test_a_system_that_does_not_say_its_memory():
    assert needs(fits(1e-4, None), 10**8).gib is None


def test_what_is_told_of_a_plan():
    scaled = ScaleReport(
        "people.jsonl",
        "first fragments",
        [size(n, lambda n: 1e-4 * n, 0.01 * n + 100) for n in NS],
    )
    tables = grids(scaled)
    assert all(len(row) == len(grid.head) for grid in tables for row in grid.rows)
    assert [row[0] for row in tables[2].rows] == ["10,000,000", "100,000,000", "1,000,000,000"]
    fitted = {row[0]: row[1] for row in tables[1].rows}
    assert fitted["peak of memory, MiB"] == "100 + 10 a thousand"
    assert "50 (" not in fitted["writing, s"]
    page = markdown(scaled)
    assert "| 10,000,000 | 50 (" in page
    assert "people.jsonl (first fragments)" in next(sentences(scaled))
    figures = summary(scaled)
    assert figures["memory_mib"]["a_fragment"] == pytest.approx(0.01)


def test_an_interval_without_an_end():
    sizes = [size(n, lambda n: (3e-4 if n == NS[1] else 1e-5) * n) for n in NS]
    assert "to ?)" in grids(ScaleReport("x", "y", sizes))[2].rows[0][1]


def test_what_was_measured_is_not_planned():
    sizes = [size(n, lambda n: 1e-4 * n) for n in (10**5, 10**6, 10**7)]
    assert [one.fragments for one in ScaleReport("x", "y", sizes).plans] == [
        10**8,
        10**9,
    ]


# Lines and powers are found again, and intervals hold what they should.


SIZES = (1_000, 3_000, 10_000, 30_000, 100_000)


def test_a_line_without_errors_has_no_interval():
    found = line([1.0, 2.0, 4.0], [5.0, 7.0, 11.0])
    assert (found.slope, found.residual) == (pytest.approx(2.0), pytest.approx(0.0, abs=1e-12))
    assert found.at(10.0) == pytest.approx((23.0, 23.0, 23.0))


def test_the_interval_of_a_line_by_hand():
    """y = 0, 3, 0 at x = -1, 0, 1: slope 0, mean 1, s^2 = (1 + 4 + 1) / 1, t of one degree."""
    found = line([-1.0, 0.0, 1.0], [0.0, 3.0, 0.0])
    assert found.residual == pytest.approx(math.sqrt(6))
    half = 6.314 * math.sqrt(6) * math.sqrt(1 + 1 / 3 + 9 / 2)
    assert found.at(3.0) == pytest.approx((1.0, 1.0 - half, 1.0 + half))


def test_nine_in_ten_new_values_are_in_their_intervals():
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
def test_a_power_is_found_again(exponent):
    found = growth(SIZES, [2e-6 * n**exponent for n in SIZES])
    assert found.exponent == pytest.approx(exponent)
    assert found.total(10**9).value == pytest.approx(2e-6 * 1e9**exponent)


def test_a_fixed_cost_does_not_make_large_files_free():
    found = growth(SIZES, [5 + 1e-4 * n for n in SIZES])
    assert found.exponent < 1
    assert found.total(10**9).value == pytest.approx(5 + 1e5)
    fixed = growth(SIZES, [5 - 1e-9 * n for n in SIZES])
    assert fixed.total(10**12).low == pytest.approx(5, rel=1e-3)


def test_sizes_of_less_than_a_hundredth_do_not_count():
    costs = [1e-3 * n**1.1 for n in (1_000, 3_000, 10_000, 100_000, 1_000_000)]
    told = growth((1_000, 3_000, 10_000, 100_000, 1_000_000), [99.0, 99.0, *costs[2:]])
    assert told.exponent == pytest.approx(1.1)
    assert told.power.points == 3


def test_no_total_is_more_than_a_number():
    wild = growth((10, 100, 1_000), [1e-9, 1e3, 1e-4])
    assert all(map(math.isfinite, wild.total(10**9)))


def test_two_sizes_are_too_few():
    with pytest.raises(KBForgeError, match="3 sizes or more, got 2"):
        growth((10, 20), (1.0, 2.0))
    with pytest.raises(KBForgeError, match="got 1"):
        line((10.0, 10.0, 10.0), (1.0, 2.0, 3.0))


# Made-up people: as many as asked for, the same each time, with slips and gaps.


def test_the_same_records_each_time_and_others_by_another_seed():
    first, again, other = (list(islice(records(50, seed), 200)) for seed in (1, 1, 2))
    assert first == again
    assert [one.properties for one in first] != [one.properties for one in other]
    assert len({one.id for one in first}) == 200
    assert all(one.properties for one in first)


def test_the_population_is_fixed_and_its_records_have_slips():
    names: dict[str | None, set[str]] = defaultdict(set)
    for one in islice(records(10), 2_000):
        names[one.label].update(one.properties.get("name", ()))
    assert len(names) == 10
    assert all(len(spelled) > 5 for spelled in names.values())


def test_spellings_come_to_an_end():
    names: dict[str | None, set[str]] = defaultdict(set)
    for one in islice(records(5, spellings=3), 3_000):
        names[one.label].update(one.properties.get("name", ()))
    assert all(2 <= len(spelled) <= 4 for spelled in names.values())


def test_nobody_has_no_records():
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
def test_sizes_that_nobody_named(total, sizes):
    assert sizes_of(total) == sizes


def test_sizes_that_cannot_be():
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


def test_parts_are_beginnings_or_nested_draws(tmp_path):
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


def test_made_up_people_are_as_many_as_the_records_allow(tmp_path):
    write_parts(None, (60, 600), "first", 0, tmp_path)
    found = [{one.label for one in read_fragments(str(tmp_path / f"{n}.jsonl"))} for n in (60, 600)]
    assert 12 <= len(found[0]) <= 20
    assert 120 <= len(found[1]) <= 200


def test_sizes_go_all_the_way_in_processes_of_their_own(tmp_path):
    told: list[tuple[int, str, float]] = []
    found = list(
        measure_all(
            None,
            (20, 40, 80),
            RunOptions(likelihood="attributes"),
            on_part=lambda *part: told.append(part),
            environment={"KBFORGE_WORKERS": "1"},
        )
    )
    assert [one.fragments for one in found] == [20, 40, 80]
    for one in found:
        assert list(one.wall) == list(one.cpu) == list(PARTS)
        assert all(seconds > 0 for seconds in one.wall.values())
        assert 0 < one.subproblems <= one.entities <= one.clusters
        assert one.entities <= one.fragments
        assert one.written > 0
    assert [part for size, part, _ in told if size == 80] == list(PARTS)


def test_a_run_that_fails_says_at_which_size():
    choices = RunOptions(likelihood="gaussian")
    with pytest.raises(KBForgeError, match="at 10 fragments: "):
        list(measure_all(None, (10, 20, 30), choices))
