"""`kbforge cluster` as users run it."""

from __future__ import annotations

import re
import signal
import time
from pathlib import Path

import numpy as np
import pytest

from kbforge.cli.console import stoppable
from kbforge.contracts import Interrupted, Stage
from kbforge.files.fragments import read_fragments
from kbforge.fit.choices import RunOptions
from kbforge.jobs.cluster import cluster
from kbforge.jobs.update import add_fragments
from kbforge.registry import named_after
from tests.jsonl import groups_in, members_of, read_lines, write_lines
from tests.program import Run

QUICKSTART = Path(__file__).parents[2] / "examples" / "quickstart" / "fragments.jsonl"
SUMMARY = {
    "likelihood",
    "fragments",
    "entities",
    "subproblems",
    "log_posterior",
    "log10_effective_particles",
    "model_evaluations",
    "evaluations_in_vain",
    "merges_cut",
    "seconds",
    "seconds_reading",
    "seconds_preparing",
    "seconds_clustering",
    "seconds_confidence",
    "seconds_assembling",
    "seconds_writing",
    "clustered_per_second",
    "alpha",
    "size_exponent",
    "complete",
    "ended",
}
GAUSSIAN = ("--likelihood", "gaussian", "--alpha", "1")


def write_points(path: Path, n: int = 60, centres: int = 6, apart: float = 20.0) -> Path:
    rng = np.random.default_rng(5)
    vectors = ((apart * (i % centres) + rng.normal(size=2)).tolist() for i in range(n))
    lines = (
        {"id": f"p{i}", "properties": {}, "vector": vector, "label": str(i % centres)}
        for i, vector in enumerate(vectors)
    )
    return write_lines(path, lines)


@pytest.fixture
def points(tmp_path: Path) -> Path:
    return write_points(tmp_path / "points.jsonl")


@pytest.mark.parametrize("clusterer", ["split-smc", "smc", "greedy"])
def test_every_fragment_is_in_exactly_one_entity(
    program: Run, points: Path, tmp_path: Path, clusterer: str
) -> None:
    check_once_each(program, points, tmp_path, "done", "--set", f"clusterer={clusterer}")


def check_once_each(program: Run, points: Path, tmp_path: Path, ended: str, *options: str) -> None:
    kb = tmp_path / "kb.jsonl"
    job = ("cluster", points, "-o", kb, *GAUSSIAN, *options, "--json")
    ran, again = program(*job), program(*job)
    assert set(ran.json) == SUMMARY
    assert members_of(kb) == sorted(f"p{i}" for i in range(60))
    assert ran.json["entities"] == len(groups_in(kb)) == 6
    assert (ran.json["fragments"], ran.json["complete"], ran.json["ended"]) == (60, True, ended)
    assert again.json["log_posterior"] == ran.json["log_posterior"]


def test_same_seed_same_bytes(program: Run, tmp_path: Path) -> None:
    points = write_points(tmp_path / "close.jsonl", centres=40, apart=1.5)
    job = (
        "cluster",
        points,
        *GAUSSIAN,
        "--set",
        "particles=5",
        "--set",
        "clusterer=split-smc",
        "--set",
        "clusterer.resampler=multinomial",
    )
    outputs = []
    for run, seed in enumerate((1, 1, 2, 3, 4, 5)):
        kb = tmp_path / f"kb{run}.jsonl"
        program(*job, "-o", kb, "--seed", seed)
        outputs.append(kb.read_bytes())
    assert outputs[0] == outputs[1]
    assert len(set(outputs)) > 1, "the seed does nothing"


def test_labels_are_not_read(program: Run, points: Path, tmp_path: Path) -> None:
    lines = [line | {"label": None} for line in read_lines(points)]
    unlabelled = write_lines(tmp_path / "unlabelled.jsonl", lines)
    outputs = [program("cluster", f, "-o", "-", *GAUSSIAN).out for f in (points, unlabelled)]
    assert outputs[0] == outputs[1]


def test_pipes_from_stdin_to_stdout(program: Run, points: Path) -> None:
    piped = program("cluster", "-", "-o", "-", *GAUSSIAN, stdin=points.read_bytes())
    direct = program("cluster", points, "-o", "-", *GAUSSIAN)
    assert piped.out == direct.out
    assert len(piped.lines) == 6


def test_an_output_is_called_after_its_input_and_says_what_it_replaces(
    program: Run, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "data").mkdir()
    points = write_points(tmp_path / "data" / "a.b.jsonl", centres=2)
    for table in ("abt.csv", "buy.csv"):
        Path(table).write_text("id,name\n1,Ann Lee\n")
    jobs = {
        "a.b.kb.jsonl": ("cluster", points),
        "kb.jsonl": ("cluster", "-"),
        "abt-buy.kb.jsonl": ("link", "abt.csv", "buy.csv"),
        "said.jsonl": ("cluster", points, "-o", "said.jsonl", "--json"),
        "NAME.kb.jsonl": ("cluster", points, "-o", "NAME.kb.jsonl"),
    }
    for output, (verb, *rest) in jobs.items():
        job = (verb, *rest, *(("--likelihood", "names") if verb == "link" else GAUSSIAN))
        first = program(*job, stdin=points.read_bytes())
        assert Path(output).is_file(), first.err
        assert "replaced" not in first.err
        again = program(*job, stdin=points.read_bytes())
        assert f"note: replaced an earlier file: {output}\n" in again.err
    links = (*jobs["abt-buy.kb.jsonl"], "--likelihood", "names", "--links", "links.csv")
    program(*links)
    assert "earlier files: abt-buy.kb.jsonl, links.csv\n" in program(*links).err


def test_a_name_that_would_be_too_long_is_cut(tmp_path: Path) -> None:
    tables = [f"{'ü' * 80}.csv", "b.tsv.gz", f"{'c' * 240}.csv"]
    name = named_after("NAME.kb.jsonl", tables)
    assert name.startswith(f"{'ü' * 80}-b-ccc")
    (tmp_path / f"{name}.partial").touch()


def test_limit_clusters_a_prefix(program: Run, points: Path, tmp_path: Path) -> None:
    ran = program("cluster", points, "-o", tmp_path / "kb.jsonl", *GAUSSIAN, "--limit", 7, "--json")
    assert ran.json["fragments"] == 7


@pytest.mark.parametrize("surrogate", ["attributes", "names"])
def test_any_conjugate_likelihood_is_a_surrogate(
    program: Run, tmp_path: Path, surrogate: str
) -> None:
    names = ("Ann Lee", "Ann Lee", "Bo Ek", "Cy Orr", "Cy Orr", "Cy Orr")
    lines = ({"id": f"n{i}", "properties": {"name": [name]}} for i, name in enumerate(names))
    file = write_lines(tmp_path / "names.jsonl", lines)
    job = ("cluster", file, "-o", tmp_path / "kb.jsonl", "--likelihood", "bigram", "--alpha", "5")
    ran = program(*job, "--set", f"surrogate={surrogate}", "--json")
    assert ran.json["log_posterior"] == pytest.approx(program(*job, "--json").json["log_posterior"])


def test_likelihood_options_reach_the_model(program: Run, points: Path, tmp_path: Path) -> None:
    job = ("cluster", points, "-o", tmp_path / "kb.jsonl", *GAUSSIAN, "--json")
    base = program(*job).json["log_posterior"]
    assert program(*job, "--set", "likelihood.a=2").json["log_posterior"] == base
    assert program(*job, "--set", "likelihood.a=3").json["log_posterior"] != base


@pytest.mark.parametrize(
    ("arguments", "sentence"),
    [
        (
            ("--likelihood", "gaussain"),
            'there is no likelihood "gaussain" (did you mean "gaussian"?); available: ',
        ),
        (("--likelihood", "./no/model"), "there is no model at ./no/model"),
        ((*GAUSSIAN, "--set", "clusterer=magic"), 'there is no clusterer "magic"; available: '),
        ((*GAUSSIAN, "--set", "likelihood.q=2"), 'likelihood gaussian has no option "q"'),
        ((*GAUSSIAN, "--set", "likelihood.a=two"), "expected a number, got two"),
        ((*GAUSSIAN, "--set", "prior.a=2"), 'unknown kind "prior"'),
        ((*GAUSSIAN, "--set", "a=2"), 'unknown name "a"'),
        ((*GAUSSIAN, "--set", "clusterer.floor=2"), "floor: expected a number from 0"),
        ((*GAUSSIAN, "--set", "surrogate.a=2"), "there is no surrogate"),
        (
            (*GAUSSIAN, "--set", "surrogate=gpt"),
            "gpt cannot be a surrogate: it has no posterior pred",
        ),
        (
            (*GAUSSIAN, "--set", "surrogate=bigram", "--set", "surrogate.q=2"),
            'surrogate bigram has no option "q"',
        ),
        (("--likelihood", "gaussian", "--alpha", "-1"), "expected a finite positive number"),
        (("--likelihood", "gaussian", "--alpha", "nan"), "expected a finite positive number"),
        ((*GAUSSIAN, "--set", "clusterer=greedy", "--set", "particles=5"), "greedy has no option"),
        ((*GAUSSIAN, "--set", "max-evals=0"), "but there is none"),
        ((*GAUSSIAN, "--set", "calibration=some.toml"), "choose one"),
        (("--likelihood", "gaussian", "--set", "calibration=nowhere.toml"), "nowhere.toml"),
        ((*GAUSSIAN, "--set", "max-evals=5"), "but there is none"),
        ((*GAUSSIAN, "--set", "particles=5", "--set", "clusterer.particles=7"), "choose one"),
    ],
)
def test_bad_choices_get_one_sentence(
    program: Run, points: Path, tmp_path: Path, arguments: tuple[str, ...], sentence: str
) -> None:
    kb = tmp_path / "kb.jsonl"
    program("cluster", points, "-o", kb, *arguments).require_refusal(sentence)
    assert not kb.exists()


ONE, OTHER = b'{"id": "a", "vector": [1.0, 2.0]}\n', b'{"id": "b", "properties": {"name": ["B"]}}\n'


@pytest.mark.parametrize(
    ("output", "stdin", "sentence"),
    [
        ("kb.jsonl", b"", "kbforge: there are no fragments to cluster\n"),
        ("kb.jsonl", ONE + OTHER, '"b"'),
        ("no/kb.jsonl", ONE, "cannot write"),
    ],
    ids=["no fragment", "one that the model cannot read", "no folder"],
)
def test_bad_files_get_one_sentence(
    program: Run, tmp_path: Path, output: str, stdin: bytes, sentence: str
) -> None:
    ran = program("cluster", "-", "-o", tmp_path / output, *GAUSSIAN, stdin=stdin)
    ran.require_refusal(sentence, 1)


def test_what_the_user_should_know_of_alpha_is_said(
    program: Run, points: Path, tmp_path: Path
) -> None:
    kb, model, calibration = tmp_path / "kb.jsonl", tmp_path / "model", tmp_path / "c.toml"
    fragments = write_people(tmp_path / "named.jsonl", 0)
    program("train-ngram", fragments, "-o", model)
    guessed = program("cluster", fragments, "-o", kb, "--likelihood", model)
    assert "finds in this file; --alpha overrides it" in guessed.err
    program("calibrate", points, "--likelihood", "gaussian", "-o", calibration)
    calibrating = program("calibrate", fragments, "--likelihood", model, "-o", "-")
    assert "in this file" not in calibrating.err
    named_other = ("--likelihood", "attributes", "--set", f"calibration={calibration}")
    mixed = program("cluster", fragments, "-o", kb, *named_other)
    assert "is a calibration of the likelihood gaussian, used here with attributes" in mixed.err


def write_people(path: Path, known: int) -> Path:
    """Three people, each seen four times; of the first `known` lines there is more than a name."""
    people = [("Ann Lee", "Lund", "1815"), ("Bo Ek", "Oslo", "1912"), ("Cy Orr", "Rome", "1906")]
    lines = []
    for i in range(12):
        name, town, born = people[i % 3]
        more = {"town": [town], "born": [born]} if i < known else {}
        lines.append({"id": f"f{i}", "properties": {"name": [name]} | more, "label": name})
    return write_lines(path, lines)


def test_the_default_likelihood_learns_from_the_input_and_sets_alpha_itself(
    program: Run, tmp_path: Path
) -> None:
    people, kb = write_people(tmp_path / "people.jsonl", 12), tmp_path / "kb.jsonl"
    default = program("cluster", people, "-o", kb, "--json")
    assert "note: chosen: " in default.err
    assert "name another with --likelihood" in default.err
    assert groups_in(kb) == [[f"f{i}" for i in sorted(range(k, 12, 3), key=str)] for k in range(3)]
    attributes = ("--likelihood", "attributes", "--json")
    named = program("cluster", people, "-o", kb, *attributes)
    assert "attributes: rates are learned from 12 of the 12 fragments" in named.err
    assert "suits this file" in named.err
    assert named.json["likelihood"] == "attributes"
    given = program("cluster", people, "-o", kb, "--alpha", "7", "--json")
    assert given.json["alpha"] == 7 != named.json["alpha"]
    assert given.json["likelihood"] != "names", "equal names know no alpha"


def test_vectors_are_gaussian(program: Run, points: Path, tmp_path: Path) -> None:
    ran = program("cluster", points, "-o", tmp_path / "kb.jsonl", "--json")
    assert ran.json["likelihood"] == "gaussian"
    assert "chosen: gaussian, as the fragments have vectors and no properties" in ran.err


@pytest.mark.parametrize(("centres", "said"), [(1, True), (6, False)])
def test_one_entity_of_nearly_everything_is_said(
    program: Run, tmp_path: Path, centres: int, said: bool
) -> None:
    points = write_points(tmp_path / "points.jsonl", centres=centres)
    ran = program("cluster", points, "-o", tmp_path / "kb.jsonl", *GAUSSIAN, "--set", "particles=5")
    assert ("one entity holds" in ran.err) is said
    assert ("try a larger --alpha than 1" in ran.err) is said


def test_merges_that_the_largest_subproblem_leaves_out_are_said(
    program: Run, tmp_path: Path
) -> None:
    given = ("cluster", QUICKSTART, "--likelihood", "attributes", "--alpha", "20", "--json")
    told = {}
    for most in (1, 9999):
        out, bound = tmp_path / f"{most}.jsonl", f"clusterer.largest={most}"
        run = program(*given, "-o", out, "--set", bound)
        told[most] = run.json["merges_cut"], "leave out about" in run.err
    assert told[9999] == (0.0, False)
    assert told[1][0] >= 0.5
    assert told[1][1]
    into = ("--into", tmp_path / "kb.sqlite", "--set", "clusterer.largest=1")
    filled = program(*given, *into)
    assert (filled.json["merges_cut"], "leave out about" in filled.err) == told[1]
    assert program(*given, *into).json["merges_cut"] == 0.0


def test_control_c_before_the_first_step_ends_at_once() -> None:
    """While a likelihood learns, there is nothing to keep; afterwards a step is finished first."""
    with pytest.raises(KeyboardInterrupt), stoppable():
        signal.raise_signal(signal.SIGINT)
    with stoppable() as check:
        check()
        signal.raise_signal(signal.SIGINT)
        signal.raise_signal(signal.SIGINT)  # passed on by a launcher as well
        with pytest.raises(Interrupted):
            check()
        time.sleep(0.6)
        with pytest.raises(KeyboardInterrupt):
            signal.raise_signal(signal.SIGINT)


def test_choosing_counts_and_the_parts_add_up(program: Run, tmp_path: Path) -> None:
    """Only clustering counted once: a run of minutes said that it had taken a second."""
    told = program("cluster", QUICKSTART, "-o", tmp_path / "kb.jsonl", "--json").json
    stages = ("reading", "preparing", "clustering", "confidence", "assembling", "writing")
    parts = [told[f"seconds_{stage}"] for stage in stages]
    assert min(parts) > 0
    assert told["seconds"] == pytest.approx(sum(parts))
    assert told["clustered_per_second"] == pytest.approx(499 / told["seconds_clustering"])


@pytest.mark.slow
def test_a_store_counts_choosing_too(program: Run, tmp_path: Path) -> None:
    """The clock of a run's row began only when all was learned."""
    store, stages = str(tmp_path / "kb.sqlite"), list[float]()
    fragments = list(read_fragments(str(QUICKSTART)))
    told = add_fragments(
        store, fragments, RunOptions(), on_stage=lambda _: stages.append(time.time())
    )
    (row,) = program("status", store, "--json").json["runs"]
    assert told.seconds >= row["seconds"] >= stages[-1] - stages[0]
    assert row["began"] <= stages[0]


def test_choosing_says_what_it_does() -> None:
    fragments = list(read_fragments(str(QUICKSTART)))[:60]
    stages: list[Stage] = []
    cluster(fragments, RunOptions(), on_stage=stages.append)
    assert [(stage.number, stage.of) for stage in stages] == [(k, 4) for k in range(1, 5)]
    assert [stage.doing for stage in stages] == [
        f"choosing a likelihood: {verb} {name}"
        for verb in ("learning", "trying")
        for name in ("pairs", "attributes")
    ]


@pytest.mark.parametrize("likelihood", ["pairs", "names"])
def test_what_is_no_probability_is_called_a_score(
    program: Run, tmp_path: Path, likelihood: str
) -> None:
    few = ("--limit", "40", "-o", tmp_path / "kb.jsonl")
    job = ("cluster", QUICKSTART, "--likelihood", likelihood, *few)
    assert set(program(*job, "--json").json) == (SUMMARY - {"log_posterior"}) | {"score"}
    told = program(*job).err
    assert re.search(r"^score +-?[\d,]+\.\d\d *$", told, re.M)
    assert "log posterior" not in told
