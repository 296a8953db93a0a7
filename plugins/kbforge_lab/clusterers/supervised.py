"""Clusterers that learn from labelled fragments: average linkage, and chains of `scdp`.

Chains start alike and move by draws of their own; their sample is of the second half of their
sweeps. Groupings are ranked by visits: the joint density depends on types and means, too.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace
from functools import partial
from typing import Literal

import numpy as np
import orjson

from kbforge.clustering.rules import DirichletProcess
from kbforge.clustering.scoring import without_model
from kbforge.contracts import (
    Cluster,
    Clusterer,
    Ending,
    FloatArray,
    Fragment,
    IntArray,
    ModelSpec,
    OnStep,
    Particle,
    Posterior,
    Progress,
    Rounds,
    Subproblem,
)
from kbforge.errors import UsageError
from kbforge.files.io import open_output
from kbforge_lab.batch.grouping import clusters_of, leaders
from kbforge_lab.batch.run import Watch, concluded, require_positive
from kbforge_lab.batch.starts import ONE, SINGLETONS, groups_from, require_start
from kbforge_lab.batch.visits import VisitSample, subproblems_of
from kbforge_lab.likelihoods.supervised import ScaledVectors, Supervised, linked
from kbforge_lab.scdp.references import References, references
from kbforge_lab.scdp.run import run
from kbforge_lab.scdp.sampler import Scdp, start, variant

_SWEEPS_A_ROUND = 2
"""The fewest that `run` makes; the last one of a round is looked at."""

LogTerms = Callable[[Sequence[Cluster]], FloatArray]


class ScdpRun:
    """Chains of sweeps, made in pairs, and their visits.

    `grouping` [m] is where every chain starts; `visits` has the state after each pair of sweeps, by
    sweep and then by chain, in nats.
    """

    def __init__(
        self,
        model: Scdp,
        data: References,
        grouping: IntArray,
        sweeps: int,
        chains: int,
        particles: int,
        log_terms: LogTerms,
        rng: np.random.Generator,
    ) -> None:
        self._model, self._data, self._sweeps, self._particles = model, data, sweeps, particles
        self.log_terms = log_terms
        self._rngs = rng.spawn(chains)
        self._states = [start(data, grouping)] * chains
        self._groupings: list[list[IntArray]] = [[] for _ in self._rngs]
        self._best, self._best_log_joint = leaders(grouping.tolist()), -np.inf
        self.visits: list[dict[str, float]] = []

    def until_done(self, watch: Watch) -> Ending:
        """Move every chain by a round, until all have made their sweeps."""
        for sweep in range(_SWEEPS_A_ROUND, self._sweeps + 1, _SWEEPS_A_ROUND):
            for chain in range(len(self._states)):
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
        visit = {"chain": chain, "sweep": sweep, "log_joint": log_joint}
        for name in ("publications", "types", "alpha_p", "alpha_t"):
            visit[name] = getattr(trace, name)[-1].item()
        self.visits.append(visit)

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
                self._sweeps,
                len(np.unique(self._best)),
                self._best_log_joint,
            ),
        )

    def posterior(self, ended: Ending) -> Posterior:
        """By the visits; the log posterior is the point estimate's by `log_terms`."""
        subproblems, _ = subproblems_of(self._sample(), self._best, self._particles, _nothing)
        clusters = [cluster for each in subproblems for cluster in each.clusters]
        value = float(self.log_terms(clusters).sum())
        return Posterior(subproblems, value, len(self._best), 0, ended)

    def _sample(self) -> VisitSample:
        rows = [row for chain in self._groupings for row in chain[len(chain) // 2 :]]
        if not rows:
            return VisitSample(np.zeros((0, len(self._best)), np.int32), np.zeros(0, np.int64))
        different, often = np.unique(np.stack(rows), axis=0, return_counts=True)
        return VisitSample(different.astype(np.int32), often)


def _nothing(clusters: Sequence[Cluster]) -> FloatArray:
    return np.zeros(len(clusters))


def model_of(spec: ModelSpec, clusterer: str) -> Supervised:
    """The trained model."""
    likelihood = without_model(spec).likelihood
    if not isinstance(likelihood, Supervised):
        called = type(likelihood).__name__.lstrip("_").lower()
        raise UsageError(
            f"clusterer {clusterer} learns from labelled fragments: expected --likelihood MODEL "
            f"from kbforge lab train-supervised, got {called}"
        )
    return likelihood


def log_terms_of(likelihood: Supervised, fragments: Sequence[Fragment], alpha: float) -> LogTerms:
    """What clusters contribute to the log posterior by the model's one scatter, nats."""
    prior = DirichletProcess(alpha)

    def log_terms(clusters: Sequence[Cluster]) -> FloatArray:
        sets = [[fragments[i] for i in cluster] for cluster in clusters]
        return prior.log_terms(clusters, likelihood.log_marginal(sets))

    return log_terms


class Linkage(Clusterer):
    """Cut the tree of average linkage where that does best on labelled fragments.

    It takes a model that kbforge lab train-supervised makes, --likelihood MODEL. What an entity's
    fragments seldom differ in counts most. It is where the chains of scdp mostly start.
    """

    unindexed = True

    def cluster(
        self,
        fragments: Sequence[Fragment],
        spec: ModelSpec,
        rng: np.random.Generator,
        on_step: OnStep | None = None,
    ) -> Posterior:
        likelihood = model_of(spec, "linkage")
        terms = log_terms_of(likelihood, fragments, spec.alpha)
        begun = partial(_LinkageRun, likelihood, fragments, terms)
        return concluded(begun, fragments, spec, None, on_step)


class _LinkageRun:
    """Every fragment by itself, until they are linked."""

    def __init__(
        self, likelihood: Supervised, fragments: Sequence[Fragment], log_terms: LogTerms
    ) -> None:
        self._likelihood, self._fragments, self.log_terms = likelihood, fragments, log_terms
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
        """One grouping, each cluster a separate subproblem."""
        return Posterior(
            tuple(Subproblem(cluster, (Particle(0.0, (cluster,)),)) for cluster in self._clusters),
            float(self.log_terms(self._clusters).sum()),
            len(self._fragments),
            0,
            ended,
        )


LINKED = "linked"


class ScdpSampler(Clusterer):
    """Group fragments beside labelled ones, which show what differs within an entity.

    It takes a model that kbforge lab train-supervised makes, --likelihood MODEL. What comes out is
    the sample that the second half of the chains' sweeps is. Concentrations are sampled; alpha is
    not used, but for the log posterior that is told of the result, by the model's one scatter.
    """

    unindexed = True

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
            model: model of the paper: 1 has conjugate priors, 2 re-estimates the prior of the
                precisions, 3 has separation; `none` takes the model that did best on hidden
                labelled entities.
            sweeps: sweeps of each chain, at least 2.
            chains: number of chains, each with its own draws.
            start: `linked` starts with the grouping of `linkage`; `one` with one cluster;
                `singletons` with every fragment by itself; a file that `kbforge cluster` wrote,
                with its groups.
            shared: whether fragments may join the labelled entities; those that join the same one
                are one entity.
            particles: P, the maximum number of groupings kept for a subproblem.
            budget: stop after this many seconds (the result then depends on the machine); `none`
                sets no limit.
            trace: file for the trace of each chain: a line of JSON every second sweep, with the log
                joint density and the numbers of publications and types.

        """
        require_positive(chains=chains, budget=budget, particles=particles)
        if sweeps < _SWEEPS_A_ROUND:
            raise UsageError(
                f"sweeps: expected a whole number from {_SWEEPS_A_ROUND}, got {sweeps}"
            )
        self.particles = self._kept = particles
        self._model, self._shared, self._budget, self._trace = model, shared, budget, trace
        self._start = require_start(start, LINKED, ONE, SINGLETONS)
        self._sweeps, self._chains = sweeps, chains

    def cluster(
        self,
        fragments: Sequence[Fragment],
        spec: ModelSpec,
        rng: np.random.Generator,
        on_step: OnStep | None = None,
    ) -> Posterior:
        likelihood = model_of(spec, "scdp")
        runs: list[ScdpRun] = []

        def begun() -> ScdpRun:
            runs.append(self._begun(likelihood, fragments, spec.alpha, rng))
            return runs[0]

        found = concluded(begun, fragments, spec, self._budget, on_step)
        if self._trace is not None:
            with open_output(self._trace) as out:
                for line in runs[0].visits if runs else []:
                    out.write(orjson.dumps(line) + b"\n")
        return found

    def _begun(
        self,
        likelihood: Supervised,
        fragments: Sequence[Fragment],
        alpha: float,
        rng: np.random.Generator,
    ) -> ScdpRun:
        model = self._model or likelihood.settings.model
        choice = likelihood.settings.choices[model]
        scaled = likelihood.vectors(fragments)
        data = references(scaled.train, scaled.labels, scaled.test)
        start = self._first(scaled, fragments)
        made = replace(variant(model, choice.rate, choice.power), shared=self._shared)
        terms = log_terms_of(likelihood, fragments, alpha)
        return ScdpRun(made, data, start, self._sweeps, self._chains, self._kept, terms, rng)

    def _first(self, data: ScaledVectors, fragments: Sequence[Fragment]) -> IntArray:
        if self._start == LINKED:
            return linked(data)
        out = np.zeros(len(fragments), dtype=np.int64)
        for number, group in enumerate(groups_from(self._start, fragments)):
            out[list(group)] = number
        return out
