"""Metrics by particles: a curve a method, on the orders that all its points have."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

import numpy as np
import pytest

from kbforge_lab.bench import figures
from tests.lab.bench.figures.drawn import (
    LABELS,
    PS,
    ROWS,
    TABLE,
    UNEVEN,
    axes_of,
    curves,
)
from tests.lab.bench.toys import SPLIT, row, trace_row

if TYPE_CHECKING:
    pass


def test_metric_by_particles() -> None:
    found = axes_of(figures.metric_by_particles(ROWS, TABLE))
    assert list(found) == LABELS
    shown = curves(found["B-cubed F1"])
    assert set(shown) == {"SMC", "Split SMC"}
    xs, ys = shown["Split SMC"]
    assert xs == pytest.approx(PS, rel=0.03)
    # the other method's bars stand beside these
    assert all(x < other for x, other in zip(shown["SMC"][0], xs, strict=True))
    assert ys == pytest.approx([0.61 + p / 100 for p in PS])
    assert found["B-cubed recall"].get_xlabel() == "particles P"
    assert found["B-cubed F1"].get_xscale() == "log"


def test_a_curve_is_of_the_orders_that_all_its_points_have() -> None:
    on_one = ([3, 10, 30], pytest.approx([0.13, 0.2, 0.4]))
    found = axes_of(figures.metric_by_particles(UNEVEN, TABLE))["B-cubed F1"]
    assert curves(found) == {"Split SMC (1 of 3 orders)": on_one}
    by_time = axes_of(figures.metric_by_runtime(UNEVEN, [], TABLE))["B-cubed F1"]
    assert curves(by_time) == {"Split SMC (1 of 3 orders)": ([4, 11, 31], on_one[1])}
    # what the table says of its setting is of all orders
    (star,) = [line for line in by_time.lines if line.get_marker() == "*"]
    assert np.asarray(star.get_xydata()).tolist() == [[12, pytest.approx(0.3)]]
    way = [trace_row(SPLIT, 0, n) for n in (10, 40)]
    figure = figures.subproblems_and_particles(UNEVEN, way, SPLIT, TABLE)
    axes_of(figure)
    assert figure is not None
    assert list(curves(figure.axes[2])) == ["Split SMC (1 of 3 orders)"]


def test_points_that_share_no_order_are_drawn_and_said_to_differ() -> None:
    rows = [row(replace(SPLIT, particles=p), s, f1=0.5 + s / 10) for s, p in enumerate(PS)]
    found = axes_of(figures.metric_by_particles(rows, TABLE))["B-cubed F1"]
    assert curves(found) == {
        "Split SMC (different orders)": (list(PS), pytest.approx([0.5, 0.6, 0.7]))
    }
