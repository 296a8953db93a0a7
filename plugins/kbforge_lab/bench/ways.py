"""One run of a whole way to a grouping, in this process: group as `kbforge cluster` does, score.

What counts is what a user gets. So fitting is part of the time, the memory is measured, and so is
how far the confidence can be trusted: raw, and by the map that goes with the likelihood.
"""

from __future__ import annotations

import math
import time
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import orjson

from kbforge import __version__
from kbforge.contracts import Fragment, Interrupted, OnStep, Posterior, Progress
from kbforge.errors import KBForgeError
from kbforge.evaluation.reliability import (
    LEAST,
    Claims,
    ReportedPairs,
    entity_claims,
    entity_probabilities,
    pair_claims,
    pair_probabilities,
    reliability,
)
from kbforge.evaluation.scores import Scores, compare
from kbforge.fit.choices import Choices
from kbforge.fit.confidence import ClusteringReport
from kbforge.fit.models import Fit
from kbforge.fit.prepare import prepare
from kbforge_lab.bench.baselines import BASELINES
from kbforge_lab.bench.costs import Clocks, peak_mib
from kbforge_lab.bench.results import Row
from kbforge_lab.bench.runs import Run


def measured(run: Run) -> Row:
    """Do one run of a task without a likelihood."""
    fragments = run.fragments()
    gold = [str(fragment.label) for fragment in fragments]
    begin = Clocks.now()
    if run.method.baseline is not None:
        labels = BASELINES[run.method.baseline](fragments)
        return Row(
            **_about(run, len(fragments)),
            **_scored(compare(labels, gold)),
            **_costs(begin),
            fragments=len(fragments),
            cut=False,
            log_posterior=-math.inf,
            subproblems=0,
            log10_effective_particles=0.0,
            model_evaluations=0,
        )
    prepared = prepare(fragments, _choices(run))
    found = _best(run, prepared, fragments, gold, begin.wall + run.seconds)
    costs = _costs(begin)
    posterior = found.posterior
    return Row(
        **_about(run, len(fragments)),
        **_scored(found.scores),
        **costs,
        fragments=posterior.n_fragments,
        cut=found.cut,
        log_posterior=posterior.log_posterior,
        subproblems=len(posterior.subproblems),
        log10_effective_particles=posterior.log10_effective_particles,
        model_evaluations=posterior.model_evaluations,
        model=_model(run, prepared),
        alpha=found.alpha,
        **_doubt(fragments, posterior, gold, prepared),
    )


@dataclass(frozen=True, slots=True)
class _Found:
    """A grouping, the alpha that it was made at, its scores, and whether time ran out."""

    posterior: Posterior
    alpha: float
    scores: Scores
    cut: bool


def _best(
    run: Run, prepared: Fit, fragments: Sequence[Fragment], gold: Sequence[str], until: float
) -> _Found:
    """The grouping, or of those at all alphas of the method the one of the best F1."""
    best: _Found | None = None
    for alpha in run.method.alphas or (prepared.alpha,):
        problem = replace(prepared.problem, alpha=alpha)
        rng = np.random.default_rng(run.method_seed)
        posterior = prepared.clusterer.cluster(fragments, problem, rng, _until(until))
        if not posterior.complete and best is not None:
            return replace(best, cut=True)
        scores = compare(posterior.labels(), gold[: posterior.n_fragments])
        found = _Found(posterior, alpha, scores, not posterior.complete)
        if best is None or scores.bcubed_f1_item_mean > best.scores.bcubed_f1_item_mean:
            best = found
        if found.cut:
            break
    assert best is not None
    return best


def _until(until: float) -> OnStep:
    def on_step(progress: Progress) -> None:
        if time.perf_counter() > until:
            raise Interrupted

    return on_step


def _choices(run: Run) -> Choices:
    method, model = run.method, run.method.likelihood
    options = {"likelihood": model.options if model else {}, "clusterer": method.options}
    more: dict[str, Any] = {}
    if run.task.defaults is not None:
        more["defaults"] = run.task.defaults
    return Choices(
        clusterer=method.clusterer,
        likelihood=None if model is None else model.name,
        particles=method.particles,
        max_evals=method.max_evals,
        seed=run.method_seed,
        # none where none are given: the default is then what it is without options
        options={kind: given for kind, given in options.items() if given},
        **more,
    )


def _model(run: Run, prepared: Fit) -> str:
    """What the likelihood is called: as the method names it, else what the default took."""
    if run.method.likelihood is not None:
        return run.method.likelihood.name
    return type(prepared.problem.likelihood).__name__.lower()


def _about(run: Run, of: int) -> dict[str, Any]:
    return {
        **run.identity,
        "clusterer": run.method.clusterer,
        "options": orjson.dumps(run.method.options, option=orjson.OPT_SORT_KEYS).decode(),
        "budget": run.seconds,
        "of": of,
        "version": __version__,
    }


def _scored(scores: Scores) -> dict[str, Any]:
    return {
        "f1": scores.bcubed_f1_item_mean,
        "precision": scores.bcubed_precision,
        "recall": scores.bcubed_recall,
        "entities": scores.clusters,
        "gold_entities": scores.gold_clusters,
        "exact_entities": scores.exact_clusters,
    }


def _costs(begin: Clocks) -> dict[str, Any]:
    spent = Clocks.now() - begin
    return {"seconds": spent.wall, "cpu_seconds": spent.cpu, "peak_mib": peak_mib()}


def _doubt(
    fragments: Sequence[Fragment], posterior: Posterior, gold: Sequence[str], prepared: Fit
) -> dict[str, Any]:
    """The expected calibration errors, None of what there are no claims or too many of."""
    entities = entity_probabilities([posterior])
    out: dict[str, Any] = {"entities_ece": _ece(entity_claims(entities, gold))}
    try:
        pairs: ReportedPairs | None = pair_probabilities([posterior], LEAST)
    except KBForgeError:
        pairs = None
    if pairs is not None:
        out["pairs_ece"] = _ece(pair_claims(pairs, gold))
    by = prepared.confidence
    if by is None:
        return out
    reported = ClusteringReport(fragments[: posterior.n_fragments], entities)
    sure = replace(entities, probability=by.of_entities(reported))
    out["entities_ece_mapped"] = _ece(entity_claims(sure, gold))
    if pairs is not None:
        mapped = replace(pairs, probability=by.of_pairs(reported, pairs))
        out["pairs_ece_mapped"] = _ece(pair_claims(mapped, gold))
    return out


def _ece(claims: Claims) -> float | None:
    return reliability(claims).ece if len(claims) else None
