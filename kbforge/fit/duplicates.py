"""Finds duplicates within tables, which may be linked if none has any.

A link separates the records of a table, so an entity that a table lists twice becomes two. A record
is *repeated* if another record of its table has the same values, ignoring case. It is a *near
duplicate* of another if they share a name, and share a value of every attribute that both state.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from typing import TypeAlias

from kbforge.contracts import Constraints, Fragment
from kbforge.errors import counted, listed, option, quoted
from kbforge.files.columns import sizes_of_sources

_MOST_SHARE = 0.05
"""Maximum share of a table's records; above it, linking is probably wrong."""
_MOST_SHARE_TO_LINK = 0.1
"""The same, if the odds of records decide whether tables are one to one."""
_MOST_COMPARED = 16  # records of one name that a record is compared with
_MOST_NAMED = 4  # tables in a sentence
_MOST_TABLES, _LEAST_RECORDS = 5, 50  # of a file whose sources are taken for tables

_Statement: TypeAlias = Mapping[str, frozenset[str]]


def duplicates_note(fragments: Sequence[Fragment], link: str | None) -> str:
    """A note about linked tables, or about tables that could be linked; "" if there is none."""
    if link is not None:
        return _linked_note(_tables(fragments, link))
    named = _without_duplicates(fragments, _MOST_SHARE)
    if not named:
        return ""
    return (
        f"the fragments are of {_tables_called(named)} that seem free of duplicates; if they are, "
        f"{option('link', 'source')} compares them one to one"
    )


def tables_to_link(fragments: Sequence[Fragment]) -> str:
    """The sources as words, if they may be tables that a model of pairs links; else ""."""
    named = _without_duplicates(fragments, _MOST_SHARE_TO_LINK)
    return _tables_called(named) if named else ""


def _without_duplicates(fragments: Sequence[Fragment], most: float) -> list[str]:
    """The sources, ascending, if they are a few tables with few duplicates; else empty."""
    sizes = sizes_of_sources(fragments, _MOST_TABLES)
    named = sorted(name for name in sizes if name is not None)
    if not 2 <= len(named) == len(sizes) or min(sizes.values()) < _LEAST_RECORDS:
        return []
    tables = _tables(fragments, "source")
    return [] if any(_share_of_duplicates(of) > most for of in tables.values()) else named


def _tables_called(named: Sequence[str]) -> str:
    return f"{len(named)} tables ({listed(named, _MOST_NAMED)})"


def _tables(fragments: Iterable[Fragment], link: str) -> dict[str, list[_Statement]]:
    """The values of the records of each table, in lower case."""
    linked = Constraints(link=link)
    tables: dict[str, list[_Statement]] = defaultdict(list)
    for x in fragments:
        stated = {a: frozenset(v.casefold() for v in vs) for a, vs in x.properties.items()}
        for value in linked.stated(x):
            tables[value].append(stated)
    return tables


def _linked_note(tables: Mapping[str, Sequence[_Statement]]) -> str:
    """The number of records of linked tables with a duplicate there; "" if no value is shared."""
    shared = {name: of for name, of in tables.items() if len(of) > 1}
    if not shared:
        return ""
    exact = {name: n for name, of in shared.items() if (n := len(_repeated(of)))}
    said = "no table has identical records"
    if exact:
        parts = [f"{n:,} of {len(shared[name]):,} of {_called(name)}" for name, n in exact.items()]
        said = (
            f"{counted(sum(exact.values()), 'record')} ({listed(parts, _MOST_NAMED)}) are "
            "identical to another one of their table, and stay separate"
        )
    shares = {name: _share_of_duplicates(of) for name, of in shared.items()}
    many = [f"{_called(n)} ({share:.0%})" for n, share in shares.items() if share > _MOST_SHARE]
    if not many:
        return said
    return (
        f"{said}; {listed(many, _MOST_NAMED)} may have duplicates (equal names and no conflict): "
        "linking is for tables without any, so remove them first, or use kbforge cluster without "
        f"{option('link')}"
    )


def _called(name: str) -> str:
    return quoted(name, 40)


def _share_of_duplicates(table: Sequence[_Statement]) -> float:
    """The share of a table's records that are repeated or have a near duplicate."""
    return len(_repeated(table) | _near(table)) / len(table)


def _repeated(table: Sequence[_Statement]) -> set[int]:
    """The records that are identical to another one."""
    groups: dict[frozenset[tuple[str, frozenset[str]]], list[int]] = defaultdict(list)
    for number, said in enumerate(table):
        if said:
            groups[frozenset(said.items())].append(number)
    return {number for group in groups.values() if len(group) > 1 for number in group}


def _near(table: Sequence[_Statement]) -> set[int]:
    """The records that share a name with another one and do not conflict with it."""
    near: set[int] = set()
    named: dict[str, list[int]] = defaultdict(list)
    for number, said in enumerate(table):
        for name in sorted(said.get("name", ())):
            for other in named[name][-_MOST_COMPARED:]:
                if not any(
                    v.isdisjoint(table[other][a]) for a, v in said.items() if a in table[other]
                ):
                    near |= {other, number}
            named[name].append(number)
    return near
