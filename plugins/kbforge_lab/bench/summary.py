"""Summarizes runs of one method, setting and task by means and standard deviations."""

from __future__ import annotations

import json
import math
import statistics
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from kbforge.errors import counted
from kbforge_lab.bench.results import Row, TraceRow
from kbforge_lab.bench.runs import BenchRun
from kbforge_lab.bench.workers import Failure
from kbforge_lab.convergence import LEAST, bulk_effective_size, scale_reduction
from kbforge_lab.suites.plan import Expectation, Method, Metric, SuitePlan

# equal groupings differ by less, which are summed in another order or, by a language model, scored
# in other batches in single precision; relative, and absolute for what is near 0
_ROUNDING = 1e-6


@dataclass(frozen=True, slots=True)
class Spread:
    """Mean and sample standard deviation, None of a single value or an infinite one."""

    mean: float
    sd: float | None

    @classmethod
    def of(cls, values: Sequence[float]) -> Spread:
        mean = statistics.fmean(values)
        spreads = len(values) > 1 and math.isfinite(mean)
        return cls(mean, statistics.stdev(values) if spreads else None)

    def text(self, digits: int) -> str:
        mean = f"{self.mean:,.{digits}f}"
        return mean if self.sd is None else f"{mean} ({self.sd:.{digits}f})"


@dataclass(frozen=True, slots=True)
class Line:
    """What a method with one setting did on one task, over its shuffles.

    The figures are of the runs that saw all fragments or, if none did, of all runs. Those from
    `model` to `entities_ece_mapped` are of whole ways to a grouping, `r_hat` and `effective_size`
    of groupings by examples. Rows of earlier versions may lack those that are None.
    """

    task: str
    method: Method
    runs: int
    cut: int  # runs that saw all fragments, ended by the budget
    parts: tuple[int, ...]  # fragments seen by each partial run, ascending
    of: int
    log_posterior: Spread
    f1: Spread
    precision: Spread
    recall: Spread
    entities: Spread
    seconds: Spread
    cpu_seconds: Spread
    model_evaluations: Spread
    gold_entities: int
    model: str
    alpha: Spread | None
    peak_mib: Spread | None
    pairs_ece: Spread | None
    pairs_ece_mapped: Spread | None
    entities_ece: Spread | None
    entities_ece_mapped: Spread | None
    pairwise_precision: Spread | None
    pairwise_recall: Spread | None
    pairwise_f1: Spread | None
    rand: Spread | None
    edit_score: Spread | None
    normalised_vi: Spread | None
    r_hat: float | None  # of the log joint density; None of fewer than two chains
    effective_size: float | None  # in draws

    @property
    def compares(self) -> bool:
        """Whether the figures are of the whole problem."""
        return len(self.parts) < self.runs

    @property
    def harmonic_f1(self) -> float:
        """The harmonic mean of mean precision and mean recall, 0 if both are."""
        total = self.precision.mean + self.recall.mean
        return 2 * self.precision.mean * self.recall.mean / total if total else 0.0

    @property
    def endings(self) -> str:
        """How many runs the budget ended, and where; "" if none."""
        said = []
        if self.parts:
            fewest, most = self.parts[0], self.parts[-1]
            seen = f"{fewest:,}" if fewest == most else f"{fewest:,} to {most:,}"
            said.append(f"{len(self.parts)} saw a part, {seen} of {self.of:,}")
        if self.cut:
            said.append(f"{self.cut} cut short")
        return "; ".join(said)


def footnotes(found: Sequence[Line]) -> dict[str, str]:
    """What `Line.endings` of a table says -> what that means."""
    out = {}
    if any(line.parts for line in found):
        out["saw a part"] = (
            "the time budget ended the run before it saw all fragments; figures of such runs are "
            "given only where no run saw all, and do not compare with those of other lines"
        )
    if any(line.cut for line in found):
        out["cut short"] = (
            "the run saw all fragments, and the time budget ended it before its own rule"
        )
    return out


@dataclass(frozen=True, slots=True)
class Verdict:
    """Whether an expectation held."""

    expectation: Expectation
    held: bool | None  # None if a method did not run or finish
    sentence: str

    @property
    def mark(self) -> str:
        return {True: "held", False: "FAILED", None: "not tested"}[self.held]


def is_of(row: Row | TraceRow, method: Method) -> bool:
    """Whether the row is of this method with this setting."""
    return (row.method, row.particles, row.surrogate, row.max_evals) == (
        method.name,
        method.particles,
        method.surrogate,
        method.max_evals,
    )


def lines(rows: Iterable[Row], plan: SuitePlan) -> list[Line]:
    """The lines of the plan's table that have rows, task by task."""
    held = list(rows)
    out = []
    for task in plan.tasks:
        for method in plan.methods:
            group = [row for row in held if row.task == task.name and is_of(row, method)]
            if group:
                out.append(_line(task.name, method, group))
    return out


_SPREADS = (
    *("log_posterior", "f1", "precision", "recall", "entities", "seconds", "cpu_seconds"),
    *("model_evaluations", "alpha", "peak_mib", "pairs_ece", "pairs_ece_mapped", "entities_ece"),
    *("entities_ece_mapped", "pairwise_precision", "pairwise_recall", "pairwise_f1", "rand"),
    *("edit_score", "normalised_vi"),
)


def _line(task: str, method: Method, group: Sequence[Row]) -> Line:
    whole = [row for row in group if row.fragments == row.of]
    rows = whole or group
    r_hat, effective_size = _met(rows)
    spreads: dict[str, Any] = {
        name: _known([getattr(row, name) for row in rows]) for name in _SPREADS
    }
    return Line(
        task=task,
        method=method,
        runs=len(group),
        cut=sum(row.cut for row in whole),
        parts=tuple(sorted(row.fragments for row in group if row.fragments < row.of)),
        of=group[0].of,
        gold_entities=rows[0].gold_entities,
        model=", ".join(dict.fromkeys(row.model for row in rows)),
        r_hat=r_hat,
        effective_size=effective_size,
        **spreads,
    )


def _met(rows: Sequence[Row]) -> tuple[float | None, float | None]:
    """R-hat and the effective sample size of chains' traces."""
    traces = [np.array(json.loads(row.trace), dtype=np.float64) for row in rows]
    lengths = {len(trace) for trace in traces}
    if len(traces) < 2 or len(lengths) > 1 or min(lengths) < LEAST:
        return None, None
    r_hat = scale_reduction(traces)
    # JSON has no word for what it is where no chain moves
    return r_hat if math.isfinite(r_hat) else None, bulk_effective_size(traces)


def _known(values: Sequence[float | None]) -> Spread | None:
    """Of those that there are, None without any."""
    known = [value for value in values if value is not None]
    return Spread.of(known) if known else None


def shortfalls(found: Sequence[Line], plan: SuitePlan) -> list[str]:
    """A sentence for what of the plan's table has not run, or on fewer orders than planned."""
    runs = {(line.task, line.method.name): line.runs for line in found}
    tasks: dict[str, list[str]] = {}
    for task in plan.tasks:
        missing: dict[tuple[int, int], list[str]] = {}
        for method in plan.methods:
            count = (runs.get((task.name, method.name), 0), method.shuffles or plan.shuffles)
            if count[0] < count[1]:
                missing.setdefault(count, []).append(method.name)
        for (done, planned), names in missing.items():
            short = f"{done} of {planned} planned orders of {', '.join(names)}"
            tasks.setdefault(short, []).append(task.name)
    return [f"{', '.join(names)}: {short}" for short, names in tasks.items()]


def failures(failed: Iterable[Failure]) -> list[str]:
    """A sentence for each reason why runs have no result."""
    by_reason: dict[str, list[BenchRun]] = {}
    for failure in failed:
        by_reason.setdefault(failure.why, []).append(failure.run)
    return [
        f"{runs[0].called}{_and_others(len(runs) - 1)} failed: {why}"
        for why, runs in by_reason.items()
    ]


def _and_others(count: int) -> str:
    return f", and {counted(count, 'other run')}" if count else ""


def verdicts(rows: Iterable[Row], plan: SuitePlan) -> list[Verdict]:
    """Every expectation of the plan, judged on the orders that its methods have in common."""
    held = list(rows)
    return [_judge(expectation, held, plan) for expectation in plan.expectations]


_CALLED: Mapping[Metric, str] = {
    "log_posterior": "log posterior",
    "f1": "F1",
    "pairwise_f1": "pairwise F1",
}


def _judge(wanted: Expectation, rows: Sequence[Row], plan: SuitePlan) -> Verdict:
    what = f"{wanted.task}: {_CALLED.get(wanted.metric, wanted.metric)} of {wanted.method}"
    names = [wanted.method, *wanted.no_worse_than]
    orders = [_orders(rows, plan, wanted.task, name) for name in names]
    shared = sorted(set.intersection(*map(set, orders)))
    compared = [[own[shuffle] for shuffle in shared] for own in orders]
    if (why := _untested(wanted, names, orders, compared)) is not None:
        return Verdict(wanted, None, f"{what}: {why}")
    got, *others = (_mean(judged, wanted.metric) for judged in compared)
    bound, against = wanted.at_least, "the bound"
    if others:
        best = max(others)
        bound = best - wanted.slack
        apart = f" {'less' if wanted.slack > 0 else 'plus'} {abs(wanted.slack):g}"
        against = f"that of {names[1 + others.index(best)]}{apart if wanted.slack else ''}"
    digits = 2 if wanted.metric == "log_posterior" else 4
    held = got >= bound or math.isclose(got, bound, rel_tol=_ROUNDING, abs_tol=_ROUNDING)
    relation = "at least" if held else f"{_shown(bound - got, digits)} below"
    sentence = f"{what} is {got:.{digits}f}, {relation} {against}, {bound:.{digits}f}"
    if bound > 1 and wanted.metric != "log_posterior":
        sentence += ", and none can be above 1"
    planned = min(_planned(plan, name) for name in names)
    if len(shared) < planned:
        common = " in common" if others else ""
        sentence += f" (on {len(shared)} of {planned} planned orders{common})"
    return Verdict(wanted, held, sentence)


def _shown(difference: float, digits: int) -> str:
    """To so many decimals, or to as many as show that it is not 0."""
    text = f"{difference:.{digits}f}"
    return text if float(text) else f"{difference:.1g}"


def _orders(rows: Iterable[Row], plan: SuitePlan, task: str, name: str) -> dict[int, Row]:
    """What a method of the table did on each order of a task."""
    meant = [method for method in plan.methods if method.name == name]
    return {
        row.shuffle: row
        for row in rows
        if row.task == task and any(is_of(row, method) for method in meant)
    }


def _untested(
    wanted: Expectation,
    names: Sequence[str],
    orders: Sequence[Mapping[int, Row]],
    compared: Sequence[Sequence[Row]],
) -> str | None:
    for name, own in zip(names, orders, strict=True):
        if not own:
            return f"{'it' if name == wanted.method else name} did not run"
    if not compared[0]:
        return f"{' and '.join(['it', *names[1:]])} ran on no order in common"
    for name, judged in zip(names, compared, strict=True):
        # the figures of a part are of another problem
        for row in judged:
            if row.fragments < row.of:
                return f"a run of {name} ended at {row.fragments:,} of {row.of:,} fragments"
    return None


def _planned(plan: SuitePlan, name: str) -> int:
    (method,) = (method for method in plan.methods if method.name == name)
    return method.shuffles or plan.shuffles


def _mean(rows: Sequence[Row], metric: Metric) -> float:
    return statistics.fmean(float(getattr(row, metric)) for row in rows)
