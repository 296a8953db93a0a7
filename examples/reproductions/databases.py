"""Loading a table from databases beside loading it from CSV.

    python examples/reproductions/databases.py [--rows 100000] [--repeats 3] [--postgresql ADDRESS]

Makes a table of people, writes it as CSV and to DuckDB, SQLite and the PostgreSQL server at an
address (the table kbforge_people there is replaced), and loads each with `kbforge load`, by turns.
Prints the least processor time of the program (user and system), and of `read_columns`, which
`kbforge cluster` calls. The fragments must be equal, but for the source and the row.
"""

from __future__ import annotations

import argparse
import csv
import json
import resource
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from typing import Any

import pyarrow as pa
from frames import COLUMNS, people

from kbforge.files.databases import connected
from kbforge.files.lines import read_columns

TABLE = "kbforge_people"
QUERY = f"SELECT * FROM {TABLE} ORDER BY id"


def written(rows: list[tuple[Any, ...]], folder: Path, postgresql: str | None) -> list[str]:
    """The CSV file, and the addresses of the databases."""
    file = folder / "people.csv"
    with open(file, "w", newline="") as out:
        csv.writer(out).writerows([COLUMNS, *rows])
    table = pa.Table.from_pylist([dict(zip(COLUMNS, row, strict=True)) for row in rows])
    addresses = [f"duckdb:///{folder}/people.duckdb", f"sqlite:///{folder}/people.sqlite"]
    addresses += [postgresql] if postgresql else []
    for address in addresses:
        with connected(address, write=True) as database:
            database.write(TABLE, table.schema, table.to_batches(), replace=True)
    return [str(file), *addresses]


def loaded(path: str, output: Path) -> tuple[float, list[dict[str, Any]]]:
    """Seconds of processor time of `kbforge load`, and the fragments."""
    query = [] if path.endswith(".csv") else ["--query", QUERY]
    command = [sys.executable, "-m", "kbforge", "load", path, *query, "-o", str(output)]
    before = resource.getrusage(resource.RUSAGE_CHILDREN)
    subprocess.run(command, check=True, stderr=subprocess.DEVNULL)
    after = resource.getrusage(resource.RUSAGE_CHILDREN)
    fragments = [json.loads(line) for line in output.read_bytes().splitlines()]
    spent = after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime
    return spent, [{key: x[key] for key in ("id", "properties")} for x in fragments]


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--rows", type=int, default=100_000)
    parser.add_argument("--repeats", type=int, default=3)
    parser.add_argument("--postgresql")
    given = parser.parse_args()
    least: dict[str, list[float]] = {}
    with tempfile.TemporaryDirectory() as folder:
        paths = written(people(given.rows), Path(folder), given.postgresql)
        for _ in range(given.repeats):
            expected = None
            for path in paths:
                name = path.partition("://")[0] if "://" in path else "csv"
                spent, fragments = loaded(path, Path(folder, "out.jsonl"))
                expected = expected or fragments
                assert fragments == expected
                begin = time.process_time()
                read_columns(path, options={} if name == "csv" else {"query": QUERY})
                times = (spent, time.process_time() - begin)
                least[name] = [min(two) for two in zip(times, least.get(name, times), strict=True)]
    for name, (load, columns) in least.items():
        ratios = [one / other for one, other in zip(least[name], least["csv"], strict=True)]
        print(f"{name:<11} load {load:6.2f} s ({ratios[0]:.2f} of CSV), ", end="")
        print(f"columns {columns:6.3f} s ({ratios[1]:.2f} of CSV)")


if __name__ == "__main__":
    main()
