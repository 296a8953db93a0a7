"""The plugins that choices name, not fitted yet, and the record of how a knowledge base was made.

`kbforge.fit.prepare` fits the plugins to fragments; a store restores what they had learned. With
the record, `kbforge explain` uses the same models again.
"""

from __future__ import annotations

import hashlib
from collections.abc import Mapping
from copy import copy
from dataclasses import dataclass, fields, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeVar

from kbforge import registry
from kbforge.contracts import (
    CandidateIndex,
    Clusterer,
    ConjugateLikelihood,
    Constraints,
    Likelihood,
    Problem,
    Provenance,
)
from kbforge.errors import ModelError, UsageError, quoted
from kbforge.fit.choices import DEFAULT_LIKELIHOOD, NO_INDEX, Choices, called
from kbforge.models.bundle import MANIFEST, default_folder
from kbforge.models.resolve import is_name, make_likelihood, make_surrogate, takes_device
from kbforge.models.tempering import tempered
from kbforge.version import __version__

if TYPE_CHECKING:
    from kbforge.fit.confidence import ConfidenceMap
    from kbforge.fit.judge import Judgement


Plugin = TypeVar("Plugin")

MANY = 2000
"""With more fragments, a likelihood that brings no index gets one if there is one for it."""

_OF_MANY = ("ngrams", "projection")
_GREEDY_MAX_EVALS = 100


@dataclass(frozen=True, slots=True)
class Models:
    """What the choices name, fitted to the fragments at hand.

    Attributes:
        likelihood: before tempering.
        surrogate: None if there is none.
        index: which clusters to compare with; None is all.
        max_evals: M.

    """

    likelihood: Likelihood
    surrogate: ConjugateLikelihood | None
    index: CandidateIndex | None
    max_evals: int | None

    def problem(self, alpha: float, choices: Choices) -> Problem:
        """What to cluster by, at the temperature chosen."""
        index = self.index
        if index is not None and choices.exact:
            index = copy(index)  # it may be the user's own; what it learned is shared
            index.compared = 0
        problem = Problem(self.likelihood, alpha, self.surrogate, self.max_evals, index)
        linked = Constraints(link=choices.link)
        return replace(tempered(problem, choices.temperature), constraints=linked)


@dataclass(frozen=True, slots=True)
class Fit:
    """What suits a file: a clusterer with its problem, a confidence map, and why.

    Attributes:
        problem: at the temperature chosen.
        alpha: the concentration before tempering.
        confidence: the map that goes with the choices, if any.
        likelihood: name of the likelihood, or the path of its bundle.
        models: what the problem is made of.
        judgement: what the judge found in the file, None if it was not asked.
        notes: sentences for the user: what was fitted, what was ignored.

    """

    clusterer: Clusterer
    problem: Problem
    alpha: float
    confidence: ConfidenceMap | None
    likelihood: str
    models: Models
    judgement: Judgement | None
    notes: tuple[str, ...]


def make_models(
    choices: Choices,
    clusterer: Clusterer,
    notes: list[str],
    fitted: Likelihood | None = None,
    many: bool = False,
) -> Models:
    """The plugins that the choices name, still to be fitted.

    Args:
        choices: name a likelihood.
        clusterer: that will cluster by them.
        notes: sentences for the user are added to them.
        fitted: a likelihood to take instead.
        many: whether there are so many fragments that a likelihood without an index gets one.

    Raises:
        KBForgeError: an unknown plugin or option, no usable GPU.

    """
    likelihood = fitted or _likelihood(choices, notes)
    surrogate = _surrogate(choices, likelihood)
    if surrogate is not None and choices.max_evals is None:
        max_evals: int | None = clusterer.particles or _GREEDY_MAX_EVALS
    else:
        max_evals = choices.max_evals
    index = _index(choices, likelihood, clusterer)
    by_itself = choices.index is None and not choices.exact and not clusterer.unindexed
    if index is None and many and by_itself:
        index = _index_of_many(likelihood, notes)
    return Models(likelihood, surrogate, index, max_evals)


def default_options(name: str, defaults: str | None) -> dict[str, Any]:
    """The options of a likelihood that the default takes: a model of the folder, if it has one."""
    held = defaults is not None and (Path(defaults) / f"{name}.safetensors").is_file()
    return {"model": defaults} if held else {}


def make_clusterer(choices: Choices) -> Clusterer:
    """The clusterer that the choices name.

    Raises:
        UsageError: it has no such option, or particles are given twice.

    """
    options = choices.of("clusterer")
    if choices.particles is not None:
        if "particles" in options:
            raise UsageError("--particles and --set clusterer.particles mean the same; choose one")
        options["particles"] = choices.particles
    if not isinstance(choices.clusterer, str):
        return _own(choices.clusterer, Clusterer, "clusterer", options)
    made: Clusterer = registry.create("clusterers", choices.clusterer, options)
    return made


def _likelihood(choices: Choices, notes: list[str]) -> Likelihood:
    options = choices.of("likelihood")
    name = choices.likelihood or DEFAULT_LIKELIHOOD
    if not isinstance(name, str):
        return _own(name, Likelihood, "likelihood", options)
    if choices.device != "cpu":
        if takes_device(name):
            options.setdefault("device", choices.device)
        else:
            notes.append(f"likelihood {name} runs on the CPU: it cannot use a GPU")
    return make_likelihood(name, options)


def _surrogate(choices: Choices, likelihood: Likelihood) -> ConjugateLikelihood | None:
    options = choices.of("surrogate")
    if isinstance(choices.surrogate, str):
        return make_surrogate(choices.surrogate, options)
    if choices.surrogate is not None:
        return _own(choices.surrogate, ConjugateLikelihood, "surrogate", options)
    if options:
        raise UsageError(
            f"--set surrogate.{next(iter(options))}: there is no surrogate; "
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


def _index(choices: Choices, likelihood: Likelihood, clusterer: Clusterer) -> CandidateIndex | None:
    chosen, options = choices.index, choices.of("index")
    if options and chosen in (None, NO_INDEX):
        raise UsageError(
            f"--set index.{next(iter(options))}: there is no index; name one with --index"
        )
    if choices.exact and "compared" in options:
        raise UsageError(
            "--exact and --set index.compared both say how many clusters a fragment is compared "
            "with; choose one"
        )
    if clusterer.unindexed:
        if chosen not in (None, NO_INDEX):
            raise UsageError(
                f"--index {called(chosen)}: {choices.clusterer_name} always compares with all "
                "clusters; leave out --index, or name another clusterer"
            )
        return None
    if chosen is None:
        return likelihood.index
    if chosen == NO_INDEX:
        return None
    if not isinstance(chosen, str):
        return _own(chosen, CandidateIndex, "index", options)
    made: CandidateIndex = registry.create("indexes", chosen, options)
    return made


def _index_of_many(likelihood: Likelihood, notes: list[str]) -> CandidateIndex | None:
    """The index for a likelihood that brings none and is to cluster many fragments, if any."""
    for name in _OF_MANY:
        if name not in registry.names("indexes"):
            continue
        index: CandidateIndex | None = registry.load("indexes", name).suited(likelihood)
        if index is not None:
            notes.append(
                f"index {name}, as there are more than {MANY:,} fragments: each is compared with "
                f"at most {index.compared} similar clusters; --exact compares with all"
            )
            return index
    return None


def _own(given: Plugin, base: type, kind: str, options: dict[str, object]) -> Plugin:
    """An object of the user's own, in place of a plugin's name; it was made with its options."""
    if not isinstance(given, base):
        raise UsageError(
            f"{kind}: expected a name or a {base.__name__}, got a {type(given).__name__}; "
            f"give its class the base class kbforge.contracts.{base.__name__}"
        )
    if options:
        raise UsageError(
            f"--set {kind}.{next(iter(options))}: expected no options for a {kind} that is an "
            "object; it was made with its own"
        )
    return given


_ELSEWHERE = {"likelihood", "alpha", "seed", "options", "device"}
"""Choices that `Provenance` has under names of their own, and one that changes no result."""
_NOT_OF_RESULTS = {"executor"}
"""Kinds of plugins that change no result."""


def made_of(prepared: Fit, choices: Choices) -> Provenance:
    """How the entities are made.

    Args:
        prepared: has the likelihood and the alpha.
        choices: as the user gave them.

    """
    plain = Choices()
    given: dict[str, str | float] = {}
    for one in fields(Choices):
        value = getattr(choices, one.name)
        if one.name not in _ELSEWHERE and value != getattr(plain, one.name):
            given[one.name] = value if isinstance(value, str | int | float) else called(value)
    options = {
        kind: {name: _text(value) for name, value in of_kind.items()}
        for kind, of_kind in choices.options.items()
        if of_kind and kind not in _NOT_OF_RESULTS
    }
    if choices.likelihood is None and not choices.of("likelihood"):
        taken = default_options(prepared.likelihood, choices.defaults)
        options |= {"likelihood": taken} if taken else {}
    return Provenance(
        kbforge=__version__,
        likelihood=prepared.likelihood,
        alpha=prepared.alpha,
        seed=choices.seed,
        model=model_digest(prepared.likelihood, options.get("likelihood", {})),
        choices=given,
        options=options,
    )


def choices_of(made: Provenance, kb: str) -> Choices:
    """Likelihood, alpha, temperature and options that a knowledge base was made with.

    Args:
        made: how it was made.
        kb: its name, for messages.

    Raises:
        ModelError: the model is not there, or is another one.

    """
    options = dict(made.options.get("likelihood", {}))
    digest = model_digest(made.likelihood, options)
    plain = is_name(made.likelihood)
    if digest != made.model or (digest is None and not plain):
        was = "is missing" if digest is None else "has changed"
        version = "" if made.kbforge == __version__ else f" by kbforge {made.kbforge:.20}"
        raise ModelError(
            f"{quoted(kb, 400)} was made{quoted(version)} with the model "
            f"{quoted(made.likelihood, 400)}, which {was}; restore it, or name another with "
            "--likelihood"
        )
    return Choices(
        likelihood=made.likelihood,
        alpha=made.alpha,
        temperature=float(made.choices.get("temperature", 1.0)),
        options={"likelihood": options},
    )


def model_digest(likelihood: str, options: Mapping[str, object]) -> str | None:
    """SHA-256 of a bundle's manifest, or of the default model that a likelihood reads; None: none.

    Args:
        likelihood: name, or path of a bundle.
        options: of the likelihood.

    """
    if not is_name(likelihood):
        return _digest(Path(likelihood) / MANIFEST)
    name, model = f"{likelihood}.safetensors", options.get("model")
    if model is not None and Path(str(model)).is_file():
        return _digest(Path(str(model)))
    return _digest(default_folder(None if model is None else str(model), name) / name)


def _digest(path: Path) -> str | None:
    if not path.is_file():
        return None
    with path.open("rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()


def _text(value: object) -> str:
    """An option as the command line gives it."""
    if isinstance(value, bool):
        return str(value).lower()
    return str(value) if isinstance(value, str | int | float | Path) else called(value)
