"""The parquet source: columnar tables, read in batches of rows.

A small file may decompress to gigabytes: as one long text, as one long list of equal values, or as
a text that a million rows share. The first two are refused, based on the file's column metadata; a
shared text is stored once, because columns of such texts stay dictionaries.
"""

from __future__ import annotations

import contextlib
import shutil
import tempfile
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, ClassVar

from kbforge.contracts import Fragment, OnBad
from kbforge.errors import BadRecord, KBForgeError, counted, quoted
from kbforge.files.io import called, open_input
from kbforge.files.kinds import require_readable_as
from kbforge_plugins.sources.rows import TableName, TableSource, UnreadableValue, texts_of

if TYPE_CHECKING:
    from kbforge.files.lines import ColumnReader

_BATCH_ROWS = 256
_BATCH_OF_TEXTS = 1024
_FEW = 64  # rows that Python reads where the kernel is in doubt about one
_BATCH_VALUES = 1 << 20  # of one column
_MOST_BYTES = 1 << 26  # of the texts of a column in a row group, if they are dense
_MOST_VALUES = 1 << 22  # that a column has beside one a row in a row group, if they are dense
_LENGTH = 4  # bytes before each text that is not in a dictionary
_MOST_TIMES = 200  # bytes or values for each packed byte are dense


@dataclass(eq=False)
class ParquetSource(TableSource):
    """Parquet files. A list column gives several values, or several numbers of the vector.

    The format is read from its end, so standard input is first copied to a temporary file.
    """

    endings: ClassVar = (".parquet", ".pq")
    finds_ids: ClassVar = True

    def read_table(self, path: str, table: TableName, on_bad: OnBad) -> Iterator[Fragment]:
        with _opened(path) as parquet:
            columns = list(parquet.schema_arrow.names)
            reader = self.reader(columns, called(path), table)
            self.taken.append("")
            number = 0
            rows = _all_rows(parquet, called(path), on_bad)
            plain = _has_only_texts(parquet.schema_arrow, self.separator)
            if by_kernel := self.into is not None and plain and reader.plan(self.into):
                batches = parquet.iter_batches(batch_size=_BATCH_OF_TEXTS)
                rows = rows_left(batches, self.into, self.separator)
            for number, cells in rows:
                where = f"{called(path)}:{number}"
                yield from self.read_row(reader, cells, number, where, on_bad)
            if by_kernel:
                number = parquet.metadata.num_rows
                reader.account_for(self.into)
            about = f"{quoted(called(path), 400)}: {counted(number, 'row')}"
            self.taken[-1] = f"{about}, {self.summary(columns)}"


@contextlib.contextmanager
def rows_of(
    path: str, on_bad: OnBad
) -> Iterator[tuple[list[str], Iterator[tuple[int, list[object]]]]]:
    """The columns of a Parquet file, and (row number from 1, cells) of each row.

    Damage loses the rest of its row group, and is passed to `on_bad`. BadRecord: it is not a
    Parquet file.
    """
    with _opened(path) as parquet:
        yield list(parquet.schema_arrow.names), _all_rows(parquet, called(path), on_bad)


@contextlib.contextmanager
def _opened(path: str) -> Iterator[Any]:
    """A Parquet file that is not far larger than it looks; BadRecord: it is none, or is so."""
    import pyarrow as pa
    import pyarrow.parquet as pq

    with seekable(path) as file:
        try:
            parquet = pq.ParquetFile(file, read_dictionary=_shared_texts(pq.read_metadata(file)))
            list(parquet.schema_arrow.names)
        except UnicodeDecodeError as error:
            got = f"a name with the byte 0x{error.object[error.start]:02x}"
            raise BadRecord(called(path), "column names in UTF-8", got) from error
        except (pa.ArrowException, OSError) as error:
            got = f"something else ({_brief(error)})"
            require_readable_as(path, "a Parquet file", "parquet")
            raise BadRecord(called(path), "a Parquet file", got) from error
        _require_bounded(parquet.metadata, called(path))
        yield parquet


def _shared_texts(metadata: Any) -> list[str]:
    """The text columns, outside lists, that take fewer bytes than the sum of their texts'
    lengths."""
    groups = [metadata.row_group(group) for group in range(metadata.num_row_groups)]
    out = []
    for place in range(metadata.num_columns):
        stated = metadata.schema.column(place)
        if stated.physical_type != "BYTE_ARRAY" or stated.max_repetition_level:
            continue
        if stated.logical_type.type not in ("STRING", "NONE"):
            continue
        columns = [group.column(place) for group in groups]
        values = sum(column.num_values for column in columns)
        if sum(column.total_uncompressed_size for column in columns) < _LENGTH * values:
            out.append(stated.path)
    return out


def _require_bounded(metadata: Any, name: str) -> None:
    """Refuse a table with a column that decompresses to far more than its compressed size."""
    for group in map(metadata.row_group, range(metadata.num_row_groups)):
        for column in map(group.column, range(group.num_columns)):
            packed, size, values = (
                column.total_compressed_size,
                column.total_uncompressed_size,
                column.num_values,
            )
            dense = size > _MOST_BYTES and size > _MOST_TIMES * packed
            listed = values - group.num_rows > _MOST_VALUES and values > _MOST_TIMES * packed
            if dense or listed:
                what = "bytes" if dense else "values"
                expected = f"a table with at most {_MOST_TIMES} {what} for each compressed byte"
                where = f'{name}: column "{quoted(column.path_in_schema, 40)}"'
                raise BadRecord(where, expected, f"{size if dense else values:,} for {packed:,}")


def _all_rows(parquet: Any, name: str, on_bad: OnBad) -> Iterator[tuple[int, list[object]]]:
    first = 1
    for group in range(parquet.num_row_groups):
        yield from _numbered_rows(parquet, group, first, name, on_bad)
        first += parquet.metadata.row_group(group).num_rows


@contextlib.contextmanager
def seekable(path: str) -> Iterator[Any]:
    """The file, open for random access."""
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
    """(row number, cells) of one row group; damage loses the rest of the group, not of the file."""
    import pyarrow as pa

    described = table.metadata.row_group(group)
    last = first + described.num_rows - 1
    values = max((described.column(i).num_values for i in range(described.num_columns)), default=0)
    size = max(1, min(_BATCH_ROWS, _BATCH_VALUES * described.num_rows // max(values, 1)))
    batches = table.iter_batches(batch_size=size, row_groups=[group])
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


def _has_only_texts(schema: Any, separator: str | None) -> bool:
    """Whether all columns have texts, or other values of which `_as_texts` makes some."""
    import pyarrow.types as kinds

    def has_texts(kind: Any) -> bool:
        if kinds.is_dictionary(kind):
            kind = kind.value_type if kinds.is_int32(kind.index_type) else None
        return kind is not None and (kinds.is_string(kind) or kinds.is_large_string(kind))

    if separator:  # which divides texts, and nothing else
        return all(map(has_texts, schema.types))
    return all(has_texts(kind) or kinds.is_primitive(kind) for kind in schema.types)


def rows_left(
    batches: Iterable[Any], into: ColumnReader | None, separator: str | None
) -> Iterator[tuple[int, list[object]]]:
    """(row number, cells) of the rows of record batches that a reader of columns does not take."""
    import pyarrow as pa

    before = 0
    try:
        for batch in batches:
            is_plain = into is not None and _has_only_texts(batch.schema, separator)
            texts, begin = _as_texts(batch) if is_plain else None, 0
            while begin < batch.num_rows:
                if into is not None and texts is not None:
                    begin += into.take_batch(texts, begin, before + begin)
                for cells in _rows(batch.slice(begin, _FEW)):
                    begin += 1
                    yield before + begin, cells
            before += batch.num_rows
    except (pa.ArrowException, OSError) as error:
        raise KBForgeError(_brief(error)) from error


def _as_texts(batch: Any) -> Any:
    """A batch whose values are the texts that `texts_of` makes of them; None if it makes none."""
    import pyarrow as pa

    columns = []
    for column in batch.columns:
        if pa.types.is_integer(column.type):
            column = column.cast(pa.string())
        elif pa.types.is_primitive(column.type):
            used = column.dictionary_encode()
            try:
                texts = [next(texts_of(x, None, "", ""), None) for x in used.dictionary.to_pylist()]
            except (KBForgeError, ValueError, OverflowError):
                return None
            column = pa.DictionaryArray.from_arrays(used.indices, pa.array(texts, pa.string()))
        columns.append(column)
    return pa.RecordBatch.from_arrays(columns, list(batch.schema.names))


def _rows(batch: Any) -> Iterator[list[object]]:
    """The rows of a record batch as Python values.

    A string that is not UTF-8, which Parquet does not check, becomes bytes and affects only its
    row; so does a date that Python cannot represent.
    """
    try:
        columns = [_values(column) for column in batch.columns]
    except (ValueError, OverflowError):  # a UnicodeDecodeError is a ValueError
        columns = [
            [_cell(column, row) for row in range(batch.num_rows)] for column in batch.columns
        ]
    for row in range(batch.num_rows):
        yield [column[row] for column in columns]


def _values(column: Any) -> list[object]:
    """The values of a column; equal texts of a dictionary are one string."""
    import pyarrow as pa

    if not isinstance(column, pa.DictionaryArray):
        return list(column.to_pylist())
    used = column.indices.dictionary_encode()
    texts = column.dictionary.take(used.dictionary).to_pylist()
    return [None if place is None else texts[place] for place in used.indices.to_pylist()]


def _cell(column: Any, row: int) -> object:
    try:
        return column[row].as_py()
    except UnicodeDecodeError as error:
        return bytes(error.object)
    except (ValueError, OverflowError):
        return UnreadableValue(f"the {column.type} {getattr(column[row], 'value', 'there')}")


def _brief(error: Exception) -> str:
    return quoted(str(error).splitlines()[0] if str(error) else type(error).__name__, 160)
