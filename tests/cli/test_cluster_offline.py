"""`kbforge cluster` with methods that go over all fragments again and again."""

from __future__ import annotations

import signal
from pathlib import Path
from typing import Any

import pytest

from kbforge.clustering.batch import run as offline
from kbforge.clustering.batch.agglomerate import MergeGains
from kbforge.clustering.batch.grouping_model import MergingTable, TableModel
from kbforge.clustering.batch.visits import Visits
from tests.cli.test_cluster import GAUSSIAN, write_points
from tests.jsonl import groups_in
from tests.program import Run


@pytest.fixture
def points(tmp_path: Path) -> Path:
    return write_points(tmp_path / "points.jsonl")


def press_control_c(patch: pytest.MonkeyPatch, owner: Any, method: str, call: int) -> list[Any]:
    """Interrupt at the end of so many calls of a method; their arguments come into the list."""
    real, calls = getattr(owner, method), []

    def interrupting(self: Any, *given: Any) -> None:
        real(self, *given)
        calls.append(given)
        if len(calls) == call:
            signal.raise_signal(signal.SIGINT)

    patch.setattr(owner, method, interrupting)
    return calls


def test_control_c_keeps_what_was_found(
    program: Run, points: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    sweeps = press_control_c(monkeypatch, Visits, "record", 3)
    kb = tmp_path / "kb.jsonl"
    ran = program("cluster", points, "-o", kb, *GAUSSIAN, "--clusterer", "gibbs", "--json")
    assert ran.code == 130
    assert len(sweeps) == 3
    assert (ran.json["complete"], ran.json["fragments"]) == (False, 60)
    assert ran.err.splitlines()[-1] == (
        f"interrupted: {kb}.partial holds all 60 fragments, in the best grouping so far"
    )
    assert not kb.exists()
    assert Path(f"{kb}.partial").exists()


@pytest.mark.parametrize(
    ("clusterer", "model", "takes_in"),
    [("gibbs", TableModel, "read"), ("agglomerative", MergingTable, "fill")],
)
def test_control_c_within_the_start_keeps_the_first_fragments(
    program: Run,
    points: Path,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    clusterer: str,
    model: Any,
    takes_in: str,
) -> None:
    monkeypatch.setattr(offline, "_SETS_A_STEP", 8)
    monkeypatch.setattr(offline, "_SECONDS_BETWEEN_REPORTS", 0.0)
    stretches = press_control_c(monkeypatch, model, takes_in, 3)
    kb = tmp_path / "kb.jsonl"
    ran = program("cluster", points, "-o", kb, *GAUSSIAN, "--clusterer", clusterer, "--json")
    assert (ran.code, [len(some) for (some,) in stretches]) == (130, [8, 8, 8])
    assert (ran.json["complete"], ran.json["fragments"]) == (False, 24)
    assert ran.err.splitlines()[-1] == (
        f"interrupted: {kb}.partial holds the first 24 of 60 fragments"
    )
    assert groups_in(f"{kb}.partial") == sorted([f"p{i}"] for i in range(24))


def test_what_was_interrupted_goes_on(
    program: Run, points: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A merge is found again from the groups there are, so nothing is lost."""
    job = ("cluster", points, *GAUSSIAN, "--clusterer", "agglomerative", "--json")
    with monkeypatch.context() as patch:
        press_control_c(patch, MergeGains, "merged", 20)
        assert program(*job, "-o", tmp_path / "kb.jsonl").code == 130
    held = tmp_path / "kb.jsonl.partial"
    rest = program(*job, "-o", tmp_path / "rest.jsonl", "--set", f"clusterer.start={held}")
    whole = program(*job, "-o", tmp_path / "whole.jsonl")
    assert rest.json["log_posterior"] == pytest.approx(whole.json["log_posterior"])
    assert groups_in(tmp_path / "rest.jsonl") == groups_in(tmp_path / "whole.jsonl")
    assert len(groups_in(held)) == 40


@pytest.mark.parametrize("clusterer", ["gibbs", "metropolis"])
def test_a_sampler_starts_from_what_another_found(
    program: Run, points: Path, tmp_path: Path, clusterer: str
) -> None:
    job = ("cluster", points, *GAUSSIAN, "--json", "--clusterer")
    found = program(*job, "agglomerative", "-o", tmp_path / "found.jsonl")
    start = f"clusterer.start={tmp_path / 'found.jsonl'}"
    more = ("-o", tmp_path / "more.jsonl", "--set", "clusterer.sweeps=2")
    sampled = program(*job, clusterer, *more, "--set", start)
    assert sampled.json["log_posterior"] >= found.json["log_posterior"] - 1e-6
    by_itself = program(*job, clusterer, *more)
    assert sampled.json["log_posterior"] > by_itself.json["log_posterior"] + 1


def test_a_start_that_knows_none_of_the_fragments(
    program: Run, points: Path, tmp_path: Path
) -> None:
    kb, other = tmp_path / "kb.jsonl", tmp_path / "other.jsonl"
    program("cluster", points, "-o", kb, *GAUSSIAN)
    other.write_text(points.read_text().replace('"id": "p', '"id": "q'))
    start = ("--clusterer", "gibbs", "--set", f"clusterer.start={kb}")
    ran = program("cluster", other, "-o", tmp_path / "no.jsonl", *GAUSSIAN, *start)
    assert (ran.code, ran.err) == (2, f'kbforge: start: "{kb}" has none of the fragments\n')
    ran = program("cluster", other, "-o", kb, *GAUSSIAN, *start[:3], f"clusterer.start={points}")
    assert ran.code == 1
    assert f"{points}:1: " in ran.err
