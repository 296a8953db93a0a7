"""The axes of the bench's figures: panels, points with bars, bands, ticks and notes.

One colour for each method, the same in every figure and suite.

Rows of results, chosen and grouped: each group is one point of a curve.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np

from kbforge.contracts import FloatArray
from kbforge.pictures import INK, PALETTE, new_figure
from kbforge_lab.bench.results import Row, TraceRow
from kbforge_lab.bench.summary import Spread
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
