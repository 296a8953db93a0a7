"""The main job: fragments -> posterior, by names and options as a user gives them."""

from __future__ import annotations

import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np

from kbforge import registry
from kbforge.clustering.prior import DirichletProcess
from kbforge.contracts import (
    CandidateIndex,
    Clusterer,
    ConjugateLikelihood,
    Fragment,
    Likelihood,
    OnStep,
    Posterior,
    Problem,
)
from kbforge.errors import KBForgeError, UsageError
from kbforge.models.calibration import Calibration, read_calibration
from kbforge.models.confidence import IN_BUNDLE, ConfidenceMap, read_confidence
from kbforge.models.devices import require_device
from kbforge.models.resolve import (
    is_name,
    make_likelihood,
    make_surrogate,
    takes_device,
)
from kbforge.models.tempering import tempered

DEFAULT_LIKELIHOOD = "attributes"
NO_INDEX = "none"
_ATTRIBUTES_OF_A_RECORD = 3
_CALIBRATION_IN_BUNDLE = "calibration.toml"
_GREEDY_MAX_EVALS = 100


@dataclass(frozen=True, slots=True)
class Choices:
    """What a user may choose of a clustering run; the defaults are the command line's.

    Attributes:
        clusterer: name of a clusterer plugin.
        likelihood: name of a likelihood plugin or path of a model bundle; None takes the
            attribute model.
        surrogate: name or path of the model that proposes for the likelihood; None takes the one
            the likelihood brings, if any.
        index: name of the index that says which clusters a fragment is compared with; "none"
            compares with all; None takes the one the likelihood brings, if any.
        particles: P; None is the clusterer's default.
        max_evals: M; None is P with a surrogate (100 for the greedy clusterer).
        alpha: concentration; None takes the calibration's, else the likelihood's own default.
        calibration: a file that `kbforge calibrate` wrote; None takes the bundle's, if any.
        confidence_map: a file that `kbforge reliability --fit` wrote; None takes the calibration
            file's, else the bundle's, if any.
        temperature: all log likelihoods are divided by it.
        seed: of all random numbers.
        device: "cpu" or "cuda".
        options: plugin kind ("likelihood", "surrogate", "index", "clusterer") -> option -> value.

    """

    clusterer: str = "split-smc"
    likelihood: str | None = None
    surrogate: str | None = None
    index: str | None = None
    particles: int | None = None
    max_evals: int | None = None
    alpha: float | None = None
    calibration: str | None = None
    confidence_map: str | None = None
    temperature: float = 1.0
    seed: int = 0
    device: str = "cpu"
    options: Mapping[str, Mapping[str, object]] = field(default_factory=dict)

    def of(self, kind: str) -> dict[str, object]:
        """The options for a kind of plugin."""
        return dict(self.options.get(kind, {}))


@dataclass(frozen=True, slots=True)
class Clustering:
    """A finished run.

    Attributes:
        posterior: the result.
        seconds: wall time of the clustering itself, without imports, reading and fitting.
        alpha: the concentration used, before tempering.
        confidence: how to read the confidence of the entities, None if nothing says.
        notes: sentences for the user: what was fitted, what was ignored.

    """

    posterior: Posterior
    seconds: float
    alpha: float
    confidence: ConfidenceMap | None
    notes: tuple[str, ...]

    def summary(self) -> dict[str, Any]:
        """The figures that `kbforge cluster --json` prints."""
        posterior = self.posterior
        return {
            "fragments": posterior.n_fragments,
            "entities": len(posterior.clusters()),
            "subproblems": len(posterior.subproblems),
            "log_posterior": posterior.log_posterior,
            "log10_effective_particles": posterior.log10_effective_particles,
            "model_evaluations": posterior.model_evaluations,
            "seconds": self.seconds,
            "fragments_per_second": posterior.n_fragments / max(self.seconds, 1e-9),
            "alpha": self.alpha,
            "complete": posterior.complete,
            "ended": posterior.ended,
        }


@dataclass(frozen=True, slots=True)
class Prepared:
    """A clusterer and its problem, ready for the fragments they were prepared on.

    Attributes:
        problem: at the temperature chosen.
        alpha: the concentration before tempering.
        confidence: the map that goes with the choices, if any.

    """

    clusterer: Clusterer
    problem: Problem
    alpha: float
    confidence: ConfidenceMap | None
    notes: tuple[str, ...]


def prepare(fragments: Sequence[Fragment], choices: Choices) -> Prepared:
    """Make the plugins that the choices name and fit what fits itself to the input.

    Raises:
        KBForgeError: nothing to cluster, an unknown plugin or option, no usable GPU.

    """
    if not fragments:
        raise KBForgeError("there are no fragments to cluster")
    notes: list[str] = []
    clusterer = _clusterer(choices)
    if choices.alpha is not None:
        DirichletProcess(choices.alpha)  # refuses what cannot be one before anything is loaded
    likelihood = _likelihood(fragments, choices, notes)
    surrogate = _surrogate(choices, likelihood)
    index = _index(fragments, choices, likelihood, clusterer)
    for model in (likelihood, surrogate):
        said = None if model is None else model.fit(fragments)
        if said:
            notes.append(said)
    if surrogate is not None and choices.max_evals is None:
        max_evals: int | None = clusterer.particles or _GREEDY_MAX_EVALS
    else:
        max_evals = choices.max_evals
    named = _named_calibration(choices)
    alpha = _alpha(likelihood, choices, named, notes)
    problem = tempered(Problem(likelihood, alpha, surrogate, max_evals, index), choices.temperature)
    confidence = _confidence(choices, named, notes)
    return Prepared(clusterer, problem, alpha, confidence, tuple(notes))


def cluster(
    fragments: Sequence[Fragment], choices: Choices, on_step: OnStep | None = None
) -> Clustering:
    """Cluster fragments, in the order given.

    Raises:
        KBForgeError: as `prepare`.
        LikelihoodError: the likelihood failed on a fragment, which the message names.

    """
    prepared = prepare(fragments, choices)
    begin = time.perf_counter()
    posterior = prepared.clusterer.cluster(
        fragments, prepared.problem, np.random.default_rng(choices.seed), on_step
    )
    seconds = time.perf_counter() - begin
    return Clustering(posterior, seconds, prepared.alpha, prepared.confidence, prepared.notes)


def _likelihood(fragments: Sequence[Fragment], choices: Choices, notes: list[str]) -> Likelihood:
    name = choices.likelihood
    if name is None:
        if not any(fragment.properties for fragment in fragments):
            raise UsageError(
                "the fragments have vectors and no properties: name a numeric likelihood, "
                "such as --likelihood gaussian"
            )
        name = DEFAULT_LIKELIHOOD
        few = sum(len(fragment.properties) < _ATTRIBUTES_OF_A_RECORD for fragment in fragments)
        if 2 * few > len(fragments):
            notes.append(
                f"most fragments have fewer than {_ATTRIBUTES_OF_A_RECORD} attributes, which is "
                f"little for {name} to learn from; --likelihood bigram compares names by their "
                "characters, --likelihood gpt reads them"
            )
    options = choices.of("likelihood")
    if choices.device != "cpu":
        require_device(choices.device)
        if takes_device(name):
            options.setdefault("device", choices.device)
        else:
            notes.append(f"likelihood {name} runs on the CPU: it has no use for a GPU")
    return make_likelihood(name, options)


def _surrogate(choices: Choices, likelihood: Likelihood) -> ConjugateLikelihood | None:
    if choices.surrogate is not None:
        return make_surrogate(choices.surrogate, choices.of("surrogate"))
    if choices.of("surrogate"):
        raise UsageError(
            f"--set surrogate.{next(iter(choices.of('surrogate')))}: there is no surrogate; "
            "name one with --surrogate"
        )
    if likelihood.surrogate is not None:
        return likelihood.surrogate
    if choices.max_evals is not None:
        raise UsageError(
            "--max-evals limits what a surrogate proposes, but there is none; "
            "name one with --surrogate"
        )
    return None


def _index(
    fragments: Sequence[Fragment], choices: Choices, likelihood: Likelihood, clusterer: Clusterer
) -> CandidateIndex | None:
    named = None if choices.index == NO_INDEX else choices.index
    if choices.of("index") and named is None:
        raise UsageError(
            f"--set index.{next(iter(choices.of('index')))}: there is no index; "
            "name one with --index"
        )
    if clusterer.unindexed:
        if named is not None:
            raise UsageError(
                f"--index {named}: {choices.clusterer} compares with all clusters in any case; "
                "leave out --index, or name another clusterer"
            )
        return None
    if named is not None:
        index: CandidateIndex = registry.create("indexes", named, choices.of("index"))
        index.fit(fragments)
        if not any(index.keys(fragment) for fragment in fragments):
            raise UsageError(
                f"--index {named}: it finds no key in any fragment, so that nothing would "
                f"be compared with anything; --index {NO_INDEX} compares with all"
            )
        return index
    return likelihood.index if choices.index is None else None


def _clusterer(choices: Choices) -> Clusterer:
    options = choices.of("clusterer")
    if choices.particles is not None:
        if "particles" in options:
            raise UsageError("--particles and --set clusterer.particles mean the same; choose one")
        options["particles"] = choices.particles
    made: Clusterer = registry.create("clusterers", choices.clusterer, options)
    return made


def _named_calibration(choices: Choices) -> Calibration | None:
    if choices.calibration is None:
        return None
    if choices.alpha is not None:
        raise UsageError("--alpha and --calibration both say what alpha is; choose one")
    return read_calibration(choices.calibration)


def _alpha(
    likelihood: Likelihood, choices: Choices, named: Calibration | None, notes: list[str]
) -> float:
    if choices.alpha is not None:
        return choices.alpha
    if named is not None:
        used = choices.likelihood or DEFAULT_LIKELIHOOD
        # a model may since have moved, or be named from another folder
        if Path(named.likelihood).name != Path(used).name:
            notes.append(
                f"{choices.calibration} is a calibration of the likelihood {named.likelihood}, "
                f"used here with {used}"
            )
        elif dict(named.options) != {k: str(v) for k, v in choices.of("likelihood").items()}:
            notes.append(
                f"{choices.calibration} was made with other options of the likelihood: "
                f"{_listed(named.options)} there, {_listed(choices.of('likelihood'))} here"
            )
        return named.alpha
    if choices.likelihood is not None and not is_name(choices.likelihood):
        bundled = Path(choices.likelihood) / _CALIBRATION_IN_BUNDLE
        if bundled.is_file():
            return read_calibration(str(bundled)).alpha
        if Path(choices.likelihood).is_dir():
            notes.append(
                f"{choices.likelihood} has no calibration, so alpha is a guess; "
                "kbforge calibrate finds it (then --calibration or --alpha)"
            )
    return float(likelihood.default_alpha)


def _confidence(
    choices: Choices, named: Calibration | None, notes: list[str]
) -> ConfidenceMap | None:
    """The map named, else that of the calibration named, else that of the model bundle."""
    found, where = None, choices.confidence_map
    if where is not None:
        found = read_confidence(where)
    elif named is not None:
        found, where = named.confidence, choices.calibration
    if found is None and choices.likelihood is not None and not is_name(choices.likelihood):
        bundled = Path(choices.likelihood) / IN_BUNDLE
        where = str(bundled)
        found = read_confidence(where) if bundled.is_file() else None
    if found is None:
        return None
    used = choices.likelihood or DEFAULT_LIKELIHOOD
    if Path(found.likelihood).name != Path(used).name:
        notes.append(
            f"the confidence map {where} was fitted with the likelihood {found.likelihood}, used "
            f"here with {used}"
        )
    if found.clusterer != choices.clusterer or found.temperature != choices.temperature:
        notes.append(
            f"the confidence map {where} was fitted with {found.clusterer} at temperature "
            f"{found.temperature:g}, used here with {choices.clusterer} at {choices.temperature:g}"
        )
    return found


def _listed(options: Mapping[str, object]) -> str:
    return ", ".join(f"{name}={value}" for name, value in options.items()) or "none"
