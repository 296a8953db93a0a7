"""The figure of a race."""

from __future__ import annotations

from dataclasses import replace

from kbforge_lab.bench.figures import log_posterior_by_seconds
from tests.lab.bench.figures.drawn import GIBBS, TABLE
from tests.lab.bench.toys import GREEDY, row


def test_a_line_goes_along_the_marks_to_where_the_run_ended() -> None:
    runs = [
        replace(row(GIBBS, s, log_posterior=-5.0, cpu_seconds=8.0), way="[[0.0,-20.0],[2.0,-9.0]]")
        for s in range(2)
    ]
    figure = log_posterior_by_seconds([row(GREEDY), *runs], TABLE)
    assert figure is not None
    (axes,) = figure.axes
    assert len(axes.lines) == 2
    for line in axes.lines:
        assert line.get_xdata().tolist() == [0.01, 2.0, 8.0]
        assert line.get_ydata().tolist() == [-20.0, -9.0, -5.0]
    assert [text.get_text() for text in axes.get_legend().get_texts()] == ["Gibbs"]


def test_without_a_way_there_is_no_figure() -> None:
    assert log_posterior_by_seconds([row(GREEDY)], TABLE) is None
