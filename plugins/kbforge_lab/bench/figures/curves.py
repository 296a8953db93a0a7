"""F1 and log posterior as fragments arrive: figure 4 of the paper.

Every metric against the number of particles P: figures 10-14 of the paper.

How many subproblems and effective particles there are: figure 15 of the paper.

Every metric against M, the joins that a surrogate proposes: figures 16-19 of the paper.

Seconds against the number of fragments, one curve a program.

The path of each sampler: its best log posterior against CPU seconds.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING

import orjson

from kbforge.pictures import PALETTE, look, new_figure
from kbforge_lab.bench.figures.axes import (
    HEIGHT,
    METRICS,
    WIDTH,
    by_fragments,
    colours_of,
    dodge_of,
    draw_band,
    draw_curve,
    finish,
    grouped,
    log_axis,
    mean,
    names_of,
    new_panels,
    notes_that_hold,
    of_the_table,
    on_shared_orders,
    particles_in_words,
    settle,
)
from kbforge_lab.bench.results import Row, TraceRow
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
