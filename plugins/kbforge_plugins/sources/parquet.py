"""The parquet source: columnar tables, read lazily in batches of rows."""

from __future__ import annotations

import contextlib
import shutil
import tempfile
from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any, ClassVar

from kbforge.contracts.fragment import Fragment
from kbforge.contracts.source import OnBad, Source
from kbforge.errors import BadRecord, KBForgeError, quoted
from kbforge.files.io import called, open_input
from kbforge.files.kinds import require_readable_as
from kbforge_plugins.sources.rows import (
    NULL,
    RowMapping,
    RowReader,
    TableName,
    TableNames,
    row_json,
)

_BATCH_ROWS = 1024


class ParquetSource(Source):
    """Parquet files. A list column gives several values, or several numbers of the vector.

    The format is read from its end, so standard input is first copied to a temporary file.

    Args:
        id: column of the fragment's id; without it ids are minted: file name and row number.
        label: column of the gold entity.
        name: column that becomes the attribute `name`.
        map: `column=attribute` pairs; an empty attribute leaves the column out. Every other
            column is an attribute of its own name.
        vector: columns of numbers that make up the fragment's vector.
        separator: splits a text cell into several values.
        null: texts that mean a missing value, with commas between; none at all if empty. By
            default what most programs write: unknown, none, null, nan, n/a, undefined, ? - -- in
            their usual spellings (NA and Nan are names too, and not among them).
        prefix: put the file's name before the ids of a column: for files that number alike.
        serial_dates: columns where a whole number of five digits (10000 is 18 May 1927) is a
            spreadsheet's date.

    """

    endings: ClassVar = (".parquet", ".pq")

    def __init__(
        self,
        id: str | None = None,
        label: str | None = None,
        name: str | None = None,
        map: list[str] | None = None,
        vector: list[str] | None = None,
        separator: str | None = None,
        null: tuple[str, ...] = NULL,
        prefix: bool = False,
        serial_dates: list[str] | None = None,
    ) -> None:
        self._mapping = RowMapping(
            id, label, name, map or (), vector or (), separator, null, prefix, serial_dates or ()
        )
        self.where = ""
        self.counts: Counter[str] = Counter()

    def read(self, inputs: Sequence[str], on_bad: OnBad) -> Iterator[Fragment]:
        """Yield one fragment a row."""
        self.counts.clear()
        tables = TableNames()
        for path in inputs:
            yield from self._read_file(path, tables.at(path), on_bad)

    def _read_file(self, path: str, called_as: TableName, on_bad: OnBad) -> Iterator[Fragment]:
        import pyarrow as pa
        import pyarrow.parquet as pq

        with seekable(path) as file:
            try:
                table = pq.ParquetFile(file)
                columns = table.schema_arrow.names
            except UnicodeDecodeError as error:
                got = f"a name with the byte 0x{error.object[error.start]:02x}"
                raise BadRecord(called(path), "column names in UTF-8", got) from error
            except (pa.ArrowException, OSError) as error:
                got = f"something else ({_brief(error)})"
                require_readable_as(path, "a Parquet file", "parquet")
                raise BadRecord(called(path), "a Parquet file", got) from error
            reader = self._mapping.over(columns, called(path), self.counts)
            first = 1
            for group in range(table.num_row_groups):
                for number, cells in _numbered_rows(table, group, first, called(path), on_bad):
                    fragment = self._fragment(reader, cells, called_as, number, path, on_bad)
                    if fragment is not None:
                        yield fragment
                first += table.metadata.row_group(group).num_rows

    def _fragment(
        self,
        reader: RowReader,
        cells: Sequence[object],
        table: TableName,
        number: int,
        path: str,
        on_bad: OnBad,
    ) -> Fragment | None:
        self.where = f"{called(path)}:{number}"
        try:
            _require_values(reader, cells, self.where)
            return reader.fragment(cells, table, number, self.where)
        except BadRecord as error:
            on_bad(error, row_json(reader.columns, cells))
            return None


@contextlib.contextmanager
def seekable(path: str) -> Iterator[Any]:
    """The file open for reading at any place."""
    if path != "-":
        try:
            with open(path, "rb") as file:
                yield file
        except OSError as error:
            reason = (error.strerror or str(error)).lower()
            raise KBForgeError(f"cannot read {quoted(path, 400)}: {reason}") from error
        return
    with tempfile.TemporaryFile() as copy, open_input(path) as stream:
        shutil.copyfileobj(stream, copy, 1 << 20)
        copy.seek(0)
        yield copy


def _numbered_rows(
    table: Any, group: int, first: int, name: str, on_bad: OnBad
) -> Iterator[tuple[int, list[object]]]:
    """(row number, cells) of one row group; damage costs the rest of the group, not of the file."""
    import pyarrow as pa

    last = first + table.metadata.row_group(group).num_rows - 1
    batches = table.iter_batches(batch_size=_BATCH_ROWS, row_groups=[group])
    number = first
    while True:
        try:
            batch = next(batches, None)
        except (pa.ArrowException, OSError) as error:
            got = f"damage up to row {last} ({_brief(error)})"
            on_bad(BadRecord(f"{name}:{number}", "readable rows", got), b"")
            return
        if batch is None:
            return
        for cells in _rows(batch):
            yield number, cells
            number += 1


def _rows(batch: Any) -> Iterator[list[object]]:
    """The rows of a record batch as Python values.

    Parquet does not check its strings: one that is not UTF-8 arrives as bytes, which no attribute
    takes, so that it spoils its own row and not the batch. So does a date that Python has none of.
    """
    try:
        columns = [column.to_pylist() for column in batch.columns]
    except (ValueError, OverflowError):  # a UnicodeDecodeError is a ValueError
        columns = [
            [_cell(column, row) for row in range(batch.num_rows)] for column in batch.columns
        ]
    for row in range(batch.num_rows):
        yield [column[row] for column in columns]


def _cell(column: Any, row: int) -> object:
    try:
        return column[row].as_py()
    except UnicodeDecodeError as error:
        return bytes(error.object)
    except (ValueError, OverflowError):
        return _UnreadableValue(f"the {column.type} {getattr(column[row], 'value', 'there')}")


@dataclass(frozen=True, slots=True)
class _UnreadableValue:
    """A value that Python cannot hold, such as a timestamp of the year 146,138,514,283."""

    said: str


def _require_values(reader: RowReader, cells: Sequence[object], where: str) -> None:
    used = {reader.id, reader.label, *reader.vector, *(index for index, _ in reader.attributes)}
    for index, cell in enumerate(cells):
        if isinstance(cell, _UnreadableValue) and index in used:
            expected = "a date from year 1 to 9999, or any other value"
            raise BadRecord(where, expected, quoted(cell.said), reader.columns[index])


def _brief(error: Exception) -> str:
    return quoted(str(error).splitlines()[0] if str(error) else type(error).__name__, 160)
