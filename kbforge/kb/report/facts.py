"""The facts of a report: a bounded number, however large the knowledge base."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field

from kbforge.contracts.view import Change, DecisionRecord, Kind, Run
from kbforge.evaluation.reliability import Reliability


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
