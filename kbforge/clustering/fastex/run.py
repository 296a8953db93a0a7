"""A run of FastEx: the start, sweeps until a stop rule holds, then the posterior."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import partial
from typing import Protocol

import numpy as np

from kbforge.clustering.batch.budget import Watch
from kbforge.clustering.batch.chain_run import ChainRules
from kbforge.clustering.batch.grouping import leaders
from kbforge.clustering.batch.outcome import concluded
from kbforge.clustering.batch.visits import Visits, subproblems_of
from kbforge.clustering.fastex.compiled import CompiledSampler
from kbforge.clustering.fastex.counts import Counts, Taylor
from kbforge.clustering.fastex.draws import stream
from kbforge.clustering.fastex.hashes import Directions
from kbforge.clustering.fastex.mixture import Mixture
from kbforge.clustering.fastex.points import Points
from kbforge.clustering.fastex.proposals import TEMPERATURES
from kbforge.clustering.fastex.reference import Sampler
from kbforge.contracts import (
    Cluster,
    ConjugateLikelihood,
    Ending,
    FloatArray,
    Fragment,
    IntArray,
    OnStep,
    Posterior,
    Problem,
    Progress,
    Rounds,
    SparseCounts,
)
from kbforge.errors import LikelihoodError, UsageError, quoted
from kbforge.kernel.library import kernel_library, workers
from kbforge.numerics.logs import on_grid

FITTED = 20
"""The first sweeps, in which the temperature is fitted."""
_FIT_BY = 500
_PLACED_AT_ONCE = 200
_BETTER = 1e-6


@dataclass(frozen=True, slots=True)
class FastExRules:
    """What the sampler does, beside when it stops.

    Attributes:
        components: K; None is a Dirichlet process.
        bits: l, of a hash.
        blocks: of a sweep.
        tries: proposals a step.
        rehash: other directions after so many sweeps.
        delta: see `hashes.error_term`.
        temperature: t; None fits it.
        taylor: see `counts`.

    """

    components: int | None
    bits: int
    blocks: int
    tries: int
    rehash: int
    delta: float | None
    temperature: float | None
    taylor: Taylor


class AnySampler(Protocol):
    """`reference.Sampler` and `compiled.CompiledSampler`."""

    temperature: float

    @property
    def slot_of(self) -> IntArray:
        """See `reference.Sampler`."""
        ...

    @property
    def moved(self) -> int:
        """See `reference.Sampler`."""
        ...

    def redirect(self, directions: Directions) -> None:
        """See `reference.Sampler`."""
        ...

    def begin(self, labels: IntArray) -> None:
        """See `reference.Sampler`."""
        ...

    def place(self, fragments: Sequence[int], stream: int) -> float:
        """See `reference.Sampler`."""
        ...

    def exclude(self, fragments: IntArray) -> None:
        """See `reference.Sampler`."""
        ...

    def block(self, fragments: IntArray, stream: int) -> float:
        """See `reference.Sampler`."""
        ...

    def fit(self, fragments: IntArray) -> FloatArray:
        """See `reference.Sampler`."""
        ...


def family_of(likelihood: object, fragments: Sequence[Fragment], taylor: Taylor) -> Counts | Points:
    """The likelihood as a family that is known here.

    Raises:
        UsageError: it is none of them.
        LikelihoodError: a fragment lacks what the likelihood reads.

    """
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


def sampler_of(
    family: Counts | Points, prior: Mixture, delta: float | None, tries: int
) -> Sampler | CompiledSampler:
    """The compiled sampler if there is a kernel; the moves are the same."""
    kernel = kernel_library()
    if kernel is None:
        return Sampler(family, prior, delta, tries)
    return CompiledSampler(kernel, family, prior, delta, tries, workers())


def run_fastex(
    fragments: Sequence[Fragment],
    problem: Problem,
    rules: FastExRules,
    ends: ChainRules,
    start: Sequence[Cluster] | None,
    rng: np.random.Generator,
    on_step: OnStep | None = None,
) -> Posterior:
    """Sample groupings of the fragments.

    Args:
        fragments: what is clustered.
        problem: by what; the likelihood is of an exponential family.
        rules: what is done.
        ends: when to stop.
        start: a partition; None puts each fragment, in the order given, where the posterior given
            those before it draws it, of the likeliest clusters by q and a new one.
        rng: of all draws.
        on_step: see `kbforge.contracts.progress`.

    Raises:
        UsageError: the likelihood is of no family that is known, or the problem has constraints.
        LikelihoodError: a fragment lacks what the likelihood reads.

    """
    problem.require_free()
    if not fragments:
        return Posterior((), 0.0, 0, 0)
    watch = Watch(ends.budget, on_step)
    family = family_of(problem.likelihood, fragments, rules.taylor)
    run = FastExRun(family, Mixture(problem.alpha, rules.components), rules, ends, start, rng)
    return concluded(run, fragments, watch)


class FastExRun:
    """A sampler, its visits, and how far it has come.

    Attributes:
        sampler: the state.
        sweeps: done so far.
        log_posterior: of the present grouping, unnormalised, nats.

    """

    def __init__(
        self,
        family: Counts | Points,
        prior: Mixture,
        rules: FastExRules,
        ends: ChainRules,
        start: Sequence[Cluster] | None,
        rng: np.random.Generator,
    ) -> None:
        self._family, self._prior, self._rules, self._ends = family, prior, rules, ends
        self._start, self._rng = start, rng
        self._seed = int(rng.integers(2**63))
        self.sampler: AnySampler = sampler_of(family, prior, rules.delta, rules.tries)
        rows = family.rows
        self._directions = Directions.drawn(rows, rules.bits, rng)
        self.sampler.redirect(self._directions)
        self.sampler.temperature = rules.temperature or 1.0
        self._placed = self.sweeps = 0
        self.log_posterior = 0.0
        self._best_log_posterior = -np.inf
        self._best = self.sampler.slot_of
        self._visits = Visits(family.n)

    def until_done(self, watch: Watch) -> Ending:
        """Go on until a stop rule holds; which one."""
        self._begin(watch)
        idle, ends = 0, self._ends
        while self.sweeps != ends.sweeps and idle != ends.patience:
            before = self._best_log_posterior
            self._sweep(watch)
            idle = idle + 1 if self._best_log_posterior == before else 0
            self._visits.record(leaders(self.sampler.slot_of.tolist()))
            watch.round(self.progress)
        return Ending.SWEEPS if self.sweeps == ends.sweeps else Ending.PATIENCE

    def _begin(self, watch: Watch) -> None:
        n = self._family.n
        if self._start is not None:
            labels = np.zeros(n, dtype=np.int64)
            for slot, cluster in enumerate(self._start):
                labels[list(cluster)] = slot
            self.sampler.begin(labels)
            self.log_posterior = self.log_posterior_of(self._start)
            self._placed = n
        for begin in range(self._placed, n, _PLACED_AT_ONCE):
            some = range(begin, min(begin + _PLACED_AT_ONCE, n))
            self.log_posterior += self.sampler.place(some, stream(self._seed, 0))
            self._placed = some.stop
            self._best = self.sampler.slot_of
            watch.step(self.progress)
        self._keep_best()
        watch.step(self.progress)

    def _sweep(self, watch: Watch) -> None:
        """Move every fragment once, in random order."""
        if self.sweeps and self.sweeps % self._rules.rehash == 0:
            self.sampler.redirect(self._directions.permuted(self._rng))
        order = self._rng.permutation(self._family.n)
        fits = self.sweeps < FITTED and self._rules.temperature is None
        self.sweeps += 1
        for block in np.array_split(order, self._rules.blocks):
            if len(block):
                self.sampler.exclude(block)
                if fits:
                    found = self.sampler.fit(block[:_FIT_BY])
                    self.sampler.temperature = TEMPERATURES[int(np.argmax(found))]
                    fits = False
                gain = self.sampler.block(block, stream(self._seed, self.sweeps))
                self.log_posterior += gain
                self._keep_best()
                watch.step(self.progress)

    def _keep_best(self) -> None:
        if self.log_posterior > self._best_log_posterior + _BETTER:
            self._best_log_posterior = self.log_posterior
            self._best = self.sampler.slot_of

    def progress(self) -> Progress:
        """How far it has come."""
        return Progress(
            fragments=self._placed,
            total=self._family.n,
            subproblems=1,
            log10_effective_particles=0.0,
            model_evaluations=self._evaluations(),
            posterior=partial(self.posterior, Ending.INTERRUPTED),
            rounds=Rounds(
                self.sweeps,
                self._ends.sweeps,
                len(np.unique(self._best[: self._placed])),
                self._best_log_posterior,
            ),
        )

    def _evaluations(self) -> int:
        """Clusters made."""
        return self._placed + 2 * self.sampler.moved

    def posterior(self, ended: Ending) -> Posterior:
        """What has been found so far."""
        best = leaders(self._best[: self._placed].tolist())
        subproblems, log_posterior = subproblems_of(
            self._visits.after_burn_in(),
            best,
            self._ends.particles,
            self._ends.resampler,
            self.log_terms,
        )
        log_posterior += self._prior.log_choices(sum(len(s.clusters) for s in subproblems))
        return Posterior(subproblems, log_posterior, self._placed, self._evaluations(), ended)

    def log_posterior_of(self, clusters: Sequence[Cluster]) -> float:
        """Of a whole grouping, unnormalised, nats."""
        return float(self.log_terms(clusters).sum()) + self._prior.log_choices(len(clusters))

    def log_terms(self, clusters: Sequence[Cluster]) -> FloatArray:
        """What clusters contribute to the log posterior, but for `Mixture.log_choices`, nats."""
        sizes = np.array([len(cluster) for cluster in clusters], dtype=np.int64)
        return on_grid(self._prior.log_clusters(sizes) + self._family.log_marginal(clusters))
