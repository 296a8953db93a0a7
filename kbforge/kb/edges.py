"""Turns the values that name entities into edges: relations between entities.

An edge is one relation (an attribute) between two entities. All spellings of a value that name the
same entity are one edge, stated by the fragments of all of them; their number is its weight.

Its probability is the largest of its values'. That at least one of them names the entity is at
least as probable, however they depend on each other; 1 minus the product of the misses holds only
for independent values, and spellings of one name are right or wrong together.

Since the values of an entity are in its own record, so are the edges that leave it: `edges_of`
needs no more. The name of the entity at the other end may come later. An `EdgeTable` keeps names
and edges in a temporary file, so memory does not grow with them, and answers from both ends.
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

_MOST_NAMESAKES = 5  # that an error lists
# two relations are likely the same if so many pairs have both, and such a share of either's
_LEAST_PAIRS, _LEAST_SHARE = 5, 0.9
_TABLES = """
PRAGMA journal_mode=OFF;
CREATE TABLE entity (id TEXT PRIMARY KEY, name TEXT, fragments INTEGER) WITHOUT ROWID;
CREATE TABLE edge (number INTEGER PRIMARY KEY, head TEXT, relation TEXT, tail TEXT,
    probability REAL, stated TEXT);
"""
_INDEXES = """
DELETE FROM edge WHERE tail NOT IN (SELECT id FROM entity);
CREATE INDEX by_head ON edge (head, tail, probability);
CREATE INDEX by_tail ON edge (tail, head, probability);
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


class SameRelation(NamedTuple):
    """A relation that connects nearly the same pairs of entities as another one with more pairs;
    whether they mean the same is for people to say."""

    relation: str
    into: str  # the other one
    both: int  # pairs that both connect
    pairs: int  # that the first one connects
    of_into: int  # that the other one connects


class Mentions(NamedTuple):
    """What links some entities to others: names of those that their values name, and in how many
    entities each of them is named, by attribute."""

    names: Mapping[str, str] = {}
    stated: Mapping[str, Counter[str]] = {}


def meant_by(entities: Iterable[Entity]) -> set[str]:
    """The entities that values of some entities may name."""
    values = (value for one in entities for held in one.properties.values() for value in held)
    return {meaning.entity for value in values for meaning in value.meanings}


def mentions_of(chosen: Sequence[Entity], entities: Iterable[Entity]) -> Mentions:
    """The links of some entities, in one pass over all."""
    wanted = meant_by(chosen)
    found = Mentions({}, {entity.id: Counter() for entity in chosen})
    names = dict[str, str]()
    for entity in entities:
        if entity.id in wanted:
            names[entity.id] = entity.name
        for edge in edges_of(entity):
            if edge.tail in found.stated:
                found.stated[edge.tail][edge.relation] += 1
    return found._replace(names=names)


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
        self._store = store
        self._homes: dict[str, str] = {}
        self._added = 0

    def through(
        self, entities: Iterable[Entity], noticed: Collection[str] = ()
    ) -> Iterator[Entity]:
        """Pass entities on and add them; the table is complete after the last one.

        Edges to entities that are not among them are left out. `noticed` are ids of fragments by
        which `called` is to find their entities.
        """
        add_entity = "INSERT OR IGNORE INTO entity VALUES (?, ?, ?)"
        add_edge = (
            "INSERT INTO edge (head, relation, tail, probability, stated) VALUES (?, ?, ?, ?, ?)"
        )
        for entity in entities:
            yield entity
            self._store.execute(add_entity, (entity.id, entity.name, len(entity.fragments)))
            for e in edges_of(entity):
                stated = orjson.dumps((e.fragments, e.spellings)).decode()
                row = (e.head, e.relation, e.tail, e.probability, stated)
                self._store.execute(add_edge, row)
                self._added += 1
            self._homes |= {text: entity.id for text in noticed if text in entity.fragments}
        self._store.executescript(_INDEXES)

    def __len__(self) -> int:
        """The number of edges."""
        (count,) = self._store.execute("SELECT count(*) FROM edge").fetchone()
        return int(count)

    def notes(self) -> list[str]:
        """A sentence about edges that were left out, if there are any."""
        if not (lost := self._added - len(self)):
            return []
        does = "leads" if lost == 1 else "lead"
        return [f"{counted(lost, 'relation')} {does} to entities that are not there: left out"]

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
        """The relations that another one could replace, those with most pairs first."""
        query = (
            "WITH n AS (SELECT relation, count(*) AS pairs FROM edge GROUP BY relation) "
            "SELECT a.relation, b.relation, count(*) AS both, m.pairs, n.pairs "
            "FROM edge a JOIN edge b ON b.head = a.head AND b.tail = a.tail "
            "JOIN n m ON m.relation = a.relation JOIN n ON n.relation = b.relation "
            "WHERE (m.pairs, b.relation) < (n.pairs, a.relation) GROUP BY a.relation, b.relation "
            "HAVING both >= ? AND both >= ? * n.pairs ORDER BY both DESC, a.relation, b.relation"
        )
        found = self._store.execute(query, (_LEAST_PAIRS, _LEAST_SHARE))
        return [SameRelation(*cells) for cells in found]

    def called(self, text: str) -> str:
        """The id of the entity with this id, this fragment, or else this name.

        Raises:
            NotFoundError: there is none.
            UsageError: several entities have the name.

        """
        if self.name_of(text) is not None:
            return text
        if text in self._homes:
            return self._homes[text]
        for same in ("name = ?", "casefold(name) = casefold(?)"):
            self._store.create_function("casefold", 1, str.casefold, deterministic=True)
            query = f"SELECT id, fragments FROM entity WHERE {same} ORDER BY fragments DESC, id"
            found = self._store.execute(query, (text,)).fetchall()
            if len(found) == 1:
                return str(found[0][0])
            if found:
                who = [f"{entity} ({counted(n, 'fragment')})" for entity, n in found]
                raise UsageError(
                    f'{len(found):,} entities are called "{quoted(text)}"; give the id of one: '
                    f"{listed(who, _MOST_NAMESAKES)}"
                )
        raise NotFoundError(
            f'the knowledge base has no entity "{quoted(text)}", by id, fragment or name'
        )


def _edge(head: str, relation: str, tail: str, probability: float, stated: str) -> Edge:
    fragments, spellings = map(tuple, orjson.loads(stated))
    return Edge(head, relation, tail, probability, fragments, spellings)
