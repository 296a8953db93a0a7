"""Every metric against the seconds that a method takes: figures 5-9 of the paper."""

from __future__ import annotations

import itertools
from collections.abc import Sequence
from typing import TYPE_CHECKING, NamedTuple

import numpy as np

from kbforge.pictures import look
from kbforge_lab.bench.figures.axes import (
    LEAST_HEIGHT,
    bounds,
    colours_of,
    draw_curve,
    draw_points,
    finish,
    grouped,
    mean,
    mean_seconds,
    names_of,
    new_panels,
    notes_that_hold,
    of_the_table,
    on_shared_orders,
    particles_in_words,
    settle,
)
from kbforge_lab.bench.results import Row, TraceRow
from kbforge_lab.bench.summary import Spread, is_of
from kbforge_lab.contracts.suite import Method, Metric

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure


_NUMBERED: Metric = "log_posterior"  # the panel with P at the points; seconds are the same in all
_MARGIN = 0.05  # between what is shown and the end of an axis, of the axis
# least right end of an axis of seconds over its left one: there are two ticks of 1, 2, 5, ...
_LEAST_TIMES = 5.0


@look()
def metric_by_runtime(
    rows: Sequence[Row], trace: Sequence[TraceRow], table: Sequence[Method]
) -> Figure | None:
    """Metrics against seconds: curves over P, stars for the table's settings.

    An offline method's way is shown, too: the mean of its estimate while it runs. It may begin
    early and far below, and has no say in what part of the axes is shown: that is where methods
    end. The log posterior has no least value, so runs that were cut short have no say there
    either; where their star is not in the picture, a triangle points to it.
    """
    plain = of_the_table(rows, table)
    if not plain:
        return None
    figure, panels = new_panels("seconds a run")
    colours = colours_of(table)
    timed = [_timed(name, plain, trace, table, colours[name]) for name in sorted(names_of(plain))]
    beyond = False
    sides = itertools.cycle((1, -1))  # curves beside each other have their numbers apart
    for metric, axes in panels.items():
        for method in timed:
            draw_curve(
                axes, mean_seconds(method.curve), method.curve, metric, method.called, method.colour
            )
            if len(method.curve) > 1 and metric == _NUMBERED:
                _number(axes, method, metric, next(sides))
            if method.star:
                _draw_stars(axes, [method.star], metric, method.colour)
        _show_ends(axes, timed, metric)
        for method in timed:
            _draw_way(axes, method.way, metric, method.colour)
        beyond |= _point_beyond(axes, timed, metric)
    finish(figure, panels, _runtime_note(timed, beyond))
    return figure


class _Timed(NamedTuple):
    """A method in the figure of runtimes.

    Attributes:
        name: of the method, `called` so in the legend.
        curve: the rows of each P, on shared orders.
        star: those of the table's setting, on all orders.
        way: the runs of an offline method.

    """

    name: str
    called: str
    colour: str
    curve: Sequence[Sequence[Row]]
    star: Sequence[Row]
    way: Sequence[Sequence[TraceRow]]

    @property
    def ends(self) -> list[Sequence[Row]]:
        """All groups of rows that are drawn."""
        return [*self.curve, *([self.star] if self.star else [])]


def _timed(
    name: str,
    rows: Sequence[Row],
    trace: Sequence[TraceRow],
    table: Sequence[Method],
    colour: str,
) -> _Timed:
    own = [row for row in rows if row.method == name]
    groups = [group for _, group in grouped(own, "particles")]
    called, curve = on_shared_orders(name, groups)
    star = [row for row in own if any(is_of(row, method) for method in table)]
    return _Timed(name, called, colour, curve, star, _ways([t for t in trace if t.method == name]))


def _number(axes: Axes, method: _Timed, metric: Metric, side: int) -> None:
    """P in small figures above (side 1) or below (-1) the points of a curve."""
    for x, group in zip(mean_seconds(method.curve), method.curve, strict=True):
        y = Spread.of([getattr(row, metric) for row in group]).mean
        if np.isfinite(y):
            axes.annotate(
                str(group[0].particles),
                (x, y),
                (-4 * side, 4 * side),
                textcoords="offset points",
                ha="right" if side > 0 else "left",
                va="bottom" if side > 0 else "top",
                fontsize=6,
                color=method.colour,
            )


def _show_ends(axes: Axes, timed: Sequence[_Timed], metric: Metric) -> None:
    """Fix the part of the axes that is shown: where methods end."""
    from matplotlib.ticker import LogLocator

    ends = [group for method in timed for group in method.ends]
    whole = [group for group in ends if not any(row.cut for row in group)]
    shown = whole if whole and metric == "log_posterior" else ends
    spreads = [Spread.of([float(getattr(row, metric)) for row in group]) for group in shown]
    _, low, high = bounds([spread for spread in spreads if np.isfinite(spread.mean)], metric)
    if len(low):
        bottom, top = low.min(), high.max()
        room = _MARGIN * (top - bottom) or LEAST_HEIGHT[metric] / 2
        axes.set_ylim(bottom - room, top + room)
    settle(axes, metric)
    axes.set_xscale("log")
    seconds = [x for x in mean_seconds(ends) if x > 0]
    if seconds:
        span = np.log(max(seconds) / min(seconds))
        stretch = np.exp(max(_MARGIN * span, (np.log(_LEAST_TIMES) - span) / 2))
        axes.set_xlim(min(seconds) / stretch, max(seconds) * stretch)
    axes.xaxis.set_major_locator(LogLocator(subs=(1.0, 2.0, 5.0)))
    axes.xaxis.set_major_formatter("{x:g}")
    axes.xaxis.set_minor_formatter("")


def _point_beyond(axes: Axes, timed: Sequence[_Timed], metric: Metric) -> bool:
    """Triangles at the edges of the picture, one a star above or below it; whether there are."""
    low, high = axes.get_ylim()
    pointed = {"v": 0, "^": 0}
    for method in timed:
        if not method.star:
            continue
        height = mean([getattr(row, metric) for row in method.star])
        if low <= height <= high:
            continue
        marker = "v" if height < low else "^"
        # runs that the same budget ended are one above the other
        away = 0.02 + 0.05 * pointed[marker]
        pointed[marker] += 1
        edge, at = away if marker == "v" else 1 - away, axes.get_xaxis_transform()
        axes.plot(
            mean_seconds([method.star]), [edge], marker, ms=7, color=method.colour, transform=at
        )
    return any(pointed.values())


def _runtime_note(timed: Sequence[_Timed], beyond: bool) -> str:
    """What is what, of what there is."""
    starred = [method for method in timed if method.star]
    setting = particles_in_words(
        row.particles for m in starred for row in m.star if row.particles is not None
    )
    on_all = any(method.called != method.name for method in starred)
    above = {
        "curves join settings of P, which the first panel tells": any(
            len(method.curve) > 1 for method in timed
        ),
        f"stars: the settings of the table{setting and f' ({setting})'}"
        f"{', on all their orders' if on_all else ''}": bool(starred),
    }
    below = {
        "triangles: stars beyond the end of the axis": beyond,
        "faint: what an offline method had found by then, where that is in the picture": any(
            method.way for method in timed
        ),
    }
    return "\n".join(filter(None, map(notes_that_hold, (above, below))))


def _draw_stars(axes: Axes, groups: Sequence[Sequence[Row]], field: str, colour: str) -> None:
    draw_points(
        axes, mean_seconds(groups), groups, field, colour, {"fmt": "*", "ms": 12, "zorder": 3}
    )


def _ways(trace: Sequence[TraceRow]) -> list[list[TraceRow]]:
    """The runs of an offline method, which sees all fragments at once; none of an online one.

    None, either, of runs that at no time all went on: they have no mean.
    """
    if not trace or min(row.fragments for row in trace) < max(row.fragments for row in trace):
        return []
    runs: dict[str, list[TraceRow]] = {}
    for row in trace:
        runs.setdefault(row.key, []).append(row)
    found = list(runs.values())
    return found if _begin(found) < _end(found) else []


def _begin(runs: Sequence[Sequence[TraceRow]]) -> float:
    return max(run[0].seconds for run in runs)


def _end(runs: Sequence[Sequence[TraceRow]]) -> float:
    return min(run[-1].seconds for run in runs)


def _draw_way(axes: Axes, runs: Sequence[Sequence[TraceRow]], metric: Metric, colour: str) -> None:
    """The mean estimate at grid times."""
    if not runs:
        return
    times = np.geomspace(max(_begin(runs), 1e-3), _end(runs), 60)
    ways = []
    for run in runs:
        at = np.searchsorted([row.seconds for row in run], times, side="right") - 1
        values = np.array([getattr(row, metric) for row in run])
        ways.append(values[np.maximum(at, 0)])
    axes.plot(times, np.mean(ways, axis=0), "-", lw=1, alpha=0.6, color=colour, zorder=1)
