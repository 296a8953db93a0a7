"""Metrics by fragments seen: online methods alone, against the reference."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np
import pytest

from kbforge_lab.bench import figures
from tests.lab.bench.figures.drawn import (
    TABLE,
    TRACE,
    axes_of,
    curves,
)
from tests.lab.bench.toys import GREEDY, SPLIT, trace_row

if TYPE_CHECKING:
    pass


def test_metric_by_observations_leaves_out_who_sees_all_at_once() -> None:
    found = axes_of(figures.metric_by_observations(TRACE, TABLE, "Split SMC"))
    f1, ahead = found.values()
    assert set(curves(f1)) == {"Greedy", "SMC", "Split SMC"}
    assert curves(f1)["SMC"] == ([10, 20, 30, 40], pytest.approx([0.9, 0.8, 0.7, 0.6]))
    assert curves(ahead)["Greedy"][1] == pytest.approx([20, 40, 60, 80])
    assert curves(ahead)["Split SMC"][1] == pytest.approx([0, 0, 0, 0])
    assert f1.get_xlabel() == "fragments seen"


def test_how_far_a_method_is_ahead_is_told_order_by_order() -> None:
    """However far the orders are from each other, the difference may be sure."""
    trace = [
        trace_row(m, s, n, log_posterior=-100.0 * s - lag, f1=1.0 - s / 10)
        for m, lag in ((GREEDY, 3.0), (SPLIT, 0.0))
        for s in (range(3) if m is SPLIT else (0, 2))
        for n in (10, 40)
    ]
    found = axes_of(figures.metric_by_observations(trace, TABLE, "Split SMC"))
    f1, ahead = found.values()
    assert curves(ahead) == {"Greedy": ([10, 40], [-3, -3]), "Split SMC": ([10, 40], [0, 0])}
    for band, at in zip(ahead.collections, (-3, 0), strict=True):
        assert band.get_paths()[0].vertices[:, 1].tolist() == pytest.approx([at] * 7)
    # one standard deviation above is more than 1
    assert max(band.get_paths()[0].vertices[:, 1].max() for band in f1.collections) == 1


def test_metric_by_observations_ends_where_the_first_run_ends() -> None:
    """Further on the mean would be of other orders."""
    trace = [trace_row(SPLIT, 0, n, f1=0.9) for n in (10, 20, 30, 40)]
    trace += [trace_row(SPLIT, 1, n, f1=0.3) for n in (10, 20)]
    found = axes_of(figures.metric_by_observations(trace, TABLE, "Split SMC"))
    (line,) = next(iter(found.values())).lines
    assert [*np.asarray(line.get_xdata())] == [10, 20]
    assert [*np.asarray(line.get_ydata())] == pytest.approx([0.6, 0.6])


def test_metric_by_observations_without_the_reference_takes_another() -> None:
    own = [t for t in TRACE if t.method != "Split SMC"]
    _, ahead = axes_of(figures.metric_by_observations(own, TABLE, "Split SMC")).values()
    assert "less that of Greedy" in ahead.get_ylabel()
    assert curves(ahead)["SMC"][1] == pytest.approx([-10, -20, -30, -40])
