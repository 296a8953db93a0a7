"""Tables in memory: reads and writes any table that supports Arrow.

A table supports Arrow if it has `__arrow_c_stream__`: a data frame of pandas or polars, a table of
PyArrow, a relation of DuckDB, and many more. KBForge reads and makes such tables with arro3, which
is small; it imports none of the libraries that the tables come from.

pandas needs PyArrow for this interface, and cannot convert columns of mixed types. Its frames are
then read row by row.
"""

from __future__ import annotations

import datetime
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any, Protocol, TypeAlias

from kbforge.contracts.entity import table_html
from kbforge.errors import BadRecord, KBForgeError, UsageError, counted, listed, quoted

Cell: TypeAlias = str | int | float | None

_BATCH_ROWS = 16_384  # Python values of so many rows are held at a time
_SHOWN_ROWS = 10
_INDEX = "__index_level_"  # what pandas calls an index without a name
_AS_THEY_ARE = (str, int, float, bool, type(None))
_MISSING = ("NaTType", "NAType")  # of pandas


class ArrowStream(Protocol):
    """A table with the Arrow interface."""

    def __arrow_c_stream__(self, requested_schema: object = None) -> object:
        """A capsule with the table as a stream of batches."""
        ...


def is_frame(table: object) -> bool:
    """Whether an object has the Arrow interface of tables."""
    return hasattr(table, "__arrow_c_stream__") and not isinstance(table, type)


def frame_rows(table: Any, name: str) -> tuple[list[str], Iterator[Sequence[object]]]:
    """The columns of a table, and its rows as Python values.

    Raises:
        UsageError: a column without a table, such as a Series.
        KBForgeError: the library of the table failed.
        BadRecord: while reading, for a date that Python cannot represent.

    """
    from arro3.core import RecordBatchReader

    is_pandas = hasattr(table, "itertuples")
    if is_pandas and any(level is not None for level in table.index.names):
        table = table.reset_index()  # Arrow leaves out some of them
    try:
        reader = RecordBatchReader.from_arrow(table)
        columns = list(reader.schema.names)
    except Exception as error:  # each library has errors of its own
        if is_pandas:
            return _pandas_rows(table)
        if hasattr(table, "to_frame") or hasattr(table, "chunks"):
            got = type(table).__name__
            raise UsageError(
                f"{name}: expected a data frame, got one column, of the type {got}; "
                'DataFrame({"name": column}) makes a data frame of it'
            ) from error
        raise KBForgeError(f"{name}: cannot read the table: {quoted(str(error), 400)}") from error
    kept = [i for i, column in enumerate(columns) if not column.startswith(_INDEX)]
    return [columns[i] for i in kept], _arrow_rows(reader, kept, name)


def dict_rows(
    rows: Sequence[Mapping[str, object]], name: str
) -> tuple[list[str], Iterator[Sequence[object]]]:
    """The columns of dictionaries, in the order in which they appear, and their rows.

    Raises:
        UsageError: a row that is not a dictionary, or a key that is not text.

    """
    columns: dict[str, None] = {}
    for number, row in enumerate(rows, 1):
        if not isinstance(row, Mapping):
            raise UsageError(f"{name}:{number}: expected a dictionary, got {quoted(row)}")
        columns.update(dict.fromkeys(row))
    for column in columns:
        if not isinstance(column, str):
            raise UsageError(f"{name}: expected text as the name of a column, got {quoted(column)}")
    return list(columns), ([_plain(row.get(c)) for c in columns] for row in rows)


def _arrow_rows(reader: Any, kept: Sequence[int], name: str) -> Iterator[Sequence[object]]:
    first = 1
    while True:
        try:
            batch = next(reader, None)
        except Exception as error:  # a lazy table computes its rows now
            raise KBForgeError(f"{name}: cannot read row {first}: {quoted(error, 400)}") from error
        if batch is None:
            return
        for start in range(0, batch.num_rows, _BATCH_ROWS):
            part = batch.slice(start, min(_BATCH_ROWS, batch.num_rows - start))
            if not kept:
                break
            yield from zip(*(_values(part, i, f"{name}:{first}") for i in kept), strict=True)
            first += part.num_rows


def _values(batch: Any, index: int, where: str) -> list[Any]:
    """A column of a batch as Python values; `where` is its first row."""
    from arro3.core import DataType

    column, field = batch.column(index), batch.schema.field(index)
    try:
        values: list[Any] = column.to_pylist()
    except (ValueError, OverflowError) as error:
        name, _, first = where.rpartition(":")
        _require_dates(column, field.name, name, int(first))
        raise BadRecord(where, "readable values", quoted(error, 160), field.name) from error
    if DataType.is_timestamp(field.type):
        return [_date(value) for value in values]
    if DataType.is_float32(field.type):  # .1, and not the .10000000149 that a double makes of it
        import numpy as np

        return [None if v is None else float(str(np.float32(v))) for v in values]
    return values


def _require_dates(column: Any, field: str, name: str, first: int) -> None:
    for number in range(len(column)):
        try:
            column[number].as_py()
        except (ValueError, OverflowError) as error:
            where, expected = f"{name}:{first + number}", "a date from year 1 to 9999"
            raise BadRecord(where, expected, quoted(error, 160), field) from error


def _date(value: Any) -> Any:
    """A date for a timestamp at midnight, because pandas has no dates."""
    if value is None or value.tzinfo is not None or value.time() != datetime.time():
        return value
    return value.date()


def _pandas_rows(frame: Any) -> tuple[list[str], Iterator[Sequence[object]]]:
    rows = frame.itertuples(index=False, name=None)
    return [str(column) for column in frame.columns], ([_plain(c) for c in row] for row in rows)


def _plain(cell: Any) -> object:
    """A cell without the types of NumPy and pandas."""
    if type(cell) in _AS_THEY_ARE:
        return cell
    if type(cell).__name__ in _MISSING:
        return None
    if isinstance(cell, datetime.datetime):
        return _date(cell)
    if isinstance(cell, list | tuple):
        return [_plain(item) for item in cell]
    return cell.tolist() if hasattr(cell, "tolist") else cell  # a number or an array of NumPy


class ArrowTable:
    """A table in memory, for pandas, polars, DuckDB and others that support Arrow.

    Args:
        columns: their names.
        rows: with one cell per column: text, numbers, or None.
        numbers: columns that are floating-point numbers even if they are empty.

    """

    def __init__(
        self,
        columns: Sequence[str],
        rows: Iterable[Sequence[Cell]],
        numbers: Iterable[str] = (),
    ) -> None:
        from arro3.core import Array, DataType, Table

        held = list(zip(*rows, strict=True)) or [()] * len(columns)
        arrays: dict[str, Any] = {}
        for column, cells in zip(columns, held, strict=True):
            kinds = {type(cell) for cell in cells} - {type(None)}
            kind = DataType.string()
            if kinds == {int}:
                kind = DataType.int64()
            elif (kinds and kinds <= {int, float}) or (not kinds and column in numbers):
                kind = DataType.float64()
            arrays[column] = Array(list(cells), kind)
        self._table = Table.from_pydict(arrays)

    def __arrow_c_stream__(self, requested_schema: object = None) -> object:
        """The table as an Arrow stream: `polars.DataFrame(table)`, `pyarrow.table(table)`."""
        return self._table.__arrow_c_stream__(requested_schema)

    def __len__(self) -> int:
        return int(self._table.num_rows)

    @property
    def columns(self) -> list[str]:
        """The names of the columns."""
        return list(self._table.column_names)

    def to_pylist(self) -> list[dict[str, Cell]]:
        """The rows as dictionaries."""
        return [dict(zip(self.columns, row, strict=True)) for row in self._rows(self._table)]

    def to_pandas(self) -> Any:
        """A pandas data frame; a KBForgeError if pandas is not installed."""
        pandas = _library("pandas")
        try:
            return pandas.DataFrame.from_arrow(self._table)
        except (AttributeError, ImportError):  # an older pandas, or no PyArrow
            held = {c: self._table[c].to_pylist() for c in self.columns}
            return pandas.DataFrame(held, columns=self.columns)

    def to_polars(self) -> Any:
        """A polars data frame; a KBForgeError if polars is not installed."""
        return _library("polars").DataFrame(self._table)

    def __repr__(self) -> str:
        columns = listed(self.columns, 20)
        return f"ArrowTable({counted(len(self), 'row')}; {columns})"

    def _repr_html_(self) -> str:
        """The first rows, for notebooks."""
        rows = list(self._rows(self._table.slice(0, min(_SHOWN_ROWS, len(self)))))
        more = len(self) - len(rows)
        below = f"{counted(len(self), 'row')}, {len(rows)} shown" if more else ""
        return table_html(self.columns, rows, below=below)

    def _rows(self, table: Any) -> Iterator[tuple[Cell, ...]]:
        return zip(*(table[column].to_pylist() for column in self.columns), strict=True)


def _library(name: str) -> Any:
    from importlib import import_module

    try:
        return import_module(name)
    except ImportError as error:
        raise KBForgeError(f"{name} is not installed; pip install {name}") from error
