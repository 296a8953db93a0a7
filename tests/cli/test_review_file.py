"""`kbforge review` of a file of fragments, at a terminal and line by line for a program."""

from __future__ import annotations

import json
import re
import signal
import subprocess
from pathlib import Path

import pytest

from kbforge.contracts import Fragment
from kbforge.files.answers import read_answers
from kbforge.files.fragments import write_fragments
from tests.cli.driving import NO, PROGRAM, QUIT, SKIP, UNDO, YES, Terminal, lines
from tests.people import people, write_people
from tests.program import Run


@pytest.fixture
def file(tmp_path: Path) -> Path:
    return write_people(tmp_path / "people.jsonl", 12)


def test_questions_and_answers_are_lines(program: Run, file: Path, tmp_path: Path) -> None:
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
    assert summary["after"].keys() == {"likelihood", "alpha"}


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


@pytest.mark.parametrize(
    ("line", "said"),
    [
        (b'{"same": "yes"}', "same: expected true, false or null, got yes"),
        (b"{}", 'expected an object with "same", "undo" or "quit", got {}'),
        (b'{"same": true, "undo": true}', 'expected an object with "same", "undo" or "quit"'),
        (b'{"undo": false}', "undo: expected true, got false"),
        (b'{"say": 1}', "say: expected one of same, undo, quit, got an unknown field"),
        (b"yes", "expected a JSON object, got invalid JSON"),
        (b"\xff", "expected UTF-8 text, got the byte 0xff"),
    ],
)
def test_a_line_that_is_no_answer_ends_it_and_loses_nothing(
    program: Run, file: Path, tmp_path: Path, line: bytes, said: str
) -> None:
    output = tmp_path / "a.jsonl"
    ran = program("review", file, "-o", output, stdin=lines(YES) + line + b"\n")
    assert ran.code == 1
    assert f"kbforge: standard input:2: {said}" in ran.err
    assert len(read_answers(str(output))) == 1


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
    assert ran.json["alpha"] == summary["after"]["alpha"]
    assert f"note: by 6 answers {summary['after']['likelihood']} with alpha" in ran.err


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        (("-",), "standard input has the answers, so the fragments need a file"),
        (("people.jsonl", "-o", "-"), "--output -: expected a plain file"),
        (("people.jsonl", "-o", "a.jsonl.gz"), "--output a.jsonl.gz: expected a plain file"),
        (("people.jsonl", "-o", "people.jsonl"), "the output people.jsonl is an input"),
    ],
)
def test_wrong_usage_is_one_sentence(
    program: Run,
    file: Path,
    monkeypatch: pytest.MonkeyPatch,
    arguments: tuple[str, ...],
    said: str,
) -> None:
    monkeypatch.chdir(file.parent)
    ran = program("review", *arguments)
    assert ran.code == 2
    assert ran.err.startswith(f"kbforge: {said}")


def test_answers_about_another_file_are_refused(program: Run, file: Path, tmp_path: Path) -> None:
    output, other = tmp_path / "a.jsonl", tmp_path / "other.jsonl"
    program("review", file, "-o", output, stdin=lines(YES))
    write_fragments([Fragment("x", {"name": ("x",)})], other)
    for arguments in (
        ("review", other, "-o", output),
        ("cluster", other, "--answers", output, "-o", tmp_path / "kb.jsonl"),
        ("evaluate", other, "--reliability", "--answers", output),
    ):
        ran = program(*arguments)
        assert ran.code in (1, 2)
        assert len(ran.err.splitlines()) == 1


@pytest.mark.slow
def test_at_a_terminal(tmp_path: Path) -> None:
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
    assert "by 2 answers" in said
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
    assert 'expected y, n, s, u or q, got "maybe"' in terminal.said
    assert [answer.same for answer in read_answers(str(output))] == [True, False]


@pytest.mark.slow
def test_ctrl_c_keeps_the_answers(tmp_path: Path) -> None:
    file, output = write_people(tmp_path / "people.jsonl", 12), tmp_path / "a.jsonl"
    terminal = Terminal("review", file, "-o", output)
    terminal.wait_for("uit: ")
    terminal.type("y\n")
    terminal.wait_for("uit: ")
    terminal.type("\x03")
    assert terminal.end() == 130
    assert f"interrupted: {output} holds 1 answer" in "".join(terminal.said.split("\r\n"))
    assert len(read_answers(str(output))) == 1


@pytest.mark.slow
def test_a_program_can_drive_it_line_by_line(tmp_path: Path) -> None:
    """Each question comes before its answer has to be given, and a signal loses no answer."""
    file, output = write_people(tmp_path / "people.jsonl", 12), tmp_path / "a.jsonl"
    command = [*PROGRAM, "review", str(file), "-o", str(output)]
    with subprocess.Popen(
        command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL
    ) as running:
        assert running.stdin is not None
        assert running.stdout is not None
        for _ in range(3):
            assert "question" in json.loads(running.stdout.readline())
            running.stdin.write(lines(YES))
            running.stdin.flush()
        running.stdout.readline()
        running.send_signal(signal.SIGTERM)
        assert running.wait(timeout=300) == 143
    assert len(read_answers(str(output))) == 3
