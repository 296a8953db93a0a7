"""Scoring: the likelihood of the new fragment in each cluster, by one of two scorers.

A conjugate likelihood scores the fragment against every live cluster at once from sufficient
statistics. A black box is asked for L of whole sets, each distinct content once, through a cache
(`ScoreCache`); a surrogate, if there is one, ranks the putative particles first, so that only the
best M are asked (split-SMC paper, appendix C.1). With an index either scorer looks at the clusters
that it leads to and at no others.

A question changes nothing that counts: the answers are in a `Reading`, which `extend` adopts with
the fragment. A cache remembers its answers, and the likelihood would give the same again; so sets
of later fragments may be scored ahead (`kbforge.clustering.ahead`).
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace
from typing import NamedTuple, Protocol

import numpy as np

from kbforge.clustering.candidates import Candidates, families_of, keys_of
from kbforge.clustering.constraints import Bounds
from kbforge.clustering.propose import Pool, PutativeScores, propose_joins
from kbforge.clustering.state import Lineage, NewClusters, State
from kbforge.clustering.table import Made, Reading, Regrouping, Scorer, Table
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
from kbforge.models.scoring import Key, ScoreCache
from kbforge.numerics import on_grid


def without_model(problem: Problem) -> Problem:
    """The problem itself, but with M = 0 the one that has the surrogate for its likelihood.

    Raises:
        UsageError: M = 0 without a surrogate to cluster by.

    """
    if problem.max_evals != 0:
        return problem
    if problem.surrogate is None:
        raise UsageError("max-evals 0 clusters with the surrogate alone, but there is none")
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

    def read(self, state: State, x: Fragment, bounds: Bounds | None = None) -> Reading:
        return self.table.read(state, x, bounds)

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

    def settle(self, regrouped: Regrouping) -> None:
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
        self.table.hold(fragments, lineage, families_of(clusters))
        self.fragments.update(fragments)

    def keys(self, fragments: Sequence[int]) -> dict[int, Sequence[int]]:
        return keys_of(self.candidates, self.fragments, fragments)


def _require_scores(scores: Mapping[int, float]) -> None:
    """Refuse what is no log probability.

    Raises:
        LikelihoodError: NaN or +inf.

    """
    for score in scores.values():
        if np.isnan(score) or score == np.inf:
            raise LikelihoodError(f"the likelihood of a cluster is {score}")


class StepDemand(NamedTuple):
    """What a step would ask for.

    Attributes:
        unknown: the sets that have not been scored, by content.
        owners: of each cluster that the fragment is proposed to, the subproblem's name.
        likely: names of the subproblems that the fragment will change, as far as one can tell.
        keys: of the fragment in the index, those that are followed.

    """

    unknown: Mapping[Key, Sequence[Fragment]]
    owners: Sequence[int]
    likely: frozenset[int]
    keys: frozenset[int]


class FragmentsByNumber(Protocol):
    """Fragments by number."""

    def __getitem__(self, number: int, /) -> Fragment | None: ...


class SessionScores:
    """L of sets of a session's fragments, each distinct content once, and which were asked for.

    Args:
        likelihood: is asked.

    Attributes:
        asked: the sets that count, by content.
        forgotten: sets asked for that had a fragment of which no equal is left here.

    """

    def __init__(self, likelihood: Likelihood) -> None:
        self.cache = ScoreCache.of(likelihood)
        self.asked: set[Key] = set()
        self.forgotten = 0
        self._numbers: dict[int, int] = {}  # in the cache, of the contents of fragments

    @property
    def evaluations(self) -> int:
        """How many sets were asked for."""
        return self.forgotten + len(self.asked)

    def resume(self, evaluations: int) -> None:
        """Count on from there."""
        self.forgotten = evaluations - len(self.asked)

    def take_in(self, fragments: Mapping[int, Fragment]) -> None:
        """These fragments are there, by number."""
        self._numbers.update((i, self.cache.number(x)) for i, x in fragments.items())

    def put(self, fragment: int, number: int) -> None:
        """A fragment is there, of which the content has a number in the cache."""
        self._numbers[fragment] = number

    def unknown(
        self,
        held: FragmentsByNumber,
        sets: Sequence[Cluster],
        x: Fragment | None = None,
        number: int = -1,
    ) -> tuple[list[Key], dict[Key, Sequence[Fragment]]]:
        """Sets of fragments by content, and those that have not been scored.

        Args:
            held: the fragments.
            sets: some of them, by number.
            x: another fragment that each set has, if not None.
            number: of its content in the cache.

        """
        numbers = self._numbers
        more = () if x is None else (number,)
        keys = [tuple(sorted([*(numbers[i] for i in members), *more])) for members in sets]
        return keys, {
            key: [*(y for i in members if (y := held[i]) is not None), *((x,) if x else ())]
            for key, members in zip(keys, sets, strict=True)
            if key not in self.cache
        }

    def scored(
        self,
        held: FragmentsByNumber,
        sets: Sequence[Cluster],
        x: Fragment | None = None,
        number: int = -1,
    ) -> list[Key]:
        """Have sets scored, as of `unknown`; they do not count. Errors as `ScoreCache`."""
        keys, unknown = self.unknown(held, sets, x, number)
        self.cache.learn(unknown)
        return keys

    def forget(self, gone: Mapping[int, Fragment]) -> None:
        """These fragments are no more, by number."""
        left_of = {self._numbers.pop(number): x for number, x in gone.items()}
        for number in left_of.keys() & set(self._numbers.values()):
            del left_of[number]
        if left_of:
            left = {key for key in self.asked if left_of.keys().isdisjoint(key)}
            self.forgotten += len(self.asked) - len(left)
            self.asked = left
            for fragment in left_of.values():
                self.cache.forget(fragment)

    def contents(self) -> dict[tuple[int, ...], float]:
        """The sets asked for and their L, each by fragments with its contents."""
        of_number: dict[int, int] = {}
        for fragment, number in sorted(self._numbers.items()):
            of_number.setdefault(number, fragment)
        keys = list(self.asked)
        scores = self.cache.recall(keys).tolist()
        by_fragments = {
            tuple(sorted(of_number[number] for number in key)): score
            for key, score in zip(keys, scores, strict=True)
        }
        return dict(sorted(by_fragments.items()))

    def remember(self, asked: Mapping[Cluster, float]) -> None:
        """Sets of fragments have been asked for and counted before; by set, their L."""
        scores = {
            tuple(sorted(self._numbers[i] for i in members)): score
            for members, score in asked.items()
        }
        self.cache.remember(scores)
        known = len(self.asked)
        self.asked.update(scores)
        self.forgotten -= len(self.asked) - known


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
        self.sets = SessionScores(likelihood)
        self._joined: FloatArray = np.zeros(0)

    @property
    def evaluations(self) -> int:
        return self.sets.evaluations

    def read(self, state: State, x: Fragment, bounds: Bounds | None = None) -> Reading:
        reading = self._shown(state, x, bounds)
        if self.table is None:
            slots = reading.scores.slots
            assert slots is not None
            joined = self._score_joins(state, reading, slots)
            reading.scores.log_predictive[slots] = joined - state.score[slots]
        return reading

    def coming(self, state: State, x: Fragment, bounds: Bounds | None = None) -> StepDemand:
        """What a step with x would ask for on this state. May raise; nothing changes that counts.

        Args:
            state: before x, or before some fragments that come before x.
            x: the fragment.
            bounds: where constraints let x go; None is anywhere.

        """
        reading = self._shown(state, x, bounds)
        scores = reading.scores
        if self.table is None:
            assert scores.slots is not None
            slots, first = scores.slots, None
        else:
            joins = propose_joins(state, scores, self.limit)
            slots = np.unique(joins.slot)
            first = joins.subproblem[joins.value.argmax()] if len(joins) else None
        owners = state.owner[slots].tolist()
        sets = [*map(state.members, slots.tolist()), ()]
        return StepDemand(
            unknown=self.sets.unknown(self.fragments, sets, x, reading.number)[1],
            owners=owners,
            likely=frozenset(owners if first is None else (int(first),)),
            keys=frozenset(reading.reached.open if reading.reached else ()),
        )

    def _shown(self, state: State, x: Fragment, bounds: Bounds | None) -> Reading:
        """What is known of x before the likelihood is asked."""
        if len(self._joined) < state.n_slots:
            self._joined = np.zeros(2 * state.n_slots)
        number = self.sets.cache.number(x)
        if self.table is not None:
            by_table = self.table.read(state, x, bounds)
            return by_table._replace(joined=self._joined, number=number, asked=[])
        reached = None
        if self.candidates is not None:
            reached = self.candidates.look_up(x, state.in_heaviest)
        if bounds is not None and bounds.only is not None:
            slots = bounds.only
        elif reached is not None:
            slots = reached.slots
        else:
            slots = np.flatnonzero(state.reach[: state.n_slots] > -np.inf)
        scores = PutativeScores(np.full(state.n_slots, -np.inf), slots)
        scores = scores if bounds is None else bounds.within(state, scores)
        return Reading(x, scores, None, None, reached, self._joined, number, [])

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
        self.sets.put(number, reading.number)
        self.sets.asked.update(reading.asked or ())
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
        keys = dict(zip(new, self.sets.scored(self.fragments, list(new.values())), strict=True))
        scores = dict(zip(keys, self.sets.cache.recall(keys.values()).tolist(), strict=True))
        live = None
        if self.table is not None:
            live = self.table.make(self.fragments, new, slots, afresh).live
        return Made(scores, live, tuple(keys.values()))

    def unmake(self, made: Made) -> None:
        if self.table is not None:
            self.table.unmake(made)

    def settle(self, regrouped: Regrouping) -> None:
        self.sets.asked.update(regrouped.made.asked)
        if self.table is not None:
            self.table.settle(regrouped)
        elif self.candidates is not None:
            self.candidates.settle(regrouped.before, regrouped.clusters, regrouped.keys)
        self.forget(regrouped.removed)

    def forget(self, numbers: Iterable[int]) -> None:
        self.sets.forget({number: self.fragments.pop(number) for number in numbers})

    def count(self, other: Scorer | Reading) -> None:
        if isinstance(other, Reading):
            self.sets.asked.update(other.asked or ())
            return
        assert isinstance(other, BlackBoxScorer)
        assert other.sets.cache is self.sets.cache, "numbers of contents are those of one cache"
        self.sets.asked |= other.sets.asked

    def score(self, clusters: Sequence[Cluster]) -> FloatArray:
        made = self.sets.scored(self.fragments, clusters)
        self.sets.asked.update(made)
        return self.sets.cache.recall(made)

    def keys(self, fragments: Sequence[int]) -> dict[int, Sequence[int]]:
        return keys_of(self.candidates, self.fragments, fragments)

    def resume(self, evaluations: int) -> None:
        self.sets.resume(evaluations)

    def hold(
        self,
        fragments: Mapping[int, Fragment],
        lineage: Lineage,
        clusters: Mapping[int, Cluster],
        scores: Sequence[float],
    ) -> None:
        if self.table is not None:
            self.table.hold(fragments, lineage, families_of(clusters))
        elif self.candidates is not None:
            self.candidates.hold(families_of(clusters))
        self.fragments.update(fragments)
        self.sets.take_in(fragments)
        self.sets.remember(dict(zip(clusters.values(), scores, strict=True)))

    def _score_joins(self, state: State, reading: Reading, slots: IntArray) -> FloatArray:
        """L(C + x) of clusters; the new fragment's own set is scored in the same batch."""
        scores = self._score(reading, [*map(state.members, slots.tolist()), ()])[:-1]
        reading.joined[slots] = scores
        return scores

    def _score(self, reading: Reading, sets: Sequence[Cluster]) -> FloatArray:
        """L of sets of fragments, each with x, nats, shape [len(sets)]; errors as `ScoreCache`."""
        keys = self.sets.scored(self.fragments, sets, reading.fragment, reading.number)
        if reading.asked is not None:
            reading.asked.extend(keys)
        return self.sets.cache.recall(keys)
