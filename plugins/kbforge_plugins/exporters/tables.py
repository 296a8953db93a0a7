"""Exporters of tables: `xlsx`, and as CSV `csv`, `contradictions`, `members`, `pairs` and others.

The CSV dialect is RFC 4180 in UTF-8, and every cell is quoted, so a program that splits at
semicolons or tabs still finds the cells. A cell that a spreadsheet would evaluate as a formula gets
an apostrophe in front; numbers and phone numbers do not.

*csv*: entities, one row per value, for joins and for spreadsheets.

| column | meaning |
|---|---|
| entity_id, name, confidence, subproblem | the entity, repeated on each of its rows |
| reported | the entity's, repeated; empty if the confidence is not calibrated |
| attribute, value | one distinct value |
| count | how many fragments state it |
| fragments | their ids, joined |

An entity with a vector has one more row, with an empty attribute and the vector as value, numbers
separated by spaces; an entity with neither vector nor properties has a row with an empty value.

*contradictions*: one row per value in question (`kbforge.kb.facts`), the most probable first.

| column | meaning |
|---|---|
| entity_id, entity_name, attribute | whose value |
| value | one of those that contradict each other |
| confidence | the probability that it is right |
| count, fragments, sources | who states it, joined; sources are empty without the fragments |
| by | who settled the attribute on it |

*members*: one row per fragment, with its entity; it joins input and output.

| column | meaning |
|---|---|
| id | of the fragment |
| entity_id, entity_name | its entity |
| confidence, reported | the entity's; the second is empty if the first is not calibrated |

*pairs*: pairs of fragments that are one entity with more than a minimum probability.

| column | meaning |
|---|---|
| left, right | the fragments |
| probability | that they are one entity, in the groupings that the knowledge base keeps |
| rest | probability of groupings that it does not keep, which the pair may also have |
| entity_id | the entity of both; empty if they are in two entities |

The pairs within entities come first, entity by entity, then pairs of two entities by code point.

*relations*: one row per relation between two entities (`kbforge.kb.edges`), in the order of the
entities.

| column | meaning |
|---|---|
| head_id, head | the entity that has the attribute |
| relation | the attribute |
| tail_id, tail | the entity that its values name |
| probability | that they do |
| statements | how many fragments state it |
| fragments, values | their ids, and the spellings, joined |

*wide*: one row per entity, one column per attribute.

| column | meaning |
|---|---|
| entity_id, entity_name | the entity |
| confidence, reported | its own; the second is empty if the first is not calibrated |
| fragments | their number |
| every attribute, in the order of the file | its values, joined; a policy selects them |
| vector | the entity's, if any has one: numbers separated by spaces |

With `kbforge export --policy fused`, or another policy, these are golden records. An
attribute with the name of an earlier column gets the suffix `~2`. The header needs the attributes
of the last entity, so the entities wait in a temporary file; memory holds only the names of the
attributes and one entity.

*xlsx*: a spreadsheet with two sheets.

| sheet | a row is |
|---|---|
| entities | an entity, with the columns of `wide` |
| fragments | a fragment: its id, its entity's id and name, its source and its row there |

Confidences and counts are numbers; everything else is text, so 00123 stays 00123. A text that
begins with = + - or @ is stored as text, even after editing: nothing in the file is a formula.
Characters that XML cannot hold are written as Excel writes them (`_x000B_`). The same view gives
the same bytes: the file contains no time.
"""

from __future__ import annotations

import contextlib
import re
import shutil
import sqlite3
import tempfile
import zipfile
from abc import abstractmethod
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import datetime
from itertools import islice
from typing import IO, TYPE_CHECKING, Any, ClassVar

import orjson

from kbforge.contracts import Entity, Exporter, View
from kbforge.errors import KBForgeError, UsageError, option, quoted
from kbforge.files.arrow import Cell
from kbforge.files.cells import csv_writer, safe
from kbforge.files.databases import connected
from kbforge.files.io import open_output, require_openpyxl
from kbforge.kb.edges import edge_table
from kbforge.kb.entities import AttributeOrder
from kbforge.kb.similarity import Groupings
from kbforge.registry import ending_of, is_address, plugin_of

if TYPE_CHECKING:
    import pyarrow as pa

VALUE_COLUMNS = (
    *("entity_id", "name", "attribute", "value", "count", "fragments"),
    *("confidence", "subproblem", "reported"),
)
CONTRADICTION_COLUMNS = (
    *("entity_id", "entity_name", "attribute", "value", "confidence"),
    *("count", "fragments", "sources", "by"),
)
MEMBER_COLUMNS = ("id", "entity_id", "entity_name", "confidence", "reported")
PAIR_COLUMNS = ("left", "right", "probability", "rest", "entity_id")
RELATION_COLUMNS = (
    *("head_id", "head", "relation", "tail_id", "tail"),
    *("probability", "statements", "fragments", "values"),
)
ENTITY_COLUMNS = ("entity_id", "entity_name", "confidence", "reported", "fragments")
_NUMBERS = dict.fromkeys(("confidence", "probability", "rest"), 1.0) | dict.fromkeys(
    ("count", "statements", "subproblem"), 1
)
"""Columns of numbers, for a table without rows."""
_PARQUET = (".parquet", ".pq")
_NO_SOURCES = "the column sources is empty; --fragments FILE, what was clustered, has them"
_BATCH = 1_000  # rows
_MOST_PAIRS = 100_000_000
_MOST_COLUMNS = 16_384
"""The maximum of spreadsheets."""


@dataclass
class TableExporter(Exporter):
    """A table as CSV, as Parquet or a spreadsheet if the target has that extension, or in a
    database; subclasses yield its header and rows.

    `kbforge.kb.view` reads the same rows, and makes tables in memory of them.

    Args:
        guard_formulas: put an apostrophe before a cell that a spreadsheet would evaluate as a
            formula (it begins with =, +, - or @, also full-width, and is neither a number nor a
            phone number). Set it to false for programs that want the values unchanged.
        table: name of the table, or SCHEMA.NAME, in a database.
        replace: replace a table in the database that has another format.

    """

    guard_formulas: bool = True
    table: str = ""
    replace: bool = False

    def export(self, view: View, target: str) -> None:
        """Write a header and the rows; a UsageError if the extension is of another format."""
        ending = "" if target == "-" else ending_of(target)
        if is_address(target) or self.table:
            self._export_to_database(view, target)
        elif ending in _PARQUET:
            self._export_parquet(view, target)
        elif ending in XlsxExporter.endings:
            require_openpyxl()
            with _workbook(target, "table") as (sheet,):
                plain = replace(self, guard_formulas=False)
                plain._write(view, sheet.append)
            self.n_rows, self.notes = plain.n_rows, plain.notes
        elif ending in CsvExporter.endings or plugin_of("exporters", target) is None:
            with open_output(target) as out, csv_writer(out) as writer:
                self._write(view, writer.writerow)
        else:
            raise UsageError(
                f"-o {quoted(target, 400)}: a table is written as .csv, .parquet or .xlsx, got the "
                f"extension {quoted(ending, 40)}"
            )

    def _write(self, view: View, write: Callable[[Sequence[Cell]], object]) -> None:
        rows, self.n_rows = self.rows(view), -1
        for row in rows:
            write(row)
            self.n_rows += 1

    def _export_to_database(self, view: View, target: str) -> None:
        if not self.table or not is_address(target):
            raise UsageError(
                f"expected the address of a database and the name of a table, as in "
                f"{option('output', 'postgresql://host/db')} {option('table', 'golden')}"
            )
        schema, batches = self._arrow(view)
        with connected(target, write=True) as database:
            database.write(self.table, schema, batches, self.replace)

    def _export_parquet(self, view: View, target: str) -> None:
        import pyarrow as pa
        import pyarrow.parquet as pq

        schema, batches = self._arrow(view)
        with open_output(target) as out, pq.ParquetWriter(pa.PythonFile(out), schema) as writer:
            for batch in batches:
                writer.write_batch(batch)

    def _arrow(self, view: View) -> tuple[pa.Schema, Iterator[pa.RecordBatch]]:
        """The columns, and the rows as a stream, which counts them."""
        import pyarrow as pa

        plain = replace(self, guard_formulas=False)
        rows, self.n_rows = plain.rows(view), 0
        names, first = next(rows), list(islice(rows, _BATCH))
        numbers = {int: pa.int64(), float: pa.float64()}
        cells = first[0] if first else [_NUMBERS.get(str(name)) for name in names]
        kinds = [
            # the only number that may be missing in the first row and not in a later one
            numbers[float] if name == "reported" else numbers.get(type(cell), pa.string())
            for name, cell in zip(names, cells, strict=True)
        ]
        schema = pa.schema(zip(map(str, names), kinds, strict=True))

        def batches() -> Iterator[pa.RecordBatch]:
            batch = first
            while batch:
                columns = zip(zip(*batch, strict=True), kinds, strict=True)
                arrays = [pa.array(cells, kind) for cells, kind in columns]
                yield pa.record_batch(arrays, schema)
                self.n_rows = (self.n_rows or 0) + len(batch)
                batch = list(islice(rows, _BATCH))
            self.notes = plain.notes

        return schema, batches()

    @abstractmethod
    def rows(self, view: View) -> Iterator[Sequence[Cell]]:
        """The header, then the rows; None is an empty cell."""

    def safe(self, cell: str) -> str:
        """The cell as it is written."""
        return safe(cell) if self.guard_formulas else cell


@dataclass
class JoiningExporter(Exporter):
    """An exporter of cells with several fragments or values.

    Args:
        separator: one character between those of a cell; within one a backslash escapes it and
            itself.

    Raises:
        UsageError: a separator that is not one character, or that is the backslash.

    """

    separator: str = "|"

    def __post_init__(self) -> None:
        if len(self.separator) != 1 or self.separator == "\\":
            name = type(self).__name__.removesuffix("Exporter").lower()
            raise UsageError(f"exporter {name}: separator must be one character, not a backslash")


@dataclass
class CsvExporter(JoiningExporter, TableExporter):
    """One row per value, for joins and for spreadsheets."""

    endings: ClassVar = (".csv",)

    def rows(self, view: View) -> Iterator[Sequence[Cell]]:
        yield VALUE_COLUMNS
        for entity in view.entities():
            for attribute, values in entity.properties.items():
                for value in values:
                    cell = self.safe(value.value)
                    yield self._row(entity, attribute, cell, value.fragments)
            if entity.vector is not None or not entity.properties:
                yield self._row(entity, "", numbers(entity.vector), entity.fragments)

    def _row(
        self, entity: Entity, attribute: str, value: str, fragments: tuple[str, ...]
    ) -> list[Cell]:
        return [
            self.safe(entity.id),
            self.safe(entity.name),
            self.safe(attribute),
            value,
            len(fragments),
            self.safe(joined(fragments, self.separator)),
            entity.confidence,
            entity.subproblem,
            entity.reported,
        ]


class MembersExporter(TableExporter):
    """One row per fragment, with its entity."""

    def rows(self, view: View) -> Iterator[Sequence[Cell]]:
        yield MEMBER_COLUMNS
        for entity in view.entities():
            names = (self.safe(entity.id), self.safe(entity.name))
            for fragment in entity.fragments:
                yield (self.safe(fragment), *names, entity.confidence, entity.reported)


@dataclass
class PairsExporter(TableExporter):
    """One row per pair of fragments that are probably one entity.

    Args:
        threshold: export pairs that are more probable than this, from 0 to below 1.

    Raises:
        UsageError: the threshold is not a probability below 1.

    """

    threshold: float = 0.5

    def __post_init__(self) -> None:
        if not 0 <= self.threshold < 1:
            raise UsageError(
                "exporter pairs: threshold: expected a number from 0 to below 1, "
                f"got {self.threshold:g}"
            )

    def rows(self, view: View) -> Iterator[Sequence[Cell]]:
        yield PAIR_COLUMNS
        # a pair of two entities is known to both, and each may have dropped what the other has
        try:
            with contextlib.closing(sqlite3.connect("")) as waiting:
                waiting.execute("CREATE TABLE pair (one, other, probability, rest)")
                for count, cells in enumerate(self._inside(view, waiting)):
                    yield cells
                    if count == _MOST_PAIRS:
                        raise KBForgeError(
                            f"exporter pairs: expected at most {_MOST_PAIRS:,} pairs, got more; "
                            "kbforge export --format members writes one row per fragment"
                        )
                yield from self._across(waiting)
        except sqlite3.OperationalError as error:
            raise KBForgeError(
                f"exporter pairs: cannot write the pairs to a temporary file: {error}"
            ) from error

    def _inside(self, view: View, waiting: sqlite3.Connection) -> Iterator[list[Cell]]:
        for entity in view.entities():
            groupings = Groupings(entity)
            for one, other, probability, inside in groupings.pairs(self.threshold):
                if inside:
                    ids = (self.safe(one), self.safe(other))
                    of = self.safe(entity.id)
                    yield [*ids, probability, groupings.rest, of]
                else:
                    row = (*sorted((one, other)), probability, groupings.rest)
                    waiting.execute("INSERT INTO pair VALUES (?, ?, ?, ?)", row)

    def _across(self, waiting: sqlite3.Connection) -> Iterator[list[Cell]]:
        """Each pair once, with the tightest bounds: the larger lower and the smaller upper
        bound."""
        found = waiting.execute(
            "SELECT one, other, max(probability), min(probability + rest) - max(probability) "
            "FROM pair GROUP BY one, other ORDER BY one, other"
        )
        for one, other, probability, rest in found:
            least = max(round(rest, 9), 0.0)
            yield [self.safe(one), self.safe(other), probability, least, None]


@dataclass
class RelationsExporter(JoiningExporter, TableExporter):
    """One row per relation between two entities."""

    def rows(self, view: View) -> Iterator[Sequence[Cell]]:
        yield RELATION_COLUMNS
        with edge_table(view.entities()) as table:
            nothing = "no value names an entity; kbforge cluster --refers ATTRIBUTE says which do"
            self.notes = table.notes() or ([] if len(table) else [nothing])
            for head, edge, tail in table.named():
                ends = (edge.head, head, edge.relation, edge.tail, tail)
                lists = (
                    joined(texts, self.separator) for texts in (edge.fragments, edge.spellings)
                )
                numbers = (edge.probability, len(edge.fragments))
                yield (*map(self.safe, ends), *numbers, *map(self.safe, lists))


@dataclass
class ContradictionsExporter(JoiningExporter, TableExporter):
    """One row per value in question, with its probability and who states it."""

    def rows(self, view: View) -> Iterator[Sequence[Cell]]:
        yield CONTRADICTION_COLUMNS
        self.notes = ["no value is in question"]
        for entity in view.entities():
            of: dict[str, str | None] = {}
            for attribute, values in entity.properties.items():
                asked = [value for value in values if value.confidence is not None]
                if asked and not of and view.knows_fragments:
                    of = {fragment.id: fragment.source for fragment in view.fragments(entity)}
                if asked:
                    self.notes = [] if view.knows_fragments else [_NO_SOURCES]
                for value in sorted(asked, key=lambda value: -(value.confidence or 0.0)):
                    sources = sorted(
                        {of.get(fragment) or "" for fragment in value.fragments} - {""}
                    )
                    texts = (entity.id, entity.name, attribute, value.value)
                    lists = (joined(ids, self.separator) for ids in (value.fragments, sources))
                    numbers = (value.confidence, value.count)
                    by = value.by and self.safe(value.by)
                    yield (*map(self.safe, texts), *numbers, *map(self.safe, lists), by)


@dataclass
class WideExporter(JoiningExporter, TableExporter):
    """One row per entity, one column per attribute."""

    endings: ClassVar = ("postgresql://", "postgres://", "duckdb://", "sqlite://")

    def rows(self, view: View) -> Iterator[Sequence[Cell]]:
        with tempfile.TemporaryFile() as waiting:
            yield from wide_rows(view.entities(), self.separator, self.safe, waiting)


def wide_rows(
    entities: Iterable[Entity], separator: str, safe: Callable[[str], str], waiting: IO[bytes]
) -> Iterator[Sequence[Cell]]:
    """A header and a row per entity; a KBForgeError if a spreadsheet has too few columns.

    `safe` is applied to each cell; rows wait in `waiting` for the attributes of the last entity.
    """
    rows, vectors = WaitingRows(waiting), False
    for entity in entities:
        vector = numbers(entity.vector) or None
        about = (entity.confidence, entity.reported, len(entity.fragments), vector)
        first: list[Cell] = [safe(entity.id), safe(entity.name), *about]
        cells = {
            attribute: safe(joined([value.value for value in values], separator))
            for attribute, values in entity.properties.items()
        }
        rows.add(first, cells)
        vectors = vectors or vector is not None
        if len(ENTITY_COLUMNS) + len(rows.columns) + vectors > _MOST_COLUMNS:
            raise KBForgeError(
                f"expected at most {_MOST_COLUMNS:,} columns, got more attributes; "
                "kbforge export --format csv writes one row per value"
            )
    named = map(safe, [*rows.attributes(), *["vector"] * vectors])
    yield [*ENTITY_COLUMNS, *distinct(named, ENTITY_COLUMNS, "~")]
    for (*first, vector), found in rows.read():
        yield [*first, *found, vector] if vectors else [*first, *found]


class WaitingRows:
    """Rows that wait in an empty file until the last one has added its attributes to `columns`."""

    def __init__(self, file: IO[bytes]) -> None:
        self._file = file
        self._order = AttributeOrder()
        self.columns: dict[str, int] = {}

    def add(self, first: Sequence[Cell], cells: Mapping[str, str]) -> None:
        """Add a row: its first cells, and others by attribute, in the order of the file."""
        self._order.add(cells)
        places = self.columns
        held = [(places.setdefault(key, len(places)), cell) for key, cell in cells.items()]
        self._file.write(orjson.dumps([first, held], option=orjson.OPT_APPEND_NEWLINE))

    def attributes(self) -> list[str]:
        """The attributes of all rows, in the order of the file."""
        return self._order.merged()

    def read(self) -> Iterator[tuple[list[Any], list[str | None]]]:
        """The first cells of each row, and those of `attributes`; None where it has none."""
        order = [self.columns[attribute] for attribute in self.attributes()]
        self._file.seek(0)
        for line in self._file:
            first, held = orjson.loads(line)
            found = dict(held)
            yield first, [found.get(place) for place in order]


def distinct(names: Iterable[str], taken: Iterable[str], mark: str) -> list[str]:
    """Distinct names: a repeated name gets a mark and a number."""
    found = dict.fromkeys(taken)
    n_taken = len(found)
    for name in names:
        new, number_of = name, 1
        while new in found:
            number_of += 1
            new = f"{name}{mark}{number_of}"
        found[new] = None
    return list(found)[n_taken:]


def joined(texts: Iterable[str], separator: str) -> str:
    """Several texts in one cell; within one, a backslash escapes the separator and itself."""
    return separator.join(
        text.replace("\\", "\\\\").replace(separator, f"\\{separator}") for text in texts
    )


def numbers(vector: Sequence[float] | None) -> str:
    """A vector's cell: numbers separated by spaces; empty for none."""
    return " ".join(map(repr, vector or ()))


OF_FRAGMENT = ("fragment", "entity_id", "entity_name", "source", "row")
_MOST_ROWS = 1_048_576
_MOST_CHARACTERS = 32_767
"""Maximum length of a cell, in UTF-16 units, and number of its lines; Excel refuses more."""
_BEGINNING = datetime(2000, 1, 1)
_ESCAPED = re.compile("_(?=x[0-9A-Fa-f]{4}_)|[\x01-\x08\x0b-\x1f\ufffe\uffff]")
_MODIFIED = re.compile(rb"(<dcterms:modified[^>]*>)[^<]*")


@dataclass
class XlsxExporter(JoiningExporter):
    """A spreadsheet: one row per entity, and a second sheet with the fragments.

    Raises a KBForgeError if openpyxl is not installed.
    """

    endings: ClassVar = (".xlsx",)

    def __post_init__(self) -> None:
        require_openpyxl()
        super().__post_init__()

    def export(self, view: View, target: str) -> None:
        with (
            _workbook(target, "entities", "fragments") as (entities, fragments),
            tempfile.TemporaryFile() as waiting,
        ):
            fragments.append(OF_FRAGMENT)
            told = _with_fragments(view, fragments)
            for row in wide_rows(told, self.separator, str, waiting):
                entities.append(row)


@contextlib.contextmanager
def _workbook(target: str, *names: str) -> Iterator[list[_Sheet]]:
    """The sheets of a spreadsheet, which is written at the end."""
    from openpyxl import Workbook
    from openpyxl.writer.excel import ExcelWriter

    with open_output(target) as out, tempfile.TemporaryFile() as whole:
        book = Workbook(write_only=True)
        book.properties.created = _BEGINNING
        sheets = [_Sheet(book, name) for name in names]
        with contextlib.ExitStack() as opened:
            for sheet in sheets:
                opened.enter_context(contextlib.closing(sheet))
            yield sheets
            with _Archive(whole, "w", zipfile.ZIP_DEFLATED) as archive:
                ExcelWriter(book, archive).save()
        whole.seek(0)
        shutil.copyfileobj(whole, out)


def _with_fragments(view: View, sheet: _Sheet) -> Iterator[Entity]:
    """The entities; iterating also writes their fragments to the other sheet."""
    for entity in view.entities():
        for fragment in view.fragments(entity):
            sheet.append((fragment.id, entity.id, entity.name, fragment.source, fragment.row))
        yield entity


class _Sheet:
    """A sheet that is written row by row."""

    def __init__(self, book: Any, name: str) -> None:
        self._sheet, self._name, self.rows = book.create_sheet(name), name, 0

    def append(self, row: Any) -> None:
        """Write the next row; a KBForgeError if the sheet is full, or a cell too long."""
        if self.rows == _MOST_ROWS:
            raise KBForgeError(
                f"a spreadsheet has at most {_MOST_ROWS:,} rows, and the sheet {self._name} needs "
                "more; kbforge export -o FILE.csv has no such limit"
            )
        self._sheet.append([self._text(c) if isinstance(c, str) else c for c in row])
        self.rows += 1

    def close(self) -> None:
        """Delete the file, whether it was saved or not."""
        if not self._sheet.closed:
            self._sheet.close()
            self._sheet._writer.cleanup()

    def _text(self, text: str) -> Any:
        from openpyxl.cell import WriteOnlyCell

        written = _ESCAPED.sub(lambda c: f"_x{ord(c[0]):04X}_", text.replace("\0", "\ufffd"))
        if len(written) * 2 > _MOST_CHARACTERS and (
            len(written.encode("utf-16-le")) > 2 * _MOST_CHARACTERS
        ):
            raise KBForgeError(
                f"a cell of a spreadsheet has at most {_MOST_CHARACTERS:,} characters, and row "
                f"{self.rows + 1:,} of the sheet {self._name} needs more for "
                f"{quoted(text, 40)}; kbforge export --format wide -o FILE.csv has no such limit"
            )
        cell = WriteOnlyCell(self._sheet, written)
        cell.data_type = "s"  # whatever it looks like: a formula, or an error such as #N/A
        if safe(text) != text:
            cell.quotePrefix = True
        return cell


class _Archive(zipfile.ZipFile):
    """A zip file without times."""

    def writestr(self, zinfo_or_arcname: Any, data: Any, *args: Any, **named: Any) -> None:
        content = data.encode() if isinstance(data, str) else data
        if zinfo_or_arcname == "docProps/core.xml":
            content = _MODIFIED.sub(rb"\g<1>2000-01-01T00:00:00Z", content)
        with self.open(self._entry(zinfo_or_arcname), "w") as entry:
            entry.write(content)

    def write(self, filename: Any, arcname: Any = None, *args: Any, **named: Any) -> None:
        with (
            open(filename, "rb") as file,
            self.open(self._entry(arcname), "w", force_zip64=True) as entry,
        ):
            shutil.copyfileobj(file, entry, 1 << 20)

    @staticmethod
    def _entry(name: str) -> zipfile.ZipInfo:
        info = zipfile.ZipInfo(name, (1980, 1, 1, 0, 0, 0))
        info.compress_type = zipfile.ZIP_DEFLATED
        return info
