"""Runs one method in this process: groups, scores, and measures its cost.

Of a whole way to a grouping everything that a user gets is measured: fitting is part of the time,
and the memory and the error of the confidence are measured, raw and mapped. The scores of a grouper
that gives a sample are means.
"""

from __future__ import annotations

import math
import re
import time
from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import orjson

from kbforge import __version__, registry
from kbforge.clustering.rules import DirichletProcess
from kbforge.contracts import Ending, Fragment, Interrupted, ModelSpec, OnStep, Posterior, Progress
from kbforge.errors import KBForgeError
from kbforge.evaluation.reliability import (
    LEAST,
    Claims,
    ReportedPairs,
    entity_claims,
    entity_probabilities,
    pair_claims,
    pair_probabilities,
    reliability,
)
from kbforge.evaluation.scores import Scores, compare
from kbforge.fit.choices import SOURCE, PreparedRun, RunOptions
from kbforge.fit.features import ClusteringReport
from kbforge.fit.prepare import prepare
from kbforge.registry.options import option_parameters
from kbforge_lab.bench.baselines import group
from kbforge_lab.bench.results import Row, TraceRow, require_readable
from kbforge_lab.bench.runs import BenchRun

_STATUS = Path("/proc/self/status")
_MARKS = 50
# an offline method's next mark is when this much more time has passed, and enough of it that
# watching takes little of the whole
_SLOWER, _LITTLE = 1.15, 0.1
# what is known without looking is noted more often
_FURTHER = 1.05
_GRACE = 2.0  # a clusterer that minds its own budget is stopped when it forgets


class Outcome(NamedTuple):
    """The result of a run, and its state on the way."""

    row: Row
    trace: tuple[TraceRow, ...]


@dataclass(frozen=True, slots=True)
class Clocks:
    """Seconds on the wall and of this process."""

    wall: float = 0.0
    cpu: float = 0.0

    @classmethod
    def now(cls) -> Clocks:
        return cls(time.perf_counter(), time.process_time())

    def __add__(self, other: Clocks) -> Clocks:
        return Clocks(self.wall + other.wall, self.cpu + other.cpu)

    def __sub__(self, other: Clocks) -> Clocks:
        return Clocks(self.wall - other.wall, self.cpu - other.cpu)


def peak_mib(status: Path = _STATUS) -> float | None:
    """The most memory of this process; None where the system does not say.

    On Linux `getrusage` also counts what the parent had when it began this process.
    """
    return _in_status("VmHWM", status)


def resident_mib(status: Path = _STATUS) -> float | None:
    """The memory that this process has now, None where the system does not say."""
    return _in_status("VmRSS", status)


def _in_status(field: str, status: Path) -> float | None:
    try:
        found = re.search(rf"^{field}:\s*(\d+) kB$", status.read_text(), re.MULTILINE)
    except OSError:
        return None
    return int(found[1]) / 1024 if found else None


def perform(run: BenchRun) -> Outcome:
    """Do one run.

    Raises:
        KBForgeError: preparing or grouping failed, or the likelihood failed on a fragment.
        BadRecord: the clusterer returned figures that are none.
    """
    fragments = run.fragments()
    gold = [str(fragment.label) for fragment in fragments]
    trace: list[TraceRow] = []
    if run.task.likelihood is not None:
        row, trace = _clustered(run, fragments, gold)
    elif run.method.grouper is not None:
        row = _by_examples(run, fragments, gold)
    elif run.method.baseline is not None:
        row = _baseline(run, fragments, gold)
    else:
        row = _whole_way(run, fragments, gold)
    require_readable(row)
    for state in trace:
        require_readable(state)
    return Outcome(row, tuple(trace))


def _about(run: BenchRun, fragments: Sequence[Fragment]) -> dict[str, Any]:
    """The columns of a row that are known beforehand."""
    grouper = run.method.grouper
    options = orjson.dumps(run.method.options, option=orjson.OPT_SORT_KEYS).decode()
    return {
        **run.identity,
        "clusterer": run.method.clusterer,
        "options": options if grouper is None else repr(grouper),
        "budget": run.seconds,
        "of": len(fragments),
        "version": __version__,
    }


def _scored(found: Sequence[Scores]) -> dict[str, Any]:
    """The columns of scores: of several, their means, counts rounded."""
    of_each = [scores.to_json() for scores in found]
    mean = {name: float(np.mean([one[name] for one in of_each])) for name in of_each[0]}
    return {
        "f1": mean["bcubed_f1_item_mean"],
        "precision": mean["bcubed_precision"],
        "recall": mean["bcubed_recall"],
        "entities": round(mean["clusters"]),
        "gold_entities": round(mean["gold_clusters"]),
        "exact_entities": round(mean["exact_clusters"]),
        "pairwise_precision": mean["pairwise_precision"],
        "pairwise_recall": mean["pairwise_recall"],
        "pairwise_f1": mean["pairwise_f1"],
        "rand": mean["rand"],
        "edit_score": mean["normalised_edit_score"],
        "normalised_vi": mean["normalised_vi"],
    }


def _found(posterior: Posterior) -> dict[str, Any]:
    return {
        "fragments": posterior.n_fragments,
        "subproblems": len(posterior.subproblems),
        "log10_effective_particles": posterior.log10_effective_particles,
        "model_evaluations": posterior.model_evaluations,
    }


def _without_posterior(fragments: int) -> dict[str, Any]:
    return {
        "fragments": fragments,
        "cut": False,
        "subproblems": 0,
        "log10_effective_particles": 0.0,
        "model_evaluations": 0,
    }


def _costs(begin: Clocks) -> dict[str, Any]:
    spent = Clocks.now() - begin
    return {"seconds": spent.wall, "cpu_seconds": spent.cpu, "peak_mib": peak_mib()}


def _by_examples(run: BenchRun, fragments: Sequence[Fragment], gold: Sequence[str]) -> Row:
    assert run.method.grouper is not None
    begin = Clocks.now()
    found = run.method.grouper.group(run.task.examples, fragments, run.method_seed)
    costs = _costs(begin)
    return Row(
        **_about(run, fragments),
        **_without_posterior(len(fragments)),
        **_scored([compare(grouping, gold) for grouping in found.groupings]),
        **costs,
        log_posterior=float(np.mean(found.trace)) if found.trace else -math.inf,
        trace=orjson.dumps(list(map(float, found.trace))).decode(),
    )


def _baseline(run: BenchRun, fragments: Sequence[Fragment], gold: Sequence[str]) -> Row:
    assert run.method.baseline is not None
    begin = Clocks.now()
    labels = group(run.method.baseline, fragments, run.task.linked)
    costs = _costs(begin)
    return Row(
        **_about(run, fragments),
        **_without_posterior(len(labels)),
        **_scored([compare(labels, gold[: len(labels)])]),
        **costs,
        log_posterior=-math.inf,
    )


def _whole_way(run: BenchRun, fragments: Sequence[Fragment], gold: Sequence[str]) -> Row:
    """Group as `kbforge cluster` does, by the method's likelihood or by the default's."""
    begin = Clocks.now()
    prepared = prepare(fragments, _way_choices(run))
    best = _best(run, prepared, fragments, gold, begin.wall + run.seconds)
    costs = _costs(begin)
    model = run.method.likelihood
    return Row(
        **_about(run, fragments),
        **_scored([best.scores]),
        **costs,
        **_found(best.posterior),
        cut=best.cut,
        log_posterior=best.posterior.log_posterior,
        model=model.name if model else type(prepared.spec.likelihood).__name__.lower(),
        alpha=best.alpha,
        **_calibration(fragments, best.posterior, gold, prepared),
    )


class _Best(NamedTuple):
    """A grouping, the alpha that it was made at, its scores, and whether time ran out."""

    posterior: Posterior
    alpha: float
    scores: Scores
    cut: bool


def _best(
    run: BenchRun,
    prepared: PreparedRun,
    fragments: Sequence[Fragment],
    gold: Sequence[str],
    until: float,
) -> _Best:
    """The best grouping by F1 over the method's alphas, stopping at `until` on the wall clock."""
    best: _Best | None = None
    for alpha in run.method.alphas or (prepared.alpha,):
        spec = replace(prepared.spec, alpha=alpha)
        rng = np.random.default_rng(run.method_seed)
        posterior = prepared.clusterer.cluster(fragments, spec, rng, _until(until))
        if not posterior.complete and best is not None:
            return best._replace(cut=True)
        scores = compare(posterior.labels(), gold[: posterior.n_fragments])
        found = _Best(posterior, alpha, scores, not posterior.complete)
        if best is None or scores.bcubed_f1_item_mean > best.scores.bcubed_f1_item_mean:
            best = found
        if found.cut:
            break
    assert best is not None
    return best


def _until(until: float) -> OnStep:
    def on_step(progress: Progress) -> None:
        if time.perf_counter() > until:
            raise Interrupted

    return on_step


def _way_choices(run: BenchRun) -> RunOptions:
    method, model = run.method, run.method.likelihood
    options = {"likelihood": model.options if model else {}, "clusterer": method.options}
    more: dict[str, Any] = {} if run.task.defaults is None else {"defaults": run.task.defaults}
    return RunOptions(
        clusterer=method.clusterer,
        likelihood=None if model is None else model.name,
        particles=method.particles,
        max_evals=method.max_evals,
        link=SOURCE if run.task.linked else None,
        seed=run.method_seed,
        # none where none are given: the default is then what it is without options
        options={kind: given for kind, given in options.items() if given},
        **more,
    )


def _calibration(
    fragments: Sequence[Fragment], posterior: Posterior, gold: Sequence[str], prepared: PreparedRun
) -> dict[str, Any]:
    """The expected calibration errors, None if there are no claims, or too many."""
    entities = entity_probabilities([posterior])
    out: dict[str, Any] = {"entities_ece": _ece(entity_claims(entities, gold))}
    try:
        pairs: ReportedPairs | None = pair_probabilities([posterior], LEAST)
    except KBForgeError:
        pairs = None
    if pairs is not None:
        out["pairs_ece"] = _ece(pair_claims(pairs, gold))
    by = prepared.confidence
    if by is None:
        return out
    reported = ClusteringReport(fragments[: posterior.n_fragments], entities)
    sure = replace(entities, probability=by.of_entities(reported))
    out["entities_ece_mapped"] = _ece(entity_claims(sure, gold))
    if pairs is not None:
        mapped = replace(pairs, probability=by.of_pairs(reported, pairs))
        out["pairs_ece_mapped"] = _ece(pair_claims(mapped, gold))
    return out


def _ece(claims: Claims) -> float | None:
    return reliability(claims).ece if len(claims) else None


def _clustered(
    run: BenchRun, fragments: Sequence[Fragment], gold: Sequence[str]
) -> tuple[Row, list[TraceRow]]:
    """Run a clusterer on a task with a likelihood."""
    minds = "budget" in option_parameters(registry.load("clusterers", run.method.clusterer))
    watch = _Watch(run, gold, online=not minds)
    choices = _choices(run, minds)
    prepared = prepare(fragments, choices)
    spec = prepared.spec
    if not run.method.surrogate:
        spec = replace(spec, surrogate=None, max_evals=None)
    watch.begin = Clocks.now()
    posterior = prepared.clusterer.cluster(
        fragments, spec, np.random.default_rng(choices.seed), watch.on_step
    )
    spent = watch.spent()
    row = Row(
        **_about(run, fragments),
        **_scored([watch.scored(posterior)]),
        **_found(posterior),
        cut=posterior.ended in (Ending.BUDGET, Ending.INTERRUPTED),
        log_posterior=_log_posterior(posterior, fragments, spec),
        seconds=spent.wall,
        cpu_seconds=spent.cpu,
        way=orjson.dumps(watch.way).decode(),
    )
    return row, watch.trace


def _log_posterior(posterior: Posterior, fragments: Sequence[Fragment], spec: ModelSpec) -> float:
    """Of the point estimate, by the likelihood also where the surrogate alone has found it."""
    if spec.max_evals != 0:
        return posterior.log_posterior
    clusters = posterior.clusters()
    model = spec.likelihood.log_marginal([[fragments[i] for i in c] for c in clusters])
    return float(DirichletProcess(spec.alpha).log_terms(clusters, model).sum())


def _choices(run: BenchRun, minds_its_budget: bool) -> RunOptions:
    task, method = run.task, run.method
    assert task.likelihood is not None
    options = ({"budget": run.seconds} if minds_its_budget else {}) | dict(method.options)
    surrogate = task.surrogate if method.surrogate else None
    return RunOptions(
        clusterer=method.clusterer,
        likelihood=task.likelihood.name,
        surrogate=surrogate.name if surrogate else None,
        particles=method.particles,
        max_evals=method.max_evals,
        alpha=task.alpha,
        seed=run.method_seed,
        options={
            "likelihood": task.likelihood.options,
            "surrogate": surrogate.options if surrogate else {},
            "clusterer": options,
        },
    )


class _Watch:
    """The `on_step` of a run: keeps the trace and the budget, and knows what it costs itself."""

    def __init__(self, run: BenchRun, gold: Sequence[str], online: bool) -> None:
        self.trace: list[TraceRow] = []
        self.way: list[tuple[float, float]] = []
        self.own = Clocks()
        self._online = online
        self._allowed = run.seconds if online else _GRACE * run.seconds
        self._run = run
        self._gold = gold
        self._step = max(1, len(gold) // _MARKS)
        self._next_fragments, self._next_seconds = self._step, 0.0
        self.begin = Clocks()

    def spent(self) -> Clocks:
        """What the run has taken, without what watching it has."""
        return Clocks.now() - self.begin - self.own

    def scored(self, posterior: Posterior) -> Scores:
        """The point estimate against the labels of the fragments that it covers."""
        return compare(posterior.labels(), self._gold[: posterior.n_fragments])

    def on_step(self, progress: Progress) -> None:
        now = Clocks.now()
        spent = now - self.begin - self.own
        elapsed = spent.wall
        self._note_way(progress, spent.cpu)
        if self._is_due(progress, elapsed) and progress.posterior is not None:
            self._note(progress, progress.posterior(), elapsed)
            cost = Clocks.now() - now
            self.own += cost
            self._next_seconds = max(_SLOWER * elapsed, elapsed + cost.wall / _LITTLE)
        if elapsed > self._allowed:
            raise Interrupted

    def _note_way(self, progress: Progress, seconds: float) -> None:
        if progress.rounds is None or progress.fragments < progress.total:
            return
        further = not self.way or seconds >= _FURTHER * self.way[-1][0]
        if further and progress.rounds.log_posterior > -np.inf:
            self.way.append((seconds, progress.rounds.log_posterior))

    def _is_due(self, progress: Progress, elapsed: float) -> bool:
        """Every so many fragments online; offline, with all of them, at times further apart."""
        if not self._online:
            return progress.fragments == progress.total and elapsed >= self._next_seconds
        due = progress.fragments >= min(self._next_fragments, progress.total)
        self._next_fragments += self._step if due else 0
        return due

    def _note(self, progress: Progress, posterior: Posterior, elapsed: float) -> None:
        scores = self.scored(posterior)
        row = TraceRow(
            **self._run.identity,
            fragments=progress.fragments,
            seconds=elapsed,
            subproblems=progress.subproblems,
            log10_effective_particles=progress.log10_effective_particles,
            model_evaluations=progress.model_evaluations,
            log_posterior=posterior.log_posterior,
            f1=scores.bcubed_f1_item_mean,
            precision=scores.bcubed_precision,
            recall=scores.bcubed_recall,
        )
        self.trace.append(row)
