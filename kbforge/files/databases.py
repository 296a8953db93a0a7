"""Tables in PostgreSQL, DuckDB and SQLite, by the address of a database.

    postgresql://ann@host:5432/crm     duckdb:///crm.duckdb     sqlite:////data/crm.sqlite

Rows are read as a stream of Arrow batches. A table is written in one transaction, so that other
programs see the old one or the new one. Values of types without a plain counterpart in Arrow
(numeric, uuid, json, enumerations) are read as the texts that the database makes of them.

No message has the password of an address; PGPASSWORD or ~/.pgpass keep it out of the address, too.
"""

from __future__ import annotations

import contextlib
import re
import sqlite3
from abc import ABC, abstractmethod
from collections.abc import Iterable, Iterator, Sequence
from typing import TYPE_CHECKING, Any, ClassVar
from urllib.parse import quote

from kbforge.errors import KBForgeError, UsageError, listed, option, quoted, without_password
from kbforge.files.io import file_of
from kbforge.registry import library_missing

if TYPE_CHECKING:
    import pyarrow as pa

_POSTGRESQL = re.compile(
    r"""postgres(?:ql)?://([^/?#@\s]*@)?
    (?:[^:/?#@,\s]*|\[[^]\s]*\])(?::\d*)?(?:,[^:/?#@,\s]*(?::\d*)?)*  # hosts and ports
    (?:/[^?#@\s]*)?(?:\?\w+=[^#\s]*)?""",
    re.VERBOSE,
)
_NUMBER = re.compile(r"-?\d+(\.\d+)?(e[+-]?\d+)?", re.ASCII | re.IGNORECASE)
_TABLE = re.compile(r"\bfrom\s+((?:\"[^\"]+\"|[\w.])+)", re.IGNORECASE)
_ROWS = 1_024  # of SQLite that are held at a time
_BATCH_BYTES = 1 << 20  # of PostgreSQL
_OWN = 5  # columns with which every table that an exporter writes begins
_LONGEST_NAME = 63  # bytes of a column's name, as in PostgreSQL
_TYPES = {"int64": "BIGINT", "double": "DOUBLE PRECISION", "string": "TEXT"}


@contextlib.contextmanager
def connected(address: str, write: bool = False) -> Iterator[Database]:
    """A database, open to read, or to write; what is not committed at the end is undone.

    Raises:
        UsageError: an address of another form.
        KBForgeError: the database cannot be opened, or its library is not installed.

    """
    scheme = address.partition("://")[0]
    kind = {"sqlite": Sqlite, "duckdb": DuckDb}.get(scheme, PostgreSql)
    expected = f"{scheme}:///FILE"
    if kind is PostgreSql:
        expected = "postgresql://USER@HOST:PORT/DATABASE, with %40 for @ and so on in a password"
    if not (_POSTGRESQL.fullmatch(address) if kind is PostgreSql else file_of(address) != address):
        raise UsageError(f"{quoted(address, 400)}: expected {expected}")
    database = kind(address, write)
    try:
        yield database
    finally:
        database.close()


def table_of(address: str, query: str) -> tuple[str, str]:
    """The names of the database and of the first table in a query: the source of its rows."""
    found = _TABLE.search(query)
    database = file_of(address.partition("?")[0]).rstrip("/").rpartition("/")[2]
    return database.rpartition("@")[2], found[1].replace('"', "") if found else "query"


class Database(ABC):
    """A connection; subclasses have the calls of a library.

    Errors of the library become a `KBForgeError` with the first line of what it says.
    """

    library: ClassVar[str]
    _connection: Any

    def __init__(self, address: str, write: bool) -> None:
        self.name = without_password(address).partition("?")[0]
        with self._in_words():
            self._open(address, write)

    @abstractmethod
    def _open(self, address: str, write: bool) -> None: ...

    @abstractmethod
    def _batches(self, statement: str) -> tuple[pa.Schema, Iterator[pa.RecordBatch]]:
        """What a SELECT gives: the columns, and the rows as a stream."""

    @abstractmethod
    def _append(self, table: str, rows: pa.RecordBatchReader) -> None: ...

    def _run(self, statement: str) -> None:
        self._connection.execute(statement)

    def commit(self) -> None:
        """Keep what was written."""
        self._run("COMMIT")

    def close(self) -> None:
        """Undo what was not committed, and let go of the database."""
        self._connection.close()

    def columns(self, query: str) -> list[str]:
        """The columns of a query.

        Raises:
            UsageError: a column has bytes.

        """
        return list(self._schema(_rows_of(query)).names)

    def read(
        self, query: str, watermark: str | None = None, since: str | None = None, then: str = ""
    ) -> Iterator[pa.RecordBatch]:
        """The rows of a query, by watermark and `then` another column if there is a watermark.

        `since` leaves out rows with a smaller watermark; rows without one are never left out.
        """
        statement = f"SELECT {self._selected(query)} {_rows_of(query)}"
        if watermark is not None:
            mark = identifier(watermark)
            if since is not None:
                statement += f" WHERE {mark} >= {self._literal(since)} OR {mark} IS NULL"
            statement += f" ORDER BY {', '.join([mark, *([identifier(then)] if then else [])])}"
        with self._in_words():
            batches = self._batches(statement)[1]
            while (batch := next(batches, None)) is not None:
                yield batch

    def reached(self, query: str, watermark: str) -> str | None:
        """The greatest watermark of the rows of a query; None without any."""
        greatest = self._as_text(f"max({identifier(watermark)})")
        with self._in_words():
            _, batches = self._batches(f"SELECT {greatest} AS reached {_rows_of(query)}")
            found = next(batches).column(0)[0].as_py()
        return None if found is None else str(found)

    def write(
        self, table: str, schema: pa.Schema, batches: Iterable[pa.RecordBatch], replace: bool
    ) -> None:
        """Write a table in one transaction; a table with the same columns keeps its rights,
        indexes and views.

        Raises:
            UsageError: the table has other first columns, so that somebody else made it, and
                `replace` is false.

        """
        import pyarrow as pa

        schema = pa.schema(list(zip(_distinct(schema.names), schema.types, strict=True)))
        name = ".".join(map(identifier, table.split(".")))
        there = self._table(name)
        if there is not None and there.names[:_OWN] != schema.names[:_OWN] and not replace:
            raise UsageError(
                f'{quoted(self.name, 400)}: the table "{quoted(table)}" is not of this format, its '
                f"columns are {listed(there.names, _OWN)}; {option('replace')} replaces it"
            )
        failed: list[BaseException] = []

        def renamed() -> Iterator[pa.RecordBatch]:
            try:
                for batch in batches:
                    yield pa.RecordBatch.from_arrays(batch.columns, schema=schema)
            except BaseException as error:  # which the library would put into its own words
                failed.append(error)
                raise

        try:
            with self._in_words():
                if there is not None and _is_like(there, schema):
                    self._run(f"DELETE FROM {name}")
                else:
                    self._make(name, schema, there is not None)
                self._append(table, pa.RecordBatchReader.from_batches(schema, renamed()))
                self.commit()
        except KBForgeError:
            if failed:
                raise failed[0] from None
            raise

    def _make(self, name: str, schema: pa.Schema, again: bool) -> None:
        if again:
            self._run(f"DROP TABLE {name}")
        columns = (f"{identifier(field.name)} {_TYPES[str(field.type)]}" for field in schema)
        self._run(f"CREATE TABLE {name} ({', '.join(columns)})")

    def _table(self, name: str) -> pa.Schema | None:
        """The columns of a table; None if there is none."""
        try:
            return self._batches(f"SELECT * FROM {name} LIMIT 0")[0]
        except Exception:  # each library has errors of its own; what is wrong shows when it is made
            return None

    def _selected(self, query: str) -> str:
        """The columns of a query, those of other types as texts."""
        schema = self._schema(_rows_of(query))
        read = [self._column(field) for field in schema]
        plain = [identifier(field.name) for field in schema]
        return "*" if read == plain else ", ".join(read)

    def _column(self, field: pa.Field) -> str:
        import pyarrow.types as kinds

        name, kind = identifier(field.name), field.type
        is_list = kinds.is_list(kind)
        item = kind.value_type if is_list else kind
        if kinds.is_binary(item) or kinds.is_large_binary(item):
            raise UsageError(
                f'{quoted(self.name, 400)}: the column "{quoted(field.name)}" has bytes; leave it '
                "out of the query, or make it text there"
            )
        is_plain = kinds.is_integer(item) or kinds.is_float64(item) or kinds.is_boolean(item)
        is_plain |= kinds.is_string(item) or kinds.is_null(item)
        if is_plain or (kinds.is_temporal(item) and not kinds.is_interval(item)):
            return name
        return f"CAST({name} AS VARCHAR{'[]' if is_list else ''}) AS {name}"

    def _schema(self, rows: str) -> pa.Schema:
        with self._in_words():
            return self._batches(f"SELECT * {rows} LIMIT 0")[0]

    def _as_text(self, expression: str) -> str:
        return f"CAST({expression} AS VARCHAR)"

    def _literal(self, text: str) -> str:
        return "'" + text.replace("'", "''") + "'"

    @contextlib.contextmanager
    def _in_words(self) -> Iterator[None]:
        try:
            yield
        except KBForgeError:
            raise
        except ImportError as error:
            raise library_missing(self.library, f'"{self.name}"') or error from error
        except Exception as error:  # each library has errors of its own
            said = re.sub(r"^.*?(ERROR:|Failed to connect:)\s*", "", str(error)).strip()
            said = said.splitlines()[0] if said else type(error).__name__
            raise KBForgeError(f"{quoted(self.name, 400)}: {quoted(said, 200)}") from error


class PostgreSql(Database):
    """PostgreSQL, whose binary COPY becomes Arrow and back in ADBC."""

    library = "adbc_driver_postgresql"

    def _open(self, address: str, write: bool) -> None:
        from adbc_driver_postgresql import dbapi

        self._cursors = contextlib.ExitStack()
        self._connection = dbapi.connect(address)

    def _batches(self, statement: str) -> tuple[pa.Schema, Iterator[pa.RecordBatch]]:
        size = {"adbc.postgresql.batch_size_hint_bytes": str(_BATCH_BYTES)}
        cursor = self._connection.cursor(adbc_stmt_kwargs=size)
        self._cursors.enter_context(cursor)
        cursor.execute(statement)
        reader = cursor.fetch_record_batch()
        return reader.schema, iter(reader)

    def _table(self, name: str) -> pa.Schema | None:
        if (there := super()._table(name)) is None:
            self._connection.rollback()  # a transaction ends with its first error
        return there

    def _run(self, statement: str) -> None:
        with self._connection.cursor() as cursor:
            cursor.execute(statement)

    def _append(self, table: str, rows: pa.RecordBatchReader) -> None:
        schema, _, name = table.rpartition(".")
        with self._connection.cursor() as cursor:
            cursor.adbc_ingest(name, rows, mode="append", db_schema_name=schema or None)

    def commit(self) -> None:
        self._connection.commit()

    def close(self) -> None:
        self._cursors.close()
        super().close()


class DuckDb(Database):
    """A file of DuckDB."""

    library = "duckdb"

    def _open(self, address: str, write: bool) -> None:
        import duckdb

        self._connection = duckdb.connect(file_of(address), read_only=not write)
        self._run("SET TimeZone = 'UTC'")
        self._run("BEGIN")

    def _batches(self, statement: str) -> tuple[pa.Schema, Iterator[pa.RecordBatch]]:
        import pyarrow as pa

        reader = pa.RecordBatchReader.from_stream(self._connection.sql(statement))
        return reader.schema, iter(reader)

    def _table(self, name: str) -> pa.Schema | None:
        if (there := super()._table(name)) is None:
            self._run("ROLLBACK")  # a transaction ends with its first error
            self._run("BEGIN")
        return there

    def _append(self, table: str, rows: pa.RecordBatchReader) -> None:
        import pyarrow as pa

        into = ".".join(map(identifier, table.split(".")))
        for batch in rows:  # DuckDB would ask for the next ones in another thread
            self._connection.register("kbforge_rows", pa.Table.from_batches([batch]))
            self._run(f"INSERT INTO {into} SELECT * FROM kbforge_rows")


class Sqlite(Database):
    """A file of SQLite, whose columns have values of any type."""

    library = "pyarrow"

    def _open(self, address: str, write: bool) -> None:
        file = f"file:{quote(file_of(address))}?mode={'rwc' if write else 'ro'}"
        self._connection = sqlite3.connect(file, uri=True, isolation_level=None)
        self._run("BEGIN IMMEDIATE" if write else "BEGIN")

    def _batches(self, statement: str) -> tuple[pa.Schema, Iterator[pa.RecordBatch]]:
        import pyarrow as pa

        cursor = self._connection.execute(statement)
        names = [column[0] for column in cursor.description]

        def batches() -> Iterator[pa.RecordBatch]:
            while rows := cursor.fetchmany(_ROWS):
                columns = zip(names, zip(*rows, strict=True), strict=True)
                arrays = [self._array(name, cells) for name, cells in columns]
                yield pa.RecordBatch.from_arrays(arrays, names)

        return pa.schema([(name, pa.null()) for name in names]), batches()

    def _array(self, name: str, cells: Sequence[Any]) -> pa.Array:
        import pyarrow as pa

        kinds = {type(cell) for cell in cells} - {type(None)}
        if bytes in kinds:
            self._column(pa.field(name, pa.binary()))
        if len(kinds) > 1:  # a value is the same text whatever is beside it
            cells = [c if c is None or isinstance(c, str) else repr(c) for c in cells]
        return pa.array(cells, None if len(kinds) == 1 else pa.string())

    def _append(self, table: str, rows: pa.RecordBatchReader) -> None:
        into = ".".join(map(identifier, table.split(".")))
        marks = ", ".join("?" * len(rows.schema))
        for batch in rows:
            cells = zip(*(column.to_pylist() for column in batch.columns), strict=True)
            self._connection.executemany(f"INSERT INTO {into} VALUES ({marks})", cells)

    def _as_text(self, expression: str) -> str:
        return expression  # a text of a number has 15 digits

    def _literal(self, text: str) -> str:
        # a number is less than any text, unless the column makes a text of it
        return text if _NUMBER.fullmatch(text) else super()._literal(text)


def identifier(name: str) -> str:
    """A name in a statement."""
    return '"' + name.replace('"', '""') + '"'


def _rows_of(query: str) -> str:
    """A query as a table of a statement; it may end with a semicolon, or in a comment."""
    return f"FROM ({query.strip().rstrip(';')}\n) AS q"


def _is_like(there: pa.Schema, schema: pa.Schema) -> bool:
    """Whether a table has these columns; types are unknown to SQLite."""
    import pyarrow as pa

    pairs = zip(there, schema, strict=False)
    return there.names == schema.names and all(a.type in (b.type, pa.null()) for a, b in pairs)


def _distinct(names: Iterable[str]) -> list[str]:
    """Names that differ by more than upper and lower case, cut to the length that databases
    keep."""
    found: dict[str, str] = {}
    for name in names:
        number, mark = 1, ""
        while True:
            cut = name.encode()[: _LONGEST_NAME - len(mark)].decode(errors="ignore") + mark
            if cut.lower() not in found:
                break
            number += 1
            mark = f"~{number}"
        found[cut.lower()] = cut
    return list(found.values())
