"""What a terminal shows while a verb is at work, and a pipe does not."""

from __future__ import annotations

import pytest

from kbforge.cli import console


def shown(capsys: pytest.CaptureFixture[str]) -> str:
    with console.working("learning"):
        pass
    captured = capsys.readouterr()
    assert captured.out == ""
    return captured.err


def test_a_terminal_sees_that_something_is_going_on(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setenv("FORCE_COLOR", "1")  # rich takes this for a terminal
    monkeypatch.setenv("TERM", "xterm-256color")
    assert "learning" in shown(capsys)


def test_a_pipe_does_not(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.delenv("FORCE_COLOR", raising=False)
    assert shown(capsys) == ""
