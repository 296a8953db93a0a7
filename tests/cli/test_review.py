"""`kbforge review` of a store and of a file: at a terminal, and line by line for a program."""

from __future__ import annotations

import json
import re
import signal
import subprocess
from collections.abc import Callable
from pathlib import Path
from typing import Any, NamedTuple

import pytest

from kbforge.contracts import Fragment
from kbforge.files.answers import read_answers
from kbforge.files.fragments import write_fragments
from tests.cli.driving import NO, PROGRAM, QUIT, SKIP, UNDO, YES, Terminal, lines
from tests.people import people, write_people
from tests.program import Run

CLUSTER = ("--likelihood", "attributes", "--alpha", "30")


class Reviewed(NamedTuple):
    """What is reviewed: the command, what was kept of it, and what a run says of one answer."""

    command: tuple[object, ...]
    kept: Callable[[], list[tuple[bool | None, str, str]]]
    told: str


@pytest.fixture
def store(program: Run, tmp_path: Path) -> Path:
    path = tmp_path / "kb.sqlite"
    file = write_people(tmp_path / "people.jsonl", 60)
    program("cluster", file, "--into", path, *CLUSTER)
    return path


@pytest.fixture
def file(tmp_path: Path) -> Path:
    return write_people(tmp_path / "few.jsonl", 12)


@pytest.fixture(params=["store", "file"])
def reviewed(request: pytest.FixtureRequest, program: Run, tmp_path: Path) -> Reviewed:
    given, output = request.getfixturevalue(request.param), tmp_path / "a.jsonl"

    def decisions() -> list[tuple[bool | None, str, str]]:
        assert program("status", given, "--json").json["runs"][-1]["finished"]
        return [one[:3] for one in listed(program, given)]

    def answers() -> list[tuple[bool | None, str, str]]:
        return [(one.same, one.a, one.b) for one in read_answers(str(output))]

    if request.param == "store":
        return Reviewed(("review", given), decisions, "run 2: interrupted, 1 decision; ")
    told = f"interrupted: {output} holds 1 answer"
    return Reviewed(("review", given, "-o", output), answers, told)


def listed(program: Run, store: Path) -> list[Any]:
    """The decisions: what each says of whom, and whether it was undone."""
    found = program("decide", store, "--list", "--json").json["decisions"]
    return [(one["same"], one["a"], one["b"], one["undone"]) for one in found]


def pair(line: Any) -> tuple[str, str]:
    """The ids of the fragments that a question to a store or to a file is about."""
    a, b = (line["question"][side] for side in "ab")
    return a.get("fragment", a)["id"], b.get("fragment", b)["id"]


def test_questions_about_a_store_are_lines(program: Run, store: Path) -> None:
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
    assert question.keys() == {"a", "b", "asked", "settles", "explanation"}
    assert first["left"] >= third["left"] > 0
    assert "label" not in json.dumps(asked)
    assert 0 < question["asked"]["reported"] < 1


def test_answers_have_a_name_and_a_note_and_may_be_that_one_cannot_tell(
    program: Run, store: Path
) -> None:
    said = lines({"cannot_tell": True, "note": "faint"}, {"same": True, "note": ""}, QUIT)
    first, second, *_ = program("review", store, "--as", "ada", "--note", "hand", stdin=said).lines
    found = program("decide", store, "--list", "--json").json["decisions"]
    assert [(one["same"], one["a"], one["b"], one["by"], one["note"]) for one in found] == [
        (None, *pair(first), "ada", "faint"),
        (True, *pair(second), "ada", "hand"),
    ]
    (again, _) = program("review", store, stdin=lines(QUIT)).lines
    assert pair(again) != pair(first)
    assert b"cannot tell" in program("decide", store, "--list").out
    program("decide", store, "--undo", 1)
    assert program("check", store).code == 0


def test_a_name_is_for_a_store(program: Run, file: Path) -> None:
    program("review", file, "--as", "ada").require_refusal("--as is for a store")


def test_questions_about_a_file_are_lines(program: Run, file: Path, tmp_path: Path) -> None:
    output = tmp_path / "a.jsonl"
    ran = program("review", file, "-o", output, "--count", 3, stdin=lines(YES, SKIP, NO))
    *questions, last = ran.lines
    assert [list(one) for one in questions] == [["question"]] * 3
    kept = read_answers(str(output))
    assert [answer.same for answer in kept] == [True, None, False]
    for one, answer in zip(questions, kept, strict=True):
        question = one["question"]
        assert (question["a"]["id"], question["b"]["id"]) == (answer.a, answer.b)
        assert question["asked"]["number"] == answer.asked.number
        assert set(question["a"]) == {"id", "properties"}  # and no label
    summary = last["summary"]
    assert (summary["answers"], summary["unknown"]) == (2, 1)
    assert summary["loss_before"] > 0


def test_undo_and_quit(program: Run, file: Path, tmp_path: Path) -> None:
    output = tmp_path / "a.jsonl"
    stdin = lines(UNDO, YES, NO, UNDO, YES, QUIT)
    ran = program("review", file, "-o", output, "--json", stdin=stdin)
    asked = [one["question"]["asked"]["number"] for one in ran.lines[:-1]]
    assert asked == [1, 1, 2, 3, 2, 3]
    assert [answer.same for answer in read_answers(str(output))] == [True, True]


def test_the_end_of_the_input_is_the_end(program: Run, file: Path, tmp_path: Path) -> None:
    output = tmp_path / "a.jsonl"
    assert program("review", file, "-o", output).lines[-1]["summary"]["answers"] == 0
    assert not output.exists()
    program("review", file, "-o", output, stdin=lines(YES))
    assert len(read_answers(str(output))) == 1


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


@pytest.mark.slow
def test_a_run_says_what_the_answers_changed(program: Run, file: Path, tmp_path: Path) -> None:
    output, kb = tmp_path / "a.jsonl", tmp_path / "kb.jsonl"
    labels = {fragment.id: fragment.label for fragment in people(12, 1)}
    while True:
        *_, question, summary = program("review", file, "-o", output, "--count", 1).lines
        a, b = (labels[question["question"][side]["id"]] for side in "ab")
        ran = program(
            "review", file, "-o", output, "--count", 1, stdin=lines(YES if a == b else NO)
        )
        summary = ran.lines[-1]["summary"]
        if summary["answers"] == 6:
            break
    ran = program("cluster", file, "-o", kb, "--answers", output, "--json")
    assert "note: 6 answers to learn from" in ran.err
    assert f"{summary['loss_before']:.2f}" in ran.err


@pytest.mark.parametrize(
    ("arguments", "code", "said"),
    [
        (("nowhere.sqlite",), 1, "no such file"),
        (("kb.sqlite", "-o", "a.jsonl"), 2, "--output is for a file of fragments, and kb.sqlite"),
        (("kb.sqlite", "--seed", "1"), 2, "--seed is for a file of fragments, and kb.sqlite"),
        (("-",), 2, "kbforge: standard input has the answers, so the fragments need a file"),
        (("people.jsonl", "-o", "-"), 2, "kbforge: --output -: expected a plain file"),
        (("people.jsonl", "-o", "a.gz"), 2, "kbforge: --output a.gz: expected a plain file"),
        (("people.jsonl", "-o", "people.jsonl"), 2, "kbforge: the output people.jsonl is an input"),
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
    program("review", *arguments).require_refusal(said, code)
    assert not Path("answers.jsonl").exists()


@pytest.mark.parametrize(
    ("line", "said"),
    [
        (b'{"same": "yes"}', "same: expected true, false or null, got yes"),
        (b"{}", 'expected an object with "same", "undo" or "quit", got {}'),
        (b'{"same": true, "undo": true}', 'expected an object with "same", "undo" or "quit"'),
        (b'{"undo": false}', "undo: expected true, got false"),
        (
            b'{"say": 1}',
            "say: expected one of same, cannot_tell, undo, quit, note, got an unknown field",
        ),
        (b"yes", "expected a JSON object, got invalid JSON"),
        (b"\xff", "expected UTF-8 text, got the byte 0xff"),
    ],
)
def test_a_line_that_is_no_answer_ends_it_and_loses_nothing(
    program: Run, reviewed: Reviewed, line: bytes, said: str
) -> None:
    ran = program(*reviewed.command, stdin=lines(YES) + line + b"\n")
    assert ran.code == 1
    assert f"kbforge: standard input:2: {said}" in ran.err
    assert len(reviewed.kept()) == 1


def test_answers_about_another_file_are_refused(program: Run, file: Path, tmp_path: Path) -> None:
    output, other = tmp_path / "a.jsonl", tmp_path / "other.jsonl"
    program("review", file, "-o", output, stdin=lines(YES))
    write_fragments([Fragment("x", {"name": ("x",)})], other)
    for arguments in (
        ("review", other, "-o", output),
        ("cluster", other, "--answers", output, "-o", tmp_path / "kb.jsonl"),
        ("evaluate", other, "--reliability", "--answers", output),
    ):
        program(*arguments).require_refusal("", 1, 2)


@pytest.mark.slow
def test_a_store_at_a_terminal(program: Run, store: Path) -> None:
    terminal = Terminal("review", store, "--count", 3)
    for typed in ("y\n", "u\n", "n\n", "s\n", "q\n"):
        terminal.wait_for("uit: ")
        terminal.type(typed)
    assert terminal.end() == 0
    said = terminal.said
    assert re.search(r"1 of 3, about \d+ left that matter: one entity\? \[y\]es ", said)
    assert "3 of 3" in said
    assert "one entity with probability" in said
    assert "run 2: 1 decision; " in said
    assert [(same, undone) for same, *_, undone in listed(program, store)] == [
        (True, 2),
        (False, None),
    ]


@pytest.mark.slow
def test_a_file_at_a_terminal(tmp_path: Path) -> None:
    file, output = tmp_path / "people.jsonl", tmp_path / "a.jsonl"
    hostile = {"x": ("\x1b[2J[bold]",)}
    held = [Fragment(f.id, {**f.properties, **hostile}) for f in people(12, 1)]
    write_fragments(held, file)
    terminal = Terminal("review", file, "-o", output, "--count", 2)
    for typed in ("y\n", "n\n"):
        terminal.wait_for("uit: ")
        terminal.type(typed)
    assert terminal.end() == 0
    said = terminal.said
    assert "1 of 2: one entity? [y]es [n]o [s]kip [u]ndo [q]uit: " in said
    assert "2 of 2" in said
    plain = re.sub(r"\x1b\[[0-9;]*m", "", said)
    assert re.search(r"^name +[=≠] ", plain, re.MULTILINE)
    assert "\x1b[2J" not in said
    assert "x1b[2J[bold]" in said
    assert "2 answers to learn from" in said
    assert f"--answers {output} uses them" in "".join(said.split("\r\n"))
    assert [answer.same for answer in read_answers(str(output))] == [True, False]


@pytest.mark.slow
def test_at_a_terminal_other_keys_are_asked_again_and_u_goes_back(tmp_path: Path) -> None:
    file, output = write_people(tmp_path / "people.jsonl", 12), tmp_path / "a.jsonl"
    terminal = Terminal("review", file, "-o", output)
    for typed in ("y\n", "maybe\n", "s\n", "u\n", "n\n", "q\n"):
        terminal.wait_for("uit: ")
        terminal.type(typed)
    assert terminal.end() == 0
    assert 'expected y, n, s, c, u or q, got "maybe"' in terminal.said
    assert [answer.same for answer in read_answers(str(output))] == [True, False]


@pytest.mark.slow
def test_ctrl_c_keeps_the_answers(reviewed: Reviewed) -> None:
    terminal = Terminal(*reviewed.command)
    terminal.wait_for("uit: ")
    terminal.type("y\n")
    terminal.wait_for("uit: ")
    terminal.interrupt()
    assert terminal.end() == 130
    assert reviewed.told in "".join(terminal.said.split("\r\n"))
    assert len(reviewed.kept()) == 1


@pytest.mark.slow
@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGKILL])
def test_a_program_can_drive_it_and_a_signal_loses_no_answer(
    program: Run, reviewed: Reviewed, number: signal.Signals
) -> None:
    """Each question comes before its answer has to be given."""
    with subprocess.Popen(
        [*PROGRAM, *map(str, reviewed.command)],
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
    again = program(*reviewed.command, stdin=lines(QUIT)).lines
    assert [(a, b) for _, a, b in reviewed.kept()] == asked
    assert pair(again[0]) not in asked
    assert left not in asked
