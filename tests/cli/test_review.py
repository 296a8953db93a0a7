"""`kbforge review` of a store at a terminal, and line by line for a program."""

from __future__ import annotations

import json
import signal
import subprocess
from pathlib import Path
from typing import Any

import pytest

from tests.cli.driving import NO, PROGRAM, QUIT, SKIP, UNDO, YES, Terminal, lines
from tests.people import people, write_people
from tests.program import Run

CLUSTER = ("--likelihood", "attributes", "--alpha", "30")


@pytest.fixture
def store(program: Run, tmp_path: Path) -> Path:
    path = tmp_path / "kb.sqlite"
    file = write_people(tmp_path / "people.jsonl", 60)
    program("cluster", file, "--into", path, *CLUSTER)
    return path


def listed(program: Run, store: Path) -> list[Any]:
    """The decisions: what each says of whom, and whether it was undone."""
    found = program("decide", store, "--list", "--json").json["decisions"]
    return [(one["same"], one["a"], one["b"], one["undone"]) for one in found]


def pair(line: Any) -> tuple[str, str]:
    question = line["question"]
    return question["a"]["fragment"]["id"], question["b"]["fragment"]["id"]


def test_questions_and_answers_are_lines(program: Run, store: Path) -> None:
    *asked, last = program(
        "review", store, "--json", stdin=lines(NO, UNDO, YES, SKIP, NO, QUIT)
    ).lines
    first, _, again, skipped, third, left = asked
    assert again == first
    assert len({pair(one) for one in (first, skipped, third, left)}) == 4
    assert listed(program, store) == [
        (False, *pair(first), 2),
        (True, *pair(first), None),
        (False, *pair(third), None),
    ]
    assert last["summary"]["decisions"] == [2, 3]
    assert last["summary"]["run"] == 2
    question = first["question"]
    assert question.keys() == {"a", "b", "asked", "explanation"}
    assert "label" not in json.dumps(asked)
    assert 0 < question["asked"]["reported"] < 1


def test_gold_answers_set_entities_right(program: Run, store: Path) -> None:
    label = {fragment.id: fragment.label for fragment in people(60, 1)}

    def f1() -> float:
        ran = program("evaluate", store, store.with_name("people.jsonl"), "--json")
        return float(ran.json["bcubed_f1_item_mean"])

    before = f1()
    for _ in range(6):
        *_, question, _ = program("review", store, "--count", 1, stdin=lines(QUIT)).lines
        a, b = (label[id] for id in pair(question))
        program("review", store, "--count", 1, stdin=lines(YES if a == b else NO))
    assert len(listed(program, store)) == 6
    assert f1() >= before


def test_the_count_and_the_end_of_the_input_end_it(program: Run, store: Path) -> None:
    ran = program("review", store, "--count", 2, stdin=lines(*[SKIP] * 9))
    assert len(ran.lines) == 3
    assert len(program("review", store).lines) == 2
    assert listed(program, store) == []


def test_when_nothing_is_in_doubt_it_says_so(program: Run, tmp_path: Path) -> None:
    path = tmp_path / "kb.sqlite"
    names = tmp_path / "names.jsonl"
    names.write_text('{"id": "a", "properties": {"name": ["ada"]}}\n')
    program("cluster", names, "--into", path, "--likelihood", "names")
    ran = program("review", path)
    assert ran.err == "no questions are left\n"
    assert ran.json["summary"]["decisions"] == []


@pytest.mark.parametrize(
    ("arguments", "code", "said"),
    [
        (("nowhere.sqlite",), 1, "no such file"),
        (("kb.sqlite", "-o", "a.jsonl"), 2, "--output is for a file of fragments, and kb.sqlite"),
        (("kb.sqlite", "--seed", "1"), 2, "--seed is for a file of fragments, and kb.sqlite"),
    ],
)
def test_wrong_usage_is_one_sentence(
    program: Run,
    store: Path,
    monkeypatch: pytest.MonkeyPatch,
    arguments: tuple[str, ...],
    code: int,
    said: str,
) -> None:
    monkeypatch.chdir(store.parent)
    ran = program("review", *arguments)
    assert ran.code == code
    assert said in ran.err
    assert len(ran.err.splitlines()) == 1
    assert not Path("answers.jsonl").exists()


def test_a_line_that_is_no_answer_ends_it_and_loses_nothing(program: Run, store: Path) -> None:
    ran = program("review", store, stdin=lines(YES) + b"yes\n")
    assert ran.code == 1
    assert "kbforge: standard input:2: expected a JSON object" in ran.err
    assert len(listed(program, store)) == 1
    assert program("status", store, "--json").json["runs"][-1]["finished"]


@pytest.mark.slow
def test_at_a_terminal(program: Run, store: Path) -> None:
    terminal = Terminal("review", store, "--count", 3)
    for typed in ("y\n", "u\n", "n\n", "s\n", "q\n"):
        terminal.wait_for("uit: ")
        terminal.type(typed)
    assert terminal.end() == 0
    said = terminal.said
    assert "1 of 3: one entity? [y]es [n]o [s]kip [u]ndo [q]uit: " in said
    assert "3 of 3" in said
    assert "one entity with probability" in said
    assert "run 2: 1 decision; " in said
    assert [(same, undone) for same, *_, undone in listed(program, store)] == [
        (True, 2),
        (False, None),
    ]


@pytest.mark.slow
def test_ctrl_c_keeps_the_answers(program: Run, store: Path) -> None:
    terminal = Terminal("review", store)
    terminal.wait_for("uit: ")
    terminal.type("y\n")
    terminal.wait_for("uit: ")
    terminal.type("\x03")
    assert terminal.end() == 130
    assert "run 2: interrupted, 1 decision; " in terminal.said
    assert len(listed(program, store)) == 1


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGKILL])
def test_a_program_can_drive_it_and_a_signal_loses_no_answer(
    program: Run, store: Path, number: signal.Signals
) -> None:
    """Each question comes before its answer has to be given."""
    with subprocess.Popen(
        [*PROGRAM, "review", str(store)],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=subprocess.DEVNULL,
    ) as running:
        assert running.stdin is not None
        assert running.stdout is not None
        asked = []
        for _ in range(3):
            asked.append(pair(json.loads(running.stdout.readline())))
            running.stdin.write(lines(NO))
            running.stdin.flush()
        left = pair(json.loads(running.stdout.readline()))
        running.send_signal(number)
        assert running.wait(timeout=300) == (143 if number == signal.SIGTERM else -number)
    assert [(a, b) for _, a, b, _ in listed(program, store)] == asked
    again = program("review", store, stdin=lines(QUIT)).lines
    assert pair(again[0]) not in asked
    assert left not in asked
    assert program("status", store, "--json").json["runs"][-1]["finished"]
