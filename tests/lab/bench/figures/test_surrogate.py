"""Metrics by M, from the surrogate alone to no surrogate at all."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np
import pytest

from kbforge_lab.bench import figures
from kbforge_lab.bench.report import draw
from kbforge_lab.bench.results import Row
from tests.lab.bench.figures.drawn import (
    MS,
    PS,
    ROWS,
    SMC,
    TABLE,
    TRACE,
    axes_of,
    curves,
    note,
)
from tests.lab.bench.toys import GREEDY, SPLIT, plan, row, trace_row

if TYPE_CHECKING:
    pass


def test_surrogate_ablation_ends_with_no_surrogate_at_all() -> None:
    found = axes_of(figures.surrogate_ablation(ROWS, TABLE))
    axes = found["B-cubed F1"]
    xs, ys = curves(axes)["Split SMC (2 of 3 orders)"]
    assert xs[:2] == [1, 10]
    # without a surrogate there is a third order, which the others lack
    assert ys == pytest.approx([0.41, 0.5, 0.705])
    ticks = found["B-cubed recall"].get_xticklabels()
    assert [text.get_text() for text in ticks] == ["1", "10", "all"]
    (alone,) = [line for line in axes.lines if line.get_linestyle() == "--"]
    assert np.asarray(alone.get_ydata())[0] == pytest.approx(0.4)
    assert note(axes) == "dashed: clustered by the surrogate alone; all: without a surrogate"
    without = figures.surrogate_ablation([r for r in ROWS if r.max_evals != 0], TABLE)
    assert note(axes_of(without)["B-cubed F1"]) == "all: without a surrogate"
    bare = figures.surrogate_ablation([r for r in ROWS if r.max_evals], TABLE)
    assert note(axes_of(bare)["B-cubed F1"]) == ""


def test_the_ablation_says_at_which_p_it_is(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    # captions alone: to write the files takes seconds
    monkeypatch.setattr("kbforge_lab.bench.report.save", lambda figure, path: None)

    def label(rows: list[Row]) -> str:
        return axes_of(figures.surrogate_ablation(rows, TABLE))["B-cubed recall"].get_xlabel()

    greedy = [row(replace(GREEDY, surrogate=True, max_evals=m)) for m in MS]
    other = [row(replace(SMC, particles=30, surrogate=True, max_evals=m)) for m in MS]
    assert label(ROWS + greedy) == "joins that the surrogate proposes a step, M (P = 10)"
    assert label(ROWS + other).endswith("M (P = 10, 30)")
    assert label(greedy).endswith("a step, M")
    captions = {p.figure: p.caption for p in draw(plan(methods=TABLE), ROWS, TRACE, tmp_path)}
    assert captions["surrogate"].endswith(
        "the joins that the surrogate proposes a step, at P = 10."
    )
    assert captions["particles"] == "Metrics against the number of particles P."
    (picture,) = (
        p for p in draw(plan(methods=TABLE), greedy, [], tmp_path) if p.figure == "surrogate"
    )
    assert picture.caption.endswith("the joins that the surrogate proposes a step.")


def test_the_surrogate_alone_is_of_the_same_orders() -> None:
    settings = [(True, 0, range(1, 3)), (True, 1, range(3)), (False, None, range(2))]
    rows = [
        row(replace(SPLIT, surrogate=surrogate, max_evals=m), s, f1=0.3 + s / 10)
        for surrogate, m, orders in settings
        for s in orders
    ]
    axes = axes_of(figures.surrogate_ablation(rows, TABLE))["B-cubed F1"]
    assert curves(axes)["Split SMC (1 of 3 orders)"][1] == pytest.approx([0.4, 0.4])
    (alone,) = [line for line in axes.lines if line.get_linestyle() == "--"]
    assert np.asarray(alone.get_ydata())[0] == pytest.approx(0.4)


def test_where_a_surrogate_always_proposes_its_rows_are_the_curves() -> None:
    """The table asks for a surrogate, M = P; the ablation has another P."""
    table = tuple(replace(m, surrogate=True) for m in (SMC, SPLIT))
    rows = [
        *(row(replace(m, particles=p), f1=p / 100) for m in table for p in PS),
        *(row(replace(table[1], max_evals=m), f1=0.4 + m / 100) for m in (0, 1)),
        *(row(replace(SPLIT, particles=p), f1=0.9) for p in PS),
    ]
    trace = [trace_row(table[1], 0, n, subproblems=n) for n in (10, 40)]
    assert curves(axes_of(figures.metric_by_particles(rows, table))["B-cubed F1"]) == {
        name: (pytest.approx(PS, rel=0.03), [p / 100 for p in PS]) for name in ("SMC", "Split SMC")
    }
    runtime = axes_of(figures.metric_by_runtime(rows, trace, table))["B-cubed F1"]
    assert len([line for line in runtime.lines if line.get_marker() == "*"]) == 2
    figure = figures.subproblems_and_particles(rows, trace, table[1], table)
    axes_of(figure)
    assert figure is not None
    assert curves(figure.axes[2])["Split SMC"] == (list(PS), [3, 3, 3])
    ablation = axes_of(figures.surrogate_ablation(rows, TABLE))["B-cubed F1"]
    # M = 1, M = P = 10, and without a surrogate
    assert curves(ablation)["Split SMC"] == ([1, 10, 40], pytest.approx([0.41, 0.1, 0.9]))
    black_box = axes_of(figures.surrogate_ablation([r for r in rows if r.surrogate], TABLE))[
        "B-cubed F1"
    ]
    assert curves(black_box)["Split SMC"] == ([1, 10], pytest.approx([0.41, 0.1]))
