"""Reads a store: facts, runs, decisions, models, fragments, entities and changes."""

from __future__ import annotations

import hashlib
import heapq
import sqlite3
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from itertools import pairwise
from typing import Any, TypeAlias

import numpy as np
import orjson

from kbforge.contracts import (
    Cluster,
    DecisionRecord,
    Entity,
    FloatArray,
    Fragment,
    IntArray,
    LearnedState,
    Provenance,
    Run,
    View,
)
from kbforge.contracts.fragment import is_of_source
from kbforge.errors import NotFoundError, StoreError, UsageError, quoted
from kbforge.files.columns import statements_of
from kbforge.kb.assertions import settling, with_assertions
from kbforge.kb.entities import (
    MOST_ALTERNATIVES,
    Annotator,
    Assembler,
    Corpus,
    Lines,
    entities_of,
    with_made,
)
from kbforge.kb.facts import Facts, Rates, kept_facts, kinds_of
from kbforge.kb.looks import Looks
from kbforge.kb.pools import Pools
from kbforge.kb.read import made_from_json
from kbforge.kb.relations import Trust, trusted
from kbforge.kb.spelling import Words
from kbforge.kb.times import StatedTimes
from kbforge.numerics import at_numbers
from kbforge.store.assertions import assertions_of
from kbforge.store.audit import AuditLine, line_of
from kbforge.store.database import Database
from kbforge.store.mentions import REFERS, Referrer, StoredLinks
from kbforge.store.pages import (
    StoredPages,
    columns_of_pages,
    fragment_from_bytes,
    kept_from_bytes,
    kept_to_bytes,
    numbers_from_bytes,
    page_from_bytes,
)
from kbforge.store.tables import (
    Row,
    ask,
    damaged,
    is_unexamined,
    read_rows,
    row_of,
    rows_of,
    verified_rows,
)
from kbforge.texts import LARGEST

NOT_TOLD = -1
"""Stands for None in the column `same` of a decision."""
ASSERTS = 2
"""What the table of decisions says, in place of whether two are the same, of one that asserts."""
FACTS = "facts"
"""The fact with the digest of what fused facts learned; None until a run that learned ends."""
_AT_ONCE = 400  # subproblems read at one time
_LARGEST = "ORDER BY size DESC, subproblem, first"
_LEAST_SURE = "ORDER BY confidence, reported, size DESC, subproblem, first"

Confidences: TypeAlias = Mapping[int, float]
"""The confidence of entities, by the number of their first fragments."""
Tell: TypeAlias = Callable[[Sequence[int]], Confidences]
"""Returns the confidence of entities, given the names of subproblems."""


class Store:
    """The content of a store."""

    def __init__(self, database: Database) -> None:
        self.database = database
        self.pages = StoredPages(database.connection)
        self._words: tuple[str, Words] | None = None  # and the digest that they are kept under
        self._facts: tuple[str, tuple[Rates, Looks]] | None = None  # likewise

    @property
    def _rows(self) -> sqlite3.Connection:
        return self.database.connection

    def fact(self, name: str, default: Any = None) -> Any:
        """A fact of the whole, as JSON has it."""
        row = row_of(self._rows, "meta", name)
        if row is None:
            return default
        try:
            return orjson.loads(row[1])
        except orjson.JSONDecodeError:
            damaged(self._rows, f"the fact {name}")

    @property
    def made(self) -> Provenance | None:
        """How entities have been made since the models learned; None if that version did not record
        it."""
        told = self.fact("frozen", {}).get("made")
        return None if told is None else made_from_json(told, quoted(self.database.path, 400))

    @property
    def corpus(self) -> Corpus:
        """Statistics of the fragments' attributes and words, as far as the store has them."""
        columns, frozen = self.fact("drift", {}).get("columns", ()), self.fact("frozen", {})
        digest = frozen.get("kept", {}).get("words")
        if digest is not None and (self._words is None or self._words[0] != digest):
            self._words = digest, Words(self.kept(digest).arrays["words"])
        words = None if digest is None or self._words is None else self._words[1]
        places = {attribute: place for place, attribute in enumerate(columns)}
        several, refer = (
            frozenset(told or ()) for told in (frozen.get("several"), self.fact(REFERS))
        )
        return Corpus(places, words, several, refer)

    @property
    def facts(self) -> tuple[Rates, Looks] | None:
        """What says how probable values in question are; None if it was not learned."""
        digest = self.fact(FACTS)
        if digest and (self._facts is None or self._facts[0] != digest):
            self._facts = digest, kept_facts(self.kept(digest))
        return self._facts[1] if digest and self._facts else None

    @property
    def time(self) -> str | None:
        """The name of the time of all that a fragment states, if it was given."""
        found: str | None = self.fact("choices", {}).get("time")
        return found

    @property
    def attributes(self) -> tuple[str, ...]:
        """The attributes that the models learned from, and those with a known place."""
        drift = self.fact("drift", {})
        return tuple(dict.fromkeys([*drift.get("columns", ()), *drift.get("learned", ())]))

    @property
    def links(self) -> StoredLinks | None:
        """The links of its entities as they are now; None if no attribute refers."""
        attributes = self.fact(REFERS)
        return StoredLinks(self._rows, attributes) if attributes else None

    @property
    def has_session(self) -> bool:
        """Whether any fragment was added."""
        return row_of(self._rows, "meta", "totals") is not None

    @property
    def has_stale(self) -> bool:
        """Whether entities changed since their confidence was computed."""
        return bool(self.n_stale(1))

    def n_stale(self, most: int) -> int:
        """The number of subproblems with such entities, counted up to a limit."""
        return sum(1 for _ in read_rows(self._rows, "stale", "LIMIT ?", (most,)))

    def require_made(self) -> None:
        """Raise a UsageError if nothing was added to the store, or all was erased."""
        if self.database.version is None or self.fact("choices") is None:
            raise UsageError(
                f"{quoted(self.database.path, 400)} is empty: kbforge cluster --into fills a store"
            )

    def kept(self, digest: str) -> LearnedState:
        """The learned state of a model; a StoreError if it is missing or damaged."""
        row = row_of(self._rows, "kept", digest)
        if row is None or hashlib.sha256(row[1]).hexdigest() != digest:
            raise StoreError("the store is damaged: the state of a model is damaged")
        return kept_from_bytes(row[1])

    @property
    def n_fragments(self) -> int:
        """The number of fragments."""
        return self.pages.totals.n_fragments if self.has_session else 0

    @property
    def n_entities(self) -> int:
        """The number of entities."""
        last = self.last_run
        return 0 if last is None else last.entities

    @property
    def next_decision(self) -> int:
        """The number of the next decision."""
        last = next(read_rows(self._rows, "decision", "ORDER BY number DESC LIMIT 1"), (0,))
        return 1 + int(last[0])

    def runs(self) -> list[Run]:
        """All runs, the first one first."""
        return [_run(row) for row in read_rows(self._rows, "run", "ORDER BY number")]

    def last_runs(self, most: int, before: int | None = None) -> list[Run]:
        """The last runs, or those before a number, the latest first."""
        return [_run(row) for row in self._last("run", most, before)]

    def last_lines(self, most: int, before: int | None = None) -> list[AuditLine]:
        """The last lines of the audit, or those before a number, the latest first."""
        return [line_of(row) for row in self._last("audit", most, before)]

    def _last(self, table: str, most: int, before: int | None) -> Iterator[Row]:
        where = "WHERE number < ? ORDER BY number DESC LIMIT ?"
        return read_rows(self._rows, table, where, (LARGEST if before is None else before, most))

    def authors(self, since: int) -> dict[int, list[str]]:
        """By run from a number on, the names in the audit of who wrote in it."""
        found: dict[int, list[str]] = {}
        asked = "SELECT DISTINCT run, author FROM audit WHERE run >= ? ORDER BY run, author"
        for run, author in ask(self._rows, asked, (since,)):
            found.setdefault(run, []).append(author)
        return found

    @property
    def position(self) -> int:
        """The last completed run, 0 if there is none: readers of the changes continue from
        there."""
        last = "WHERE finished ORDER BY number DESC LIMIT 1"
        return int(next(read_rows(self._rows, "run", last), (0,))[0])

    @property
    def last_run(self) -> Run | None:
        """The last run, if there is one."""
        rows = read_rows(self._rows, "run", "ORDER BY number DESC LIMIT 1")
        return next(map(_run, rows), None)

    @property
    def last_number(self) -> int:
        """The number of the last run, 0 if there is none."""
        last = self.last_run
        return 0 if last is None else last.number

    def decisions(self) -> list[DecisionRecord]:
        """All decisions, the first one first."""
        return [_decision(row) for row in read_rows(self._rows, "decision", "ORDER BY number")]

    def last_decisions(
        self, before: int | None = None, in_force: bool = False, by: str = ""
    ) -> Iterator[DecisionRecord]:
        """The decisions before a number, the latest first: all, or those in force, or those with a
        line of the audit by this name."""
        where = "WHERE number < ?1" + " AND undone IS NULL" * in_force
        where += " AND number IN (SELECT decision FROM audit WHERE author = ?2)" * bool(by)
        values = [LARGEST if before is None else before, *([by] if by else [])]
        rows = read_rows(self._rows, "decision", f"{where} ORDER BY number DESC", values)
        return map(_decision, rows)

    def decisions_about(self, fragments: Sequence[str]) -> list[DecisionRecord]:
        """The decisions that name one of these fragments, the first one first."""
        rows = (rows_of(self._rows, "decision", one, fragments) for one in ("first", "second"))
        return [_decision(row) for row in sorted(set().union(*rows))]

    def unsettled(self) -> list[tuple[int, int]]:
        """The numbers of the pairs of fragments of which somebody could not tell."""
        where = f"WHERE same = {NOT_TOLD} AND undone IS NULL"
        told = list(map(_decision, read_rows(self._rows, "decision", where)))
        number = self.pages.numbers([id for one in told for id in (one.first, one.second)])
        known = (one for one in told if one.first in number and one.second in number)
        return [(number[one.first], number[one.second]) for one in known]

    def fragment(self, id: str) -> tuple[int, Fragment]:
        """The number and the content of a fragment; a NotFoundError if there is none.

        What a person asserts has the number of the fragment that it is about.
        """
        for number, *_, line in rows_of(self._rows, "fragment", "id", [id]):
            return number, fragment_from_bytes(line)
        about = [one.first for one in self.decisions() if one.asserts and one.second == id]
        for one in assertions_of(self._rows, about):
            if one.id == id:
                return self.fragment(about[0])[0], one
        raise NotFoundError(f'the knowledge base has no fragment "{quoted(id)}"')

    def entity(self, id: str) -> tuple[int, Sequence[int]]:
        """The subproblem and the fragments' numbers of an entity; NotFoundError if it is none."""
        row = row_of(self._rows, "entity", id)
        if row is None:
            raise NotFoundError(f'the knowledge base has no entity "{quoted(id)}"')
        return row[1], numbers_from_bytes(row[2]).tolist()

    def fragments(self) -> Iterator[Fragment]:
        """All fragments, by place."""
        # most have the place of their number, and these come without sorting a million rows
        own = read_rows(self._rows, "fragment", "WHERE place = number ORDER BY number")
        moved = read_rows(self._rows, "fragment", "WHERE place <> number ORDER BY place")
        for *_, line in heapq.merge(own, moved, key=lambda row: row[2]):
            yield fragment_from_bytes(line)

    def lines(self, ids: Sequence[str]) -> Iterator[tuple[str, bytes]]:
        """The JSON lines of fragments by id; unknown ids are left out."""
        for _, id, *_, line in rows_of(self._rows, "fragment", "id", ids):
            yield id, line

    def of_source(self, source: str) -> list[str]:
        """The ids of all fragments from a source, by number."""
        rows = read_rows(
            self._rows,
            "fragment",
            "WHERE source = ?1 OR (source > ?2 AND source < ?3) ORDER BY number",
            (source, f"{source}:", f"{source};"),
        )
        return [id for _, id, _, _, held, _ in rows if is_of_source(held, source)]

    def entity_of(self, number: int) -> tuple[str, Cluster]:
        """The entity that holds a fragment: its id and its fragments' numbers."""
        home = self.pages.homes([number]).get(number)
        for id, _, members in rows_of(self._rows, "entity", "subproblem", [home]):
            held = tuple(numbers_from_bytes(members).tolist())
            if number in held:
                return id, held
        raise StoreError(f"the store is damaged: no entity holds fragment number {number}")

    def holders(self, numbers: Collection[int]) -> list[str]:
        """The entities that hold some fragments, the one with most of them first."""
        counts: dict[str, int] = {}
        left = set(numbers)
        while left:
            entity, held = self.entity_of(min(left))
            counts[entity] = len(left & set(held))
            left -= set(held)
        return sorted(counts, key=lambda entity: (-counts[entity], entity))

    def had(self, ids: Collection[str], verb: str | None = None) -> set[str]:
        """Which of these ids belonged to fragments before runs of that verb, or of any; reads all
        images."""
        wanted, found = set(ids), set[str]()
        if not wanted:
            return found
        verbs = {run.number: run.verb for run in self.runs()}
        for run, _, fragments in read_rows(self._rows, "image"):
            if verb is None or verbs.get(run) == verb:
                found |= wanted.intersection(orjson.loads(fragments))
        return found

    def now(self, entity: str) -> tuple[str, ...]:
        """The ids of the entities that have the fragments of a former one, through all redirects.

        Raises a NotFoundError if no entity has, or had, this id.
        """
        found: dict[str, None] = {}
        seen: set[str] = set()
        ahead = [entity]
        while ahead:
            id = ahead.pop(0)
            if id in seen:
                continue
            seen.add(id)
            if row_of(self._rows, "entity", id) is not None:
                found[id] = None
                continue
            row = row_of(self._rows, "redirect", id)
            ahead += [] if row is None else orjson.loads(row[1])
        if not found:
            raise NotFoundError(f'the knowledge base never had an entity "{quoted(entity)}"')
        return tuple(found)

    def members(self, entities: Sequence[str]) -> Iterator[tuple[str, tuple[str, ...]]]:
        """The existing ones among some entities, with the ids of their fragments, by place."""
        for start in range(0, len(entities), _AT_ONCE):
            part = entities[start : start + _AT_ONCE]
            held = {
                id: numbers_from_bytes(members).tolist()
                for id, _, members in rows_of(self._rows, "entity", "id", part)
            }
            numbers = [number for own in held.values() for number in own]
            placed = {
                number: (place, id)
                for number, id, place, *_ in rows_of(
                    self._rows, "fragment", "number", numbers, all_there=True
                )
            }
            for entity in part:
                if entity in held:
                    yield entity, tuple(id for _, id in sorted(placed[n] for n in held[entity]))


def _run(row: Row) -> Run:
    number, verb, about, ended, *more = row
    return Run(number, verb, about, bool(ended), *more)


def _decision(row: Row) -> DecisionRecord:
    number, said, first, second, run, undone = row
    same = None if said == NOT_TOLD else bool(said)
    return DecisionRecord(number, same, first, second, run, undone, said == ASSERTS)


def kept_row(kept: LearnedState) -> tuple[str, bytes]:
    """The digest and the content of a learned state."""
    content = kept_to_bytes(kept)
    return hashlib.sha256(content).hexdigest(), content


class StoreView(View):
    """The entities of a store for exporters, reports and `kbforge show`, the earliest first.

    Subproblems are read many at a time, and those of one pass in one state. The confidence of
    entities is computed when a run ends (`kbforge.jobs.confidence`); `tell` returns that of
    entities that changed since then. Without a map (`calibrated`) entities have the reported
    probability.

    A subproblem's number is the count of subproblems with earlier first fragments, which is slow;
    with `by_name` it is the subproblem's name in the store instead, which never changes.
    """

    knows_fragments = True

    def __init__(
        self,
        store: Store,
        tell: Tell | None = None,
        calibrated: bool = False,
        most_alternatives: int | None = MOST_ALTERNATIVES,
        by_name: bool = False,
    ) -> None:
        self._store, self._most, self._by_name = store, most_alternatives, by_name
        self._rows = store.database.connection
        self._tell = tell if calibrated else None

    def entities(self) -> Iterator[Entity]:
        return entities_of(self.lines())

    def lines(self) -> Iterator[Lines]:
        return with_made(self._lines(), self._store.made)

    def _lines(self) -> Iterator[Lines]:
        with self._store.database.snapshot():
            told = self._told([name for (name,) in read_rows(self._rows, "stale")])
            names = self._order()
            yield from self._in_parts(names, names if self._by_name else range(len(names)), told)

    def _order(self) -> list[int]:
        """The names of all subproblems, the earliest first.

        They are read from an index alone. It has every subproblem once, in order; if, which is
        rare, the first place differs from the name, the subproblem records it.
        """
        firsts = [n for (n,) in ask(self._rows, "SELECT first FROM page ORDER BY first")]
        others = "SELECT name, first FROM page INDEXED BY page_first WHERE first <> name"
        moved: dict[int, int] = dict(ask(self._rows, others))
        rows = rows_of(self._rows, "page", "name", list(moved), all_there=True)
        if (
            any(moved[name] != first for name, first, _ in rows)
            or len({*firsts}) != self._store.pages.totals.n_subproblems
            or {*map(type, firsts)} - {int}
            or firsts != sorted({*firsts})
        ):
            damaged(self._rows, "the order of subproblems")
        names = {first: name for name, first in moved.items()}
        return [names.get(first, first) for first in firsts]

    def _trust(self, told: Confidences) -> Trust:
        """The trust in links by the confidence of entities, of which some is told."""

        def trust(entities: IntArray) -> FloatArray:
            numbers = np.unique(entities[entities >= 0])
            if self._tell is None or not len(numbers):
                return np.ones(len(entities))
            sure, wanted = dict(told), numbers.tolist()
            if self._store.has_stale:
                homes = self._store.pages.homes([n for n in wanted if n not in sure])
                stale = rows_of(self._rows, "stale", "subproblem", sorted({*homes.values()}))
                sure |= self._told([name for (name,) in stale])
            known = rows_of(self._rows, "confidence", "first", wanted)
            of_numbers = {first: sure for first, _, _, _, sure in known} | sure
            if not of_numbers.keys() >= {*wanted}:
                damaged(self._rows, "the confidence of entities")
            factors = trusted(np.array([of_numbers[n] for n in wanted]))
            return np.asarray(at_numbers(numbers, factors, entities, 1.0))

        return trust

    def _told(self, stale: Collection[int]) -> Confidences:
        return self._tell(sorted(stale)) if stale and self._tell is not None else {}

    def of_subproblems(self, names: Sequence[int]) -> Iterator[Entity]:
        """The entities of these distinct subproblems, the earliest subproblem first."""
        with self._store.database.snapshot():
            stale = [name for (name,) in rows_of(self._rows, "stale", "subproblem", names)]
            numbers = self._numbers(names)
            told = self._told(stale)
            yield from entities_of(self._in_parts(list(numbers), list(numbers.values()), told))

    def _in_parts(
        self, names: Sequence[int], numbers: Sequence[int], told: Confidences
    ) -> Iterator[Lines]:
        """The lines of subproblems, a bounded number of which are in memory; `told` is the
        confidence that the store lacks."""
        corpus, links = self._store.corpus, self._store.links
        for start in range(0, len(names), _AT_ONCE):
            part = slice(start, start + _AT_ONCE)
            yield from self._assembled(names[part], numbers[part], told, corpus, links)

    def _numbers(self, names: Sequence[int]) -> dict[int, int]:
        """The numbers of subproblems by name, the earliest subproblem first."""
        if self._by_name:
            rows = rows_of(self._rows, "page", "name", names, all_there=True)
            return {name: name for _, name in sorted((first, name) for name, first, _ in rows)}
        wanted = set(names)
        found = {name: n for n, name in enumerate(self._order()) if name in wanted}
        if len(found) < len(wanted):
            damaged(self._rows, "the table of subproblems")
        return found

    def holding(self, fragments: Sequence[str]) -> dict[str, Entity]:
        """The entities that hold fragments, by fragment; unknown fragments are left out."""
        pages, wanted = self._store.pages, {*fragments}
        with self._store.database.snapshot():
            homes = pages.homes(list(pages.numbers(fragments).values()))
            return {
                id: entity
                for entity in self.of_subproblems(sorted(set(homes.values())))
                for id in entity.fragments
                if id in wanted
            }

    def with_fragment(self, fragment: str) -> Entity:
        """The entity that holds a fragment; a NotFoundError if there is none."""
        found = self.holding([fragment])
        if fragment not in found:
            raise NotFoundError(f'the knowledge base has no fragment "{quoted(fragment)}"')
        return found[fragment]

    def stating(
        self, entity: Entity, begin: int = 0, most: int | None = None
    ) -> tuple[list[Referrer], int | None]:
        """The entities with values that mean this one, as `StoredLinks.stating`."""
        with self._store.database.snapshot():
            links = self._store.links
            if links is None:
                return [], None
            _, numbers = self._store.entity(entity.id)
            found = self._store.pages.fragments(numbers)
            first = min(numbers)
            trust = float(self._trust({})(np.array([first]))[0])
            return links.stating([found[n] for n in numbers], first, trust, begin, most)

    def with_ids(self, ids: Sequence[str]) -> list[Entity]:
        """The entities with these ids, by subproblem."""
        with self._store.database.snapshot():
            rows = list(rows_of(self._rows, "entity", "id", list(ids), all_there=True))
            firsts = [int(numbers_from_bytes(members)[0]) for _, _, members in rows]
            return self.of_firsts(firsts)

    def top(self, count: int, least_sure: bool) -> list[Entity] | None:
        """The largest entities, or those with the lowest confidence; ties go to the earlier.

        None if the store does not know, because some changed since their confidence was computed.
        """
        with self._store.database.snapshot():
            if self._store.has_stale:
                return None
            order = f"{_LEAST_SURE if least_sure else _LARGEST} LIMIT ?"
            found = [row[0] for row in verified_rows(self._rows, "confidence", order, (count,))]
            if is_unexamined(self._rows, "confidence"):
                # sooner than to examine it
                again = f"SELECT first FROM confidence NOT INDEXED {order}"
                if found != [first for (first,) in ask(self._rows, again, (count,))]:
                    damaged(self._rows, "the order of entities")
            return self.of_firsts(found)

    def of_firsts(self, firsts: Sequence[int]) -> list[Entity]:
        """The entities with these fragments, in order."""
        found = self._store.pages.fragments(firsts)
        ids = [found[first].id for first in firsts]
        entities = self.holding(ids)
        return [entities[id] for id in ids]

    def fragments(self, entity: Entity) -> Sequence[Fragment]:
        pages = self._store.pages
        numbers = pages.numbers(entity.fragments)
        found = {one.id: one for one in assertions_of(self._rows, list(numbers))}
        found |= {one.id: one for one in pages.fragments(list(numbers.values())).values()}
        return [found[id] for id in entity.fragments]

    def _assembled(
        self,
        names: Sequence[int],
        numbered: Sequence[int],
        told: Confidences,
        corpus: Corpus,
        links: StoredLinks | None,
    ) -> Iterator[Lines]:
        rows = rows_of(self._rows, "page", "name", names, all_there=True)
        pages = {name: (first, page_from_bytes(name, content)) for name, first, content in rows}
        if any(pages[one][0] > pages[other][0] for one, other in pairwise(names)):
            damaged(self._rows, "the order of subproblems")
        of_names = [pages[name][1] for name in names]
        numbers, observed, subproblems = columns_of_pages(self._rows, of_names)
        place = {number: at for at, number in enumerate(numbers.tolist())}
        ids: dict[int, str] = {}
        firsts: dict[int, int] = {}
        entities, owners = np.zeros((2, len(numbers)), np.int64)
        for id, _, members in rows_of(self._rows, "entity", "subproblem", names):
            held = numbers_from_bytes(members).tolist()
            places = [place[n] for n in held]
            at = min(places)
            ids[at], firsts[at] = id, min(held)
            entities[places], owners[places] = firsts[at], at
        sure = None
        if self._tell is not None:
            known = rows_of(self._rows, "confidence", "first", list(firsts.values()))
            of_numbers = {first: sure for first, _, _, _, sure in known} | dict(told)
            if not of_numbers.keys() >= {*firsts.values()}:
                damaged(self._rows, "the confidence of entities")
            sure = {at: of_numbers[first] for at, first in firsts.items()}

        def id_of(first: int) -> str:
            if first not in ids:
                damaged(self._rows, f"the entity of fragment {observed.ids[first]}")
            return ids[first]

        asserted = assertions_of(self._rows, observed.ids)
        fragments, subproblems, about = with_assertions(observed, subproblems, asserted)
        entities, owners = entities[about], owners[about]
        found = Assembler(fragments, subproblems, self._most, corpus, numbered)
        relations = None if links is None else links.relations(fragments, entities)
        dated = StatedTimes(fragments, self._store.time)
        learned, together = self._store.facts, dated.together(owners)
        kinds = kinds_of(learned[0]) if learned else {}
        pools = Pools.of(statements_of(fragments), owners, relations, entities, kinds)
        ground = fragments, owners, corpus, together
        facts = Facts.of(*ground, *learned, pools=pools) if learned else None
        of_facts: Annotator | None = facts.annotate if facts else None
        if asserted:
            of_facts = settling(fragments, pools, corpus.several, of_facts)
        annotators = [of_facts] if of_facts else []
        if links and relations:
            annotators.append(relations.annotator(links.ids, self._trust(told), entities))
        if dated:
            annotators.append(dated.annotator(corpus.several, pools))
        yield from found.lines(
            lambda entities: map(id_of, entities.firsts.tolist()), sure, annotators
        )
