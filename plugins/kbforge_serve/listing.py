"""The list of all entities: filtered, in an order, a page at a time.

The order is that of an index of the table `confidence`, and a page begins after the key of the last
entity of the page before. Conditions on size and confidence are part of the question to the table.
For the others, one of two ways is taken:

- a condition that few fragments meet leads to its entities, which are then checked and ordered: the
  count is exact;
- otherwise entities are read in order and checked until the page is full. A page that has read
  `_MOST_READ` fragments ends early, and the count is an estimate from the share that it found.

The number of entities of some size and confidence, if it is large, is an estimate from parts of the
table all over the store: to count a million takes longer than a page may.

While entities change, those that changed since their confidence was computed are left out.
"""

from __future__ import annotations

import contextlib
from collections import defaultdict
from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import compress
from typing import Annotated, Any, Literal, NamedTuple, TypeAlias, get_args

import msgspec
import orjson
from fastapi import Depends, Query
from pydantic import BeforeValidator, Field

from kbforge.contracts import Fragment
from kbforge.contracts.entity import Natural
from kbforge.errors import UsageError, quoted
from kbforge.kb.entities import all_described
from kbforge.store.pages import numbers_from_bytes, numbers_to_bytes
from kbforge.store.store import Store, StoreView
from kbforge.store.tables import ask, rows_of, verified_rows
from kbforge.texts import LARGEST
from kbforge_serve.answers import Answer, EntityReference
from kbforge_serve.facts import in_question, references
from kbforge_serve.readers import Readers
from kbforge_serve.words import WordIndex, attribute_word, properties_of, words_of

Order: TypeAlias = Literal["largest", "least_sure", "changed"]
ORDERS = get_args(Order)
MOST = 200
"""Maximum number of entities of a page."""
MOST_CONDITIONS = 10
MOST_COLUMNS = 20
_FEW = 2_000  # fragments that a condition may lead to
_MOST_READ = 1_200  # fragments for a page
_COUNTED = 20_000  # entities; if there are more, their number is estimated
_PARTS, _PART = 256, 256  # of the store, of which an estimate is made, and fragments of each
_RARE = 0.01  # share of entities of which those that a range selects are ordered
_AT_FIRST, _AT_ONCE = 16, 128  # entities that are checked together: the largest come first
_MOST_SHOWN = 50  # fragments of an entity whose values are shown
_LONGEST = 200  # characters of a value

_KEYS = {
    "largest": ("size DESC", "subproblem", "first"),
    "least_sure": ("confidence", "reported", "size DESC", "subproblem", "first"),
    "changed": ("run DESC", "size DESC", "subproblem", "first"),
}
"""The columns by which entities are ordered; the table has an index of all but the last. It has no
run: those that changed last are found first, and then ordered."""
_INDEX = {"largest": "confidence_size", "least_sure": "confidence_doubt"}


@dataclass(frozen=True, slots=True)
class Condition:
    """What an entity states: a value of an attribute (`value`), any value, or none (`lacks`)."""

    attribute: str
    value: str | None = None
    lacks: bool = False

    @classmethod
    def read(cls, text: str) -> Condition:
        """A condition from `town=York`, `town` or `!town`; a UsageError if it is neither."""
        attribute, equals, value = text.partition("=")
        lacks = attribute.startswith("!")
        attribute = attribute.removeprefix("!").strip()
        if not attribute or (lacks and equals):
            raise UsageError(f"where: expected town=York, town or !town, got {quoted(text)}")
        return cls(attribute, value.strip().casefold() if equals else None, lacks)

    def holds(self, fragments: Collection[_Stated]) -> bool:
        """Whether it holds for the fragments of an entity."""
        stated = [x.properties.get(self.attribute, ()) for x in fragments]
        if self.value is None:
            return any(map(len, stated)) is not self.lacks
        return any(self.value == value.casefold() for values in stated for value in values)


@dataclass(frozen=True, slots=True)
class Filter:
    """What entities are listed; the default lists all.

    `text` are words that one of its fragments has, and `source` is where one of them comes from.
    `since`: it changed after this run. `decided`: a decision in force names one of its fragments.
    `contradicts`: its fragments state different values of an attribute that has one.
    """

    text: str = ""
    where: tuple[Condition, ...] = ()
    source: str = ""
    least_size: int = 1
    most_size: int | None = None
    least_confidence: float = 0.0
    most_confidence: float = 1.0
    since: int | None = None
    decided: bool = False
    contradicts: bool = False


def _given(value: object) -> object:
    """A field of a form that was left empty is not given."""
    return None if value == "" else value


_Number: TypeAlias = Annotated[
    Annotated[int, Field(ge=0, le=LARGEST)] | None, BeforeValidator(_given)
]
_Share: TypeAlias = Annotated[Annotated[float, Field(ge=0, le=1)] | None, BeforeValidator(_given)]


def selected(
    text: Annotated[str, Query(max_length=400, description="Words of one fragment.")] = "",
    where: Annotated[
        Sequence[str],
        Query(
            max_length=MOST_CONDITIONS,
            description="`town=York`, `town` (states it) or `!town` (does not); may be repeated.",
        ),
    ] = (),
    source: Annotated[str, Query(max_length=4_096, description="Where a fragment is from.")] = "",
    least_size: _Number = None,
    most_size: _Number = None,
    least_confidence: _Share = None,
    most_confidence: _Share = None,
    since: _Number = None,
    decided: Annotated[bool, Query(description="A decision in force names a fragment.")] = False,
    contradicts: Annotated[bool, Query(description="Sources differ on a value.")] = False,
) -> Filter:
    """The filter of a request; `since` is the number of a run after which entities changed."""
    conditions = tuple(Condition.read(one) for one in where if one.strip())
    least, most = least_confidence or 0.0, 1.0 if most_confidence is None else most_confidence
    size = max(least_size or 1, 1 + contradicts)  # one fragment does not contradict itself
    within = size, most_size, least, most
    return Filter(text, conditions, source, *within, since, decided, contradicts)


Wanted: TypeAlias = Annotated[Filter, Depends(selected)]
After: TypeAlias = Annotated[
    str | None, Query(max_length=200, description="What `after` of the page before said.")
]
Columns: TypeAlias = Annotated[
    Sequence[str],
    Query(max_length=MOST_COLUMNS, description="Attributes whose best value is given."),
]


class ListedEntity(EntityReference, frozen=True):
    """An entity with its best values of some attributes."""

    values: dict[str, str]


class Listing(Answer, frozen=True):
    """A page of the list; `after` requests the next one."""

    order: Order
    entities: list[ListedEntity]
    count: Natural  # of all pages
    exact: bool  # whether the count is no estimate
    after: str | None


class _Stated(NamedTuple):
    """What conditions ask of a fragment; a whole `Fragment` takes several times as long to read."""

    id: str
    source: str | None
    properties: Mapping[str, Sequence[str]]


class _Row(NamedTuple):
    """A row of the table `confidence`."""

    first: int
    subproblem: int
    size: int
    reported: float
    confidence: float
    run: int = 0  # the last that changed it, in the order of changes

    def key(self, order: Order) -> list[float]:
        """Its place in an order."""
        before = {"least_sure": (self.confidence, self.reported), "changed": (-self.run,)}
        return [*before.get(order, ()), -self.size, self.subproblem, self.first]


def listing(
    readers: Readers,
    wanted: Filter = Filter(),
    order: Order = "largest",
    most: int = 50,
    after: str | None = None,
    columns: Sequence[str] = (),
    words: WordIndex | None = None,
) -> Listing:
    """A page of the entities that a filter selects, with their best values of `columns`.

    Without an index of words, a text leads to no entities, and they are read in order.

    Raises UsageError if there is no such order, or `after` is not of an answer.
    """
    if order not in ORDERS:
        raise UsageError(f"expected the order {' or '.join(ORDERS)}, got {quoted(order)}")
    begin = _begin(after, order)
    most = min(most, MOST)
    with readers.store() as store:
        rows = _few(store, words, wanted, order)
        if rows is not None:
            found = [row for row in rows if begin is None or row.key(order) > begin]
            count, exact, more, last = len(rows), True, len(found) > most, None
        else:
            found, read, last = _scanned(store, wanted, order, begin, most + 1)
            more = last is not None or len(found) > most
            whole = begin is None and not more
            count, exact = (len(found), True) if whole else _count(store, wanted)
            if not (whole or _is_plain(wanted)):
                count, exact = round(count * len(found) / max(read, 1)), False
        shown = found[:most]
        if len(found) > most or last is None:
            last = shown[-1].key(order) if more else None
        end = None if last is None else orjson.dumps(last).decode()
        return Listing(order, _listed(readers, store, shown, columns), count, exact, end)


def selected_firsts(
    store: Store, wanted: Filter, order: Order, words: WordIndex | None = None
) -> Iterator[list[int]]:
    """The first fragments of all entities that a filter selects, in order, some at a time."""
    rows = _few(store, words, wanted, order)
    if rows is None:
        for _, chosen, _ in _in_order(store, wanted, order):
            yield [row.first for row in chosen]
        return
    for at in range(0, len(rows), _AT_ONCE):
        yield [row.first for row in rows[at : at + _AT_ONCE]]


def _begin(after: str | None, order: Order) -> list[float] | None:
    """The key after which a page begins."""
    if after is None:
        return None
    key = list[float]()
    with contextlib.suppress(msgspec.MsgspecError, ValueError):
        key = msgspec.json.decode(after, type=list[float])
    if len(key) != len(_KEYS[order]):
        raise UsageError(f"after: expected what `after` said, got {quoted(after)}")
    return key


def _is_plain(wanted: Filter) -> bool:
    """Whether the table of sizes and confidence answers everything."""
    asked = wanted.text, wanted.where, wanted.source, wanted.decided, wanted.contradicts
    return not any(asked) and wanted.since is None


def _range(wanted: Filter) -> tuple[str, list[Any]]:
    """The conditions on the table `confidence`; those that always hold would mislead SQLite."""
    given: dict[str, float | None] = {
        "size >= ?": wanted.least_size if wanted.least_size > 1 else None,
        "size <= ?": wanted.most_size,
        "confidence >= ?": wanted.least_confidence or None,
        "confidence <= ?": wanted.most_confidence if wanted.most_confidence < 1 else None,
    }
    bounds = {said: value for said, value in given.items() if value is not None}
    said = " AND ".join([*bounds, "subproblem NOT IN (SELECT subproblem FROM stale)"])
    return said, [*bounds.values()]


def _count(store: Store, wanted: Filter) -> tuple[int, bool]:
    """How many entities have the size and the confidence, and whether that is no estimate."""
    rows, (said, values) = store.database.connection, _range(wanted)
    every = int(ask(rows, "SELECT count(*) FROM confidence")[0][0])  # SQLite counts rows quickly
    if not values and not store.has_stale:
        return every, True
    estimate = every if every <= _COUNTED else round(every * _share(store, wanted))
    if estimate > _COUNTED:
        return estimate, False
    return int(ask(rows, f"SELECT count(*) FROM confidence WHERE {said}", values)[0][0]), True


def _share(store: Store, wanted: Filter) -> float:
    """The share of all entities with the size and the confidence, in some parts of the store."""
    rows, (said, values) = store.database.connection, _range(wanted)
    (most,) = ask(rows, "SELECT coalesce(max(first), 0) FROM confidence")[0]
    parts = orjson.dumps([*range(0, most, max(most // _PARTS, _PART))]).decode()
    asked = f"SELECT coalesce(avg({said}), 0) FROM json_each(?) JOIN confidence "
    within = "ON first >= json_each.value AND first < json_each.value + ?"
    return float(ask(rows, asked + within, [*values, parts, _PART])[0][0])


# --- conditions that lead to their entities ---


def _few(store: Store, words: WordIndex | None, wanted: Filter, order: Order) -> list[_Row] | None:
    """The selected entities in order; None if neither a condition nor the order leads to few."""
    runs = _changed_last(store) if order == "changed" else {}
    numbers = list(runs) if order == "changed" else _led(store, words, wanted)
    if numbers is None:
        return None
    rows = (row._replace(run=runs.get(row.first, 0)) for row in _rows_of(store, wanted, numbers))
    return sorted(rows, key=lambda row: row.key(order))


def _changed_last(store: Store) -> dict[int, int]:
    """The last run that changed each of the entities that changed last, by first fragment."""
    asked = "SELECT run, members FROM image CROSS JOIN entity ON entity = id ORDER BY run DESC"
    runs: dict[int, int] = {}
    for run, members in ask(store.database.connection, f"{asked} LIMIT ?", (_FEW,)):
        runs.setdefault(int(numbers_from_bytes(members).min()), run)
    return runs


def _led(store: Store, words: WordIndex | None, wanted: Filter) -> list[int] | None:
    """The fragments that the most selective condition leads to; None if none leads to few."""
    rows, led = store.database.connection, list[list[int]]()
    texts = [words_of(wanted.text)]
    for one in wanted.where:
        if not one.lacks:
            texts.append([attribute_word(one.attribute), *words_of(one.value or "")])
    for some in filter(None, texts):
        if words is not None and (found := words.having(store, some, _FEW + 1)) is not None:
            led.append(found)
    if wanted.source:
        asked = "SELECT number FROM fragment WHERE source = ? LIMIT ?"
        led.append([n for (n,) in ask(rows, asked, (wanted.source, _FEW + 1))])
    if wanted.decided:
        asked = (
            "SELECT number FROM fragment WHERE id IN (SELECT first FROM decision WHERE undone IS "
            "NULL UNION SELECT second FROM decision WHERE undone IS NULL) LIMIT ?"
        )
        led.append([n for (n,) in ask(rows, asked, (_FEW + 1,))])
    if wanted.since is not None:
        asked = "SELECT members FROM entity JOIN image ON entity = id WHERE run > ? LIMIT ?"
        changed = ask(rows, asked, (wanted.since, _FEW + 1))
        led.append([int(numbers_from_bytes(members).min()) for (members,) in changed])
    few = [numbers for numbers in led if len(numbers) <= _FEW]
    return min(few, key=len, default=None)


def _rows_of(store: Store, wanted: Filter, numbers: Sequence[int]) -> Iterator[_Row]:
    """The selected entities that hold some fragments."""
    rows, asked = store.database.connection, {*numbers}
    asked_of = "SELECT DISTINCT subproblem FROM fragment WHERE number IN (SELECT value FROM "
    homes = [n for (n,) in ask(rows, f"{asked_of} json_each(?))", [orjson.dumps(numbers).decode()])]
    members = {}
    for _, _, held in rows_of(rows, "entity", "subproblem", homes):
        own = numbers_from_bytes(held).tolist()
        if not asked.isdisjoint(own):
            members[min(own)] = own
    said, values = _range(wanted)
    within = f"NOT INDEXED WHERE first IN (SELECT value FROM json_each(?)) AND {said}"
    values = [orjson.dumps([*members]).decode(), *values]
    found = [_Row(*row) for row in verified_rows(rows, "confidence", within, values)]
    for at in range(0, len(found), _AT_ONCE):
        part = found[at : at + _AT_ONCE]
        yield from _checked(store, wanted, part, {row.first: members[row.first] for row in part})


# --- entities in order ---


def _scanned(
    store: Store, wanted: Filter, order: Order, begin: list[float] | None, most: int
) -> tuple[list[_Row], int, list[float] | None]:
    """Selected entities in order, how many were read, and the last one's key if it read enough."""
    if _is_plain(wanted):
        found = _next(store, wanted, order, begin, most)
        return found, len(found), None
    found, read, fragments = list[_Row](), 0, 0
    for part, chosen, n in _in_order(store, wanted, order, begin):
        found += chosen
        read += len(part)
        fragments += n
        if fragments > _MOST_READ:
            return found, read, part[-1].key(order)
        if len(found) >= most:
            break
    return found, read, None


def _in_order(
    store: Store, wanted: Filter, order: Order, begin: list[float] | None = None
) -> Iterator[tuple[list[_Row], list[_Row], int]]:
    """Entities after a key, some at a time, the selected ones, and how many fragments were read."""
    n = _AT_FIRST
    while part := _next(store, wanted, order, begin, n):
        members = {} if _is_plain(wanted) else _members(store, part)
        chosen = part if _is_plain(wanted) else _checked(store, wanted, part, members)
        yield part, chosen, sum(map(len, members.values()))
        begin, n = part[-1].key(order), min(2 * n, _AT_ONCE)


def _next(
    store: Store, wanted: Filter, order: Order, begin: list[float] | None, most: int
) -> list[_Row]:
    """The next entities of the table `confidence`.

    Those after a key are those with the same beginning and a later column, for each column from the
    last to the first: SQLite finds each part in its index, however many share a size.
    """
    rows, (said, values), keys = store.database.connection, _range(wanted), _KEYS[order]
    found, index = list[_Row](), _INDEX[order]
    if "confidence" in said and index == _INDEX["largest"] and _share(store, wanted) < _RARE:
        index = _INDEX["least_sure"]
    for n in range(len(keys), 0, -1) if begin is not None else [0]:
        columns = [key.removesuffix(" DESC") for key in keys[:n]]
        later = [f"{column} = ?" for column in columns[:-1]]
        later += [f"{columns[-1]} {'<' if columns[-1] == 'size' else '>'} ?"] if n else []
        where = " AND ".join([*later, said])
        asked = f"SELECT {', '.join(_Row._fields[:-1])} FROM confidence INDEXED BY {index} "
        asked += f"WHERE {where} ORDER BY "
        bounds = [abs(part) for part in (begin or ())[:n]]
        given = [*bounds, *values, most - len(found)]
        found += [_Row(*row) for row in ask(rows, f"{asked}{', '.join(keys)} LIMIT ?", given)]
        if len(found) == most:
            break
    return found


def _members(store: Store, rows: Sequence[_Row]) -> dict[int, list[int]]:
    """The fragments of entities by their first."""
    held = (numbers_from_bytes(members).tolist() for _, _, members in _entities(store, rows))
    return {own[0]: own for own in held}


def _entities(store: Store, rows: Sequence[_Row]) -> Iterator[tuple[Any, ...]]:
    """Their rows of the table `entity`; a subproblem may have thousands, which SQLite skips."""
    connection, homes = store.database.connection, {row.subproblem for row in rows}
    where = f"WHERE subproblem IN ({','.join('?' * len(homes))}) AND substr(members, 1, 8) IN "
    firsts = [numbers_to_bytes([row.first]) for row in rows]
    where += f"({','.join('?' * len(rows))})"
    return verified_rows(connection, "entity", where, [*homes, *firsts])


def _checked(
    store: Store, wanted: Filter, rows: Sequence[_Row], members: dict[int, list[int]]
) -> list[_Row]:
    """Those of the entities for which all conditions hold."""
    numbers = [n for own in members.values() for n in own]
    read = rows_of(store.database.connection, "fragment", "number", numbers, all_there=True)
    fragments = {n: _Stated(id, of, properties_of(line)) for n, id, _, _, of, line in read}
    words = {*words_of(wanted.text)}
    changed = decided = None
    if wanted.since is not None:
        changed = _entities_changed(store, wanted.since, rows)
    if wanted.decided:
        decided = _decided(store, [x.id for x in fragments.values()])
    chosen = list[_Row]()
    for row in rows:
        own = [fragments[n] for n in members.get(row.first, ())]
        if (
            own
            and all(condition.holds(own) for condition in wanted.where)
            and (not words or any(words <= _words_in(x) for x in own))
            and (not wanted.source or any(x.source == wanted.source for x in own))
            and (changed is None or row.first in changed)
            and (decided is None or any(x.id in decided for x in own))
        ):
            chosen.append(row)
    if wanted.contradicts:
        entities = StoreView(store).of_firsts([row.first for row in chosen])
        there = [bool(in_question(one, store.corpus)) for one in entities]
        chosen = list(compress(chosen, there))
    return chosen


def _words_in(fragment: _Stated) -> set[str]:
    said = (value for values in fragment.properties.values() for value in values)
    return {word for value in said for word in words_of(value)}


def _entities_changed(store: Store, since: int, rows: Sequence[_Row]) -> set[int]:
    """The first fragments of those entities that changed after a run."""
    own = {id: int(numbers_from_bytes(held)[0]) for id, _, held in _entities(store, rows)}
    among = "entity IN (SELECT value FROM json_each(?))"
    asked = f"SELECT DISTINCT entity FROM image WHERE run > ? AND {among}"
    found = ask(store.database.connection, asked, (since, orjson.dumps([*own]).decode()))
    return {own[id] for (id,) in found}


def _decided(store: Store, ids: Sequence[str]) -> set[str]:
    """Those of some fragments that decisions in force name."""
    asked = "SELECT first, second FROM decision WHERE undone IS NULL"
    named = {id for pair in ask(store.database.connection, asked) for id in pair}
    return named.intersection(ids)


def _listed(
    readers: Readers, store: Store, rows: Sequence[_Row], columns: Sequence[str]
) -> list[ListedEntity]:
    """The entities of a page."""
    ids = {int(numbers_from_bytes(held)[0]): id for id, _, held in _entities(store, rows)}
    firsts = [row.first for row in rows if row.first in ids]
    found = references(readers, store, [ids[first] for first in firsts])
    values = _values(store, rows, columns) if columns else {}
    return [
        ListedEntity(one.id, one.name, one.size, one.confidence, values.get(first, {}))
        for first, one in zip(firsts, found, strict=True)
    ]


def _values(
    store: Store, rows: Sequence[_Row], columns: Sequence[str]
) -> dict[int, dict[str, str]]:
    """By first fragment, the best values of some attributes of entities."""
    shown = {first: own[:_MOST_SHOWN] for first, own in _members(store, rows).items()}
    of = {n: first for first, own in shown.items() for n in own}
    stated = defaultdict[int, list[Fragment]](list)
    for n, id, *_, line in rows_of(store.database.connection, "fragment", "number", [*of], True):
        said = properties_of(line)
        if chosen := {name: (*said[name],) for name in columns if name in said}:
            stated[of[n]].append(Fragment(id, chosen))
    made = all_described([*stated.values()], store.corpus) if stated else []
    return {
        first: {
            name: one.properties[name][0].value[:_LONGEST]
            for name in columns
            if name in one.properties
        }
        for first, one in zip(stated, made, strict=True)
    }
