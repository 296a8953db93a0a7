"""A run of sequential importance resampling, and the posterior that its replicas show."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from functools import partial

import numpy as np

from kbforge.clustering.batch.run import Watch, concluded, require_positive
from kbforge.clustering.batch.visits import VisitSample, subproblems_of
from kbforge.clustering.online.scoring import without_model
from kbforge.clustering.prior import DirichletProcess
from kbforge.contracts import (
    Cluster,
    Ending,
    FloatArray,
    Fragment,
    OnStep,
    Posterior,
    Problem,
    Progress,
    Resampler,
)
from kbforge.errors import LikelihoodError, UsageError, quoted
from kbforge_lab.replicas.held import held_clusters
from kbforge_lab.replicas.replicas import Replicas

_PARTS = 10**6
"""Weights are counted in so many parts: how often each grouping would have been visited."""


@dataclass(frozen=True, slots=True)
class ReplicaRules:
    """How replicas are drawn, and how many of their groupings are kept.

    Attributes:
        replicas: R.
        threshold: resample where the effective sample size is below this share of R; 0 never does.
        budget: stop after so many seconds; None never does.
        particles: P, the most groupings of a subproblem that are kept.
        resampler: chooses them.

    """

    replicas: int
    threshold: float
    budget: float | None
    particles: int
    resampler: Resampler

    def __post_init__(self) -> None:
        require_positive(replicas=self.replicas, budget=self.budget, particles=self.particles)
        if not 0 <= self.threshold <= 1:
            raise UsageError(f"threshold: expected a number from 0 to 1, got {self.threshold}")


def run_replicas(
    fragments: Sequence[Fragment],
    problem: Problem,
    rules: ReplicaRules,
    rng: np.random.Generator,
    on_step: OnStep | None = None,
) -> Posterior:
    """Draw R groupings of the fragments, in their order.

    Raises:
        LikelihoodError: NaN, or a fragment has no possible place; the message names it.
        UsageError: the problem has constraints.

    """

    def begun() -> _ReplicaRun:
        return _ReplicaRun(fragments, problem, rules, rng)

    return concluded(begun, fragments, problem, rules.budget, on_step)


class _ReplicaRun:
    """Replicas, and the clusters that they hold."""

    def __init__(
        self,
        fragments: Sequence[Fragment],
        problem: Problem,
        rules: ReplicaRules,
        rng: np.random.Generator,
    ) -> None:
        self._fragments, self._rules = fragments, rules
        self._likelihood = without_model(problem).likelihood
        self._prior = DirichletProcess(problem.alpha)
        self._held = held_clusters(self._likelihood, fragments)
        self._replicas = Replicas(len(fragments), rules.replicas, self._prior.log_alpha, rng)

    def until_done(self, watch: Watch) -> Ending:
        """Take in all fragments.

        Raises:
            OutOfTime: the budget is spent.
            Interrupted: the callback has had enough.

        """
        for x in range(len(self._fragments)):
            try:
                self._take_in(x)
            except (LikelihoodError, ValueError) as error:
                name = quoted(self._fragments[x].id)
                raise LikelihoodError(f'fragment "{name}": {error}') from error
            watch.step(self.progress)
        watch.round(self.progress)
        return Ending.DONE

    def _take_in(self, x: int) -> None:
        replicas, held = self._replicas, self._held
        slots = replicas.held
        predictive, alone = held.predict(x, slots, replicas.n_slots)
        most = float(np.max(predictive[slots], initial=alone))  # NaN if one of them is
        if math.isnan(most) or most == math.inf:
            raise LikelihoodError("the likelihood (or surrogate) returned NaN or +inf")
        parents, children, dropped = replicas.draw(predictive, alone)
        held.extend(parents, children)
        if len(dropped):
            held.release(dropped)
        if replicas.effective() < self._rules.threshold * self._rules.replicas:
            dropped = replicas.resample()
            if len(dropped):
                held.release(dropped)

    def progress(self) -> Progress:
        replicas = self._replicas
        return Progress(
            fragments=replicas.placed,
            total=len(self._fragments),
            subproblems=1,
            log10_effective_particles=math.log10(replicas.effective()),
            model_evaluations=self._held.evaluations,
            posterior=partial(self.posterior, Ending.INTERRUPTED),
        )

    def posterior(self, ended: Ending) -> Posterior:
        """By the weights; the point estimate is the most probable grouping that was drawn."""
        replicas = self._replicas
        if not replicas.placed:
            return Posterior((), 0.0, 0, self._held.evaluations, ended)
        groupings, number = np.unique(replicas.groupings(), axis=0, return_inverse=True)
        parts = np.bincount(number.reshape(-1), replicas.weights()) * _PARTS
        kept = parts >= 0.5
        sample = VisitSample(groupings[kept], np.round(parts[kept]).astype(np.int64))
        best = groupings[number.reshape(-1)[int(replicas.log_target.argmax())]].astype(np.int64)
        subproblems, log_posterior = subproblems_of(
            sample, best, self._rules.particles, self._rules.resampler, self.log_terms
        )
        return Posterior(subproblems, log_posterior, replicas.placed, self._held.evaluations, ended)

    def log_terms(self, clusters: Sequence[Cluster]) -> FloatArray:
        """log alpha + lgamma(|C|) + L(C), nats, shape [len(clusters)]."""
        sets = [[self._fragments[i] for i in cluster] for cluster in clusters]
        return self._prior.log_terms(clusters, self._likelihood.log_marginal(sets))
