"""Turns a graph into fragments; the shared code of graph sources.

Language models write graphs text unit by text unit (a chunk, a document, the context of a triple),
and their tools merge entities with equal names. So homonyms are one entity there, and aliases are
several. A graph source undoes the merging: **one fragment for each entity in each text unit**. Its
attributes:

| attribute | values |
|---|---|
| name | the name |
| type | the type, if it says something |
| neighbour | names of the entities that a relation of the same unit connects it with |
| description | the description, in the first unit of the entity only |
| any other | what the graph states of the entity there |

A description of several units summarises all namesakes; stated by each fragment it would join them,
so the others have it in their metadata. The type of a relation is there, too (`relations`: head,
type, tail): as separate attributes, relations compare too few fragments to separate or join any.
So are the times of relations, as those of the neighbours (`kbforge.kb.times`).

The id of a fragment is `unit#key`, where the key is the graph's name for the entity; without a
named unit it is only the key. `fragment_id` makes it, so exporters can find the fragment of each
entity and unit. The unit is the fragment's source.

A reader yields `GraphEntity` and `Relation` records in any order. An end of a relation without an
entity in that unit becomes a fragment as well. The records wait in a temporary file, so memory does
not grow with the graph.
"""

from __future__ import annotations

import re
import sqlite3
from abc import abstractmethod
from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import closing
from pathlib import PurePath
from typing import ClassVar, NamedTuple, TypeAlias

import orjson

from kbforge.contracts.fragment import TIMES, Fragment, OnBad, Source
from kbforge.errors import BadRecord, KBForgeError, counted, listed, quoted

NOTHING = frozenset({"", "NONE", "UNKNOWN", "NULL", "NAN", "N/A"})
"""Types and descriptions, in capitals, that graph builders write for unknown ones."""
MOST_NEIGHBOURS = 1_000
_ENDS = "fragments of relations' ends without an entity"
_OWN = ("name", "type", "description", "neighbour")
_DIGEST = re.compile("[0-9a-f]{32,}")
_DIGITS = 16  # of a digest of a unit's text; the rest tells no two units of a graph apart


class GraphEntity(NamedTuple):
    """An entity as a graph states it."""

    key: str  # what relations call it
    name: str  # its name; of several entities of a graph, names may be equal
    # the ids of the text units that it is in; none if the graph has no units
    units: Sequence[str] = ()
    type: str = ""
    description: str = ""
    properties: Mapping[str, Sequence[str]] = {}  # what else is stated of it, by attribute
    place: str = ""  # `file:row`, for errors


class Relation(NamedTuple):
    """A relation between the entities of two keys."""

    head: str  # key of the one end
    tail: str  # key of the other end
    # the ids of the text units that state it; none if the graph has no units
    units: Sequence[str] = ()
    type: str = ""  # its type, such as "capital of"; "" if the graph has no types
    weight: float = 1.0
    place: str = ""  # `file:row`, for errors
    times: tuple[str, str] = ("", "")  # when it began to hold, and ceased to; "" if unknown


Record: TypeAlias = GraphEntity | Relation


def fragment_id(unit: str, key: str) -> str:
    """The id of the fragment of an entity in a unit ("" for none)."""
    if _DIGEST.fullmatch(unit):
        unit = unit[:_DIGITS]
    return f"{unit}#{key}" if unit else key


def times_in(stated: Mapping[str, object]) -> tuple[str, str]:
    """Begin and end of a relation, from what Graphiti and others call them; "" if unknown."""
    begin, end = (
        next((time for name in names if isinstance(time := stated.get(name), str)), "")
        for names in (("valid_at", "created_at"), ("invalid_at", "expired_at"))
    )
    return begin, end


def said(text: str) -> str:
    """A type or a description; "" if it is a placeholder."""
    text = text.strip()
    return "" if text.upper() in NOTHING else text


class GraphSource(Source):
    """A reader of graphs; subclasses yield the records of an input."""

    # whether the format states entities only as the ends of relations, so that an end without its
    # own record is not a gap
    ends_only: ClassVar[bool] = False

    @abstractmethod
    def records(self, path: str, on_bad: OnBad) -> Iterator[Record]:
        """Yield the entities and relations of an input.

        Raises:
            KBForgeError: the input cannot be opened or is not a graph.
            BadRecord: a bad record, if `on_bad` raises it.

        """

    def name_of(self, key: str) -> str:
        """The name of a relation's end without its own record."""
        return key

    def read(self, inputs: Sequence[str], on_bad: OnBad) -> Iterator[Fragment]:
        """Yield one fragment for each entity in each text unit."""
        self.counts.clear()
        self.taken.clear()
        for path in inputs:
            try:
                # an empty name is a private file on disk that vanishes when it is closed
                with closing(sqlite3.connect("")) as store:
                    yield from self._read(path, _Units(store, self.name_of), on_bad)
            except sqlite3.Error as error:
                raise KBForgeError(f"the temporary file of a graph: {error}") from error

    def _read(self, path: str, units: _Units, on_bad: OnBad) -> Iterator[Fragment]:
        found = Counter[type]()
        for record in self.records(path, on_bad):
            try:
                units.add(record)
            except BadRecord as error:
                on_bad(error, orjson.dumps(record._asdict()))
                continue
            found[type(record)] += 1
        if not found:
            raise KBForgeError(f"{quoted(path, 400)}: expected entities and relations, got none")
        units.close()
        nameless = PurePath(path).name or path
        for self.where, fragment in units.fragments(nameless):
            yield fragment
        self._tell(path, found, units)

    def _tell(self, path: str, found: Counter[type], units: _Units) -> None:
        if self.ends_only:
            del units.counts[_ENDS]
            found[GraphEntity] = units.entities()
        self.counts.update(units.counts)
        kinds = (
            counted(found[GraphEntity], "entity", "entities"),
            counted(found[Relation], "relation"),
        )
        texts = counted(units.count(), "text unit") if units.count() else "no text units"
        self.taken.append(f"{quoted(path, 400)}: {kinds[0]}, {kinds[1]}, {texts}")
        missing = [] if self.ends_only else units.missing()
        if missing:
            names = counted(len(missing), "name")
            self.taken.append(
                f"{quoted(path, 400)}: {names} at the ends of relations, without an entity of that "
                f"name, became fragments: {listed(missing, 3, 40)}"
            )


_TABLES = """
CREATE TABLE mentions (number INTEGER PRIMARY KEY, unit TEXT, key TEXT, name TEXT, said TEXT,
    about TEXT, place TEXT, UNIQUE (unit, key));
CREATE TABLE links (number INTEGER PRIMARY KEY, head INTEGER, tail INTEGER, type TEXT,
    since TEXT, until TEXT, UNIQUE (head, tail, type, since, until));
"""
_INDEXES = """
CREATE INDEX by_tail ON links (tail);
CREATE INDEX by_key ON mentions (key) WHERE name IS NOT NULL;
"""
_NEIGHBOURS = """
SELECT coalesce(m.name,
        (SELECT name FROM mentions WHERE key = m.key AND name IS NOT NULL), name_of(m.key)),
    l.type, l.head = :self, l.since, l.until FROM links l
JOIN mentions m ON m.number = CASE WHEN l.head = :self THEN l.tail ELSE l.head END
WHERE l.number IN (SELECT number FROM links WHERE head = :self
    UNION SELECT number FROM links WHERE tail = :self) AND l.head != l.tail
ORDER BY l.number
"""


class _Units:
    """The entities and relations of a graph, by text unit, in a temporary file."""

    def __init__(self, store: sqlite3.Connection, name_of: Callable[[str], str]) -> None:
        self._store, self._name_of = store, name_of
        store.create_function("name_of", 1, name_of, deterministic=True)
        self.counts = Counter[str]()
        store.execute("PRAGMA journal_mode=OFF")
        store.executescript(_TABLES)

    def add(self, record: Record) -> None:
        """Add a record; a BadRecord if it breaks a law of `Fragment`."""
        if isinstance(record, GraphEntity):
            self._add_entity(record)
        else:
            self._add_relation(record)

    def _add_entity(self, entity: GraphEntity) -> None:
        properties = {"name": [entity.name]}
        if kind := said(entity.type):
            properties["type"] = [kind]
        description = said(entity.description)
        for attribute, values in entity.properties.items():
            attribute = f"{attribute} (stated)" if attribute in _OWN else attribute
            if values:
                properties[attribute] = list(dict.fromkeys(values))
        for number, unit in enumerate(dict.fromkeys(entity.units or ("",))):
            about = {}
            if description and number:
                properties.pop("description", None)
                about["description"] = description
            elif description:
                properties["description"] = [description]
            _check(unit, entity.key, properties, entity.place)
            known = self._store.execute(
                "INSERT INTO mentions (unit, key, name, said, about, place) "
                "VALUES (?, ?, ?, ?, ?, ?) ON CONFLICT DO UPDATE SET name = excluded.name, "
                "said = excluded.said, about = excluded.about, place = excluded.place "
                "WHERE name IS NULL",
                (unit, entity.key, entity.name, _text(properties), _text(about), entity.place),
            )
            if not known.rowcount:
                self.counts["entities stated again in the same text unit"] += 1

    def _add_relation(self, relation: Relation) -> None:
        for unit in dict.fromkeys(relation.units or ("",)):
            ends = [self._end(unit, key, relation) for key in (relation.head, relation.tail)]
            self._store.execute(
                "INSERT OR IGNORE INTO links (head, tail, type, since, until) "
                "VALUES (?, ?, ?, ?, ?)",
                (*ends, said(relation.type), *relation.times),
            )

    def _end(self, unit: str, key: str, relation: Relation) -> int:
        place = relation.place
        kind = {"relation": [relation.type]} if relation.type else {}
        _check(unit, key, {"name": [key], **kind}, place)
        self._store.execute(
            "INSERT OR IGNORE INTO mentions (unit, key, place) VALUES (?, ?, ?)", (unit, key, place)
        )
        found = self._store.execute(
            "SELECT number FROM mentions WHERE unit = ? AND key = ?", (unit, key)
        ).fetchone()
        return int(found[0])

    def close(self) -> None:
        """Finish writing and prepare for reading."""
        self._store.executescript(_INDEXES)

    def count(self) -> int:
        """The number of text units."""
        query = "SELECT count(DISTINCT unit) FROM mentions WHERE unit != ''"
        return int(self._store.execute(query).fetchone()[0])

    def entities(self) -> int:
        """The number of entities, including ends of relations."""
        return int(self._store.execute("SELECT count(DISTINCT key) FROM mentions").fetchone()[0])

    def missing(self) -> list[str]:
        """The keys of relations' ends that no entity has, in order."""
        query = (
            "SELECT key FROM mentions m WHERE NOT EXISTS (SELECT 1 FROM mentions t "
            "WHERE t.key = m.key AND t.name IS NOT NULL) GROUP BY key ORDER BY min(number)"
        )
        return [key for (key,) in self._store.execute(query)]

    def fragments(self, nameless: str) -> Iterator[tuple[str, Fragment]]:
        """(place, fragment) of each entity in each unit; `nameless` is the source without units."""
        mentions = self._store.execute(
            "SELECT number, unit, key, name, said, about, place FROM mentions ORDER BY number"
        )
        for number, unit, key, name, stated, about, place in mentions:
            if name is None:
                stated, about = self._elsewhere(key)
            properties = orjson.loads(stated)
            of_it = {"entity": key, **orjson.loads(about)}
            self._connect(number, properties, of_it)
            record = {
                "id": fragment_id(unit, key),
                "properties": properties,
                "source": unit or nameless,
                "metadata": of_it,
            }
            yield place, Fragment.from_json(record, place)

    def _elsewhere(self, key: str) -> tuple[str, str]:
        """The properties that another unit states of an entity, without its description there."""
        query = "SELECT said, about FROM mentions WHERE key = ? AND name IS NOT NULL"
        found = self._store.execute(query, (key,)).fetchone()
        if found is None:
            self.counts[_ENDS] += 1
            return _text({"name": [self._name_of(key)]}), "{}"
        self.counts["fragments of relations' ends in a text unit that their entity lacks"] += 1
        properties, about = map(orjson.loads, found)
        kept = {k: properties[k] for k in ("name", "type") if k in properties}
        return _text(kept), _text(about)

    def _connect(
        self, number: int, properties: dict[str, list[str]], about: dict[str, object]
    ) -> None:
        """Add the neighbours of a mention, and the relations that have a type."""
        name, neighbours, relations = properties["name"][0], dict[str, None](), []
        times: dict[str, list[list[str]]] = {}
        for other, kind, forward, *time in self._store.execute(_NEIGHBOURS, {"self": number}):
            if len(neighbours) >= MOST_NEIGHBOURS:
                self.counts[f"neighbours beyond the first {MOST_NEIGHBOURS:,} of an entity"] += 1
                continue
            neighbours[other] = None
            if any(time):
                times.setdefault(other, []).append(time)
            relation = [name, kind, other] if forward else [other, kind, name]
            if kind and not (any(time) and relation in relations):
                relations.append(relation)
        if neighbours:
            properties["neighbour"] = list(neighbours)
        if relations:
            about["relations"] = relations
        if times:
            about[TIMES] = {"neighbour": times}


def _check(unit: str, key: str, properties: Mapping[str, Sequence[str]], place: str) -> None:
    if not key:
        raise BadRecord(place, "the name of an entity", "an empty one")
    record = {"id": fragment_id(unit, key), "properties": properties, "source": unit or None}
    Fragment.from_json(record, place)


def _text(value: object) -> str:
    return orjson.dumps(value).decode()
