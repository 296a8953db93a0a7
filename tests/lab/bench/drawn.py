"""Rows to draw, and what is read from drawn figures."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

import numpy as np

from kbforge_lab.suites.plan import Method
from tests.lab.bench.toys import GREEDY, SPLIT, row, trace_row

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure


SMC = Method("SMC", "smc", particles=10)
GIBBS = Method("Gibbs", "gibbs")
TABLE = (GREEDY, SMC, SPLIT, GIBBS)
PS = (3, 10, 30)
MS = (0, 1, 10)
ROWS = [
    *(row(GREEDY, s, f1=0.5 + s / 100, seconds=0.1) for s in range(3)),
    *(row(GIBBS, s, f1=0.9 + s / 100, seconds=50.0) for s in range(3)),
    *(
        row(replace(m, particles=p), s, f1=0.6 + p / 100 + s / 100, seconds=p / 10, subproblems=p)
        for m in (SMC, SPLIT)
        for p in PS
        for s in range(3)
    ),
    *(
        row(replace(SPLIT, surrogate=True, max_evals=m), s, f1=0.4 + m / 100)
        for m in MS
        for s in range(2)
    ),
]
TRACE = [
    *(
        trace_row(m, s, n, f1=1 - n / 100, log_posterior=-n * k, subproblems=n // 4)
        for k, m in enumerate((GREEDY, SMC, SPLIT), 1)
        for s in range(2)
        for n in (10, 20, 30, 40)
    ),
    *(trace_row(GIBBS, s, 40, seconds=t, f1=t / 100) for s in range(2) for t in (1.0, 20.0, 50.0)),
]
ORDERS = {3: range(1, 4), 10: (0, 1, 5), 30: range(2)}  # all have the order 1
UNEVEN = [
    row(replace(SPLIT, particles=p), s, f1=p / 100 + s / 10, seconds=p + s)
    for p, orders in ORDERS.items()
    for s in orders
]
LABELS = ["log posterior (nats)", "B-cubed F1", "B-cubed precision", "B-cubed recall"]


def axes_of(figure: Figure | None) -> dict[str, Axes]:
    """The axes by their y labels, all of them labelled."""
    found = {axes.get_ylabel(): axes for axes in figure.axes}
    assert "" not in found
    below = figure.axes[-1].get_xlabel()
    assert below
    return found


def laid_out_axes_of(figure: Figure | None) -> dict[str, Axes]:
    """`axes_of` after all but the rendering is done, which takes a while: what is nowhere else."""
    figure.draw_without_rendering()
    return axes_of(figure)


def curves(axes: Axes) -> dict[str, tuple[list[float], list[float]]]:
    """Legend label -> x and y of its curve."""
    handles, labels = axes.get_legend_handles_labels()
    out = {}
    for handle, label in zip(handles, labels, strict=True):
        line = getattr(handle, "lines", [handle])[0]
        out[label] = (np.asarray(line.get_xdata()).tolist(), np.asarray(line.get_ydata()).tolist())
    return out


def note(axes: Axes) -> str:
    """What stands below the figure of the axes."""
    figure = axes.get_figure(root=True)
    return figure.get_supxlabel()


def colours_of(axes: Axes) -> dict[str, object]:
    """Legend label -> colour of its curve."""
    handles, labels = axes.get_legend_handles_labels()
    lines = (getattr(handle, "lines", [handle])[0] for handle in handles)
    return {label: line.get_color() for label, line in zip(labels, lines, strict=True)}
