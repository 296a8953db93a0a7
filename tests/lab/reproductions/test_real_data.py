"""The figures that the README quotes, on the real data that KBFORGE_DATA names."""

import csv
import json
import re
import subprocess
import sys
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from kbforge import registry
from kbforge.contracts import Fragment, ModelSpec
from kbforge.evaluation.scores import compare
from kbforge.files.fragments import read_fragments, write_fragments
from kbforge_lab.clusterers.offline import Agglomerative
from kbforge_lab.suites.circles import SURROGATE, draw_clusters
from kbforge_lab.suites.gauss import Gauss
from kbforge_plugins.likelihoods.gaussian import Gaussian
from tests.scripts import script

PUBLISHED = {
    ("smc", "0"): (-1541.79, 0.7678),
    ("smc", "1"): (-1474.17, 0.8504),
    ("smc", "2"): (-1537.54, 0.7923),
    ("split-smc", "0"): (-1445.57, 0.8563),
    ("split-smc", "1"): (-1422.44, 0.8887),
    ("split-smc", "2"): (-1421.05, 0.8860),
}


@pytest.mark.data
@pytest.mark.parametrize("weights", ["target", "marginal"])
@pytest.mark.parametrize(("clusterer", "order"), PUBLISHED)
def test_gaussian_benchmark_gives_the_published_figures(
    program, data_dir, tmp_path, clusterer, order, weights
):
    if clusterer == "smc" and weights == "marginal":
        pytest.skip("nothing splits in plain SMC")
    with open(data_dir / "gauss/gauss700.csv", newline="") as file:
        head, *rows = csv.reader(file)
    indices = json.loads((data_dir / "gauss/orders.json").read_text())[order]
    points, fragments, kb = (tmp_path / name for name in ("p.csv", "f.jsonl", "kb.jsonl"))
    with open(points, "w", newline="") as file:
        csv.writer(file).writerows([head, *(rows[i] for i in indices)])
    program("load", "csv", points, "--vector", "x,y", "--label", "label", "-o", fragments)
    job = [
        "cluster",
        fragments,
        "-o",
        kb,
        "--likelihood",
        "gaussian",
        "--set",
        f"clusterer={clusterer}",
    ]
    job += ["--alpha", "20", "--set", "particles=100", "--json"]
    for option in ("a=2", "b=0.5", "mu=0", "lam=0.0002"):
        job += ["--set", f"likelihood.{option}"]
    if clusterer == "split-smc":
        job += ["--set", "clusterer=split-smc", "--set", f"clusterer.weights={weights}"]
    summary = program(*job).json
    scores = program("evaluate", kb, fragments, "--json").json
    log_posterior, f1 = PUBLISHED[clusterer, order]
    assert summary["log_posterior"] == pytest.approx(log_posterior, abs=0.1)
    assert scores["bcubed_f1_item_mean"] == pytest.approx(f1, abs=5e-5)


@pytest.mark.data
@pytest.mark.parametrize(("family", "least"), [("wd50", 0.85), ("dwie50", 0.73)])
def test_text_accuracy_tuned_on_the_train_set(program, data_dir, tmp_path, family, least):
    train = data_dir / f"confusable/{family}_train.jsonl"
    test = data_dir / f"confusable/{family}_dev.jsonl"
    corpus = data_dir / "lm_corpus/lm_train.jsonl.gz"
    model, calibration, kb = (tmp_path / name for name in ("model", "c.toml", "kb.jsonl"))
    search = ("--calibrator", "bcubed", "--between", "100,1e9")
    likelihood = ("--likelihood", model)
    assert program("train-ngram", corpus, train, "--scale", 1, "-o", model).code == 0
    assert program("calibrate", train, *likelihood, *search, "-o", calibration).code == 0
    program("cluster", test, *likelihood, "--set", f"calibration={calibration}", "-o", kb)
    scores = program("evaluate", kb, test, "--json").json
    assert scores["bcubed_f1_item_mean"] >= least


# The script that measures records: baselines, and labels that only score.


PEOPLE = ("ann lee", "bob stone", "cleo marsh", "dan brook")


def people(copies: int = 3) -> list[Fragment]:
    return [
        Fragment(
            f"{name}-{copy}", {"name": (name.title(),), "town": (f"{name[0]}town",)}, label=name
        )
        for name in PEOPLE
        for copy in range(copies)
    ]


def measured(
    folder: Path, monkeypatch: pytest.MonkeyPatch, held: list[Fragment], **limits: float
) -> dict[str, Any]:
    records = script("records")
    monkeypatch.setenv("KBFORGE_DATA", str(folder))
    target = folder / records.SETS["restaurant"].file
    target.parent.mkdir(exist_ok=True)
    write_fragments(held, target)
    (row,) = records.measure("restaurant", "file", [1.0], **limits)
    found: dict[str, Any] = row
    return found


def test_labels_score_and_do_nothing_else(tmp_path, monkeypatch):
    held = people()
    one = [Fragment(f.id, f.properties, label="all the same") for f in held]
    first = measured(tmp_path, monkeypatch, held)
    second = measured(tmp_path, monkeypatch, one)
    assert first["complete"]
    assert first["fragments"] == len(held)
    assert (first["clusters"], first["alpha"]) == (second["clusters"], second["alpha"])
    assert (first["gold_clusters"], second["gold_clusters"]) == (len(PEOPLE), 1)


def test_exact_match_needs_all_attributes_and_no_case():
    records = script("records")
    held = [
        Fragment("1", {"name": ("Ann", "Annie"), "town": ("York",)}, label="a"),
        Fragment("2", {"name": ("annie", "ANN"), "town": ("york",)}, label="a"),
        Fragment("3", {"name": ("ann", "annie")}, label="a"),
    ]
    scored = records.baselines(held)
    assert scored["exact_match"]["clusters"] == 2
    assert scored["exact_name"]["clusters"] == 2  # the first name: ann, annie


def test_a_run_over_its_time_tells_how_far_it_got(tmp_path, monkeypatch):
    row = measured(tmp_path, monkeypatch, people(), seconds=0.0)
    assert not row["complete"]
    assert row["fragments"] < row["of"] == len(people())
    assert f"{row['fragments']} of {row['of']}" in script("records").records_table([row])


# Offline clusterers on the Gaussian benchmark: what the split-SMC paper reports of them.


PROBLEM = ModelSpec(Gaussian(a=2, b=0.5, mu=0, lam=0.0002), alpha=20.0)


@pytest.mark.data
def test_agglomerative_clustering_finds_the_published_optimum(data_dir):
    """-1425 (0) and F1 .87, whatever the order."""
    with open(data_dir / "gauss/gauss700.csv", newline="") as file:
        rows = list(csv.DictReader(file))
    fragments = [
        Fragment(f"p{i}", {}, (float(row["x"]), float(row["y"])), label=row["label"])
        for i, row in enumerate(rows)
    ]
    found = Agglomerative().cluster(fragments, PROBLEM, np.random.default_rng(0))
    assert found.log_posterior == pytest.approx(-1425, abs=1)
    scores = compare(found.labels(), [row["label"] for row in rows])
    assert scores.bcubed_f1_item_mean == pytest.approx(0.87, abs=0.006)


# The figures of consensus and map are those of the groupings that they name.


replicas = script("replicas")
(TASK,) = Gauss(points=40).plan().tasks


@pytest.mark.parametrize(("name", "option"), [("sir", "replicas"), ("split-smc", "particles")])
def test_the_log_posterior_of_the_map_is_the_clusterers_own(name, option):
    seconds, log_p, f1, entities, more, agreed, agreed_f1, _ = replicas.figures(
        TASK, 0, name, {option: 50}
    )
    likelihood = registry.create("likelihoods", "gaussian", dict(TASK.likelihood.options))
    clusterer = registry.create("clusterers", name, {option: 50})
    spec = ModelSpec(likelihood, alpha=TASK.alpha)
    found = clusterer.cluster(list(TASK.fragments), spec, np.random.default_rng(0))
    assert log_p == pytest.approx(found.log_posterior)
    assert entities == len(found.clusters())
    assert 0 < min(f1, agreed_f1) <= max(f1, agreed_f1) <= 1
    assert np.isfinite(agreed)
    assert min(seconds, more) >= 0
    line = replicas.row(name, option, 50, [[seconds, log_p, f1, entities] * 2] * 2)
    assert line[0] == f"{name}, {'R' if name == 'sir' else 'P'} = 50"
    assert line[2] == f"{log_p:,.1f} (0.0)"


# The soak takes in records by each way, and says what memory grows by.


SOAK = Path(__file__).parents[3] / "examples" / "reproductions" / "soak.py"


@pytest.mark.skipif(sys.platform != "linux", reason="reads /proc")
@pytest.mark.parametrize("way", ["engine", "session"])
def test_rows_of_a_short_soak(way):
    options = ["--way", way, "--minutes", "0.01", "--seconds", "0.2", "--people", "200"]
    done = subprocess.run(
        [sys.executable, str(SOAK), *options], capture_output=True, text=True, check=True
    )
    rows = re.findall(r"^\| [\d.]+ \| ([\d,]+) \| ([\d,.]+) \| -?[\d,]+ \|", done.stdout, re.M)
    assert rows
    taken = [int(records.replace(",", "")) for records, _ in rows]
    assert taken == sorted(taken)
    assert taken[0] >= 2_000
    assert all(float(mib.replace(",", "")) > 20 for _, mib in rows)


# The surrogate fitted to simulated circles is as good as the published one, on other circles.


def test_the_fitted_surrogate_is_as_good_as_the_published_one():
    reproduction = script("surrogate_fit")
    fitted = script("gaussian_prior").fit(draw_clusters(300, np.random.default_rng(1)))
    others = draw_clusters(300, np.random.default_rng(2))
    found, published = (
        reproduction.evidence_per_cluster(options, others)
        for options in (fitted.options, SURROGATE)
    )
    assert found > published - 0.02
    # on a rim, half of radius^2 is the variance in each dimension
    for a, b in zip(fitted.a, fitted.b, strict=True):
        assert b / a == pytest.approx(0.6**2 / 2, rel=0.03)
    ours, theirs = (
        np.mean(reproduction.clustering_f1(options, draws=2, orders=1))
        for options in (fitted.options, SURROGATE)
    )
    assert ours == pytest.approx(theirs, abs=0.03)


# The reference matching experiment: nobody learns from an entity that is to be found.


references = script("scdp_references")


@pytest.mark.data
@pytest.mark.parametrize("name", references.SETS)
def test_labelled_entities_are_others_than_those_to_be_grouped(data_dir, name):
    for split in references.SPLITS[name]():
        known, new = ({f.label for f in part} for part in (split.train, split.test))
        assert len(known) >= 50
        assert not known & new
        assert not {f.id for f in split.train} & {f.id for f in split.test}


@pytest.mark.data
def test_every_reference_of_an_author_is_in_one_test_set(data_dir):
    splits = list(references.of_cora())
    assert [len(split.test) for split in splits] == [756, 529, 594]
    assert len({f.id for split in splits for f in split.test}) == 1879
    authors = [{f.label for f in split.test} for split in splits]
    for name, labels in zip(("utgoff", "fahlman", "kibler"), authors, strict=True):
        assert any(label.startswith(name) for label in labels)


# The reliability reproduction: disjoint parts, and tables of what the command prints.


reliability = script("reliability")


def named(labels):
    return [Fragment(f"f{i}", {"name": ("x",)}, label=label) for i, label in enumerate(labels)]


def test_parts_are_whole_entities_in_order():
    fragments = named("aabacbdcddeef")
    first, second = reliability.parts(fragments, 4)
    # a has 3 and b 2, so the first part has 5; c has 2 and d 3
    assert "".join(f.label for f in first) == "aabab"
    assert "".join(f.label for f in second) == "cdcdd"


@pytest.mark.data
def test_the_subset_is_that_of_the_sources(data_dir):
    first, second = reliability.parts(list(read_fragments(str(data_dir / reliability.SET))), 5_000)
    assert (len(first), len({f.label for f in first})) == (5_019, 501)
    assert len(second) >= 5_000
    assert not {f.label for f in first} & {f.label for f in second}


def test_the_report_tells_every_bin(program, tmp_path):
    lines = [
        {"id": f"{k}-{j}", "properties": {}, "vector": [5.0 * k, 0.1 * j], "label": f"{k}"}
        for k in range(8)
        for j in range(4)
    ]
    path = tmp_path / "points.jsonl"
    path.write_text("\n".join(map(json.dumps, lines)))
    ran = program(
        "calibrate",
        path,
        "--likelihood",
        "gaussian",
        "--confidence",
        "-o",
        tmp_path / "m",
        "--json",
    )
    text = reliability.report(ran.json, 16)
    for kind in ("pairs", "entities"):
        for name in ("raw", "mapped"):
            measured = ran.json[kind][name]
            assert f"| {kind} | {name} | {measured['count']} | {measured['ece']:.4f} |" in text
            for row in measured["table"]:
                assert f"| {row['count']} | {row['reported']:.4f} | {row['share']:.4f} |" in text
    both = reliability.without_labels({"raw": ran.json, "warm": ran.json})
    assert both.count(f"{ran.json['pairs']['raw']['brier']:.4f}") >= 2
