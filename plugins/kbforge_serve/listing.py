"""The list of all entities: filtered, in an order, a page at a time.

The order is that of an index of the table `confidence`, and a page begins after the key of the last
entity of the page before. Conditions on size and confidence are part of the question to the table.
For the others, one of two ways is taken:

- a condition that few fragments meet leads to its entities, which are then checked and ordered: the
  count is exact;
- otherwise entities are read in order and checked until the page is full. A page that has read
  `_MOST_READ` fragments ends early, and the count is an estimate from the share that it found.

While entities change, those that changed since their confidence was computed are left out.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator, Sequence
from dataclasses import dataclass
from typing import Annotated, Any, Literal, NamedTuple, TypeAlias, get_args

import orjson
from fastapi import Depends, Query
from pydantic import BeforeValidator

from kbforge.contracts import Fragment
from kbforge.contracts.entity import Natural
from kbforge.errors import UsageError, quoted
from kbforge.kb.entities import described
from kbforge.store.pages import numbers_from_bytes
from kbforge.store.store import Store
from kbforge.store.tables import ask, rows_of
from kbforge.texts import LARGEST
from kbforge_serve.answers import Answer, EntityReference
from kbforge_serve.facts import holding
from kbforge_serve.readers import Readers
from kbforge_serve.words import WordIndex, words_of

Order: TypeAlias = Literal["largest", "least_sure"]
ORDERS = get_args(Order)
MOST = 200
"""Maximum number of entities of a page."""
MOST_CONDITIONS = 10
MOST_COLUMNS = 20
_FEW = 4_000  # fragments that a condition may lead to
_MOST_READ = 4_000  # fragments for a page
_AT_ONCE = 64  # entities that are checked together
_MOST_SHOWN = 100  # fragments of an entity whose values are shown
_LONGEST = 200  # characters of a value

_KEYS = {
    "largest": ("-size", "subproblem", "first"),
    "least_sure": ("confidence", "reported", "-size", "subproblem", "first"),
}
_INDEXED = {"largest": "size DESC, subproblem", "least_sure": "confidence, reported, size DESC"}
_COLUMNS = "first, subproblem, size, reported, confidence"


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

    def holds(self, fragments: Collection[Fragment]) -> bool:
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


def _given(value: object) -> object:
    """A field of a form that was left empty is not given."""
    return None if value == "" else value


_Number: TypeAlias = Annotated[int | None, BeforeValidator(_given), Query(ge=0, le=LARGEST)]
_Share: TypeAlias = Annotated[float | None, BeforeValidator(_given), Query(ge=0, le=1)]


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
) -> Filter:
    """The filter of a request; `since` is the number of a run after which entities changed."""
    conditions = tuple(Condition.read(one) for one in where if one.strip())
    least, most = least_confidence or 0.0, 1.0 if most_confidence is None else most_confidence
    size = least_size or 1
    return Filter(text, conditions, source, size, most_size, least, most, since, decided)


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


class _Row(NamedTuple):
    """A row of the table `confidence`."""

    first: int
    subproblem: int
    size: int
    reported: float
    confidence: float

    def key(self, order: Order) -> list[float]:
        """Its place in an order."""
        fields = (-self.size, self.subproblem, self.first)
        return [*((self.confidence, self.reported) if order == "least_sure" else ()), *fields]


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
        numbers = _led(store, words, wanted)
        if numbers is not None:
            rows = sorted(_rows_of(store, wanted, numbers), key=lambda row: row.key(order))
            found = [row for row in rows if begin is None or row.key(order) > begin]
            count, exact, more = len(rows), True, len(found) > most
        else:
            found, read, more = _scanned(store, wanted, order, begin, most + 1)
            more = more or len(found) > most
            whole = begin is None and not more
            exact = whole or _is_plain(wanted)
            share = 1.0 if _is_plain(wanted) else len(found) / max(read, 1)
            count = len(found) if whole else round(_count(store, wanted) * share)
        shown = found[:most]
        end = orjson.dumps(shown[-1].key(order)).decode() if more and shown else None
        return Listing(order, _listed(readers, store, shown, columns), count, exact, end)


def _begin(after: str | None, order: Order) -> list[float] | None:
    """The key after which a page begins."""
    if after is None:
        return None
    try:
        key = orjson.loads(after)
    except orjson.JSONDecodeError:
        key = None
    if not (
        isinstance(key, list)
        and len(key) == len(_KEYS[order])
        and all(type(part) in (int, float) for part in key)
    ):
        raise UsageError(f"after: expected what `after` said, got {quoted(after)}")
    return key


def _is_plain(wanted: Filter) -> bool:
    """Whether the table of sizes and confidence answers everything."""
    return not (wanted.text or wanted.where or wanted.source or wanted.decided) and (
        wanted.since is None
    )


def _range(wanted: Filter) -> tuple[str, list[Any]]:
    """The conditions on the table `confidence`."""
    said = "size >= ? AND confidence >= ? AND confidence <= ?"
    values: list[Any] = [wanted.least_size, wanted.least_confidence, wanted.most_confidence]
    if wanted.most_size is not None:
        said, values = f"{said} AND size <= ?", [*values, wanted.most_size]
    return f"{said} AND subproblem NOT IN (SELECT subproblem FROM stale)", values


def _count(store: Store, wanted: Filter) -> int:
    """How many entities have the size and the confidence."""
    rows, (said, values) = store.database.connection, _range(wanted)
    if _range(wanted) == _range(Filter()) and not store.has_stale:  # SQLite counts rows quickly
        return int(ask(rows, "SELECT count(*) FROM confidence")[0][0])
    return int(ask(rows, f"SELECT count(*) FROM confidence WHERE {said}", values)[0][0])


# --- conditions that lead to their entities ---


def _led(store: Store, words: WordIndex | None, wanted: Filter) -> list[int] | None:
    """The fragments that the most selective condition leads to; None if none leads to few."""
    rows, led = store.database.connection, list[list[int]]()
    texts = [wanted.text, *(one.value for one in wanted.where if one.value)]
    for text in filter(None, map(words_of, texts)):
        if words is not None and (found := words.having(store, text, _FEW + 1)) is not None:
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
    homes = sorted({*store.pages.homes(numbers).values()})
    rows, asked = store.database.connection, {*numbers}
    members = {}
    for _, _, held in rows_of(rows, "entity", "subproblem", homes):
        own = numbers_from_bytes(held).tolist()
        if not asked.isdisjoint(own):
            members[min(own)] = own
    stale = {name for (name,) in ask(rows, "SELECT subproblem FROM stale")}
    found = [_Row(*row) for row in rows_of(rows, "confidence", "first", [*members])]
    within = [row for row in found if row.subproblem not in stale and _in_range(wanted, row)]
    for at in range(0, len(within), _AT_ONCE):
        part = within[at : at + _AT_ONCE]
        yield from _checked(store, wanted, part, {row.first: members[row.first] for row in part})


def _in_range(wanted: Filter, row: _Row) -> bool:
    return (
        wanted.least_size <= row.size
        and (wanted.most_size is None or row.size <= wanted.most_size)
        and wanted.least_confidence <= row.confidence <= wanted.most_confidence
    )


# --- entities in order ---


def _scanned(
    store: Store, wanted: Filter, order: Order, begin: list[float] | None, most: int
) -> tuple[list[_Row], int, bool]:
    """Selected entities in order; the number that was read, and whether it ended too early."""
    found, read, fragments = list[_Row](), 0, 0
    while len(found) < most:
        part = _next(store, wanted, order, begin, _AT_ONCE if not _is_plain(wanted) else most)
        if not part:
            return found, read, False
        members = {} if _is_plain(wanted) else _members(store, part)
        chosen = part if _is_plain(wanted) else list(_checked(store, wanted, part, members))
        found += chosen
        read += len(part)
        fragments += sum(map(len, members.values()))
        begin = part[-1].key(order)
        if fragments > _MOST_READ and found:
            return found, read, True
    return found, read, False


def _next(
    store: Store, wanted: Filter, order: Order, begin: list[float] | None, most: int
) -> list[_Row]:
    """The next entities of the table `confidence`."""
    said, values = _range(wanted)
    keys = ", ".join(_KEYS[order])
    if begin is not None:
        # the first part makes SQLite begin in its index
        bound = "size <= ?" if order == "largest" else "confidence >= ?"
        at = -begin[0] if order == "largest" else begin[0]
        said = f"{said} AND {bound} AND ({keys}) > ({', '.join('?' * len(begin))})"
        values = [*values, at, *begin]
    by = f"ORDER BY {_INDEXED[order]}, first LIMIT ?"
    asked = f"SELECT {_COLUMNS} FROM confidence WHERE {said} {by}"
    return [_Row(*row) for row in ask(store.database.connection, asked, [*values, most])]


def _members(store: Store, rows: Sequence[_Row]) -> dict[int, list[int]]:
    """The fragments of entities by their first."""
    wanted = {row.first for row in rows}
    homes = sorted({row.subproblem for row in rows})
    found = rows_of(store.database.connection, "entity", "subproblem", homes)
    held = (numbers_from_bytes(members).tolist() for _, _, members in found)
    return {min(own): own for own in held if min(own) in wanted}


def _checked(
    store: Store, wanted: Filter, rows: Sequence[_Row], members: dict[int, list[int]]
) -> Iterator[_Row]:
    """Those of the entities for which all conditions hold."""
    fragments = store.pages.fragments([n for own in members.values() for n in own])
    words = {*words_of(wanted.text)}
    changed = decided = None
    if wanted.since is not None:
        changed = _entities_changed(store, wanted.since, [*members])
    if wanted.decided:
        decided = _decided(store, [x.id for x in fragments.values()])
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
            yield row


def _words_in(fragment: Fragment) -> set[str]:
    said = (value for values in fragment.properties.values() for value in values)
    return {word for value in said for word in words_of(value)}


def _entities_changed(store: Store, since: int, firsts: Sequence[int]) -> set[int]:
    """The first fragments, of some, whose entities changed after a run."""
    rows = store.database.connection
    homes = sorted({*store.pages.homes(firsts).values()})
    own = {
        id: int(numbers_from_bytes(held).min())
        for id, _, held in rows_of(rows, "entity", "subproblem", homes)
    }
    among = "entity IN (SELECT value FROM json_each(?))"
    asked = f"SELECT DISTINCT entity FROM image WHERE run > ? AND {among}"
    found = ask(rows, asked, (since, orjson.dumps([*own]).decode()))
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
    found = holding(readers, store, [row.first for row in rows])
    members = _members(store, rows) if columns else {}
    shown = {first: own[:_MOST_SHOWN] for first, own in members.items()}
    fragments = store.pages.fragments([n for own in shown.values() for n in own])
    out = []
    for row in rows:
        if row.first in found:
            one, values = found[row.first], dict[str, str]()
            if columns:
                own = [fragments[n] for n in shown[row.first]]
                stated = described(own, store.corpus).properties
                values = {a: stated[a][0].value[:_LONGEST] for a in columns if a in stated}
            out.append(ListedEntity(one.id, one.name, one.size, one.confidence, values))
    return out
