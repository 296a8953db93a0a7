"""Seconds by size: every curve, in order, on logarithmic axes."""

from __future__ import annotations

import numpy as np

from kbforge_lab.bench.figures import seconds_by_size


def test_every_program_has_its_curve_in_order_of_size() -> None:
    figure = seconds_by_size({"one": [(100, 2.0), (10, 1.0)], "none": [], "other": [(10, 5.0)]})
    assert figure is not None
    (axes,) = figure.axes
    assert [line.get_label() for line in axes.lines] == ["one", "other"]
    assert np.asarray(axes.lines[0].get_xdata()).tolist() == [10, 100]
    assert np.asarray(axes.lines[0].get_ydata()).tolist() == [1.0, 2.0]
    assert (axes.get_xscale(), axes.get_yscale()) == ("log", "log")


def test_nothing_to_show_is_no_figure() -> None:
    assert seconds_by_size({"none": []}) is None
