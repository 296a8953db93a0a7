"""Chains of supervised clustering in turn, and the posterior of what they visit.

Every chain moves from the same start by draws of its own. What they visit in the second half of
their sweeps is the sample. Its groupings are ranked by visits alone: what a grouping is worth under
the joint density depends on types and means, too, and is not the clusters' own.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import asdict, dataclass
from functools import partial

import numpy as np

from kbforge.clustering.batch.grouping import leaders
from kbforge.clustering.batch.run import Watch, require_positive
from kbforge.clustering.batch.visits import VisitSample, subproblems_of
from kbforge.contracts import (
    Cluster,
    Ending,
    FloatArray,
    IntArray,
    Posterior,
    Progress,
    Resampler,
    Rounds,
)
from kbforge.errors import UsageError
from kbforge_lab.scdp.references import References
from kbforge_lab.scdp.run import run
from kbforge_lab.scdp.sampler import Scdp, start

_SWEEPS_A_ROUND = 2
"""The fewest that `run` makes; the last one of a round is looked at."""

LogTerms = Callable[[Sequence[Cluster]], FloatArray]


@dataclass(frozen=True, slots=True)
class ScdpRules:
    """How long chains go on, and how much of them is kept.

    Attributes:
        sweeps: of each chain, at least 2; they are made in pairs.
        chains: how many.
        budget: stop after so many seconds; None never does.
        particles: P, the most groupings of a subproblem that are kept.
        resampler: chooses them.

    """

    sweeps: int
    chains: int
    budget: float | None
    particles: int
    resampler: Resampler

    def __post_init__(self) -> None:
        require_positive(chains=self.chains, budget=self.budget, particles=self.particles)
        if self.sweeps < _SWEEPS_A_ROUND:
            raise UsageError(
                f"sweeps: expected a whole number from {_SWEEPS_A_ROUND}, got {self.sweeps}"
            )


@dataclass(frozen=True, slots=True)
class Visit:
    """A chain after a sweep; log_joint in nats."""

    chain: int
    sweep: int
    log_joint: float
    publications: int
    types: int
    alpha_p: float
    alpha_t: float


class ScdpRun:
    """Chains, their visits, and how far they have come.

    Args:
        grouping: where every chain starts, as of `start`, shape [m].

    Attributes:
        visits: what was recorded, by sweep and then by chain.

    """

    def __init__(
        self,
        model: Scdp,
        data: References,
        grouping: IntArray,
        rules: ScdpRules,
        log_terms: LogTerms,
        rng: np.random.Generator,
    ) -> None:
        self._model, self._data, self._rules = model, data, rules
        self._log_terms = log_terms
        self._rngs = rng.spawn(rules.chains)
        self._states = [start(data, grouping)] * rules.chains
        self._groupings: list[list[IntArray]] = [[] for _ in self._rngs]
        self._best, self._best_log_joint = leaders(grouping.tolist()), -np.inf
        self.visits: list[Visit] = []

    def until_done(self, watch: Watch) -> Ending:
        """Move every chain by a round, until all have made their sweeps."""
        for sweep in range(_SWEEPS_A_ROUND, self._rules.sweeps + 1, _SWEEPS_A_ROUND):
            for chain in range(self._rules.chains):
                self._round(chain, sweep)
                watch.step(self.progress)
            watch.round(self.progress)
        return Ending.SWEEPS

    def _round(self, chain: int, sweep: int) -> None:
        state, rng = self._states[chain], self._rngs[chain]
        state, trace = run(self._model, self._data, state, _SWEEPS_A_ROUND, 1, rng)
        self._states[chain] = state
        found = leaders(trace.groupings[-1].tolist())
        self._groupings[chain].append(found)
        log_joint = float(trace.log_joint[-1])
        if log_joint > self._best_log_joint:
            self._best, self._best_log_joint = found, log_joint
        told = (trace.publications, trace.types, trace.alpha_p, trace.alpha_t)
        publications, types, alpha_p, alpha_t = (values[-1].item() for values in told)
        self.visits.append(Visit(chain, sweep, log_joint, publications, types, alpha_p, alpha_t))

    def progress(self) -> Progress:
        """How far the first chain has come; the others are at most a round behind."""
        n = len(self._best)
        return Progress(
            fragments=n,
            total=n,
            subproblems=1,
            log10_effective_particles=0.0,
            model_evaluations=0,
            posterior=partial(self.posterior, Ending.INTERRUPTED),
            rounds=Rounds(
                _SWEEPS_A_ROUND * len(self._groupings[0]),
                self._rules.sweeps,
                len(np.unique(self._best)),
                self._best_log_joint,
            ),
        )

    def posterior(self, ended: Ending) -> Posterior:
        """By the visits; the log posterior is the point estimate's by `log_terms`."""
        subproblems, _ = subproblems_of(
            self._sample(), self._best, self._rules.particles, self._rules.resampler, _nothing
        )
        clusters = [cluster for each in subproblems for cluster in each.clusters]
        value = float(self._log_terms(clusters).sum())
        return Posterior(subproblems, value, len(self._best), 0, ended)

    def _sample(self) -> VisitSample:
        """The second half of each chain's visits."""
        rows = [row for chain in self._groupings for row in chain[len(chain) // 2 :]]
        if not rows:
            return VisitSample(np.zeros((0, len(self._best)), np.int32), np.zeros(0, np.int64))
        different, often = np.unique(np.stack(rows), axis=0, return_counts=True)
        return VisitSample(different.astype(np.int32), often)

    def log_terms(self, clusters: Sequence[Cluster]) -> FloatArray:
        """What clusters contribute to the log posterior, nats, shape [len(clusters)]."""
        return self._log_terms(clusters)

    def traced(self) -> list[dict[str, float]]:
        """The visits as plain objects."""
        return [asdict(visit) for visit in self.visits]


def _nothing(clusters: Sequence[Cluster]) -> FloatArray:
    return np.zeros(len(clusters))
