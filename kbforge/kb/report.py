"""The report of a knowledge base: gathers its facts in one pass and renders the page.

Only listed entities are kept in memory, plus a few bytes of each for labels, because whether an
entity is right is known only after the last one. The page loads nothing, and prints; its only
script sorts and searches its tables. Its template is `report.html`, built from the parts in
`kbforge.kb.components`.
"""

from __future__ import annotations

import hashlib
from array import array
from bisect import bisect_right, insort
from collections import Counter, deque
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cache
from typing import TYPE_CHECKING, Any, NamedTuple, TypeAlias

from kbforge.contracts import Alternative, Entity, Explanation, View
from kbforge.contracts.entity import Change, DecisionRecord, Kind, Run
from kbforge.errors import quoted
from kbforge.evaluation.reliability import Reliability
from kbforge.kb.components import environment, part
from kbforge.kb.entities import AttributeOrder, fragments_of, name_of, naming
from kbforge.version import __version__

if TYPE_CHECKING:
    from jinja2 import Template

MOST_LISTED = 500
"""How many of the largest entities are listed, of the least certain, and of the first by name."""

MOST = 12
"""Uncertain entities and changes on the page."""

MOST_LINES = 20
"""Runs and decisions on the page."""

SIZES = (1, 2, 3, 4, 5, 10, 20, 50, 100, 1_000)
"""Lower bounds of the bands of sizes."""

CONFIDENCES = (0.0, 0.1, 0.2, 0.3, 0.4, 0.5, 0.6, 0.7, 0.8, 0.9, 0.99)
"""Lower bounds of the bands of confidences."""

_MOST_CONFLICTS = 60  # attributes whose conflicts are listed
_MOST_COUNTED = 4_096  # attributes
_MOST_ATTRIBUTES = 8
_MOST_VALUES = 3
_MOST_ALTERNATIVES = 3
_MOST_REASONS = 12  # attributes of an explanation
_MOST_IDS = 6
_LIST_CHARACTERS = 60

Explain: TypeAlias = Callable[[Entity], Mapping[str, Explanation]]
"""Returns explanations of some fragments of an entity, by fragment; empty if there are none."""

EntityRow: TypeAlias = tuple[str, tuple[str, ...], int, float]
"""An entity in a list: its name, one value of each of its next attributes, size, confidence."""


class ConfidenceBand(NamedTuple):
    """Entities in one interval of confidence."""

    low: float
    high: float  # excluded, except 1
    entities: int
    stated: float  # mean confidence, 0 without entities
    known: int  # of how many it is known whether they are right
    right: int  # of the known
    stated_known: float  # mean confidence of the known, 0 without


@dataclass(frozen=True, slots=True)
class Facts:
    """The content of a report."""

    title: str
    chosen: tuple[tuple[str, str], ...]  # names and values, with reasons
    entities: int
    fragments: int
    sizes: tuple[tuple[str, int], ...]  # entities by size, ascending, without gaps
    calibrated: bool  # whether confidences are; else they are as reported
    unrivalled: int  # entities of which no other grouping was kept
    confidences: tuple[ConfidenceBand, ...]  # ascending, without gaps
    stated: float  # the sum of confidences: expected number of right entities
    # attribute; entities with it; those with no value that all of their fragments share; name and
    # first values of the entity with most values
    conflicts: tuple[tuple[str, int, int, str, tuple[str, ...]], ...]
    listed: tuple[EntityRow, ...]  # the largest, the least certain, and the first by name
    doubtful: tuple[Entity, ...] = ()  # by fragments times doubt, attributes as in the file
    fragment_names: Mapping[str, str] = field(default_factory=dict)  # by id, of those on the page
    entity_names: Mapping[str, str] = field(default_factory=dict)  # likewise, of those still there
    pairs: Reliability | None = None  # how often pairs turned out to be one; None if unknown
    kinds: tuple[tuple[Kind, int], ...] = ()  # of changes in the last run, with their numbers
    changes: tuple[Change, ...] = ()  # the biggest
    runs: tuple[Run, ...] = ()  # the last ones, latest first
    n_runs: int = 0
    seconds: float = 0.0  # of all runs
    decisions: tuple[DecisionRecord, ...] = ()  # in force, latest first, as many as are listed
    n_same: int = 0  # must-links in force
    n_different: int = 0  # cannot-links in force
    n_undone: int = 0
    # distance of new data from the fitted, and what it means
    drift: tuple[float, str] | None = None


@dataclass(frozen=True, slots=True)
class History:
    """What a store knows besides its entities."""

    runs: Iterable[Run] = ()  # all, or the last ones, ascending
    changes: Iterable[Change] = ()  # of the last run
    decisions: Iterable[DecisionRecord] = ()  # in force and undone, ascending
    drift: tuple[float, str] | None = None
    pairs: Reliability | None = None  # such as of the answers of a review


def gather(
    view: View,
    title: str,
    chosen: Sequence[tuple[str, str]] = (),
    past: History | None = None,
    labels: bool = False,
    again: bool = True,
    explain: Explain | None = None,
) -> Facts:
    """Read a knowledge base, once, or twice (for names) if it can be read `again`.

    With `labels`, the fragments' labels show which entities are right. `explain` returns why
    fragments are in an entity; without it, explanations in the entities are used. KBForgeError: the
    knowledge base cannot be read.
    """
    sizes = Counter[int]()
    n_fragments, calibrated, unrivalled = 0, 0, 0
    confidences, conflicts = ConfidenceCounter(), _ConflictCounter()
    lists: tuple[list[Any], ...] = ([], [], [])  # by size, by doubt, by name
    worst: list[Any] = []
    for number, entity in enumerate(view.entities()):
        size, stated = len(entity.fragments), entity.confidence
        sizes[bisect_right(SIZES, size) - 1] += 1
        n_fragments += size
        calibrated += entity.reported is not None
        unrivalled += entity.probability == 1
        confidences.add(stated, [f.label for f in view.fragments(entity)] if labels else ())
        conflicts.add(entity)
        _list(entity, number, lists)
        doubt = (1 - stated) * size
        if doubt > 0 and _is_among(worst, (-doubt, number), MOST):
            _put(worst, (-doubt, number, entity), MOST)
    n_entities = sizes.total()
    facts = Facts(
        title=title,
        chosen=tuple(chosen),
        entities=n_entities,
        fragments=n_fragments,
        sizes=tuple((size_band(k), sizes[k]) for k in range(max(sizes, default=-1) + 1)),
        calibrated=0 < calibrated == n_entities,
        unrivalled=unrivalled,
        confidences=confidences.bands(),
        stated=confidences.total,
        conflicts=conflicts.found(),
        listed=tuple({number: row for one in lists for _, number, row in one}.values()),
    )
    if past is not None:
        facts = _with_past(facts, past)
    chief = [entity for *_, entity in worst]
    if again:
        facts = _with_names(facts, view, chief)
    place = {attribute: at for at, attribute in enumerate(conflicts.order())}
    shown = tuple(_shown(one, place, explain) for one in chief)
    return replace(facts, doubtful=shown)


def _list(entity: Entity, number: int, lists: Sequence[list[tuple[Any, ...]]]) -> None:
    """Add an entity to the lists by size, by uncertainty and by name if it ranks high enough."""
    name = (entity.name.casefold(), entity.name)
    keys = (-len(entity.fragments), entity.confidence - 1, name)
    for listed, key in zip(lists, keys, strict=True):
        if _is_among(listed, (key, number), MOST_LISTED):
            _put(listed, (key, number, _row(entity)), MOST_LISTED)


def _is_among(first: Sequence[tuple[Any, ...]], key: tuple[Any, int], most: int) -> bool:
    """Whether a sorted list of limited length has room for this key."""
    return len(first) < most or key < first[-1][:2]


def _put(first: list[tuple[Any, ...]], item: tuple[Any, ...], most: int) -> None:
    insort(first, item, key=lambda one: one[:2])
    del first[most:]


def size_band(band: int) -> str:
    """A band of `SIZES` in words."""
    low = SIZES[band]
    if band + 1 == len(SIZES):
        return f"{low:,} and more"
    high = SIZES[band + 1] - 1
    return f"{low:,}" if high == low else f"{low:,} to {high:,}"


def _row(entity: Entity) -> EntityRow:
    names = naming(tuple(entity.properties))
    others = [values[0] for name, values in entity.properties.items() if name not in names]
    return (
        quoted(entity.name, _LIST_CHARACTERS),
        tuple(quoted(value.value, _LIST_CHARACTERS) for value in others[:_MOST_VALUES]),
        len(entity.fragments),
        entity.confidence,
    )


class ConfidenceCounter:
    """Counts entities by confidence, and how many of them are right."""

    def __init__(self) -> None:
        bands = len(CONFIDENCES)
        self._entities, self._stated = [0] * bands, [0.0] * bands
        # of each entity with one label: the label, fragments and confidence
        self._labels, self._sizes, self._said = array("Q"), array("Q"), array("d")
        self._of_label: Counter[int] = Counter()
        # of those with several labels
        self._wrong, self._wrong_stated = [0] * bands, [0.0] * bands

    @property
    def total(self) -> float:
        """The sum of the confidences."""
        return sum(self._stated)

    def add(self, stated: float | None, labels: Sequence[str | None]) -> None:
        """Count an entity with the labels of its fragments, which are empty if they do not count.

        If it has no confidence, only its labels count: other entities with one of them are wrong.
        """
        known = [_number(label) for label in labels if label is not None]
        self._of_label.update(known)
        if stated is None:
            return
        band = bisect_right(CONFIDENCES, stated) - 1
        self._entities[band] += 1
        self._stated[band] += stated
        if not known or len(known) < len(labels):
            return  # of one without a label nobody knows
        if len(set(known)) > 1:
            self._wrong[band] += 1
            self._wrong_stated[band] += stated
            return
        self._labels.append(known[0])
        self._sizes.append(len(known))
        self._said.append(stated)

    def bands(self) -> tuple[ConfidenceBand, ...]:
        """The bands, after all entities were added."""
        known, stated = list(self._wrong), list(self._wrong_stated)
        right = [0] * len(known)
        for label, size, said in zip(self._labels, self._sizes, self._said, strict=True):
            band = bisect_right(CONFIDENCES, said) - 1
            known[band] += 1
            stated[band] += said
            right[band] += self._of_label[label] == size
        ends = (*CONFIDENCES[1:], 1.0)
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
            for k, low in enumerate(CONFIDENCES)
        )


def _number(label: str) -> int:
    return int.from_bytes(hashlib.blake2b(label.encode(), digest_size=8).digest(), "big")


class _ConflictCounter:
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

    def found(self) -> tuple[tuple[str, int, int, str, tuple[str, ...]], ...]:
        """The counts in the order of the file; if there are many attributes, only the most
        frequent."""
        told = {name for name, _ in self._disagree.most_common(_MOST_CONFLICTS)}
        return tuple(
            (
                quoted(attribute, _LIST_CHARACTERS),
                self._stated[attribute],
                self._disagree[attribute],
                *self._most[attribute][1:],
            )
            for attribute in self.order()
            if attribute in told
        )


def _shown(entity: Entity, place: Mapping[str, int], explain: Explain | None) -> Entity:
    """An entity with the alternatives and explanations that the page shows."""
    names = sorted(entity.properties, key=lambda attribute: place.get(attribute, len(place)))
    said = entity.explanations if explain is None else explain(entity)
    return replace(
        entity,
        properties={name: entity.properties[name] for name in names},
        alternatives=tuple(_alternatives(entity)),
        explanations=_least_fitting(said) if said else None,
    )


def _least_fitting(explanations: Mapping[str, Explanation]) -> dict[str, Explanation]:
    """The worst-fitting fragment, with the largest contributions."""
    id = min(explanations, key=lambda id: explanations[id].total)
    why = explanations[id]
    most = sorted(why.attributes, key=lambda name: -abs(why.attributes[name]))
    shown = {name: why.attributes[name] for name in most[:_MOST_REASONS]}
    if others := most[_MOST_REASONS:]:
        shown["all others"] = sum(why.attributes[name] for name in others)
    return {id: Explanation(why.prior, shown)}


def _with_names(facts: Facts, view: View, chief: Sequence[Entity]) -> Facts:
    """The facts with the names of the fragments and entities on the page."""
    spoken = {id for one in facts.decisions for id in (one.decision.first, one.decision.second)}
    for entity in chief:
        for alternative in _alternatives(entity):
            spoken.update(*alternative.groups)
    changed = {id for one in facts.changes for id in (one.entity, *one.others[:_MOST_IDS])}
    fragments, entities = dict[str, str](), dict[str, str]()
    if not spoken and not changed:
        return facts
    for entity in view.entities():
        if entity.id in changed:
            entities[entity.id] = entity.name
        held = spoken.intersection(entity.fragments)
        if held:
            fragments |= {
                one.id: name_of(one) or one.id for one in fragments_of(entity) if one.id in held
            }
    return replace(facts, fragment_names=fragments, entity_names=entities)


def _alternatives(entity: Entity) -> Sequence[Alternative]:
    """The alternatives that the page shows."""
    return sorted(entity.alternatives, key=lambda one: -one.probability)[:_MOST_ALTERNATIVES]


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
        counted[decided.decision.word] += 1
    kinds = Counter[Kind]()
    biggest: list[Any] = []  # the changes that move most fragments
    for number, change in enumerate(past.changes):
        kinds[change.kind] += 1
        moved = len(set(change.before).symmetric_difference(change.after))
        if _is_among(biggest, (-moved, number), MOST):
            _put(biggest, (-moved, number, change), MOST)
    return replace(
        facts,
        pairs=past.pairs,
        kinds=tuple((kind, kinds[kind]) for kind in Kind if kinds[kind]),
        changes=tuple(change for *_, change in biggest),
        runs=tuple(reversed(runs)),
        n_runs=n_runs,
        seconds=seconds,
        decisions=tuple(reversed(decisions)),
        n_same=counted["same"],
        n_different=counted["different"],
        n_undone=counted["undone"],
        drift=past.drift,
    )


def report_html(facts: Facts) -> str:
    """The page of a knowledge base; the same facts give the same page."""
    shares = [share for share in facts.confidences if share.entities]
    pairs = facts.pairs if facts.pairs is not None and facts.pairs.count else None
    return _template().render(
        facts=facts,
        version=__version__,
        tiles=_tiles(facts),
        most_ids=_MOST_IDS,
        most_values=_MOST_VALUES,
        most_attributes=_MOST_ATTRIBUTES,
        intervals=[(_interval(share), share.entities) for share in facts.confidences],
        shares=shares,
        known=sum(share.known for share in shares),
        right=sum(share.right for share in shares),
        expected=sum(share.stated_known * share.known for share in shares),
        labelled=[(s.stated_known, s.right / s.known, s.known) for s in shares if s.known],
        pairs=pairs,
        answered=[] if pairs is None else [(b.reported, b.share, b.count) for b in pairs.table],
    )


@cache
def _template() -> Template:
    made = environment()
    made.filters |= {"interval": _interval, "set": frozenset}
    return made.get_template(
        "report.html", globals={"style": part("style.css"), "script": part("table.js")}
    )


def _tiles(facts: Facts) -> list[tuple[str, str]]:
    found = [
        (f"{facts.entities:,}", "entity" if facts.entities == 1 else "entities"),
        (f"{facts.fragments:,}", "fragment" if facts.fragments == 1 else "fragments"),
        (f"{facts.stated:,.0f}", "entities expected to be right"),
        (f"{facts.entities - facts.unrivalled:,}", "with another possible grouping"),
    ]
    return found if facts.drift is None else [*found, (f"{facts.drift[0]:.2f}", "drift")]


def _interval(share: ConfidenceBand) -> str:
    return f"{share.low * 100:.0f} to {share.high * 100:.0f} %"
