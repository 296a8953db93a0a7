"""Scoring: what the likelihood says of putting the new fragment into each cluster.

Two ways behind one interface. A conjugate likelihood scores the fragment against every live
cluster at once from sufficient statistics. A black box is asked for L of whole sets, through a
cache keyed by their content (`ScoreCache`); a surrogate, if there is one, ranks the putative
particles first, so that only the best M are asked (split-SMC paper, appendix C.1). With an index
either way looks at the clusters it leads to and at no others.

What is asked of a fragment changes nothing that counts: the answers are in a `Reading`, which
`extend` takes up when the fragment is taken in. A cache of scores remembers what it was asked, and
the likelihood would say the same again.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace
from itertools import chain

import numpy as np

from kbforge.clustering.online.candidates import Candidates
from kbforge.clustering.online.lineage import Lineage
from kbforge.clustering.online.pool import Pool, Scores
from kbforge.clustering.online.scorer import Scorer
from kbforge.clustering.online.table import Made, Reading, Regrouped, Table
from kbforge.clustering.state import NewClusters, State
from kbforge.contracts import (
    Cluster,
    ConjugateLikelihood,
    FloatArray,
    Fragment,
    IntArray,
    Likelihood,
    Problem,
)
from kbforge.errors import LikelihoodError, UsageError
from kbforge.models.score_cache import Key, ScoreCache
from kbforge.numerics.logs import on_grid


def without_model(problem: Problem) -> Problem:
    """The problem itself, but with M = 0 the one that has the surrogate for its likelihood.

    Raises:
        UsageError: M = 0 without a surrogate to cluster by.

    """
    if problem.max_evals != 0:
        return problem
    if problem.surrogate is None:
        raise UsageError("max-evals 0 clusters by the surrogate alone, but there is none")
    return replace(problem, likelihood=problem.surrogate, surrogate=None, max_evals=None)


def shared(problem: Problem) -> Problem:
    """The problem itself, but that its likelihood is what is clustered by, and a black box is a
    cache of scores, for several scorers to share.

    Raises:
        UsageError: M = 0 without a surrogate to cluster by.

    """
    problem = without_model(problem)
    likelihood = problem.likelihood
    if problem.surrogate is None and isinstance(likelihood, ConjugateLikelihood):
        return problem
    return replace(problem, likelihood=ScoreCache.of(likelihood))


def make_scorer(
    problem: Problem, limit: int | None, candidates: Candidates | None = None
) -> ConjugateScorer | BlackBoxScorer:
    """The scorer of a problem, before the first fragment.

    Args:
        problem: likelihood, surrogate and M, as `shared` gives it.
        limit: how many joins the resampler can use, None for all.
        candidates: what the problem's index leads to; None makes them, if there is an index.

    """
    likelihood, surrogate = problem.likelihood, problem.surrogate
    if candidates is None and problem.index is not None:
        candidates = Candidates(problem.index)
    if surrogate is not None:
        table = Table(surrogate, candidates)
        return BlackBoxScorer(likelihood, problem.max_evals, table, candidates)
    if isinstance(likelihood, ConjugateLikelihood):
        return ConjugateScorer(Table(likelihood, candidates), limit)
    return BlackBoxScorer(likelihood, limit, None, candidates)


class ConjugateScorer:
    """Scores by a live table of sufficient statistics."""

    def __init__(self, table: Table, limit: int | None) -> None:
        self.limit = limit
        self.fragments: dict[int, Fragment] = {}
        self.evaluations = 0
        self.table = table

    @property
    def candidates(self) -> Candidates | None:
        """What the index leads to, if there is one."""
        return self.table.candidates

    def read(self, state: State, x: Fragment, only: IntArray | None = None) -> Reading:
        return self.table.read(state, x, only)

    def reweigh(self, state: State, reading: Reading, joins: Pool) -> Pool:
        return joins

    def log_marginal_new(self, reading: Reading) -> float:
        assert reading.live is not None
        return reading.live.log_predictive_new(reading.observation)

    def log_marginal_joined(self, state: State, reading: Reading, parents: IntArray) -> FloatArray:
        return np.asarray(state.score[parents] + reading.scores.log_predictive[parents])

    def extend(self, number: int, reading: Reading, new: NewClusters) -> None:
        self.fragments[number] = reading.fragment
        self.evaluations += len(new.slots)
        self.table.extend(reading, new)

    def release(self, slots: IntArray) -> None:
        self.table.release(slots)

    def make(
        self, new: Mapping[int, Cluster], slots: int, afresh: Mapping[int, Cluster] | None = None
    ) -> Made:
        made = self.table.make(self.fragments, new, slots, afresh)
        _require_scores(made.scores)
        return made

    def unmake(self, made: Made) -> None:
        self.table.unmake(made)

    def settle(self, regrouped: Regrouped) -> None:
        self.evaluations += len(regrouped.made.scores)
        self.table.settle(regrouped)
        self.forget(regrouped.removed)

    def forget(self, numbers: Iterable[int]) -> None:
        for number in numbers:
            del self.fragments[number]

    def count(self, other: Scorer | Reading) -> None:
        self.evaluations += 0 if isinstance(other, Reading) else other.evaluations

    def score(self, clusters: Sequence[Cluster]) -> FloatArray:
        self.evaluations += len(clusters)
        sets = [[self.fragments[i] for i in cluster] for cluster in clusters]
        return self.table.likelihood.log_marginal(sets)

    def resume(self, evaluations: int) -> None:
        self.evaluations = evaluations

    def hold(
        self,
        fragments: Mapping[int, Fragment],
        lineage: Lineage,
        clusters: Mapping[int, Cluster],
        scores: Sequence[float],
    ) -> None:
        self.table.hold(fragments, lineage, _families(clusters))
        self.fragments.update(fragments)

    def keys(self, fragments: Sequence[int]) -> dict[int, Sequence[int]]:
        return _keys(self.candidates, self.fragments, fragments)


class BlackBoxScorer:
    """Scores whole sets, each distinct content once; a surrogate may rank first."""

    def __init__(
        self,
        likelihood: Likelihood,
        limit: int | None,
        surrogate: Table | None,
        candidates: Candidates | None,
    ) -> None:
        self.limit = limit
        self.fragments: dict[int, Fragment] = {}
        self.table, self.candidates = surrogate, candidates
        self._cache = ScoreCache.of(likelihood)
        self._numbers: dict[int, int] = {}  # in the cache, of the contents of `fragments`
        self._asked: set[Key] = set()
        # sets asked for that had a fragment of which no equal is left here
        self.forgotten = 0
        self._joined: FloatArray = np.zeros(0)

    @property
    def evaluations(self) -> int:
        return self.forgotten + len(self._asked)

    def read(self, state: State, x: Fragment, only: IntArray | None = None) -> Reading:
        if len(self._joined) < state.n_slots:
            self._joined = np.zeros(2 * state.n_slots)
        number = self._cache.number(x)
        if self.table is not None:
            by_table = self.table.read(state, x, only)
            return by_table._replace(joined=self._joined, number=number, asked=[])
        reached = None
        if self.candidates is not None:
            reached = self.candidates.look_up(x, state.in_heaviest)
        if only is not None:
            slots = only
        elif reached is not None:
            slots = reached.slots
        else:
            slots = np.flatnonzero(state.reach[: state.n_slots] > -np.inf)
        predictive = np.full(state.n_slots, -np.inf)
        scores = Scores(predictive, slots)
        reading = Reading(x, scores, None, None, reached, self._joined, number, [])
        predictive[slots] = self._score_joins(state, reading, slots) - state.score[slots]
        return reading

    def reweigh(self, state: State, reading: Reading, joins: Pool) -> Pool:
        if self.table is None:
            return joins
        self._score_joins(state, reading, np.unique(joins.slot))
        # what the surrogate ranked must not decide between equals of the model
        joins = joins.take(np.lexsort((state.first[joins.slot], joins.row, joins.subproblem)))
        gain = reading.joined[joins.slot] - state.score[joins.slot]
        row = state.row_start[joins.subproblem] + joins.row
        prior = state.row_weight[row] + state.log_size[joins.slot]
        return joins.with_value(prior + on_grid(gain))

    def log_marginal_new(self, reading: Reading) -> float:
        return float(self._score(reading, [()])[0])

    def log_marginal_joined(self, state: State, reading: Reading, parents: IntArray) -> FloatArray:
        return reading.joined[parents]

    def extend(self, number: int, reading: Reading, new: NewClusters) -> None:
        self.fragments[number] = reading.fragment
        self._numbers[number] = reading.number
        self._asked.update(reading.asked or ())
        if self.table is not None:
            self.table.extend(reading, new)
        elif self.candidates is not None and reading.reached is not None:
            self.candidates.extend(reading.reached, new.first, new.slots)

    def release(self, slots: IntArray) -> None:
        if self.table is not None:
            self.table.release(slots)
        elif self.candidates is not None:
            self.candidates.release(slots)

    def make(
        self, new: Mapping[int, Cluster], slots: int, afresh: Mapping[int, Cluster] | None = None
    ) -> Made:
        keys = dict(zip(new, self._scored(list(new.values())), strict=True))
        scores = dict(zip(keys, self._cache.recall(keys.values()).tolist(), strict=True))
        live = None
        if self.table is not None:
            live = self.table.make(self.fragments, new, slots, afresh).live
        return Made(scores, live, tuple(keys.values()))

    def unmake(self, made: Made) -> None:
        if self.table is not None:
            self.table.unmake(made)

    def settle(self, regrouped: Regrouped) -> None:
        self._asked.update(regrouped.made.asked)
        if self.table is not None:
            self.table.settle(regrouped)
        elif self.candidates is not None:
            self.candidates.settle(regrouped.before, regrouped.clusters, regrouped.keys)
        self.forget(regrouped.removed)

    def forget(self, numbers: Iterable[int]) -> None:
        gone = {self._numbers.pop(number): self.fragments.pop(number) for number in numbers}
        for number in gone.keys() & set(self._numbers.values()):
            del gone[number]
        if gone:
            left = {key for key in self._asked if gone.keys().isdisjoint(key)}
            self.forgotten += len(self._asked) - len(left)
            self._asked = left
            for fragment in gone.values():
                self._cache.forget(fragment)

    def count(self, other: Scorer | Reading) -> None:
        if isinstance(other, Reading):
            self._asked.update(other.asked or ())
            return
        assert isinstance(other, BlackBoxScorer)
        assert other._cache is self._cache, "numbers of contents are those of one cache"
        self._asked |= other._asked

    def score(self, clusters: Sequence[Cluster]) -> FloatArray:
        made = self._scored(clusters)
        self._asked.update(made)
        return self._cache.recall(made)

    def keys(self, fragments: Sequence[int]) -> dict[int, Sequence[int]]:
        return _keys(self.candidates, self.fragments, fragments)

    def scores_asked(self) -> dict[tuple[int, ...], float]:
        """The sets asked for and their L, each by fragments with its contents."""
        of_number: dict[int, int] = {}
        for fragment, number in sorted(self._numbers.items()):
            of_number.setdefault(number, fragment)
        keys = list(self._asked)
        scores = self._cache.recall(keys).tolist()
        by_fragments = {
            tuple(sorted(of_number[number] for number in key)): score
            for key, score in zip(keys, scores, strict=True)
        }
        return dict(sorted(by_fragments.items()))

    def remember(self, asked: Mapping[Cluster, float]) -> None:
        """Sets of held fragments have been asked for and counted before; by set, their L."""
        scores = {
            tuple(sorted(self._numbers[i] for i in members)): score
            for members, score in asked.items()
        }
        self._cache.remember(scores)
        known = len(self._asked)
        self._asked.update(scores)
        self.forgotten -= len(self._asked) - known

    def resume(self, evaluations: int) -> None:
        self.forgotten = evaluations

    def hold(
        self,
        fragments: Mapping[int, Fragment],
        lineage: Lineage,
        clusters: Mapping[int, Cluster],
        scores: Sequence[float],
    ) -> None:
        if self.table is not None:
            self.table.hold(fragments, lineage, _families(clusters))
        elif self.candidates is not None:
            self.candidates.hold(_families(clusters))
        self.fragments.update(fragments)
        self._numbers.update((i, self._cache.number(x)) for i, x in fragments.items())
        self.remember(dict(zip(clusters.values(), scores, strict=True)))

    def _scored(self, clusters: Sequence[Cluster]) -> list[Key]:
        """Have clusters of held fragments scored; returns their contents."""
        keys = [tuple(sorted(self._numbers[i] for i in cluster)) for cluster in clusters]
        unknown = {
            key: [self.fragments[i] for i in cluster]
            for key, cluster in zip(keys, clusters, strict=True)
            if key not in self._cache
        }
        self._cache.learn(unknown)
        return keys

    def _score_joins(self, state: State, reading: Reading, slots: IntArray) -> FloatArray:
        """L(C + x) of clusters; the new fragment's own set is scored in the same batch."""
        scores = self._score(reading, [*map(state.members, slots.tolist()), ()])[:-1]
        reading.joined[slots] = scores
        return scores

    def _score(self, reading: Reading, sets: Sequence[tuple[int, ...]]) -> FloatArray:
        """L of sets of fragments, each with x, nats, shape [len(sets)]; errors as `ScoreCache`."""
        numbers, x = self._numbers, reading.number
        keys = [tuple(sorted([*(numbers[i] for i in members), x])) for members in sets]
        unknown = {
            key: [*(self.fragments[i] for i in members), reading.fragment]
            for key, members in zip(keys, sets, strict=True)
            if key not in self._cache
        }
        self._cache.learn(unknown)
        if reading.asked is not None:
            reading.asked.extend(keys)
        return self._cache.recall(keys)


def _keys(
    candidates: Candidates | None, held: Mapping[int, Fragment], fragments: Sequence[int]
) -> dict[int, Sequence[int]]:
    """See `Scorer.keys`."""
    if candidates is None:
        return {}
    keys = {number: candidates.keys(held[number]) for number in fragments}
    candidates.know(chain.from_iterable(keys.values()))
    return keys


def _families(clusters: Mapping[int, Cluster]) -> dict[int, int]:
    """By slot, the first fragments of clusters."""
    return {slot: cluster[0] for slot, cluster in clusters.items()}


def _require_scores(scores: Mapping[int, float]) -> None:
    """Refuse what is no log probability.

    Raises:
        LikelihoodError: NaN or +inf.

    """
    for score in scores.values():
        if np.isnan(score) or score == np.inf:
            raise LikelihoodError(f"the likelihood of a cluster is {score}")
