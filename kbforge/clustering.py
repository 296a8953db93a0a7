"""The main job: fragments -> posterior, by names and options as a user gives them."""

from __future__ import annotations

import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np

from kbforge import registry
from kbforge.calibration import read_calibration
from kbforge.cluster.priors import DirichletProcess
from kbforge.config import option_parameters
from kbforge.contracts import (
    Accompanied,
    Clusterer,
    ConjugateLikelihood,
    Fragment,
    Likelihood,
    OnStep,
    Posterior,
    Problem,
)
from kbforge.devices import require_device
from kbforge.errors import KBForgeError, UsageError
from kbforge.models import (
    default_alpha,
    fit_to_input,
    is_name,
    make_likelihood,
    make_surrogate,
    takes_device,
)

DEFAULT_LIKELIHOOD = "bigram"
_CALIBRATION_IN_BUNDLE = "calibration.toml"
_GREEDY_MAX_EVALS = 100


@dataclass(frozen=True, slots=True)
class Choices:
    """What a user may choose of a clustering run; the defaults are the command line's.

    Attributes:
        clusterer: name of a clusterer plugin.
        likelihood: name of a likelihood plugin or path of a model bundle; None takes the bigram
            model.
        surrogate: name or path of the model that proposes for the likelihood; None takes the one
            the likelihood brings, if any.
        particles: P; None is the clusterer's default.
        max_evals: M; None is P with a surrogate (100 for the greedy clusterer).
        alpha: concentration; None takes the calibration's, else the likelihood's own default.
        calibration: a file that `kbforge calibrate` wrote; None takes the bundle's, if any.
        seed: of all random numbers.
        device: "cpu" or "cuda".
        options: plugin kind ("likelihood", "surrogate", "clusterer") -> option -> value.

    """

    clusterer: str = "split-smc"
    likelihood: str | None = None
    surrogate: str | None = None
    particles: int | None = None
    max_evals: int | None = None
    alpha: float | None = None
    calibration: str | None = None
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
        alpha: the concentration used.
        notes: sentences for the user: what was fitted, what was ignored.

    """

    posterior: Posterior
    seconds: float
    alpha: float
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
        }


@dataclass(frozen=True, slots=True)
class Prepared:
    """A clusterer and its problem, ready for the fragments they were prepared on."""

    clusterer: Clusterer
    problem: Problem
    notes: tuple[str, ...]


def prepare(fragments: Sequence[Fragment], choices: Choices) -> Prepared:
    """Make the plugins that the choices name and fit what fits itself to the input.

    Raises:
        KBForgeError: nothing to cluster, an unknown plugin or option, no usable GPU.

    """
    if not fragments:
        raise KBForgeError("there are no fragments to cluster")
    notes: list[str] = []
    clusterer, particles = _clusterer(choices)
    if choices.alpha is not None:
        DirichletProcess(choices.alpha)  # refuses what cannot be one before anything is loaded
    likelihood = _likelihood(fragments, choices, notes)
    surrogate = _surrogate(choices, likelihood)
    for model in (likelihood, surrogate):
        said = fit_to_input(model, fragments)
        if said:
            notes.append(said)
    if surrogate is not None and choices.max_evals is None:
        max_evals: int | None = particles or _GREEDY_MAX_EVALS
    else:
        max_evals = choices.max_evals
    alpha = _alpha(likelihood, choices, notes)
    problem = Problem(likelihood, alpha, surrogate, max_evals)
    return Prepared(clusterer, problem, tuple(notes))


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
    return Clustering(posterior, seconds, prepared.problem.alpha, prepared.notes)


def _likelihood(fragments: Sequence[Fragment], choices: Choices, notes: list[str]) -> Likelihood:
    name = choices.likelihood
    if name is None:
        if not any(fragment.properties for fragment in fragments):
            raise UsageError(
                "the fragments have vectors and no properties: name a numeric likelihood, "
                "such as --likelihood gaussian"
            )
        name = DEFAULT_LIKELIHOOD
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
    if isinstance(likelihood, Accompanied) and likelihood.surrogate is not None:
        return likelihood.surrogate
    if choices.max_evals is not None:
        raise UsageError(
            "--max-evals limits what a surrogate proposes, but there is none; "
            "name one with --surrogate"
        )
    return None


def _clusterer(choices: Choices) -> tuple[Clusterer, int | None]:
    """The clusterer, and the P it will use if it has one."""
    options = choices.of("clusterer")
    if choices.particles is not None:
        if "particles" in options:
            raise UsageError("--particles and --set clusterer.particles mean the same; choose one")
        options["particles"] = choices.particles
    made: Clusterer = registry.create("clusterers", choices.clusterer, options)
    parameter = option_parameters(registry.load("clusterers", choices.clusterer)).get("particles")
    particles = options.get("particles", parameter.default if parameter else None)
    return made, int(str(particles)) if isinstance(particles, int | str) else None


def _alpha(likelihood: Likelihood, choices: Choices, notes: list[str]) -> float:
    if choices.alpha is not None and choices.calibration is not None:
        raise UsageError("--alpha and --calibration both say what alpha is; choose one")
    if choices.alpha is not None:
        return choices.alpha
    if choices.calibration is not None:
        found = read_calibration(choices.calibration)
        used = choices.likelihood or DEFAULT_LIKELIHOOD
        # a model may since have moved, or be named from another folder
        if Path(found.likelihood).name != Path(used).name:
            notes.append(
                f"{choices.calibration} is a calibration of the likelihood {found.likelihood}, "
                f"used here with {used}"
            )
        elif dict(found.options) != {k: str(v) for k, v in choices.of("likelihood").items()}:
            notes.append(
                f"{choices.calibration} was made with other options of the likelihood: "
                f"{_listed(found.options)} there, {_listed(choices.of('likelihood'))} here"
            )
        return found.alpha
    if choices.likelihood is not None and not is_name(choices.likelihood):
        bundled = Path(choices.likelihood) / _CALIBRATION_IN_BUNDLE
        if bundled.is_file():
            return read_calibration(str(bundled)).alpha
        if Path(choices.likelihood).is_dir():
            notes.append(
                f"{choices.likelihood} has no calibration, so alpha is a guess; "
                "kbforge calibrate finds it (then --calibration or --alpha)"
            )
    return default_alpha(likelihood)


def _listed(options: Mapping[str, object]) -> str:
    return ", ".join(f"{name}={value}" for name, value in options.items()) or "none"
