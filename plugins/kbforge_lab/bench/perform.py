"""One run of a clusterer, in this process: cluster, watch, score."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

import numpy as np
import orjson

from kbforge import __version__, registry
from kbforge.clustering.prior import DirichletProcess
from kbforge.contracts import Ending, Fragment, Interrupted, Posterior, Problem, Progress
from kbforge.evaluation.scores import Scores, compare
from kbforge.fit.choices import Choices
from kbforge.fit.prepare import prepare
from kbforge_lab.bench.by_examples import by_examples
from kbforge_lab.bench.costs import Clocks
from kbforge_lab.bench.results import Row, TraceRow, require_readable
from kbforge_lab.bench.runs import Run
from kbforge_lab.bench.ways import measured

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
