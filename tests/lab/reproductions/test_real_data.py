"""The figures that the README quotes, on the real data that KBFORGE_DATA names."""

from __future__ import annotations

import csv
import json
from pathlib import Path

import pytest

from tests.program import Run

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
    program: Run, data_dir: Path, tmp_path: Path, clusterer: str, order: str, weights: str
) -> None:
    if clusterer == "smc" and weights == "marginal":
        pytest.skip("nothing splits in plain SMC")
    with open(data_dir / "gauss/gauss700.csv", newline="") as file:
        head, *rows = csv.reader(file)
    indices = json.loads((data_dir / "gauss/orders.json").read_text())[order]
    points, fragments, kb = (tmp_path / name for name in ("p.csv", "f.jsonl", "kb.jsonl"))
    with open(points, "w", newline="") as file:
        csv.writer(file).writerows([head, *(rows[i] for i in indices)])
    program("load", "csv", points, "--vector", "x,y", "--label", "label", "-o", fragments)
    job = ["cluster", fragments, "-o", kb, "--likelihood", "gaussian", "--clusterer", clusterer]
    job += ["--alpha", "20", "-P", "100", "--json"]
    for option in ("a=2", "b=0.5", "mu=0", "lam=0.0002"):
        job += ["--set", f"likelihood.{option}"]
    if clusterer == "split-smc":
        job += ["--set", f"clusterer.weights={weights}"]
    summary = program(*job).json
    scores = program("evaluate", kb, fragments, "--json").json
    log_posterior, f1 = PUBLISHED[clusterer, order]
    assert summary["log_posterior"] == pytest.approx(log_posterior, abs=0.1)
    assert scores["bcubed_f1_item_mean"] == pytest.approx(f1, abs=5e-5)


@pytest.mark.data
@pytest.mark.parametrize(("family", "least"), [("wd50", 0.85), ("dwie50", 0.73)])
def test_text_accuracy_tuned_on_the_train_set(
    program: Run, data_dir: Path, tmp_path: Path, family: str, least: float
) -> None:
    train = data_dir / f"confusable/{family}_train.jsonl"
    test = data_dir / f"confusable/{family}_dev.jsonl"
    corpus = data_dir / "lm_corpus/lm_train.jsonl.gz"
    model, calibration, kb = (tmp_path / name for name in ("model", "c.toml", "kb.jsonl"))
    search = ("--calibrator", "bcubed", "--low", 100, "--high", 1e9)
    likelihood = ("--likelihood", model)
    assert program("train-ngram", corpus, train, "--scale", 1, "-o", model).code == 0
    assert program("calibrate", train, *likelihood, *search, "-o", calibration).code == 0
    program("cluster", test, *likelihood, "--calibration", calibration, "-o", kb)
    scores = program("evaluate", kb, test, "--json").json
    assert scores["bcubed_f1_item_mean"] >= least
