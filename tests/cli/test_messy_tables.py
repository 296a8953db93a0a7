"""Tables as people have them, each through the one command."""

from __future__ import annotations

import gzip
from pathlib import Path
from typing import Any

import openpyxl
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from kbforge import cluster
from tests.jsonl import read_lines
from tests.program import Run

PEOPLE = ("Ann Novak", "Bob Stein", "Cy Rossi")
REPEATED = "columns numbered, whose names are there already ({}): {}"
UNNAMED = "columns without a name called by their position ({}): {}"
BEYOND = "columns beyond the header called by their position: {}"
BLANK, HEADERS = "blank rows left out: {}", "repeated header rows left out: {}"


def sheet(rows: list[list[Any]]) -> openpyxl.Workbook:
    book = openpyxl.Workbook()
    for row in rows:
        book.active.append(row)
    return book


def write(file: Path, rows: list[list[Any]]) -> None:
    """Write a header and rows in the format of the file's ending."""
    if file.suffix == ".xlsx":
        sheet(rows).save(file)
    elif file.suffix == ".parquet":
        columns = [pa.array(column, pa.string()) for column in zip(*rows[1:], strict=True)]
        pq.write_table(pa.Table.from_arrays(columns, rows[0]), file)
    else:
        mark = "\t" if ".tsv" in file.name else ","
        lines = [mark.join("" if cell is None else cell for cell in row) for row in rows]
        text = "".join(f"{line}\n" for line in lines).encode()
        file.write_bytes(gzip.compress(text) if file.suffix == ".gz" else text)


HEADER = ["name", "town", "town", ""]
CLEAN = [[name, "Brno", "Wien", "x"] for name in PEOPLE]
GAPS = [CLEAN[0], [None] * 4, [None] * 4, CLEAN[1], [None] * 4, CLEAN[2]]
AGAIN = [CLEAN[0], HEADER, CLEAN[1], HEADER, CLEAN[2]]
ONE_BLANK = [*CLEAN[:2], [None] * 4, CLEAN[2]]
NAMES = [REPEATED.format("town_2", 1), UNNAMED.format("column_4", 1)]
SHEET = [BEYOND.format(1), NAMES[0]]  # a sheet says nothing of the empty cells that end a header
TABLES = {
    "names.csv": ([HEADER, *CLEAN], NAMES),
    "gaps.csv": ([HEADER, *GAPS], [BLANK.format(3), *NAMES]),
    "again.csv": ([HEADER, *AGAIN], [*NAMES, HEADERS.format(2)]),
    "one.csv.gz": ([HEADER, *ONE_BLANK], [BLANK.format(1), *NAMES]),
    "all.tsv": (
        [HEADER, *GAPS[:-1], HEADER, CLEAN[2]],
        [BLANK.format(3), *NAMES, HEADERS.format(1)],
    ),
    "names.xlsx": ([HEADER, *CLEAN], SHEET),
    "gaps.xlsx": ([HEADER, *GAPS], [BLANK.format(3), *SHEET]),
    "again.xlsx": ([HEADER, *AGAIN], [*SHEET, HEADERS.format(2)]),
    "names.parquet": ([HEADER, *CLEAN], NAMES),
    "gaps.parquet": ([HEADER, *GAPS], [BLANK.format(3), *NAMES]),
}
"""File -> its header and rows, and what the notes that count say."""


@pytest.mark.parametrize("name", TABLES)
def test_a_messy_table(program: Run, tmp_path: Path, name: str) -> None:
    rows, said = TABLES[name]
    file, output = tmp_path / name, tmp_path / "kb.jsonl"
    write(file, rows)
    ran = program("cluster", file, "--likelihood", "attributes", "-o", output)
    notes = [line for line in ran.err.splitlines() if line.startswith("note: ")]
    kb = cluster(file, likelihood="attributes")
    assert [n for n in notes if n[-1].isdigit()] == [f"note: {file}: {note}" for note in said]
    assert [note for note in kb.notes if note[-1].isdigit()] == [f"{file}: {x}" for x in said]
    fragments = sorted(x for entity in read_lines(output) for x in entity["fragments"])
    assert len(fragments) == len(set(fragments)) == len(CLEAN)
    attributes = {key for entity in read_lines(output) for key in entity["properties"]}
    assert attributes == {"name", "town", "town_2", "column_4"}


CYRILLIC = "имя,город\nАнна,Прага\nБорис,Вена\n".encode("cp1251")
WESTERN = '[{"id": 1, "name": "Zoë"}, {"id": 2, "name": "Bo"}]'.encode("cp1252")


@pytest.mark.parametrize("verb", ["load", "cluster"])
@pytest.mark.parametrize(
    ("name", "content", "encoding", "names"),
    [
        ("people.csv", CYRILLIC, "cp1251", {"Анна", "Борис"}),
        ("people.json", WESTERN, "cp1252", {"Zoë", "Bo"}),
    ],
)
def test_the_advice_on_an_encoding_can_be_followed(
    program: Run, tmp_path: Path, verb: str, name: str, content: bytes, encoding: str, names: set
) -> None:
    """What a message names is an option of the verb that prints it."""
    file, output = tmp_path / name, tmp_path / "out.jsonl"
    file.write_bytes(content)
    command = (verb, file, "--set", "source.name=" + ("name" if "json" in name else "имя"))
    refused = program(*command, "-o", output)
    assert refused.code == 1
    assert "--set source.encoding=" in refused.err
    assert encoding in refused.err
    ran = program(*command, "--set", f"source.encoding={encoding}", "-o", output)
    assert ran.code == 0, ran.err
    found = {text for line in read_lines(output) for text in texts(line["properties"]["name"])}
    assert found == names


def texts(values: list[Any]) -> list[str]:
    """The values of a fragment, or those of an entity."""
    return [value if isinstance(value, str) else value["value"] for value in values]


def test_the_advice_on_a_sheet_can_be_followed(program: Run, tmp_path: Path) -> None:
    file, output = tmp_path / "in.xlsx", tmp_path / "kb.jsonl"
    book = sheet([["text"], ["x"]])
    members = book.create_sheet("Members")
    for row in (["name"], ["Ann"], ["Bo"]):
        members.append(row)
    book.save(file)
    told = program("cluster", file, "-o", output)
    assert "--set source.sheet=NAME selects another" in told.err
    program("cluster", file, "--set", "source.sheet=Members", "-o", output)
    assert {line["name"] for line in read_lines(output)} == {"Ann", "Bo"}
