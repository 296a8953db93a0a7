"""A run of a Markov chain: its start, sweeps until a stop rule holds, then the posterior."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import partial
from typing import TypeAlias

import numpy as np

from kbforge.clustering.batch.budget import Watch, require_positive
from kbforge.clustering.batch.chain import Chain
from kbforge.clustering.batch.grouping import Grouping, leaders
from kbforge.clustering.batch.kernels import Kernel
from kbforge.clustering.batch.outcome import concluded
from kbforge.clustering.batch.visits import Visits, subproblems_of
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
    Rounds,
)


@dataclass(frozen=True, slots=True)
class ChainRules:
    """When a chain stops, and how much of it is kept.

    Attributes:
        patience: stop after so many sweeps without a more probable grouping; None never does.
        sweeps: stop after so many; None never does.
        budget: stop after so many seconds; None never does.
        particles: P, the most groupings of a subproblem that are kept.
        resampler: chooses them.

    """

    patience: int | None
    sweeps: int | None
    budget: float | None
    particles: int
    resampler: Resampler

    def __post_init__(self) -> None:
        require_positive(
            patience=self.patience,
            sweeps=self.sweeps,
            budget=self.budget,
            particles=self.particles,
        )


MakeKernel: TypeAlias = Callable[[Sequence[Fragment], Problem, Grouping, float], Kernel]
"""A kernel of fragments, their problem, the (empty) grouping to work on, and log alpha."""


def run_chain(
    fragments: Sequence[Fragment],
    problem: Problem,
    make_kernel: MakeKernel,
    rules: ChainRules,
    start: Sequence[Cluster] | None,
    rng: np.random.Generator,
    on_step: OnStep | None = None,
) -> Posterior:
    """Sample groupings of the fragments, from the `start` of `Chain.start` on.

    Raises:
        LikelihoodError: NaN, or a fragment has no possible place; the message names it.
        UsageError: the problem has constraints.

    """

    def begun() -> _ChainRun:
        prior = DirichletProcess(problem.alpha)
        grouping = Grouping(len(fragments))
        kernel = make_kernel(fragments, problem, grouping, prior.log_alpha)
        return _ChainRun(Chain(kernel, grouping, prior, rng), rules, start)

    return concluded(begun, fragments, problem, rules.budget, on_step)


class _ChainRun:
    """A chain, its visits, and how far it has come."""

    def __init__(self, chain: Chain, rules: ChainRules, start: Sequence[Cluster] | None) -> None:
        self._chain, self._rules, self._start = chain, rules, start
        self._visits = Visits(chain.n_fragments)
        self._sweeps = 0

    def until_done(self, watch: Watch) -> Ending:
        """Go on until a stop rule holds; which one.

        Raises:
            OutOfTime: the budget is spent.
            Interrupted: the callback has had enough.

        """
        chain, rules = self._chain, self._rules
        for _ in chain.start(self._start):
            watch.step(self.progress)
        idle = 0
        while self._sweeps != rules.sweeps and idle != rules.patience:
            before = chain.best_log_posterior
            for _ in chain.sweep():
                watch.step(self.progress)
            self._sweeps += 1
            idle = idle + 1 if chain.best_log_posterior == before else 0
            self._visits.record(leaders(chain.grouping.slot_of))
            watch.round(self.progress)
        return Ending.SWEEPS if self._sweeps == rules.sweeps else Ending.PATIENCE

    def progress(self) -> Progress:
        chain = self._chain
        return Progress(
            fragments=chain.placed,
            total=chain.n_fragments,
            subproblems=1,
            log10_effective_particles=0.0,
            model_evaluations=chain.evaluations,
            posterior=partial(self.posterior, Ending.INTERRUPTED),
            rounds=Rounds(
                self._sweeps, self._rules.sweeps, chain.best_clusters, chain.best_log_posterior
            ),
        )

    def posterior(self, ended: Ending) -> Posterior:
        chain = self._chain
        subproblems, log_posterior = subproblems_of(
            self._visits.after_burn_in(),
            chain.best,
            self._rules.particles,
            self._rules.resampler,
            self.log_terms,
        )
        return Posterior(subproblems, log_posterior, chain.placed, chain.evaluations, ended)

    def log_terms(self, clusters: Sequence[Cluster]) -> FloatArray:
        """See `Chain.log_terms`."""
        return self._chain.log_terms(clusters)
