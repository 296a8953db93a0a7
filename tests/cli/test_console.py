"""What a terminal shows while a verb is at work, and a pipe does not."""

from __future__ import annotations

import re
import threading
import time

import pytest

from kbforge.cli.console import bar_for, figures, following, speed, time_left, working
from kbforge.contracts import Progress, Rounds, Stage


def test_the_bar_counts_rounds_and_shows_how_good_it_is() -> None:
    progress = Progress(700, 700, 1, 0.0, 12345, rounds=Rounds(40, 500, 82, -1430.25))
    done, total, fields = figures(progress, 8.0)
    assert (done, total) == (40, 500)
    assert fields == {
        "speed": "5.0 rounds/s",
        "clusters": "82",
        "log_posterior": "log posterior -1,430.2",
        "model_evaluations": "12,345",
    }
    with bar_for(progress) as bar:
        bar.update(done, **fields)


def test_the_bar_of_an_online_method_counts_fragments() -> None:
    done, total, fields = figures(Progress(350, 700, 31, 12.3, 999), 2.0)
    assert (done, total) == (350, 700)
    assert fields["speed"] == "175 fragments/s"


@pytest.mark.parametrize("rounds", [None, Rounds(1, 2, 3, -4.5)])
def test_on_a_terminal_the_bar_is_of_what_is_counted(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], rounds: Rounds | None
) -> None:
    monkeypatch.setenv("FORCE_COLOR", "1")  # rich takes this for a terminal
    monkeypatch.setenv("TERM", "xterm-256color")
    with following() as (on_step, _):
        on_step(Progress(7, 7, 1, 0.0, 9, rounds=rounds))
    said = capsys.readouterr().err
    assert "preparing" in said
    assert ("7/7" in said, "1/2" in said) == (rounds is None, rounds is not None)
    assert ("fragments/s" in said, "log posterior -4.5" in said) == (
        rounds is None,
        rounds is not None,
    )


@pytest.mark.parametrize(
    ("done", "seconds", "said"),
    [
        (12_345, 1.0, "12,345 fragments/s"),
        (3, 1.0, "3.0 fragments/s"),
        (2, 5.0, "2.5 s a fragment"),
        (2, 50.0, "25 s a fragment"),
        (0, 7.0, "no fragment yet"),
    ],
)
def test_a_slow_run_has_no_speed_of_zero(done: int, seconds: float, said: str) -> None:
    assert speed(done, seconds, "fragment") == said


def test_what_came_before_the_first_step_does_not_count() -> None:
    _, _, fields = figures(Progress(11, 700, 3, 0.0, 9), 2.0, first=1)
    assert fields["speed"] == "5.0 fragments/s"


def test_the_time_left_needs_some_fragments_and_an_end() -> None:
    assert time_left(10, 11, 111, 50.0) == 500.0
    assert time_left(2, 3, 111, 50.0) == 0.0  # too few
    assert time_left(10, 11, 111, 5.0) == 0.0  # too short
    assert time_left(10, 11, None, 50.0) == 0.0


def test_a_long_run_says_once_what_it_will_take(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    clock = [0.0]
    monkeypatch.setattr(time, "monotonic", lambda: clock[0])
    with following() as (on_step, _):
        for fragments in range(1, 40):
            on_step(Progress(fragments, 300, 1, 0.0, 9))
            clock[0] += 4.0
    said = capsys.readouterr().err
    assert said.count("note: at this speed it takes about 20 minutes more") == 1
    assert "4.0 s a fragment" in said
    assert "minutes left" in said


@pytest.mark.parametrize("width", [80, 100])
def test_no_line_of_the_bar_wraps(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], width: int
) -> None:
    monkeypatch.setenv("FORCE_COLOR", "1")
    monkeypatch.setenv("TERM", "xterm-256color")
    monkeypatch.setenv("COLUMNS", str(width))
    with following() as (on_step, _):
        on_step(Progress(900_000, 1_000_000, 123_456, 654_321.0, 123_456_789))
    said = re.sub(r"\x1b\[[0-9;?]*[A-Za-z]", "", capsys.readouterr().err)
    lines = [line for line in re.split(r"[\r\n]+", said) if "preparing" not in line]
    shown = [line for line in lines if line.strip()]
    assert any("clustering" in line for line in shown)
    assert all("clustering" in line or "/s  " in line for line in shown)
    assert all(len(line) <= width for line in lines)


def test_the_stages_before_the_first_step_are_shown_on_a_terminal(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setenv("FORCE_COLOR", "1")
    monkeypatch.setenv("TERM", "xterm-256color")
    with following() as (on_step, on_stage):
        on_stage(Stage("choosing a likelihood: trying \x1b[31mpairs", 3, 6))
        time.sleep(0.3)  # the sign moves some times a second
        on_step(Progress(7, 7, 1, 0.0, 9))
    said = capsys.readouterr().err
    assert "choosing a likelihood: trying" in said
    assert "(3 of 6)" in said
    assert "\x1b[31m" not in said


def test_elsewhere_a_long_stage_is_said_in_plain_lines(
    capsys: pytest.CaptureFixture[str],
) -> None:
    others = set(threading.enumerate())  # of earlier tests, which may end meanwhile
    told_of = "choosing a likelihood: learning attributes (2 of 6): about 1 second so far"
    said: list[str] = []
    with following(every=0.02) as (on_step, on_stage):
        on_stage(Stage("choosing a likelihood: learning attributes", 2, 6))
        deadline = time.monotonic() + 300
        while told_of not in said:
            assert time.monotonic() < deadline
            time.sleep(0.02)
            said += capsys.readouterr().err.splitlines()
        on_step(Progress(7, 7, 1, 0.0, 9))
    assert set(threading.enumerate()) <= others


@pytest.mark.parametrize("terminal", [True, False])
def test_only_a_terminal_sees_that_something_is_going_on(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], terminal: bool
) -> None:
    monkeypatch.delenv("FORCE_COLOR", raising=False)
    if terminal:
        monkeypatch.setenv("FORCE_COLOR", "1")  # rich takes this for a terminal
        monkeypatch.setenv("TERM", "xterm-256color")
    with working("learning"):
        pass
    captured = capsys.readouterr()
    assert captured.out == ""
    assert ("learning" in captured.err) is terminal
    assert terminal or captured.err == ""
