"""The script that measures records: baselines, and labels that only score."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from kbforge.contracts import Fragment
from kbforge.files.fragments import write_fragments
from tests.scripts import script

PEOPLE = ("ann lee", "bob stone", "cleo marsh", "dan brook")


def people(copies: int = 3) -> list[Fragment]:
    return [
        Fragment(
            f"{name}-{copy}", {"name": (name.title(),), "town": (f"{name[0]}town",)}, label=name
        )
        for name in PEOPLE
        for copy in range(copies)
    ]


def measured(folder: Path, monkeypatch: pytest.MonkeyPatch, held: list[Fragment]) -> dict[str, Any]:
    records = script("records")
    monkeypatch.setenv("KBFORGE_DATA", str(folder))
    target = folder / records.SETS["restaurant"].file
    target.parent.mkdir(exist_ok=True)
    write_fragments(held, target)
    (row,) = records.measure("restaurant", "file", [1.0])
    found: dict[str, Any] = row
    return found


def test_labels_score_and_do_nothing_else(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    held = people()
    one = [Fragment(f.id, f.properties, label="all the same") for f in held]
    first = measured(tmp_path, monkeypatch, held)
    second = measured(tmp_path, monkeypatch, one)
    assert first["complete"]
    assert first["fragments"] == len(held)
    assert (first["clusters"], first["alpha"]) == (second["clusters"], second["alpha"])
    assert (first["gold_clusters"], second["gold_clusters"]) == (len(PEOPLE), 1)


def test_exact_match_needs_all_attributes_and_no_case() -> None:
    records = script("records")
    held = [
        Fragment("1", {"name": ("Ann", "Annie"), "town": ("York",)}, label="a"),
        Fragment("2", {"name": ("annie", "ANN"), "town": ("york",)}, label="a"),
        Fragment("3", {"name": ("ann", "annie")}, label="a"),
    ]
    scored = records.baselines(held)
    assert scored["exact_match"]["clusters"] == 2
    assert scored["exact_name"]["clusters"] == 2  # the first name: ann, annie


def test_a_run_over_its_time_tells_how_far_it_got(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(script("records"), "SECONDS", 0.0)
    row = measured(tmp_path, monkeypatch, people())
    assert not row["complete"]
    assert row["fragments"] < row["of"] == len(people())
    assert f"{row['fragments']} of {row['of']}" in script("records").records_table([row])
