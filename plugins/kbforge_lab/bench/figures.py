"""The axes of the bench's figures: panels, points with bars, bands, ticks and notes.

One colour for each method, the same in every figure and suite.

Rows of results, chosen and grouped: each group is one point of a curve.

F1 and log posterior as fragments arrive: figure 4 of the paper.

Every metric against the number of particles P: figures 10-14 of the paper.

How many subproblems and effective particles there are: figure 15 of the paper.

Every metric against M, the joins that a surrogate proposes: figures 16-19 of the paper.

Seconds against the number of fragments, one curve a program.

The path of each sampler: its best log posterior against CPU seconds.

Every metric against the seconds that a method takes: figures 5-9 of the paper.
"""

from __future__ import annotations

import itertools
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np
import orjson

from kbforge.contracts import FloatArray
from kbforge.pictures import INK, PALETTE, look, new_figure
from kbforge_lab.bench.results import Row, TraceRow
from kbforge_lab.bench.summary import Spread, is_of
from kbforge_lab.contracts.suite import Method, Metric

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

# one colour each, in whatever table they are; the suites' names
_METHODS = (
    "Agglomerative",
    "Agglomerative (batch 100)",
    "Gibbs",
    "Greedy",
    "Metropolis",
    "SMC",
    "Split SMC",
)


def colours_of(table: Sequence[Method]) -> dict[str, str]:
    """A colour a method, by name: the suites' methods keep theirs from suite to suite.

    Others share those that are left, first of all those that no suite's method has.
    """
    names = {method.name for method in table}
    colours = {name: PALETTE[i] for i, name in enumerate(_METHODS) if name in names}
    left = [colour for colour in reversed(PALETTE) if colour not in colours.values()]
    others = sorted(names.difference(_METHODS))
    return colours | {name: left[i % len(left)] for i, name in enumerate(others)}


def of_the_table(rows: Sequence[Row], table: Sequence[Method]) -> list[Row]:
    """The rows that differ from a line of the table in P alone."""
    settings = {(method.name, method.surrogate, method.max_evals) for method in table}
    return [row for row in rows if (row.method, row.surrogate, row.max_evals) in settings]


def on_shared_orders(
    name: str, groups: Sequence[Sequence[Row]]
) -> tuple[str, Sequence[Sequence[Row]]]:
    """The rows of a curve's points on the orders that all of them have; all rows if none is shared.

    The name comes back with how many orders those are, where a point has more.
    """
    orders = [{row.shuffle for row in group} for group in groups]
    shared = set.intersection(*orders)
    most = max(map(len, orders))
    if not shared:
        return f"{name} (different orders)", groups
    if len(shared) < most:
        name = f"{name} ({len(shared)} of {most} orders)"
    return name, [[row for row in group if row.shuffle in shared] for group in groups]


def by_fragments(trace: Iterable[TraceRow], field: str) -> dict[int, list[float]]:
    """Values by the fragments seen, as far as every run of a method got."""
    out: dict[int, list[float]] = {}
    runs = set()
    for row in trace:
        runs.add(row.key)
        out.setdefault(row.fragments, []).append(float(getattr(row, field)))
    return {seen: values for seen, values in out.items() if len(values) == len(runs)}


def grouped(rows: Iterable[Row], field: str) -> list[tuple[int, list[Row]]]:
    """(value of the field, its rows), ascending; None counts as 1."""
    out: dict[int, list[Row]] = {}
    for row in rows:
        value = getattr(row, field)
        out.setdefault(1 if value is None else value, []).append(row)
    return sorted(out.items())


def names_of(rows: Iterable[Row | TraceRow]) -> list[str]:
    """The methods of the rows, in order of first appearance."""
    return list(dict.fromkeys(row.method for row in rows))


def mean_seconds(groups: Sequence[Sequence[Row]]) -> list[float]:
    """The mean seconds of each group."""
    return [mean([row.seconds for row in group]) for group in groups]


def mean(values: Sequence[float]) -> float:
    """The arithmetic mean."""
    return float(np.mean(values))


def particles_in_words(particles: Iterable[int]) -> str:
    """`P = 10, 100`; empty if there are none."""
    held = sorted(set(particles))
    return f"P = {', '.join(map(str, held))}" if held else ""


METRICS: Mapping[Metric, str] = {
    "log_posterior": "log posterior (nats)",
    "f1": "B-cubed F1",
    "precision": "B-cubed precision",
    "recall": "B-cubed recall",
}
_SHARE = (0.0, 1.0)
# between what a figure can be, which a standard deviation does not know
_WITHIN: Mapping[str, tuple[float, float]] = {
    "f1": _SHARE,
    "precision": _SHARE,
    "recall": _SHARE,
    "subproblems": (1.0, np.inf),
    "log10_effective_particles": (0.0, np.inf),
}
# of an axis: ties are one height, and the last bits of a mean are none
LEAST_HEIGHT: Mapping[str, float] = {
    "log_posterior": 1.0,
    "f1": 0.01,
    "precision": 0.01,
    "recall": 0.01,
    "subproblems": 2.0,
    "log10_effective_particles": 2.0,
}
WIDTH, HEIGHT = 9.0, 6.0
_LEGEND = 100  # characters that fit on a line of names
_APART = 1.04  # from one method's bar to the next one's


def new_panels(x_label: str) -> tuple[Figure, dict[Metric, Axes]]:
    """Two rows of two axes, one a metric, with one kind of x below."""
    figure = new_figure(WIDTH, HEIGHT)
    grid = figure.subplots(2, 2, sharex=True)
    panels = dict(zip(METRICS, grid.flat, strict=True))
    for metric, axes in panels.items():
        axes.set_ylabel(METRICS[metric])
    for axes in grid[1]:
        axes.set_xlabel(x_label)
    return figure, panels


def draw_curve(
    axes: Axes,
    xs: Sequence[float],
    groups: Sequence[Sequence[Row]],
    field: str,
    name: str,
    colour: str,
) -> None:
    """Draw a point with its bar for each group, and a line that joins them."""
    style = {"fmt": "o-", "ms": 4, "lw": 1.3, "label": name}
    draw_points(axes, xs, groups, field, colour, style)


def draw_points(
    axes: Axes,
    xs: Sequence[float],
    groups: Sequence[Sequence[Row]],
    field: str,
    colour: str,
    style: Mapping[str, Any],
) -> None:
    """Draw the mean of each group, with a bar of one standard deviation."""
    spreads = [Spread.of([float(getattr(row, field)) for row in group]) for group in groups]
    means, low, high = bounds(spreads, field)
    real = np.isfinite(means)  # the log posterior of an impossible grouping is not
    bars = [
        np.subtract(*ends, out=np.zeros(len(xs)), where=real)
        for ends in ((means, low), (high, means))
    ]
    axes.errorbar(xs, means, yerr=bars, elinewidth=0.8, color=colour, **style)


def bounds(spreads: Sequence[Spread], field: str) -> tuple[FloatArray, FloatArray, FloatArray]:
    """Means, and one standard deviation below and above, as far as that can be; shape [n] each."""
    means = np.array([spread.mean for spread in spreads])
    sds = np.array([spread.sd or 0.0 for spread in spreads])
    least, most = _WITHIN.get(field, (-np.inf, np.inf))
    low, high = np.maximum(means - sds, least), np.minimum(means + sds, most)
    return means, np.minimum(low, means), np.maximum(high, means)  # a share may be 1 and a bit


def draw_band(
    axes: Axes,
    by_n: Mapping[int, Sequence[float]],
    field: str,
    name: str,
    colour: str,
) -> None:
    """Draw the means over fragments seen, in a band of one standard deviation."""
    ns = sorted(by_n)
    means, low, high = bounds([Spread.of(by_n[n]) for n in ns], field)
    axes.plot(ns, means, "-", lw=1.5, color=colour, label=name)
    axes.fill_between(ns, low, high, color=colour, alpha=0.15, lw=0)
    axes.margins(x=0.01)


def log_axis(axes: Axes, ticks: Sequence[float], names: Mapping[float, str] | None = None) -> None:
    """Make the x axis logarithmic, with these ticks alone; `names` has other names of ticks."""
    axes.set_xscale("log")
    axes.set_xticks(ticks, [(names or {}).get(t, f"{t:g}") for t in ticks])
    axes.minorticks_off()


def settle(axes: Axes, field: str) -> None:
    """Fix what part of the vertical axis is shown, with its numbers written out."""
    axes.ticklabel_format(axis="y", useOffset=False)
    low, high = axes.get_ylim()
    room = max(0.0, LEAST_HEIGHT[field] - (high - low)) / 2
    axes.set_ylim(low - room, high + room)


def finish(figure: Figure, panels: Mapping[Any, Axes], note: str) -> None:
    """Put the legend above the panels and the note below them."""
    first = next(iter(panels.values()))
    handles, labels = first.get_legend_handles_labels()
    rows = 1 + sum(map(len, labels)) // _LEGEND
    figure.legend(handles, labels, loc="outside upper center", ncols=-(-len(labels) // rows))
    if note:
        figure.supxlabel(note, fontsize=8, color=INK)


def dodge_of(names: Sequence[str]) -> dict[str, float]:
    """By what a method's places on a logarithmic axis are multiplied: bars stand side by side."""
    return {name: _APART ** (i - (len(names) - 1) / 2) for i, name in enumerate(names)}


def notes_that_hold(notes: Mapping[str, bool]) -> str:
    """The notes that are true, as one line."""
    return "; ".join(note for note, is_true in notes.items() if is_true)


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


@look()
def surrogate_ablation(rows: Sequence[Row], table: Sequence[Method]) -> Figure | None:
    """Metrics against M; the surrogate alone as a dashed line, no surrogate at the right end."""
    limited = [row for row in rows if row.surrogate and row.max_evals is not None]
    settings = {(row.method, row.particles) for row in limited}
    # without a limit M is P, where there is a P
    proposed = limited + [
        replace(row, max_evals=row.particles)
        for row in rows
        if row.surrogate and row.max_evals is None and (row.method, row.particles) in settings
        if row.particles is not None
    ]
    values = sorted({row.max_evals or 0 for row in proposed} - {0})
    if not values:
        return None
    unlimited = 4.0 * values[-1]
    free = [row for row in rows if not row.surrogate and (row.method, row.particles) in settings]
    at = ablation_setting(rows)
    figure, panels = new_panels(f"joins that the surrogate proposes a step, M{at and f' ({at})'}")
    colours = colours_of(table)
    dodge = dodge_of(names_of(proposed))
    for metric, axes in panels.items():
        for name in names_of(proposed):
            own = grouped((row for row in proposed if row.method == name), "max_evals")
            own_free = [row for row in free if row.method == name]
            xs = [float(m) for m, _ in own] + ([unlimited] if own_free else [])
            held = [group for _, group in own] + ([own_free] if own_free else [])
            called, groups = on_shared_orders(name, held)
            if xs[0] == 0:
                alone, *groups = groups
                height = mean([float(getattr(row, metric)) for row in alone])
                axes.axhline(height, ls="--", lw=1, color=colours[name])
            xs = [x * dodge[name] for x in xs if x]
            draw_curve(axes, xs, groups, metric, called, colours[name])
        log_axis(axes, [*map(float, values), *([unlimited] if free else [])], {unlimited: "all"})
        settle(axes, metric)
    notes = {
        "dashed: clustered by the surrogate alone": any(row.max_evals == 0 for row in proposed),
        "all: without a surrogate": bool(free),
    }
    finish(figure, panels, notes_that_hold(notes))
    return figure


def ablation_setting(rows: Iterable[Row]) -> str:
    """The P of the methods whose M varies, as `P = 50`; empty if they have none."""
    limited = (row.particles for row in rows if row.surrogate and row.max_evals is not None)
    return particles_in_words(p for p in limited if p is not None)


_WIDTH, _HEIGHT = 6.5, 4.5


@look()
def seconds_by_size(curves: Mapping[str, Sequence[tuple[int, float]]]) -> Figure | None:
    """Seconds from file to result against fragments, both logarithmic."""
    shown = {name: sorted(points) for name, points in curves.items() if points}
    if not shown:
        return None
    figure = new_figure(_WIDTH, _HEIGHT)
    axes = figure.subplots()
    for place, (name, points) in enumerate(shown.items()):
        axes.plot(
            [n for n, _ in points],
            [seconds for _, seconds in points],
            "o-",
            ms=4,
            lw=1.3,
            label=name,
            color=PALETTE[place % len(PALETTE)],
        )
    axes.set_xscale("log")
    axes.set_yscale("log")
    axes.set_xlabel("fragments")
    axes.set_ylabel("seconds from file to result")
    axes.legend()
    return figure


_RACE_WIDTH, _RACE_HEIGHT = 6.5, 4.5
_LEAST_SECONDS = 0.01  # a logarithmic axis has no 0


@look()
def log_posterior_by_seconds(rows: Sequence[Row], table: Sequence[Method]) -> Figure | None:
    """A line an order of the data, to where the run ended; None where no method tells its way."""
    ways = {row.key: orjson.loads(row.way) for row in rows}
    colours = colours_of(table)
    shown = [row for row in rows if ways[row.key] and row.method in colours]
    if not shown:
        return None
    figure = new_figure(_RACE_WIDTH, _RACE_HEIGHT)
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
