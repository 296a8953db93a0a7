"""`kbforge evaluate --audit`: line by line for a program, of a knowledge base and of a table."""

from __future__ import annotations

import json
import os
import select
import signal
import subprocess
from pathlib import Path
from typing import Any

import pytest

from kbforge.files.answers import read_answers
from tests.cli.driving import NO, PROGRAM, QUIT, SKIP, UNDO, YES, Terminal, lines
from tests.people import people, write_people
from tests.program import Run

PEOPLE = people(30, 1)
LABELS = {fragment.id: fragment.label for fragment in PEOPLE}


@pytest.fixture
def file(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(tmp_path)
    return write_people(tmp_path / "people.jsonl", 30)


@pytest.fixture
def table(file: Path) -> Path:
    """What another program found: everybody right, but for one person in two."""
    rows = [f"{id},{label}{id[-1] == '0' and label == '7'}" for id, label in LABELS.items()]
    path = file.with_name("clusters.csv")
    path.write_text("\n".join(["fragment,entity", *rows]) + "\n", encoding="utf-8")
    return path


def pairs(lines: list[Any]) -> list[tuple[str, str]]:
    return [(line["question"]["a"]["id"], line["question"]["b"]["id"]) for line in lines]


def test_a_knowledge_base_is_audited_and_answers_count_again(program: Run, file: Path) -> None:
    program("cluster", file, "-o", "kb.jsonl", "--likelihood", "attributes", "--alpha", "30")
    command = ("evaluate", "kb.jsonl", "--audit", 8, "--answers", "said.jsonl")
    *first, said = program(*command, stdin=lines(YES, NO, UNDO, YES, SKIP, QUIT)).lines
    assert pairs(first)[1] == pairs(first)[3]
    assert [answer.same for answer in read_answers("said.jsonl")] == [True, True, None]
    assert said["summary"]["unknown"] == 1
    *second, done = program(*command, stdin=lines(*[YES] * 9)).lines
    assert len(second) == 5
    assert pairs(second)[0] == pairs(first)[-1]
    summary = done["summary"]
    assert summary["about_pairs"] + summary["about_entities"] + 1 == 8
    for kind in ("pairs", "entities"):
        for score in ("precision", "recall", "f1"):
            found = summary[kind][score]
            assert 0 <= found["low"] <= found["value"] <= found["high"] <= 1
    assert program(*command).lines == [done]
    assert "label" not in json.dumps([first, second])


def test_a_table_of_another_program_is_audited(program: Run, file: Path, table: Path) -> None:
    command = ("evaluate", table, file, "--audit", 24, "--seed", 3)
    said: list[dict[str, bool]] = []
    for _ in range(24):
        # the labels answer, one question after another
        *asked, _ = program(*command, stdin=lines(*said, QUIT)).lines
        Path("audit.jsonl").unlink(missing_ok=True)
        question = asked[-1]["question"]
        other = [question["b"], *question.get("others_of_b", ())]
        whole = question["asked"]["how"] == "whole"
        gold = LABELS[question["a"]["id"]]
        said.append({"same": all(LABELS[x["id"]] == gold for x in other[: None if whole else 1])})
        if len(said) == 8:
            break
    ran = program(*command, stdin=lines(*said))
    assert ran.lines[-1]["summary"]["pairs"]["precision"]["high"] == 1.0


def test_at_a_terminal_the_estimates_are_a_table(file: Path, table: Path) -> None:
    terminal = Terminal("evaluate", table, file, "--audit", "2")
    terminal.wait_for("1 of 2: one entity?")
    terminal.type("y\n")
    terminal.wait_for("2 of 2: one entity?")
    terminal.type("y\n")
    terminal.wait_for("95 % intervals, from")
    assert "entities, exactly right" in terminal.said


def test_ctrl_c_keeps_the_answers(file: Path, table: Path) -> None:
    command = [*PROGRAM, "evaluate", str(table), str(file), "--audit", "9"]
    with subprocess.Popen(
        command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.PIPE
    ) as run:
        assert run.stdin is not None
        assert run.stdout is not None
        assert run.stderr is not None
        run.stdin.write(lines(YES))
        run.stdin.flush()
        for _ in range(2):
            assert select.select([run.stdout], [], [], 300)[0]
            assert b"question" in run.stdout.readline()
        os.kill(run.pid, signal.SIGINT)
        assert run.wait(300) == 130
        assert b"interrupted: audit.jsonl holds 1 answer" in run.stderr.read()
    assert len(read_answers("audit.jsonl")) == 1


def test_what_an_audit_cannot_read_is_one_sentence(
    program: Run, file: Path, table: Path, tmp_path: Path
) -> None:
    program("evaluate", table, "--audit", 5).require_refusal("has no values to ask about")
    program("evaluate", table, file, "--audit", 5, "--reliability").require_refusal("leave out")
    program("evaluate", table, file, "--audit", 5, "--alpha", 2).require_refusal("--alpha")
    program("evaluate", "-", file, "--audit", 5).require_refusal("standard input")
    program("evaluate", table, file, "--audit", 5, "--answers", "a.gz").require_refusal(
        "plain file"
    )
    program("evaluate", table, file, "--seed", 1).require_refusal("--audit or --reliability")
    for bad, sentence in (
        ("a,b\n1-1,x,y\n", "bad.csv:2: expected"),
        ("a,b\n1-1,\n", "bad.csv:2: expected"),
        ("a,b\n1-1,x\n1-1,y\n", "each fragment once"),
        ("a,b\nnobody,x\n", "the knowledge base has"),
        ("a,b\n0-0,x\n", "FRAGMENTS has"),
        ('a,b\n"1-1,x\n', "a table of two columns"),
    ):
        path = tmp_path / "bad.csv"
        path.write_text(bad, encoding="utf-8")
        program("evaluate", path, file, "--audit", 5).require_refusal(sentence)
    assert not Path("audit.jsonl").exists()
