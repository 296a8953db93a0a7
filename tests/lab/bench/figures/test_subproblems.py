"""Subproblems and effective particles, as fragments arrive and by P."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

from kbforge_lab.bench import figures
from tests.lab.bench.figures.drawn import (
    PS,
    ROWS,
    TABLE,
    TRACE,
    axes_of,
    curves,
)
from tests.lab.bench.toys import SPLIT, row, trace_row

if TYPE_CHECKING:
    pass


def test_subproblems_and_particles() -> None:
    figure = figures.subproblems_and_particles(ROWS, TRACE, SPLIT, TABLE)
    axes_of(figure)
    assert figure is not None
    upper, _, lower, _ = figure.axes
    assert curves(upper)["Split SMC"] == ([10, 20, 30, 40], [2, 5, 7, 10])
    assert curves(lower)["Split SMC"] == (list(PS), list(PS))
    assert [axes.get_ylabel() for axes in figure.axes[:2]] == [
        "subproblems",
        "effective particles (log10)",
    ]
    assert "P = 10" in upper.get_xlabel()
    assert [text.get_text() for legend in figure.legends for text in legend.get_texts()] == [
        "Split SMC"
    ]


def test_subproblems_are_counted_in_whole_numbers() -> None:
    rows = [row(replace(SPLIT, particles=p), subproblems=k) for p, k in ((3, 1), (10, 2))]
    way = [trace_row(SPLIT, 0, n, subproblems=k) for n, k in ((10, 1), (40, 2))]
    figure = figures.subproblems_and_particles(rows, way, SPLIT, TABLE)
    axes_of(figure)
    assert figure is not None
    for axes in (figure.axes[0], figure.axes[2]):
        assert all(tick == round(tick) for tick in axes.get_yticks())


def test_subproblems_with_one_p_are_shown_as_fragments_arrive_alone() -> None:
    one = [r for r in ROWS if r.particles == SPLIT.particles]
    figure = figures.subproblems_and_particles(one, TRACE, SPLIT, TABLE)
    axes_of(figure)
    assert figure is not None
    assert [axes.get_xlabel() for axes in figure.axes] == ["fragments seen (P = 10)"] * 2
    assert [text.get_text() for text in figure.legends[0].get_texts()] == ["Split SMC"]
