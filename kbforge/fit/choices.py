"""The choices of a user for a clustering: one set for the command line and Python.

The command line makes `Choices` of its options, and the Python API of its keywords.

No entity has two fragments that share a value of the attribute that `--link` names.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field

from kbforge.contracts import (
    CandidateIndex,
    Clusterer,
    ConjugateLikelihood,
    Constraints,
    Fragment,
    Likelihood,
)
from kbforge.errors import UsageError, quoted
from kbforge.words import counted, did_you_mean, listed

DEFAULT_LIKELIHOOD = "attributes"
NO_INDEX = "none"

_TREES = ("single", "complete", "average")
ESTIMATES = ("map", "binder", "vi", *_TREES)

_DEVICES = ("cpu", "cuda")
_ALTERNATIVES = ("few", "all")


@dataclass(frozen=True, slots=True)
class Choices:
    """What a user may choose of a clustering run; the defaults are the command line's.

    A plugin is chosen by its name. A Python user may hand over an object of his own instead.

    Attributes:
        clusterer: name of a clusterer plugin, or a clusterer.
        likelihood: name of a likelihood plugin, path of a model bundle, or a likelihood; None takes
            what suits the file (`kbforge.fit.choose`).
        surrogate: the model that proposes for the likelihood, likewise; None takes the one the
            likelihood brings, if any.
        index: name of the index that says which clusters a fragment is compared with, or an index;
            "none" compares with all; None takes the one the likelihood brings, if any.
        exact: whether a fragment is compared with all clusters that its keys lead to, however many;
            an index that the likelihood does not bring is used only if it is named.
        particles: P; None is the clusterer's default.
        max_evals: M; None is P with a surrogate (100 for the greedy clusterer).
        alpha: concentration; None takes the calibration's, else what suits the file.
        calibration: a file that `kbforge calibrate` wrote; None takes the bundle's, if any.
        confidence_map: a file that `kbforge calibrate --confidence` wrote; None takes the
            calibration file's, else the bundle's, if any.
        defaults: a folder with other models of the default; what it lacks is what ships.
        answers: a file that `kbforge review` wrote; it chooses likelihood and alpha where nothing
            else does.
        estimate: which grouping is taken: "map", the heaviest particle; "binder" or "vi", the one
            that loses least on average; "single", "complete" or "average", a cut of the tree of the
            probabilities of pairs (`kbforge.kb.consensus`).
        entities: how many the tree is cut into; None takes the cut that loses least.
        alternatives: which other groupings an entity keeps: "few", the three most probable above
            1 %; or "all".
        link: an attribute, or "source": fragments with the same value of it are not one entity.
        temperature: all log likelihoods are divided by it.
        seed: of all random numbers.
        device: "cpu" or "cuda".
        options: plugin kind ("likelihood", "surrogate", "index", "clusterer") -> option -> value.

    Raises:
        UsageError: a number below 0, or a device, estimate or choice of alternatives that is none.

    """

    clusterer: str | Clusterer = "split-smc"
    likelihood: str | Likelihood | None = None
    surrogate: str | ConjugateLikelihood | None = None
    index: str | CandidateIndex | None = None
    exact: bool = False
    particles: int | None = None
    max_evals: int | None = None
    alpha: float | None = None
    calibration: str | None = None
    confidence_map: str | None = None
    defaults: str | None = None
    answers: str | None = None
    estimate: str = "map"
    entities: int | None = None
    alternatives: str = "few"
    link: str | None = None
    temperature: float = 1.0
    seed: int = 0
    device: str = "cpu"
    options: Mapping[str, Mapping[str, object]] = field(default_factory=dict)

    def __post_init__(self) -> None:
        for name, number in (("max-evals", self.max_evals), ("seed", self.seed)):
            if number is not None and number < 0:
                raise UsageError(f"--{name}: expected a whole number from 0, got {number}")
        for name, chosen, known in (
            ("device", self.device, _DEVICES),
            ("estimate", self.estimate, ESTIMATES),
            ("alternatives", self.alternatives, _ALTERNATIVES),
        ):
            if chosen not in known:
                raise UsageError(f"--{name}: expected {' or '.join(known)}, got {quoted(chosen)}")
        if self.entities is not None and (self.entities < 1 or self.estimate not in _TREES):
            raise UsageError(
                f"--entities cuts a tree into at least 1 entity: expected --estimate "
                f"{' or '.join(_TREES)}, got --entities {self.entities} --estimate {self.estimate}"
            )

    def of(self, kind: str) -> dict[str, object]:
        """The options for a kind of plugin."""
        return dict(self.options.get(kind, {}))

    @property
    def likelihood_name(self) -> str:
        """What messages and files call the likelihood: a name, or the path of a bundle."""
        return called(self.likelihood or DEFAULT_LIKELIHOOD)

    @property
    def clusterer_name(self) -> str:
        """What messages and files call the clusterer."""
        return called(self.clusterer)


def called(chosen: object) -> str:
    """The name that was chosen; of an object, that of its class."""
    return chosen if isinstance(chosen, str) else type(chosen).__name__


SOURCE = "source"
_MOST_NAMES = 12  # attributes that an error lists


def require_link(fragments: Sequence[Fragment], link: str | None) -> None:
    """Refuse a link to an attribute that no fragment has.

    Raises:
        UsageError: it is none of the attributes there are.

    """
    if link is None or link == SOURCE or not fragments:
        return
    linked = Constraints(link=link)
    if any(map(linked.stated, fragments)):
        return
    names = sorted({attribute for fragment in fragments for attribute in fragment.properties})
    raise UsageError(
        f'--link: no fragment has "{quoted(link)}"{did_you_mean(link, names)}; expected source or '
        f"one of {listed(names, _MOST_NAMES)}"
    )


def link_note(fragments: Iterable[Fragment], link: str) -> str:
    """A sentence on which fragments a link keeps apart.

    Args:
        fragments: to be clustered.
        link: an attribute, or "source".

    """
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
    named = f"--link {quoted(link)}"
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
