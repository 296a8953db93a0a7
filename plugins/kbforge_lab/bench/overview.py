"""The table over all tasks: F1 of each method, beside equal names and the ceiling.

The default of `kbforge cluster` is the plan's reference. It is held against the baseline that
anybody gets by hand (exact name), against the best alpha in hindsight, which no user can know, and
against the ceiling. Under the tasks stand the means over them, over groups of them and over
families, each family counting once.
"""

from __future__ import annotations

import csv
import io
import statistics
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any

from kbforge_lab.bench.summary import Line, Spread
from kbforge_lab.contracts.suite import Baseline, Method, Plan, Standing, Task

BELOW = 0.005
"""A default that is further below exact name than this is marked with `!`."""

_BEST = "best alpha"
_STANDINGS: Mapping[Standing | None, str] = {
    "held out": (
        "Leave-one-family-out: the default's models were trained on all families but the set's own"
    ),
    "unseen": "The default's models were trained on no set of the family, and so on nothing here",
    "seen": "NOT leave-one-family-out: the default's models were trained on sets of this family",
    None: "Whether the default's models were trained on data of this kind is not known",
}


@dataclass(frozen=True, slots=True)
class Grid:
    """A table of cells; the first `texts` columns are text, the others numbers."""

    title: str
    head: list[str]
    rows: list[list[str]]
    texts: int

    def markdown(self) -> str:
        """As Markdown."""
        ruler = ["---" if k < self.texts else "---:" for k in range(len(self.head))]
        return "\n".join(
            "| " + " | ".join(cells) + " |" for cells in [self.head, ruler, *self.rows]
        )


def standings(plan: Plan) -> list[str]:
    """A sentence for each way in which the default's models stand to tasks, and to which."""
    return [
        f"{meaning}: {', '.join(names)}."
        for standing, meaning in _STANDINGS.items()
        if (names := [task.name for task in plan.tasks if task.standing == standing])
    ]


def overview(plan: Plan, lines: Sequence[Line]) -> Grid:
    """F1 of all methods on all tasks, and the means."""
    table = _Table(plan, lines)
    columns = table.columns()
    head = ["set", "family", "fragments", "entities", *columns]
    rows = []
    for task in plan.tasks:
        if not (own := table.lines_of(task)):
            continue
        entities = f"{next(iter(own.values())).gold_entities:,}"
        cells = [column(task) for column in columns.values()]
        rows.append([task.name, task.family, f"{len(task.fragments):,}", entities, *cells])
    rows += [[name, "", "", "", *cells] for name, cells in table.means()]
    return Grid("F1", head, rows, texts=2)


def details(plan: Plan, lines: Sequence[Line]) -> list[Grid]:
    """A table of each method that clusters once: scores, costs and calibration."""
    return [
        _detail(method, plan, own)
        for method in plan.methods
        if method.baseline is None
        and not method.alphas
        and (own := [line for line in lines if line.method.name == method.name])
    ]


def long_table(plan: Plan, lines: Iterable[Line]) -> str:
    """All figures, one line a task and method, as CSV."""
    families = {task.name: task for task in plan.tasks}
    rows = [
        {"set": line.task, "family": families[line.task].family}
        | {"standing": families[line.task].standing or "", "method": line.method.name}
        | _figures(line)
        for line in lines
    ]
    out = io.StringIO()
    if rows:
        writer = csv.DictWriter(out, list(rows[0]), lineterminator="\n")
        writer.writeheader()
        writer.writerows(rows)
    return out.getvalue()


class _Table:
    """The lines of a plan by task and method, and what is told of them."""

    def __init__(self, plan: Plan, lines: Sequence[Line]) -> None:
        self._plan = plan
        self._by = {(line.task, line.method.name): line for line in lines}
        ran = {line.method.name for line in lines}
        self._methods = [method for method in plan.methods if method.name in ran]

    def lines_of(self, task: Task) -> dict[str, Line]:
        """By method."""
        return {
            method.name: line
            for method in self._methods
            if (line := self._by.get((task.name, method.name))) is not None
        }

    def columns(self) -> dict[str, Callable[[Task], str]]:
        """Name of a column -> its cell in the row of a task."""
        out: dict[str, Callable[[Task], str]] = {}
        for name in self._names():
            out[name] = partial(self._cell, name)
            if name == self._plan.reference:
                if self._baseline("exact name") is not None:
                    out["above exact name"] = self._gain
                out["took"] = self._taken
        return out

    def means(self) -> Iterator[tuple[str, list[str]]]:
        """What a mean is over, and its cells."""
        tasks = {task.name: task for task in self._plan.tasks}
        names = [name for name in tasks if self.lines_of(tasks[name])]
        yield "mean over the sets", self._mean(len(names), [[name] for name in names])
        for called, group in self._plan.groups.items():
            yield f"mean over {called}", self._mean(len(group), [[name] for name in group])
        families: dict[str, list[str]] = {}
        for name in names:
            families.setdefault(tasks[name].family or name, []).append(name)
        if len(families) < len(names):
            yield "mean over families", self._mean(len(families), list(families.values()))

    def _mean(self, of: int, parts: Sequence[Sequence[str]]) -> list[str]:
        """A mean of means; parts of which a method lacks a set do not count for it."""
        found: dict[str, dict[int, float]] = {}
        for name in self._names():
            for number, part in enumerate(parts):
                values = [self._value(task, name) for task in part]
                known = [value for value in values if value is not None]
                if len(known) == len(values):
                    found.setdefault(name, {})[number] = statistics.fmean(known)
        cells = []
        for name in self._names():
            own = found.get(name, {})
            cells.append(_mean_text(own, of))
            if name == self._plan.reference:
                exact = self._baseline("exact name")
                if exact is not None:
                    beside = found.get(exact, {})
                    both = {k: own[k] - beside[k] for k in own.keys() & beside.keys()}
                    cells.append(_mean_text(both, of, "+.3f"))
                cells.append("")
        return cells

    def _names(self) -> list[str]:
        """The columns of F1: exact name, the default, the others, the best alpha, the ceiling."""
        plain = [m.name for m in self._methods if m.baseline is None and not m.alphas]
        plain.sort(key=lambda name: name != self._plan.reference)
        first = [name for name in [self._baseline("exact name")] if name is not None]
        last = [name for name in [self._baseline("ceiling")] if name is not None]
        best = [_BEST] if any(method.alphas for method in self._methods) else []
        return [*first, *plain, *best, *last]

    def _baseline(self, wanted: Baseline) -> str | None:
        return next((m.name for m in self._methods if m.baseline == wanted), None)

    def _best(self, task: str) -> Line | None:
        """The best of all methods that cluster, the first among equals; None without a grid.

        Greedy clustering at the best alpha may be worse than particles at the default's.
        """
        if not any((task, m.name) in self._by for m in self._methods if m.alphas):
            return None
        found = [self._by.get((task, m.name)) for m in self._methods if m.baseline is None]
        whole = [line for line in found if line is not None and line.compares]
        return max(whole, key=lambda line: line.f1.mean, default=None)

    def _value(self, task: str, name: str) -> float | None:
        line = self._best(task) if name == _BEST else self._by.get((task, name))
        return line.f1.mean if line is not None and line.compares else None

    def _cell(self, name: str, task: Task) -> str:
        if name == _BEST:
            line = self._best(task.name)
            return "" if line is None else f"{_text(line.f1)} ({_took(line)})"
        line = self._by.get((task.name, name))
        if line is None:
            return ""
        return _text(line.f1) if line.compares else "over time"

    def _taken(self, task: Task) -> str:
        return _took(self._by.get((task.name, self._plan.reference)))

    def _gain(self, task: Task) -> str:
        exact = self._baseline("exact name")
        assert exact is not None
        ours, theirs = self._value(task.name, self._plan.reference), self._value(task.name, exact)
        if ours is None or theirs is None:
            return ""
        return f"{ours - theirs:+.3f}{' !' if ours < theirs - BELOW else ''}"


def _text(spread: Spread) -> str:
    return spread.text(3)


def _took(line: Line | None) -> str:
    """The model, and its alpha."""
    if line is None:
        return ""
    return f"{line.model} {_alpha(line)}".strip()


def _alpha(line: Line) -> str:
    """Alpha in three digits, or as a whole number where it is no larger than people read."""
    if line.alpha is None:
        return ""
    alpha = line.alpha.mean
    return f"{alpha:,.0f}" if 1_000 <= alpha < 1_000_000 else f"{alpha:.3g}"


def _mean_text(values: Mapping[int, float], of: int, form: str = ".3f") -> str:
    if not values:
        return ""
    mean = f"{statistics.fmean(values.values()):{form}}"
    return mean if len(values) == of else f"{mean} ({len(values)} of {of})"


def _detail(method: Method, plan: Plan, lines: Sequence[Line]) -> Grid:
    head = ["set", "runs", "P", "R", "F1", "harmonic F1", "entities", "gold", "alpha", "seconds"]
    head += ["MiB", "pairs raw", "mapped", "entities raw", "mapped"]
    rows = [
        [
            line.task,
            f"{line.runs}" + (f" ({line.endings})" if line.endings else ""),
            *map(_text, (line.precision, line.recall, line.f1)),
            f"{line.harmonic_f1:.3f}",
            f"{line.entities.mean:,.0f}",
            f"{line.gold_entities:,}",
            _alpha(line),
            f"{line.seconds.mean:,.1f}",
            "" if line.peak_mib is None else f"{line.peak_mib.mean:,.0f}",
            *map(_error, (line.pairs_ece, line.pairs_ece_mapped)),
            *map(_error, (line.entities_ece, line.entities_ece_mapped)),
        ]
        for line in lines
    ]
    errors = [f"mean over {len(lines)}", *[""] * 10]
    for name in ("pairs_ece", "pairs_ece_mapped", "entities_ece", "entities_ece_mapped"):
        known = [spread.mean for line in lines if (spread := getattr(line, name)) is not None]
        errors.append(f"{statistics.fmean(known):.3f}" if known else "")
    return Grid(method.name, head, [*rows, errors], texts=1)


def _error(spread: Spread | None) -> str:
    return "" if spread is None else spread.text(3)


def _figures(line: Line) -> dict[str, Any]:
    """Whatever a line knows, by name: numbers as they are, nothing for what is not known."""
    out: dict[str, Any] = {
        "runs": line.runs,
        "whole": line.compares,
        "fragments": line.of,
        "gold_entities": line.gold_entities,
        "model": line.model,
        "harmonic_f1": line.harmonic_f1,
    }
    for name in (
        *("f1", "precision", "recall", "entities", "alpha", "seconds", "cpu_seconds", "peak_mib"),
        *("pairs_ece", "pairs_ece_mapped", "entities_ece", "entities_ece_mapped"),
    ):
        spread: Spread | None = getattr(line, name)
        out[name] = None if spread is None else spread.mean
        out[f"{name}_sd"] = None if spread is None else spread.sd
    return out
