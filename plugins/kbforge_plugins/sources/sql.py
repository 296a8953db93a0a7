"""The sql source: the rows of a query in PostgreSQL, DuckDB or SQLite.

Numbers, dates, times, booleans and arrays (several values) keep their meaning; NULL is a missing
value; a column of bytes is refused. Memory holds one batch of rows.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import ClassVar

from kbforge.contracts import Fragment, OnBad
from kbforge.errors import UsageError, counted, option
from kbforge.files.databases import connected, table_of
from kbforge_plugins.sources.parquet import rows_left
from kbforge_plugins.sources.rows import TableName, TableSource


@dataclass(eq=False)
class SqlSource(TableSource):
    """Rows of a query in a database.

    The source of the fragments is the database and the first table that the query names. Without
    the option `id`, a column called id has the ids.

    Args:
        query: a SELECT statement.
        watermark: a column that grows whenever a row changes, such as the time of its last change;
            it is no attribute. Rows are read by it, and `kbforge cluster --into` reads only those
            that have changed since its last complete run.
        since: leave out rows with a watermark below this.

    """

    endings: ClassVar = ("postgresql://", "postgres://", "duckdb://", "sqlite://")

    query: str | None = None
    watermark: str | None = None
    since: str | None = None

    def __post_init__(self) -> None:
        super().__post_init__()
        if self.query is None:
            example = option("query", "'SELECT * FROM people'")
            raise UsageError(f"a database needs a query, such as {example}")
        if self.since is not None and self.watermark is None:
            raise UsageError(f"{option('source.since')} requires {option('source.watermark')}")
        if self.watermark is not None:
            self.renamed.setdefault(self.watermark, "")

    def read_table(self, path: str, table: TableName, on_bad: OnBad) -> Iterator[Fragment]:
        query = self.query or ""
        with connected(path) as database:
            columns = database.columns(query)
            if self.id == "":
                self.ids = next((c for c in columns if c.lower() == "id"), None)
            name, stem = table_of(path, query)
            source = f"{name}/{stem}"
            reader = self.reader(columns, source, TableName(source, stem))
            by_kernel = self.into is not None and reader.plan(self.into)
            batches = database.read(query, self.watermark, self.since, self.ids or "")
            self.taken.append("")
            number = 0

            def counting() -> Iterator[object]:
                nonlocal number
                for batch in batches:
                    yield batch
                    number += batch.num_rows

            into = self.into if by_kernel else None
            for row, cells in rows_left(counting(), into, self.separator):
                yield from self.read_row(reader, cells, row, f"{source}:{row}", on_bad)
            if by_kernel:
                reader.account_for(self.into)
            self.taken[-1] = f"{source}: {counted(number, 'row')}, {self.summary(columns)}"
