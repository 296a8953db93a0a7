"""A race of samplers: when each reached the level at which the slowest ended.

Samplers go on for ever, so that neither where they end at a given time nor when they end compares
them. This asks for the time at which a method's best grouping was first as probable as the one that
the lowest of the methods ended with, on the same order of the data. It is processor time, which
other work on the machine hardly changes, told from marks a twentieth apart.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import orjson

from kbforge_lab.bench.results import Row
from kbforge_lab.bench.summary import Spread
from kbforge_lab.contracts.suite import Plan

_ROUNDING = 1e-6  # relative: of what is equal


@dataclass(frozen=True, slots=True)
class Reached:
    """When a method reached the level of a task.

    Attributes:
        level: the log posterior that the slowest ended at, nats.
        seconds: processor seconds until the method had reached it, over the orders of the data.
        times: the same in units of the fastest method's mean.

    """

    task: str
    method: str
    level: Spread
    seconds: Spread
    times: float


def reached(plan: Plan, rows: Sequence[Row]) -> list[Reached]:
    """Of every task and method of the table, fastest first; of orders that all methods ran on."""
    out = []
    names = [method.name for method in plan.methods]
    for task in plan.tasks:
        own = [row for row in rows if row.task == task.name and row.fragments == row.of]
        by_order: dict[int, dict[str, Row]] = {}
        for row in own:
            by_order.setdefault(row.shuffle, {})[row.method] = row
        ran = {row.method for row in own}
        orders = [runs for _, runs in sorted(by_order.items()) if runs.keys() == ran]
        levels = [min(row.log_posterior for row in runs.values()) for runs in orders]
        found = {
            name: [_first(runs[name], level) for runs, level in zip(orders, levels, strict=True)]
            for name in names
            if name in ran and orders
        }
        spreads = {name: Spread.of(seconds) for name, seconds in found.items()}
        least = min((spread.mean for spread in spreads.values()), default=0.0)
        for name in sorted(spreads, key=lambda name: spreads[name].mean):
            times = spreads[name].mean / least if least else 1.0
            out.append(Reached(task.name, name, Spread.of(levels), spreads[name], times))
    return out


def _first(row: Row, level: float) -> float:
    """Processor seconds until a run had reached a level, at the latest when it ended."""
    enough = level - _ROUNDING * abs(level)
    way: list[tuple[float, float]] = orjson.loads(row.way)
    return min((seconds for seconds, best in way if best >= enough), default=row.cpu_seconds)


def race_part(task: str, plan: Plan, raced: Sequence[Reached]) -> str:
    """The section of a task, in Markdown."""
    own = [one for one in raced if one.task == task]
    if not own:
        return f"## {task}: the race\n\nNo order of the data has runs of all methods."
    text = (
        "Processor seconds until a method's best grouping was as probable as the one that the "
        f"slowest method ended with (log posterior {own[0].level.text(1)}), and how often that is "
        "the fastest one's."
    )
    lines = ["| method | CPU seconds | x fastest |", "| --- | ---: | ---: |"]
    lines += [f"| {one.method} | {one.seconds.text(2)} | {one.times:.1f} |" for one in own]
    return "\n\n".join([f"## {task}: the race", text, "\n".join(lines)])
