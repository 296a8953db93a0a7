"""The language model on a GPU, end to end: scores, training and its resumption, clustering, speed.

`make gpu` runs these checks; without a GPU they are skipped. KBFORGE_GPU_CHECKS=cpu runs the same
code on the CPU, which shows that the checks themselves work.
"""

from __future__ import annotations

import os
import time
from pathlib import Path

import numpy as np
import pytest
import torch

from kbforge.contracts import Fragment
from kbforge.files.fragments import write_fragments
from kbforge.models.bundle import read_bundle
from kbforge_plugins.likelihoods.gpt.likelihood import Gpt, shipped_model
from kbforge_plugins.likelihoods.gpt.model import from_bundle
from kbforge_plugins.likelihoods.gpt.scoring import SequenceScorer
from kbforge_training.fitting.loop import Loop
from tests.likelihoods.gpt.language_models import QUICKSTART, quickstart, random_sets
from tests.program import Run
from tests.training.tiny import ctrl_c_after, people, write_recipe

NATS = 0.1  # a set, between a GPU and the CPU
TRAIN = ["train-lm", "people.jsonl", "--recipe", "tiny.toml"]


@pytest.fixture(scope="module")
def device() -> str:
    if os.environ.get("KBFORGE_GPU_CHECKS") == "cpu":
        return "cpu"
    if not torch.cuda.is_available():
        pytest.skip(f"PyTorch {torch.__version__} finds no CUDA device")
    return "cuda"


def on(device: str) -> list[str]:
    """The option that chooses a device."""
    return ["--gpu"] if device == "cuda" else []


@pytest.fixture(scope="module")
def sets() -> list[list[Fragment]]:
    return random_sets(quickstart(), 300)


def test_scores_are_those_of_the_cpu(device: str, sets: list[list[Fragment]]) -> None:
    here = Gpt(precision="fp32", surrogate_weight=0.0).log_marginal(sets)
    there = Gpt(device=device, precision="fp32", surrogate_weight=0.0)  # type: ignore[arg-type]
    np.testing.assert_allclose(there.log_marginal(sets), here, atol=NATS, rtol=0)
    again = Gpt(device=device, precision="fp32", batch_tokens=300, surrogate_weight=0.0)  # type: ignore[arg-type]
    np.testing.assert_allclose(again.log_marginal(sets[::-1]), here[::-1], atol=NATS, rtol=0)


def test_training_goes_on_where_it_was_stopped(
    program: Run, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, device: str
) -> None:
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


def test_clustering(
    program: Run, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, device: str
) -> None:
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


def test_speed(device: str, sets: list[list[Fragment]], capsys: pytest.CaptureFixture[str]) -> None:
    """Sets a second and the share of the device's own measured peak, printed."""
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
    with capsys.disabled():
        print(
            f"\n{device} {scorer.precision}: {len(sets) / seconds:,.0f} sets a second, "
            f"{rate / 1e12:.2f} of {peak / 1e12:.2f} TFLOP/s ({rate / peak:.1%} of the peak)"
        )
    assert scores.shape == (len(sets),)
    assert np.isfinite(scores).all()
    assert rate < peak, "more than the device can do: the time was not that of the work"


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
