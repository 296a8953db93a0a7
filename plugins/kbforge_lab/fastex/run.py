"""Runs FastEx or its rival until a stop rule holds, and computes the posterior.

The rival draws memberships and parameters in turn, each given the other, of K components.

    z_i | theta, w ~ w_k p(x_i | theta_k)          w | z ~ Dirichlet(alpha/K + n)
    theta_k | z    ~ the posterior of the cluster's parameters

It scores every fragment by every component, and draws parameters for every component and word.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Sequence
from dataclasses import dataclass
from functools import partial

import numpy as np
from scipy.sparse import csr_array

from kbforge.contracts import (
    Cluster,
    Ending,
    FloatArray,
    Fragment,
    IntArray,
    Likelihood,
    Posterior,
    Progress,
    Rounds,
)
from kbforge.errors import LikelihoodError, UsageError, quoted
from kbforge.kernel.binding import workers
from kbforge.numerics import on_grid
from kbforge_lab.batch.chain import ChainRules
from kbforge_lab.batch.grouping import clusters_of, leaders
from kbforge_lab.batch.run import Watch
from kbforge_lab.batch.starts import chain_start
from kbforge_lab.batch.visits import Visits, subproblems_of
from kbforge_lab.fastex.compiled import CompiledSampler, sampler_library
from kbforge_lab.fastex.families import (
    DocumentFamily,
    ExponentialFamily,
    Mixture,
    PointFamily,
    Taylor,
)
from kbforge_lab.fastex.proposals import TEMPERATURES, Directions, stream
from kbforge_lab.likelihoods.discrete import DirichletMultinomial
from kbforge_plugins.likelihoods.gaussian import Gaussian, PlacedPoints

# a better grouping must be better by more than rounding, in nats
_BETTER = 1e-6
RANDOM = "random"
"""A start: every fragment in a component drawn evenly."""


def family_of(
    likelihood: Likelihood, fragments: Sequence[Fragment], taylor: Taylor
) -> ExponentialFamily:
    """The likelihood as a family that is known here."""
    family: ExponentialFamily | None = None
    if isinstance(likelihood, Gaussian) and fragments:
        family = PointFamily(PlacedPoints.of(likelihood, fragments))
    elif isinstance(likelihood, DirichletMultinomial):
        counts = likelihood.exponential_family(fragments)
        family = None if counts is None else DocumentFamily(counts, taylor)
    if family is None:
        raise UsageError(
            f"this sampler needs an exponential family, which {type(likelihood).__name__} does not "
            "say it is: expected dirichlet-multinomial or gaussian"
        )
    if not np.isfinite(family.alone).all():
        bad = fragments[int(np.argmin(np.isfinite(family.alone)))]
        raise LikelihoodError(f'fragment "{quoted(bad.id)}": the fragment has no finite assignment')
    return family


class MixtureRun(ABC):
    """A chain over groupings and its visits.

    `placed` counts the fragments in a cluster, `log_posterior` is unnormalised, in nats.
    """

    def __init__(self, family: ExponentialFamily, prior: Mixture, ends: ChainRules) -> None:
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
        """Continue until a stop rule holds; returns which."""
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
        best = leaders(self._best[: self.placed].tolist())
        subproblems, log_posterior = subproblems_of(
            self._visits.after_burn_in(),
            best,
            self._ends.particles,
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
        """A partition as one number per fragment, shape [n]."""
        labels = np.zeros(self.family.n, dtype=np.int64)
        for slot, cluster in enumerate(clusters):
            labels[list(cluster)] = slot
        return labels


def mixture_start(
    start: str, fragments: Sequence[Fragment], components: int | None, rng: np.random.Generator
) -> list[Cluster] | None:
    """As `chain_start`, and for `random` a component drawn evenly for every fragment."""
    if start == RANDOM:
        assert components is not None
        return clusters_of(rng.integers(components, size=len(fragments)))
    found = chain_start(start, fragments)
    if found is not None and components is not None and len(found) > components:
        raise UsageError(f"start: {len(found):,} clusters are more than {components:,} components")
    return found


FITTED = 20
"""The first sweeps, in which the temperature is fitted."""
_FIT_BY = 500
_PLACED_AT_ONCE = 200


@dataclass(frozen=True, slots=True)
class FastExRules:
    """What the sampler does, beside when it stops."""

    components: int | None  # K; None is a Dirichlet process
    bits: int
    blocks: int
    tries: int
    rehash: int
    delta: float | None
    temperature: float | None  # t; None fits it
    taylor: Taylor


def sampler_of(
    family: ExponentialFamily, prior: Mixture, delta: float | None, tries: int
) -> CompiledSampler:
    """The sampler, which makes the moves of `kbforge_lab.fastex.reference`."""
    return CompiledSampler(sampler_library(), family, prior, delta, tries, workers())


class FastExRun(MixtureRun):
    """A run of the sampler."""

    def __init__(
        self,
        family: ExponentialFamily,
        prior: Mixture,
        rules: FastExRules,
        ends: ChainRules,
        start: Sequence[Cluster] | None,
        rng: np.random.Generator,
    ) -> None:
        super().__init__(family, prior, ends)
        self._rules, self._start, self._rng = rules, start, rng
        self._seed = int(rng.integers(2**63))
        self.sampler = sampler_of(family, prior, rules.delta, rules.tries)
        self.directions = Directions.drawn(family.rows, rules.bits, rng)
        self.sampler.redirect(self.directions)
        self.sampler.temperature = rules.temperature or 1.0

    def slots(self) -> IntArray:
        """The number of each fragment's cluster, shape [n]."""
        return self.sampler.slot_of

    def evaluations(self) -> int:
        return self.placed + 2 * self.sampler.moved

    def begin(self, watch: Watch) -> None:
        n = self.family.n
        if self._start is not None:
            self.sampler.begin(self.labels_of(self._start))
            self.log_posterior = self.log_posterior_of(self._start)
            self.placed = n
        for first in range(self.placed, n, _PLACED_AT_ONCE):
            some = range(first, min(first + _PLACED_AT_ONCE, n))
            self.log_posterior += self.sampler.place(some, stream(self._seed, 0))
            self.placed = some.stop
            self.keep_best()
            watch.step(self.progress)
        if self._start is None:  # the family may know points by another measure
            self.log_posterior = self.log_posterior_of(clusters_of(self.slots()))
        self.keep_best()
        watch.step(self.progress)

    def sweep(self, watch: Watch) -> None:
        """Move every fragment once, in random order."""
        if self.sweeps and self.sweeps % self._rules.rehash == 0:
            self.sampler.redirect(self.directions.permuted(self._rng))
        order = self._rng.permutation(self.family.n)
        fits = self.sweeps < FITTED and self._rules.temperature is None
        self.sweeps += 1
        for block in np.array_split(order, self._rules.blocks):
            if not len(block):
                continue
            self.sampler.exclude(block)
            if fits:
                found = self.sampler.fit(block[:_FIT_BY])
                self.sampler.temperature = TEMPERATURES[int(np.argmax(found))]
                fits = False
            self.log_posterior += self.sampler.block(block, stream(self._seed, self.sweeps))
            self.keep_best()
            watch.step(self.progress)


_AT_ONCE = 2048
_MOST_NUMBERS = 2**24
"""Of parameters that are drawn at once."""


class DocumentComponents:
    """theta of documents: a Dirichlet draw over the words, and over those that were never seen.

    In logs: log Gamma(a) is drawn as log Gamma(a + 1) + log(U) / a, as small shapes underflow.
    """

    def __init__(self, family: DocumentFamily) -> None:
        data = family.data
        if len(family.totals) != 1:
            raise UsageError(
                f"clusterer uncollapsed: expected documents of one attribute, got "
                f"{len(family.totals)}; name it by --set likelihood.attributes=NAME"
            )
        shape = (family.n, family.rows)
        counts = csr_array((data.counts.astype(np.float64), data.rows, data.starts), shape)
        words = np.flatnonzero(data.signs > 0)
        self.size = len(words)
        self._counts = counts[:, words]
        self._pseudo = data.pseudo_counts[words]
        self._rest = float(data.pseudo_counts[family.totals[0]] - self._pseudo.sum())

    def scores(self, z: IntArray, some: range, rng: np.random.Generator) -> FloatArray:
        members = np.flatnonzero((z >= some.start) & (z < some.stop))
        places = (z[members] - some.start, np.arange(len(members)))
        member = csr_array((np.ones(len(members)), places), (len(some), len(members)))
        shape = self._pseudo[:, None] + (member @ self._counts[members]).toarray().T
        log_theta = np.log(rng.standard_gamma(shape + 1.0))
        log_theta += np.log1p(-rng.random(shape.shape)) / shape
        total = np.exp(log_theta).sum(axis=0)
        if self._rest > 0:
            total += rng.standard_gamma(self._rest, len(some))
        return np.asarray(self._counts @ (log_theta - np.log(total)))


class PointComponents:
    """Mean and precision of components, in each dimension."""

    def __init__(self, family: PointFamily) -> None:
        self._family, self.size = family, family.n * family.points.shape[1]

    def scores(self, z: IntArray, some: range, rng: np.random.Generator) -> FloatArray:
        points = self._family.points
        out = np.empty((len(points), len(some)))
        for column, component in enumerate(some):
            x = points[z == component]
            mean = x.mean(axis=0) if len(x) else np.zeros(points.shape[1])
            moments = np.stack([0.0 * mean + len(x), mean, np.square(x - mean).sum(axis=0)])
            a, b, mu, lam = self._family.posterior(moments)
            precision = rng.standard_gamma(a) / b
            away = points - rng.normal(mu, 1 / np.sqrt(lam * precision))
            out[:, column] = 0.5 * (np.log(precision) - precision * np.square(away)).sum(axis=1)
        return out


class UncollapsedRun(MixtureRun):
    """A run of it."""

    def __init__(
        self,
        family: ExponentialFamily,
        prior: Mixture,
        ends: ChainRules,
        start: Sequence[Cluster],
        rng: np.random.Generator,
    ) -> None:
        super().__init__(family, prior, ends)
        self._rng, self._start = rng, start
        self._components: DocumentComponents | PointComponents
        if isinstance(family, DocumentFamily):
            self._components = DocumentComponents(family)
        else:
            self._components = PointComponents(family)
        self._z: IntArray = np.full(family.n, -1, dtype=np.int64)
        self._made = 0

    def slots(self) -> IntArray:
        """The number of each fragment's cluster, shape [n]."""
        return self._z.copy()

    def evaluations(self) -> int:
        return self._made

    def begin(self, watch: Watch) -> None:
        self._z = self.labels_of(self._start)
        self.placed, self._made = self.family.n, len(self._start)
        self.log_posterior = self.log_posterior_of(self._start)
        self.keep_best()
        watch.step(self.progress)

    def sweep(self, watch: Watch) -> None:
        """Draw the parameters, then all memberships."""
        self.draw_memberships(watch)
        self.sweeps += 1
        clusters = clusters_of(self._z)
        self._made += len(clusters)
        self.log_posterior = self.log_posterior_of(clusters)
        self.keep_best()
        watch.step(self.progress)

    def draw_memberships(self, watch: Watch) -> None:
        """Draw the parameters, then all memberships."""
        components = self.prior.components
        assert components is not None
        sizes = np.bincount(self._z, minlength=components)
        log_w = np.log(self._rng.dirichlet(sizes + self.prior.share) + 1e-300)
        scores = np.empty((len(self._z), components), dtype=np.float32)
        at_once = max(1, _MOST_NUMBERS // self._components.size)
        for begin in range(0, components, at_once):
            some = range(begin, min(begin + at_once, components))
            scores[:, begin : some.stop] = self._components.scores(self._z, some, self._rng)
            watch.step(self.progress)
        z = self._z.copy()
        for begin in range(0, len(z), _AT_ONCE):
            rows = slice(begin, begin + _AT_ONCE)
            log_p = scores[rows] + log_w
            weights = np.exp(log_p - log_p.max(axis=1, keepdims=True)).cumsum(axis=1)
            aim = self._rng.random(len(weights)) * weights[:, -1]
            z[rows] = (weights <= aim[:, None]).sum(axis=1)
        self._z = z
