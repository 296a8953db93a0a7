"""Scoring: what the likelihood says of putting the new fragment into each cluster.

Two ways behind one interface. A conjugate likelihood scores the fragment against every live
cluster at once from sufficient statistics. A black box is asked for L of whole sets, through a
cache keyed by their content (`cache`); a surrogate, if there is one, ranks the putative particles
first, so that only the best M are asked (split-SMC paper, appendix C.1).
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Protocol

import numpy as np

from kbforge.cluster.cache import SetScores
from kbforge.cluster.pool import Pool
from kbforge.cluster.state import State
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

    def observe(self, fragment: int, state: State) -> FloatArray:
        """Turn to a fragment; the score of joining each slot, to propose by, shape [n_slots]."""
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

    def extend(self, parents: IntArray, children: IntArray) -> None:
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
    return Problem(problem.surrogate, problem.alpha)


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
    if surrogate is not None:
        return BlackBoxScorer(likelihood, fragments, problem.max_evals, surrogate.live_clusters())
    if isinstance(likelihood, ConjugateLikelihood):
        return ConjugateScorer(likelihood, fragments, limit)
    return BlackBoxScorer(likelihood, fragments, limit, None)


class ConjugateScorer:
    """Scores by a live table of sufficient statistics."""

    def __init__(
        self, likelihood: ConjugateLikelihood, fragments: Sequence[Fragment], limit: int | None
    ) -> None:
        self.limit = limit
        self._evaluations = 0
        self._fragments = fragments
        self._table = likelihood.live_clusters()
        self._x: Observation = None
        self._predictive: FloatArray = np.zeros(0)

    @property
    def evaluations(self) -> int:
        return self._evaluations

    def observe(self, fragment: int, state: State) -> FloatArray:
        self._x = self._table.encode(self._fragments[fragment])
        self._predictive = self._table.log_predictive(self._x, state.n_slots)
        return self._predictive

    def reweigh(self, state: State, joins: Pool) -> Pool:
        return joins

    def log_marginal_new(self) -> float:
        return self._table.log_predictive_new(self._x)

    def log_marginal_joined(self, state: State, parents: IntArray) -> FloatArray:
        return np.asarray(state.score[parents] + self._predictive[parents])

    def extend(self, parents: IntArray, children: IntArray) -> None:
        self._evaluations += len(children)
        self._table.extend(self._x, parents, children)

    def release(self, slots: IntArray) -> None:
        self._table.release(slots)


class BlackBoxScorer:
    """Scores whole sets, each distinct content once; a surrogate may rank first."""

    def __init__(
        self,
        likelihood: Likelihood,
        fragments: Sequence[Fragment],
        limit: int | None,
        surrogate: LiveClusters | None,
    ) -> None:
        self.limit = limit
        self._sets = SetScores(likelihood, fragments)
        self._fragments = fragments
        self._surrogate = surrogate
        self._fragment = -1
        self._x: Observation = None
        self._joined: FloatArray = np.zeros(0)  # L(C + x) by slot, where known

    @property
    def evaluations(self) -> int:
        return len(self._sets)

    def observe(self, fragment: int, state: State) -> FloatArray:
        self._fragment = fragment
        if len(self._joined) < state.n_slots:
            self._joined = np.zeros(2 * state.n_slots)
        if self._surrogate is not None:
            self._x = self._surrogate.encode(self._fragments[fragment])
            return self._surrogate.log_predictive(self._x, state.n_slots)
        live = np.flatnonzero(state.reach[: state.n_slots] > -np.inf)
        predictive = np.full(state.n_slots, -np.inf)
        predictive[live] = self._score_joins(state, live) - state.score[live]
        return predictive

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

    def extend(self, parents: IntArray, children: IntArray) -> None:
        if self._surrogate is not None:
            self._surrogate.extend(self._x, parents, children)

    def release(self, slots: IntArray) -> None:
        if self._surrogate is not None:
            self._surrogate.release(slots)

    def _score_joins(self, state: State, slots: IntArray) -> FloatArray:
        """L(C + x) of clusters; the new fragment's own set is scored in the same batch."""
        sets = [(*state.members(slot), self._fragment) for slot in slots.tolist()]
        scores = self._sets.score([*sets, (self._fragment,)])[:-1]
        self._joined[slots] = scores
        return scores
