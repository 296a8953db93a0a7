"""The figures of the split-SMC paper, and curves of time and memory.

`metric_by_particles` is figures 10 to 14, `metric_by_observations` figure 4, `surrogate_ablation`
figures 16 to 19. All return None if there is nothing to show. Points are means over shuffles,
bars and bands one standard deviation. Orders of the data differ more than settings do, so all
points of a curve are of the shuffles that all its settings have, and a curve over fragments ends
where the first of its runs ends.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING, Any

import numpy as np
import orjson

from kbforge.contracts import FloatArray
from kbforge.pictures import INK, PALETTE, look, new_figure
from kbforge_lab.bench.results import Row, TraceRow
from kbforge_lab.bench.summary import Spread, is_of
from kbforge_lab.suites.plan import Method, Metric

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
    """A colour for each method, by name: the suites' methods keep theirs from suite to suite."""
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
    """The curve's name, and the rows on orders that all points have, if there are any."""
    orders = [{row.shuffle for row in group} for group in groups]
    shared = set.intersection(*orders)
    most = max(map(len, orders))
    if not shared:
        return f"{name} (different orders)", groups
    if len(shared) < most:
        name = f"{name} ({len(shared)} of {most} orders)"
    return name, [[row for row in group if row.shuffle in shared] for group in groups]


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


METRICS: Mapping[Metric, str] = {
    "log_posterior": "log posterior (nats)",
    "f1": "B-cubed F1",
    "precision": "B-cubed precision",
    "recall": "B-cubed recall",
}
WIDTH, HEIGHT = 9.0, 6.0
_CURVES = 6.5, 4.5  # inches of a figure of one panel
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
    field: Metric,
    name: str,
    colour: str,
) -> None:
    """Draw the mean of each group with a bar of one standard deviation, and join them."""
    style: Mapping[str, Any] = {"fmt": "o-", "ms": 4, "lw": 1.3, "label": name}
    spreads = [Spread.of([float(getattr(row, field)) for row in group]) for group in groups]
    means, low, high = bounds(spreads, field)
    real = np.isfinite(means)  # the log posterior of an impossible grouping is not
    bars = [
        np.subtract(*ends, out=np.zeros(len(xs)), where=real)
        for ends in ((means, low), (high, means))
    ]
    axes.errorbar(xs, means, yerr=bars, elinewidth=0.8, color=colour, **style)


def bounds(spreads: Sequence[Spread], field: Metric) -> tuple[FloatArray, FloatArray, FloatArray]:
    """Means, and one standard deviation below and above, as far as that can be; shape [n] each."""
    means = np.array([spread.mean for spread in spreads])
    sds = np.array([spread.sd or 0.0 for spread in spreads])
    # what a share can be, which a standard deviation does not know
    least, most = (-np.inf, np.inf) if field == "log_posterior" else (0.0, 1.0)
    low, high = np.maximum(means - sds, least), np.minimum(means + sds, most)
    return means, np.minimum(low, means), np.maximum(high, means)  # a share may be 1 and a bit


def draw_band(axes: Axes, trace: Sequence[TraceRow], field: Metric, name: str, colour: str) -> None:
    """Draw the means over fragments seen, as far as every run got, in a band of one sd."""
    runs = {row.key for row in trace}
    seen: dict[int, list[float]] = {}
    for row in trace:
        seen.setdefault(row.fragments, []).append(float(getattr(row, field)))
    by_n = {n: values for n, values in seen.items() if len(values) == len(runs)}
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


def settle(axes: Axes, field: Metric) -> None:
    """Fix what part of the vertical axis is shown, with its numbers written out."""
    # ties are one height, and the last bits of a mean are none
    least = 1.0 if field == "log_posterior" else 0.01
    axes.ticklabel_format(axis="y", useOffset=False)
    low, high = axes.get_ylim()
    room = max(0.0, least - (high - low)) / 2
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


@look()
def metric_by_observations(
    trace: Sequence[TraceRow], table: Sequence[Method], reference: str
) -> Figure | None:
    """F1 and log posterior as fragments arrive, of the reference or another method."""
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
        draw_band(left, own, "f1", name, colours[name])
        ahead = [
            replace(row, log_posterior=row.log_posterior - base[row.shuffle, row.fragments])
            for row in own
            if (row.shuffle, row.fragments) in base
        ]
        draw_band(right, ahead, "log_posterior", name, colours[name])
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
                height = np.mean([getattr(row, metric) for row in alone])
                axes.axhline(float(height), ls="--", lw=1, color=colours[name])
            xs = [x * dodge[name] for x in xs if x]
            draw_curve(axes, xs, groups, metric, called, colours[name])
        log_axis(axes, [*map(float, values), *([unlimited] if free else [])], {unlimited: "all"})
        settle(axes, metric)
    notes = {
        "dashed: clustered by the surrogate alone": any(row.max_evals == 0 for row in proposed),
        "all: without a surrogate": bool(free),
    }
    finish(figure, panels, "; ".join(note for note, holds in notes.items() if holds))
    return figure


def ablation_setting(rows: Iterable[Row]) -> str:
    """The P of the methods whose M varies, as `P = 50`; empty if they have none."""
    limited = {row.particles for row in rows if row.surrogate and row.max_evals is not None}
    held = sorted(p for p in limited if p is not None)
    return f"P = {', '.join(map(str, held))}" if held else ""


@look()
def costs_by_size(
    curves: Mapping[str, Sequence[tuple[int, float, float]]],
) -> Figure | None:
    """Seconds from file to result, and the peak in MiB, against records; all logarithmic."""
    shown = {name: sorted(points) for name, points in curves.items() if points}
    if not shown:
        return None
    figure = new_figure(WIDTH, HEIGHT / 1.7)
    seconds, memory = figure.subplots(1, 2)
    panels = {"seconds from file to result": seconds, "peak of memory (MiB)": memory}
    for part, (label, axes) in enumerate(panels.items(), 1):
        for place, (name, points) in enumerate(shown.items()):
            ys = [point[part] for point in points]
            style: Mapping[str, Any] = {"ms": 4, "lw": 1.3, "color": PALETTE[place % len(PALETTE)]}
            axes.plot([point[0] for point in points], ys, "o-", label=name, **style)
        axes.set_xscale("log")
        axes.set_yscale("log")
        axes.set_xlabel("records")
        axes.set_ylabel(label)
    finish(figure, panels, "")
    return figure


_LEAST_SECONDS = 0.01  # a logarithmic axis has no 0


@look()
def log_posterior_by_seconds(rows: Sequence[Row], table: Sequence[Method]) -> Figure | None:
    """A line an order of the data, to where the run ended; None where no method tells its way."""
    ways = {row.key: orjson.loads(row.way) for row in rows}
    colours = colours_of(table)
    shown = [row for row in rows if ways[row.key] and row.method in colours]
    if not shown:
        return None
    figure = new_figure(*_CURVES)
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
