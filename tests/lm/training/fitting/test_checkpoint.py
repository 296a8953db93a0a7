"""Checkpoints: whole whatever happens, refused with a sentence when they are not ours."""

from __future__ import annotations

import dataclasses
import io
import json
import os
import pickle
from collections.abc import Callable
from typing import Any

import pytest
import torch
from safetensors import safe_open
from safetensors.torch import load_file, save_file

from kbforge.errors import ModelError
from kbforge_lm.likelihoods.gpt.model import GPT
from kbforge_training.fitting import run_folder
from kbforge_training.fitting.run_folder import (
    CHECKPOINT,
    Place,
    RunProgress,
    load_checkpoint,
    read_progress,
    save_checkpoint,
)
from tests.lm.training.tiny import Killed, die, model

V = 20
Optimizers = tuple[torch.optim.Optimizer, ...]
PROGRESS = RunProgress(3, 1_234, Place(1, 2, 5))


def stepped(seed: int, **sizes: int) -> tuple[GPT, Optimizers]:
    """A model and its optimizer after two steps."""
    gpt = model(V, seed, **sizes)
    optimizer = torch.optim.AdamW(gpt.parameters(), lr=0.1, fused=True)
    for _ in range(2):
        gpt(torch.arange(6).reshape(1, 6)).square().sum().backward()
        optimizer.step()
        optimizer.zero_grad()
    return gpt, (optimizer,)


def state(gpt: GPT, optimizers: Optimizers) -> dict[str, torch.Tensor]:
    out = {name: p.detach().clone() for name, p in gpt.named_parameters()}
    for name, p in gpt.named_parameters():
        out |= {f"{name} {m}": v.clone() for m, v in optimizers[0].state.get(p, {}).items()}
    return out


def same(a: dict[str, torch.Tensor], b: dict[str, torch.Tensor]) -> bool:
    return a.keys() == b.keys() and all(torch.equal(a[name], b[name]) for name in a)


@pytest.fixture
def saved(tmp_path):
    save_checkpoint(tmp_path, *stepped(0), PROGRESS)
    return tmp_path


def test_everything_comes_back(saved):
    gpt, optimizers = stepped(1)
    assert not same(state(gpt, optimizers), state(*stepped(0)))
    load_checkpoint(saved, gpt, optimizers)
    assert same(state(gpt, optimizers), state(*stepped(0)))
    assert read_progress(saved) == PROGRESS
    assert os.listdir(saved) == [CHECKPOINT]


def test_before_the_first_step_there_are_no_moments(tmp_path):
    gpt = model(V)
    save_checkpoint(tmp_path, gpt, (torch.optim.AdamW(gpt.parameters()),), RunProgress())
    other = model(V, seed=1)
    optimizers = (torch.optim.AdamW(other.parameters()),)
    load_checkpoint(tmp_path, other, optimizers)
    assert same(state(other, optimizers), dict(gpt.named_parameters()))
    assert read_progress(tmp_path) == RunProgress()


def test_a_loaded_optimizer_goes_on_as_the_saved_one(saved):
    def one_more(gpt: GPT, optimizers: Optimizers) -> dict[str, torch.Tensor]:
        gpt(torch.arange(6).reshape(1, 6)).square().sum().backward()
        optimizers[0].step()
        return state(gpt, optimizers)

    gpt = model(V, seed=1)
    optimizers = (torch.optim.AdamW(gpt.parameters(), lr=0.1, fused=True),)
    load_checkpoint(saved, gpt, optimizers)
    on_disk = (saved / CHECKPOINT).read_bytes()
    assert same(one_more(gpt, optimizers), one_more(*stepped(0)))
    assert (saved / CHECKPOINT).read_bytes() == on_disk


def test_without_one_there_is_no_progress(tmp_path):
    assert read_progress(tmp_path) is None
    assert read_progress(tmp_path / "nowhere") is None


@pytest.mark.parametrize("call", ["open", "write", "fsync", "replace"])
def test_a_kill_while_writing_leaves_a_whole_one(saved, monkeypatch, call):
    before = (saved / CHECKPOINT).read_bytes()

    class HalfWritten(io.FileIO):
        def write(self, content: Any) -> int:
            super().write(content[: len(content) // 2])
            raise Killed

    with monkeypatch.context() as patched:
        if call == "open":
            patched.setattr(run_folder, "open", die, raising=False)
        elif call == "write":
            patched.setattr(run_folder, "open", HalfWritten, raising=False)
        else:
            patched.setattr(os, call, die)
        with pytest.raises(Killed):
            save_checkpoint(saved, *stepped(1), dataclasses.replace(PROGRESS, step=4))
    assert (saved / CHECKPOINT).read_bytes() == before
    assert read_progress(saved) == PROGRESS
    save_checkpoint(saved, *stepped(1), dataclasses.replace(PROGRESS, step=4))
    assert read_progress(saved) == dataclasses.replace(PROGRESS, step=4)
    assert os.listdir(saved) == [CHECKPOINT]


def test_a_folder_that_cannot_be_written_is_a_sentence(tmp_path):
    with pytest.raises(ModelError, match=r"cannot write .*no such file"):
        save_checkpoint(tmp_path / "nowhere", *stepped(0), PROGRESS)


class Bomb:
    """What must not run."""

    def __reduce__(self) -> Any:
        return os.putenv, ("KBFORGE_BOMB", "went off")


@pytest.mark.parametrize(
    "content", [0, 1, 7, 8, 100, -1, -100, b"{}", b"\xff" * 64, pickle.dumps(Bomb())]
)
def test_a_truncated_or_another_file_is_damaged(saved, content):
    path = saved / CHECKPOINT
    path.write_bytes(path.read_bytes()[:content] if isinstance(content, int) else content)
    for read in (read_progress, lambda folder: load_checkpoint(folder, *stepped(1))):
        with pytest.raises(ModelError, match=r"checkpoint\.safetensors is damaged: "):
            read(saved)


@pytest.mark.parametrize(
    "progress",
    [
        None,
        "",
        "[]",
        "{}",
        "3",
        '{"step": 3, "tokens": 4}',
        '{"step": 3, "tokens": 4, "place": {"epoch": 0, "pool": 0}, "x": 1}',
        '{"step": 3, "tokens": 4, "place": {"epoch": 0, "pool": 0, "batch": 0, "x": 1}}',
        '{"step": -3, "tokens": 4, "place": {"epoch": 0, "pool": 0, "batch": 0}}',
        '{"step": 3.5, "tokens": 4, "place": {"epoch": 0, "pool": 0, "batch": 0}}',
        '{"step": 3, "tokens": "4", "place": {"epoch": 0, "pool": 0, "batch": 0}}',
        '{"step": 3, "tokens": 4, "place": {"epoch": true, "pool": 0, "batch": 0}}',
        "[" * 100_000,
    ],
)
def test_a_file_that_does_not_say_where_its_run_was_is_damaged(saved, progress):
    path = saved / CHECKPOINT
    metadata = None if progress is None else {"progress": progress}
    save_file(load_file(path), path, metadata)
    with pytest.raises(ModelError, match="damaged: it does not say how far its run had come"):
        read_progress(saved)


NORM = "blocks.1.norm_attention.weight"


def without(name: str) -> Callable[[dict[str, torch.Tensor]], object]:
    return lambda tensors: tensors.pop(name)


@pytest.mark.parametrize(
    ("change", "says"),
    [
        (without(f"model.{NORM}"), f"lacks the tensor model.{NORM}"),
        (without(f"exp_avg.{NORM}"), f"lacks the tensor exp_avg.{NORM}"),
        (without(f"step.{NORM}"), f"lacks the tensor step.{NORM}"),
        (lambda t: t.update({"model.head": torch.ones(2)}), "has the tensor model.head"),
        (
            lambda t: t.update({f"model.{NORM}": torch.ones(31)}),
            r"torch.float32 of shape \(31,\), expected torch.float32 of shape \(32,\)",
        ),
        (
            lambda t: t.update({f"exp_avg_sq.{NORM}": torch.ones(32, dtype=torch.bfloat16)}),
            r"torch.bfloat16 of shape \(32,\), expected torch.float32",
        ),
    ],
)
def test_tensors_of_another_model_are_refused_and_nothing_is_loaded(saved, change, says):
    path = saved / CHECKPOINT
    tensors = load_file(path)
    change(tensors)
    save_file(tensors, path, {"progress": json.dumps(dataclasses.asdict(PROGRESS))})
    gpt, optimizers = stepped(1)
    before = state(gpt, optimizers)
    with pytest.raises(ModelError, match=f"belongs to another model: .*{says}"):
        load_checkpoint(saved, gpt, optimizers)
    assert same(state(gpt, optimizers), before)


@pytest.mark.parametrize("sizes", [{"n_layers": 1}, {"n_layers": 3}, {"d_model": 64}, {"d_ff": 50}])
def test_a_model_of_another_size_is_another_model(saved, sizes):
    with pytest.raises(ModelError, match="belongs to another model: "):
        load_checkpoint(saved, *stepped(1, **sizes))


def test_it_is_plain_safetensors(saved):
    with safe_open(saved / CHECKPOINT, framework="numpy") as file:
        assert json.loads(file.metadata()["progress"]) == dataclasses.asdict(PROGRESS)
        assert file.get_tensor("step.norm.weight") == 2.0
