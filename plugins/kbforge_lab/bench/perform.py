"""The costs of a run: wall time, CPU time, memory.

Baselines without a model: equal names, and the ceiling.

| baseline | fragments are together if |
|---|---|
| exact name | their first names are the same, case folded; one without a name stands alone |
| ceiling | what they say is labelled alike: all that say exactly the same take the label of most |

The ceiling reads the labels. It is about the best that anything can do that sees what fragments say
and nothing else; where equal fragments are of several entities it is below 1.

One run of a grouper, in this process: group by examples, score the pairs.

A grouper may give a sample of groupings, such as the second half of a chain; its scores are then
the sample's means, rounded where they are counts.

One run of a whole way to a grouping, in this process: group as `kbforge cluster` does, score.

What counts is what a user gets. So fitting is part of the time, the memory is measured, and so is
how far the confidence can be trusted: raw, and by the map that goes with the likelihood.

One run of a clusterer, in this process: cluster, watch, score.
"""

from __future__ import annotations

import math
import re
import time
from collections import Counter, defaultdict
from collections.abc import Callable, Hashable, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np
import orjson

from kbforge import __version__, registry
from kbforge.clustering.prior import DirichletProcess
from kbforge.contracts import Ending, Fragment, Interrupted, OnStep, Posterior, Problem, Progress
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
from kbforge.fit.choices import Choices
from kbforge.fit.confidence import ClusteringReport
from kbforge.fit.models import Fit
from kbforge.fit.prepare import prepare
from kbforge_lab.bench.results import Row, TraceRow, require_readable
from kbforge_lab.bench.runs import Run
from kbforge_lab.contracts.suite import Baseline

_STATUS = Path("/proc/self/status")
_PEAK = re.compile(r"^VmHWM:\s*(\d+) kB$", re.MULTILINE)
_RESIDENT = re.compile(r"^VmRSS:\s*(\d+) kB$", re.MULTILINE)


@dataclass(frozen=True, slots=True)
class Clocks:
    """Seconds on the wall and of this process."""

    wall: float = 0.0
    cpu: float = 0.0

    @classmethod
    def now(cls) -> Clocks:
        """What the clocks show."""
        return cls(time.perf_counter(), time.process_time())

    def __add__(self, other: Clocks) -> Clocks:
        return Clocks(self.wall + other.wall, self.cpu + other.cpu)

    def __sub__(self, other: Clocks) -> Clocks:
        return Clocks(self.wall - other.wall, self.cpu - other.cpu)


def peak_mib() -> float | None:
    """The most memory that this process has had, None where the system does not say.

    `getrusage` says so everywhere, but on Linux it counts what the parent had when it began this.
    """
    return _status(_PEAK)


def resident_mib() -> float | None:
    """The memory that this process has now, None where the system does not say."""
    return _status(_RESIDENT)


def _status(figure: re.Pattern[str]) -> float | None:
    try:
        found = figure.search(_STATUS.read_text())
    except OSError:
        return None
    return int(found[1]) / 1024 if found else None


_PARTS = ("first_name", "surname")


def exact_name(fragments: Sequence[Fragment]) -> list[Hashable]:
    """A label a fragment; records without `name` may have a first name and a surname instead."""
    return [_name(fragment) for fragment in fragments]


def ceiling(fragments: Sequence[Fragment]) -> list[Hashable]:
    """The label that most of those have who say the same; the first of them among as many."""
    said = [_said(fragment) for fragment in fragments]
    labels: dict[Hashable, Counter[str | None]] = defaultdict(Counter)
    for what, fragment in zip(said, fragments, strict=True):
        labels[what][fragment.label] += 1
    best = {what: counts.most_common(1)[0][0] for what, counts in labels.items()}
    return [best[what] for what in said]


BASELINES: Mapping[Baseline, Callable[[Sequence[Fragment]], list[Hashable]]] = {
    "exact name": exact_name,
    "ceiling": ceiling,
}


def _name(fragment: Fragment) -> Hashable:
    if fragment.names:
        return fragment.names[0].casefold()
    parts = tuple(fragment.properties.get(part, ("",))[0].casefold() for part in _PARTS)
    # no name is a tuple of one
    return parts if any(parts) else (fragment.id,)


def _said(fragment: Fragment) -> Hashable:
    return tuple(sorted(fragment.properties.items())), fragment.vector


def by_examples(run: Run) -> Row:
    """Do one run of a task with examples."""
    grouper = run.method.grouper
    assert grouper is not None
    fragments = run.fragments()
    gold = [str(fragment.label) for fragment in fragments]
    begin = Clocks.now()
    found = grouper.group(run.task.examples, fragments, run.method_seed)
    spent = Clocks.now() - begin
    scores = [compare(grouping, gold).to_json() for grouping in found.groupings]
    mean = {name: float(np.mean([one[name] for one in scores])) for name in scores[0]}
    return Row(
        **run.identity,
        clusterer="",
        options=repr(grouper),
        budget=run.seconds,
        fragments=len(fragments),
        of=len(fragments),
        cut=False,
        log_posterior=float(np.mean(found.trace)) if found.trace else -math.inf,
        f1=mean["bcubed_f1_item_mean"],
        precision=mean["bcubed_precision"],
        recall=mean["bcubed_recall"],
        entities=round(mean["clusters"]),
        gold_entities=round(mean["gold_clusters"]),
        exact_entities=round(mean["exact_clusters"]),
        subproblems=0,
        log10_effective_particles=0.0,
        model_evaluations=0,
        seconds=spent.wall,
        cpu_seconds=spent.cpu,
        version=__version__,
        peak_mib=peak_mib(),
        pairwise_precision=mean["pairwise_precision"],
        pairwise_recall=mean["pairwise_recall"],
        pairwise_f1=mean["pairwise_f1"],
        rand=mean["rand"],
        edit_score=mean["normalised_edit_score"],
        normalised_vi=mean["normalised_vi"],
        trace=orjson.dumps(list(map(float, found.trace))).decode(),
    )


def measured(run: Run) -> Row:
    """Do one run of a task without a likelihood."""
    fragments = run.fragments()
    gold = [str(fragment.label) for fragment in fragments]
    begin = Clocks.now()
    if run.method.baseline is not None:
        labels = BASELINES[run.method.baseline](fragments)
        return Row(
            **_about(run, len(fragments)),
            **_scored(compare(labels, gold)),
            **_costs(begin),
            fragments=len(fragments),
            cut=False,
            log_posterior=-math.inf,
            subproblems=0,
            log10_effective_particles=0.0,
            model_evaluations=0,
        )
    prepared = prepare(fragments, _way_choices(run))
    found = _best(run, prepared, fragments, gold, begin.wall + run.seconds)
    costs = _costs(begin)
    posterior = found.posterior
    return Row(
        **_about(run, len(fragments)),
        **_scored(found.scores),
        **costs,
        fragments=posterior.n_fragments,
        cut=found.cut,
        log_posterior=posterior.log_posterior,
        subproblems=len(posterior.subproblems),
        log10_effective_particles=posterior.log10_effective_particles,
        model_evaluations=posterior.model_evaluations,
        model=_model(run, prepared),
        alpha=found.alpha,
        **_doubt(fragments, posterior, gold, prepared),
    )


@dataclass(frozen=True, slots=True)
class _Found:
    """A grouping, the alpha that it was made at, its scores, and whether time ran out."""

    posterior: Posterior
    alpha: float
    scores: Scores
    cut: bool


def _best(
    run: Run, prepared: Fit, fragments: Sequence[Fragment], gold: Sequence[str], until: float
) -> _Found:
    """The grouping, or of those at all alphas of the method the one of the best F1."""
    best: _Found | None = None
    for alpha in run.method.alphas or (prepared.alpha,):
        problem = replace(prepared.problem, alpha=alpha)
        rng = np.random.default_rng(run.method_seed)
        posterior = prepared.clusterer.cluster(fragments, problem, rng, _until(until))
        if not posterior.complete and best is not None:
            return replace(best, cut=True)
        scores = compare(posterior.labels(), gold[: posterior.n_fragments])
        found = _Found(posterior, alpha, scores, not posterior.complete)
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


def _way_choices(run: Run) -> Choices:
    method, model = run.method, run.method.likelihood
    options = {"likelihood": model.options if model else {}, "clusterer": method.options}
    more: dict[str, Any] = {}
    if run.task.defaults is not None:
        more["defaults"] = run.task.defaults
    return Choices(
        clusterer=method.clusterer,
        likelihood=None if model is None else model.name,
        particles=method.particles,
        max_evals=method.max_evals,
        seed=run.method_seed,
        # none where none are given: the default is then what it is without options
        options={kind: given for kind, given in options.items() if given},
        **more,
    )


def _model(run: Run, prepared: Fit) -> str:
    """What the likelihood is called: as the method names it, else what the default took."""
    if run.method.likelihood is not None:
        return run.method.likelihood.name
    return type(prepared.problem.likelihood).__name__.lower()


def _about(run: Run, of: int) -> dict[str, Any]:
    return {
        **run.identity,
        "clusterer": run.method.clusterer,
        "options": orjson.dumps(run.method.options, option=orjson.OPT_SORT_KEYS).decode(),
        "budget": run.seconds,
        "of": of,
        "version": __version__,
    }


def _scored(scores: Scores) -> dict[str, Any]:
    return {
        "f1": scores.bcubed_f1_item_mean,
        "precision": scores.bcubed_precision,
        "recall": scores.bcubed_recall,
        "entities": scores.clusters,
        "gold_entities": scores.gold_clusters,
        "exact_entities": scores.exact_clusters,
    }


def _costs(begin: Clocks) -> dict[str, Any]:
    spent = Clocks.now() - begin
    return {"seconds": spent.wall, "cpu_seconds": spent.cpu, "peak_mib": peak_mib()}


def _doubt(
    fragments: Sequence[Fragment], posterior: Posterior, gold: Sequence[str], prepared: Fit
) -> dict[str, Any]:
    """The expected calibration errors, None of what there are no claims or too many of."""
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


_MARKS = 50
# an offline method's next mark is when this much more time has passed, and enough of it that
# watching takes little of the whole
_SLOWER, _LITTLE = 1.15, 0.1
# what is known without looking is noted more often
_FURTHER = 1.05
_GRACE = 2.0  # a clusterer that minds its own budget is stopped when it forgets


@dataclass(frozen=True, slots=True)
class Outcome:
    """What a run leaves behind."""

    row: Row
    trace: tuple[TraceRow, ...]


def perform(run: Run) -> Outcome:
    """Do one run."""
    if run.task.likelihood is None:
        row = by_examples(run) if run.method.grouper is not None else measured(run)
        require_readable(row)
        return Outcome(row, ())
    fragments = run.fragments()
    minds = _minds_its_budget(run)
    gold = [str(fragment.label) for fragment in fragments]
    watch = _Watch(run, gold, online=not minds)
    choices = _choices(run, minds)
    prepared = prepare(fragments, choices)
    problem = prepared.problem
    if not run.method.surrogate:
        problem = replace(problem, surrogate=None, max_evals=None)
    watch.start()
    posterior = prepared.clusterer.cluster(
        fragments, problem, np.random.default_rng(choices.seed), watch.on_step
    )
    spent = watch.spent()
    scores = watch.scored(posterior)
    row = Row(
        **run.identity,
        clusterer=run.method.clusterer,
        options=orjson.dumps(run.method.options, option=orjson.OPT_SORT_KEYS).decode(),
        budget=run.seconds,
        fragments=posterior.n_fragments,
        of=len(fragments),
        cut=posterior.ended in (Ending.BUDGET, Ending.INTERRUPTED),
        log_posterior=_log_posterior(posterior, fragments, problem),
        f1=scores.bcubed_f1_item_mean,
        precision=scores.bcubed_precision,
        recall=scores.bcubed_recall,
        entities=scores.clusters,
        gold_entities=scores.gold_clusters,
        exact_entities=scores.exact_clusters,
        subproblems=len(posterior.subproblems),
        log10_effective_particles=posterior.log10_effective_particles,
        model_evaluations=posterior.model_evaluations,
        seconds=spent.wall,
        cpu_seconds=spent.cpu,
        version=__version__,
        way=orjson.dumps(watch.way).decode(),
    )
    kept: tuple[Row | TraceRow, ...] = (row, *watch.trace)
    for one in kept:
        require_readable(one)
    return Outcome(row, tuple(watch.trace))


def _log_posterior(posterior: Posterior, fragments: Sequence[Fragment], problem: Problem) -> float:
    """Of the point estimate, by the likelihood also where the surrogate alone has found it."""
    if problem.max_evals != 0:
        return posterior.log_posterior
    clusters = posterior.clusters()
    model = problem.likelihood.log_marginal([[fragments[i] for i in c] for c in clusters])
    return float(DirichletProcess(problem.alpha).log_terms(clusters, model).sum())


def _minds_its_budget(run: Run) -> bool:
    """Whether the clusterer has an option for the seconds that it may take."""
    return bool(registry.load("clusterers", run.method.clusterer).takes_budget)


def _choices(run: Run, minds_its_budget: bool) -> Choices:
    task, method = run.task, run.method
    assert task.likelihood is not None
    options = ({"budget": run.seconds} if minds_its_budget else {}) | dict(method.options)
    surrogate = task.surrogate if method.surrogate else None
    return Choices(
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

    def __init__(self, run: Run, gold: Sequence[str], online: bool) -> None:
        self.trace: list[TraceRow] = []
        self.way: list[tuple[float, float]] = []
        self.own = Clocks()
        self._online = online
        self._allowed = run.seconds if online else _GRACE * run.seconds
        self._run = run
        self._gold = gold
        self._step = max(1, len(gold) // _MARKS)
        self._next_fragments, self._next_seconds = self._step, 0.0
        self._begin = Clocks()

    def start(self) -> None:
        """The run begins now."""
        self._begin = Clocks.now()

    def spent(self) -> Clocks:
        """What the run has taken, without what watching it has."""
        return Clocks.now() - self._begin - self.own

    def scored(self, posterior: Posterior) -> Scores:
        """The point estimate against the labels of the fragments that it covers."""
        return compare(posterior.labels(), self._gold[: posterior.n_fragments])

    def on_step(self, progress: Progress) -> None:
        now = Clocks.now()
        spent = now - self._begin - self.own
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
        self.trace.append(
            TraceRow(
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
        )
