"""Columns of fragments say what the fragments say."""

from __future__ import annotations

import bz2
import gzip
import json
import tempfile
from collections import Counter
from collections.abc import Callable, Sequence
from itertools import pairwise
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from kbforge.contracts import Fragment
from kbforge.errors import KBForgeError
from kbforge.files.columns import FragmentColumns, Statements, sizes_of_sources, statements_of
from kbforge.files.fragments import located, read_fragments
from kbforge.files.lines import read_columns
from kbforge.fit.duplicates import duplicates_note
from kbforge.kernel.binding import WORKERS
from tests.hostile.damage import damaged
from tests.jsonl import write_lines

TEXTS = st.text(min_size=1, max_size=3, alphabet="ab é")
PROPERTIES = st.dictionaries(TEXTS, st.lists(TEXTS, min_size=1, max_size=3).map(tuple), max_size=4)


def stated(found: Statements) -> list[list[tuple[str, str]]]:
    """The statements of each fragment as texts."""
    pairs = [
        (found.attributes[a], found.texts[a][v])
        for a, v in zip(found.attribute.tolist(), found.value.tolist(), strict=True)
    ]
    ends = found.starts.tolist()
    return [pairs[a:b] for a, b in pairwise(ends)]


@given(st.lists(PROPERTIES, max_size=6))
def test_statements_are_those_of_the_fragments_in_order(properties):
    fragments = [Fragment(f"{n}", one) for n, one in enumerate(properties)]
    found = statements_of(fragments)
    expected = [[(a, v) for a, values in one.items() for v in values] for one in properties]
    assert stated(found) == expected
    assert (found.starts.dtype, found.attribute.dtype, found.value.dtype) == (
        *(np.int64, np.int32, np.int32),
    )


def test_values_are_numbered_by_attribute_in_order_of_their_first_statement():
    found = statements_of(
        [
            Fragment("1", {"name": ("Ann", "Anna"), "town": ("Brno",)}),
            Fragment("2", {"town": ("Wien", "Ann", "Wien")}),
            Fragment("3", {}),
        ]
    )
    assert found.attributes == ["name", "town"]
    assert [list(texts) for texts in found.texts] == [["Ann", "Anna"], ["Brno", "Wien", "Ann"]]
    assert found.starts.tolist() == [0, 3, 6, 6]
    assert found.attribute.tolist() == [0, 0, 1, 1, 1, 1]
    assert found.value.tolist() == [0, 1, 0, 1, 2, 1]


# --- reading --------------------------------------------------------------------------------------


def told(read: Callable[[], Sequence[Fragment]]) -> Any:
    """The fragments that a reader gives, in every detail, or the sentence of its error."""
    try:
        found = list(read())
    except KBForgeError as error:
        return type(error), str(error)
    return [(one, list(one.properties.items())) for one in found]


def assert_read_alike(content: bytes, folder: Path, limit: int | None = None) -> None:
    """The columns of a file have what the reader of one fragment after another has."""
    path = folder / "fragments.jsonl"
    path.write_bytes(content)
    expected = told(lambda: list(read_fragments(str(path), limit)))
    assert told(lambda: read_columns(str(path), limit)) == expected
    if isinstance(expected, list):
        columns = read_columns(str(path), limit)
        by_row = [columns[row] for row in range(len(columns))]
        assert [(one, list(one.properties.items())) for one in by_row] == expected
        plain = statements_of([one for one, _ in expected])
        assert stated(statements_of(columns)) == stated(plain)
        assert [list(texts) for texts in columns.statements.texts] == [*map(list, plain.texts)]
        assert columns.statements.attributes == plain.attributes


STRANGE = st.text(min_size=1, max_size=4, alphabet='a"\\/\n\t\x7f\x01é€😀\ue000\u2028')
JSON_VALUES = st.recursive(
    st.none()
    | st.booleans()
    | st.integers(-(10**20), 10**20)
    | st.floats()
    | st.text(max_size=3, alphabet='a"\\é:😀\x00\ud800'),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(STRANGE, inner, max_size=3),
    max_leaves=6,
)
NUMBERS = st.lists(st.integers(-9, 10**19) | st.floats(), max_size=3)
TEXT = STRANGE | st.sampled_from(["", "\x00", "\ud800", "\udc00a"]) | JSON_VALUES
GOOD = st.fixed_dictionaries(
    {
        "id": st.text(min_size=1, max_size=2, alphabet='ab"é😀'),
        "properties": st.dictionaries(STRANGE, st.lists(STRANGE, min_size=1, max_size=3)),
    },
    optional={
        "vector": st.lists(st.integers(-9, 9) | st.floats(-9, 9), min_size=1, max_size=3),
        "label": STRANGE,
        "source": STRANGE,
        "metadata": st.dictionaries(STRANGE, JSON_VALUES, max_size=2),
    },
)
WILD = st.fixed_dictionaries(
    {},
    optional={
        "id": TEXT,
        "properties": JSON_VALUES | st.dictionaries(TEXT.filter(lambda x: type(x) is str), TEXT),
        "vector": NUMBERS | JSON_VALUES,
        "label": TEXT,
        "source": TEXT,
        "metadata": JSON_VALUES,
        "entity_id": TEXT,
        "more": JSON_VALUES,
    },
)


@st.composite
def lines(draw: st.DrawFn) -> bytes:
    """A line: mostly a fragment, written in one of the ways in which JSON can be written."""
    record = draw(GOOD | GOOD | GOOD | WILD | JSON_VALUES)
    text = json.dumps(
        record,
        ensure_ascii=draw(st.booleans()),
        separators=draw(st.sampled_from([(",", ":"), (", ", ": "), (" ,\t", "\r: ")])),
    )
    line = text.encode(errors="surrogatepass")
    return draw(st.sampled_from([line, line, line, line + b"\r", b" " + line, line + b"\r\n"]))


@given(
    st.lists(lines() | st.sampled_from([b"", b" ", b"\r", b"\x0b", b"{"]), max_size=8),
    st.sampled_from([b"", b"\n"]),
    st.sampled_from([b"", b"\xef\xbb\xbf"]),
    st.none() | st.integers(1, 5),
)
def test_columns_have_what_the_reader_of_fragments_has(parts, end, mark, limit):
    with tempfile.TemporaryDirectory() as folder:
        assert_read_alike(mark + b"\n".join(parts) + end, Path(folder), limit)


def people(count: int) -> bytes:
    """Lines of fragments with all that a fragment can have."""
    records = (
        {
            "id": f"p{n}",
            "properties": {"name": [f"Ann {n // 3}", "Änn"], f"a{n % 7}": [str(n % 5)]},
            **({"vector": [n, 0.5]} if n % 3 == 0 else {}),
            **({"label": str(n // 3)} if n % 2 else {}),
            "source": f"s{n % 3}",
            "metadata": {"row": n, "more": [1.5, {"a": "\\u00e9"}]},
        }
        for n in range(count)
    )
    return b"".join(json.dumps(record).encode() + b"\n" for record in records)


@given(st.randoms(use_true_random=False))
def test_damaged_lines_are_read_alike(random):
    with tempfile.TemporaryDirectory() as folder:
        assert_read_alike(damaged(random, people(8)), Path(folder))


@pytest.mark.parametrize(("workers", "batch"), [(1, 1 << 23), (3, 1 << 23), (3, 1 << 19)])
def test_many_chunks_are_read_alike(tmp_path, monkeypatch, workers, batch):
    monkeypatch.setenv(WORKERS, str(workers))
    monkeypatch.setattr("kbforge.files.lines._BATCH", batch)
    content = people(12_000)
    assert len(content) > 7 * (1 << 18)  # chunks of columns.cpp
    unusual = b'{"entity_id": "e", "metadata": {"fragment_id": 7}, "properties": {"name": ["x"]}}\n'
    at = content.index(b'{"id": "p7000"')
    assert_read_alike(content[:at] + unusual + content[at:], tmp_path)
    wrong = content[:at] + unusual.replace(b'"x"', b"1") + content[at:]
    assert_read_alike(wrong, tmp_path)
    assert_read_alike(wrong, tmp_path, 7_000)
    again = content + b"\n \n" + content[at : content.index(b"\n", at) + 1]
    assert_read_alike(again, tmp_path)
    assert_read_alike(again, tmp_path, 12_000)
    assert_read_alike(again[:at] + again[at + 1 :], tmp_path)  # the earlier fault is told


FRAGMENT = b'{"id": "%s", "properties": {"name": ["%s"]}}\n'


@pytest.mark.parametrize(
    ("content", "wrong"),
    [
        (b"\n" * 60 + FRAGMENT % (b"b", b"y"), ""),
        (b"\n" * 99_999 + FRAGMENT % (b"b", b"y"), ""),
        (b"\n" * 100_001 + FRAGMENT % (b"b", b"y"), ":100002"),
        (b"\n" * 70 + FRAGMENT % (b"b", b"y") + b"\n" * 100_001, ":100073"),
        (b" " * (1 << 24) + b"\n" + FRAGMENT % (b"b", b"y"), ""),
        (b" " * ((1 << 24) + 1) + b"\n" + FRAGMENT % (b"b", b"y"), ":2"),
        (FRAGMENT % (b"b", b"y" * (1 << 24)) + FRAGMENT % (b"c", b"y"), ":2"),
        (FRAGMENT[:-1] % (b"b", b"y" * 65_536), ""),
        (FRAGMENT % (b"b", "é".encode() * 65_536), ""),
        (FRAGMENT % (b"b", b"y" * 65_537), ":2"),
        (FRAGMENT % (b"b" * 4_097, b"y"), ":2"),
        (FRAGMENT % (b"b", b'", "'.join([b"y"] * 10_001)), ":2"),
        (
            FRAGMENT.replace(b"]}", b"], %s}")
            % (b"b", b"y", b", ".join(b'"%d": ["y"]' % n for n in range(1_024))),
            ":2",
        ),
        (b'{"id": "b", "vector": [%s]}\n' % b", ".join([b"1"] * 65_537), ":2"),
        (b'{"id": "b", "metadata": {"a": %s}, "vector": [1e30]}' % (b"[" * 17 + b"]" * 17), ""),
        (b'{"id": "b", "metadata": {"a": %s}, "vector": [1]}' % (b"[" * 300 + b"]" * 300), ":2"),
        (b'{"id": "b", "metadata": {"a": 1, "\\u0061": 2}, "vector": [1]}', ":2"),
        (b'{"id": "b", "metadata": {"a": 36893488147419103232}, "vector": [1]}', ":2"),
        (b'{"id": "b", "vector": [1e999]}', ":2"),
        (b'{"id": "b", "vector": [01]}', ":2"),
    ],
)
def test_limits_are_told_alike(tmp_path, content, wrong):
    content = FRAGMENT % (b"a", b"x") + content
    assert_read_alike(content, tmp_path)
    found = told(lambda: read_columns(str(tmp_path / "fragments.jsonl")))
    assert (wrong in found[1]) if wrong else isinstance(found, list)


@pytest.mark.parametrize("pack", [gzip.compress, bz2.compress])
def test_packed_files_are_read_alike_however_damaged(tmp_path, pack):
    packed = pack(people(3_000))
    assert_read_alike(packed, tmp_path)
    for cut in (1, 200, len(packed) // 2):
        assert_read_alike(packed[:-cut], tmp_path)
    flipped = bytearray(packed)
    flipped[len(packed) // 2] ^= 8
    assert_read_alike(bytes(flipped), tmp_path)


def test_slices_and_rows_are_those_of_a_list(tmp_path):
    path = tmp_path / "people.jsonl"
    path.write_bytes(people(2_100))
    expected = list(read_fragments(str(path)))
    columns = read_columns(str(path))
    empty, one, across = slice(5, 2), slice(9, 1, -3), slice(1_020, 1_030)
    for part in (empty, one, across, slice(-3, None), slice(9_999, None)):
        assert columns[part] == expected[part]
    assert (columns[-1], len(columns)) == (expected[-1], 2_100)
    for row in (2_100, -2_101):
        with pytest.raises(IndexError):
            columns[row]
    assert next(iter(columns)) == expected[0]
    assert columns[1_023] is columns[1_023]  # made with the first ones, and kept
    assert [columns[part] for part in (empty, one, across)] == [
        expected[part] for part in (empty, one, across)
    ]
    assert list(columns) == expected
    assert columns[-1] is columns[-1]
    assert columns[:] is columns
    texts = columns.statements.texts[0]
    assert texts[-1] == list(texts)[-1]
    assert texts[::-2] == list(texts)[::-2]


def test_the_kernel_leaves_only_the_first_of_usual_lines(tmp_path, monkeypatch):
    path, left = tmp_path / "people.jsonl", []
    path.write_bytes(people(500).replace(b': "p', ': "é\\u00e9😀'.encode()))
    expected = list(read_fragments(str(path)))
    monkeypatch.setattr(
        "kbforge.files.lines.located", lambda *a: (left.append(x) or x for x in located(*a))
    )
    assert list(read_columns(str(path))) == expected
    assert len(left) == 1


def test_some_fragments_of_columns_are_made_without_being_kept(tmp_path: Path) -> None:
    rows: list[dict[str, Any]] = [
        {"id": f"f{k}", "properties": {"n": [f"{k % 7}", "é"][: 1 + k % 2]}} for k in range(50)
    ]
    rows[3] |= {"label": "a", "source": "s", "vector": [1.0, 2.0], "metadata": {"row": 4}}
    write_lines(tmp_path / "f.jsonl", rows)
    columns = read_columns(str(tmp_path / "f.jsonl"))
    for chosen in ([], [3], [0, 3, 4, 49], list(range(10, 20))):
        assert columns.some(np.array(chosen, np.int64)) == [columns[k] for k in chosen]
    assert list(columns) == [Fragment.from_json(row, "") for row in rows]
    assert columns.some(np.array([7, 9]))[1] is columns[9]  # all have been gone through


@given(st.lists(st.sampled_from([None, "a", "b", "ä"]), min_size=1))
def test_sources_are_counted_without_fragments(sources):
    rows = [{"id": f"f{k}", "properties": {"n": ["x"]}} for k in range(len(sources))]
    for row, source in zip(rows, sources, strict=True):
        row |= {} if source is None else {"source": source}
    with tempfile.TemporaryDirectory() as folder:
        write_lines(Path(folder) / "f.jsonl", rows)
        columns = read_columns(f"{folder}/f.jsonl")
    expected = Counter(columns[k].source for k in range(len(columns)))
    for most in (1, len(expected)):
        counted = sizes_of_sources(columns, most)
        assert counted == sizes_of_sources([*columns], most)
        assert counted == (expected if len(expected) <= most else {})


def test_a_note_of_tables_makes_no_fragments(tmp_path, monkeypatch):
    rows = [{"id": f"f{k}", "properties": {"n": ["x"]}, "source": f"s/{k}"} for k in range(50)]
    write_lines(tmp_path / "f.jsonl", rows)
    columns = read_columns(str(tmp_path / "f.jsonl"))
    monkeypatch.setattr(FragmentColumns, "_made", None)
    assert duplicates_note(columns, None) == ""
