"""Ten kills, and the store is as without them."""

from __future__ import annotations

import shutil
from pathlib import Path

import pytest

from kbforge.files.fragments import write_fragments
from tests.people import people
from tests.soak.__main__ import exported
from tests.soak.killing import fill, fill_killed
from tests.store.dump import dump


@pytest.mark.slow
def test_ten_kills_leave_no_trace(tmp_path: Path) -> None:
    first, update = tmp_path / "first.jsonl", tmp_path / "update.jsonl"
    found = people(2500, 5)
    write_fragments(found[:600], first)
    write_fragments(found[600:], update)
    whole, killed = tmp_path / "whole.sqlite", tmp_path / "killed.sqlite"
    fill(whole, first, ["--likelihood", "attributes"])
    shutil.copy(whole, killed)
    seconds = fill(whole, update)
    assert fill_killed(killed, update, 10, seconds, 0) > 0
    assert dump(killed) == dump(whole)
    assert exported(killed) == exported(whole)
