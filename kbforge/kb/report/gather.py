"""Gathering the facts of a report: one pass over a knowledge base, and one over its history.

Entities come one at a time. What a list on the page cannot hold is counted and not kept, so that
the facts of a large knowledge base take no more room than those of a small one. Labels take a few
bytes for each entity: whether one is right is known after the last entity.
"""

from __future__ import annotations

import hashlib
import heapq
from array import array
from bisect import bisect_right
from collections import Counter, deque
from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any

from kbforge.contracts import Alternative, Entity, Fragment, Value, View
from kbforge.contracts.view import Change, DecisionRecord, Kind, Run
from kbforge.errors import quoted
from kbforge.kb.properties import AttributeOrder, fragments_of, name_of, naming
from kbforge.kb.report.facts import (
    AttributeSummary,
    ChangeSummary,
    ConfidenceBand,
    Conflict,
    EntityLists,
    EntityRow,
    Facts,
    History,
    SizeBand,
    UncertainEntity,
)
from kbforge.kb.words import grouping

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
