"""`kbforge cluster` with methods that go over all fragments again and again."""

import signal
from pathlib import Path
from typing import Any

import pytest

import kbforge
from kbforge.contracts import Progress
from kbforge.errors import KBForgeError, UsageError
from kbforge.files.fragments import read_fragments
from kbforge.fit.choices import RunOptions
from kbforge.fit.prepare import prepare
from kbforge.jobs.cluster import cluster
from kbforge.testing import BlackBox, Categorical, examples
from kbforge_lab.batch import run as offline
from kbforge_lab.batch.agglomerate import MergeGains
from kbforge_lab.batch.grouping_model import MergingTable, TableModel
from kbforge_lab.batch.visits import Visits
from tests.cli.test_cluster import GAUSSIAN, QUICKSTART, check_once_each, write_points
from tests.cli.test_index import TOGETHER, fragments, groups
from tests.jobs.test_answers import IDS, PEOPLE, write
from tests.jobs.test_strangers import apart_if_not_read
from tests.jsonl import groups_in

__all__ = ["fragments"]


@pytest.fixture
def points(tmp_path):
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


def test_control_c_keeps_what_was_found(program, points, tmp_path, monkeypatch):
    sweeps = press_control_c(monkeypatch, Visits, "record", 3)
    kb = tmp_path / "kb.jsonl"
    ran = program("cluster", points, "-o", kb, *GAUSSIAN, "--set", "clusterer=gibbs", "--json")
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
    program, points, tmp_path, monkeypatch, clusterer, model, takes_in
):
    monkeypatch.setattr(offline, "_SETS_A_STEP", 8)
    monkeypatch.setattr(offline, "_SECONDS_BETWEEN_REPORTS", 0.0)
    stretches = press_control_c(monkeypatch, model, takes_in, 3)
    kb = tmp_path / "kb.jsonl"
    ran = program(
        "cluster", points, "-o", kb, *GAUSSIAN, "--set", f"clusterer={clusterer}", "--json"
    )
    assert (ran.code, [len(some) for (some,) in stretches]) == (130, [8, 8, 8])
    assert (ran.json["complete"], ran.json["fragments"]) == (False, 24)
    assert ran.err.splitlines()[-1] == (
        f"interrupted: {kb}.partial holds the first 24 of 60 fragments"
    )
    assert groups_in(f"{kb}.partial") == sorted([f"p{i}"] for i in range(24))


def test_what_was_interrupted_goes_on(program, points, tmp_path, monkeypatch):
    """A merge is found again from the groups there are, so nothing is lost."""
    job = ("cluster", points, *GAUSSIAN, "--set", "clusterer=agglomerative", "--json")
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
def test_a_sampler_starts_from_what_another_found(program, points, tmp_path, clusterer):
    job = ("cluster", points, *GAUSSIAN, "--json", "--set")
    found = program(*job, "clusterer=agglomerative", "-o", tmp_path / "found.jsonl")
    start = f"clusterer.start={tmp_path / 'found.jsonl'}"
    more = ("-o", tmp_path / "more.jsonl", "--set", "clusterer.sweeps=2")
    sampled = program(*job, f"clusterer={clusterer}", *more, "--set", start)
    assert sampled.json["log_posterior"] >= found.json["log_posterior"] - 1e-6
    by_itself = program(*job, f"clusterer={clusterer}", *more)
    assert sampled.json["log_posterior"] > by_itself.json["log_posterior"] + 1


def test_a_start_that_knows_none_of_the_fragments(program, points, tmp_path):
    kb, other = tmp_path / "kb.jsonl", tmp_path / "other.jsonl"
    program("cluster", points, "-o", kb, *GAUSSIAN)
    other.write_text(points.read_text().replace('"id": "p', '"id": "q'))
    start = ("--set", "clusterer=gibbs", "--set", f"clusterer.start={kb}")
    ran = program("cluster", other, "-o", tmp_path / "no.jsonl", *GAUSSIAN, *start)
    assert (ran.code, ran.err) == (2, f'kbforge: start: "{kb}" has none of the fragments\n')
    ran = program("cluster", other, "-o", kb, *GAUSSIAN, *start[:3], f"clusterer.start={points}")
    assert ran.code == 1
    assert f"{points}:1: " in ran.err


SAMPLED = ("--set", "clusterer.sweeps=150", "--set", "clusterer.start=sequential")


@pytest.mark.parametrize(
    ("clusterer", "options", "ended"),
    [
        ("gibbs", SAMPLED, "sweeps"),
        ("metropolis", (*SAMPLED, "--set", "surrogate=gaussian"), "sweeps"),
        ("agglomerative", (), "done"),
        ("agglomerative", ("--set", "clusterer.batch=200"), "done"),
    ],
)
def test_every_fragment_is_in_exactly_one_entity(
    program, points, tmp_path, clusterer, options, ended
):
    check_once_each(program, points, tmp_path, ended, "--set", f"clusterer={clusterer}", *options)


@pytest.mark.parametrize(
    ("option", "sentence"),
    [
        ("sweeps=0", "sweeps: expected a number above 0, got 0"),
        ("budget=-1", "budget: expected a number above 0, got -1"),
        (
            "start=greedy",
            "start: expected singletons, sequential, one or a file that kbforge cluster wrote, "
            'got "greedy"',
        ),
    ],
)
def test_bad_choices_get_one_sentence(program, points, tmp_path, option, sentence):
    kb = tmp_path / "kb.jsonl"
    job = ("cluster", points, "-o", kb, *GAUSSIAN, "--set", "clusterer=gibbs")
    program(*job, "--set", f"clusterer.{option}").require_refusal(sentence)
    assert not kb.exists()


@pytest.mark.parametrize("likelihood", ["pairs", "names"])
def test_what_is_no_probability_is_called_a_score(likelihood):
    steps: list[Progress] = []
    choices = RunOptions(likelihood=likelihood, clusterer="gibbs")
    cluster(list(read_fragments(str(QUICKSTART), limit=20)), choices, steps.append)
    assert steps
    assert [step.rounds.probability for step in steps if step.rounds] == [False] * len(steps)


# What an offline method refuses: an index, answers, a session.


@pytest.mark.parametrize("clusterer", ["gibbs", "metropolis", "agglomerative"])
def test_offline_clusterers_compare_with_all(program, tmp_path, fragments, clusterer):
    kb = tmp_path / "kb.jsonl"
    job = ("cluster", fragments, "-o", kb, "--set", f"clusterer={clusterer}", "--json")
    quick = () if clusterer == "agglomerative" else ("--set", "clusterer.sweeps=5")
    ran = program(*job, "--set", "index=selective")
    ran.require_refusal(f"--set index=selective: {clusterer} always compares with all clusters", 2)
    assert not kb.exists()
    # neither an index that the likelihood brings nor `none` is the user's mistake
    default, none = (program(*job, *quick, *more) for more in ((), ("--set", "index=none")))
    assert (default.code, none.code) == (0, 0)
    assert default.json["score"] == none.json["score"]


def test_exact_is_what_they_do_already(program, tmp_path, fragments):
    job = (fragments, *TOGETHER, "--set", "clusterer=agglomerative")
    assert groups(program, *job, "--set", "exact=true") == groups(program, *job)


def test_a_keyword_of_python_is_refused_as_the_option_is(fragments):
    with pytest.raises(UsageError, match="gibbs always compares with all clusters"):
        kbforge.cluster(str(fragments), index="selective", clusterer="gibbs", likelihood="bigram")


def test_what_cannot_honour_answers_refuses_them(tmp_path):
    said = write(tmp_path / "answers.jsonl", [(IDS[0], IDS[1], True)])
    with pytest.raises(UsageError, match="answers, decisions and a linking attribute need an onl"):
        kbforge.cluster(PEOPLE, clusterer="agglomerative", alpha=5.0, answers=said)


def test_they_have_no_session():
    with pytest.raises(KBForgeError, match="offline method"):
        kbforge.open_session(PEOPLE, likelihood="bigram", clusterer="gibbs")


def test_a_black_box_is_not_said_to_be_compared_with_everything():
    alone = RunOptions(likelihood=BlackBox(Categorical()), alpha=1, clusterer="gibbs")
    assert "whole sets" not in " ".join(prepare(examples.fragments(12), alone).notes)


@pytest.mark.parametrize("likelihood", ["attributes", "bigram", "names", "beta-bernoulli", "pairs"])
def test_what_is_not_read_is_never_one_entity(likelihood):
    apart_if_not_read(likelihood, "agglomerative", None)


def test_the_file_of_the_start_is_not_replaced(program, tmp_path, points):
    kb = tmp_path / "kb.jsonl"
    program("cluster", points, "-o", kb, *GAUSSIAN)
    before = kb.read_bytes()
    job = (
        "cluster",
        points,
        "--set",
        "clusterer=gibbs",
        "--set",
        f"clusterer.start={kb}",
        *GAUSSIAN,
    )
    program(*job, "-o", kb).require_refusal("is an input", 2)
    assert kb.read_bytes() == before
