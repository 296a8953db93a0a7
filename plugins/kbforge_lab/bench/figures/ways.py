"""The path of each sampler: its best log posterior against CPU seconds."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

import orjson

from kbforge.pictures.canvas import look, new_figure
from kbforge_lab.bench.figures.colours import colours_of
from kbforge_lab.bench.results import Row
from kbforge_lab.contracts.suite import Method

if TYPE_CHECKING:
    from matplotlib.figure import Figure

_WIDTH, _HEIGHT = 6.5, 4.5
_LEAST_SECONDS = 0.01  # a logarithmic axis has no 0


@look()
def log_posterior_by_seconds(rows: Sequence[Row], table: Sequence[Method]) -> Figure | None:
    """A line an order of the data, to where the run ended; None where no method tells its way.

    Args:
        rows: of one task.
        table: the methods to show.

    """
    ways = {row.key: orjson.loads(row.way) for row in rows}
    colours = colours_of(table)
    shown = [row for row in rows if ways[row.key] and row.method in colours]
    if not shown:
        return None
    figure = new_figure(_WIDTH, _HEIGHT)
    axes = figure.subplots()
    named: set[str] = set()
    for row in sorted(shown, key=lambda row: (row.method, row.shuffle)):
        points = [*ways[row.key], (row.cpu_seconds, row.log_posterior)]
        axes.plot(
            [max(seconds, _LEAST_SECONDS) for seconds, _ in points],
            [best for _, best in points],
            drawstyle="steps-post",
            lw=1.3,
            color=colours[row.method],
            label=None if row.method in named else row.method,
        )
        named.add(row.method)
    axes.set_xscale("log")
    axes.set_xlabel("processor seconds")
    axes.set_ylabel("log posterior of the best grouping so far (nats)")
    axes.legend()
    return figure
