"""The Python page tells the truth: its code runs, prints what it shows, and writes those bytes."""

from __future__ import annotations

import contextlib
import io
import re
import shlex
import shutil
from pathlib import Path
from typing import Any

import pytest

import kbforge
from tests.program import Run

ROOT = Path(__file__).parents[2]
PAGE = (ROOT / "docs" / "python.md").read_text(encoding="utf-8")
BLOCKS = re.findall(r"^```(\w+)\n(.*?)^```$", PAGE, re.MULTILINE | re.DOTALL)


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    shutil.copy(ROOT / "examples" / "people" / "people.csv", tmp_path)
    monkeypatch.chdir(tmp_path)
    return tmp_path


def run_python() -> list[tuple[str, str]]:
    """What each block printed and what the page shows, in one namespace from top to bottom."""
    names: dict[str, Any] = {}
    compared = []
    for (language, code), (following, shown) in zip(BLOCKS, [*BLOCKS[1:], ("", "")], strict=True):
        if language == "python":
            printed = io.StringIO()
            with contextlib.redirect_stdout(printed):
                exec(compile(code, "docs/python.md", "exec"), names)
            compared.append((printed.getvalue(), shown if following == "text" else ""))
    return compared


@pytest.mark.slow
def test_every_block_prints_what_the_page_shows(folder: Path) -> None:
    compared = run_python()
    assert len(compared) == 15
    assert all(shown for _, shown in compared)
    assert [printed for printed, _ in compared] == [shown for _, shown in compared]


@pytest.mark.slow
def test_the_command_line_writes_the_same_bytes(folder: Path, program: Run) -> None:
    run_python()
    (session,) = (code for language, code in BLOCKS if language == "sh")
    files = set()
    for command, *words in map(shlex.split, session.splitlines()):
        if command == "kbforge":
            program(*words)
        else:
            assert command == "cmp"
            files |= {Path(name).read_bytes() for name in words}
    assert len(files) == 1
    assert files.pop().count(b"\n") > 1


def test_the_page_uses_every_name() -> None:
    public = [name for name in kbforge.__all__ if not name.startswith("_")]
    assert [name for name in public if not re.search(rf"\b{name}\b", PAGE)] == []


def test_the_front_page_joins_a_frame_with_its_entities(folder: Path) -> None:
    (code,) = re.findall(
        r"^```python\n(.*?)^```$", (ROOT / "README.md").read_text("utf-8"), re.M | re.S
    )
    names: dict[str, Any] = {}
    exec(compile(code, "README.md", "exec"), names)
    assert names["df"]["entity_id"].nunique() == len(names["kb"].entities)
    assert len(names["df"]) == 20
