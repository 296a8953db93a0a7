"""The user's choices for a clustering, the plugins that they name, and their record.

The command line makes `RunOptions` from its options, and the Python API from its keywords. The
plugins are not fitted yet: `kbforge.fit.prepare` fits them to fragments, and a store restores their
learned state. With the record in a knowledge base, `kbforge explain` restores the same models.
"""

from __future__ import annotations

import hashlib
from collections import Counter
from collections.abc import Callable, Iterable, Mapping, Sequence
from copy import copy
from dataclasses import dataclass, field, fields, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal, TypeVar

from kbforge import registry
from kbforge.clustering.rules import DirichletProcess
from kbforge.contracts import (
    CandidateIndex,
    Clusterer,
    ConjugateLikelihood,
    Constraints,
    Decision,
    Fragment,
    Likelihood,
    ModelSpec,
    OnlineClusterer,
    Provenance,
)
from kbforge.contracts.clusterer import RuleSet
from kbforge.errors import ModelError, UsageError, counted, did_you_mean, listed, option, quoted
from kbforge.files.rules import read_rules
from kbforge.indexes import make_index
from kbforge.models.bundle import (
    MANIFEST,
    default_folder,
    is_name,
    make_likelihood,
    make_surrogate,
    takes,
)
from kbforge.version import __version__

if TYPE_CHECKING:
    from kbforge.fit.confidence import ConfidenceMap

DEFAULT_LIKELIHOOD = "attributes"
NO_INDEX = "none"

ESTIMATES = ("map", "binder", "vi")

_MOST = (1 << 63) - 1  # JSON and SQLite hold no larger number
_DEVICES = ("cpu", "cuda")
_ALTERNATIVES = ("few", "all")


@dataclass(frozen=True, slots=True)
class RunOptions:
    """The user's choices for a clustering run; the defaults are the command line's.

    A plugin is chosen by its name. A Python user may pass an object instead.

    Attributes:
        clusterer: name of a clusterer plugin, or a clusterer.
        likelihood: name of a likelihood plugin, path of a model bundle, or a likelihood; None
            chooses what suits the file (`kbforge.fit.prepare`).
        surrogate: the model that proposes for the likelihood, in the same forms; None uses the
            likelihood's own, if any.
        index: name of the index that finds the clusters to compare a fragment with, or an index;
            "none" compares with all; None uses the likelihood's own, if any.
        exact: whether a fragment is compared with all clusters that share a key, however many; an
            index other than the likelihood's own is used only if it is named.
        particles: P; None is the clusterer's default.
        max_evals: M; None is P with a surrogate (100 for the greedy clusterer).
        alpha: concentration; None uses the calibration's, else what suits the file.
        size_exponent: of the factor (|C| - 1)! in the prior, from 0 to 10; below 1 large clusters
            are less probable. None is the likelihood's own: 1, the Dirichlet process, for nearly
            all.
        calibration: a file that `kbforge calibrate` wrote; None uses the bundle's, if any.
        confidence_map: a file that `kbforge calibrate --confidence` wrote; None uses the
            calibration file's, else the bundle's, if any.
        defaults: a folder with your own default models; the shipped ones replace missing ones.
        answers: a file that `kbforge review` wrote; every grouping honours it, and it teaches
            the model of pairs.
        labels_from: a file of labels (`kbforge.fit.labels`), which teach the model of pairs.
        estimate: which grouping to write: "map", the heaviest particle; "binder" or "vi", the one
            with the smallest expected loss (`kbforge.kb.consensus`).
        alternatives: which other groupings an entity keeps: "few", the three most probable above
            1 %; or "all".
        link: an attribute, or "source": fragments that share its value are different entities.
        rules: a TOML file of rules (`kbforge.files.rules`), which every grouping honours.
        refers: the attributes whose values name other entities (`kbforge.kb.relations`), separated
            by commas; "auto" finds them, "none" links no value.
        time: an attribute, or a name in metadata, with the times of fragments' statements
            (`kbforge.kb.times`); models do not compare it.
        seed: of all random numbers.
        device: "cpu" or "cuda".
        options: plugin kind ("likelihood", "surrogate", "index", "clusterer") -> option -> value.

    Raises:
        UsageError: a negative number, or an unknown device, estimate or choice of alternatives.

    """

    clusterer: str | Clusterer = "batch"
    likelihood: str | Likelihood | None = None
    surrogate: str | ConjugateLikelihood | None = None
    index: str | CandidateIndex | None = None
    exact: bool = False
    particles: int | None = None
    max_evals: int | None = None
    alpha: float | None = None
    size_exponent: float | None = None
    calibration: str | None = None
    confidence_map: str | None = None
    defaults: str | None = None
    answers: str | None = None
    labels_from: str | None = None
    estimate: str = "map"
    alternatives: str = "few"
    link: str | None = None
    rules: str | None = None
    refers: str = "auto"
    time: str | None = None
    seed: int = 0
    device: str = "cpu"
    options: Mapping[str, Mapping[str, object]] = field(default_factory=dict)

    def __post_init__(self) -> None:
        for name, number in (("max_evals", self.max_evals), ("seed", self.seed)):
            if number is not None and number < 0:
                raise UsageError(f"{option(name)}: expected a whole number from 0, got {number}")
        for name in ("seed", "max_evals", "particles"):
            if (number := getattr(self, name)) is not None and number > _MOST:
                got = quoted(number, 40)
                raise UsageError(f"{option(name)}: expected a whole number of 64 bits, got {got}")
        for name, chosen, known in (
            ("device", self.device, _DEVICES),
            ("estimate", self.estimate, ESTIMATES),
            ("alternatives", self.alternatives, _ALTERNATIVES),
        ):
            if chosen not in known:
                raise UsageError(
                    f"{option(name)}: expected {' or '.join(known)}, got {quoted(chosen)}"
                )

    @property
    def prior(self) -> DirichletProcess:
        """The prior asked for, with alpha 1 and exponent 1 if they are not; a UsageError if there
        is none such."""
        alpha, exponent = self.alpha, self.size_exponent
        return DirichletProcess(
            1.0 if alpha is None else alpha, 1.0 if exponent is None else exponent
        )

    def of(self, kind: str) -> dict[str, object]:
        """The options for a kind of plugin."""
        return dict(self.options.get(kind, {}))

    @property
    def likelihood_name(self) -> str:
        """The likelihood's name in messages and files: a plugin's name, or the path of a bundle."""
        return called(self.likelihood or DEFAULT_LIKELIHOOD)

    @property
    def clusterer_name(self) -> str:
        """The clusterer's name in messages and files."""
        return called(self.clusterer)


def called(chosen: object) -> str:
    """The chosen name, or the class name of an object."""
    return chosen if isinstance(chosen, str) else type(chosen).__name__


SOURCE = "source"
_MOST_NAMES = 12  # attributes that an error lists


def require_link(fragments: Sequence[Fragment], link: str | None) -> None:
    """Refuse a link to an attribute that no fragment has."""
    if link is None or link == SOURCE or not fragments:
        return
    linked = Constraints(link=link)
    if any(map(linked.stated, fragments)):
        return
    names = sorted({attribute for fragment in fragments for attribute in fragment.properties})
    raise UsageError(
        f'{option("link")}: no fragment has "{quoted(link)}"{did_you_mean(link, names)}; expected '
        f"source or one of {listed(names, _MOST_NAMES)}"
    )


def require_rules(fragments: Sequence[Fragment], rules: RuleSet) -> None:
    """Refuse rules about an attribute that no fragment has."""
    wanted = {*rules.never, *rules.always}
    names = sorted({name for x in fragments for name in x.properties}) if wanted else ()
    for attribute in sorted(wanted.difference(names)) if fragments else ():
        raise UsageError(
            f'{option("rules")}: no fragment has "{quoted(attribute)}"'
            f"{did_you_mean(attribute, names)}; expected one of {listed(names, _MOST_NAMES)}"
        )


def note_of_cut(merges: float) -> str:
    """A sentence about the expected merges that a bound on subproblems left out of a posterior; ""
    if there is less than one."""
    if not round(merges):
        return ""
    return (
        f"alternatives and probabilities leave out about {counted(round(merges), 'merge')} between "
        f"subproblems that would be too large; {option('clusterer.largest')} allows larger ones"
    )


def link_note(fragments: Iterable[Fragment], link: str) -> str:
    """A sentence about the fragments that a link separates."""
    linked = Constraints(link=link)
    total = 0
    shared: Counter[str] = Counter()
    of_fragments: list[tuple[str, ...]] = []
    for fragment in fragments:
        total += 1
        values = linked.stated(fragment)
        if values:
            shared.update(values)
            of_fragments.append(values)
    groups = {value: count for value, count in shared.items() if count > 1}
    named = option("link", quoted(link))
    what = "a source" if link == SOURCE else f'a value of "{quoted(link)}"'
    if not groups:
        advice = "; the source of a fragment is the table that it was read from"
        return f"{named} has no effect: no two fragments share {what}" + (
            advice if link == SOURCE else ""
        )
    bound = sum(any(value in groups for value in values) for values in of_fragments)
    if max(groups.values()) == total:
        return f"{named} keeps all {total:,} fragments apart: all share {what}, so none is merged"
    return (
        f"{named} keeps {counted(bound, 'fragment')} apart in {counted(len(groups), 'group')}: no "
        f"entity has two fragments that share {what}"
    )


Plugin = TypeVar("Plugin")

MANY = 2000
"""Number of fragments above which a likelihood without an index gets one, if one suits it."""

_GREEDY_MAX_EVALS = 100


@dataclass(frozen=True, slots=True)
class Models:
    """The plugins that the choices name."""

    likelihood: Likelihood
    surrogate: ConjugateLikelihood | None
    index: CandidateIndex | None  # which clusters to compare with; None is all
    max_evals: int | None  # M

    def taught(self, teach: Callable[[Likelihood], Likelihood]) -> Models:
        """The same with a likelihood that something was taught."""
        likelihood = teach(self.likelihood)
        own = self.index is self.likelihood.index
        return replace(self, likelihood=likelihood, index=likelihood.index if own else self.index)

    def spec(self, prior: DirichletProcess, choices: RunOptions) -> ModelSpec:
        """The model to cluster with."""
        index = self.index
        if index is not None and choices.exact:
            index = copy(index)  # it may be the user's own; what it learned is shared
            index.compared = 0
        never, always = read_rules(choices.rules)
        constraints = Constraints(link=choices.link, never=never, always=always)
        return ModelSpec(
            *(self.likelihood, prior.alpha, self.surrogate, self.max_evals, index, constraints),
            exponent=prior.exponent,
        )


@dataclass(frozen=True, slots=True)
class PreparedRun:
    """The choices for a file: a clusterer with its model, a confidence map, and reasons."""

    clusterer: Clusterer
    spec: ModelSpec
    confidence: ConfidenceMap | None  # the map that goes with the choices, if any
    likelihood: str  # its name, or the path of its bundle
    models: Models
    notes: tuple[str, ...]  # for the user: what was fitted, what was ignored
    options: Mapping[str, object] = field(default_factory=dict)  # of the likelihood, as found
    answers: tuple[Decision, ...] = ()  # what people said of pairs, for groupings to honour

    @property
    def alpha(self) -> float:
        """The concentration."""
        return self.spec.alpha

    @property
    def unit(self) -> Literal["nats", "points"]:
        """What totals are in: points of a score if the likelihood gives no probabilities."""
        return "nats" if self.spec.likelihood.probability else "points"


def make_models(
    choices: RunOptions,
    clusterer: Clusterer,
    notes: list[str],
    fitted: Likelihood | None = None,
    many: bool = False,
) -> Models:
    """The plugins that the choices name, not fitted yet; sentences for the user are added to
    `notes`.

    `fitted` is a likelihood to use instead. With `many` fragments a likelihood without an index
    gets one.
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


def default_options(name: str, defaults: str | None, link: str | None) -> dict[str, Any]:
    """The options of a default likelihood: a model of the folder, and the link."""
    held = defaults is not None and (Path(defaults) / f"{name}.safetensors").is_file()
    return {**({"model": defaults} if held else {}), **_link_options(name, link)}


def _link_options(name: str, link: str | None) -> dict[str, Any]:
    """Options of a likelihood that takes the link into account."""
    return {"link": link} if link is not None and takes(name, "link") else {}


def make_clusterer(choices: RunOptions) -> Clusterer:
    """The clusterer that the choices name."""
    options = choices.of("clusterer")
    if choices.particles is not None:
        if "particles" in options:
            both = f"{option('particles')} and {option('clusterer.particles')}"
            raise UsageError(f"{both} mean the same; choose one")
        options["particles"] = choices.particles
    if not isinstance(choices.clusterer, str):
        return _own(choices.clusterer, Clusterer, "clusterer", options)
    made: Clusterer = registry.create("clusterers", choices.clusterer, options)
    return made


def with_possible_prior(choices: RunOptions, clusterer: Clusterer) -> RunOptions:
    """The choices with exponent 1 for an offline clusterer, which takes no other, unless one is
    asked for; a UsageError if there is no prior as asked for."""
    prior = choices.prior
    if choices.size_exponent is None and not isinstance(clusterer, OnlineClusterer):
        return replace(choices, size_exponent=prior.exponent)
    return choices


def _likelihood(choices: RunOptions, notes: list[str]) -> Likelihood:
    options = choices.of("likelihood")
    name = choices.likelihood or DEFAULT_LIKELIHOOD
    if not isinstance(name, str):
        return _own(name, Likelihood, "likelihood", options)
    options = {**_link_options(name, choices.link), **options}
    if choices.device != "cpu":
        if takes(name, "device"):
            options.setdefault("device", choices.device)
        else:
            notes.append(f"likelihood {name} runs on the CPU: it cannot use a GPU")
    return make_likelihood(name, options)


def _surrogate(choices: RunOptions, likelihood: Likelihood) -> ConjugateLikelihood | None:
    options = choices.of("surrogate")
    if isinstance(choices.surrogate, str):
        return make_surrogate(choices.surrogate, options)
    if choices.surrogate is not None:
        return _own(choices.surrogate, ConjugateLikelihood, "surrogate", options)
    if options:
        raise UsageError(
            f"{option(f'surrogate.{next(iter(options))}')}: there is no surrogate; "
            f"name one with {option('surrogate')}"
        )
    if likelihood.surrogate is not None:
        return likelihood.surrogate
    if choices.max_evals is not None:
        raise UsageError(
            f"{option('max-evals')} limits what a surrogate proposes, but there is none; "
            f"name one with {option('surrogate')}"
        )
    return None


def _index(
    choices: RunOptions, likelihood: Likelihood, clusterer: Clusterer
) -> CandidateIndex | None:
    chosen, options = choices.index, choices.of("index")
    if options and chosen in (None, NO_INDEX):
        raise UsageError(
            f"{option(f'index.{next(iter(options))}')}: there is no index; name one with "
            f"{option('index')}"
        )
    if choices.exact and "compared" in options:
        raise UsageError(
            f"{option('exact')} and {option('index.compared')} both say how many clusters a "
            "fragment is compared with; choose one"
        )
    if clusterer.unindexed:
        if chosen not in (None, NO_INDEX):
            raise UsageError(
                f"{option('index', called(chosen))}: {choices.clusterer_name} always compares "
                "with all clusters; leave it out, or name another clusterer"
            )
        return None
    if chosen is None:
        return likelihood.index
    if chosen == NO_INDEX:
        return None
    if not isinstance(chosen, str):
        return _own(chosen, CandidateIndex, "index", options)
    return make_index(chosen, options)


def _index_of_many(likelihood: Likelihood, notes: list[str]) -> CandidateIndex | None:
    """The index for a likelihood without its own that will cluster many fragments, if any."""
    index = likelihood.index_of_many()
    if index is not None:
        notes.append(
            f"index {type(index).__name__.lower()}, as there are more than {MANY:,} fragments: "
            f"each is compared with at most {index.compared} similar clusters; "
            f"{option('exact', True)} compares with all"
        )
    return index


def _own(given: Plugin, base: type, kind: str, options: dict[str, object]) -> Plugin:
    """An object that the user passed in place of a plugin's name."""
    if not isinstance(given, base):
        raise UsageError(
            f"{kind}: expected a name or a {base.__name__}, got a {type(given).__name__}; "
            f"give its class the base class kbforge.contracts.{base.__name__}"
        )
    if options:
        raise UsageError(
            f"{option(f'{kind}.{next(iter(options))}')}: expected no options for a {kind} that is "
            "an object; it was made with its own"
        )
    return given


_ELSEWHERE = {"likelihood", "alpha", "size_exponent", "seed", "options", "device"}
"""Choices that `Provenance` stores under other names, and one that changes no result."""


def made_of(prepared: PreparedRun, choices: RunOptions) -> Provenance:
    """The record of how the entities were made."""
    plain = RunOptions()
    given: dict[str, str | float] = {}
    for one in fields(RunOptions):
        value = getattr(choices, one.name)
        if one.name not in _ELSEWHERE and value != getattr(plain, one.name):
            given[one.name] = value if isinstance(value, str | int | float) else called(value)
    options = {
        kind: {name: _text(value) for name, value in of_kind.items()}
        for kind, of_kind in choices.options.items()
        if of_kind
    }
    taken = {name: _text(value) for name, value in prepared.options.items()}
    if choices.likelihood is None and not choices.of("likelihood"):
        taken = default_options(prepared.likelihood, choices.defaults, choices.link) | taken
    options |= {"likelihood": taken} if taken else {}
    return Provenance(
        kbforge=__version__,
        likelihood=prepared.likelihood,
        alpha=prepared.alpha,
        seed=choices.seed,
        model=model_digest(prepared.likelihood, options.get("likelihood", {})),
        choices=given,
        options=options,
        size_exponent=prepared.spec.exponent,
    )


def choices_of(made: Provenance, kb: str) -> RunOptions:
    """The likelihood, prior and options that a knowledge base, `kb`, was made with."""
    require_untempered(made.choices, kb)
    if "labels_from" in made.choices:
        raise ModelError(
            f"{quoted(kb, 400)} was made with what labels taught in that run; kbforge train-pairs "
            f"writes such a model, which {option('likelihood')} names"
        )
    options, link = dict(made.options.get("likelihood", {})), made.choices.get("link")
    digest = model_digest(made.likelihood, options)
    plain = is_name(made.likelihood)
    if digest != made.model or (digest is None and not plain):
        was = "is missing" if digest is None else "has changed"
        version = "" if made.kbforge == __version__ else f" by kbforge {made.kbforge:.20}"
        raise ModelError(
            f"{quoted(kb, 400)} was made{quoted(version)} with the model "
            f"{quoted(made.likelihood, 400)}, which {was}; restore it, or name another with "
            f"{option('likelihood')}"
        )
    return RunOptions(
        likelihood=made.likelihood,
        alpha=made.alpha,
        size_exponent=made.size_exponent,
        link=None if link is None else str(link),
        options={"likelihood": options},
    )


def require_untempered(choices: Mapping[str, Any], path: str) -> None:
    """Refuse a knowledge base made with an option that no longer exists."""
    temperature = choices.get("temperature", 1.0)
    if temperature != 1:
        raise UsageError(
            f"{quoted(path, 400)} was made with --temperature {quoted(temperature, 40)}, which "
            "KBForge no longer has; make it again without"
        )


def model_digest(likelihood: str, options: Mapping[str, object]) -> str | None:
    """SHA-256 of a bundle's manifest, or of the default model that a likelihood reads, if any."""
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
