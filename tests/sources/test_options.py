"""What the tables of people need: encodings, null tokens, flat JSON, several files, dates."""

import gzip
import json

import pytest

from kbforge import registry
from kbforge.registry.options import describe
from kbforge_plugins.sources.rows import NULL
from tests.sources.harness import ADVICE, NEITHER, NO_ID, NO_NUL, NUMBER, ids_in, read


def lines_of(*records):
    return "".join(json.dumps(record) + "\n" for record in records)


def one_of(kind, file, **options):
    """(the only fragment, the source's counts)."""
    (one,), counts = read(kind, file, **options)
    return one, counts


@pytest.mark.parametrize(
    "encoding", ["cp1252", "latin-1", "utf-16", "utf-16-le", "cp037", "ISO8859-15"]
)
@pytest.mark.parametrize("pack", [bytes, gzip.compress])
def test_encodings(written, encoding, pack):
    rows = "".join(f"Jürgen {i},Köln\n" for i in range(20_000))
    file = written(pack(f"name,town\n{rows}".encode(encoding)))
    found, _ = read("csv", file, encoding=encoding)
    assert [f.names for f in found] == [(f"Jürgen {i}",) for i in range(20_000)]
    assert (found[0].place, found[-1].place) == ("in.csv:2", "in.csv:20001")


@pytest.mark.parametrize(
    ("text", "encoding", "options"),
    [
        ('{"id": "a", "properties": {"name": ["Zoë"]}}\n', "cp1252", {}),
        ('{"key": "a", "who": "Zoë"}\n', "utf-16", {"id": "key", "name": "who"}),
    ],
)
def test_encodings_of_json_lines(written, text, encoding, options):
    one, _ = one_of("jsonl", written(text.encode(encoding)), encoding=encoding, **options)
    assert (one.id, one.names) == ("a", ("Zoë",))


def test_a_byte_order_mark_of_utf_8_wins(written):
    one, _ = one_of("csv", written("name\nZoë\n".encode("utf-8-sig")), encoding="cp1252")
    assert one.properties == {"name": ("Zoë",)}


@pytest.mark.parametrize(
    ("encoding", "bad", "got"),
    [
        ("cp1252", b"b,B\x81\n", "the byte 0x81 at character 4"),
        ("ascii", b"b,\xe9\n", "the byte 0xe9 at character 3"),
        ("shift_jis", b"b,\xa0\n", "the byte 0xa0 at character 3"),
        ("utf-16-le", b"b\0,\0\x00\xd8\n\0", "the byte 0x00 at character 3"),
    ],
)
def test_undecodable_bytes_in_the_middle(bad_record, written, encoding, bad, got):
    first, last = "id,name\na,Ann\n".encode(encoding), "c,Cid\n".encode(encoding)
    reader = ["csv", "--id", "id", "--set", f"source.encoding={encoding}"]
    sentence = f"3: expected {encoding} text, got {got}"
    bad_record(reader, written(first + bad + last), sentence, ["a", "c"])


def test_undecodable_json(bad_record, written):
    lines = [b'{"id": "%s", "vector": [1]}' % name for name in (b"a", b"\x81", b"c")]
    reader = ["jsonl", "--set", "source.encoding=cp1252"]
    sentence = "2: expected cp1252 text, got the byte 0x81 at character 9"
    bad_record(reader, written(b"\n".join(lines), "in.jsonl"), sentence, ["a", "c"])


def test_the_options_of_json_lines_speak_of_keys():
    _, options = describe(registry.load("sources", "jsonl"))
    assert {option.name for option in options if "column" in option.help} == set()


def test_values_that_say_nothing(written):
    said = "\n".join(f"p{i},g{i},{token}" for i, token in enumerate(NULL))
    file = written(f"id,label,town\n{said}\n")
    found, counts = read("csv", file, id="id", map=["id=key"])
    assert [f.properties for f in found] == [
        {"key": (f"p{i}",), "label": (f"g{i}",)} for i in range(len(NULL))
    ]
    assert counts == {
        f'values "{token}" read as missing (see --set source.null)': 1 for token in NULL
    }


@pytest.mark.parametrize("name", ["NA", "Nan", "Null", "Unknown Soldier", "na", "Nil", "None-such"])
def test_names_that_look_like_nothing(written, name):
    one, counts = one_of("csv", written(f"name\n{name}\n"))
    assert (one.names, counts) == ((name,), {})


def test_null_is_an_option(written):
    file = written("name,town\nNone,NA\n")
    one, counts = one_of("csv", file, null="")
    assert (one.properties, counts) == ({"name": ("None",), "town": ("NA",)}, {})
    one, _ = one_of("csv", file, null="NA,n/a")
    assert one.properties == {"name": ("None",)}


def test_null_in_lists_labels_and_ids(written):
    file = written("id,gold,name\n-,unknown,Ann;?\n")
    one, _ = one_of("csv", file, id="id", label="gold", separator=";")
    assert (one.id, one.label, one.names) == ("-", None, ("Ann",))


def test_the_report_counts_them(program, written, tmp_path):
    file = written("name,town\nAnn,n/a\nBo,n/a\n")
    ran = program("load", "csv", file, "-o", tmp_path / "out.jsonl")
    assert '  values "n/a" read as missing (see --set source.null): 2' in ran.err.splitlines()


def test_a_row_that_says_nothing_is_a_bad_record(bad_record, written):
    file = written("name,town\nAnn,Rome\n?,-\nBo,Oslo\n")
    bad_record(["csv"], file, f"3: {NEITHER}", ["in-1", "in-3"], b"?,-")


FLAT = lines_of(
    {"key": "a", "name": "Ann", "age": 30, "tags": ["x", "y"], "gold": "g", "ok": True, "no": None},
    {"name": "Bo", "key": "b", "height": 1.5},
)


def test_flat_json_lines(written):
    file = written(FLAT, "in.jsonl")
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


def test_flat_json_like_a_table(written):
    table = written("key,name,x\na,Ann; N/A,1\nb,Bo,2\n")
    records = {"key": "a", "name": "Ann; N/A", "x": "1"}, {"key": "b", "name": "Bo", "x": 2}
    options = {"id": "key", "separator": ";", "vector": "x", "map": ["name=who"]}
    by_table, counts = read("csv", table, **options)
    by_lines, counts_of_lines = read("jsonl", written(lines_of(*records), "in.jsonl"), **options)
    assert [(f.id, f.properties, f.vector) for f in by_table] == [
        (f.id, f.properties, f.vector) for f in by_lines
    ]
    assert counts == counts_of_lines != {}


NESTED = "expected text, a number or a list of these, got "
LEFT_OUT = "(--set source.map={}= leaves the key out)"
BAD_FLAT = {
    "object": ({"home": {"town": "Rome"}}, f"home: {NESTED}an object {LEFT_OUT.format('home')}"),
    "list of objects": ({"a": ["x", {}]}, f"a: {NESTED}an object {LEFT_OUT.format('a')}"),
    "list of lists": ({"a": [["x"]]}, f"a: {NESTED}a list in a list {LEFT_OUT.format('a')}"),
    "id an object": ({"id": {}}, f"id: {NESTED}an object {LEFT_OUT.format('id')}"),
    "id a list": ({"id": ["b", "c"]}, "id: expected one value, got 2"),
    "id missing": ({"id": None}, NO_ID),
    "empty key": ({"": "x"}, "expected a name for every key, got an empty one"),
    "number a word": ({"x": "two"}, f"{NUMBER}two"),
    "number missing": ({"x": None}, f"{NUMBER}nothing"),
    "NUL": ({"name": "a\0"}, rf"properties.name: {NO_NUL}a\x00"),
}


@pytest.mark.parametrize("bad", BAD_FLAT)
def test_bad_flat_records(bad_record, written, bad):
    fields, sentence = BAD_FLAT[bad]
    first, last = ({"id": name, "x": 1, "name": name} for name in "ac")
    file = written(lines_of(first, {"id": "b", "x": 1, **fields}, last), "in.jsonl")
    bad_record(["jsonl", "--id", "id", "--vector", "x"], file, f"2: {sentence}", ["a", "c"])


def test_a_nested_key_may_be_left_out(written):
    file = written(lines_of({"name": "Ann", "home": {"town": [[["Rome"]]]}}), "in.jsonl")
    one, _ = one_of("jsonl", file, map=["home="])
    assert one.properties == {"name": ("Ann",)}


def test_lists_nested_without_end(program, written):
    file = written('{"name": ' + "[" * 900 + '"x"' + "]" * 900 + "}\n", "in.jsonl")
    ran = program("load", "jsonl", file, "--name", "name")
    assert ran.code == 1
    assert ran.err.endswith(
        f"a list in a list (--set source.map=name= leaves the key out); {ADVICE}\n"
    )


def test_a_key_that_no_line_has(refused, written):
    sentence = 'FILE: expected the key "nmae", got none'
    refused(["jsonl", "--name", "nmae"], written(FLAT, "in.jsonl"), sentence)


def test_more_shapes_than_are_remembered(written):
    file = written(lines_of(*({"id": i, f"k{i}": "v"} for i in range(600))), "in.jsonl")
    found, _ = read("jsonl", file, id="id")
    assert [(f.id, f.properties) for f in found] == [
        (str(i), {f"k{i}": ("v",)}) for i in range(600)
    ]


def test_ids_of_several_files(program, written, tmp_path):
    one, two = written("id,name\n1,Ann\n", "one.csv"), written("id,name\n1,Bo\n", "two.csv")
    output = tmp_path / "out.jsonl"
    command = ("load", "csv", one, two, "--id", "id", "-o", output)
    ran = program(*command)
    assert ran.code == 1
    assert ran.err == f'kbforge: {two}:2: id: expected a unique id, got "1" again; {ADVICE}\n'
    assert program(*command, "--set", "source.prefix=true").code == 0
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
        *((c, c) for c in ("1987", "19870301", "1e308", "-45123", "012345", "2023-07-16", "٤٥١٢٣")),
    ],
)
def test_serial_dates(written, cell, date):
    one, counts = one_of("csv", written(f"born,zip\n{cell},45123\n"), serial_dates="born")
    assert one.properties == {"born": (date,), "zip": ("45123",)}
    assert counts == ({"serial numbers of spreadsheets read as dates": 1} if date != cell else {})


def test_likely_serial_dates_are_told_and_kept(written):
    file = written("date_of_birth,zip,update\n45123,45123,45123\n1987,1,1\n")
    (one, _), counts = read("csv", file)
    assert one.properties["date_of_birth"] == ("45123",)
    assert counts == {
        "numbers in date_of_birth that look like a spreadsheet's dates "
        "(--set source.serial_dates=date_of_birth reads them)": 1
    }


@pytest.mark.parametrize(
    ("header", "options", "sentence"),
    [
        ("id,name", ["serial_dates=nope"], 'a column "nope", got the columns id, name'),
    ],
)
def test_columns_of_an_option(refused, written, header, options, sentence):
    reader = ["csv", *(text for option in options for text in ("--set", f"source.{option}"))]
    refused(reader, written(f"{header}\n45123,?\n"), f"FILE:1: expected {sentence}")
