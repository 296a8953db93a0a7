"""The report of a knowledge base: its facts, gathered in one pass, and the page of HTML.

Entities come one at a time, and only what the page lists is kept, so the facts of a large knowledge
base take no more room than those of a small one. Labels take a few bytes an entity: whether one is
right is known after the last entity.

The page loads nothing and runs nothing, and it prints. Its template is `report.html` beside this
module, with autoescape on. All text from data passes the filter `text`, which removes what a
terminal or a page would obey, and wraps it in <bdi>, so that no right-to-left name reverses the
numbers beside it.
"""

from __future__ import annotations

import hashlib
import heapq
import time
from array import array
from bisect import bisect_right
from collections import Counter, deque
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cache
from importlib import resources
from typing import TYPE_CHECKING, Any

from kbforge.contracts import Alternative, Entity, Fragment, Value, View
from kbforge.contracts.entity import Change, DecisionRecord, Kind, Run
from kbforge.errors import quoted
from kbforge.evaluation.reliability import Reliability
from kbforge.kb.entities import AttributeOrder, fragments_of, name_of, naming
from kbforge.kb.show import grouping
from kbforge.version import __version__
from kbforge.words import counted, percent

if TYPE_CHECKING:
    from jinja2 import Template


@dataclass(frozen=True, slots=True)
class SizeBand:
    """Entities of about one size.

    Attributes:
        low: fragments that the smallest may have.
        high: that the largest may have, None without a limit.
        entities: how many there are.
        fragments: of all of them.

    """

    low: int
    high: int | None
    entities: int
    fragments: int


@dataclass(frozen=True, slots=True)
class ConfidenceBand:
    """Entities of about one confidence.

    Attributes:
        low: the least that is stated.
        high: below which it is; 1 is included.
        entities: how many there are.
        stated: the mean of what is stated, 0 without entities.
        known: of how many it is known whether they are right.
        right: how many of these are.
        stated_known: the mean of what is stated of these, 0 without.

    """

    low: float
    high: float
    entities: int
    stated: float
    known: int
    right: int
    stated_known: float


@dataclass(frozen=True, slots=True)
class AttributeSummary:
    """What an entity says of one attribute.

    Attributes:
        name: of the attribute.
        values: the first of its values, cut, each with how many fragments state it.
        more: how many other values it has.

    """

    name: str
    values: tuple[tuple[str, int], ...]
    more: int


@dataclass(frozen=True, slots=True)
class UncertainEntity:
    """An entity that much of what is uncertain depends on.

    Attributes:
        id: of the entity.
        name: of the entity.
        size: how many fragments it has.
        confidence: as stated: calibrated where there is a map.
        fragments: the first of its fragments' ids.
        attributes: the first of them, the name before all.
        more: how many other attributes it has.
        alternatives: probability of each other grouping, as reported, and what it is.

    """

    id: str
    name: str
    size: int
    confidence: float
    fragments: tuple[str, ...]
    attributes: tuple[AttributeSummary, ...]
    more: int
    alternatives: tuple[tuple[float, str], ...]


@dataclass(frozen=True, slots=True)
class Conflict:
    """How often the fragments of an entity disagree about an attribute.

    Attributes:
        attribute: its name.
        stated: how many entities state it.
        disagree: how many of them state it with no value that all of its fragments share.
        example: name of the one with most values, "" if none disagrees.
        values: the first of its values.

    """

    attribute: str
    stated: int
    disagree: int
    example: str
    values: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class EntityRow:
    """An entity in a list.

    Attributes:
        name: of the entity.
        values: one of each of its first other attributes.
        size: how many fragments it has.
        confidence: as stated.

    """

    name: str
    values: tuple[str, ...]
    size: int
    confidence: float


@dataclass(frozen=True, slots=True)
class EntityLists:
    """Entities in three orders, as many of each as the page lists.

    Attributes:
        by_name: alphabetically.
        by_size: the largest first.
        by_doubt: the least certain first.

    """

    by_name: tuple[EntityRow, ...]
    by_size: tuple[EntityRow, ...]
    by_doubt: tuple[EntityRow, ...]


@dataclass(frozen=True, slots=True)
class ChangeSummary:
    """One change of an entity.

    Attributes:
        entity: its id.
        kind: what became of it.
        before: how many fragments it had.
        after: how many it has.
        others: ids of the first of the other entities concerned.
        more: how many others are.

    """

    entity: str
    kind: Kind
    before: int
    after: int
    others: tuple[str, ...]
    more: int


@dataclass(frozen=True, slots=True)
class DriftSummary:
    """How far what came since is from what the model was fitted to.

    Attributes:
        figure: as the store counts it.
        told: a sentence on what it means.

    """

    figure: float
    told: str


@dataclass(frozen=True, slots=True)
class Facts:
    """All that a report tells.

    Attributes:
        title: what the knowledge base is called.
        chosen: what was chosen for it, and why: names and values.
        entities: how many there are.
        fragments: how many are in them.
        sizes: entities by size, ascending; empty bands between others are there.
        calibrated: whether what is stated is the calibrated confidence; else it is as reported.
        unrivalled: entities of which no other grouping was kept.
        confidences: entities by stated confidence, ascending; all bands are there.
        stated: the sum of the stated confidences: so many entities are expected to be right.
        pairs: how often pairs turned out to be one, by what was stated of them; None if unknown.
        doubtful: those that most depends on, by fragments times doubt.
        conflicts: by attribute, in the order of the file.
        lists: of entities.
        fragment_names: what to call the fragments that the page speaks of, by id.
        entity_names: likewise of entities, as far as they are still there.
        kinds: how many changes of each kind the last run made.
        changes: the biggest of them.
        runs: the last ones, the latest first.
        n_runs: how many there were.
        seconds: that all took.
        decisions: in force, the latest first, as far as they are listed.
        n_same: must-links in force.
        n_different: cannot-links in force.
        n_undone: decisions that were undone.
        drift: None if nothing is known of it.

    """

    title: str
    chosen: tuple[tuple[str, str], ...]
    entities: int
    fragments: int
    sizes: tuple[SizeBand, ...]
    calibrated: bool
    unrivalled: int
    confidences: tuple[ConfidenceBand, ...]
    stated: float
    pairs: Reliability | None
    doubtful: tuple[UncertainEntity, ...]
    conflicts: tuple[Conflict, ...]
    lists: EntityLists
    fragment_names: Mapping[str, str] = field(default_factory=dict)
    entity_names: Mapping[str, str] = field(default_factory=dict)
    kinds: tuple[tuple[Kind, int], ...] = ()
    changes: tuple[ChangeSummary, ...] = ()
    runs: tuple[Run, ...] = ()
    n_runs: int = 0
    seconds: float = 0.0
    decisions: tuple[DecisionRecord, ...] = ()
    n_same: int = 0
    n_different: int = 0
    n_undone: int = 0
    drift: DriftSummary | None = None


@dataclass(frozen=True, slots=True)
class History:
    """What is known of a knowledge base beside its entities.

    Attributes:
        runs: all, or the last ones, ascending.
        changes: of the last run.
        decisions: in force and undone, ascending.
        drift: None if nothing is known of it.
        pairs: how often pairs turned out to be one, by what was stated of them, such as of the
            answers of a review; None if unknown.

    """

    runs: Iterable[Run] = ()
    changes: Iterable[Change] = ()
    decisions: Iterable[DecisionRecord] = ()
    drift: DriftSummary | None = None
    pairs: Reliability | None = None


MOST_LISTED = 200
"""Entities that a list has."""

MOST_ATTRIBUTES = 60
"""Attributes whose conflicts are told."""

_MOST_COUNTED = 4_096  # attributes
_LIST_CHARACTERS = 60

MOST = 12
"""Entities and changes that the page lists."""

MOST_LINES = 20
"""Runs and decisions that it lists."""

_SIZES = (1, 2, 3, 4, 5, 10, 20, 50, 100, 1_000)
_CONFIDENCES = (0.0, 0.1, 0.2, 0.3, 0.4, 0.5, 0.6, 0.7, 0.8, 0.9, 0.99)
_MOST_ATTRIBUTES = 8
_MOST_VALUES = 3
_MOST_ALTERNATIVES = 3
_MOST_IDS = 6
_CHARACTERS = 120
_ALTERNATIVE_CHARACTERS = 400


def gather(
    view: View,
    title: str,
    chosen: Sequence[tuple[str, str]] = (),
    past: History | None = None,
    labels: bool = False,
    again: bool = True,
) -> Facts:
    """Read a knowledge base, once or twice.

    Args:
        view: of the knowledge base.
        title: what the page calls it.
        chosen: likelihood, alpha and the like, and why, as names and values.
        past: runs, changes and decisions, where there are such.
        labels: whether to read the fragments' labels, and tell how many entities are right.
        again: whether it can be read again, for names; standard input cannot.

    Raises:
        KBForgeError: the knowledge base cannot be read.

    """
    sizes, fragments = Counter[int](), Counter[int]()
    confidences = _ConfidenceCounter()
    calibrated, unrivalled = 0, 0
    worst: list[tuple[float, int, Entity]] = []
    conflicts, lists = ConflictCounter(), EntityListBuilder()
    for number, entity in enumerate(view.entities()):
        size, stated = len(entity.fragments), entity.confidence
        band = bisect_right(_SIZES, size) - 1
        sizes[band] += 1
        fragments[band] += size
        calibrated += entity.reported is not None
        unrivalled += entity.probability == 1
        confidences.add(stated, view.fragments(entity) if labels else ())
        conflicts.add(entity)
        lists.add(entity, stated)
        doubt = (1 - stated) * size
        if doubt > 0:
            # of equals the first
            push = heapq.heappush if len(worst) < MOST else heapq.heappushpop
            push(worst, (doubt, -number, entity))
    facts = Facts(
        title=title,
        chosen=tuple(chosen),
        entities=sizes.total(),
        fragments=fragments.total(),
        sizes=_bands(sizes, fragments),
        calibrated=0 < calibrated == sizes.total(),
        unrivalled=unrivalled,
        confidences=confidences.shares(),
        stated=confidences.total,
        pairs=None,
        doubtful=(),
        conflicts=conflicts.found(),
        lists=lists.found(),
    )
    facts = facts if past is None else _with_past(facts, past)
    chief = [entity for _, _, entity in sorted(worst, reverse=True)]
    return _with_chief(facts, view if again else None, chief, conflicts.order())


def _with_chief(
    facts: Facts, view: View | None, chief: Sequence[Entity], order: Sequence[str]
) -> Facts:
    """The same, with the entities that most depends on, and the names of what is spoken of."""
    if view is not None:
        facts = _with_names(facts, view, chief)
    place = {attribute: at for at, attribute in enumerate(order)}
    told = tuple(_doubtful(entity, facts.fragment_names, place) for entity in chief)
    return replace(facts, doubtful=told)


def _with_names(facts: Facts, view: View, chief: Sequence[Entity]) -> Facts:
    """The same, with the names of the fragments and entities that the page speaks of."""
    spoken = {id for one in facts.decisions for id in (one.decision.first, one.decision.second)}
    for entity in chief:
        for alternative in _alternatives(entity):
            spoken.update(*alternative.groups)
    changed = {id for one in facts.changes for id in (one.entity, *one.others)}
    fragments, entities = dict[str, str](), dict[str, str]()
    if not spoken and not changed:
        return facts
    for entity in view.entities():
        if entity.id in changed:
            entities[entity.id] = entity.name
        held = spoken.intersection(entity.fragments)
        if held:
            fragments |= {
                one.id: name_of([one]) or one.id for one in fragments_of(entity) if one.id in held
            }
    return replace(facts, fragment_names=fragments, entity_names=entities)


def _alternatives(entity: Entity) -> Sequence[Alternative]:
    """Those that the page tells."""
    return sorted(entity.alternatives, key=lambda one: -one.probability)[:_MOST_ALTERNATIVES]


class _ConfidenceCounter:
    """Counts entities by what is stated of them, and learns which of them are right."""

    def __init__(self) -> None:
        bands = len(_CONFIDENCES)
        self._entities, self._stated = [0] * bands, [0.0] * bands
        # of each entity with one label: the label, fragments and confidence
        self._labels, self._sizes, self._said = array("Q"), array("Q"), array("d")
        self._of_label: Counter[int] = Counter()
        # of those with several labels
        self._wrong, self._wrong_stated = [0] * bands, [0.0] * bands

    @property
    def total(self) -> float:
        """The sum of what is stated."""
        return sum(self._stated)

    def add(self, stated: float, fragments: Sequence[Fragment]) -> None:
        """Count an entity, with its fragments where their labels count."""
        band = bisect_right(_CONFIDENCES, stated) - 1
        self._entities[band] += 1
        self._stated[band] += stated
        known = [_number(f.label) for f in fragments if f.label is not None]
        self._of_label.update(known)
        if not known or len(known) < len(fragments):
            return  # of one without a label nobody knows
        if len(set(known)) > 1:
            self._wrong[band] += 1
            self._wrong_stated[band] += stated
            return
        self._labels.append(known[0])
        self._sizes.append(len(known))
        self._said.append(stated)

    def shares(self) -> tuple[ConfidenceBand, ...]:
        """The bands, once all entities were added."""
        known, stated = list(self._wrong), list(self._wrong_stated)
        right = [0] * len(known)
        for label, size, said in zip(self._labels, self._sizes, self._said, strict=True):
            band = bisect_right(_CONFIDENCES, said) - 1
            known[band] += 1
            stated[band] += said
            right[band] += self._of_label[label] == size
        ends = (*_CONFIDENCES[1:], 1.0)
        return tuple(
            ConfidenceBand(
                low,
                ends[k],
                self._entities[k],
                self._stated[k] / max(self._entities[k], 1),
                known[k],
                right[k],
                stated[k] / max(known[k], 1),
            )
            for k, low in enumerate(_CONFIDENCES)
        )


def _number(label: str) -> int:
    return int.from_bytes(hashlib.blake2b(label.encode(), digest_size=8).digest(), "big")


def _bands(entities: Counter[int], fragments: Counter[int]) -> tuple[SizeBand, ...]:
    last = max(entities, default=-1)
    ends = (*_SIZES[1:], None)
    return tuple(
        SizeBand(low, None if end is None else end - 1, entities[k], fragments[k])
        for k, (low, end) in enumerate(zip(_SIZES, ends, strict=True))
        if k <= last
    )


def _doubtful(
    entity: Entity, called: Mapping[str, str], place: Mapping[str, int]
) -> UncertainEntity:
    last = len(place)
    names = sorted(entity.properties, key=lambda a: (a != "name", place.get(a, last)))
    return UncertainEntity(
        id=quoted(entity.id, _CHARACTERS),
        name=quoted(entity.name, _CHARACTERS),
        size=len(entity.fragments),
        confidence=entity.confidence,
        fragments=_ids(entity.fragments),
        attributes=tuple(
            _attribute(name, entity.properties[name]) for name in names[:_MOST_ATTRIBUTES]
        ),
        more=max(len(names) - _MOST_ATTRIBUTES, 0),
        alternatives=tuple(
            (one.probability, quoted(grouping(one, entity, names=called), _ALTERNATIVE_CHARACTERS))
            for one in _alternatives(entity)
        ),
    )


def _attribute(name: str, values: Sequence[Value]) -> AttributeSummary:
    most = sorted(values, key=lambda value: -value.count)[:_MOST_VALUES]
    shown = tuple((quoted(value.value, _CHARACTERS), value.count) for value in most)
    return AttributeSummary(quoted(name, _CHARACTERS), shown, len(values) - len(shown))


def _ids(ids: Sequence[str]) -> tuple[str, ...]:
    return tuple(quoted(id, _CHARACTERS) for id in ids[:_MOST_IDS])


def _with_past(facts: Facts, past: History) -> Facts:
    runs = deque[Run](maxlen=MOST_LINES)
    n_runs, seconds = 0, 0.0
    for run in past.runs:
        runs.append(run)
        n_runs += 1
        seconds += run.seconds
    decisions = deque[DecisionRecord](maxlen=MOST_LINES)
    counted = Counter[str]()
    for decided in past.decisions:
        if decided.undone is not None:
            counted["undone"] += 1
            continue
        decisions.append(decided)
        counted["same" if decided.decision.same else "different"] += 1
    kinds, changes = _changes(past)
    return replace(
        facts,
        pairs=past.pairs,
        kinds=kinds,
        changes=changes,
        runs=tuple(reversed(runs)),
        n_runs=n_runs,
        seconds=seconds,
        decisions=tuple(reversed(decisions)),
        n_same=counted["same"],
        n_different=counted["different"],
        n_undone=counted["undone"],
        drift=past.drift,
    )


def _changes(past: History) -> tuple[tuple[tuple[Kind, int], ...], tuple[ChangeSummary, ...]]:
    """How many there are of each kind, and the biggest: those that move most fragments."""
    kinds = Counter[Kind]()
    biggest: list[tuple[int, int, Change]] = []
    for number, change in enumerate(past.changes):
        kinds[change.kind] += 1
        moved = len(set(change.before).symmetric_difference(change.after))
        push = heapq.heappush if len(biggest) < MOST else heapq.heappushpop
        push(biggest, (moved, -number, change))
    told = tuple(
        ChangeSummary(
            entity=change.entity,
            kind=change.kind,
            before=len(change.before),
            after=len(change.after),
            others=tuple(change.others[:_MOST_IDS]),
            more=max(len(change.others) - _MOST_IDS, 0),
        )
        for _, _, change in sorted(biggest, reverse=True)
    )
    return tuple((kind, kinds[kind]) for kind in Kind if kinds[kind]), told


class ConflictCounter:
    """Counts the entities whose fragments disagree, by attribute."""

    def __init__(self) -> None:
        self._order = AttributeOrder()
        self._stated, self._disagree = Counter[str](), Counter[str]()
        self._most: dict[str, tuple[int, str, tuple[str, ...]]] = {}

    def add(self, entity: Entity) -> None:
        """Count an entity."""
        known = [
            attribute
            for attribute in entity.properties
            if attribute in self._stated or len(self._stated) < _MOST_COUNTED
        ]
        self._order.add(known)
        for attribute in known:
            values = entity.properties[attribute]
            self._stated[attribute] += 1
            if len(values) < 2:
                continue
            stating = {fragment for value in values for fragment in value.fragments}
            if max(value.count for value in values) == len(stating):
                continue  # all fragments share a value
            self._disagree[attribute] += 1
            if attribute not in self._most or len(values) > self._most[attribute][0]:
                shown = tuple(
                    quoted(value.value, _LIST_CHARACTERS) for value in values[:_MOST_VALUES]
                )
                self._most[attribute] = (len(values), quoted(entity.name, _LIST_CHARACTERS), shown)

    def order(self) -> list[str]:
        """The attributes, in the order of the file."""
        return self._order.merged()

    def found(self) -> tuple[Conflict, ...]:
        """What was counted, in the order of the file; of many attributes those with most."""
        told = {name for name, _ in self._disagree.most_common(MOST_ATTRIBUTES)}
        return tuple(
            Conflict(
                quoted(attribute, _LIST_CHARACTERS),
                self._stated[attribute],
                self._disagree[attribute],
                *self._most[attribute][1:],
            )
            for attribute in self.order()
            if attribute in told
        )


class EntityListBuilder:
    """Keeps the first entities of three orders."""

    def __init__(self) -> None:
        # of each order a heap of what is greater the earlier it comes, the number and the entity
        self._held: tuple[list[tuple[Any, int, EntityRow]], ...] = ([], [], [])
        self._number = 0

    def add(self, entity: Entity, stated: float) -> None:
        """List an entity, where it is among the first.

        Args:
            entity: to list.
            stated: its confidence.

        """
        self._number += 1
        listed: EntityRow | None = None
        name = _Reversed((entity.name.casefold(), entity.name))
        keys = (name, len(entity.fragments), 1 - stated)
        for held, key in zip(self._held, keys, strict=True):
            full = len(held) >= MOST_LISTED
            if full and not held[0][:2] < (key, -self._number):
                continue
            listed = listed or _listed(entity, stated)
            push = heapq.heappushpop if full else heapq.heappush
            push(held, (key, -self._number, listed))

    def found(self) -> EntityLists:
        """The lists, in order."""
        return EntityLists(
            *(tuple(one for *_, one in sorted(held, reverse=True)) for held in self._held)
        )


class _Reversed:
    """Text of which the first is the largest."""

    __slots__ = ("text",)

    def __init__(self, text: tuple[str, str]) -> None:
        self.text = text

    def __lt__(self, other: _Reversed) -> bool:
        return other.text < self.text

    def __eq__(self, other: object) -> bool:
        return isinstance(other, _Reversed) and other.text == self.text

    def __hash__(self) -> int:
        return hash(self.text)


def _listed(entity: Entity, stated: float) -> EntityRow:
    names = naming(tuple(entity.properties))
    others = [values[0] for name, values in entity.properties.items() if name not in names]
    return EntityRow(
        quoted(entity.name, _LIST_CHARACTERS),
        tuple(quoted(value.value, _LIST_CHARACTERS) for value in others[:_MOST_VALUES]),
        len(entity.fragments),
        stated,
    )


_CELL_CHARACTERS = 400


def report_html(facts: Facts) -> str:
    """The page of a knowledge base; the same facts give the same page."""
    shares = [share for share in facts.confidences if share.entities]
    pairs = facts.pairs if facts.pairs is not None and facts.pairs.count else None
    lists = facts.lists
    return _template().render(
        facts=facts,
        version=__version__,
        tiles=_tiles(facts),
        sizes=[(_size(band), band.entities) for band in facts.sizes],
        intervals=[(_interval(share), share.entities) for share in facts.confidences],
        shares=shares,
        known=sum(share.known for share in shares),
        right=sum(share.right for share in shares),
        expected=sum(share.stated_known * share.known for share in shares),
        labelled=[(s.stated_known, s.right / s.known, s.known) for s in shares if s.known],
        pairs=pairs,
        answered=[] if pairs is None else [(b.reported, b.share, b.count) for b in pairs.table],
        orders=(
            ("by-size", "largest first", lists.by_size),
            ("by-doubt", "least certain first", lists.by_doubt),
            ("by-name", "by name", lists.by_name),
        ),
    )


@cache
def _template() -> Template:
    from jinja2 import Environment, StrictUndefined
    from markupsafe import Markup

    def text(value: object, bare: bool = False) -> str:
        shown = quoted(value, _CELL_CHARACTERS)
        return shown if bare else Markup("<bdi>{}</bdi>").format(shown)

    environment = Environment(autoescape=True, undefined=StrictUndefined)
    environment.filters |= {
        "counted": counted,
        "exactly": lambda probability: f"{probability * 100:.1f} %",
        "interval": _interval,
        "moment": _moment,
        "percent": percent,
        "text": text,
    }
    page = resources.files("kbforge.kb").joinpath("report.html")
    return environment.from_string(page.read_text(encoding="utf-8"))


def _tiles(facts: Facts) -> list[tuple[str, str]]:
    found = [
        (f"{facts.entities:,}", "entity" if facts.entities == 1 else "entities"),
        (f"{facts.fragments:,}", "fragment" if facts.fragments == 1 else "fragments"),
        (f"{facts.stated:,.0f}", "entities expected to be right"),
        (f"{facts.entities - facts.unrivalled:,}", "with another possible grouping"),
    ]
    return found if facts.drift is None else [*found, (f"{facts.drift.figure:.2f}", "drift")]


def _size(band: SizeBand) -> str:
    if band.high is None:
        return f"{band.low:,} and more"
    return f"{band.low:,}" if band.high == band.low else f"{band.low:,} to {band.high:,}"


def _interval(share: ConfidenceBand) -> str:
    return f"{share.low * 100:.0f} to {share.high * 100:.0f} %"


def _moment(began: float) -> str:
    try:
        return time.strftime("%Y-%m-%d %H:%M", time.gmtime(began))
    except (OverflowError, OSError, ValueError):
        return ""
