"""What runs of mixture samplers share: sweeps until a stop rule holds, then the posterior."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Sequence
from functools import partial

import numpy as np

from kbforge.clustering.batch.chain import ChainRules
from kbforge.clustering.batch.grouping import clusters_of, leaders
from kbforge.clustering.batch.run import Watch
from kbforge.clustering.batch.visits import Visits, subproblems_of
from kbforge.contracts import (
    Cluster,
    ConjugateLikelihood,
    Ending,
    FloatArray,
    Fragment,
    IntArray,
    Likelihood,
    Posterior,
    Progress,
    Rounds,
    SparseCounts,
)
from kbforge.errors import LikelihoodError, UsageError, quoted
from kbforge.numerics import on_grid
from kbforge_lab.fastex.counts import Counts, Taylor
from kbforge_lab.fastex.mixture import Mixture
from kbforge_lab.fastex.points import Points
from kbforge_plugins.clusterers.offline import chain_start

# a better grouping must be better by more than rounding, in nats
_BETTER = 1e-6
RANDOM = "random"
"""A start: every fragment in a component drawn evenly."""


def family_of(
    likelihood: Likelihood, fragments: Sequence[Fragment], taylor: Taylor
) -> Counts | Points:
    """The likelihood as a family that is known here."""
    told = None
    if isinstance(likelihood, ConjugateLikelihood):
        told = likelihood.exponential_family(fragments)
    if told is None:
        raise UsageError(
            f"this sampler needs an exponential family, which {type(likelihood).__name__} does not "
            "say it is: expected dirichlet-multinomial or gaussian"
        )
    family = Counts(told, taylor) if isinstance(told, SparseCounts) else Points(told)
    if not np.isfinite(family.alone).all():
        bad = fragments[int(np.argmin(np.isfinite(family.alone)))]
        raise LikelihoodError(f'fragment "{quoted(bad.id)}": the fragment has no finite assignment')
    return family


class MixtureRun(ABC):
    """A chain over groupings, its visits, and how far it has come.

    Attributes:
        placed: how many fragments are in a cluster; all of them, once the start is over.
        sweeps: done so far.
        log_posterior: of the present grouping, unnormalised, nats.

    """

    def __init__(self, family: Counts | Points, prior: Mixture, ends: ChainRules) -> None:
        self.family, self.prior, self._ends = family, prior, ends
        self.placed = self.sweeps = 0
        self.log_posterior = 0.0
        self._best_log_posterior = -np.inf
        self._best: IntArray = np.full(family.n, -1, dtype=np.int64)
        self._visits = Visits(family.n)

    @abstractmethod
    def begin(self, watch: Watch) -> None:
        """Place all fragments."""

    @abstractmethod
    def sweep(self, watch: Watch) -> None:
        """Go over all of them once."""

    @abstractmethod
    def slots(self) -> IntArray:
        """The number of each fragment's cluster, shape [n]."""

    @abstractmethod
    def evaluations(self) -> int:
        """Clusters made."""

    def until_done(self, watch: Watch) -> Ending:
        """Go on until a stop rule holds; which one."""
        self.begin(watch)
        idle, ends = 0, self._ends
        while self.sweeps != ends.sweeps and idle != ends.patience:
            before = self._best_log_posterior
            self.sweep(watch)
            idle = idle + 1 if self._best_log_posterior == before else 0
            self._visits.record(leaders(self.slots().tolist()))
            watch.round(self.progress)
        return Ending.SWEEPS if self.sweeps == ends.sweeps else Ending.PATIENCE

    def keep_best(self) -> None:
        """Remember the present grouping if it is the most probable one so far."""
        if self.placed < self.family.n:
            self._best = self.slots()
        elif self.log_posterior > self._best_log_posterior + _BETTER:
            self._best_log_posterior = self.log_posterior
            self._best = self.slots()

    def progress(self) -> Progress:
        """How far it has come."""
        return Progress(
            fragments=self.placed,
            total=self.family.n,
            subproblems=1,
            log10_effective_particles=0.0,
            model_evaluations=self.evaluations(),
            posterior=partial(self.posterior, Ending.INTERRUPTED),
            rounds=Rounds(
                self.sweeps,
                self._ends.sweeps,
                len(np.unique(self._best[: self.placed])),
                self._best_log_posterior,
            ),
        )

    def posterior(self, ended: Ending) -> Posterior:
        """What has been found so far."""
        best = leaders(self._best[: self.placed].tolist())
        subproblems, log_posterior = subproblems_of(
            self._visits.after_burn_in(),
            best,
            self._ends.particles,
            self._ends.resampler,
            self.log_terms,
        )
        log_posterior += self.prior.log_choices(sum(len(s.clusters) for s in subproblems))
        return Posterior(subproblems, log_posterior, self.placed, self.evaluations(), ended)

    def log_posterior_of(self, clusters: Sequence[Cluster]) -> float:
        """Of a whole grouping, unnormalised, nats."""
        return float(self.log_terms(clusters).sum()) + self.prior.log_choices(len(clusters))

    def log_terms(self, clusters: Sequence[Cluster]) -> FloatArray:
        """What clusters contribute to the log posterior, but for `Mixture.log_choices`, nats."""
        sizes = np.array([len(cluster) for cluster in clusters], dtype=np.int64)
        return on_grid(self.prior.log_clusters(sizes) + self.family.log_marginal(clusters))

    def labels_of(self, clusters: Sequence[Cluster]) -> IntArray:
        """A partition as one number a fragment, shape [n]."""
        labels = np.zeros(self.family.n, dtype=np.int64)
        for slot, cluster in enumerate(clusters):
            labels[list(cluster)] = slot
        return labels


def mixture_start(
    start: str, fragments: Sequence[Fragment], components: int | None, rng: np.random.Generator
) -> list[Cluster] | None:
    """As `chain_start`, and for `random` a component drawn evenly for every fragment."""
    if start != RANDOM:
        return chain_start(start, fragments)
    assert components is not None
    return clusters_of(rng.integers(components, size=len(fragments)))


def require_components(start: Sequence[Cluster], components: int | None) -> None:
    """Refuse a start that has more clusters than there are components."""
    if components is not None and len(start) > components:
        raise UsageError(f"start: {len(start):,} clusters are more than {components:,} components")
