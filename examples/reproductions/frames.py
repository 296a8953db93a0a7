"""Reading a data frame beside reading the same table as CSV.

    python examples/reproductions/frames.py [--rows 100000] [--repeats 5]

Makes a table of people, writes it as CSV, and times how long it takes to make fragments of it: from
the file, and from a frame of each library that is installed, which is in memory before the clock
starts. Each time is the least of the repeats. The fragments must be equal, but for the source.
"""

from __future__ import annotations

import argparse
import csv
import random
import tempfile
import time
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import kbforge
from kbforge import Fragment
from kbforge.jobs.tables import fragments_from

COLUMNS = ("id", "first_name", "surname", "born", "town", "postcode", "children")


def people(rows: int) -> list[tuple[Any, ...]]:
    rng = random.Random(0)
    letters = "abcdefghijklmnoprstuvw"

    def word(most: int) -> str:
        return "".join(rng.choices(letters, k=rng.randint(3, most)))

    first, towns = [word(7) for _ in range(500)], [word(9) for _ in range(200)]
    return [
        (
            number,
            rng.choice(first),
            word(10),
            f"19{rng.randint(10, 99)}-{rng.randint(1, 12):02}-{rng.randint(1, 28):02}",
            rng.choice(towns),
            None if rng.random() < 0.1 else f"{word(3)}{rng.randint(1, 99)}",
            rng.randint(0, 5),
        )
        for number in range(rows)
    ]


def frames(rows: list[tuple[Any, ...]]) -> dict[str, Any]:
    dicts = [dict(zip(COLUMNS, row, strict=True)) for row in rows]
    found: dict[str, Any] = {"dictionaries": dicts}
    import pyarrow as pa

    found["pyarrow"] = table = pa.Table.from_pylist(dicts)
    found["pandas"] = table.to_pandas()
    import polars

    found["polars"] = polars.DataFrame(table)
    import duckdb

    found["duckdb"] = duckdb.connect().from_arrow(table)
    return found


def timed(read: Callable[[], list[Fragment]], repeats: int) -> tuple[float, list[Fragment]]:
    least = float("inf")
    for _ in range(repeats):
        begin = time.perf_counter()
        fragments = read()
        least = min(least, time.perf_counter() - begin)
    return least, fragments


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else None)
    parser.add_argument("--rows", type=int, default=100_000)
    parser.add_argument("--repeats", type=int, default=5)
    given = parser.parse_args()
    rows = people(given.rows)
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "people.csv"
        with path.open("w", encoding="utf-8", newline="") as file:
            csv.writer(file).writerows([COLUMNS, *rows])
        base, known = timed(lambda: kbforge.load(path, id="id"), given.repeats)
    print(f"{'csv':>12}  {base:.2f} s")
    known = [replace(fragment, source=None, metadata=None) for fragment in known]
    for name, frame in frames(rows).items():
        seconds, read = timed(
            lambda frame=frame: fragments_from(frame, {"id": "id"}, "frames").fragments,  # type: ignore[misc]
            given.repeats,
        )
        same = [replace(fragment, metadata=None) for fragment in read] == known
        equal = "equal" if same else "DIFFERENT"
        print(f"{name:>12}  {seconds:.2f} s  {seconds / base:.0%} of csv, {equal}")


if __name__ == "__main__":
    main()
