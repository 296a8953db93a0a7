"""Every metric against M, the joins that a surrogate proposes: figures 16-19 of the paper."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING

from kbforge.pictures.canvas import look
from kbforge_lab.bench.figures.axes import (
    dodge_of,
    draw_curve,
    finish,
    log_axis,
    new_panels,
    notes_that_hold,
    settle,
)
from kbforge_lab.bench.figures.colours import colours_of
from kbforge_lab.bench.figures.rows import (
    grouped,
    mean,
    names_of,
    on_shared_orders,
    particles_in_words,
)
from kbforge_lab.bench.results import Row
from kbforge_lab.contracts.suite import Method

if TYPE_CHECKING:
    from matplotlib.figure import Figure


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
