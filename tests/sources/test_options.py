"""What the tables of people need: encodings, null tokens, flat JSON, several files, dates."""

from __future__ import annotations

import gzip
import json

import pytest

from kbforge import registry
from kbforge.files.fragments import stop
from kbforge_plugins.sources.rows import NULL
from tests.sources.harness import check_bad_record, check_refused, ids_in


def read(kind, *files, **options):
    source = registry.create("sources", kind, options)
    found = list(source.read([str(f) for f in files], stop))
    return found, source.counts


def write(path, content, encoding="utf-8"):
    path.write_bytes(content.encode(encoding))
    return path


def json_lines(path, *records):
    path.write_text("".join(json.dumps(record) + "\n" for record in records))
    return path


@pytest.mark.parametrize(
    "encoding", ["cp1252", "latin-1", "utf-16", "utf-16-le", "cp037", "ISO8859-15"]
)
@pytest.mark.parametrize("pack", [bytes, gzip.compress])
def test_encodings(tmp_path, encoding, pack):
    rows = "".join(f"Jürgen {i},Köln\n" for i in range(20_000))
    file = tmp_path / "in.csv"
    file.write_bytes(pack(f"name,town\n{rows}".encode(encoding)))
    found, _ = read("csv", file, encoding=encoding)
    assert [f.names for f in found] == [(f"Jürgen {i}",) for i in range(20_000)]
    assert (found[0].place, found[-1].place) == ("in.csv:2", "in.csv:20001")


def test_encodings_of_json_lines(tmp_path):
    text = '{"id": "a", "properties": {"name": ["Zoë"]}}\n'
    (one,), _ = read("jsonl", write(tmp_path / "in.jsonl", text, "cp1252"), encoding="cp1252")
    assert one.names == ("Zoë",)
    text = '{"key": "a", "who": "Zoë"}\n'
    file = write(tmp_path / "flat.jsonl", text, "utf-16")
    (one,), _ = read("jsonl", file, encoding="utf-16", id="key", name="who")
    assert (one.id, one.names) == ("a", ("Zoë",))


def test_a_byte_order_mark_of_utf_8_wins(tmp_path):
    file = write(tmp_path / "in.csv", "name\nZoë\n", "utf-8-sig")
    (one,), _ = read("csv", file, encoding="cp1252")
    assert one.properties == {"name": ("Zoë",)}


@pytest.mark.parametrize(
    ("encoding", "bad", "got"),
    [
        ("cp1252", b"b,B\x81\n", "the byte 0x81 at character 4"),
        ("ascii", b"b,\xe9\n", "the byte 0xe9 at character 3"),
        ("shift_jis", b"b,\xa0\n", "the byte 0xa0 at character 3"),
        ("utf-16-le", "b,".encode("utf-16-le") + b"\x00\xd8" + b"\n\0", "the byte 0x00"),
    ],
)
def test_undecodable_bytes_in_the_middle(program, tmp_path, encoding, bad, got):
    file = tmp_path / "in.csv"
    first, last = "id,name\na,Ann\n".encode(encoding), "c,Cid\n".encode(encoding)
    file.write_bytes(first + bad + last)
    reader = ["csv", "--id", "id", "--set", f"source.encoding={encoding}"]
    if encoding == "utf-16-le":
        got += " at character 3"
    check_bad_record(program, reader, file, f"3: expected {encoding} text, got {got}", ["a", "c"])


def test_undecodable_json(program, tmp_path):
    file = tmp_path / "in.jsonl"
    lines = [b'{"id": "%s", "vector": [1]}' % name for name in (b"a", b"\x81", b"c")]
    file.write_bytes(b"\n".join(lines))
    reader = ["jsonl", "--set", "source.encoding=cp1252"]
    sentence = "2: expected cp1252 text, got the byte 0x81 at character 9"
    check_bad_record(program, reader, file, sentence, ["a", "c"])


@pytest.mark.parametrize(
    "name", ["klingon", "hex", "rot13", "idna", "unicode_escape", "utf-7", "\x1b", ""]
)
@pytest.mark.parametrize("kind", ["csv", "jsonl"])
def test_no_such_encoding(program, tmp_path, kind, name):
    if (kind, name) == ("csv", ""):
        return  # means that it is to be found out
    file = write(tmp_path / "in", "name\nAnn\n")
    shown = name.replace("\x1b", "\\x1b")
    sentence = (
        f'encoding: expected a text encoding such as cp1252, latin-1 or utf-16, got "{shown}"'
    )
    check_refused(program, [kind, "--set", f"source.encoding={name}"], file, sentence, code=2)


def test_values_that_say_nothing(tmp_path):
    said = "\n".join(f"p{i},g{i},{token}" for i, token in enumerate(NULL))
    file = write(tmp_path / "in.csv", f"id,label,town\n{said}\n")
    found, counts = read("csv", file, id="id", map=["id=key"])
    assert [f.properties for f in found] == [
        {"key": (f"p{i}",), "label": (f"g{i}",)} for i in range(len(NULL))
    ]
    assert counts == {
        f'values "{token}" read as missing (see --set source.null)': 1 for token in NULL
    }


@pytest.mark.parametrize("name", ["NA", "Nan", "Null", "Unknown Soldier", "na", "Nil", "None-such"])
def test_names_that_look_like_nothing(tmp_path, name):
    (one,), counts = read("csv", write(tmp_path / "in.csv", f"name\n{name}\n"))
    assert (one.names, counts) == ((name,), {})


def test_null_is_an_option(tmp_path):
    file = write(tmp_path / "in.csv", "name,town\nNone,NA\n")
    (one,), counts = read("csv", file, null="")
    assert (one.properties, counts) == ({"name": ("None",), "town": ("NA",)}, {})
    (one,), _ = read("csv", file, null="NA,n/a")
    assert one.properties == {"name": ("None",)}


def test_null_in_lists_labels_and_ids(tmp_path):
    file = write(tmp_path / "in.csv", "id,gold,name\n-,unknown,Ann;?\n")
    (one,), _ = read("csv", file, id="id", label="gold", separator=";")
    assert (one.id, one.label, one.names) == ("-", None, ("Ann",))


def test_the_report_counts_them(program, tmp_path):
    file = write(tmp_path / "in.csv", "name,town\nAnn,n/a\nBo,n/a\n")
    ran = program("load", "csv", file, "-o", tmp_path / "out.jsonl")
    assert '  2 values "n/a" read as missing (see --set source.null)' in ran.err.splitlines()


def test_a_row_that_says_nothing_is_a_bad_record(program, tmp_path):
    file = write(tmp_path / "in.csv", "name,town\nAnn,Rome\n?,-\nBo,Oslo\n")
    sentence = "3: properties: expected at least one property or a vector, got neither"
    check_bad_record(program, ["csv"], file, sentence, ["in-1", "in-3"], b"?,-")


FLAT = [
    {"key": "a", "name": "Ann", "age": 30, "tags": ["x", "y"], "gold": "g", "ok": True, "no": None},
    {"name": "Bo", "key": "b", "height": 1.5},
]


def test_flat_json_lines(tmp_path):
    file = json_lines(tmp_path / "in.jsonl", *FLAT)
    (one, two), _ = read("jsonl", file, id="key", label="gold", map=["tags=tag", "age="])
    assert one.to_json() == {
        "id": "a",
        "properties": {"name": ["Ann"], "tag": ["x", "y"], "ok": ["true"]},
        "label": "g",
        "source": "in.jsonl",
        "metadata": {"row": 1},
    }
    assert two.properties == {"name": ("Bo",), "height": ("1.5",)}
    (one, _), _ = read("jsonl", file, map=["name=who"])
    assert (one.id, one.properties["who"]) == ("in-1", ("Ann",))


def test_flat_json_like_a_table(tmp_path):
    table = write(tmp_path / "in.csv", "key,name,x\na,Ann; N/A,1\nb,Bo,2\n")
    lines = json_lines(
        tmp_path / "in.jsonl",
        {"key": "a", "name": "Ann; N/A", "x": "1"},
        {"key": "b", "name": "Bo", "x": 2},
    )
    options = {"id": "key", "separator": ";", "vector": "x", "map": ["name=who"]}
    by_table, by_lines = read("csv", table, **options), read("jsonl", lines, **options)
    assert [(f.id, f.properties, f.vector) for f in by_table[0]] == [
        (f.id, f.properties, f.vector) for f in by_lines[0]
    ]
    assert by_table[1] == by_lines[1] != {}


LEAVE, OUT = "--map", "leaves the key out"
NESTED = "expected text, a number or a list of these, got "
BAD_FLAT = {
    "object": ({"home": {"town": "Rome"}}, f"home: {NESTED}an object ({LEAVE} home= {OUT})"),
    "list of objects": ({"a": ["x", {}]}, f"a: {NESTED}an object ({LEAVE} a= {OUT})"),
    "list of lists": ({"a": [["x"]]}, f"a: {NESTED}a list in a list ({LEAVE} a= {OUT})"),
    "id an object": ({"id": {}}, f"id: {NESTED}an object ({LEAVE} id= {OUT})"),
    "id a list": ({"id": ["b", "c"]}, "id: expected one value, got 2"),
    "id missing": ({"id": None}, "id: expected a string, got nothing"),
    "empty key": ({"": "x"}, "expected a name for every column, got none for column 3"),
    "number a word": ({"x": "two"}, "x: expected a finite number, got two"),
    "number missing": ({"x": None}, "x: expected a finite number, got nothing"),
    "NUL": ({"name": "a\0"}, r"properties.name: expected text without NUL characters, got a\x00"),
}  # fmt: skip


@pytest.mark.parametrize("bad", BAD_FLAT)
def test_bad_flat_records(program, tmp_path, bad):
    fields, sentence = BAD_FLAT[bad]
    middle = {"id": "b", "x": 1, **fields}
    good = [{"id": name, "x": 1, "name": name} for name in "ac"]
    file = json_lines(tmp_path / "in.jsonl", good[0], middle, good[1])
    reader = ["jsonl", "--id", "id", "--vector", "x"]
    check_bad_record(program, reader, file, f"2: {sentence}", ["a", "c"])


def test_a_nested_key_may_be_left_out(tmp_path):
    file = json_lines(tmp_path / "in.jsonl", {"name": "Ann", "home": {"town": [[["Rome"]]]}})
    (one,), _ = read("jsonl", file, map=["home="])
    assert one.properties == {"name": ("Ann",)}


def test_lists_nested_without_end(program, tmp_path):
    file = tmp_path / "in.jsonl"
    file.write_text('{"name": ' + "[" * 900 + '"x"' + "]" * 900 + "}\n")
    ran = program("load", "jsonl", file, "--name", "name")
    assert ran.code == 1
    assert ran.err.endswith("a list in a list (--map name= leaves the key out)\n")


def test_a_key_that_no_line_has(program, tmp_path):
    file = json_lines(tmp_path / "in.jsonl", *FLAT)
    sentence = f'{file}: expected the key "nmae", got none'
    check_refused(program, ["jsonl", "--name", "nmae"], file, sentence)


def test_more_shapes_than_are_remembered(tmp_path):
    file = json_lines(tmp_path / "in.jsonl", *({"id": i, f"k{i}": "v"} for i in range(600)))
    found, _ = read("jsonl", file, id="id")
    assert [(f.id, f.properties) for f in found] == [
        (str(i), {f"k{i}": ("v",)}) for i in range(600)
    ]


def test_ids_of_several_files(program, tmp_path):
    one = write(tmp_path / "one.csv", "id,name\n1,Ann\n")
    two = write(tmp_path / "two.csv", "id,name\n1,Bo\n")
    output = tmp_path / "out.jsonl"
    ran = program("load", "csv", one, two, "--id", "id", "-o", output)
    assert ran.code == 1
    assert ran.err == f'kbforge: {two}:2: id: expected a unique id, got "1" again\n'
    command = ("load", "csv", one, two, "--id", "id", "--set", "source.prefix=true", "-o", output)
    assert program(*command).code == 0
    assert ids_in(output) == ["one-1", "two-1"]
    sources = [json.loads(line)["source"] for line in output.read_text().splitlines()]
    assert sources == ["one.csv", "two.csv"]


@pytest.mark.parametrize(
    ("cell", "date"),
    [
        ("45123", "2023-07-16"),
        ("45123.0", "2023-07-16"),
        ("45123.75", "2023-07-16T18:00:00"),
        ("10000", "1927-05-18"),
        ("99999", "2173-10-13"),
        ("1987", "1987"),
        ("19870301", "19870301"),
        ("1e308", "1e308"),
        ("-45123", "-45123"),
        ("012345", "012345"),
        ("2023-07-16", "2023-07-16"),
        ("٤٥١٢٣", "٤٥١٢٣"),
    ],
)
def test_serial_dates(tmp_path, cell, date):
    file = write(tmp_path / "in.csv", f"born,zip\n{cell},45123\n")
    (one,), counts = read("csv", file, serial_dates="born")
    assert one.properties == {"born": (date,), "zip": ("45123",)}
    assert counts == ({"serial numbers of spreadsheets read as dates": 1} if date != cell else {})


def test_likely_serial_dates_are_told_and_kept(tmp_path):
    file = write(tmp_path / "in.csv", "date_of_birth,zip,update\n45123,45123,45123\n1987,1,1\n")
    (one, _), counts = read("csv", file)
    assert one.properties["date_of_birth"] == ("45123",)
    assert counts == {
        "numbers in date_of_birth that look like a spreadsheet's dates "
        "(--set source.serial_dates=date_of_birth reads them)": 1
    }


@pytest.mark.parametrize(
    ("option", "sentence"),
    [
        ("prefix=perhaps", "source csv: prefix: expected true or false, got perhaps"),
        ("serial_dates=nope", '{file}:1: expected a column "nope", got the columns id, name'),
    ],
)
def test_bad_options(program, tmp_path, option, sentence):
    file = write(tmp_path / "in.csv", "id,name\n1,Ann\n")
    ran = program("load", "csv", file, "--set", f"source.{option}")
    assert ran.code in (1, 2)
    assert ran.err == f"kbforge: {sentence.format(file=file)}\n"


def test_columns_that_repeat_are_refused_whatever_the_options(program, tmp_path):
    file = write(tmp_path / "in.csv", "born,born\n45123,?\n")
    reader = ["csv", "--set", "source.serial_dates=born", "--set", "source.null=?"]
    sentence = f'{file}:1: expected distinct column names, got "born" 2 times'
    check_refused(program, reader, file, sentence)
