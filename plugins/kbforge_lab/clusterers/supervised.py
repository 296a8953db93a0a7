"""Chains of supervised clustering in turn, and the posterior of what they visit.

Every chain moves from the same start by draws of its own. What they visit in the second half of
their sweeps is the sample. Its groupings are ranked by visits alone: what a grouping is worth under
the joint density depends on types and means, too, and is not the clusters' own.

What clusterers with a model of labelled fragments share.

Average linkage on the scale that labelled fragments teach, offline.

Supervised clustering with the Dirichlet process (Daumé and Marcu 2005), offline.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import asdict, dataclass, replace
from functools import partial
from typing import Literal

import numpy as np
import orjson

from kbforge.clustering.batch.grouping import clusters_of, leaders
from kbforge.clustering.batch.run import Watch, concluded, require_positive
from kbforge.clustering.batch.visits import VisitSample, subproblems_of
from kbforge.clustering.prior import DirichletProcess
from kbforge.clustering.scoring import without_model
from kbforge.contracts import (
    Cluster,
    Clusterer,
    Ending,
    FloatArray,
    Fragment,
    IntArray,
    OnStep,
    Particle,
    Posterior,
    Problem,
    Progress,
    Resampler,
    Rounds,
    Subproblem,
)
from kbforge.errors import UsageError
from kbforge.files.io import open_output
from kbforge_lab.likelihoods.supervised import Scaled, Supervised, linked
from kbforge_lab.scdp.gaussian import Near
from kbforge_lab.scdp.references import References, references
from kbforge_lab.scdp.run import run
from kbforge_lab.scdp.sampler import SCDP1, SCDP2, SCDP3, Scdp, start
from kbforge_plugins.clusterers.offline import ONE, SINGLETONS, groups_from, require_start
from kbforge_plugins.resamplers import Optimal

_SWEEPS_A_ROUND = 2
"""The fewest that `run` makes; the last one of a round is looked at."""

LogTerms = Callable[[Sequence[Cluster]], FloatArray]


@dataclass(frozen=True, slots=True)
class ScdpRules:
    """How long chains go on, and how much of them is kept.

    Attributes:
        sweeps: of each chain, at least 2; they are made in pairs.
        budget: stop after so many seconds; None never does.
        particles: P, the most groupings of a subproblem that are kept.

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
        rows = [row for chain in self._groupings for row in chain[len(chain) // 2 :]]
        if not rows:
            return VisitSample(np.zeros((0, len(self._best)), np.int32), np.zeros(0, np.int64))
        different, often = np.unique(np.stack(rows), axis=0, return_counts=True)
        return VisitSample(different.astype(np.int32), often)

    def log_terms(self, clusters: Sequence[Cluster]) -> FloatArray:
        """What clusters contribute to the log posterior, nats, shape [len(clusters)]."""
        return self._log_terms(clusters)

    def traced(self) -> list[dict[str, float]]:
        return [asdict(visit) for visit in self.visits]


def _nothing(clusters: Sequence[Cluster]) -> FloatArray:
    return np.zeros(len(clusters))


def model_of(problem: Problem, clusterer: str) -> Supervised:
    """The trained model."""
    likelihood = without_model(problem).likelihood
    if not isinstance(likelihood, Supervised):
        called = type(likelihood).__name__.lstrip("_").lower()
        raise UsageError(
            f"clusterer {clusterer} learns from labelled fragments: expected --likelihood MODEL "
            f"from kbforge lab train-supervised, at temperature 1, got {called}"
        )
    return likelihood


def log_terms_of(
    likelihood: Supervised, fragments: Sequence[Fragment], alpha: float
) -> Callable[[Sequence[Cluster]], FloatArray]:
    """What clusters contribute to the log posterior by the model's one scatter, nats."""
    prior = DirichletProcess(alpha)

    def log_terms(clusters: Sequence[Cluster]) -> FloatArray:
        sets = [[fragments[i] for i in cluster] for cluster in clusters]
        return prior.log_terms(clusters, likelihood.log_marginal(sets))

    return log_terms


class Linkage(Clusterer):
    """One grouping, by average linkage, cut where it does best on labelled fragments.

    It takes a model that kbforge lab train-supervised makes, --likelihood MODEL. What an entity's
    fragments seldom differ in counts most. It is where the chains of scdp mostly start.
    """

    unindexed = True

    def cluster(
        self,
        fragments: Sequence[Fragment],
        problem: Problem,
        rng: np.random.Generator,
        on_step: OnStep | None = None,
    ) -> Posterior:
        likelihood = model_of(problem, "linkage")
        terms = log_terms_of(likelihood, fragments, problem.alpha)
        begun = partial(_LinkageRun, likelihood, fragments, terms)
        return concluded(begun, fragments, problem, None, on_step)


class _LinkageRun:
    """Every fragment by itself, until they are linked."""

    def __init__(
        self,
        likelihood: Supervised,
        fragments: Sequence[Fragment],
        terms: Callable[[Sequence[Cluster]], FloatArray],
    ) -> None:
        self._likelihood, self._fragments, self._terms = likelihood, fragments, terms
        self._clusters: list[Cluster] = [(i,) for i in range(len(fragments))]

    def until_done(self, watch: Watch) -> Ending:
        watch.step(self._progress)
        self._clusters = clusters_of(linked(self._likelihood.vectors(self._fragments)))
        watch.round(self._progress)
        return Ending.DONE

    def _progress(self) -> Progress:
        n = len(self._fragments)
        posterior = partial(self.posterior, Ending.INTERRUPTED)
        return Progress(n, n, len(self._clusters), 0.0, 0, posterior)

    def posterior(self, ended: Ending) -> Posterior:
        """One grouping, each cluster a subproblem of its own."""
        return Posterior(
            tuple(Subproblem(cluster, (Particle(0.0, (cluster,)),)) for cluster in self._clusters),
            float(self._terms(self._clusters).sum()),
            len(self._fragments),
            0,
            ended,
        )

    def log_terms(self, clusters: Sequence[Cluster]) -> FloatArray:
        """What clusters contribute to the log posterior, nats, shape [len(clusters)]."""
        return self._terms(clusters)


LINKED = "linked"


class ScdpSampler(Clusterer):
    """Groups beside labelled fragments, from which it learns what differs within an entity.

    It takes a model that kbforge lab train-supervised makes, --likelihood MODEL. What comes out is
    the sample that the second half of the chains' sweeps is. Concentrations are sampled; alpha is
    not used, but for the log posterior that is told of the result, by the model's one scatter.
    """

    takes_budget = unindexed = True

    def __init__(
        self,
        model: Literal[1, 2, 3] | None = None,
        sweeps: int = 100,
        chains: int = 2,
        start: str = LINKED,
        shared: bool = False,
        particles: int = 100,
        budget: float | None = None,
        trace: str | None = None,
    ) -> None:
        """Take the options.

        Args:
            model: of the paper: 1 has conjugate priors, 2 re-estimates that of the precisions, 3
                has separation; `none` takes the one that did best on hidden labelled entities.
            sweeps: of each chain, at least 2.
            chains: how many, each with draws of its own.
            start: `linked` starts with average linkage, as `linkage` has it; `one` with one
                cluster; `singletons` with every fragment by itself; a file that `kbforge cluster`
                wrote, with its groups.
            shared: whether fragments may join the labelled entities; those that join the same one
                are one entity.
            particles: P, the most groupings of a subproblem that are kept of the sample.
            budget: stop after so many seconds, which makes the result depend on the machine; `none`
                never does.
            trace: a file for a line of JSON a chain and every second sweep, with the log joint
                density and how many publications and types there are.

        """
        self.particles, self._model, self._shared = particles, model, shared
        self._start = require_start(start, LINKED, ONE, SINGLETONS)
        self._rules = ScdpRules(sweeps, chains, budget, particles, Optimal())
        self._trace = trace

    def cluster(
        self,
        fragments: Sequence[Fragment],
        problem: Problem,
        rng: np.random.Generator,
        on_step: OnStep | None = None,
    ) -> Posterior:
        likelihood = model_of(problem, "scdp")
        runs: list[ScdpRun] = []

        def begun() -> ScdpRun:
            runs.append(self._begun(likelihood, fragments, problem.alpha, rng))
            return runs[0]

        found = concluded(begun, fragments, problem, self._rules.budget, on_step)
        if self._trace is not None:
            with open_output(self._trace) as out:
                for line in runs[0].traced() if runs else []:
                    out.write(orjson.dumps(line) + b"\n")
        return found

    def _begun(
        self,
        likelihood: Supervised,
        fragments: Sequence[Fragment],
        alpha: float,
        rng: np.random.Generator,
    ) -> ScdpRun:
        settings, terms = likelihood.settings, log_terms_of(likelihood, fragments, alpha)
        model = self._model or settings.model
        choice = settings.choices[model]
        scaled = likelihood.vectors(fragments)
        data = references(scaled.train, scaled.labels, scaled.test)
        start = self._first(scaled, fragments)
        made = replace(variant(model, choice.rate, choice.power), shared=self._shared)
        return ScdpRun(made, data, start, self._rules, terms, rng)

    def _first(self, data: Scaled, fragments: Sequence[Fragment]) -> IntArray:
        if self._start == LINKED:
            return linked(data)
        out = np.zeros(len(fragments), dtype=np.int64)
        for number, group in enumerate(groups_from(self._start, fragments)):
            out[list(group)] = number
        return out


def variant(model: int, rate: float, power: float) -> Scdp:
    """The model of a number; the rate is that of model 3's separation."""
    published = {1: SCDP1, 2: SCDP2, 3: replace(SCDP3, separation=Near(rate))}[model]
    return replace(published, power=power)
