"""`evaluate --reliability` and `calibrate --confidence` as users run them, on points."""

from __future__ import annotations

import tomllib
from pathlib import Path

import numpy as np
import pytest

from kbforge.fit.alpha import read_calibration
from kbforge.fit.confidence import mapped, read_confidence
from kbforge.models.bundle import Bundle, read_bundle, write_bundle
from tests.jsonl import read_lines, write_lines

# the spread is larger than the model believes, and the centres are near: it is too sure
GAUSSIAN = ("--likelihood", "gaussian", "--set", "likelihood.a=2", "--set", "likelihood.b=0.8")
JOB = (*GAUSSIAN, "--alpha", 5, "--set", "particles=10")
CONFIDENCE = ("--confidence", "-o")


def write_points(path, seed, clusters=40, each=5, width=12):
    rng = np.random.default_rng(seed)
    lines = []
    for k in range(clusters):
        centre, label = rng.uniform(-width, width, 2), f"s{seed}-{k}"
        for j in range(each):
            vector = (centre + rng.normal(0, 0.8, 2)).tolist()
            lines.append({"id": f"{label}-{j}", "properties": {}, "vector": vector, "label": label})
    return write_lines(path, (lines[i] for i in rng.permutation(len(lines))))


@pytest.fixture
def test(tmp_path):
    return write_points(tmp_path / "test.jsonl", 1)


@pytest.fixture
def train(tmp_path):
    return write_points(tmp_path / "train.jsonl", 2)


def test_the_raw_table_alone(program, test):
    ran = program("evaluate", "--reliability", test, *JOB)
    text = ran.out.decode()
    assert "200 fragments in" in text
    assert "pairs reported above 1%" in text
    assert "expected calibration error, 15 bins" in text
    assert "calibrated" not in text
    found = program("evaluate", "--reliability", test, *JOB, "--json").json
    assert found["pairs"]["mapped"] is None
    assert found["bins"] == 15
    raw = found["pairs"]["raw"]
    assert sum(row["count"] for row in raw["table"]) == raw["count"]
    gaps = [row["count"] * abs(row["reported"] - row["share"]) for row in raw["table"]]
    assert raw["ece"] == pytest.approx(sum(gaps) / raw["count"])
    assert found["entities"]["raw"]["count"] == found["scores"]["clusters"]


def test_a_map_fitted_on_other_entities_repairs_the_confidence(program, tmp_path):
    test = write_points(tmp_path / "test.jsonl", 1, 160, 5, 60)
    train = write_points(tmp_path / "train.jsonl", 2, 160, 5, 60)
    out = tmp_path / "map.toml"
    ran = program("calibrate", train, *JOB, *CONFIDENCE, out, "--test-on", test, "--json")
    assert f"wrote {out}, fitted on 800 fragments" in ran.err
    for kind in ("pairs", "entities"):
        assert ran.json[kind]["mapped"]["ece"] < ran.json[kind]["raw"]["ece"] / 2
        assert ran.json[kind]["mapped"]["brier"] < ran.json[kind]["raw"]["brier"]
    written = read_confidence(str(out))
    assert (written.likelihood, written.alpha, written.fragments) == ("gaussian", 5, 800)
    assert written.options == {"a": "2", "b": "0.8"}
    again = program(
        "evaluate", "--reliability", test, *JOB, "--set", f"confidence-map={out}", "--json"
    )
    assert again.json == ran.json
    text = program(
        "evaluate", "--reliability", test, *JOB, "--set", f"confidence-map={out}"
    ).out.decode()
    assert "mean calibrated" in text


def test_cluster_writes_the_calibrated_confidence(program, test, train, tmp_path):
    out, kb = tmp_path / "map.toml", tmp_path / "kb.jsonl"
    program("calibrate", train, *JOB, *CONFIDENCE, out, "--test-on", test, "--json")
    program("cluster", test, *JOB, "-o", kb)
    plain = read_lines(kb)
    assert not any("reported" in entity for entity in plain)
    program("cluster", test, *JOB, "--set", f"confidence-map={out}", "-o", kb)
    entities = read_lines(kb)
    sizes = {}
    for entity in entities:
        sizes[entity["subproblem"]] = sizes.get(entity["subproblem"], 0) + len(entity["fragments"])
    found = read_confidence(str(out)).entities
    for entity, before in zip(entities, plain, strict=True):
        assert entity["reported"] == before["confidence"]
        size = np.array([sizes[entity["subproblem"]]], np.float64)
        (expected,) = mapped(found, np.array([entity["reported"]]), size).tolist()
        assert entity["confidence"] == pytest.approx(expected)
    program("show", kb, "--ambiguous", "--top", 1)


def test_without_other_fragments_one_entity_in_two_is_fitted_on(program, test, tmp_path):
    out = tmp_path / "map.toml"
    ran = program("calibrate", test, *JOB, *CONFIDENCE, out, "--json")
    fitted = read_confidence(str(out)).fragments
    assert 50 < fitted < 150
    # whole entities, of five fragments each
    assert fitted % 5 == 0
    assert ran.json["fragments"] == 200 - fitted
    assert ran.json["unlabelled"] == 0


@pytest.mark.parametrize("named", ["c.toml", "./c.toml", "link.toml"])
def test_the_map_travels_in_the_calibration_file(
    program, test, train, tmp_path, monkeypatch, named
):
    """However the file is named."""
    monkeypatch.chdir(tmp_path)
    calibration = tmp_path / "c.toml"
    (tmp_path / "link.toml").symlink_to("c.toml")
    program("calibrate", train, *GAUSSIAN, "--set", "particles=5", "-o", calibration)
    before = read_calibration(str(calibration))
    job = (*GAUSSIAN, "--set", "particles=10", "--set", f"calibration={calibration}")
    program("calibrate", train, *job, *CONFIDENCE, named, "--test-on", test, "--json")
    after = read_calibration(str(calibration))
    assert (after.alpha, after.sha256) == (before.alpha, before.sha256)
    assert after.confidence is not None
    assert after.confidence.alpha == before.alpha
    kb = tmp_path / "kb.jsonl"
    program("cluster", test, *job, "-o", kb)
    assert b'"reported"' in kb.read_bytes()


@pytest.fixture
def model(tmp_path, program):
    """A model bundle, and labelled names it can cluster."""
    lines = [
        {"id": f"{k}-{j}", "properties": {"name": [f"{name} {'x' * j}"]}, "label": str(k)}
        for k, name in enumerate(["Ada", "Bob", "Cyd", "Dan", "Eve", "Fay", "Gus", "Hal"])
        for j in range(4)
    ]
    names = write_lines(tmp_path / "names.jsonl", lines)
    folder = tmp_path / "model"
    program("train-ngram", names, "-o", folder)
    return folder, names


def test_the_map_travels_in_the_model(program, model, tmp_path):
    folder, names = model
    by, kb = ("--likelihood", folder, "--alpha", 10), tmp_path / "kb.jsonl"
    program("calibrate", names, *by, *CONFIDENCE, folder)
    tomllib.loads(read_bundle(folder).files["confidence.toml"].decode())
    program("cluster", names, *by, "-o", kb)
    assert all("reported" in entity for entity in read_lines(kb))
    ran = program("evaluate", "--reliability", names, *by, "--json")
    assert ran.json["pairs"]["mapped"] is not None


def test_a_folder_that_is_no_model_is_refused_first(program, test, tmp_path):
    ran = program("calibrate", test, *JOB, *CONFIDENCE, tmp_path)
    ran.require_refusal("is not a model bundle", 1)


def test_a_damaged_map_in_a_model_is_refused(program, model):
    folder, names = model
    old = read_bundle(folder)
    files = {**old.files, "confidence.toml": b"format = 9\n"}
    write_bundle(folder, Bundle(old.kind, old.plugin, files, old.recipe, old.data))
    ran = program("cluster", names, "--likelihood", folder, "-o", "-")
    ran.require_refusal("confidence.toml: format: expected 1, got 9", 1)


def test_orders_are_averaged(program, test):
    def sure(*more):
        found = program("evaluate", "--reliability", test, *JOB, *more, "--json").json
        table = found["pairs"]["raw"]["table"]
        total = sum(row["count"] * row["reported"] for row in table)
        return found, total / sum(row["count"] for row in table)

    plain, before = sure()
    shuffled, averaged = sure("--shuffles", 4)
    assert (plain["shuffles"], shuffled["shuffles"]) == (1, 4)
    # another order finds other pairs
    assert shuffled["pairs"]["raw"]["count"] > plain["pairs"]["raw"]["count"]
    assert averaged < before
    assert shuffled["scores"] == plain["scores"]


def test_same_seed_same_figures(program, test):
    arguments = ("evaluate", "--reliability", test, *JOB, "--shuffles", 3, "--seed", 5, "--json")
    assert program(*arguments).out == program(*arguments).out


def test_unlabelled_fragments_are_clustered_and_not_judged(program, test, tmp_path):
    lines = read_lines(test)
    for line in lines[::2]:
        del line["label"]
    half = write_lines(tmp_path / "half.jsonl", lines)
    found = program("evaluate", "--reliability", half, *JOB, "--json").json
    whole = program("evaluate", "--reliability", test, *JOB, "--json").json
    assert (found["fragments"], found["unlabelled"]) == (200, 100)
    assert found["scores"]["items"] == 100
    assert 0 < found["pairs"]["raw"]["count"] < whole["pairs"]["raw"]["count"]
    table = program("evaluate", "--reliability", half, *JOB).out.decode()
    assert "without a label, so not evaluated: 100" in table


def test_a_map_needs_entities_whose_fragments_all_have_labels(program, test, tmp_path):
    """Far apart, each certain, and each with a fragment of which gold says nothing."""
    lines = [
        {"id": f"{k}-{j}", "properties": {}, "vector": [20.0 * k, j / 10]}
        | ({"label": f"u{k}"} if j else {})
        for k in range(6)
        for j in range(4)
    ]
    half = write_lines(tmp_path / "half.jsonl", lines)
    ran = program("calibrate", half, *JOB, *CONFIDENCE, tmp_path / "m.toml", "--test-on", test)
    ran.require_refusal("every entity has a fragment without a label", 1)
    assert not (tmp_path / "m.toml").exists()


def test_a_map_for_other_reports_is_told(program, test, train, tmp_path):
    out = tmp_path / "map.toml"
    program("calibrate", train, *JOB, *CONFIDENCE, out, "--test-on", test)
    given = ("--set", f"confidence-map={out}", "--shuffles", 2, "--set", "clusterer=smc")
    ran = program("evaluate", "--reliability", test, *JOB, *given)
    assert "fitted on reports of 1 orders, and reads reports of 2" in ran.err
    assert "fitted with batch, used here with smc" in ran.err
    ran = program("cluster", test, "--likelihood", "names", "--alpha", 1,
                  "--set", f"confidence-map={out}", "-o", tmp_path / "kb.jsonl")  # fmt: skip
    assert "gaussian" in ran.err


def test_what_is_of_a_map_needs_confidence(program, test, tmp_path):
    ran = program("calibrate", test, "--shuffles", 2, "-o", tmp_path / "c.toml")
    assert (ran.code, ran.err) == (2, "kbforge: --shuffles requires --confidence\n")


FIT = "calibrate test.jsonl --confidence"
JUDGE = "evaluate --reliability"
VECTOR = '{"id": "a", "properties": {}, "vector": [1, 2]%s}'


@pytest.mark.parametrize(
    ("command", "code", "said"),
    [
        (f"{FIT} -o -", 2, "expected a file or a model folder, got standard output"),
        (f"{FIT} -o m.toml --test-on test.jsonl", 2, "that the map is not fitted on, got 40"),
        (f"{FIT} -o ./test.jsonl", 2, "the output ./test.jsonl is an input (test.jsonl)"),
        (f"{FIT} -o m.toml --test-on m.toml", 1, "cannot read m.toml"),
        (f"{FIT} -o no/such/folder/m.toml", 1, "cannot write no/such/folder/m.toml"),
        (f"{FIT} -o m.toml --between 1,2", 2, "--between is for choosing alpha"),
        (f"{JUDGE} test.jsonl --set confidence-map=none.toml", 1, "cannot read none.toml"),
        (
            f"{JUDGE} test.jsonl --set confidence-map=test.jsonl",
            1,
            "a confidence map, got fragments",
        ),
        (f"{JUDGE} test.jsonl --shuffles 0", 2, "--shuffles"),
        (f"{JUDGE} test.jsonl test.jsonl", 2, "clusters labelled fragments; leave out GOLD"),
        (f"{JUDGE} none.jsonl", 1, "there are no fragments"),
        (f"{JUDGE} unlabelled.jsonl", 1, "none of the 1 fragments has"),
        (
            "calibrate one.jsonl --confidence -o m.toml",
            1,
            "needs labelled entities to fit on and others to be tested on, got 1 in all",
        ),
    ],
)
def test_bad_use_is_one_sentence(program, test, monkeypatch, command, code, said):
    monkeypatch.chdir(test.parent)
    Path("none.jsonl").touch()
    Path("unlabelled.jsonl").write_text(VECTOR % "")
    Path("one.jsonl").write_text(VECTOR % ', "label": "x"')
    ran = program(*command.split(), *JOB)
    assert (ran.code, said in ran.err) == (code, True), ran.err
    assert not Path("m.toml").exists()
