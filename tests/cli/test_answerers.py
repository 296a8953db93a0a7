"""`kbforge review --answerer`: programs answer, whatever they do."""

from __future__ import annotations

import json
import os
import shlex
import signal
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any, NamedTuple

import pytest

from kbforge.errors import AnswererError
from kbforge.files.answers import NumberedAnswer, Said, read_answers
from kbforge.fit.prepare import prepare
from kbforge.jobs import answering as module
from kbforge.jobs.answering import answering
from kbforge.jobs.decide import answers_in
from kbforge.jobs.refit import learn, refit
from kbforge.store.database import Database
from kbforge.store.store import Store
from tests.cli.driving import NO, PROGRAM, YES, lines
from tests.people import people, write_people
from tests.program import Run

EXAMPLE = Path(__file__).parents[2] / "examples" / "quickstart" / "answer_from_labels.py"
CLUSTER = ("--likelihood", "attributes")
LABELS = {fragment.id: fragment.label for fragment in people(60, 1)}


class Reviewed(NamedTuple):
    """A file or a store, with the options to review it."""

    command: tuple[object, ...]
    answers: Callable[[], list[Said]]

    def file(self) -> str:
        """With labels."""
        return str(Path(str(self.command[1])).with_name("people.jsonl"))


@pytest.fixture(params=["store", "file"])
def reviewed(request: pytest.FixtureRequest, program: Run, tmp_path: Path) -> Reviewed:
    count = 60 if request.param == "store" else 12
    file = write_people(tmp_path / "people.jsonl", count)
    store, output = tmp_path / "kb.sqlite", tmp_path / "a.jsonl"

    def stored() -> list[Said]:
        with Database(str(store)) as database:
            assert Store(database).last_run.finished
            return answers_in(Store(database))

    def filed() -> list[Said]:
        return [one.said for one in read_answers(str(output))] if output.exists() else []

    if request.param == "store":
        program("cluster", file, "--into", store, *CLUSTER)
        return Reviewed(("review", store), stored)
    return Reviewed(("review", file, "-o", output), filed)


def python(code: str) -> str:
    """A command that runs some code, after helpers to answer with."""
    helpers = "import json, os, sys, time\nn = 0\n" + (
        "def read():\n global n; n += 1; return json.loads(sys.stdin.readline())\n"
        "def say(**answer):\n print(json.dumps(answer), flush=True)\n"
    )
    return shlex.join([sys.executable, "-c", helpers + code])


def from_labels(reviewed: Reviewed, *options: str) -> str:
    return shlex.join([sys.executable, str(EXAMPLE), reviewed.file(), *options])


def is_right(said: Said) -> bool:
    return said.same == (LABELS[said.a] == LABELS[said.b])


TWO = "read(); say(question=1, same=True); read(); say(question=2, same=None)\n"


def test_a_program_answers_and_is_named(program: Run, reviewed: Reviewed) -> None:
    command = from_labels(reviewed)
    ran = program(*reviewed.command, "--answerer", command, "--count", 4)
    said = reviewed.answers()
    assert [one.by for one in said] == ["answer_from_labels.py"] * 4
    assert all(map(is_right, said))
    assert len({one.pair for one in said}) == 4
    assert (
        "answer_from_labels.py is wrong at a rate of about 20 %; its answers count, and" in ran.err
    )
    program(*reviewed.command, "--answerer", command, "--count", 2, "--json")
    assert len({one.pair for one in reviewed.answers()}) == 6, "no pair is asked about again"


def test_a_program_sees_the_fragments_and_no_label(
    program: Run, reviewed: Reviewed, tmp_path: Path
) -> None:
    log = tmp_path / "log"
    command = python(
        f"while line := sys.stdin.readline():\n open({str(log)!r}, 'a').write(line)\n"
        " say(question=json.loads(line)['question'], same=None)"
    )
    program(*reviewed.command, "--answerer", command, "--count", 3)
    questions = [json.loads(line) for line in log.read_text().splitlines()]
    assert [one["question"] for one in questions] == [1, 2, 3]
    for one in questions:
        assert one.keys() == {"version", "question", "a", "b"}
        assert one["version"] == 1
        assert one["a"].keys() == one["b"].keys() == {"id", "properties"}
    assert [one.same for one in reviewed.answers()] == [None] * 3


def by_a_person(program: Run, reviewed: Reviewed, count: int) -> list[Said]:
    """A person answers by gold, one question after another."""
    with subprocess.Popen(
        [*PROGRAM, *map(str, reviewed.command), "--json", "--count", str(count)],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=subprocess.DEVNULL,
    ) as running:
        assert running.stdin is not None
        assert running.stdout is not None
        for _ in range(count):
            asked = json.loads(running.stdout.readline())["question"]
            a, b = (LABELS[asked[side].get("fragment", asked[side])["id"]] for side in "ab")
            running.stdin.write(lines(YES if a == b else NO))
            running.stdin.flush()
        running.communicate()
    said = reviewed.answers()
    assert [one.by for one in said] == [None] * count
    return said


def test_a_person_tests_a_program_first_and_a_good_one_decides(
    program: Run, reviewed: Reviewed
) -> None:
    mine = by_a_person(program, reviewed, 7)
    count = 12
    ran = program(*reviewed.command, "--answerer", from_labels(reviewed), "--count", count)
    assert "answer_from_labels.py is wrong at a rate of about 8 %\n" in ran.err
    theirs = [one for one in reviewed.answers() if one.by is not None]
    new = [one for one in theirs if one.pair not in {one.pair for one in mine}]
    if "-o" in reviewed.command:
        assert [one.pair for one in theirs[:7]] == [one.pair for one in mine]
        assert [one.asked.how for one in read_answers(str(reviewed.command[-1]))[7:14]] == (
            ["test"] * 7
        )
    else:
        rows = program("decide", reviewed.command[1], "--list", "--json").json["decisions"]
        assert [row["by"] for row in rows if row["program"]] == ["answer_from_labels.py"] * len(new)
        assert not any(row["program"] for row in rows[:7])
        shown = program("decide", reviewed.command[1], "--list").out.decode()
        assert "answer_from_l" in shown
    assert len(theirs) == count
    assert len(new) == count - 7
    assert all(map(is_right, theirs))


def test_a_bad_program_decides_nothing(
    program: Run, reviewed: Reviewed, monkeypatch: pytest.MonkeyPatch
) -> None:
    mine = by_a_person(program, reviewed, 7)
    command = from_labels(reviewed, "--wrong", "1")
    ran = program(*reviewed.command, "--answerer", command, "--count", 10)
    assert "wrong at a rate of about 67 %; its answers count, and bind nothing" in ran.err
    assert sum(one.by is not None for one in reviewed.answers()) == 10
    if "-o" not in reviewed.command:
        store = reviewed.command[1]
        assert len(program("decide", store, "--list", "--json").json["decisions"]) == len(mine)
        learned = learned_from(str(store), monkeypatch)
        assert [round(one.right, 2) for one in learned] == [0.95] * 7 + [0.33] * 10
        refit(str(store))
        gone = [id for one in mine for id in (one.a, one.b)]
        program("remove", store, *dict.fromkeys(gone), "--secure")
        assert all(one.pair.isdisjoint(gone) for one in reviewed.answers())


def learned_from(store: str, monkeypatch: pytest.MonkeyPatch) -> list[NumberedAnswer]:
    """The answers from which a store learns."""
    given: list[NumberedAnswer] = []

    def noted(fragments: Any, choices: Any, answers: list[NumberedAnswer]) -> Any:
        given.extend(answers)
        return prepare(fragments, choices, answers)

    monkeypatch.setattr("kbforge.jobs.refit.prepare", noted)
    with Database(store) as database:
        learn(Store(database))
    return given


def test_each_member_of_a_crowd_is_named(
    program: Run, reviewed: Reviewed, monkeypatch: pytest.MonkeyPatch
) -> None:
    command = python(
        "read(); say(question=1, same=True, by='ada'); read(); say(question=2, same=None, by='bo')"
    )
    program(*reviewed.command, "--answerer", command, "--count", 2)
    name = Path(sys.executable).name
    assert [one.by for one in reviewed.answers()] == [f"{name}:ada", f"{name}:bo"]
    monkeypatch.setattr("kbforge.cli.review._MOST_NAMED", 1)
    again = python("read(); say(question=1, same=None, by='ada')")
    ran = program(*reviewed.command, "--answerer", again, "--count", 1)
    said = [line for line in ran.err.splitlines() if not line.startswith("by ")]
    assert said[:2] == [
        f"{name}:ada is wrong at a rate of about 20 %; its answers count, and bind nothing",
        "and 1 other",
    ]


@pytest.mark.parametrize(
    ("code", "said"),
    [
        ("", "question 3: expected a line of JSON with question and same, but the program ended "),
        ("sys.exit(7)", "but the program ended with exit code 7; "),
        ("os.kill(os.getpid(), 9)", "but the program was ended by signal 9; "),
        ("os.close(1); time.sleep(60)", "but the program closed its output; "),
        ("print('yes', flush=True)", "question 3: expected a JSON object, got invalid JSON at "),
        ("print('[]', flush=True)", "question 3: expected a line of JSON with question and same"),
        ("sys.stdout.buffer.write(b'\\xff\\n')", "expected UTF-8 text, got the byte 0xff"),
        ("print('x' * 10_000_000)", "question and same, got 1,048,576 bytes without a newline; "),
        ("print('{\"question\": 3', end='')", "question and same, but the program ended with"),
        ("say(question=2, same=True)", "question 3: question: expected 3, got 2; "),
        ("say(question=3, same='yes')", "same: expected true, false or null, got yes; "),
        ("say(question=3)", "same: expected true, false or null, got nothing; "),
        ("say(question=3, same=True, by='')", "by: expected a name of 1 to 100 characters"),
        ("say(question=3, same=True, why=1)", "why: expected one of question, same, by"),
        ("say(same=True)", "question: expected a whole number, got nothing"),
    ],
)
def test_what_was_answered_before_it_failed_is_kept(
    program: Run, reviewed: Reviewed, code: str, said: str
) -> None:
    ran = program(*reviewed.command, "--answerer", python(TWO + "read()\n" + code))
    ran.require_refusal(said, 1)
    assert [one.same for one in reviewed.answers()] == [True, None]
    kept = "holds 2 answers" if "-o" in reviewed.command else "the answers before are kept, 0 dec"
    assert kept in ran.err


@pytest.mark.parametrize(
    ("command", "said"),
    [
        ("no-such-program --now", "--answerer: cannot run no-such-program: no such file or dir"),
        ("'x", "--answerer 'x: no closing quotation"),
        ("", "--answerer: expected a command, got nothing"),
        ("/", "--answerer: cannot run /: permission denied"),
        ("'a\0b'", "--answerer: cannot run a\\x00b: embedded null byte"),
    ],
)
def test_what_cannot_be_run_is_refused(
    program: Run, reviewed: Reviewed, command: str, said: str
) -> None:
    program(*reviewed.command, "--answerer", command).require_refusal(said, 2)
    assert reviewed.answers() == []


def test_seconds_need_a_program(program: Run, reviewed: Reviewed) -> None:
    program(*reviewed.command, "--seconds", 3).require_refusal("--seconds is for a program", 2)


def test_no_shell_reads_the_command(program: Run, reviewed: Reviewed, tmp_path: Path) -> None:
    touched = tmp_path / "touched"
    program(*reviewed.command, "--answerer", f"true & touch {touched}").require_refusal("", 1)
    assert not touched.exists()


def test_time_runs_out_without_an_error(program: Run, reviewed: Reviewed) -> None:
    slow = TWO + "time.sleep(600)"
    program(*reviewed.command, "--answerer", python(slow), "--seconds", 3)
    assert [one.same for one in reviewed.answers()] == [True, None]
    program(*reviewed.command, "--answerer", python("time.sleep(600)"), "--seconds", 0.01)
    assert len(reviewed.answers()) == 2


def is_alive(pid: int) -> bool:
    try:
        os.kill(pid, 0)
    except ProcessLookupError:
        return False
    return True


@pytest.mark.parametrize("bytes_asked", [10, 10_000_000])
def test_a_program_that_hangs_is_ended_with_its_children(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path, bytes_asked: int
) -> None:
    """Whether it has read the question or not."""
    monkeypatch.setattr(module, "LONGEST_WAIT", 2.0)
    pids = tmp_path / "pids"
    code = (
        "import subprocess\nchild = subprocess.Popen(['sleep', '600'])\n"
        f"open({str(pids)!r}, 'w').write(f'{{os.getpid()}} {{child.pid}}')\ntime.sleep(600)"
    )
    one, other = people(2, 1)[:2]
    with (
        pytest.raises(AnswererError, match=r"question 1: expected .* within about 2 seconds"),
        answering(python(code), None) as answerer,
    ):
        answerer.ask(type(one)("x", {"name": ("x" * bytes_asked,)}), other)
    left = [int(pid) for pid in pids.read_text().split()]
    end = time.monotonic() + 30
    while any(map(is_alive, left)) and time.monotonic() < end:
        time.sleep(0.05)
    assert not any(map(is_alive, left))


@pytest.mark.slow
@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_an_interrupted_review_goes_on_later(
    program: Run, reviewed: Reviewed, tmp_path: Path, number: signal.Signals
) -> None:
    third = tmp_path / "third"
    code = f"{TWO}read(); open({str(third)!r}, 'w').write(str(os.getpid())); time.sleep(600)"
    with subprocess.Popen(
        [*PROGRAM, *map(str, reviewed.command), "--answerer", python(code)],
        stderr=subprocess.PIPE,
        stdout=subprocess.PIPE,
    ) as running:
        while not (third.exists() and third.read_text()):
            assert running.poll() is None
            time.sleep(0.05)
        running.send_signal(number)
        out, err = running.communicate(timeout=300)
    assert running.returncode == 128 + number
    assert b"interrupted" in out + err
    assert b"Traceback" not in err
    assert [one.same for one in reviewed.answers()] == [True, None]
    assert not is_alive(int(third.read_text()))
    program(*reviewed.command, "--answerer", python(TWO), "--count", 2)
    said: list[Any] = reviewed.answers()
    assert len({one.pair for one in said}) == len(said) == 4
