"""`kbforge cluster` with methods that go over all fragments again and again."""

from __future__ import annotations

import json
import signal
from pathlib import Path
from typing import Any

import pytest

from kbforge.clustering.batch import run as offline
from kbforge.clustering.batch.agglomerate import MergeGains
from kbforge.clustering.batch.grouping_model import MergingTable, TableModel
from kbforge.clustering.batch.visits import Visits
from tests.cli.test_cluster import GAUSSIAN, write_points
from tests.program import Run

SAMPLED = ("--set", "clusterer.sweeps=150", "--set", "clusterer.start=sequential")
QUICK = {
    "gibbs": SAMPLED,
    "metropolis": (*SAMPLED, "--surrogate", "gaussian"),
    "agglomerative": (),
    "agglomerative, sampled": ("--set", "clusterer.batch=200"),
}
ENDED = {"gibbs": "sweeps", "metropolis": "sweeps", "agglomerative": "done"}


@pytest.fixture
def points(tmp_path: Path) -> Path:
    return write_points(tmp_path / "points.jsonl")


@pytest.mark.parametrize("case", QUICK)
def test_every_fragment_is_in_exactly_one_entity(
    program: Run, points: Path, tmp_path: Path, case: str
) -> None:
    kb = tmp_path / "kb.jsonl"
    job = ("cluster", points, "-o", kb, *GAUSSIAN, "--clusterer", case.split(",")[0], *QUICK[case])
    first, again = (program(*job, "--json") for _ in range(2))
    assert (first.code, first.json["complete"]) == (0, True)
    assert first.json["ended"] == ENDED[case.split(",")[0]]
    entities = [json.loads(line) for line in kb.read_text().splitlines()]
    held = [fragment for entity in entities for fragment in entity["fragments"]]
    assert sorted(held) == sorted(f"p{i}" for i in range(60))
    assert first.json["entities"] == len(entities) == 6
    assert again.json["log_posterior"] == first.json["log_posterior"]


def test_control_c_keeps_what_was_found(
    program: Run, points: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    record, sweeps = Visits.record, []

    def interrupting(self: Visits, grouping: Any) -> None:
        record(self, grouping)
        sweeps.append(1)
        if len(sweeps) == 3:
            signal.raise_signal(signal.SIGINT)

    monkeypatch.setattr(Visits, "record", interrupting)
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
    read, stretches = getattr(model, takes_in), []

    def interrupting(self: Any, some: Any) -> None:
        read(self, some)
        stretches.append(len(some))
        if len(stretches) == 3:
            signal.raise_signal(signal.SIGINT)

    monkeypatch.setattr(model, takes_in, interrupting)
    kb = tmp_path / "kb.jsonl"
    ran = program("cluster", points, "-o", kb, *GAUSSIAN, "--clusterer", clusterer, "--json")
    assert (ran.code, stretches) == (130, [8, 8, 8])
    assert (ran.json["complete"], ran.json["fragments"]) == (False, 24)
    assert ran.err.splitlines()[-1] == (
        f"interrupted: {kb}.partial holds the first 24 of 60 fragments"
    )
    assert groups_in(Path(f"{kb}.partial")) == {(f"p{i}",) for i in range(24)}


def test_what_was_interrupted_goes_on(
    program: Run, points: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A merge is found again from the groups there are, so nothing is lost."""
    merged, merges = MergeGains.merged, []

    def interrupting(self: MergeGains, a: int, b: int) -> None:
        merged(self, a, b)
        merges.append((a, b))
        if len(merges) == 20:
            signal.raise_signal(signal.SIGINT)

    job = ("cluster", points, *GAUSSIAN, "--clusterer", "agglomerative", "--json")
    with monkeypatch.context() as patch:
        patch.setattr(MergeGains, "merged", interrupting)
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


def groups_in(kb: Path) -> set[tuple[str, ...]]:
    return {tuple(json.loads(line)["fragments"]) for line in kb.read_text().splitlines()}


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


@pytest.mark.parametrize(
    ("arguments", "sentence"),
    [
        (("--set", "clusterer.sweeps=0"), "sweeps: expected a number above 0, got 0"),
        (("--set", "clusterer.budget=-1"), "budget: expected a number above 0, got -1"),
        (
            ("--set", "clusterer.start=greedy"),
            "start: expected singletons, sequential, one or a file that kbforge cluster wrote, "
            'got "greedy"',
        ),
    ],
)
def test_bad_choices_get_one_sentence(
    program: Run, points: Path, tmp_path: Path, arguments: tuple[str, ...], sentence: str
) -> None:
    job = ("cluster", points, "-o", tmp_path / "kb.jsonl", *GAUSSIAN, "--clusterer", "gibbs")
    ran = program(*job, *arguments)
    assert ran.code != 0
    assert sentence in ran.err
    assert ran.err.count("\n") == 1
