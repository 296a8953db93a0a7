"""Tables in columns: the fragments and sentences of the reader of one row after another."""

from __future__ import annotations

import csv
import datetime
import decimal
import gzip
import io
import math
import tempfile
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from hypothesis import given
from hypothesis import strategies as st

from kbforge.errors import KBForgeError
from kbforge.files.columns import FragmentColumns
from kbforge.files.fragments import read_fragments
from kbforge.files.lines import ColumnReader, read_columns
from kbforge.kernel.binding import WORKERS
from tests.hostile.damage import damaged

Options = Mapping[str, object]


def told(read: Any, path: Path, limit: int | None, options: Options) -> Any:
    """The fragments that a reader gives, in every detail, with its notes; or its error."""
    notes: list[str] = []
    try:
        found = list(read(str(path), limit, options, notes.append))
    except KBForgeError as error:
        return type(error), str(error)
    return [(one, list(one.properties.items())) for one in found], notes


def assert_read_alike(path: Path, limit: int | None = None, **options: object) -> Any:
    """Columns have what the reader of one row after another has."""
    expected = told(read_fragments, path, limit, options)
    assert told(read_columns, path, limit, options) == expected
    return expected


def put(folder: Path, content: bytes, name: str = "people.csv") -> Path:
    path = folder / name
    path.write_bytes(content)
    return path


CELLS = st.one_of(
    st.text(max_size=4, alphabet="ab 1"),
    st.text(max_size=5, alphabet='a",;|\r\n\t é😀\x00\x1c\x85\xa0\u2003\u3000'),
    st.sampled_from(["none", "?", "NaN", "12345", "12345.5", "1990-01-02", "id", "name", "a|b||a"]),
)
COLUMNS = st.lists(
    st.sampled_from(["id", "name", "born date", "town", "_ID", "", "name", "a\nb"]),
    min_size=1,
    max_size=4,
)


@st.composite
def tables(draw: st.DrawFn) -> bytes:
    """A table: mostly one that can be read, quoted in one of the ways in which it can be."""
    columns = draw(COLUMNS)
    width = st.sampled_from([len(columns)] * 15 + [len(columns) - 1, len(columns) + 1])
    rows = [draw(st.lists(CELLS, min_size=n, max_size=n)) for n in draw(st.lists(width))]
    if draw(st.integers(0, 3)):  # ids that are mostly unique
        for number, row in enumerate(rows):
            if "id" in columns[: len(row)]:
                row[columns.index("id")] = draw(st.sampled_from([f"r{number}"] * 30 + ["r1", ""]))
    out = io.StringIO()
    writer = csv.writer(
        out,
        delimiter=draw(st.sampled_from(",,,;\t|")),
        quoting=draw(st.sampled_from([csv.QUOTE_MINIMAL, csv.QUOTE_ALL])),
        lineterminator=draw(st.sampled_from(["\n", "\n", "\r\n", "\n\n", "\r\r\n", "\n \n"])),
    )
    writer.writerows([columns, *rows])
    text = draw(st.sampled_from(["", "", "", "\ufeff", "\n", ",,\n"])) + out.getvalue()
    encoding = draw(st.sampled_from(["utf-8"] * 6 + ["utf-16", "latin-1"]))
    return text.encode(encoding, errors="replace")


OPTIONS = st.fixed_dictionaries(
    {},
    optional={
        "id": st.sampled_from([None, "id", "name"]),
        "label": st.sampled_from(["town", "name"]),
        "separator": st.sampled_from(["|", "a", " | ", " "]),
        "null": st.sampled_from([(), ("a", "é", "none")]),
        "map": st.sampled_from([["town=name"], ["name="], ["town=x", "name=x"], ["id=code"]]),
        "prefix": st.just(True),
        "serial_dates": st.just(["name"]),
        "vector": st.just(["town"]),
        "delimiter": st.sampled_from([",", ";", " ", "é", "a"]),
        "columns": st.just(["id", "name"]),
    },
)


@given(tables(), OPTIONS | st.just({}), st.none() | st.none() | st.integers(1, 3))
def test_tables_of_text_are_read_alike(content, options, limit):
    with tempfile.TemporaryDirectory() as folder:
        assert_read_alike(put(Path(folder), content), limit, **options)


@given(st.binary(max_size=40) | st.text(max_size=30, alphabet='a,"\r\n \té').map(str.encode))
def test_any_bytes_are_read_alike(content):
    with tempfile.TemporaryDirectory() as folder:
        assert_read_alike(put(Path(folder), b"id,name,town\n1,x,y\n" + content))
        assert_read_alike(put(Path(folder), content))


def people(count: int, unusual: Sequence[int] = ()) -> bytes:
    """A table of people, some of whom have two lines, quotes, or what the kernel leaves."""
    out = io.StringIO()
    writer = csv.writer(out, lineterminator="\n")
    writer.writerow(["id", "name", "born date", "town"])
    for n in range(count):
        town = "\xa0Brno" if n in unusual else ("Brno\r\n \n nad", 'the "old"', "Ústí", "")[n % 4]
        writer.writerow([f"p{n}", f"Ann {n // 3}", f"{1900 + n % 90}-01-02", town])
    return out.getvalue().encode()


@given(st.randoms(use_true_random=False))
def test_damaged_tables_are_read_alike(random):
    with tempfile.TemporaryDirectory() as folder:
        assert_read_alike(put(Path(folder), damaged(random, people(8, [5]))))


@pytest.mark.parametrize(("workers", "first"), [(1, 1 << 18), (3, 1 << 18), (3, 1 << 22)])
def test_many_chunks_are_read_alike(tmp_path, monkeypatch, workers, first):
    monkeypatch.setenv(WORKERS, str(workers))
    monkeypatch.setattr("kbforge.files.lines._FIRST", first)
    content = people(40_000, [*range(70), 5_000, 20_000, 39_999])
    assert len(content) > 4 * (1 << 18)  # chunks of columns.cpp
    expected, notes = assert_read_alike(put(tmp_path, content))
    assert len(expected) == 40_000
    assert "where no two are equal" in notes[0]
    for change in (b"p5,", b"p39998,"):
        assert_read_alike(put(tmp_path, content.replace(b"p20001,", change)))
    assert_read_alike(put(tmp_path, content.replace(b"Ann 7000,", b'"Ann 7000,')))
    assert_read_alike(put(tmp_path, content.replace(b"\np20001,", b"\n\n,,,\np20001,")))
    assert_read_alike(put(tmp_path, gzip.compress(content)[:-9], "people.csv.gz"))
    assert_read_alike(put(tmp_path, content.replace(b"id,", b"key,", 1)), prefix=True)


@pytest.mark.parametrize(
    "text",
    [
        '"%s"' % ("x\n" * 40_000),
        '"%s"' % ("\n" * 60_000),
        "x" * 65_537,
        "x" * 131_073,
        "é" * 40_000,
        '"%s' % ("x\n" * 70_000),
        "x" * (1 << 24),
        "\n" * 100_001,
        "|".join(map(str, range(100))),
        "|".join(map(str, range(10_001))),
    ],
)
def test_limits_are_told_alike(tmp_path, text):
    path = put(tmp_path, f"id,name\n1,a\n2,{text}\n3,b\n".encode())
    assert_read_alike(path)
    assert_read_alike(path, separator="|")


def test_the_kernel_leaves_nothing_of_usual_tables(tmp_path, monkeypatch):
    left = []
    monkeypatch.setattr(ColumnReader, "put", lambda self, one: left.append(one))
    monkeypatch.setattr("kbforge_plugins.sources.csv._RECORDS", 5)
    read = read_columns(str(put(tmp_path, people(3_000))))
    assert (len(read), left) == (3_000, [])
    assert isinstance(read, FragmentColumns)
    read = read_columns(str(put(tmp_path, people(3_000, [100, 2_000]))))
    assert (len(read), len(left)) == (2_990, 10)
    table = pa.table({"id": range(3_000), "name": [f"Ann {n % 5}" for n in range(3_000)]})
    pq.write_table(table, tmp_path / "people.parquet")
    assert len(read_columns(str(tmp_path / "people.parquet"))) == 3_000
    assert len(left) == 10


# --- Parquet --------------------------------------------------------------------------------------

KINDS: tuple[tuple[pa.DataType, st.SearchStrategy[Any]], ...] = (
    (pa.string(), CELLS),
    (pa.large_string(), CELLS),
    (pa.dictionary(pa.int32(), pa.string()), CELLS),
    (pa.dictionary(pa.int8(), pa.string()), CELLS),
    (pa.int64(), st.integers(-(2**63), 2**63 - 1) | st.integers(12_340, 12_350)),
    (pa.uint8(), st.integers(0, 255)),
    (pa.float64(), st.floats() | st.sampled_from([0.0, -0.0, 1990.0, math.nan])),
    (pa.float32(), st.floats(width=32)),
    (pa.bool_(), st.booleans()),
    (pa.date32(), st.dates()),
    (pa.timestamp("us"), st.datetimes()),
    (pa.timestamp("us", "UTC"), st.datetimes(timezones=st.just(datetime.UTC))),
    (
        pa.timestamp("ns"),
        st.datetimes(datetime.datetime(1700, 1, 1), datetime.datetime(2200, 1, 1)),
    ),
    (pa.time64("us"), st.times()),
    (pa.decimal128(5, 2), st.integers(-9_999, 9_999).map(lambda n: decimal.Decimal(n) / 100)),
    (pa.list_(pa.string()), st.lists(CELLS, max_size=3)),
    (pa.binary(), st.binary(max_size=2)),
    (pa.null(), st.none()),
)


@st.composite
def arrow_tables(draw: st.DrawFn) -> pa.Table:
    rows, names = draw(st.integers(0, 6)), draw(COLUMNS.filter(lambda names: "a\nb" not in names))
    columns = []
    for name in names:
        kind, values = draw(st.sampled_from(KINDS))
        cells = draw(st.lists(st.none() | values | values, min_size=rows, max_size=rows))
        if name == "id" and draw(st.booleans()):
            kind, cells = pa.int64(), list(range(rows))
        columns.append(
            pa.array(cells, pa.string()).cast(kind)
            if pa.types.is_dictionary(kind)
            else pa.array(cells, kind)
        )
    return pa.Table.from_arrays(columns, names)


@given(
    arrow_tables(),
    OPTIONS.map(
        lambda given: {k: v for k, v in given.items() if k not in ("delimiter", "columns")}
    ),
    st.integers(1, 6),
)
def test_parquet_tables_are_read_alike(table, options, rows):
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "people.parquet"
        pq.write_table(table, path, row_group_size=rows)
        assert_read_alike(path, **options)


def test_texts_that_are_no_utf_8_are_told_alike(tmp_path):
    names = pa.array([b"Ann", b"B\xff", b"C"], pa.binary()).view(pa.string())
    for name in (names, names.dictionary_encode()):
        pq.write_table(pa.table({"id": [1, 2, 3], "name": name}), tmp_path / "people.parquet")
        assert "people.parquet:2" in assert_read_alike(tmp_path / "people.parquet")[1]


def test_damaged_row_groups_are_told_alike(tmp_path):
    path = tmp_path / "people.parquet"
    table = pa.table({"id": range(5_000), "name": [f"Ann {n}" for n in range(5_000)]})
    pq.write_table(table, path, row_group_size=2_000, compression="gzip")
    assert len(assert_read_alike(path)[0]) == 5_000
    content = bytearray(path.read_bytes())
    for at in (100, len(content) // 2, len(content) - 40):
        damaged_one = content.copy()
        damaged_one[at : at + 8] = b"\xff" * 8
        path.write_bytes(damaged_one)
        assert_read_alike(path)


@given(st.randoms(use_true_random=False))
def test_damaged_parquet_tables_are_read_alike(random):
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "people.parquet"
        pq.write_table(pa.table({"id": range(50), "name": ["Ann"] * 50}), path)
        path.write_bytes(damaged(random, path.read_bytes()))
        assert_read_alike(path)
