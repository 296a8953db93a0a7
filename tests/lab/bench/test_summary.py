"""Means, deviations and verdicts, against numbers worked out by hand."""

import math
from dataclasses import replace
from itertools import pairwise
from typing import Any

import orjson
import pytest

from kbforge_lab.bench import perform as performing
from kbforge_lab.bench.perform import perform
from kbforge_lab.bench.report import race_part, reached, table
from kbforge_lab.bench.results import Row
from kbforge_lab.bench.summary import Spread, failures, footnotes, lines, shortfalls, verdicts
from kbforge_lab.bench.workers import Failure
from kbforge_lab.suites.plan import Expectation, Method, PaperFigures
from tests.lab.bench.toys import GREEDY, SPLIT, plan, row, run

ROWS = [
    row(GREEDY, 0, log_posterior=-110.0, f1=0.5, cpu_seconds=1.0),
    row(GREEDY, 1, log_posterior=-130.0, f1=0.7, cpu_seconds=3.0),
    row(SPLIT, 0, log_posterior=-100.0, f1=0.9, cpu_seconds=8.0),
    row(replace(SPLIT, particles=3), 0, log_posterior=-999.0),
    row(replace(SPLIT, surrogate=True), 0, log_posterior=-999.0),
    row(SPLIT, 5, task="another task", log_posterior=-999.0),
]


def test_a_line_is_of_one_method_setting_and_task():
    greedy, split = lines(ROWS, plan())
    assert (greedy.method, greedy.runs, split.method, split.runs) == (GREEDY, 2, SPLIT, 1)
    assert greedy.log_posterior == Spread(-120.0, pytest.approx(200**0.5))
    assert greedy.f1.mean == pytest.approx(0.6)
    assert split.log_posterior == Spread(-100.0, None)


def test_a_grouping_that_cannot_be_makes_the_mean_infinite_and_no_deviation():
    rows = [row(SPLIT, 0), row(SPLIT, 1, log_posterior=-math.inf)]
    wanted = Expectation("toy", "Split SMC", "log_posterior", -1e6)
    (line,) = lines(rows, plan())
    assert line.log_posterior.mean == -math.inf
    assert line.log_posterior.sd is None
    (verdict,) = verdicts(rows, plan(expectations=(wanted,)))
    assert verdict.held is False


def test_what_ran_less_than_planned_is_said():
    once = replace(GREEDY, name="Once", shuffles=1)
    absent = replace(GREEDY, name="Absent")
    made = plan(methods=(GREEDY, SPLIT, once, absent), shuffles=3)
    rows = [row(once), *(row(method, s) for method in (GREEDY, SPLIT) for s in (0, 1))]
    assert shortfalls(lines(rows, made), made) == [
        "toy: 2 of 3 planned orders of Greedy, Split SMC",
        "toy: 0 of 3 planned orders of Absent",
    ]
    assert shortfalls(lines([row(GREEDY, 0), row(SPLIT, 0)], plan()), plan(shuffles=1)) == []


def test_failures_are_told_by_their_reason():
    failed = [Failure(run(shuffle=s), why) for s, why in enumerate(["a", "b", "a", "a"])]
    assert failures(failed) == [
        "Split SMC (P=10) on toy, order 0, and 2 other runs failed: a",
        "Split SMC (P=10) on toy, order 1 failed: b",
    ]
    assert failures([]) == []


def test_what_the_budget_ended_is_told_apart_from_what_it_left_out():
    runs = [
        row(SPLIT, 0, log_posterior=-90.0),
        row(SPLIT, 1, log_posterior=-110.0, cut=True),
        row(SPLIT, 2, log_posterior=-20.0, cut=True, fragments=9),
        row(SPLIT, 3, log_posterior=-10.0, cut=True, fragments=7),
    ]
    (line,) = lines(runs, plan())
    assert (line.runs, line.cut, line.parts, line.of) == (4, 1, (7, 9), 40)
    assert line.endings == "2 saw a part, 7 to 9 of 40; 1 cut short"
    # the figures of a part are of another problem
    assert line.log_posterior.mean == -100.0
    assert line.compares
    assert list(footnotes([line])) == ["saw a part", "cut short"]
    (line,) = lines(runs[2:], plan())
    assert (line.log_posterior.mean, line.compares) == (-15.0, False)
    assert lines(runs[3:], plan())[0].endings == "1 saw a part, 7 of 40"
    (line,) = lines(runs[:2], plan())
    assert (line.endings, list(footnotes([line]))) == ("1 cut short", ["cut short"])
    (line,) = lines(runs[:1], plan())
    assert (line.endings, footnotes([line])) == ("", {})


RATIO = "CPU x Split SMC"


def shown(rows: list[Row], **changes: Any) -> list[dict[str, str]]:
    """The cells of each line of the table, by its head."""
    made = plan(**changes)
    head, _, *body = (
        [cell.strip() for cell in line.strip("|").split("|")]
        for line in table("toy", made, lines(rows, made)).splitlines()
    )
    return [dict(zip(head, cells, strict=True)) for cells in body]


def test_the_table_says_what_saw_a_part_and_compares_no_time_with_it():
    part = row(GREEDY, 0, fragments=12, cut=True, cpu_seconds=4.0)
    rows = [part, row(SPLIT, 0, cut=True, cpu_seconds=8.0)]
    greedy, split = shown(rows)
    assert greedy["runs"] == "1 (1 saw a part, 12 of 40)"
    assert (greedy["CPU seconds"], greedy[RATIO]) == ("4", "")
    assert (split["runs"], split[RATIO]) == ("1 (1 cut short)", "1")
    rows = [row(GREEDY, 0, cpu_seconds=4.0), row(SPLIT, 0, fragments=12)]
    assert [cells[RATIO] for cells in shown(rows)] == ["", ""]


@pytest.mark.parametrize(
    ("wanted", "held", "said"),
    [
        (Expectation("toy", "Split SMC", "f1", 0.9), True, "0.9000, at least the bound, 0.9000"),
        (Expectation("toy", "Split SMC", "f1", 0.91), False, "0.0100 below the bound, 0.9100"),
        (
            Expectation("toy", "Split SMC", "log_posterior", no_worse_than=("Greedy",)),
            True,
            "log posterior of Split SMC is -100.00, at least that of Greedy, -110.00 "
            "(on 1 of 2 planned orders in common)",
        ),
        (
            Expectation("toy", "Greedy", "log_posterior", no_worse_than=("Split SMC",), slack=9.0),
            False,
            "-110.00, 1.00 below that of Split SMC less 9, -109.00",
        ),
        (
            Expectation("toy", "Greedy", "log_posterior", no_worse_than=("Split SMC",), slack=10.0),
            True,
            "at least that of Split SMC less 10",
        ),
        (
            Expectation("toy", "Split SMC", "f1", no_worse_than=("Greedy",), slack=-0.45),
            False,
            "0.9000, 0.0500 below that of Greedy plus 0.45, 0.9500",
        ),
        (
            Expectation("toy", "Greedy", "f1", no_worse_than=("Split SMC",), slack=-0.2),
            False,
            "0.5000, 0.6000 below that of Split SMC plus 0.2, 1.1000, and none can be above 1",
        ),
        (
            Expectation("toy", "Split SMC", "f1", no_worse_than=("Greedy", "Split SMC"), slack=0.1),
            True,
            "0.9000, at least that of Split SMC less 0.1, 0.8000",
        ),
        (Expectation("toy", "Gibbs", "f1", 0.1), None, "toy: F1 of Gibbs: it did not run"),
        (Expectation("toy", "Greedy", "f1", no_worse_than=("Gibbs",)), None, "Gibbs did not run"),
    ],
)
def test_verdicts(wanted, held, said):
    made = plan(expectations=(wanted,))
    (verdict,) = verdicts(ROWS, made)
    assert verdict.held is held
    assert said in verdict.sentence


@pytest.mark.parametrize(
    ("greedy", "split", "held"),
    [
        # one grouping, its clusters summed in another order
        (374.00000000000017, 374.0, True),
        # and scored in single precision
        (-20_291.399, -20_291.401, True),
        (-1e-9, -2e-9, True),
        (-math.inf, -math.inf, True),
        (374.002, 374.0, False),
        (0.0, -math.inf, False),
    ],
)
def test_a_tie_up_to_rounding_holds(greedy, split, held):
    rows = [row(GREEDY, log_posterior=greedy), row(SPLIT, log_posterior=split)]
    wanted = Expectation("toy", "Split SMC", "log_posterior", no_worse_than=("Greedy",))
    (verdict,) = verdicts(rows, plan(expectations=(wanted,), shuffles=1))
    assert verdict.held is held
    bound = replace(wanted, no_worse_than=(), at_least=greedy)
    (verdict,) = verdicts(rows, plan(expectations=(bound,), shuffles=1))
    assert verdict.held is held


def test_what_is_below_is_never_said_to_be_below_by_nothing():
    rows = [row(GREEDY, log_posterior=374.002), row(SPLIT, log_posterior=374.0)]
    wanted = Expectation("toy", "Split SMC", "log_posterior", no_worse_than=("Greedy",))
    (verdict,) = verdicts(rows, plan(expectations=(wanted,), shuffles=1))
    assert verdict.sentence.endswith(" is 374.00, 0.002 below that of Greedy, 374.00")


def test_runs_that_saw_a_part_decide_nothing():
    rows = [row(GREEDY), row(GREEDY, 1), row(SPLIT), row(SPLIT, 1, fragments=30, cut=True)]
    wanted = Expectation("toy", "Split SMC", "f1", no_worse_than=("Greedy",))
    (verdict,) = verdicts(rows, plan(expectations=(wanted,)))
    assert verdict.held is None
    assert verdict.sentence.endswith(": a run of Split SMC ended at 30 of 40 fragments")


def test_methods_are_compared_on_the_orders_in_common():
    # split SMC is better on every order, and the orders that greedy lacks are hard
    rows = [row(GREEDY, s, f1=0.5) for s in (0, 1)]
    rows += [row(SPLIT, s, f1=f1) for s, f1 in enumerate([0.6, 0.6, 0.1, 0.1])]
    wanted = Expectation("toy", "Split SMC", "f1", no_worse_than=("Greedy",))
    made = plan(expectations=(wanted,), shuffles=4)
    (verdict,) = verdicts(rows, made)
    assert verdict.held is True
    assert verdict.sentence == (
        "toy: F1 of Split SMC is 0.6000, at least that of Greedy, 0.5000 "
        "(on 2 of 4 planned orders in common)"
    )
    # one that is planned for fewer orders is compared on all that are planned for it
    once = replace(made, methods=(replace(GREEDY, shuffles=2), SPLIT))
    assert verdicts(rows, once)[0].sentence.endswith("that of Greedy, 0.5000")
    bound = replace(made, expectations=(Expectation("toy", "Greedy", "f1", 0.4),))
    assert verdicts(rows, bound)[0].sentence.endswith("0.4000 (on 2 of 4 planned orders)")


def test_methods_without_an_order_in_common_are_not_compared():
    wanted = Expectation("toy", "Split SMC", "f1", no_worse_than=("Greedy",))
    (verdict,) = verdicts([row(GREEDY, 0), row(SPLIT, 1)], plan(expectations=(wanted,)))
    assert verdict.held is None
    assert verdict.sentence.endswith("it and Greedy ran on no order in common")


def test_the_table_has_the_papers_figures_beside_ours():
    published = {
        ("toy", "Greedy"): PaperFigures((-125, 3), (0.61, 0.02), 0.5),
        ("toy", "Split SMC"): PaperFigures((-99, 1), (0.88, 0.01), 2.0),
    }
    made = plan(published=published)
    greedy, split = shown(ROWS, published=published)
    ours = ("-120.0 (14.1)", "0.600 (0.141)", "100", "0.25")
    assert tuple(greedy[name] for name in ("log posterior", "F1", "evaluations", RATIO)) == ours
    assert (greedy["paper, minutes"], greedy["paper, x Split SMC"]) == ("0.5", "0.25")
    _, _, line, _ = table("toy", made, lines(ROWS, made)).splitlines()
    assert "| -125 (3) |" in line
    assert "| 0.61 (0.02) |" in line
    # one run has no deviation
    assert (next(iter(split.values())), split["log posterior"]) == ("Split SMC (P=10)", "-100.0")
    made = plan(published={("toy", "Greedy"): PaperFigures(None, (0.61, 0.02), 0.5)})
    greedy, split = shown(ROWS, published=made.published)
    assert table("toy", made, lines(ROWS, made)).count("| paper |") == 1
    assert (greedy["paper"], greedy["paper, minutes"]) == ("0.61 (0.02)", "0.5")
    assert greedy["paper, x Split SMC"] == split["paper"] == ""
    plain = table("toy", plan(), lines(ROWS, plan()))
    assert "paper" not in plain
    assert len({line.count("|") for line in plain.splitlines()}) == 1


def test_long_times_are_written_out():
    rows = [row(GREEDY, seconds=1234.4, cpu_seconds=1000.0), row(SPLIT, cpu_seconds=8.0)]
    times = [list(cells.values())[-3:] for cells in shown(rows)]
    assert times == [["1,234", "1,000", "125"], ["1", "8", "1"]]


# The peak of memory is that of the process, where the system says so.


def test_a_peak_grows_with_what_is_held_and_stays():
    before = performing.peak_mib()
    if before is None:
        pytest.skip("this system does not say")
    held = bytearray(b"x") * (int(before + 64) << 20)
    high = performing.peak_mib()
    assert high is not None
    assert high >= before + 50
    del held
    assert performing.peak_mib() == pytest.approx(high, abs=1.0)


def test_a_system_that_says_nothing_is_no_error(tmp_path):
    status = tmp_path / "none"
    assert performing.peak_mib(status) is None
    assert performing.resident_mib(status) is None
    status.write_text("VmRSS: 512 kB\n")
    assert performing.peak_mib(status) is None
    assert performing.resident_mib(status) == 0.5
    status.write_text("Name: x\nVmHWM:\t  2048 kB\n")
    assert performing.peak_mib(status) == 2.0


# When each method of a race reached what the slowest ended at.


def raced(method: Method, shuffle: int, end: float, *way: tuple[float, float]) -> Row:
    made = row(method, shuffle, log_posterior=end, cpu_seconds=9.0)
    return replace(made, way=orjson.dumps(way).decode())


def test_the_level_is_where_the_lowest_ends():
    rows = [
        raced(GREEDY, 0, -100.0, (1.0, -200.0), (5.0, -100.0), (6.0, -100.0)),
        raced(SPLIT, 0, -50.0, (1.0, -150.0), (2.0, -99.0), (3.0, -60.0)),
        raced(GREEDY, 1, -40.0, (2.0, -59.0)),
        raced(SPLIT, 1, -60.0, (4.0, -61.0)),  # the last mark is before its end
        raced(SPLIT, 2, -1.0, (0.0, -1.0)),  # the other did not run on this order
    ]
    made = reached(plan(race=True), rows)
    found = {one.method: one for one in made}
    assert found["Split SMC"].seconds.mean == pytest.approx((2.0 + 9.0) / 2)
    assert found["Greedy"].seconds.mean == pytest.approx((5.0 + 2.0) / 2)
    assert found["Greedy"].level.mean == pytest.approx(-80.0)
    assert [one.method for one in made] == ["Greedy", "Split SMC"]
    assert made[1].times == pytest.approx(5.5 / 3.5)
    assert "| Greedy | 3.50 (2.12) | 1.0 |" in race_part("toy", plan(), made)


def test_without_an_order_that_all_ran_on_there_is_no_race():
    rows = [row(GREEDY, 0), row(SPLIT, 1)]
    assert reached(plan(), rows) == []
    assert "No order" in race_part("toy", plan(), [])


def test_an_offline_method_tells_its_way():
    """From its start to where it ends, upwards and apart."""
    sampler = Method("Gibbs", "gibbs", {"sweeps": 30, "patience": None})
    done = perform(run(sampler)).row
    way = orjson.loads(done.way)
    assert [best for _, best in way] == sorted(best for _, best in way)
    assert all(later >= 1.05 * earlier for (earlier, _), (later, _) in pairwise(way))
    assert way[-1][1] <= done.log_posterior + 1e-6
    assert len(way) > 1
    assert perform(run()).row.way == "[]"
