"""Metrics by runtime: curves, stars, the way of offline methods, and what is shown of them."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np
import pytest

from kbforge_lab.bench import figures
from kbforge_lab.suites import methods
from tests.lab.bench.figures.drawn import (
    GIBBS,
    LABELS,
    PS,
    ROWS,
    TABLE,
    TRACE,
    UNEVEN,
    axes_of,
    curves,
    note,
)
from tests.lab.bench.toys import GREEDY, SPLIT, row, trace_row

if TYPE_CHECKING:
    from matplotlib.axes import Axes


def test_metric_by_runtime_has_every_method_and_the_offline_way() -> None:
    found = axes_of(figures.metric_by_runtime(ROWS, TRACE, TABLE))
    axes = found["B-cubed F1"]
    assert set(curves(axes)) == {"Greedy", "SMC", "Split SMC", "Gibbs"}
    assert curves(axes)["SMC"][0] == pytest.approx([p / 10 for p in PS])
    stars = [line for line in axes.lines if line.get_marker() == "*"]
    assert len(stars) == len(TABLE)
    (way,) = [line for line in axes.lines if len(np.asarray(line.get_xdata())) == 60]
    assert np.asarray(way.get_xdata())[[0, -1]] == pytest.approx([1.0, 50.0])
    assert np.asarray(way.get_ydata())[[0, -1]] == pytest.approx([0.01, 0.5])
    assert "seconds" in found["B-cubed recall"].get_xlabel()


def test_where_an_offline_method_began_does_not_press_the_rest_flat() -> None:
    way = [trace_row(GIBBS, 0, 40, seconds=t, log_posterior=-9e9 / t) for t in (1.0, 20.0, 50.0)]
    with_way, without = (
        axes_of(figures.metric_by_runtime(ROWS, trace, TABLE)) for trace in (way, [])
    )
    for label in LABELS:
        assert with_way[label].get_ylim() == without[label].get_ylim()
    ends = with_way["log posterior (nats)"].get_ylim()
    assert -110 < ends[0] < -100 < ends[1] < -90
    assert "faint" in note(with_way["B-cubed F1"])
    assert "faint" not in note(without["B-cubed F1"])


def markers(axes: Axes) -> list[object]:
    """The shapes at a place of their own: stars, and triangles at the edges."""
    return [line.get_marker() for line in axes.lines if line.get_marker() in ("*", "v", "^")]


def test_a_run_that_was_cut_short_is_pointed_at_where_it_would_press_the_rest_flat() -> None:
    cut = [row(m, cut=True, log_posterior=-9e3, f1=0.1) for m in (GIBBS, methods.metropolis())]
    table = (*TABLE, methods.metropolis())
    found = axes_of(figures.metric_by_runtime([*ROWS[:3], *ROWS[6:], *cut], [], table))
    posterior, f1 = found["log posterior (nats)"], found["B-cubed F1"]
    assert posterior.get_ylim()[0] > -110
    assert sorted(map(str, markers(posterior))) == ["*"] * 5 + ["v"] * 2
    pointed = [line for line in posterior.lines if line.get_marker() == "v"]
    one, other = (np.asarray(line.get_ydata())[0] for line in pointed)
    assert 0 < one < other < 0.1
    # a share has an end, so its axis shows all
    assert f1.get_ylim()[0] < 0.1
    assert markers(f1) == ["*"] * 5
    assert "triangles" in note(f1)
    alone = axes_of(figures.metric_by_runtime(cut, [], table))["log posterior (nats)"]
    assert alone.get_ylim()[0] < -9e3 < alone.get_ylim()[1]
    assert markers(alone) == ["*"] * 2
    assert "triangles" not in note(alone)


def test_when_an_offline_method_began_does_not_widen_the_picture() -> None:
    way = [trace_row(GIBBS, 0, 40, seconds=t, f1=t / 100) for t in (1e-3, 20.0, 50.0)]
    wide, plain = (axes_of(figures.metric_by_runtime(ROWS, t, TABLE)) for t in (way, []))
    for label in LABELS:
        assert wide[label].get_xlim() == plain[label].get_xlim()
    low, high = plain["B-cubed F1"].get_xlim()
    assert 0.05 < low < 0.1 < 50 < high < 100


@pytest.mark.parametrize("seconds", [2.1, 0.02, 51.0])
def test_however_alike_runtimes_are_the_axis_has_numbers(seconds: float) -> None:
    rows = [row(m, seconds=seconds * k) for k, m in enumerate((GREEDY, SPLIT), 1)]
    axes = axes_of(figures.metric_by_runtime(rows, [], TABLE))["B-cubed recall"]
    low, high = axes.get_xlim()
    assert low < seconds < 2 * seconds < high <= 5.01 * low
    assert sum(low <= tick <= high for tick in axes.get_xticks()) >= 2


def test_the_note_below_the_runtimes_is_of_what_is_drawn() -> None:
    both = axes_of(figures.metric_by_runtime(ROWS, TRACE, TABLE))
    numbers = [sorted(t.get_text() for t in both[label].texts) for label in LABELS]
    assert numbers == [sorted([*map(str, PS)] * 2), [], [], []]
    assert note(both["B-cubed F1"]) == (
        "curves join settings of P, which the first panel tells; "
        "stars: the settings of the table (P = 10)\n"
        "faint: what an offline method had found by then, where that is in the picture"
    )
    one_p = [r for r in ROWS if r.particles in (None, 10)]
    no_curve = axes_of(figures.metric_by_runtime(one_p, [], TABLE))
    assert note(no_curve["B-cubed F1"]) == "stars: the settings of the table (P = 10)"
    assert not any(axes.texts for axes in no_curve.values())
    uneven = axes_of(figures.metric_by_runtime(UNEVEN, [], TABLE))["B-cubed F1"]
    assert note(uneven).endswith("stars: the settings of the table (P = 10), on all their orders")
    no_star = [r for r in ROWS if r.particles == 3]
    assert note(axes_of(figures.metric_by_runtime(no_star, [], TABLE))["B-cubed F1"]) == ""


def test_stars_are_of_the_tables_setting_with_bars_of_their_own() -> None:
    axes = axes_of(figures.metric_by_runtime(UNEVEN, [], TABLE))["B-cubed F1"]
    _, star = axes.containers
    (bars,) = star.lines[2]
    low, high = bars.get_segments()[0][:, 1]
    assert (low + high) / 2 == pytest.approx(0.3)
    assert (high - low) / 2 == pytest.approx(np.std([0.1, 0.2, 0.6], ddof=1))
