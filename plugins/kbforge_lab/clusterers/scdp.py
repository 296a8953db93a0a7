"""Supervised clustering with the Dirichlet process (Daumé and Marcu 2005), offline."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import Literal

import numpy as np
import orjson

from kbforge.clustering.batch.run import concluded
from kbforge.contracts import (
    Clusterer,
    Fragment,
    IntArray,
    OnStep,
    Posterior,
    Problem,
)
from kbforge.files.io import open_output
from kbforge_lab.clusterers.examples import log_terms_of, model_of
from kbforge_lab.likelihoods.supervised import Supervised
from kbforge_lab.models.supervised import Scaled, linked
from kbforge_lab.scdp.chain_run import ScdpRules, ScdpRun
from kbforge_lab.scdp.references import references
from kbforge_lab.scdp.sampler import SCDP1, SCDP2, SCDP3
from kbforge_lab.scdp.sampler import Scdp as Model
from kbforge_lab.scdp.separation import Near
from kbforge_plugins.clusterers.offline import ONE, SINGLETONS, groups_from, require_start
from kbforge_plugins.resamplers import Optimal

LINKED = "linked"


class Scdp(Clusterer):
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


def variant(model: int, rate: float, power: float) -> Model:
    """The model of a number; the rate is that of model 3's separation."""
    published = {1: SCDP1, 2: SCDP2, 3: replace(SCDP3, separation=Near(rate))}[model]
    return replace(published, power=power)
