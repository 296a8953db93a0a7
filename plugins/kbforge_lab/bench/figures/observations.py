"""F1 and log posterior as fragments arrive: figure 4 of the paper."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING

from kbforge.pictures.canvas import look, new_figure
from kbforge_lab.bench.figures.axes import (
    HEIGHT,
    METRICS,
    WIDTH,
    draw_band,
    finish,
    settle,
)
from kbforge_lab.bench.figures.colours import colours_of
from kbforge_lab.bench.figures.rows import (
    by_fragments,
    names_of,
)
from kbforge_lab.bench.results import TraceRow
from kbforge_lab.bench.summary import is_of
from kbforge_lab.contracts.suite import Method, Metric

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure


@look()
def metric_by_observations(
    trace: Sequence[TraceRow], table: Sequence[Method], reference: str
) -> Figure | None:
    """F1 and log posterior of the point estimate as fragments arrive.

    Where the reference has no rows, the first method that has some is in its place.
    """
    online = _online(trace, table)
    if not online:
        return None
    names = names_of(online)
    reference = reference if reference in names else names[0]
    figure = new_figure(WIDTH, HEIGHT / 1.7)
    left, right = figure.subplots(1, 2)
    colours = colours_of(table)
    base = {(r.shuffle, r.fragments): r.log_posterior for r in online if r.method == reference}
    for name in names:
        own = [row for row in online if row.method == name]
        draw_band(left, by_fragments(own, "f1"), "f1", name, colours[name])
        ahead = [
            replace(row, log_posterior=row.log_posterior - base[row.shuffle, row.fragments])
            for row in own
            if (row.shuffle, row.fragments) in base
        ]
        by_n = by_fragments(ahead, "log_posterior")
        draw_band(right, by_n, "log_posterior", name, colours[name])
    left.set_ylabel(METRICS["f1"] + " so far")
    right.set_ylabel(f"log posterior less that of {reference} (nats)")
    panels: Mapping[Metric, Axes] = {"f1": left, "log_posterior": right}
    for metric, axes in panels.items():
        axes.set_xlabel("fragments seen")
        settle(axes, metric)
    note = "bands: one standard deviation; on the right, of the differences in the same order"
    finish(figure, panels, note)
    return figure


def _online(trace: Sequence[TraceRow], table: Sequence[Method]) -> list[TraceRow]:
    """The rows of methods of the table that take in one fragment after another."""
    held = [row for row in trace if any(is_of(row, method) for method in table)]
    return [
        row
        for name in names_of(held)
        for own in [[row for row in held if row.method == name]]
        if min(r.fragments for r in own) < max(r.fragments for r in own)
        for row in own
    ]
