"""`kbforge load`: options, summaries, limits and the quarantine."""

from __future__ import annotations

import json

import pytest

from kbforge.files.fragments import read_fragments
from tests.sources.harness import ids_in

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
    assert ran.code == 0
    assert [json.loads(line) for line in ran.out.splitlines()] == [
        {
            "id": "p1",
            "properties": {"name": ["Ann"], "place": ["Rome", "Oslo"]},
            "vector": [1.0, 2.0],
            "label": "Lee",
            "source": "people.csv:2",
        },
        {
            "id": "p2",
            "properties": {"name": ["Bo"]},
            "vector": [3.0, 4.0],
            "label": "Ray",
            "source": "people.csv:3",
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


def test_limit(program, people):
    assert program("load", "csv", people, "--id", "pid", "--limit", 1).ids == ["p1"]
    assert program("load", "csv", people, "--limit", 0).ids == []


def test_limit_ends_before_the_bad_line(program, tmp_path):
    file = tmp_path / "in.jsonl"
    file.write_text('{"id": "a", "vector": [1]}\noops\n')
    assert program("load", "jsonl", file, "--limit", 1).ids == ["a"]


def test_summary(program, tmp_path):
    file, output = tmp_path / "in.tsv", tmp_path / "out.jsonl"
    file.write_text("1\tAda\t0\t3\tQ7\t3\n2\tNO_PHRASE\t-1\t-1\tNO_ENTITY\t-1\nbad\n")
    aside = tmp_path / "aside.jsonl"
    ran = program("load", "tweetnerd", file, "-o", output, "--quarantine", aside, "--json")
    summary = json.loads(ran.out)
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
        "  1 tweets without an entity",
        f"1 bad record set aside in {output}.quarantine.jsonl",
    ]


def test_quarantine_shows_bytes_and_reason(program, tmp_path):
    file, output = tmp_path / "in.jsonl", tmp_path / "out.jsonl"
    file.write_bytes(b'{"id": "\xff"}\n')
    program("load", "jsonl", file, "-o", output, "--on-error", "quarantine")
    record = json.loads((tmp_path / "out.jsonl.quarantine.jsonl").read_text())
    assert record == {
        "where": f"{file}:1",
        "reason": f"{file}:1: expected UTF-8 text, got the byte 0xff at byte 9 "
        "(if the file comes from a spreadsheet, try --set source.encoding=cp1252)",
        "raw": '{"id": "\\xff"}',
    }


def test_a_clean_run_empties_the_quarantine(program, tmp_path):
    """What an earlier run left there would be taken for this one's."""
    file, output = tmp_path / "in.jsonl", tmp_path / "out.jsonl"
    command = ("load", "jsonl", file, "-o", output, "--on-error", "quarantine")
    file.write_text("oops\n")
    program(*command)
    file.write_text('{"id": "a", "vector": [1]}\n')
    program(*command)
    assert ids_in(output) == ["a"]
    assert (tmp_path / "out.jsonl.quarantine.jsonl").read_bytes() == b""


def test_an_old_output_survives_a_failed_run(program, tmp_path):
    file, output = tmp_path / "in.jsonl", tmp_path / "out.jsonl"
    output.write_text("precious\n")
    file.write_text("oops\n")
    assert program("load", "jsonl", file, "-o", output).code == 1
    assert output.read_text() == "precious\n"


def test_a_file_may_be_loaded_onto_itself(program, tmp_path):
    file = tmp_path / "f.jsonl"
    file.write_text('{"entity_id": "Q1", "properties": {"name": ["A"]}, "metadata": {"id": 5}}\n')
    program("load", "jsonl", file, "-o", file)
    (fragment,) = read_fragments(str(file))
    assert (fragment.id, fragment.label) == ("5", "Q1")


def test_pipes(program, people):
    first = program("load", "csv", "-", "--id", "pid", stdin=PEOPLE.encode())
    second = program("load", "jsonl", "-", stdin=first.out)
    assert second.out == first.out
    assert second.ids == ["p1", "p2"]


def test_same_input_same_bytes(program, people):
    assert program("load", "csv", people).out == program("load", "csv", people).out


def test_read_fragments_limits_and_hands_on(tmp_path):
    file = tmp_path / "f.jsonl"
    good = '{"id": "%s", "vector": [1]}\n'
    file.write_text(good % "a" + "oops\n" + good % "a" + good % "b" + good % "c")
    bad = []
    found = read_fragments(str(file), lambda error, raw: bad.append((error.where, raw)), limit=2)
    assert [f.id for f in found] == ["a", "b"]
    assert bad == [
        (f"{file}:2", b"oops"),
        (f"{file}:3", b'{"id":"a","properties":{},"vector":[1.0]}'),
    ]
