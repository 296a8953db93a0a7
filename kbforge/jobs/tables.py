"""Turns the tables that Python functions accept into fragments.

Columns become attributes by the code and options of `kbforge load csv`. A path names a file that
the verbs of the command line accept.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any, NamedTuple, TypeAlias, cast

from kbforge import registry
from kbforge.contracts import Fragment
from kbforge.errors import UsageError, quoted
from kbforge.files.arrow import ArrowStream, dict_rows, frame_rows, is_frame
from kbforge.files.fragments import accounts, read_fragments, stop

Records: TypeAlias = Iterable[Fragment] | Iterable[Mapping[str, object]] | ArrowStream | str | Path
"""Fragments, dictionaries, a table that supports Arrow, or the path of a file."""

COLUMNS = ("id", "label", "map", "vector", "separator", "null")
"""The options of `kbforge load csv` that apply to a table in memory."""

_SOURCE = "csv"  # its class maps rows to fragments


class GivenFragments(NamedTuple):
    """Fragments, whether their ids were integers in a table, and what the table was read as."""

    fragments: list[Fragment]
    number_ids: bool = False
    notes: tuple[str, ...] = ()


def fragments_from(
    records: Records,
    options: Mapping[str, object],
    function: str,
    source: str | None = None,
) -> GivenFragments:
    """Fragments with distinct ids.

    Args:
        records: fragments, dictionaries, a table that supports Arrow, or the path of a file.
        options: some of `COLUMNS`, for tables.
        function: the name in errors.
        source: of a table's fragments, also used in errors; None sets none.

    Raises:
        UsageError: a different type, options for fragments, a wrong option, or a repeated id.
        BadRecord: the first bad row.

    """
    expected = "expected fragments, a data frame, a list of dictionaries or a path"
    if isinstance(records, str | Path):
        notes: list[str] = []
        read = read_fragments(str(records), options=_as_options(options), tell=notes.append)
        return GivenFragments(list(read), notes=tuple(notes))
    if isinstance(records, Mapping) or not (is_frame(records) or isinstance(records, Iterable)):
        raise UsageError(f"{function}: {expected}, got {quoted(records)}")
    name = source or "table"
    if is_frame(records):
        columns, rows = frame_rows(records, name)
    else:
        held: list[Any] = list(cast(Iterable[object], records))
        if not held or not isinstance(held[0], Mapping):
            if others := sorted({*options} - {"map"}):
                raise UsageError(f"{function}: {others[0]}: only tables have columns")
            from kbforge.jobs.link import renamed  # which builds on this module

            found, _ = renamed(_distinct(held, function), pairs_from(options))
            return GivenFragments(list(found))
        columns, rows = dict_rows(held, name)
    reader = registry.create("sources", _SOURCE, _as_options(options))
    kinds: set[type] = set()
    if (id := options.get("id")) in columns:
        rows = _noting(rows, columns.index(str(id)), kinds)
    fragments = _distinct(reader.read_rows(columns, rows, name, source, stop), function)
    return GivenFragments(fragments, kinds == {int}, tuple(accounts(reader, name)))


def _noting(
    rows: Iterable[Sequence[object]], place: int, kinds: set[type]
) -> Iterator[Sequence[object]]:
    """The rows; records the types of a column."""
    for row in rows:
        kinds.add(type(row[place]))
        yield row


def _as_options(given: Mapping[str, object]) -> dict[str, object]:
    """The options of a source, whose `map` is a list of pairs."""
    options = {name: v for name, v in given.items() if v is not None or name == "id"}
    if isinstance(renamed := options.get("map"), Mapping):
        options["map"] = pairs_of(renamed)
    return options


def pairs_from(options: Mapping[str, object]) -> list[str]:
    """The `column=attribute` pairs of the option `map`; a UsageError for anything else."""
    given = options.get("map") or ()
    if isinstance(given, Mapping):
        return pairs_of(given)
    if isinstance(given, str) or not isinstance(given, Iterable):
        raise UsageError(f"map: expected a dictionary or a list of pairs, got {quoted(given)}")
    return [str(pair) for pair in given]


def pairs_of(renamed: Mapping[Any, Any]) -> list[str]:
    """A dictionary of columns and attributes as `column=attribute` pairs."""
    return [f"{column}={attribute}" for column, attribute in renamed.items()]


def _distinct(fragments: Iterable[object], function: str) -> list[Fragment]:
    """The fragments, after checking that their ids are unique."""
    held: list[Fragment] = []
    seen: set[str] = set()
    for number, fragment in enumerate(fragments):
        where = f"{function}: fragment {number}"
        if not isinstance(fragment, Fragment):
            raise UsageError(f"{where}: expected a Fragment, got {quoted(fragment)}")
        if fragment.id in seen:
            raise UsageError(f'{where}: expected a unique id, got "{quoted(fragment.id)}" again')
        seen.add(fragment.id)
        held.append(fragment)
    return held
