"""Timestamps that Python has no date for spoil their own row."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from tests.program import Run
from tests.sources.harness import ids_in


@pytest.fixture
def table(tmp_path: Path) -> Path:
    import pyarrow as pa
    from pyarrow import parquet

    columns = {
        "id": pa.array(["a", "b", "c"]),
        "at": pa.array([0, 2**62, 10**15], pa.timestamp("us")),
    }
    parquet.write_table(pa.table(columns), tmp_path / "t.parquet")
    return tmp_path / "t.parquet"


def test_a_date_beyond_all_years_is_a_bad_record(program: Run, table: Path, tmp_path: Path) -> None:
    ran = program("load", "parquet", table, "--id", "id", "-o", tmp_path / "out.jsonl")
    assert ran.code == 1
    assert ran.err == (
        f"kbforge: {table}:2: at: expected a date from year 1 to 9999, or any other value, got the "
        "timestamp[us] 4611686018427387904\n"
    )


def test_the_other_rows_are_loaded(program: Run, table: Path, tmp_path: Path) -> None:
    output = tmp_path / "out.jsonl"
    job = ("load", "parquet", table, "--id", "id", "-o", output, "--on-error", "quarantine")
    assert program(*job).code == 0
    assert ids_in(output) == ["a", "c"]
    (record,) = (tmp_path / "out.jsonl.quarantine.jsonl").read_text().splitlines()
    assert json.loads(record)["where"] == f"{table}:2"


def test_a_column_that_is_left_out_spoils_nothing(
    program: Run, table: Path, tmp_path: Path
) -> None:
    output = tmp_path / "out.jsonl"
    job = ("load", "parquet", table, "--name", "id", "--map", "at=", "-o", output)
    assert program(*job).code == 0
    assert len(ids_in(output)) == 3
