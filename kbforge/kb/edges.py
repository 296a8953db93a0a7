"""Turns the values that name entities into edges: relations between entities.

An edge is one relation (an attribute) between two entities. All spellings of a value that name the
same entity are one edge, stated by the fragments of all of them; their number is its weight.

Its probability is the largest of its values'. That at least one of them names the entity is at
least as probable, however they depend on each other; 1 minus the product of the misses holds only
for independent values, and spellings of one name are right or wrong together.

The values of an entity are in its own record, and so are the edges that leave it. The name of the
entity at the other end may come later, so an `EdgeTable` keeps names and edges in a temporary file.
"""

from __future__ import annotations

import sqlite3
from collections import Counter, deque
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import NamedTuple

import orjson
from msgspec import Struct

from kbforge.contracts import Entity, Value
from kbforge.errors import KBForgeError, NotFoundError, UsageError, counted, listed, quoted
from kbforge.kb.entities import naming

_MOST_NAMESAKES = 5  # that an error lists
# two relations may be the same if so many pairs have both, and such a share of either's
_LEAST_PAIRS, _LEAST_SHARE = 5, 0.9
_TABLES = """
PRAGMA journal_mode=OFF;
CREATE TABLE entity (id TEXT PRIMARY KEY, name TEXT) WITHOUT ROWID;
CREATE TABLE edge (number INTEGER PRIMARY KEY, head TEXT, relation TEXT, tail TEXT,
    probability REAL, stated TEXT);
"""
_INDEXES = """
DELETE FROM edge WHERE tail NOT IN (SELECT id FROM entity);
CREATE INDEX by_head ON edge (head, tail, probability);
CREATE INDEX by_tail ON edge (tail, head, probability);
"""
_SAME = """
WITH n AS (SELECT relation, count(*) AS pairs FROM edge GROUP BY relation)
SELECT a.relation, b.relation, count(*) AS both, m.pairs, n.pairs
FROM edge a JOIN edge b ON b.head = a.head AND b.tail = a.tail
JOIN n m ON m.relation = a.relation JOIN n ON n.relation = b.relation
WHERE (m.pairs, b.relation) < (n.pairs, a.relation) GROUP BY a.relation, b.relation
HAVING both >= ? AND both >= ? * n.pairs ORDER BY both DESC, a.relation, b.relation
"""


class Edge(Struct, frozen=True):
    """A relation between two entities, with the fragments that state it."""

    head: str  # id of the entity that has the attribute
    relation: str  # the attribute
    tail: str  # id of the entity that its values name
    probability: float  # that they do
    fragments: tuple[str, ...]
    spellings: tuple[str, ...]  # the values


def edges_of(entity: Entity) -> list[Edge]:
    """The edges that leave an entity, in the order of its attributes and values."""
    found: dict[tuple[str, str], list[Value]] = {}
    for attribute, values in entity.properties.items():
        for value in values:
            if value.entity is not None:
                found.setdefault((attribute, value.entity), []).append(value)
    return [
        Edge(
            *(entity.id, relation, tail),
            max(value.meanings[0].probability for value in values),
            tuple(dict.fromkeys(fragment for value in values for fragment in value.fragments)),
            tuple(value.value for value in values),
        )
        for (relation, tail), values in found.items()
    ]


class Surroundings(NamedTuple):
    """The entities around some: names of those that their values name, and in how many entities
    each of them is named, by attribute."""

    names: Mapping[str, str] = {}
    stated: Mapping[str, Counter[str]] = {}


def meant_by(entities: Iterable[Entity]) -> set[str]:
    """The entities that values of some entities may name."""
    values = (value for one in entities for held in one.properties.values() for value in held)
    return {meaning.entity for value in values for meaning in value.meanings}


def surroundings_of(chosen: Sequence[Entity], entities: Iterable[Entity]) -> Surroundings:
    """The surroundings of some entities, in one pass over all."""
    wanted, names = meant_by(chosen), dict[str, str]()
    stated = {entity.id: Counter[str]() for entity in chosen}
    for entity in entities:
        if entity.id in wanted:
            names[entity.id] = entity.name
        for edge in edges_of(entity):
            if edge.tail in stated:
                stated[edge.tail][edge.relation] += 1
    return Surroundings(names, stated)


class SameRelation(NamedTuple):
    """Two relations that connect nearly the same pairs; a person says whether they mean the same.

    `pairs` are those of `relation`, `of_into` those of `into`, which has more, `both` the common
    ones.
    """

    relation: str
    into: str
    both: int
    pairs: int
    of_into: int


@contextmanager
def edge_table(
    entities: Iterable[Entity] | None = None, noticed: Collection[str] = ()
) -> Iterator[EdgeTable]:
    """A table of these entities, or one to be filled by `EdgeTable.through`; it vanishes at the
    end. A KBForgeError if the disk is full."""
    store = sqlite3.connect("")
    try:
        store.executescript(_TABLES)
        table = EdgeTable(store)
        if entities is not None:
            deque(table.through(entities, noticed), maxlen=0)
        yield table
    except sqlite3.OperationalError as error:
        raise KBForgeError(f"the temporary file of relations: {error}") from error
    finally:
        store.close()


class EdgeTable:
    """Names of entities and the edges between them, in a temporary file."""

    def __init__(self, store: sqlite3.Connection) -> None:
        self._store, self._added = store, 0
        # those that a text may mean, with their number of fragments, by the rank of the reason
        self._noticed: dict[str, dict[int, list[tuple[str, int]]]] = {}

    def through(
        self, entities: Iterable[Entity], noticed: Collection[str] = ()
    ) -> Iterator[Entity]:
        """Pass entities on and add them; the table is complete after the last one.

        Edges to entities that are not among them are left out. `noticed` are texts for `called`.
        """
        add = "INSERT INTO edge (head, relation, tail, probability, stated) VALUES (?, ?, ?, ?, ?)"
        for entity in entities:
            yield entity
            names = entity.id, entity.name
            self._store.execute("INSERT OR IGNORE INTO entity VALUES (?, ?)", names)
            for e in edges_of(entity):
                stated = orjson.dumps((e.fragments, e.spellings)).decode()
                self._store.execute(add, (e.head, e.relation, e.tail, e.probability, stated))
                self._added += 1
            for text in {*noticed}:
                self._notice(text, entity)
        self._store.executescript(_INDEXES)

    def _notice(self, text: str, entity: Entity) -> None:
        of_names = (entity.properties[name] for name in naming(tuple(entity.properties)))
        names = [value.value for values in of_names for value in values if value.entity is None]
        is_called = text.casefold() in map(str.casefold, (entity.name, *names))
        reasons = (text == entity.id, text in entity.fragments, text == entity.name, is_called)
        if True in reasons:
            ranks = self._noticed.setdefault(text, {})
            held = entity.id, len(entity.fragments)
            ranks.setdefault(reasons.index(True), []).append(held)

    def called(self, text: str) -> str:
        """The id of the entity with this id, fragment, name or spelling of it, in this order.

        Raises:
            NotFoundError: there is none, or the text was not noticed.
            UsageError: several entities have the name.

        """
        _, found = min(self._noticed.get(text, {}).items(), default=(0, []))
        return one_called(text, found)

    def __len__(self) -> int:
        """The number of edges."""
        (count,) = self._store.execute("SELECT count(*) FROM edge").fetchone()
        return int(count)

    def notes(self) -> list[str]:
        """A sentence about edges that were left out, if there are any."""
        lost = self._added - len(self)
        left_out = f"{counted(lost, 'relation')} to entities that are not there: left out"
        return [left_out] if lost else []

    def named(self) -> Iterator[tuple[str, Edge, str]]:
        """The edges with the names of head and tail, in the order of the entities."""
        query = (
            "SELECT h.name, e.*, t.name FROM edge e JOIN entity h ON h.id = e.head "
            "JOIN entity t ON t.id = e.tail ORDER BY e.number"
        )
        for head, _, *cells, tail in self._store.execute(query):
            yield head, _edge(*cells), tail

    def name_of(self, entity: str) -> str | None:
        """The name of an entity, None if it is not there."""
        query = "SELECT name FROM entity WHERE id = ?"
        found = self._store.execute(query, (entity,)).fetchone()
        return None if found is None else str(found[0])

    def others(self, entity: str) -> Iterator[tuple[str, float]]:
        """The other ends of an entity's edges, both ways, and the probability of each edge."""
        query = (
            "SELECT tail, probability FROM edge WHERE head = ? "
            "UNION ALL SELECT head, probability FROM edge WHERE tail = ?"
        )
        return self._store.execute(query, (entity, entity))

    def between(self, one: str, other: str) -> list[Edge]:
        """The edges between two entities, both ways, the most probable one first."""
        query = (
            "SELECT * FROM edge WHERE (head = ? AND tail = ?) OR (head = ? AND tail = ?) "
            "ORDER BY probability DESC, number"
        )
        found = self._store.execute(query, (one, other, other, one))
        return [_edge(*cells) for _, *cells in found]

    def same_relations(self) -> list[SameRelation]:
        """The relations that another one could replace, those with most common pairs first."""
        found = self._store.execute(_SAME, (_LEAST_PAIRS, _LEAST_SHARE))
        return [SameRelation(*cells) for cells in found]


def one_called(text: str, found: Sequence[tuple[str, int]]) -> str:
    """The id of the entity that a text means, of those that it may mean, each with its number of
    fragments.

    Raises:
        NotFoundError: it means none.
        UsageError: it means several.

    """
    if not found:
        raise NotFoundError(
            f'the knowledge base has no entity "{quoted(text)}", by id, fragment or name'
        )
    if len(found) > 1:
        largest = sorted(found, key=lambda held: -held[1])
        who = [f"{entity} ({counted(n, 'fragment')})" for entity, n in largest]
        raise UsageError(
            f'{len(found):,} entities are called "{quoted(text)}"; give the id of one: '
            f"{listed(who, _MOST_NAMESAKES)}"
        )
    return found[0][0]


def _edge(head: str, relation: str, tail: str, probability: float, stated: str) -> Edge:
    fragments, spellings = map(tuple, orjson.loads(stated))
    return Edge(head, relation, tail, probability, fragments, spellings)
