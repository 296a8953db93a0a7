"""Rows of results, chosen and grouped: each group is one point of a curve."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

import numpy as np

from kbforge_lab.bench.results import Row, TraceRow
from kbforge_lab.contracts.suite import Method


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
