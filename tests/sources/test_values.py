"""JSON values of a file, in whatever layout: lines, arrays, objects over several lines."""

from __future__ import annotations

import bz2
import gzip
import io
import itertools
import json
import sys
import tracemalloc
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from kbforge_plugins.sources.values import _streamed, _Window, json_values

PEOPLE = [{"id": i, "name": f'Zoë [{{"\\ {i}', "tags": [{"a": i}, []]} for i in range(4)]


def read(path: Path, **options):
    """([(number, line, value)], [(sentence without the file, raw)])."""
    bad = []
    found = list(json_values(str(path), lambda e, raw: bad.append((str(e), raw)), **options))
    values = [(v.number, v.where.removeprefix(f"{path}:"), v.value) for v in found]
    return values, [(text.removeprefix(f"{path}:"), raw) for text, raw in bad]


def dump(values: object) -> str:
    """An array of one element a line, as Wikidata's dumps are."""
    assert isinstance(values, list)
    return "[\n" + ",\n".join(map(json.dumps, values)) + "\n]\n"


LAYOUTS = {
    "one line": json.dumps,
    "indented": lambda values: json.dumps(values, indent=2, ensure_ascii=False),
    "no indentation": lambda values: json.dumps(values, indent=0),
    "dump": dump,
    "first on the line of the bracket": lambda values: (
        "[" + ",\r\n".join(map(json.dumps, values)) + "]"
    ),
    "lines": lambda values: "\n".join(map(json.dumps, values)),
    "objects over several lines": lambda values: "\n".join(
        json.dumps(value, indent=4) for value in values
    ),
}


@pytest.mark.parametrize("layout", LAYOUTS)
@pytest.mark.parametrize("pack", [bytes, gzip.compress, bz2.compress])
def test_every_layout(written, layout, pack):
    file = written(pack(LAYOUTS[layout](PEOPLE).encode()), "in.json")
    values, bad = read(file)
    assert ([value for _, _, value in values], bad) == (PEOPLE, [])
    numbers = [number for number, _, _ in values]
    assert numbers == ([2, 3, 4, 5] if layout == "dump" else [1, 2, 3, 4])


@pytest.mark.parametrize("encoding", ["utf-8-sig", "utf-16", "cp1252"])
def test_encodings(written, encoding):
    text = LAYOUTS["indented"](PEOPLE).encode(encoding)
    values, bad = read(written(text, "in.json"), encoding=encoding.removesuffix("-sig"))
    assert ([value for _, _, value in values], bad) == (PEOPLE, [])


def test_places(written):
    values, _ = read(written('[\n {"a": 1},\n\n {"a": 2}, {"a": 3}\n]', "in.json"))
    assert [where for _, where, _ in values] == ["2", "4", "4, record 3"]


JSON = st.recursive(
    st.none() | st.booleans() | st.integers(-(2**63), 2**63 - 1) | st.text(max_size=9),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=4), inner),
    max_leaves=6,
)
OBJECTS = st.lists(st.dictionaries(st.text(max_size=4), JSON, min_size=1), max_size=5)


@given(OBJECTS, st.sampled_from([json.dumps, LAYOUTS["indented"]]), st.integers(1, 9))
def test_any_values_in_any_portions(values, layout, step):
    class Dripping(io.BytesIO):
        def read(self, size=-1):
            return super().read(step)

    def refuse(error, raw):
        raise error

    window = _Window(Dripping(layout(values).encode(errors="surrogatepass")), "in")
    assert [value.value for value in _streamed(window, "utf-8", refuse)] == values


BROKEN = '{"a": 2'
BAD = {
    "cut, in a dump": ("[\n{good},\n" + BROKEN + ",\n{good}\n]\n", 3, "a JSON object, got invalid"),
    "cut, indented": (
        '[\n  {good},\n  {\n    "a": [\n  },\n  {good}\n]\n',
        3,
        "a JSON value, got invalid JSON on line 5 (expecting value)",
    ),
    "not UTF-8": ('[{good},\n{"a": "\udcff"},\n{good}]', 2, "UTF-8 text, got the byte 0xff at"),
    "a word": ("[{good}, nil,\n{good}]", 1, "a JSON value, got invalid JSON on line 1 (expecting"),
    "two colons": ('[{good},\n{"a":: 1},\n{good}]', 2, "a JSON value, got invalid JSON on line 2"),
    "infinity": ('[{good},\n{"a": 1e999},\n{good}]', 2, "a JSON object, got invalid JSON at col"),
    "a key twice": ('[{good},\n{"a": 1, "a": 2},\n{good}]', 2, 'distinct keys, got "a" 2 times'),
    "too deep": ("[{good},\n" + "[" * 3000 + ",\n{good}]", 2, "objects and arrays nested at most"),
    "too long": (
        '[{good},\n{"a": "' + "x" * (17 << 20) + "},\n{good}]",
        2,
        "a value of at most 16,777,216 characters, got a longer one",
    ),
}


@pytest.mark.parametrize("bad", BAD)
def test_a_bad_value_costs_itself_alone(written, bad):
    text, line, sentence = BAD[bad]
    good = '{"a": 1}'
    content = text.replace("{good}", good).encode(errors="surrogateescape")
    values, errors = read(written(content, "in.json"))
    assert [value for _, _, value in values] == [{"a": 1}] * 2
    ((said, raw),) = errors
    assert said.startswith(f"{line}")
    assert f": expected {sentence}" in said
    assert raw
    assert raw.strip() in content


@pytest.mark.parametrize(
    ("text", "count", "sentence"),
    [
        ('[{"a": 1}, {"a": 2', 1, "1, record 2: expected a whole JSON value, got the end of the"),
        ('[{"a": 1},', 1, "1: expected ] at the end of the array, got the end of the file"),
        ('[\n{"a": 1},\n', 1, "2: expected ] at the end of the array, got the end of the file"),
        ('{\n  "a": "', 0, "1: expected a whole JSON value, got the end of the file"),
        ('[{"a": 1}, {"a": 2 {"a": 3}]', 1, "1, record 2: expected a JSON value, got invalid"),
        ("[", 0, "1: expected ] at the end of the array, got the end of the file"),
    ],
)
def test_a_cut_file_is_one_sentence(written, text, count, sentence):
    values, ((said, _),) = read(written(text, "in.json"))
    assert len(values) == count
    assert said.startswith(sentence)


@pytest.mark.slow
@pytest.mark.parametrize("pack", [gzip.compress, bz2.compress])
def test_a_damaged_file_keeps_what_is_before(written, pack):
    packed = pack(json.dumps([{"a": i} for i in range(200_000)]).encode())
    values, ((said, _),) = read(written(packed[:-2_000], "in.json"))
    assert [value["a"] for _, _, value in values] == list(range(len(values)))
    assert len(values) > 1_000
    assert "expected a whole file, got a damaged or truncated one" in said


@pytest.mark.parametrize("layout", ["one line", "indented", "dump"])
def test_memory_does_not_grow(written, layout):
    peaks = []
    for n in (2_000, 20_000):
        content = LAYOUTS[layout]([{"id": i, "name": "x" * 200} for i in range(n)])
        file = written(content, f"{n}.json")
        tracemalloc.start()
        assert sum(1 for _ in json_values(str(file), pytest.fail)) == n
        peaks.append(tracemalloc.get_traced_memory()[1])
        tracemalloc.stop()
    assert peaks[1] < peaks[0] + (1 << 20)


def test_values_come_before_an_endless_array_ends(monkeypatch):
    class Endless(io.RawIOBase):
        def readable(self):
            return True

        def readinto(self, buffer):
            text = b'{"a": 1}, ' if self.begun else b"["
            self.begun = True
            buffer[: len(text)] = text
            return len(text)

        begun = False

    monkeypatch.setattr(sys, "stdin", io.TextIOWrapper(io.BufferedReader(Endless())))
    values = list(itertools.islice(json_values("-", pytest.fail), 1_000))
    assert [value.number for value in values] == list(range(1, 1_001))


def test_a_table_in_an_array(program, written, tmp_path):
    rows = [{"key": "a", "who": "Ann", "gold": "g"}, {"key": "b", "who": "Bo", "age": 30}]
    output = tmp_path / "out.jsonl"
    for layout in LAYOUTS.values():
        file = written(layout(rows), "in.json")
        ran = program(
            *("load", file, "--id", "key", "--label", "gold", "--map", "who=name", "-o", output)
        )
        assert ran.code == 0
        one, two = map(json.loads, output.read_text().splitlines())
        assert (one["id"], one["label"], one["properties"]) == ("a", "g", {"name": ["Ann"]})
        assert two["properties"] == {"name": ["Bo"], "age": ["30"]}
        assert two["source"] == "in.json"


def test_fragments_in_an_array(program, written, tmp_path):
    fragments = [{"id": f"f{i}", "properties": {"name": ["Ann"]}} for i in range(3)]
    ran = program("load", written(json.dumps(fragments), "in.json"), "-o", "-")
    assert [json.loads(line) for line in ran.out.splitlines()] == fragments


def test_an_array_of_objects_without_options_says_what_to_do(program, written):
    file = written('[{"name": "Ann"}]', "in.json")
    ran = program("load", file, "-o", "-")
    assert ran.code == 1
    assert ran.err.endswith(
        "got one JSON array; kbforge load jsonl "
        f"{file} --id KEY -o in.fragments.jsonl turns it into fragments\n"
    )


def test_a_bad_element(bad_record, written):
    file = written('[{"id": "a", "n": 1}, {"id": "b", "n": {}}, {"id": "c", "n": 1}]', "in.json")
    sentence = (
        "1, record 2: n: expected text, a number or a list of these, got an object "
        "(--set source.map=n= leaves the key out)"
    )
    bad_record(["jsonl", "--id", "id"], file, sentence, ["a", "c"])
