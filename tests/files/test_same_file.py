"""An output is never an input, however either of them is named."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from kbforge.errors import UsageError
from kbforge.files.io import require_apart, require_distinct


@pytest.fixture
def mine(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "deep").mkdir()
    Path("mine.jsonl").write_text("mine")
    Path("soft").symlink_to("mine.jsonl")
    os.link("mine.jsonl", "hard")
    Path("round").symlink_to("deep")
    return tmp_path


@pytest.mark.parametrize(
    ("output", "given"),
    [
        ("mine.jsonl", "mine.jsonl"),
        ("./mine.jsonl", "mine.jsonl"),
        ("deep/../mine.jsonl", "mine.jsonl"),
        ("round/../mine.jsonl", "mine.jsonl"),
        ("soft", "mine.jsonl"),
        ("mine.jsonl", "soft"),
        ("hard", "mine.jsonl"),
        ("hard", "soft"),
        ("mine.jsonl", "."),
    ],
)
def test_one_file_under_two_names_is_refused(mine: Path, output: str, given: str) -> None:
    with pytest.raises(UsageError, match=r"is an input.*; name another output"):
        require_apart(output, ["other", None, "", given])
    with pytest.raises(UsageError, match="is an input"):
        require_apart(str(mine / output), [given])


@pytest.mark.parametrize(
    ("output", "given"),
    [
        ("new", "mine.jsonl"),
        ("new", "new"),
        ("-", "-"),
        ("mine.jsonl", "-"),
        ("-", "mine.jsonl"),
        ("deep/mine.jsonl", "mine.jsonl"),
        ("new", "."),
        ("/dev/null", "/dev/null"),
        ("new", "a\0b"),
    ],
)
def test_two_files_are_apart(mine: Path, output: str, given: str) -> None:
    require_apart(output, [given])


def test_a_folder_that_is_replaced_as_a_whole_may_hold_no_input(mine: Path) -> None:
    Path("deep/in.jsonl").write_text("x")
    require_apart("deep", ["deep/in.jsonl"])
    with pytest.raises(UsageError, match="is an input"):
        require_apart("deep", ["round/in.jsonl"], whole=True)


def test_two_outputs_are_not_one(mine: Path) -> None:
    require_distinct([("picture", "a"), ("animation", None), ("other", "b")])
    with pytest.raises(UsageError, match="the picture and the animation are both"):
        require_distinct([("picture", "deep/new"), ("animation", "round/new")])
    with pytest.raises(UsageError, match="the picture and the animation are both"):
        require_distinct([("picture", "soft"), ("animation", "hard")])
