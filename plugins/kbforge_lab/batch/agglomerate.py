"""Agglomerative clustering: takes the best merge until none gains.

Three functions find the next merge: of all pairs, of a sampled batch of pairs, and of the pairs
that a surrogate ranks first. A cluster's slot is its smallest fragment.

*Gain.* The Bayesian merge statistic says how much more probable two clusters are as one:

    gain(C, D) = [log p(C + D) + L(C + D)] - [log p(C) + L(C)] - [log p(D) + L(D)]

with log p(C) = log alpha + lgamma(|C|) of the Dirichlet process: what a merge adds to the log
posterior (Heller and Ghahramani 2005; split-SMC paper, section 4).
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from functools import partial
from typing import TypeAlias

import numpy as np

from kbforge.clustering.rules import DirichletProcess
from kbforge.clustering.scoring import without_model
from kbforge.contracts import (
    Cluster,
    Ending,
    FloatArray,
    Fragment,
    IntArray,
    ModelSpec,
    OnStep,
    Particle,
    Posterior,
    Progress,
    Rounds,
    Subproblem,
)
from kbforge.errors import LikelihoodError, UsageError, option
from kbforge_lab.batch.grouping import Grouping, Move, apply
from kbforge_lab.batch.grouping_model import GroupingModel, SetModel, merging_model_of
from kbforge_lab.batch.run import Watch, concluded, stretches


class PairMatrix:
    """Gains of n clusters' pairs, shape [n, n]; -inf for pairs that are not compared. 8 n^2 bytes.

    The matrix is symmetric. Each row caches its best entry, so a merge, which changes one row and
    column and empties another, costs time proportional to n and to the few rows whose best entry
    was there. Ties go to the pair of the earliest clusters.
    """

    def __init__(self, n: int) -> None:
        # filled row by row: all of it at once would keep a run from looking at the clock
        self._gain = np.empty((n, n))
        self._best = np.full(n, -np.inf)
        self._partner = np.zeros(n, dtype=np.int64)

    def fill(self, a: int, gains: FloatArray) -> None:
        """Set a's row and column; fill all of them and call `settle` before `best`."""
        self._gain[a] = gains
        self._gain[:, a] = gains

    def settle(self) -> None:
        self._refresh(np.ones(len(self._best), dtype=np.bool_))

    def update(self, a: int, b: int, gains: FloatArray) -> None:
        """Record that C_b was merged into C_a; `gains` are those of the new C_a."""
        self._gain[b] = self._gain[:, b] = -np.inf
        self.fill(a, gains)
        # a row without a pair, as every row merged away is, has lost nothing
        stale = ((self._partner == a) | (self._partner == b)) & (self._best > -np.inf)
        stale[[a, b]] = True
        self._refresh(stale)
        earlier = (gains == self._best) & (a < self._partner)
        better = ~stale & ((gains > self._best) | earlier)
        self._best[better], self._partner[better] = gains[better], a

    def best(self) -> tuple[int, int, float]:
        """The pair with the largest gain, the earlier cluster first, and its gain."""
        a = int(self._best.argmax())
        return a, int(self._partner[a]), float(self._best[a])

    def _refresh(self, stale: np.ndarray) -> None:
        rows = stale.nonzero()[0]
        partner = self._gain[rows].argmax(axis=1)
        self._partner[rows], self._best[rows] = partner, self._gain[rows, partner]


class RankedPairs(PairMatrix):
    """Gains of which the largest are asked for."""

    def heaviest(self, count: int) -> tuple[IntArray, IntArray]:
        """The `count` pairs that gain most (fewer if there are fewer), best first."""
        # every pair is there twice, and is at most what either row has best
        rows = _largest(self._best, 2 * count)
        gain = self._gain[rows].ravel()
        index = _largest(gain, 2 * count)
        index = index[gain[index] > -np.inf]
        n = len(self._best)
        one, other = rows[index // n], index % n
        pair = np.unique(np.minimum(one, other) * n + np.maximum(one, other))
        pair = pair[np.argsort(-self._gain.ravel()[pair], kind="stable")][:count]
        return pair // n, pair % n


def _largest(values: FloatArray, count: int) -> IntArray:
    """Where the `count` largest are, or all if there are fewer, in no order."""
    if count >= len(values):
        return np.arange(len(values))
    return np.asarray(np.argpartition(-values, count)[:count])


class MergeGains:
    """What merges gain, in nats, of a complete grouping whose clusters only merge from now on."""

    def __init__(self, grouping: Grouping, prior: DirichletProcess) -> None:
        self._grouping = grouping
        self._size: IntArray = np.array([len(members) for members in grouping.members], np.int64)
        # by size less one; twice as long as the largest cluster, which a row pairs with itself
        self._log_cluster = prior.log_cluster(np.arange(1, 2 * grouping.n_fragments + 1))
        self._log_prior = self._log_cluster[self._size - 1]

    def merged(self, a: int, b: int) -> None:
        self._size[a] += self._size[b]
        self._log_prior[a] = self._log_cluster[self._size[a] - 1]

    def row(self, model: GroupingModel, slot: int) -> FloatArray:
        """What merging a cluster with each other gains, -inf where there is none, shape [n]."""
        others = self._grouping.in_use()
        others[slot] = False
        ratio = np.where(others, model.merges(slot), -np.inf)
        if np.isnan(ratio).any() or (ratio == np.inf).any():
            raise LikelihoodError("the likelihood (or surrogate) returned NaN or +inf")
        return np.asarray(ratio + self._prior_gain(slot, np.arange(len(others))))

    def pairs(self, model: SetModel, a: IntArray, b: IntArray) -> FloatArray:
        """What merging pairs of clusters gains, shape [len(a)]."""
        return model.pairs(a, b) + self._prior_gain(a, b)

    def _prior_gain(self, a: IntArray | int, b: IntArray | int) -> FloatArray:
        both = self._log_cluster[self._size[a] + self._size[b] - 1]
        return np.asarray(both - self._log_prior[a] - self._log_prior[b])


MOST_FRAGMENTS = 20_000  # the matrix of all pairs then has 3.2 GB
_IDLE_BATCHES = 100


def agglomerate(
    fragments: Sequence[Fragment],
    spec: ModelSpec,
    start: Sequence[Cluster],
    rng: np.random.Generator,
    batch: int | None = None,
    budget: float | None = None,
    on_step: OnStep | None = None,
) -> Posterior:
    """Merge clusters of the fragments, from a partition of them on.

    A round compares `batch` random pairs; None compares all, for which there must be few enough.
    """

    def begun() -> _Agglomeration:
        return _Agglomeration(fragments, without_model(spec), start, rng, batch)

    return concluded(begun, fragments, spec, budget, on_step)


Merge: TypeAlias = tuple[int, int, float]
"""Two slots, the earlier first, and what their merge gains."""


class _Agglomeration:
    """Clusters, the search for their next merge, and how far it has come."""

    def __init__(
        self,
        fragments: Sequence[Fragment],
        spec: ModelSpec,
        start: Sequence[Cluster],
        rng: np.random.Generator,
        batch: int | None,
    ) -> None:
        n = len(fragments)
        self._prior, self._start = DirichletProcess(spec.alpha), start
        self._grouping = grouping = Grouping(n)
        grouping.begin([(i,) for i in range(n)])
        self._gains = gains = MergeGains(grouping, self._prior)
        self._placed = self._merges = 0
        # what each cluster contributes to the log posterior, by slot; -inf until it is scored
        self._terms = np.zeros(n)
        self._terms[[group[0] for group in start]] = -np.inf
        if batch is None and n > MOST_FRAGMENTS:
            raise UsageError(
                f"agglomerative looks at all pairs of at most {MOST_FRAGMENTS:,} fragments, got "
                f"{n:,}; {option('clusterer.batch', 1000)} samples pairs"
            )
        likelihood, surrogate, most = spec.likelihood, spec.surrogate, spec.max_evals
        self._models: tuple[GroupingModel, ...]
        if batch is not None:
            sets = SetModel(likelihood, fragments, grouping)
            self._models = (sets,)
            self._rounds = _best_of_samples(sets, grouping, gains, batch, rng)
        elif surrogate is not None and most is not None:
            sets = SetModel(likelihood, fragments, grouping)
            ranking = merging_model_of(surrogate, fragments, grouping)
            self._models = sets, ranking
            self._rounds = _best_of_ranked(sets, ranking, grouping, gains, most)
        else:
            model = merging_model_of(likelihood, fragments, grouping)
            self._models = (model,)
            self._rounds = _best_of_all(model, grouping, gains)

    def until_done(self, watch: Watch) -> Ending:
        for _ in self._begin():
            watch.step(self.progress)
        for found in self._rounds:
            if found is None:
                watch.step(self.progress)
                continue
            self._merge(*found)
            watch.round(self.progress)
        return Ending.DONE

    def _begin(self) -> Iterator[None]:
        """Bring the models to where the run starts, some groups at a time."""
        for some in stretches(len(self._start)):
            groups = self._start[some.start : some.stop]
            for model in self._models:
                model.fill([fragment for group in groups for fragment in group])
            for first, *others in groups:
                for other in others:
                    self._join(Move((other,), first, 0.0))
            self._terms[[group[0] for group in groups]] = self.log_terms(groups)
            done = some.stop == len(self._start)
            self._placed = self._grouping.n_fragments if done else self._start[some.stop][0]
            yield

    def _merge(self, a: int, b: int, gain: float) -> None:
        self._join(Move(tuple(self._grouping.members[b]), a, gain))
        self._merges += 1
        self._terms[a] += self._terms[b] + gain
        self._terms[b] = 0.0
        if self._terms[a] == -np.inf:  # the gain of leaving the impossible is arbitrary
            self._terms[a] = self.log_terms([self._grouping.cluster(a)])[0]

    def _join(self, move: Move) -> None:
        b = self._grouping.slot_of[move.fragments[0]]
        apply(move, self._grouping, self._models)
        self._gains.merged(move.place, b)

    def progress(self) -> Progress:
        most = len(self._start) - 1
        return Progress(
            fragments=self._placed,
            total=self._grouping.n_fragments,
            subproblems=1,
            log10_effective_particles=0.0,
            model_evaluations=self._models[0].evaluations,
            posterior=partial(self.posterior, Ending.INTERRUPTED),
            rounds=Rounds(self._merges, most, most + 1 - self._merges, float(self._terms.sum())),
        )

    def posterior(self, ended: Ending) -> Posterior:
        """One grouping, each cluster a separate subproblem.

        During the start it has the fragments before the first one of a cluster not yet scored.
        """
        found = map(self._grouping.cluster, self._grouping.slots())
        taken = (tuple(i for i in cluster if i < self._placed) for cluster in found)
        clusters = [cluster for cluster in taken if cluster]
        return Posterior(
            tuple(Subproblem(cluster, (Particle(0.0, (cluster,)),)) for cluster in clusters),
            float(self.log_terms(clusters).sum()),
            self._placed,
            self._models[0].evaluations,
            ended,
        )

    def log_terms(self, clusters: Sequence[Cluster]) -> FloatArray:
        return self._prior.log_terms(clusters, self._models[0].log_marginal(clusters))


# Each search yields the merge of a round, or None; the caller makes it before asking for more.


def _best_of_all(
    model: GroupingModel, grouping: Grouping, gains: MergeGains
) -> Iterator[Merge | None]:
    """The best of all pairs."""
    matrix = PairMatrix(grouping.n_slots)
    yield from _fill(matrix, model, grouping, gains)
    while True:
        a, b, gain = matrix.best()
        if not gain > 0:
            return
        yield a, b, gain
        matrix.update(a, b, gains.row(model, a))


def _best_of_ranked(
    model: SetModel,
    surrogate: GroupingModel,
    grouping: Grouping,
    gains: MergeGains,
    max_evals: int,
) -> Iterator[Merge | None]:
    """The best of the `max_evals` pairs that gain most by the surrogate."""
    matrix = RankedPairs(grouping.n_slots)
    yield from _fill(matrix, surrogate, grouping, gains)
    while found := _best_of(model, gains, *matrix.heaviest(max_evals)):
        yield found
        matrix.update(*found[:2], gains.row(surrogate, found[0]))


def _best_of_samples(
    model: SetModel, grouping: Grouping, gains: MergeGains, batch: int, rng: np.random.Generator
) -> Iterator[Merge | None]:
    """The best of a batch of pairs drawn at random, until many batches in a row gain nothing."""
    idle = 0
    while idle < _IDLE_BATCHES:
        slots = grouping.in_use().nonzero()[0]
        pairs = len(slots) * (len(slots) - 1) // 2
        size = min(batch, pairs)
        number = np.sort(rng.choice(pairs, size, replace=False, shuffle=False))
        second = ((1 + np.sqrt(1 + 8 * number)) / 2).astype(np.int64)
        second -= second * (second - 1) // 2 > number  # the root may have been rounded up
        first = number - second * (second - 1) // 2
        found = _best_of(model, gains, slots[first], slots[second])
        if found is None and size == pairs:
            return
        idle = idle + 1 if found is None else 0
        yield found


def _fill(
    matrix: PairMatrix, model: GroupingModel, grouping: Grouping, gains: MergeGains
) -> Iterator[None]:
    nothing = np.full(grouping.n_slots, -np.inf)
    for slot, used in enumerate(grouping.in_use().tolist()):
        matrix.fill(slot, gains.row(model, slot) if used else nothing)
        yield
    matrix.settle()


def _best_of(model: SetModel, gains: MergeGains, a: IntArray, b: IntArray) -> Merge | None:
    """The first of the best pairs, None if none gains anything."""
    if not len(a):
        return None
    gained = gains.pairs(model, a, b)
    best = int(gained.argmax())
    return (int(a[best]), int(b[best]), float(gained[best])) if gained[best] > 0 else None
