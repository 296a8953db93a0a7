"""Agglomerative clustering: the best merge of two clusters, until none gains anything.

Three ways to find the next merge, one class each: all pairs, kept up to date; a sampled batch of
pairs; and the pairs that a surrogate ranks first. The gain is `ratios`' merge statistic.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Protocol, TypeAlias

import numpy as np

from kbforge.clustering.batch.ending import concluded
from kbforge.clustering.batch.pairs import PairMatrix
from kbforge.clustering.batch.ratios import Clusters, Ratios, SetRatios, ratios_of
from kbforge.clustering.batch.watch import Watch, require_positive, stretches
from kbforge.clustering.online.scoring import without_model
from kbforge.clustering.prior import DirichletProcess
from kbforge.contracts import (
    Cluster,
    Ending,
    FloatArray,
    Fragment,
    IntArray,
    OnStep,
    Particle,
    Posterior,
    Problem,
    Progress,
    Rounds,
    Subproblem,
)
from kbforge.errors import LikelihoodError, UsageError

MOST_FRAGMENTS = 20_000  # the matrix of all pairs then has 3.2 GB
_IDLE_BATCHES = 100


@dataclass(frozen=True, slots=True)
class Method:
    """How merges are found, and when to stop.

    Attributes:
        batch: pairs a round, sampled; None looks at all.
        budget: seconds; None for any number.

    """

    batch: int | None
    budget: float | None

    def __post_init__(self) -> None:
        require_positive(batch=self.batch, budget=self.budget)


def agglomerate(
    fragments: Sequence[Fragment],
    problem: Problem,
    method: Method,
    start: Sequence[Cluster],
    rng: np.random.Generator,
    on_step: OnStep | None = None,
) -> Posterior:
    """Merge clusters of the fragments, from a partition of them on.

    Raises:
        LikelihoodError: NaN, or a fragment that is possible in no cluster; the message names it.
        UsageError: more fragments than all pairs can be held of.

    """
    if not fragments:
        return Posterior((), 0.0, 0, 0)
    watch = Watch(method.budget, on_step)
    run = _Run(fragments, without_model(problem), method, start, rng)
    return concluded(run, fragments, watch)


class _Run:
    """Clusters, the search for their next merge, and how far it has come."""

    def __init__(
        self,
        fragments: Sequence[Fragment],
        problem: Problem,
        method: Method,
        start: Sequence[Cluster],
        rng: np.random.Generator,
    ) -> None:
        self._fragments, self._prior = fragments, DirichletProcess(problem.alpha)
        self._clusters, self._started = Clusters(start, self._prior), len(start)
        self._search = _search_of(fragments, problem, method, self._clusters, rng)
        self._placed = self._merges = 0
        # what each cluster contributes to the log posterior, by slot; -inf until it is scored
        self._terms = np.where(self._clusters.alive, -np.inf, 0.0)

    def until_done(self, watch: Watch) -> Ending:
        """Go on until no merge is left that gains anything.

        Raises:
            OutOfTime: the budget is spent.
            Interrupted: the callback has had enough.

        """
        for _ in self._begin():
            watch.step(self.progress)
        for found in self._search.rounds():
            if found is None:
                watch.step(self.progress)
                continue
            self._merge(*found)
            watch.round(self.progress)
        return Ending.DONE

    def _begin(self) -> Iterator[None]:
        slots = self._clusters.slots()
        for some in stretches(len(slots)):
            taken = slots[some.start : some.stop]
            for model in self._search.models:
                model.read(taken)
            self._terms[taken] = self.log_terms([self._clusters.cluster(s) for s in taken.tolist()])
            done = some.stop == len(slots)
            self._placed = len(self._fragments) if done else int(slots[some.stop])
            yield

    def _merge(self, a: int, b: int, gain: float) -> None:
        for model in self._search.models:
            model.merge(a, b)
        self._clusters.merge(a, b)
        self._merges += 1
        self._terms[a] += self._terms[b] + gain
        self._terms[b] = 0.0
        if self._terms[a] == -np.inf:  # what the gain of leaving the impossible is, is arbitrary
            self._terms[a] = self.log_terms([self._clusters.cluster(a)])[0]

    def progress(self) -> Progress:
        left = self._started - self._merges
        return Progress(
            fragments=self._placed,
            total=len(self._fragments),
            subproblems=1,
            log10_effective_particles=0.0,
            model_evaluations=self._search.models[0].evaluations,
            posterior=partial(self.posterior, Ending.INTERRUPTED),
            rounds=Rounds(self._merges, self._started - 1, left, float(self._terms.sum())),
        )

    def posterior(self, ended: Ending) -> Posterior:
        """One grouping, each cluster a subproblem of its own.

        Within the start it is that of the fragments before the first of a cluster not yet scored.
        """
        taken = (
            tuple(i for i in cluster if i < self._placed) for cluster in self._clusters.clusters()
        )
        clusters = [cluster for cluster in taken if cluster]
        return Posterior(
            tuple(Subproblem(cluster, (Particle(0.0, (cluster,)),)) for cluster in clusters),
            float(self.log_terms(clusters).sum()),
            self._placed,
            self._search.models[0].evaluations,
            ended,
        )

    def log_terms(self, clusters: Sequence[Cluster]) -> FloatArray:
        """What clusters contribute to the log posterior, one each."""
        return self._prior.log_terms(clusters, self._search.models[0].log_marginal(clusters))


Merge: TypeAlias = tuple[int, int, float]
"""Two slots, the earlier first, and what their merge gains."""


class _Search(Protocol):
    """Finds merges.

    Attributes:
        models: what is to be told of merges; the likelihood itself first.

    """

    models: tuple[Ratios, ...]

    def rounds(self) -> Iterator[Merge | None]:
        """The merge that a round finds, or None; the caller makes it before asking for more."""
        ...


def _search_of(
    fragments: Sequence[Fragment],
    problem: Problem,
    method: Method,
    clusters: Clusters,
    rng: np.random.Generator,
) -> _Search:
    """The way that method and problem ask for."""
    if method.batch is not None:
        model = SetRatios(problem.likelihood, fragments, clusters)
        return _SampledPairs(model, clusters, method.batch, rng)
    if len(fragments) > MOST_FRAGMENTS:
        raise UsageError(
            f"agglomerative looks at all pairs of at most {MOST_FRAGMENTS:,} fragments, got "
            f"{len(fragments):,}; --set clusterer.batch=1000 samples pairs"
        )
    if problem.surrogate is not None and problem.max_evals is not None:
        model = SetRatios(problem.likelihood, fragments, clusters)
        surrogate = ratios_of(problem.surrogate, fragments, clusters)
        return _RankedPairs(model, surrogate, clusters, problem.max_evals)
    return _AllPairs(ratios_of(problem.likelihood, fragments, clusters), clusters)


class _AllPairs:
    """The best of all pairs."""

    def __init__(self, model: Ratios, clusters: Clusters) -> None:
        self.models: tuple[Ratios, ...] = (model,)
        self._matrix = PairMatrix(len(clusters.members))
        self._model, self._clusters = model, clusters

    def rounds(self) -> Iterator[Merge | None]:
        yield from _fill(self._matrix, self._model, self._clusters)
        while True:
            a, b, gain = self._matrix.best()
            if not gain > 0:
                return
            yield a, b, gain
            self._matrix.update(a, b, _gains(self._model, self._clusters, a))


class _RankedPairs:
    """The best of the M pairs that gain most by the surrogate."""

    def __init__(
        self, model: SetRatios, surrogate: Ratios, clusters: Clusters, max_evals: int
    ) -> None:
        self.models: tuple[Ratios, ...] = (model, surrogate)
        self._matrix = PairMatrix(len(clusters.members))
        self._model, self._surrogate, self._clusters = model, surrogate, clusters
        self._max_evals = max_evals

    def rounds(self) -> Iterator[Merge | None]:
        yield from _fill(self._matrix, self._surrogate, self._clusters)
        while True:
            a, b = self._matrix.heaviest(self._max_evals)
            found = _best_of(self._model, self._clusters, a, b)
            if found is None:
                return
            yield found
            self._matrix.update(*found[:2], _gains(self._surrogate, self._clusters, found[0]))


class _SampledPairs:
    """The best of a batch of pairs drawn at random, until many batches in a row gain nothing."""

    def __init__(
        self, model: SetRatios, clusters: Clusters, batch: int, rng: np.random.Generator
    ) -> None:
        self.models: tuple[Ratios, ...] = (model,)
        self._model, self._clusters = model, clusters
        self._batch, self._rng = batch, rng

    def rounds(self) -> Iterator[Merge | None]:
        idle = 0
        while idle < _IDLE_BATCHES:
            slots = self._clusters.slots()
            pairs = len(slots) * (len(slots) - 1) // 2
            size = min(self._batch, pairs)
            number = np.sort(self._rng.choice(pairs, size, replace=False, shuffle=False))
            second = ((1 + np.sqrt(1 + 8 * number)) / 2).astype(np.int64)
            second -= second * (second - 1) // 2 > number  # the root may have been rounded up
            first = number - second * (second - 1) // 2
            found = _best_of(self._model, self._clusters, slots[first], slots[second])
            if found is None and size == pairs:
                return
            idle = idle + 1 if found is None else 0
            yield found


def _fill(matrix: PairMatrix, model: Ratios, clusters: Clusters) -> Iterator[None]:
    nothing = np.full(len(clusters.alive), -np.inf)
    for slot, alive in enumerate(clusters.alive.tolist()):
        matrix.fill(slot, _gains(model, clusters, slot) if alive else nothing)
        yield
    matrix.settle()


def _gains(model: Ratios, clusters: Clusters, slot: int) -> FloatArray:
    """What merging a cluster with each other gains, -inf where there is none, shape [n]."""
    others = clusters.alive.copy()
    others[slot] = False
    ratio = np.where(others, model.row(slot), -np.inf)
    _check(ratio)
    return np.asarray(ratio + clusters.prior_gain(slot, np.arange(len(others))))


def _best_of(model: SetRatios, clusters: Clusters, a: IntArray, b: IntArray) -> Merge | None:
    """The first of the best pairs, None if none gains anything."""
    if not len(a):
        return None
    gains = model.pairs(a, b) + clusters.prior_gain(a, b)
    best = int(gains.argmax())
    return (int(a[best]), int(b[best]), float(gains[best])) if gains[best] > 0 else None


def _check(ratio: FloatArray) -> None:
    if np.isnan(ratio).any() or (ratio == np.inf).any():
        raise LikelihoodError("the likelihood (or surrogate) returned NaN or +inf")
