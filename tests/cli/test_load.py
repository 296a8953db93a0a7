"""`kbforge load`: options, summaries, limits and the quarantine."""

from __future__ import annotations

import json
import re

import pytest

from kbforge import registry
from kbforge.files.fragments import distinct, first, located
from kbforge.files.io import read_lines
from kbforge.version import DISTRIBUTION
from tests.sources.harness import ADVICE, ids_in

PEOPLE = "pid,first,last,town,x,y\np1,Ann,Lee,Rome; Oslo,1,2\np2,Bo,Ray,,3,4\n"


@pytest.fixture
def people(tmp_path):
    path = tmp_path / "people.csv"
    path.write_text(PEOPLE)
    return path


def test_column_options(program, people):
    ran = program(
        "load", "csv", people, "--id", "pid", "--label", "last", "--name", "first",
        "--map", "town=place", "--separator", ";", "--vector", "x,y",
    )  # fmt: skip
    assert ran.lines == [
        {
            "id": "p1",
            "properties": {"name": ["Ann"], "place": ["Rome", "Oslo"]},
            "vector": [1.0, 2.0],
            "label": "Lee",
            "source": "people.csv",
            "metadata": {"row": 2},
        },
        {
            "id": "p2",
            "properties": {"name": ["Bo"]},
            "vector": [3.0, 4.0],
            "label": "Ray",
            "source": "people.csv",
            "metadata": {"row": 3},
        },
    ]


def test_set_does_the_same(program, people):
    by_option = program("load", "csv", people, "--id", "pid", "--vector", "x,y")
    by_set = program("load", "csv", people, "--set", "source.id=pid", "--set", "source.vector=x,y")
    assert by_option.out == by_set.out != b""


def test_messages_go_to_stderr(program, people):
    ran = program("load", "csv", people, "--id", "pid")
    assert ran.ids == ["p1", "p2"]
    assert ran.err.startswith("2 fragments in ")


def test_a_limit_ends_before_the_bad_line(program, people, tmp_path):
    assert program("load", "csv", people, "--id", "pid", "--limit", 1).ids == ["p1"]
    assert program("load", "csv", people, "--limit", 0).ids == []
    file = tmp_path / "in.jsonl"
    file.write_text('{"id": "a", "vector": [1]}\noops\n')
    assert program("load", "jsonl", file, "--limit", 1).ids == ["a"]


def test_summary(program, tmp_path):
    file, output = tmp_path / "in.tsv", tmp_path / "out.jsonl"
    file.write_text("1\tAda\t0\t3\tQ7\t3\n2\tNO_PHRASE\t-1\t-1\tNO_ENTITY\t-1\nbad\n")
    aside = tmp_path / "aside.jsonl"
    ran = program("load", "tweetnerd", file, "-o", output, "--quarantine", aside, "--json")
    summary = ran.json
    assert summary.pop("seconds") >= 0
    assert summary == {
        "fragments": 1,
        "set_aside": 1,
        "counts": {"tweets without an entity": 1},
        "output": str(output),
        "quarantine": str(aside),
    }


def test_plain_summary_names_filtered_and_set_aside(program, tmp_path):
    file, output = tmp_path / "in.tsv", tmp_path / "out.jsonl"
    file.write_text("2\tNO_PHRASE\t-1\t-1\tNO_ENTITY\t-1\nbad\n")
    ran = program("load", "tweetnerd", file, "-o", output, "--on-error", "quarantine")
    _, *rest = ran.err.splitlines()
    assert rest == [
        "  tweets without an entity: 1",
        f"1 bad record set aside in {output}.quarantine.jsonl",
    ]


def test_quarantine_shows_bytes_and_reason(program, tmp_path):
    file, output = tmp_path / "in.jsonl", tmp_path / "out.jsonl"
    file.write_bytes(b'{"id": "\xff"}\n')
    ran = program("load", "jsonl", file, "-o", output, "--on-error", "quarantine")
    assert ran.code == 1  # there was no other record
    record = json.loads((tmp_path / "out.jsonl.quarantine.jsonl").read_text())
    assert record == {
        "where": f"{file}:1",
        "reason": f"{file}:1: expected UTF-8 text, got the byte 0xff at byte 9 "
        "(if the file comes from a spreadsheet, try --set source.encoding=cp1252)",
        "raw": '{"id": "\\xff"}',
    }


@pytest.mark.parametrize("again", [("--on-error", "quarantine"), ()])
def test_a_clean_run_removes_the_quarantine(program, tmp_path, again):
    """What an earlier run left there would be taken for this one's."""
    file, output = tmp_path / "in.jsonl", tmp_path / "out.jsonl"
    aside = tmp_path / "out.jsonl.quarantine.jsonl"
    good = '{"id": "a", "vector": [1]}\n'
    file.write_text(f"oops\n{good}")
    program("load", "jsonl", file, "-o", output, "--on-error", "quarantine")
    assert aside.exists()
    file.write_text(good)
    program("load", "jsonl", file, "-o", output, *again)
    assert ids_in(output) == ["a"]
    assert not aside.exists()


def test_a_file_that_only_has_the_name_of_a_quarantine_stays(program, tmp_path):
    file, aside = tmp_path / "in.jsonl", tmp_path / "out.jsonl.quarantine.jsonl"
    file.write_text('{"id": "a", "vector": [1]}\n')
    aside.write_text('{"id": "mine"}\n')
    program("load", "jsonl", file, "-o", tmp_path / "out.jsonl")
    assert aside.read_text() == '{"id": "mine"}\n'


def test_a_file_of_bad_records_only_is_an_error(program, tmp_path):
    file, output = tmp_path / "in.jsonl", tmp_path / "out.jsonl"
    file.write_text("oops\nworse\n")
    output.write_text("before")
    ran = program("load", "jsonl", file, "-o", output, "--on-error", "quarantine")
    assert ran.code == 1
    assert ran.err == (
        f"kbforge: no fragments, and {output} was not written: of {file} every record is bad, "
        f"2 records set aside in {output}.quarantine.jsonl\n"
    )
    assert output.read_text() == "before"
    assert len((tmp_path / "out.jsonl.quarantine.jsonl").read_bytes().splitlines()) == 2


@pytest.mark.parametrize("limit", [2**63, 10**40])
def test_a_limit_beyond_64_bits_is_refused(program, tmp_path, limit):
    file = tmp_path / "in.jsonl"
    file.write_text('{"id": "a", "vector": [1]}\n')
    assert program("load", "jsonl", file, "--limit", 2**63 - 1).ids == ["a"]
    ran = program("load", "jsonl", file, "--limit", limit)
    ran.require_refusal("--limit: expected a whole number of 64 bits, got ", 2)


DEEP = '{"id": "deep", "vector": [1], "metadata": ' + '{"a": ' * 300 + "1" + "}" * 301


def test_metadata_that_nest_too_deep_are_a_bad_record(program, tmp_path):
    file, output = tmp_path / "in.jsonl", tmp_path / "out.jsonl"
    file.write_text(f'{DEEP}\n{{"id": "a", "properties": {{"name": ["Ann Lee"]}}}}\n')
    where = f"kbforge: {file}:1: "
    for verb in (
        ("load", "jsonl", file),
        ("cluster", file),
    ):
        ran = program(*verb, "-o", output)
        assert (ran.code, ran.err.startswith(where)) == (1, True), ran.err
        assert ran.err.count("\n") == 1
    ran = program("load", "jsonl", file, "-o", output, "--on-error", "quarantine")
    assert ids_in(output) == ["a"]


@pytest.mark.parametrize(
    "line",
    [
        '{"id": "a", "vector": [1], "id": "b"}',
        '{"id": "a", "vector": [1], "\\u0069d": "b"}',
        '{"id": "a", "properties": {"name": ["x"], "name": ["http://y"]}}',
        '{"id": "a", "vector": [1], "metadata": {"k": [{"at": "12:30", "at": "12:31"}]}}',
        '{"id": "a", "vector": [1], "source": "x\\u003ay", "source": "x"}',
        '{"id": "a", "vector": [1], "source": "x\\u003Ay", "metadata": {"b": 1, "b": 2}}',
    ],
)
def test_a_repeated_key_is_a_bad_record(program, tmp_path, line):
    file = tmp_path / "in.jsonl"
    file.write_text(f"{line}\n")
    ran = program("load", "jsonl", file)
    assert (ran.code, ran.out) == (1, b"")
    assert ran.err.startswith(f"kbforge: {file}:1: expected distinct keys, got ")
    assert ran.err.endswith(f" 2 times; {ADVICE}\n")


@pytest.mark.parametrize(
    "line",
    [
        '{"id": "a:b", "vector": [1], "metadata": {"a": {"id": "a"}, "b": [{"id": "::"}]}}',
        '{"id": "a", "vector": [1], "source": "x\\u003ay:\\u003c"}',
        '{"id": "a", "vector": [1], "source": "\\\\u003a", "metadata": {"a:": ":"}}',
    ],
)
def test_colons_and_keys_of_other_objects_are_no_repeats(program, tmp_path, line):
    file = tmp_path / "in.jsonl"
    file.write_text(f"{line}\n")
    assert program("load", "jsonl", file).lines == [json.loads(line) | {"properties": {}}]


def test_an_old_output_survives_a_failed_run(program, tmp_path):
    file, output = tmp_path / "in.jsonl", tmp_path / "out.jsonl"
    output.write_text("precious\n")
    file.write_text("oops\n")
    assert program("load", "jsonl", file, "-o", output).code == 1
    assert output.read_text() == "precious\n"


def test_a_file_is_not_loaded_onto_itself(program, tmp_path):
    file = tmp_path / "f.jsonl"
    line = '{"entity_id": "Q1", "properties": {"name": ["A"]}, "metadata": {"id": 5}}\n'
    file.write_text(line)
    ran = program("load", "jsonl", file, "-o", file)
    assert ran.code == 2
    assert "is an input, which it would replace" in ran.err
    assert file.read_text() == line


def test_pipes_and_same_input_same_bytes(program, people):
    assert program("load", "csv", people).out == program("load", "csv", people).out
    first = program("load", "csv", "-", "--id", "pid", stdin=PEOPLE.encode())
    second = program("load", "jsonl", "-", stdin=first.out)
    assert second.out == first.out
    assert second.ids == ["p1", "p2"]


def test_fragments_are_limited_and_bad_ones_handed_on(tmp_path):
    file = tmp_path / "f.jsonl"
    good = '{"id": "%s", "vector": [1]}\n'
    file.write_text(good % "a" + "oops\n" + good % "a" + good % "b" + good % "c")
    bad = []

    def set_aside(error, raw):
        bad.append((error.where, raw))

    lines = located(read_lines(str(file), set_aside), str(file), set_aside)
    found = first(distinct(lines, set_aside), 2)
    assert [f.id for f in found] == ["a", "b"]
    assert bad == [
        (f"{file}:2", b"oops"),
        (f"{file}:3", b'{"id":"a","properties":{},"vector":[1.0]}'),
    ]


def test_the_help_names_every_source(program):
    said = re.findall(r"[\w-]+", program("load", "--help").out.decode())
    for name in registry.names("sources"):
        if registry.find("sources", name).distribution == DISTRIBUTION:
            assert name in said
