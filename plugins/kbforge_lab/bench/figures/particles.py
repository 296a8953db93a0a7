"""Every metric against the number of particles P: figures 10-14 of the paper."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from kbforge.pictures.canvas import look
from kbforge_lab.bench.figures.axes import (
    dodge_of,
    draw_curve,
    finish,
    log_axis,
    new_panels,
    settle,
)
from kbforge_lab.bench.figures.colours import colours_of
from kbforge_lab.bench.figures.rows import (
    grouped,
    names_of,
    of_the_table,
    on_shared_orders,
)
from kbforge_lab.bench.results import Row
from kbforge_lab.contracts.suite import Method

if TYPE_CHECKING:
    from matplotlib.figure import Figure


@look()
def metric_by_particles(rows: Sequence[Row], table: Sequence[Method]) -> Figure | None:
    """Metrics against P."""
    plain = [row for row in of_the_table(rows, table) if row.particles is not None]
    if len({row.particles for row in plain}) < 2:
        return None
    figure, panels = new_panels("particles P")
    colours = colours_of(table)
    dodge = dodge_of(names_of(plain))
    for metric, axes in panels.items():
        for name in names_of(plain):
            curve = grouped([row for row in plain if row.method == name], "particles")
            called, groups = on_shared_orders(name, [group for _, group in curve])
            xs = [p * dodge[name] for p, _ in curve]
            draw_curve(axes, xs, groups, metric, called, colours[name])
        log_axis(axes, sorted({float(row.particles or 0) for row in plain}))
        settle(axes, metric)
    finish(figure, panels, "")
    return figure
