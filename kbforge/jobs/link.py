"""Links tables one to one: reads each table as one source and clusters their records.

A record's source is the name of its table, and `--link source` separates the records of a table.
The links are read from the posterior (`kbforge.kb.links`).
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import chain

from kbforge.contracts import Fragment
from kbforge.errors import (
    BadRecord,
    UsageError,
    columns_differ,
    did_you_mean,
    listed,
    option,
    quoted,
)
from kbforge.files.fragments import distinct, stop
from kbforge.files.kinds import kind_of
from kbforge.files.lines import read_columns
from kbforge.fit.authority import Authority
from kbforge.fit.choices import SOURCE
from kbforge.jobs.tables import Records, fragments_from, pairs_of
from kbforge.jobs.views import read_authority
from kbforge.registry import name_of
from kbforge.store.database import is_store

_MOST_NAMED = 12  # attributes that an error lists


@dataclass(frozen=True, slots=True)
class Columns:
    """The meaning of columns in tables; a table may lack some of them.

    Raises:
        UsageError: a column has two meanings.

    """

    ids: Sequence[str]  # columns of ids; a record uses the first of them that it has
    label: str | None  # column of the gold entity
    renamed: Mapping[str, str]  # column -> attribute; an empty attribute leaves the column out

    @property
    def named(self) -> list[str]:
        """All named columns."""
        label = [] if self.label is None else [self.label]
        return [*self.ids, *label, *self.renamed]

    @property
    def attributes(self) -> frozenset[str]:
        """All attributes that columns are mapped to."""
        return frozenset(filter(None, self.renamed.values()))

    def applied(self, x: Fragment) -> Fragment:
        """A record with these columns applied; BadRecord if it has two ids, or is empty."""
        where = x.place or x.id
        of = x.properties
        id = next((self._only(of, column, where) for column in self.ids if column in of), x.id)
        label = x.label
        if self.label is not None and self.label in of:
            label = self._only(of, self.label, where)
        left: dict[str, tuple[str, ...]] = {}
        for column, values in of.items():
            special = column in self.ids or column == self.label
            attribute = self.renamed.get(column, "" if special else column)
            if attribute:
                left[attribute] = tuple(dict.fromkeys((*left.get(attribute, ()), *values)))
        if not left and x.vector is None:
            raise BadRecord(where, "a value besides the id", "none")
        return replace(x, id=id, label=label, properties=left)

    def _only(self, of: Mapping[str, tuple[str, ...]], column: str, where: str) -> str:
        if len(of[column]) > 1:
            raise BadRecord(where, "one value", f"{len(of[column])}", column)
        return of[column][0]


def columns_of(ids: Sequence[str], label: str | None, pairs: Sequence[str]) -> Columns:
    """The columns that options name; a UsageError for a pair that is not `column=attribute`."""
    renamed: dict[str, str] = {}
    for pair in pairs:
        column, equals, attribute = pair.rpartition("=")
        if not (equals and column):
            raise UsageError(f'{option("map")}: expected column=attribute, got "{quoted(pair)}"')
        renamed[column] = attribute
    return Columns(ids, label, renamed)


def renamed(
    fragments: Sequence[Fragment], pairs: Sequence[str], strict: bool = True
) -> tuple[Sequence[Fragment], frozenset[str]]:
    """Fragments renamed by `column=attribute` pairs, and the new attributes.

    Raises:
        UsageError: a malformed pair or, if `strict`, a column that no fragment has.
        BadRecord: a fragment is empty.

    """
    if not pairs:
        return fragments, frozenset()
    columns = columns_of((), None, pairs)
    present = _attributes(fragments)
    for column in columns.named if strict and fragments else ():
        if column not in present:
            raise UsageError(
                f'{option("map")}: no fragment has "{quoted(column)}"'
                f"{did_you_mean(column, present)}; expected one of {listed(present, _MOST_NAMED)}"
            )
    return [columns.applied(x) for x in fragments], columns.attributes


def read_tables(
    paths: Sequence[str],
    columns: Columns,
    options: Mapping[str, object],
    tell: Callable[[str], None] | None = None,
) -> dict[str, list[Fragment]]:
    """The records of tables, by table name; `options` and `tell` as in `read_fragments`.

    Raises:
        UsageError: fewer than two tables, two with the same name, or a column that no table has.
        KBForgeError: a table that cannot be read, or has no records.
        BadRecord: the first bad record.

    """
    if len(paths) < 2:
        raise UsageError(f"link: expected two or more tables, got {len(paths)}")
    named: dict[str, str] = {}
    for path in paths:
        if path == "-":
            raise UsageError(
                "link: a table needs a name, and standard input has none; write it to a file first"
            )
        name = name_of(path)
        if name in named:
            raise UsageError(
                f'link: two tables are called "{quoted(name)}" ({quoted(named[name], 400)} and '
                f"{quoted(path, 400)}); the name tells their records apart, so rename a file"
            )
        named[name] = path
    found = {name: _records(path, columns, options, tell) for name, path in named.items()}
    return applied(columns, found)


def tables_from(
    tables: Mapping[str, Records], options: Mapping[str, object]
) -> dict[str, list[Fragment]]:
    """The records of tables in memory, by table name; `options` give the meaning of columns.

    Raises:
        UsageError: a table that cannot be read, or a column that no table has.
        BadRecord: the first bad record.

    """
    own = {name: value for name, value in options.items() if value is not None}
    ids, label, renamed = own.pop("id", ()), own.pop("label", None), own.pop("map", ())
    columns = columns_of(
        [ids] if isinstance(ids, str) else _texts(ids, "id"),
        None if label is None else _texts([label], "label")[0],
        pairs_of(renamed) if isinstance(renamed, Mapping) else _texts(renamed, "map"),
    )
    if columns.named:  # a column that is called id may be one of them
        own["id"] = None
    found = {name: fragments_from(of, own, "link", name).fragments for name, of in tables.items()}
    return applied(columns, found) if columns.named else found


def _texts(given: object, keyword: str) -> list[str]:
    found: list[str] = []
    for text in given if isinstance(given, Iterable) else [given]:
        if not isinstance(text, str):
            raise UsageError(f"link: {keyword}: expected text, got {quoted(text)}")
        found.append(text)
    return found


def applied(columns: Columns, tables: Mapping[str, list[Fragment]]) -> dict[str, list[Fragment]]:
    """The records of tables with columns applied, whose ids must be distinct then.

    Raises a UsageError if no table has one of the columns.
    """
    present = _attributes(chain.from_iterable(tables.values()))
    for column in columns.named:
        if column not in present:
            raise UsageError(
                f'link: no table has a column "{quoted(column)}"{did_you_mean(column, present)}; '
                f"expected one of {listed(present, _MOST_NAMED)}"
            )
    placed = {
        name: ((x.place or x.id, columns.applied(x)) for x in of) for name, of in tables.items()
    }
    return {name: list(distinct(of, stop)) for name, of in placed.items()}


def read_against(
    tables: Sequence[str],
    against: str,
    columns: Columns,
    options: Mapping[str, object],
    tell: Callable[[str], None] | None = None,
) -> tuple[list[Fragment], Authority]:
    """The records of one table, and the authority that they may belong to (a table or a KB).

    Options, notes and errors are as in `read_tables` and `read_authority`.
    """
    if len(tables) != 1:
        raise UsageError(f"link --against: expected one table of mentions, got {len(tables)}")
    if is_store(against) or kind_of(against) == "entities":
        name = name_of(tables[0])
        found = applied(columns, {name: _records(tables[0], columns, options, tell)})
        return found[name], read_authority(against)
    records = joined(read_tables([*tables, against], columns, options, tell))
    known = [x for x in records if x.source == name_of(against)]
    authority = replace(Authority.of_fragments(known), name=against)
    return [x for x in records if x.source != name_of(against)], authority


def _records(
    path: str,
    columns: Columns,
    options: Mapping[str, object],
    tell: Callable[[str], None] | None,
) -> list[Fragment]:
    if columns.named:  # a column that is called id may be one of them
        options = {"id": None, **options}
    out = list(read_columns(path, options=options, tell=tell))
    if not out:
        raise UsageError(f"{quoted(path, 400)}: expected records, got none")
    return out


def _attributes(fragments: Iterable[Fragment]) -> list[str]:
    return list(dict.fromkeys(attribute for x in fragments for attribute in x.properties))


def joined(tables: Mapping[str, Sequence[Fragment]]) -> list[Fragment]:
    """The records of all tables, with their table as the source, and with unique ids.

    If tables share an id, every id is prefixed with its table's name (`table:id`).

    Raises:
        UsageError: a table that shares no attribute with another one, or has an attribute `source`.

    """
    _require_comparable(tables)
    seen = Counter(x.id for of in tables.values() for x in of)
    clash = any(count > 1 for count in seen.values())
    return [
        replace(x, id=f"{name}:{x.id}" if clash else x.id, source=name)
        for name, of in tables.items()
        for x in of
    ]


def _require_comparable(tables: Mapping[str, Sequence[Fragment]]) -> None:
    has = {name: _attributes(of) for name, of in tables.items()}
    vectors = all(x.vector is not None for of in tables.values() for x in of)
    for name, own in has.items():
        if SOURCE in own:
            raise UsageError(
                f'link: table "{quoted(name)}" has an attribute "source", which is where the name '
                f"of the table goes; {option('map', 'source=origin')} renames it"
            )
        others = {attribute for other, of in has.items() if other != name for attribute in of}
        if not vectors and others.isdisjoint(own):
            differ = columns_differ("it has", own, "they have", sorted(others))
            raise UsageError(
                f'link: table "{quoted(name)}" shares no attribute with another table; {differ}'
            )
