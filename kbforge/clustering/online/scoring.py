"""Scoring: what the likelihood says of putting the new fragment into each cluster.

Two ways behind one interface. A conjugate likelihood scores the fragment against every live
cluster at once from sufficient statistics. A black box is asked for L of whole sets, through a
cache keyed by their content (`cache`); a surrogate, if there is one, ranks the putative particles
first, so that only the best M are asked (split-SMC paper, appendix C.1). With an index either way
looks at the clusters it leads to and at no others.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Protocol

import numpy as np

from kbforge.clustering.online.candidates import Candidates
from kbforge.clustering.online.pool import Pool, Scores
from kbforge.clustering.state import State
from kbforge.contracts import (
    ConjugateLikelihood,
    FloatArray,
    Fragment,
    IntArray,
    Likelihood,
    LiveClusters,
    Observation,
    Problem,
)
from kbforge.errors import UsageError
from kbforge.models.score_cache import SetScores


class Scorer(Protocol):
    """The likelihood as a step sees it. Values in nats.

    Attributes:
        limit: how many joins the proposal keeps for `reweigh`, None for all.

    """

    limit: int | None

    @property
    def evaluations(self) -> int:
        """Sets the likelihood has scored: distinct ones, or for a live table clusters made."""
        ...

    def observe(self, fragment: int, state: State) -> Scores:
        """Turn to a fragment; the scores of joining clusters, to propose by."""
        ...

    def reweigh(self, state: State, joins: Pool) -> Pool:
        """The proposed joins with the likelihood's own weights."""
        ...

    def log_marginal_new(self) -> float:
        """L({x}) of the fragment turned to."""
        ...

    def log_marginal_joined(self, state: State, parents: IntArray) -> FloatArray:
        """L(C + x) of clusters that `reweigh` let through, shape [len(parents)]."""
        ...

    def extend(self, state: State, parents: IntArray, children: IntArray) -> None:
        """Clusters children[k] = parents[k] + x now exist (parent -1: the empty cluster)."""
        ...

    def release(self, slots: IntArray) -> None:
        """These clusters no longer exist."""
        ...


def without_model(problem: Problem) -> Problem:
    """The problem itself, but with M = 0 the one that has the surrogate for its likelihood.

    Raises:
        UsageError: M = 0 without a surrogate to cluster by.

    """
    if problem.max_evals != 0:
        return problem
    if problem.surrogate is None:
        raise UsageError("max-evals 0 clusters by the surrogate alone, but there is none")
    return Problem(problem.surrogate, problem.alpha, index=problem.index)


def make_scorer(problem: Problem, fragments: Sequence[Fragment], limit: int | None) -> Scorer:
    """The scorer of a problem.

    Args:
        problem: likelihood, surrogate and M.
        fragments: all that will be clustered.
        limit: how many joins the resampler can use, None for all.

    Raises:
        UsageError: M = 0 without a surrogate to cluster by.

    """
    problem = without_model(problem)
    likelihood, surrogate = problem.likelihood, problem.surrogate
    candidates = None if problem.index is None else Candidates(problem.index)
    if surrogate is not None:
        table = _Table(surrogate.live_clusters(), candidates)
        return BlackBoxScorer(likelihood, fragments, problem.max_evals, table, candidates)
    if isinstance(likelihood, ConjugateLikelihood):
        return ConjugateScorer(_Table(likelihood.live_clusters(), candidates), fragments, limit)
    return BlackBoxScorer(likelihood, fragments, limit, None, candidates)


class _Table:
    """A live table that scores a fragment against all clusters, or those an index leads to."""

    def __init__(self, table: LiveClusters, candidates: Candidates | None) -> None:
        self._table, self._candidates = table, candidates
        self._by_slot: FloatArray = np.zeros(0)
        self._x: Observation = None

    def observe(self, fragment: Fragment, state: State) -> Scores:
        self._x = self._table.encode(fragment)
        if self._candidates is None:
            return Scores(self._table.log_predictive(self._x, state.n_slots))
        slots = self._candidates.turn_to(fragment, state.in_heaviest)
        if len(self._by_slot) < state.n_slots:
            self._by_slot = np.zeros(2 * state.n_slots)
        self._by_slot[slots] = self._table.log_predictive_of(self._x, slots)
        return Scores(self._by_slot, slots)

    def log_predictive_new(self) -> float:
        return self._table.log_predictive_new(self._x)

    def extend(self, state: State, parents: IntArray, children: IntArray) -> None:
        self._table.extend(self._x, parents, children)
        if self._candidates is not None:
            self._candidates.extend(state.first[children], children)

    def release(self, slots: IntArray) -> None:
        self._table.release(slots)
        if self._candidates is not None:
            self._candidates.release(slots)


class ConjugateScorer:
    """Scores by a live table of sufficient statistics."""

    def __init__(self, table: _Table, fragments: Sequence[Fragment], limit: int | None) -> None:
        self.limit = limit
        self._evaluations = 0
        self._fragments = fragments
        self._table = table
        self._predictive: FloatArray = np.zeros(0)

    @property
    def evaluations(self) -> int:
        return self._evaluations

    def observe(self, fragment: int, state: State) -> Scores:
        scores = self._table.observe(self._fragments[fragment], state)
        self._predictive = scores.log_predictive
        return scores

    def reweigh(self, state: State, joins: Pool) -> Pool:
        return joins

    def log_marginal_new(self) -> float:
        return self._table.log_predictive_new()

    def log_marginal_joined(self, state: State, parents: IntArray) -> FloatArray:
        return np.asarray(state.score[parents] + self._predictive[parents])

    def extend(self, state: State, parents: IntArray, children: IntArray) -> None:
        self._evaluations += len(children)
        self._table.extend(state, parents, children)

    def release(self, slots: IntArray) -> None:
        self._table.release(slots)


class BlackBoxScorer:
    """Scores whole sets, each distinct content once; a surrogate may rank first."""

    def __init__(
        self,
        likelihood: Likelihood,
        fragments: Sequence[Fragment],
        limit: int | None,
        surrogate: _Table | None,
        candidates: Candidates | None,
    ) -> None:
        self.limit = limit
        self._sets = SetScores(likelihood, fragments)
        self._fragments = fragments
        self._surrogate, self._candidates = surrogate, candidates
        self._fragment = -1
        self._joined: FloatArray = np.zeros(0)  # L(C + x) by slot, where known

    @property
    def evaluations(self) -> int:
        return len(self._sets)

    def observe(self, fragment: int, state: State) -> Scores:
        self._fragment = fragment
        if len(self._joined) < state.n_slots:
            self._joined = np.zeros(2 * state.n_slots)
        if self._surrogate is not None:
            return self._surrogate.observe(self._fragments[fragment], state)
        if self._candidates is not None:
            slots = self._candidates.turn_to(self._fragments[fragment], state.in_heaviest)
        else:
            slots = np.flatnonzero(state.reach[: state.n_slots] > -np.inf)
        predictive = np.full(state.n_slots, -np.inf)
        predictive[slots] = self._score_joins(state, slots) - state.score[slots]
        return Scores(predictive, slots)

    def reweigh(self, state: State, joins: Pool) -> Pool:
        if self._surrogate is None:
            return joins
        self._score_joins(state, np.unique(joins.slot))
        # what the surrogate ranked must not decide between equals of the model
        joins = joins.take(np.lexsort((state.first[joins.slot], joins.row, joins.subproblem)))
        gain = self._joined[joins.slot] - state.score[joins.slot]
        row = state.row_start[joins.subproblem] + joins.row
        prior = state.row_weight[row] + state.log_size[joins.slot]
        return joins.with_value(prior + gain)

    def log_marginal_new(self) -> float:
        return float(self._sets.score([(self._fragment,)])[0])

    def log_marginal_joined(self, state: State, parents: IntArray) -> FloatArray:
        return self._joined[parents]

    def extend(self, state: State, parents: IntArray, children: IntArray) -> None:
        if self._surrogate is not None:
            self._surrogate.extend(state, parents, children)
        elif self._candidates is not None:
            self._candidates.extend(state.first[children], children)

    def release(self, slots: IntArray) -> None:
        if self._surrogate is not None:
            self._surrogate.release(slots)
        elif self._candidates is not None:
            self._candidates.release(slots)

    def _score_joins(self, state: State, slots: IntArray) -> FloatArray:
        """L(C + x) of clusters; the new fragment's own set is scored in the same batch."""
        sets = [(*state.members(slot), self._fragment) for slot in slots.tolist()]
        scores = self._sets.score([*sets, (self._fragment,)])[:-1]
        self._joined[slots] = scores
        return scores
