"""Facts about a store for pages and API, as structs with bounded lists.

Subproblems are identified by their names in the store.
"""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Collection, Iterable, Mapping, Sequence
from pathlib import Path

import numpy as np
import orjson
from msgspec import structs

from kbforge.contracts import DecisionRecord, Entity, Fragment, Kind, Value
from kbforge.contracts.entity import Natural, Probability, Span
from kbforge.errors import NotFoundError, UsageError, how_sure, quoted
from kbforge.jobs.acts import key_of
from kbforge.jobs.decide import signed_decisions
from kbforge.jobs.report import Status, status_in
from kbforge.kb.entities import Corpus, all_described, name_of
from kbforge.kb.show import grouping
from kbforge.kb.similarity import leaf_names
from kbforge.kb.similarity import similar as similar_fragments
from kbforge.kb.times import EXPECTED, Period, holds, last_of, read_time, spans_of, when
from kbforge.kb.view import most_probable
from kbforge.store.assertions import ASSERTED, assertions_of
from kbforge.store.changes import known_of
from kbforge.store.pages import fragment_from_bytes, numbers_from_bytes, numbers_to_bytes
from kbforge.store.store import Store
from kbforge.store.tables import ask, read_rows, rows_of
from kbforge_serve.answers import Answer, EntityReference, Record, as_json, record_of
from kbforge_serve.readers import Readers

MOST_FRAGMENTS = 200
"""Maximum number of fragments of an entity in one answer, of a group, and of a subproblem."""
MOST_STATING = 200
"""Maximum number of entities that are looked at at once for values that name another one."""
_MOST_ABOUT = 20  # decisions that name fragments of an entity
_MOST_NAMED = 12  # of those in an attribute, on the page of the other one
_MOST_CHARACTERS = 4_000_000  # of the fragments in one answer
_MOST_VALUES = 100  # of an attribute
_MOST_STATING = 20  # fragments named for a value
_MOST_SPANS = 20  # in which a value held
_MOST_SAID = 400  # characters
_MOST_SOURCES = 20  # that state a value in question
_MOST_OTHERS = 3  # values that a fragment differs from
_MOST_ALTERNATIVES = 10
_MOST_RUNS = 50  # in the history of an entity
_MOST_IMAGES = 500  # of one run that are searched for what an entity took in
_MOST_GROUPINGS = 20
_MOST_LISTED = 200


class MadeDecision(Answer, frozen=True):
    """A decision, in force or undone, the runs that made and undid it, and the entities that its
    fragments are of now."""

    number: Natural
    same: bool | None  # None: somebody could not tell
    first: str
    second: str
    run: Natural
    undone: Natural | None
    by: str | None  # None: it is older than the audit
    at: float | None  # seconds since 1970, UTC
    note: str
    asserts: str | None  # in words, if it asserts a value and was not erased
    verb: str  # of the run that made it, "" if it is older than the audit
    first_entity: EntityReference | None  # None: the fragment is not there
    second_entity: EntityReference | None


class MeantEntity(Answer, frozen=True):
    """An entity that a value may name, and the probability that it does."""

    entity: EntityReference
    probability: Probability


class StatedValue(Answer, frozen=True):
    """A value, the number of fragments that state it, and the first of them.

    `holds` is whether it does at the time that is asked for, `said` its times in words; the other
    members are as in a knowledge base: the most probable meaning first, the last spans, of each the
    first and the last time, who settled the attribute on it.
    """

    value: str
    count: Natural
    fragments: Sequence[str]
    confidence: Probability | None
    meanings: list[MeantEntity]
    first: str | None
    last: str | None
    until: str | None
    held: Sequence[Span]
    said: str
    holds: bool
    by: str | None


class Claim(Answer, frozen=True):
    """A value in question: how probable it is, whether it is the one taken, and how many fragments
    of each source state it ("" for those without a source); of `n_sources` those with most. `by` is
    who settled the attribute on it, `fragment` the first that states it."""

    value: str
    confidence: Probability
    taken: bool
    count: Natural
    sources: dict[str, Natural]
    n_sources: Natural
    by: str | None
    fragment: str


class Stating(Answer, frozen=True):
    """An entity that has a value which names another one, and the probability that it does."""

    entity: EntityReference
    attribute: str
    probability: Probability


class StatedAs(Answer, frozen=True):
    """Entities whose values name an entity: how many in each attribute, and some of them.

    `next` is where to go on if there are more, which no count includes.
    """

    counts: dict[str, Natural]
    by: list[Stating]
    next: Natural | None


class Member(Answer, frozen=True):
    """A fragment of an entity: where it agrees, and the others' values where it differs."""

    fragment: Record
    agrees: list[str]
    differs: dict[str, list[str]]


class CompetingGrouping(Answer, frozen=True):
    """A grouping that competes with an entity, in words and as the fragments of each group.

    `homes` has the entities of the fragments that are in `others`.
    """

    probability: Probability
    said: str
    groups: list[Sequence[str]]
    sizes: list[Natural]
    others: list[EntityReference]
    homes: dict[str, str]


class EntityEvent(Answer, frozen=True):
    """What a run did to an entity, and the entities that it exchanged fragments with, by id."""

    run: Natural
    began: float
    verb: str
    kind: Kind
    gained: Natural
    lost: Natural
    others: dict[str, str]


class EntityDetails(EntityReference, frozen=True):
    """An entity; `next` is the place of the first fragment that did not fit, `at` the time that is
    asked for, "" for all. `distinct` and `in_question` count the values of each attribute, all and
    those in `contradictions`, of which the lists have the first ones. `decisions` are the last that
    name one of its fragments."""

    at: str
    reported: Probability
    said: str
    subproblem: Natural
    properties: dict[str, list[StatedValue]]
    distinct: dict[str, Natural]
    in_question: dict[str, Natural]
    contradictions: dict[str, list[Claim]]
    stated_as: StatedAs
    fragments: list[Member]
    next: Natural | None
    alternatives: list[CompetingGrouping]
    history: list[EntityEvent]
    decisions: list[MadeDecision]


class FormerEntity(Answer, frozen=True):
    """A former entity, and those that have its fragments now."""

    id: str
    now: list[EntityReference]


class StatedEntity(StatedAs, frozen=True):
    """An entity, and some of those whose values name it."""

    entity: EntityReference


class FoundFragment(Answer, frozen=True):
    """A fragment, its place in its source, and its entity; agreement as in `Member`."""

    fragment: Record
    place: str | None
    entity: EntityReference
    subproblem: Natural
    agrees: list[str]
    differs: dict[str, list[str]]


class Similar(Answer, frozen=True):
    """A fragment that may be the same entity as another.

    `rest` is the probability of groupings that the store does not keep in detail.
    """

    fragment: str
    entity: EntityReference
    probability: Probability
    rest: Probability


class SimilarFragments(Answer, frozen=True):
    """The fragments that may be the same entity as a fragment, the most probable first."""

    fragment: str
    entity: EntityReference
    similar: list[Similar]


class ParticleGrouping(Answer, frozen=True):
    """A grouping of a subproblem; groups are places among its fragments, and `key` identifies it
    in the act that chooses it."""

    probability: Probability
    key: str
    groups: Sequence[Sequence[Natural]]


class SubproblemDetails(Answer, frozen=True):
    """Fragments that are clustered together, and their competing groupings."""

    name: Natural
    size: Natural
    fragments: list[str]
    labels: list[str]
    entities: list[EntityReference]
    particles: Natural
    groupings: list[ParticleGrouping]
    similarity: list[list[Probability]]


class ServedStatus(Status, frozen=True):
    """A summary of the store, with its last runs, and their number."""

    n_runs: Natural


def references(readers: Readers, store: Store, entities: Sequence[str]) -> list[EntityReference]:
    """References to entities, in order; unknown ids are left out."""
    rows = {row[0]: row for row in rows_of(store.database.connection, "entity", "id", entities)}
    return _references(readers, store, [rows[id] for id in entities if id in rows])


def holding(readers: Readers, store: Store, numbers: Sequence[int]) -> dict[int, EntityReference]:
    """References to the entities that hold fragments, by the fragments' numbers."""
    homes = store.pages.homes(numbers)
    names = sorted(set(homes.values()))
    rows = list(rows_of(store.database.connection, "entity", "subproblem", names))
    wanted = set(numbers)
    held = [
        (row, found)
        for row in rows
        if (found := wanted.intersection(numbers_from_bytes(row[2]).tolist()))
    ]
    said = _references(readers, store, [row for row, _ in held])
    return {n: one for (_, found), one in zip(held, said, strict=True) for n in found}


def _references(
    readers: Readers, store: Store, rows: Sequence[tuple[str, int, bytes]]
) -> list[EntityReference]:
    """References to entities by their rows."""
    connection = store.database.connection
    members = [numbers_from_bytes(row[2]).tolist() for row in rows]
    firsts = [held[0] for held in members]
    confidence = {
        first: sure for first, *_, sure in rows_of(connection, "confidence", "first", firsts)
    }
    stale = [n for (n,) in rows_of(connection, "stale", "subproblem", [row[1] for row in rows])]
    if stale:
        changed = {one.id: one for one in readers.view_of(store).of_subproblems(sorted(set(stale)))}
    words = store.fact("frozen", {}).get("kept", {}).get("words")
    learned = f"{words} {store.fact(ASSERTED)}"  # what names depend on besides the fragments
    names = readers.names  # another thread may empty the cache, and puts a new one in its place
    known = {row[2]: names.get((learned, row[2])) for row in rows}
    unnamed = [held for row, held in zip(rows, members, strict=True) if known[row[2]] is None]
    numbers = [n for held in unnamed for n in held]
    lines = {
        n: (at, line) for n, _, at, _, _, line in rows_of(connection, "fragment", "number", numbers)
    }
    ordered = [sorted(lines[n] for n in held) for held in unnamed]
    groups = [[fragment_from_bytes(line) for _, line in one] for one in ordered]
    for group in groups:
        group += assertions_of(connection, [one.id for one in group])
    described = all_described(groups, store.corpus) if groups else []
    for held, made in zip(unnamed, described, strict=True):
        known[content := numbers_to_bytes(held)] = made.name
        if not store.database.rehearsing:  # its numbers will be of other fragments
            readers.remember((learned, content), made.name)
    out = []
    for (id, home, content), held in zip(rows, members, strict=True):
        name = known[content]
        assert name is not None
        sure = changed[id].confidence if home in stale else confidence[held[0]]
        out.append(EntityReference(id, name, len(held), sure))
    return out


def made_decisions(
    readers: Readers, store: Store, made: Sequence[DecisionRecord]
) -> list[MadeDecision]:
    """Some decisions, in order."""
    numbers = store.pages.numbers([id for one in made for id in (one.first, one.second)])
    homes = holding(readers, store, list(numbers.values()))
    of = {id: homes[number] for id, number in numbers.items()}
    out = list[MadeDecision]()
    for one in signed_decisions(store, made):
        said = one.number, one.same, one.a, one.b, one.run, one.undone
        when = one.by, one.at, one.note, one.asserts, one.verb
        out.append(MadeDecision(*said, *when, of.get(one.a), of.get(one.b)))
    return out


def decisions_about(readers: Readers, store: Store, fragments: Sequence[str]) -> list[MadeDecision]:
    """The last decisions that name one of some fragments, the latest first."""
    return made_decisions(readers, store, store.decisions_about(fragments)[: -_MOST_ABOUT - 1 : -1])


def reference(entity: Entity) -> EntityReference:
    """A reference to an entity in memory."""
    return EntityReference(entity.id, entity.name, len(entity.fragments), entity.confidence)


def entity(readers: Readers, id: str, first: int = 0, at: str = "") -> EntityDetails | FormerEntity:
    """An entity: values with the fragments that state each, fragments, competing groupings,
    history.

    `first` is the place of the first fragment to return, `at` a time for `StatedValue.holds`.

    Raises NotFoundError if there was never such an entity, and UsageError if `at` is no time.
    """
    period = read_time(at)
    if at and period is None:
        raise UsageError(f'at: expected {EXPECTED}, got "{quoted(at)}"')
    with readers.store() as store:
        now = store.now(id)
        if now != (id,):
            return FormerEntity(id, references(readers, store, now))
        block, own = _block(readers, store, id)
        fragments = readers.view_of(store).fragments(own)
        told, end = _fragments(own, fragments, first)
        claims = _contradictions(own, fragments, store.corpus)
        return EntityDetails(
            *(own.id, own.name, len(own.fragments), own.confidence, at, own.probability),
            said=how_sure(own.confidence),
            subproblem=own.subproblem,
            properties=_properties(readers, store, own, period),
            distinct={attribute: len(values) for attribute, values in own.properties.items()},
            in_question={attribute: len(of) for attribute, of in claims.items()},
            contradictions={attribute: of[:_MOST_VALUES] for attribute, of in claims.items()},
            stated_as=_stated_as(readers, store, own, 0, _MOST_NAMED),
            fragments=told,
            next=end,
            alternatives=_alternatives(own, block, fragments),
            history=_history(readers, store, own),
            decisions=decisions_about(readers, store, own.fragments),
        )


def _block(readers: Readers, store: Store, id: str) -> tuple[list[Entity], Entity]:
    """The entities of an entity's subproblem, and the entity itself."""
    block = list(readers.view_of(store).of_subproblems([store.entity(id)[0]]))
    return block, next(one for one in block if one.id == id)


def _properties(
    readers: Readers, store: Store, own: Entity, at: Period | None
) -> dict[str, list[StatedValue]]:
    """The first values of each attribute, with references to the entities that they may name."""
    first = {attribute: values[:_MOST_VALUES] for attribute, values in own.properties.items()}
    meant = {m.entity for values in first.values() for value in values for m in value.meanings}
    named = {one.id: one for one in references(readers, store, sorted(meant))}
    return {
        attribute: [
            StatedValue(
                *(value.value, value.count, value.fragments[:_MOST_STATING], value.confidence),
                [MeantEntity(named[m.entity], m.probability) for m in value.meanings],
                *(value.first, value.last, value.until),
                [_shortened(span) for span in spans_of(value)[-_MOST_SPANS:]],
                quoted(when(value, own.properties[attribute]), _MOST_SAID),
                at is None or holds(value, at),
                value.by,
            )
            for value in values
        ]
        for attribute, values in first.items()
    }


def _shortened(span: Span) -> Span:
    """A span with its first and its last time."""
    return Span(tuple(dict.fromkeys((span.stated[0], last_of(span)))), span.until)


def stated(readers: Readers, id: str, begin: int = 0) -> StatedEntity | FormerEntity:
    """The entities whose values name an entity, from `begin` on: 0, or the `next` of an answer.

    Raises NotFoundError if there was never such an entity.
    """
    with readers.store() as store:
        now = store.now(id)
        if now != (id,):
            return FormerEntity(id, references(readers, store, now))
        _, own = _block(readers, store, id)
        found = _stated_as(readers, store, own, begin, MOST_STATING)
        return StatedEntity(found.counts, found.by, found.next, reference(own))


def _stated_as(readers: Readers, store: Store, own: Entity, begin: int, named: int) -> StatedAs:
    """The entities whose values name one; of each attribute only the first ones are named."""
    found, following = readers.view_of(store).stating(own, begin, MOST_STATING)
    counts: Counter[str] = Counter()
    chosen = []
    for one in found:
        counts[one.attribute] += 1
        if counts[one.attribute] <= named:
            chosen.append(one)
    names = {one.id: one for one in references(readers, store, [one.entity for one in chosen])}
    by = [Stating(names[one.entity], one.attribute, one.probability) for one in chosen]
    return StatedAs(dict(counts.most_common()), by, following)


def in_question(own: Entity, corpus: Corpus) -> dict[str, list[tuple[Value, float]]]:
    """By attribute, values that contradict each other; attributes with several are left out."""
    asked = {
        attribute: [(value, value.confidence) for value in values if value.confidence is not None]
        for attribute, values in own.properties.items()
        if attribute not in corpus.several
    }
    return {attribute: values for attribute, values in asked.items() if len(values) > 1}


def _contradictions(
    own: Entity, fragments: Sequence[Fragment], corpus: Corpus
) -> dict[str, list[Claim]]:
    """The values in question by attribute, the most probable first, and who states each."""
    source = {one.id: one.source or "" for one in fragments}
    found: dict[str, list[Claim]] = {}
    for attribute, asked in in_question(own, corpus).items():
        taken = most_probable([value for value, _ in asked])
        claims = found[attribute] = []
        for value, sure in asked:
            counts = Counter(source[id] for id in value.fragments)
            often = dict(counts.most_common(_MOST_SOURCES))
            is_taken = value is taken
            told = value.value, sure, is_taken, value.count, often, len(counts), value.by
            claims.append(Claim(*told, value.fragments[0]))
        claims.sort(key=lambda one: (not one.taken, -one.confidence))
    return found


def _fragments(
    held: Entity, fragments: Sequence[Fragment], first: int
) -> tuple[list[Member], int | None]:
    """Some fragments of an entity, and the place of the first one that did not fit."""
    out: list[Member] = []
    characters = 0
    for place in range(max(first, 0), len(fragments)):
        told = record_of(fragments[place])
        characters += len(as_json(told))
        if out and (len(out) == MOST_FRAGMENTS or characters > _MOST_CHARACTERS):
            return out, place
        out.append(Member(told, *_agreement(fragments[place], held.properties)))
    return out, None


def _agreement(
    fragment: Fragment, properties: Mapping[str, Sequence[Value]]
) -> tuple[list[str], dict[str, list[str]]]:
    """Where a fragment agrees with its entity, and the others' values where it differs.

    It agrees if it states the most common value of an attribute and is not the only one; it differs
    if others state the attribute and it has none of the most common values.
    """
    agrees: list[str] = []
    differs: dict[str, list[str]] = {}
    for attribute, own in fragment.properties.items():
        values = properties[attribute]
        most = max(value.count for value in values)
        commonest = {value.value for value in values if value.count == most}
        if most > 1 and not commonest.isdisjoint(own):
            agrees.append(attribute)
            continue
        others = [value.value for value in values if value.value not in own]
        if others:
            differs[attribute] = others[:_MOST_OTHERS]
    return agrees, differs


def _alternatives(
    own: Entity, block: Iterable[Entity], fragments: Sequence[Fragment]
) -> list[CompetingGrouping]:
    """The competing groupings of an entity, the most probable first, with the others they touch."""
    homes = {fragment: one for one in block if one.id != own.id for fragment in one.fragments}
    names = {fragment: one.name for fragment, one in homes.items()}
    names |= {fragment.id: name for fragment in fragments if (name := name_of(fragment))}
    out = []
    for one in own.alternatives[:_MOST_ALTERNATIVES]:
        touched = {homes[f].id: homes[f] for group in one.groups for f in group if f in homes}
        out.append(
            CompetingGrouping(
                one.probability,
                grouping(one, own, names=names),
                [group[:MOST_FRAGMENTS] for group in one.groups],
                [len(group) for group in one.groups],
                [reference(other) for other in touched.values()][:MOST_FRAGMENTS],
                {f: homes[f].id for group in one.groups for f in group if f in homes},
            )
        )
    return out


def _history(readers: Readers, store: Store, own: Entity) -> list[EntityEvent]:
    """What runs did to an entity, the last one first: as `Kind`, with the entities concerned."""
    rows = store.database.connection
    where = "WHERE run IN (SELECT number FROM run) AND entity = ? ORDER BY run DESC LIMIT ?"
    images = list(read_rows(rows, "image", where, (own.id, _MOST_RUNS)))
    read = rows_of(rows, "run", "number", [1, *(n for n, *_ in images)])
    runs = {run: (began, verb) for run, verb, *_, began in read}
    out = []
    after: Collection[str] = store.pages.numbers(own.fragments)  # without what persons assert
    for number, _, content in images:
        image = orjson.loads(content)
        before = known_of(image)
        gained, lost = set(after).difference(before), set(before).difference(after)
        kind = Kind.CHANGED
        if not image:
            kind = Kind.CREATED
        elif not after:
            kind = Kind.REMOVED
        others = _givers(store, number, own.id, gained) | _takers(store, own.id, lost)
        named = _named(readers, store, others)
        counts = len(gained), len(lost)
        out.append(EntityEvent(number, *runs[number], kind, *counts, named))
        after = before
    if after and len(images) < _MOST_RUNS:  # no image says that it was created: the first run did
        out.append(EntityEvent(1, *runs[1], Kind.CREATED, len(after), 0, {}))
    return out


def _named(readers: Readers, store: Store, others: Mapping[str, str]) -> dict[str, str]:
    """Names of entities by id; of a former one, the name of the fragment that is given for it."""
    numbers = store.pages.numbers([*others.values()])
    content = store.pages.fragments([*numbers.values()])
    names = {fragment.id: name_of(fragment) for fragment in content.values()}
    now = {one.id: one.name for one in references(readers, store, [*others])}
    return {id: now.get(id) or names.get(fragment) or id for id, fragment in others.items()}


def _givers(store: Store, run: int, entity: str, gained: set[str]) -> dict[str, str]:
    """The entities that had some fragments before a run, if it touched few, each with one."""
    if not gained:
        return {}
    where = "WHERE run = ? LIMIT ?"
    rows = list(read_rows(store.database.connection, "image", where, (run, _MOST_IMAGES + 1)))
    if len(rows) > _MOST_IMAGES:
        return {}
    return {
        other: min(gained.intersection(orjson.loads(content)))
        for _, other, content in rows
        if other != entity and not gained.isdisjoint(orjson.loads(content))
    }


def _takers(store: Store, entity: str, lost: set[str]) -> dict[str, str]:
    """The current entities of some fragments."""
    numbers = store.pages.numbers(sorted(lost)[:MOST_FRAGMENTS])
    return {other: "" for other in store.holders(set(numbers.values())) if other != entity}


def _home(
    readers: Readers, store: Store, id: str, alternatives: str
) -> tuple[list[Entity], Entity, Fragment]:
    """The entities of a fragment's subproblem, including its own, and the fragment itself."""
    number, found = store.fragment(id)
    home = store.pages.homes([number])
    block = list(readers.view_of(store, alternatives).of_subproblems(list(home.values())))
    return block, next(one for one in block if id in one.fragments), found


def fragment(readers: Readers, id: str) -> FoundFragment:
    """A fragment, its entity, and where it agrees with the others.

    Raises NotFoundError if there is no such fragment.
    """
    with readers.store() as store:
        _, own, found = _home(readers, store, id, "few")
        agreement = _agreement(found, own.properties)
        return FoundFragment(
            record_of(found), found.place, reference(own), own.subproblem, *agreement
        )


def similar(readers: Readers, fragment_id: str) -> SimilarFragments:
    """The fragments that may be the same entity as a fragment, the most probable first.

    Raises NotFoundError if there is no such fragment.
    """
    with readers.store() as store:
        block, own, _ = _home(readers, store, fragment_id, "all")
        found = similar_fragments(lambda: block, fragment_id)
        return SimilarFragments(
            fragment_id,
            reference(own),
            [
                Similar(one.fragment, reference(one.entity), one.probability, one.rest)
                for one in found[:_MOST_LISTED]
            ],
        )


def subproblem(readers: Readers, name: int) -> SubproblemDetails:
    """A subproblem: its fragments by entity, its groupings, and the similarity of fragments.

    If there are more than `MOST_FRAGMENTS` fragments, the first ones are described, with their
    groups in the groupings. Groups are places among `fragments`; `similarity` is the probability of
    each pair, shape [n, n]. `particles` is the number of kept groupings.

    Raises NotFoundError if there is no such subproblem.
    """
    with readers.store() as store:
        try:
            page = store.pages.page(name)
        except (KeyError, OverflowError):
            raise NotFoundError(f"the knowledge base has no subproblem {name}") from None
        view = readers.view_of(store)
        block = list(view.of_subproblems([name]))
        ids = [id for one in block for id in one.fragments]
        shown = ids[:MOST_FRAGMENTS]
        numbers = store.pages.numbers(shown)
        places = {numbers[id]: place for place, id in enumerate(shown)}
        weights = np.exp(page.weights).tolist()
        together = np.zeros((len(shown), len(shown)))
        competing: dict[tuple[tuple[int, ...], ...], float] = defaultdict(float)
        keys: dict[tuple[tuple[int, ...], ...], str] = {}  # the heaviest of those that look alike
        for particle, weight in zip(page.subproblem().particles, weights, strict=True):
            parts = [tuple(sorted(places[n] for n in c if n in places)) for c in particle.clusters]
            key = tuple(sorted(part for part in parts if part))
            competing[key] += weight
            keys.setdefault(key, key_of(particle.clusters))
            for part in key:
                together[np.ix_(part, part)] += weight
        best = sorted(competing.items(), key=lambda item: (-item[1], item[0]))
        return SubproblemDetails(
            name,
            len(ids),
            shown,
            leaf_names(block)[:MOST_FRAGMENTS],
            [reference(one) for one in block[:MOST_FRAGMENTS]],
            len(weights),
            [
                ParticleGrouping(min(probability, 1.0), keys[parts], parts)
                for parts, probability in best[:_MOST_GROUPINGS]
            ],
            np.minimum(together.round(4), 1.0).tolist(),
        )


def status(readers: Readers) -> ServedStatus:
    """A summary of the store, like `kbforge status --json`, with the file's name without its
    folder."""
    with readers.store() as store:
        rows = store.database.connection
        # whatever writes changes one of these rows, and counting takes long in a large store
        key = ask(rows, "SELECT checksum FROM meta ORDER BY name")
        key += ask(rows, "SELECT checksum FROM run ORDER BY number DESC LIMIT 1")
        found = readers.status
        if found is None or found[0] != key:
            said = structs.asdict(status_in(store))
            said |= {"path": Path(readers.path).name, "n_runs": len(said["runs"])}
            said["runs"] = said["runs"][-_MOST_RUNS:]
            found = readers.status = key, ServedStatus(**said)
        return found[1]
