"""Tables as CSV: `csv` a row a value, `members` a row a fragment, `pairs` and `wide`.

The dialect of all is RFC 4180 in UTF-8, and every cell stands in quotes, so that a program that
splits at semicolons or tabs still finds the cells. A cell that a spreadsheet would take for a
formula gets an apostrophe in front; numbers and phone numbers do not.

*csv*: entities, one row a value, for joins and for spreadsheets.

| column | meaning |
|---|---|
| entity_id, name, confidence, subproblem | the entity, repeated on each of its rows |
| reported | likewise; empty where the confidence is as reported |
| attribute, value | one distinct value |
| count | how many fragments state it |
| fragments | their ids, joined |

An entity with a vector has one more row, with an empty attribute and the vector as value, numbers
separated by spaces; an entity with neither vector nor properties has a row with an empty value.

*members*: one row a fragment, with its entity; it joins input and output, entity by entity.

| column | meaning |
|---|---|
| fragment | its id |
| entity_id, name | its entity |
| confidence, reported | the entity's; the second is empty where the first is as reported |

*pairs*: pairs of fragments that are one entity with more than some probability.

| column | meaning |
|---|---|
| left, right | the fragments |
| probability | that they are one entity, by the groupings that the knowledge base keeps |
| rest | probability of groupings that it does not keep: the pair may have as much more |
| entity_id | the entity of both; empty if they are in two entities |

First come the pairs within entities, entity by entity, then those of two entities by code point.

*wide*: one row an entity, one column an attribute.

| column | meaning |
|---|---|
| entity_id, entity_name | the entity |
| confidence, reported | its own; the second is empty where the first is as reported |
| fragments | how many it has |
| every attribute, in the order of the file | its values, joined; a policy says which |
| vector | the entity's, where any has one: numbers separated by spaces |

With `kbforge export --policy most-stated`, or another policy, these are golden records. An
attribute with the name of an earlier column gets `~2` behind it. The header needs the attributes of
the last entity. So the entities wait in a temporary file, and memory holds the names of the
attributes and one entity.
"""

from __future__ import annotations

import contextlib
import csv
import io
import re
import sqlite3
import tempfile
from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import IO, BinaryIO, ClassVar

import orjson

from kbforge.contracts import Entity, Exporter, View
from kbforge.errors import KBForgeError, UsageError
from kbforge.files.io import open_output
from kbforge.kb.entities import AttributeOrder
from kbforge.kb.similarity import Groupings

VALUE_COLUMNS = (
    "entity_id",
    "name",
    "attribute",
    "value",
    "count",
    "fragments",
    "confidence",
    "subproblem",
    "reported",
)


class CsvExporter(Exporter):
    """One row a value, for joins and for spreadsheets."""

    endings: ClassVar = (".csv",)

    def __init__(self, separator: str = "|", guard_formulas: bool = True) -> None:
        """Set the options.

        Args:
            separator: one character between the fragment ids of a cell; within an id a backslash
                escapes it, and the backslash.
            guard_formulas: put an apostrophe before a cell that a spreadsheet would take for a
                formula (it begins with = + - @, full-width ones included, and is no number and no
                phone number). Set it to false for programs that want the values unchanged.

        Raises:
            UsageError: a separator that is not one character, or that is the backslash.

        """
        self._joined = CellJoiner(separator, "csv")
        self._safe = safe if guard_formulas else str

    def export(self, view: View, target: str) -> None:
        """Write a header and the entities' rows."""
        with open_output(target) as out, table(out) as write:
            write(VALUE_COLUMNS)
            for entity in view.entities():
                for row in self._rows(entity):
                    write(row)

    def _rows(self, entity: Entity) -> Iterator[list[str]]:
        for attribute, values in entity.properties.items():
            for value in values:
                cell = self._safe(value.value)
                yield self._row(entity, attribute, cell, value.fragments)
        if entity.vector is not None or not entity.properties:
            yield self._row(entity, "", numbers(entity.vector), entity.fragments)

    def _row(
        self, entity: Entity, attribute: str, value: str, fragments: tuple[str, ...]
    ) -> list[str]:
        return [
            self._safe(entity.id),
            self._safe(entity.name),
            self._safe(attribute),
            value,
            str(len(fragments)),
            self._safe(self._joined(fragments)),
            number(entity.confidence),
            str(entity.subproblem),
            number(entity.reported),
        ]


MEMBER_COLUMNS = ("fragment", "entity_id", "name", "confidence", "reported")


class MembersExporter(Exporter):
    """One row a fragment, with its entity."""

    def __init__(self, guard_formulas: bool = True) -> None:
        """Set the options.

        Args:
            guard_formulas: put an apostrophe before a cell that a spreadsheet would take for a
                formula. Set it to false for programs that want ids and names unchanged.

        """
        self._safe = safe if guard_formulas else str

    def export(self, view: View, target: str) -> None:
        """Write a header and a row a fragment."""
        with open_output(target) as out, table(out) as write:
            write(MEMBER_COLUMNS)
            for entity in view.entities():
                of_entity = [
                    self._safe(entity.id),
                    self._safe(entity.name),
                    number(entity.confidence),
                    number(entity.reported),
                ]
                for fragment in entity.fragments:
                    write([self._safe(fragment), *of_entity])


PAIR_COLUMNS = ("left", "right", "probability", "rest", "entity_id")
_MOST_PAIRS = 100_000_000


class PairsExporter(Exporter):
    """One row a pair of fragments that are probably one entity."""

    def __init__(self, threshold: float = 0.5, guard_formulas: bool = True) -> None:
        """Set the options.

        Args:
            threshold: export pairs that are more probable than this, from 0 to below 1.
            guard_formulas: put an apostrophe before a cell that a spreadsheet would take for a
                formula. Set it to false for programs that want ids unchanged.

        Raises:
            UsageError: a threshold that is no probability below 1.

        """
        if not 0 <= threshold < 1:
            raise UsageError(
                f"exporter pairs: threshold: expected a number from 0 to below 1, got {threshold:g}"
            )
        self._threshold = threshold
        self._safe = safe if guard_formulas else str

    def export(self, view: View, target: str) -> None:
        """Write a header and a row a pair.

        Raises:
            KBForgeError: more pairs than anyone can read.

        """
        # a pair of two entities is known to both, and each may have dropped what the other has
        try:
            with (
                open_output(target) as out,
                contextlib.closing(sqlite3.connect("")) as waiting,
                table(out) as write,
            ):
                self._export(view, waiting, write)
        except sqlite3.OperationalError as error:
            raise KBForgeError(
                f"exporter pairs: cannot write the pairs to a temporary file: {error}"
            ) from error

    def _export(
        self, view: View, waiting: sqlite3.Connection, write: Callable[[Sequence[str]], object]
    ) -> None:
        waiting.execute("CREATE TABLE pair (one, other, probability, rest)")
        write(PAIR_COLUMNS)
        for count, cells in enumerate(self._inside(view, waiting)):
            write(cells)
            if count == _MOST_PAIRS:
                raise KBForgeError(
                    f"exporter pairs: expected at most {_MOST_PAIRS:,} pairs, got more; "
                    "kbforge export --format members writes one row a fragment"
                )
        self._across(waiting, write)

    def _inside(self, view: View, waiting: sqlite3.Connection) -> Iterator[list[str]]:
        for entity in view.entities():
            groupings = Groupings(entity)
            for pair in groupings.pairs(self._threshold):
                if pair.inside:
                    ids = (self._safe(pair.one), self._safe(pair.other))
                    of = self._safe(entity.id)
                    yield [*ids, number(pair.probability), number(groupings.rest), of]
                else:
                    row = (*sorted((pair.one, pair.other)), pair.probability, groupings.rest)
                    waiting.execute("INSERT INTO pair VALUES (?, ?, ?, ?)", row)

    def _across(
        self, waiting: sqlite3.Connection, write: Callable[[Sequence[str]], object]
    ) -> None:
        """Each pair once, with the closest bounds: at least the larger, at most the smaller sum."""
        found = waiting.execute(
            "SELECT one, other, max(probability), min(probability + rest) - max(probability) "
            "FROM pair GROUP BY one, other ORDER BY one, other"
        )
        for one, other, probability, rest in found:
            left, right = self._safe(one), self._safe(other)
            write([left, right, number(probability), number(max(round(rest, 9), 0.0)), ""])


ENTITY_COLUMNS = ("entity_id", "entity_name", "confidence", "reported", "fragments")
_MOST_COLUMNS = 16_384
"""As many as spreadsheets have."""


class WideExporter(Exporter):
    """One row an entity, one column an attribute."""

    def __init__(self, separator: str = "|", guard_formulas: bool = True) -> None:
        """Set the options.

        Args:
            separator: one character between several values; within a value a backslash escapes it,
                and the backslash.
            guard_formulas: put an apostrophe before a cell that a spreadsheet would take for a
                formula. Set it to false for programs that want the values unchanged.

        Raises:
            UsageError: a separator that is not one character, or that is the backslash.

        """
        self._rows = WideRows(CellJoiner(separator, "wide"), safe if guard_formulas else str)

    def export(self, view: View, target: str) -> None:
        """Write a header and a row an entity.

        Raises:
            KBForgeError: more attributes than a spreadsheet has columns.

        """
        with open_output(target) as out, tempfile.TemporaryFile() as waiting:
            rows = self._rows.of(view.entities(), waiting)
            with table(out) as write:
                for row in rows:
                    write(row)


class WideRows:
    """A header and a row an entity, as texts.

    Args:
        joined: puts several values into one cell.
        safe: what becomes of a cell's text.

    """

    def __init__(self, joined: CellJoiner, safe: Callable[[str], str]) -> None:
        self._joined, self._safe = joined, safe

    def of(self, entities: Iterable[Entity], waiting: IO[bytes]) -> Iterator[list[str]]:
        """The rows; entities wait in a file that is empty and can be read again.

        Raises:
            KBForgeError: more attributes than a spreadsheet has columns.

        """
        places: dict[str, int] = {}
        columns = AttributeOrder()
        vectors = False
        for entity in entities:
            columns.add(entity.properties)
            of_entity, cells, vector = self._record(entity)
            vectors = vectors or bool(vector)
            held = [(places.setdefault(key, len(places)), cell) for key, cell in cells]
            _check_width(len(ENTITY_COLUMNS) + len(places) + vectors)
            record = [of_entity, held, vector]
            waiting.write(orjson.dumps(record, option=orjson.OPT_APPEND_NEWLINE))
        waiting.seek(0)
        attributes = columns.merged()
        order = [places[attribute] for attribute in attributes]
        yield self._header([*attributes, *["vector"] * vectors])
        for line in waiting:
            of_entity, held, vector = orjson.loads(line)
            found = dict(held)
            row = [*of_entity, *(found.get(place, "") for place in order)]
            yield [*row, vector] if vectors else row

    def _record(self, entity: Entity) -> tuple[list[str], Iterator[tuple[str, str]], str]:
        of_entity = [
            self._safe(entity.id),
            self._safe(entity.name),
            number(entity.confidence),
            number(entity.reported),
            str(len(entity.fragments)),
        ]
        cells = (
            (key, self._safe(self._joined([value.value for value in values])))
            for key, values in entity.properties.items()
        )
        return of_entity, cells, numbers(entity.vector)

    def _header(self, attributes: Iterable[str]) -> list[str]:
        """The columns' names, each once."""
        names = dict.fromkeys(ENTITY_COLUMNS)
        for attribute in map(self._safe, attributes):
            name, number_of = attribute, 1
            while name in names:
                number_of += 1
                name = f"{attribute}~{number_of}"
            names[name] = None
        return list(names)


def _check_width(columns: int) -> None:
    if columns > _MOST_COLUMNS:
        raise KBForgeError(
            f"expected at most {_MOST_COLUMNS:,} columns, got more attributes; "
            "kbforge export --format csv writes one row a value"
        )


_FORMULA = re.compile(r"\s*[=+\-@\t\r＝＋－＠]")  # full-width ones too
_NUMBER = re.compile(r"[+-]?\d+([.,]\d+)*(e[+-]?\d+)?", re.IGNORECASE | re.ASCII)
# a space behind the country code: no spreadsheet can read "+49 174" as arithmetic, but "+49-174"
_PHONE = re.compile(r"\+\d{1,4}(?:[ \xa0](?:\(\d{1,5}\)[ \xa0]?)?\d+)+(?:[-/.]\d+)*", re.ASCII)


def safe(cell: str) -> str:
    """A cell that no spreadsheet computes."""
    if not _FORMULA.match(cell) or _NUMBER.fullmatch(cell) or _PHONE.fullmatch(cell):
        return cell
    return f"'{cell}"


@contextlib.contextmanager
def table(out: BinaryIO) -> Iterator[Callable[[Sequence[str]], object]]:
    """What writes one row to a binary stream, which stays the caller's to close."""
    text = io.TextIOWrapper(out, encoding="utf-8", newline="", write_through=True)
    try:
        yield csv.writer(text, quoting=csv.QUOTE_ALL).writerow
    finally:
        text.detach()


class CellJoiner:
    """Several texts in one cell, between them one character.

    Within a text the character and the backslash are written behind a backslash.

    Raises:
        UsageError: a separator that is not one character, or that is the backslash.

    """

    def __init__(self, separator: str, exporter: str) -> None:
        if len(separator) != 1 or separator == "\\":
            raise UsageError(
                f"exporter {exporter}: separator must be one character, not a backslash"
            )
        self._separator = separator

    def __call__(self, texts: Sequence[str]) -> str:
        """The content of the cell."""
        return self._separator.join(map(self._escaped, texts))

    def _escaped(self, text: str) -> str:
        escaped = text.replace("\\", "\\\\")
        return escaped.replace(self._separator, f"\\{self._separator}")


def number(value: float | None) -> str:
    """A number's cell; empty for none."""
    return "" if value is None else repr(value)


def numbers(vector: Sequence[float] | None) -> str:
    """A vector's cell: numbers separated by spaces; empty for none."""
    return " ".join(map(repr, vector or ()))
