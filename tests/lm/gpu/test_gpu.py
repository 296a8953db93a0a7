"""The language model on a GPU, end to end: scores, clustering, speed, training and its resumption.

`make gpu` runs these checks; without a GPU they are skipped. KBFORGE_GPU_CHECKS=cpu runs the same
code on the CPU, smaller, which shows that the checks themselves work. Figures go into the JSON file
that KBFORGE_GPU_FIGURES names, each as soon as it is known. Together the checks may take four
minutes: when little is left of them, the next one is skipped.
"""

import json
import os
import time
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
import torch

from kbforge.files.fragments import write_fragments
from kbforge.models.bundle import read_bundle
from kbforge_lm.likelihoods.gpt.likelihood import Gpt, shipped_model
from kbforge_lm.likelihoods.gpt.model import from_bundle
from kbforge_lm.likelihoods.gpt.scoring import SequenceScorer
from kbforge_training.fitting.loop import METRICS, Loop
from kbforge_training.lm.data import Data
from kbforge_training.lm.train import read_recipe, train_lm
from tests.lm.gpu.train import recipe
from tests.lm.likelihoods.gpt.language_models import QUICKSTART, quickstart, random_sets
from tests.lm.training.tiny import ctrl_c_after, people, write_recipe

NATS = 0.1  # a set, between a GPU and the CPU
SECONDS = 240.0  # of all checks
LONGEST = 100.0  # of a check that compiles a model
BEGAN = time.monotonic()
Keep = Callable[..., None]
TRAIN = ["train-lm", "people.jsonl", "--recipe", "tiny.toml"]


@pytest.fixture(scope="module")
def device():
    if os.environ.get("KBFORGE_GPU_CHECKS") == "cpu":
        return "cpu"
    if not torch.cuda.is_available():
        pytest.skip(f"PyTorch {torch.__version__} finds no CUDA device")
    return "cuda"


def on(device: str) -> list[str]:
    """The option that chooses a device."""
    return ["--gpu"] if device == "cuda" else []


@pytest.fixture(autouse=True)
def _in_time(device):
    if device == "cuda" and time.monotonic() - BEGAN > SECONDS - LONGEST:
        pytest.skip("no time is left for this check")


@pytest.fixture(scope="module")
def keep(device):
    """Prints figures, and keeps them with those before."""
    figures: dict[str, object] = {"torch": torch.__version__, "device": device}
    if device == "cuda":
        figures["device"] = torch.cuda.get_device_name()

    def kept(**more: object) -> None:
        figures.update(more, seconds=time.monotonic() - BEGAN)
        print(more)
        if path := os.environ.get("KBFORGE_GPU_FIGURES"):
            Path(path).write_text(json.dumps(figures, indent=1), encoding="utf-8")

    return kept


@pytest.fixture(scope="module")
def sets():
    return random_sets(quickstart(), 300)


def test_scores_are_those_of_the_cpu(device, sets, keep):
    here = Gpt(precision="fp32", surrogate_weight=0.0).log_marginal(sets)
    there = Gpt(device=device, precision="fp32", surrogate_weight=0.0)  # type: ignore[arg-type]
    found = there.log_marginal(sets)
    np.testing.assert_allclose(found, here, atol=NATS, rtol=0)
    again = Gpt(device=device, precision="fp32", batch_tokens=300, surrogate_weight=0.0)  # type: ignore[arg-type]
    np.testing.assert_allclose(again.log_marginal(sets[::-1]), here[::-1], atol=NATS, rtol=0)
    rough = Gpt(device=device, surrogate_weight=0.0).log_marginal(sets)  # type: ignore[arg-type]
    # bfloat16 has three digits
    np.testing.assert_allclose(rough, here, rtol=0.03, atol=1.0)
    keep(
        nats_from_the_cpu=float(np.abs(found - here).max()),
        nats_from_the_cpu_at_its_precision=float(np.abs(rough - here).max()),
    )


def test_speed(device, sets, keep):
    """Sets a second and the share of the device's own measured peak."""
    model = from_bundle(read_bundle(shipped_model()), "gpt")
    scorer = SequenceScorer(model, torch.device(device))
    texts = [model.tokenizer.encode(model.tokenizer.text(one)) for one in sets]
    scorer.score(texts[:10])  # the first use of a device is slow
    read = scorer.tokens_read
    begin = time.perf_counter()
    scores = scorer.score(texts)
    seconds = time.perf_counter() - begin
    shape = model.gpt.shape
    # two operations a weight and token; the embedding is a lookup
    weights = shape.parameters - shape.n_tokens * shape.d_model
    rate = 2 * weights * (scorer.tokens_read - read) / seconds
    peak = matrix_products(torch.device(device), scorer.precision)
    keep(
        precision=scorer.precision,
        sets_per_second=len(sets) / seconds,
        scoring_tflops=rate / 1e12,
        peak_tflops=peak / 1e12,
    )
    assert scores.shape == (len(sets),)
    assert np.isfinite(scores).all()
    assert rate < peak, "more than the device can do: the time was not that of the work"


def test_clustering(program, tmp_path, monkeypatch, device, keep):
    monkeypatch.chdir(tmp_path)
    command = ["cluster", QUICKSTART, "--likelihood", "gpt", "--alpha", "1e16", "--limit", 60]
    # with bf16 on the one and fp32 on the other, near ties would differ
    command += ["--set", "likelihood.precision=fp32", "--json"]
    there = program(*command, *on(device), "-o", "there.jsonl")
    assert there.code == 0, there.err
    here = program(*command, "-o", "here.jsonl")
    assert here.code == 0, here.err
    assert 1 < there.json["entities"] < 60
    assert there.json["entities"] == pytest.approx(here.json["entities"], abs=1)
    n = 400 if device == "cuda" else 60
    command = ["cluster", QUICKSTART, "--likelihood", "gpt", "--limit", n, "--json"]
    begin = time.perf_counter()
    large = program(*command, *on(device), "-o", "large.jsonl")
    seconds = time.perf_counter() - begin
    assert large.code == 0, large.err
    assert 1 < large.json["entities"] < n
    scores = program("evaluate", "large.jsonl", QUICKSTART, "--json").json
    assert scores["bcubed_f1_item_mean"] > 0.5
    keep(
        clustered_fragments=n,
        clustered_into=large.json["entities"],
        clustering_seconds=seconds,
        clustering_f1=scores["bcubed_f1_item_mean"],
    )


def test_training_goes_on_where_it_was_stopped(program, tmp_path, monkeypatch, device):
    monkeypatch.chdir(tmp_path)
    write_fragments(people(), "people.jsonl")
    write_recipe(tmp_path, tokens=4_000)
    command = [*TRAIN, *on(device)]
    whole = program(*command, "-o", "whole", "--json")
    assert whole.code == 0, whole.err
    with monkeypatch.context() as patched:
        patched.setattr(Loop, "run", ctrl_c_after(3))
        assert program(*command, "-o", "model").code == 130
    went_on = program(*command, "-o", "model", "--json")
    assert went_on.code == 0, went_on.err
    assert "continuing after step 3 (" in went_on.err
    one, other = (from_bundle(read_bundle(Path(m)), m).training for m in ("whole", "model"))
    assert other["steps"] == one["steps"]
    assert other["dev_nats_per_fragment"] == pytest.approx(one["dev_nats_per_fragment"], rel=0.02)


def test_training_speed(device, tmp_path, keep):
    """Tokens a second of the recipe for this device, after the first step, which compiles."""
    name, n, tokens, seconds = "h100", 20_000, 6_000_000, 75.0
    if device == "cpu":
        name, n, tokens, seconds = recipe(0.01, tmp_path), 2_000, 20_000, 20.0
    chosen = read_recipe(name)
    schedule = replace(chosen.schedule, tokens=tokens)
    chosen = replace(chosen, schedule=schedule, pieces=400)
    cores = max(0, (os.cpu_count() or 1) - 2) if device == "cuda" else 0
    data = Data(people(n), calibration=people(20, 1))
    how = {"most_seconds": seconds, "workers": min(cores, 14)}
    trained = train_lm(data, tmp_path / "model", chosen, device, **how)  # type: ignore[arg-type]
    lines = (tmp_path / "model" / METRICS).read_bytes().splitlines()
    first, *_, last = map(json.loads, lines)
    rate = (last["tokens"] - first["tokens"]) / (last["seconds"] - first["seconds"])
    keep(
        training_parameters=trained.parameters,
        training_tokens_per_second=rate,
        training_tflops=6e-12 * trained.parameters * rate,
        compiling_seconds=first["seconds"],
    )
    assert last["nats_per_fragment"] < first["nats_per_fragment"]


def matrix_products(device: torch.device, precision: str) -> float:
    """Operations a second of large matrix products: the peak as it can be had."""
    size = 8_192 if device.type == "cuda" else 1_024
    dtype = torch.bfloat16 if precision == "bf16" else torch.float32
    a = torch.randn(size, size, device=device, dtype=dtype)
    best = float("inf")
    for _ in range(5):
        begin = time.perf_counter()
        # bringing one number back waits for the product
        float((a @ a)[0, 0])
        best = min(best, time.perf_counter() - begin)
    return 2 * size**3 / best
