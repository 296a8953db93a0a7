"""A method has one colour, whatever else is drawn."""

from __future__ import annotations

from typing import TYPE_CHECKING

from kbforge_lab.bench import figures
from kbforge_lab.contracts.suite import Method
from kbforge_lab.suites import methods
from kbforge_lab.suites.circles import CirclesSuite
from kbforge_lab.suites.gauss import Gauss
from tests.lab.bench.figures.drawn import (
    ROWS,
    TABLE,
    TRACE,
    axes_of,
    colours_of,
)
from tests.lab.bench.toys import GREEDY, SPLIT, row

if TYPE_CHECKING:
    pass


def test_a_method_has_its_colour_whoever_else_has_run() -> None:
    rows, trace = ([r for r in held if r.method == "Split SMC"] for held in (ROWS, TRACE))
    drawn = [
        figures.metric_by_runtime(rows, trace, TABLE),
        figures.metric_by_particles(rows, TABLE),
        figures.metric_by_observations(trace, TABLE, "Split SMC"),
        figures.subproblems_and_particles(rows, trace, SPLIT, TABLE),
        figures.surrogate_ablation([r for r in rows if r.shuffle < 2], TABLE),
        figures.metric_by_runtime(ROWS, TRACE, TABLE),
    ]
    shown = [next(iter(axes_of(figure).values())) for figure in drawn]
    assert len({colours_of(axes)["Split SMC"] for axes in shown}) == 1


def test_a_method_has_its_colour_in_every_suite() -> None:
    online = (methods.GREEDY, methods.smc(100), methods.split_smc(100))
    tables = [
        Gauss().plan().methods,
        CirclesSuite().plan().methods,
        CirclesSuite().plan(quick=True).methods,
        (*online, *methods.offline()),
        *([method] for method in methods.offline()),
    ]
    seen: dict[str, set[object]] = {}
    for table in tables:
        rows = [row(method) for method in table]
        axes = axes_of(figures.metric_by_runtime(rows, [], table))["B-cubed F1"]
        assert len(set(colours_of(axes).values())) == len(table)
        for name, colour in colours_of(axes).items():
            seen.setdefault(name, set()).add(colour)
    assert {len(colours) for colours in seen.values()} == {1}
    assert len({colour for colours in seen.values() for colour in colours}) == len(seen) == 7


def test_a_method_of_a_stranger_takes_no_colour_of_the_table() -> None:
    strangers = [Method(name, "greedy") for name in ("A", "B", "Z")]
    table = (GREEDY, *strangers, SPLIT, *methods.offline())
    shown = colours_of(
        axes_of(figures.metric_by_runtime([row(m) for m in table], [], table))["B-cubed F1"]
    )
    known = {shown[m.name] for m in table if m not in strangers}
    assert len(known) == 6
    assert len({shown[m.name] for m in strangers} - known) == 3
    alone = colours_of(axes_of(figures.metric_by_runtime([row(SPLIT)], [], (SPLIT,)))["B-cubed F1"])
    assert alone["Split SMC"] == shown["Split SMC"]
