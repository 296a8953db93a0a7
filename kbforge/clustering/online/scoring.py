"""Scoring: the likelihood of the new fragment in each cluster.

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

import numpy as np

from kbforge.clustering.online.black_box import BlackBoxScorer
from kbforge.clustering.online.bounds import Bounds
from kbforge.clustering.online.candidates import Candidates, families_of, keys_of
from kbforge.clustering.online.lineage import Lineage
from kbforge.clustering.online.pool import Pool
from kbforge.clustering.online.scorer import Scorer
from kbforge.clustering.online.table import Made, Reading, Regrouping, Table
from kbforge.clustering.state import NewClusters, State
from kbforge.contracts import (
    Cluster,
    ConjugateLikelihood,
    FloatArray,
    Fragment,
    IntArray,
    Problem,
)
from kbforge.errors import LikelihoodError, UsageError
from kbforge.models.score_cache import ScoreCache


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
