"""How many subproblems and effective particles there are: figure 15 of the paper."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from kbforge.pictures.canvas import look, new_figure
from kbforge_lab.bench.figures.axes import (
    HEIGHT,
    WIDTH,
    draw_band,
    draw_curve,
    finish,
    log_axis,
    settle,
)
from kbforge_lab.bench.figures.colours import colours_of
from kbforge_lab.bench.figures.rows import (
    by_fragments,
    grouped,
    of_the_table,
    on_shared_orders,
)
from kbforge_lab.bench.results import Row, TraceRow
from kbforge_lab.bench.summary import is_of
from kbforge_lab.contracts.suite import Method

if TYPE_CHECKING:
    from matplotlib.figure import Figure


@look()
def subproblems_and_particles(
    rows: Sequence[Row],
    trace: Sequence[TraceRow],
    method: Method,
    table: Sequence[Method],
) -> Figure | None:
    """Subproblems and effective particles of a splitting method: as data arrive, and by P.

    With one P alone there is nothing to show by P.
    """
    own = of_the_table(rows, [method])
    way = [row for row in trace if is_of(row, method)]
    if not own or not way:
        return None
    from matplotlib.ticker import MaxNLocator

    curve = grouped(own, "particles")
    by_p = len(curve) > 1
    figure = new_figure(WIDTH, HEIGHT if by_p else HEIGHT / 1.7)
    grid = figure.subplots(1 + by_p, 2, squeeze=False)
    colour = colours_of(table)[method.name]
    shown = {
        "subproblems": "subproblems",
        "log10_effective_particles": "effective particles (log10)",
    }
    called, groups = on_shared_orders(method.name, [group for _, group in curve])
    for column, (field, label) in zip(grid.T, shown.items(), strict=True):
        upper, lower = column[0], column[-1]
        draw_band(upper, by_fragments(way, field), field, method.name, colour)
        upper.set_xlabel(f"fragments seen (P = {method.particles})")
        if by_p:
            xs = [float(p) for p, _ in curve]
            draw_curve(lower, xs, groups, field, called, colour)
            log_axis(lower, xs)
            lower.set_xlabel("particles P")
        for axes in column:
            axes.set_ylabel(label)
            axes.yaxis.set_major_locator(MaxNLocator("auto", steps=[1, 2, 5, 10], integer=True))
            settle(axes, field)
    finish(figure, {"lowest": grid[-1, 0]}, "")
    return figure
