"""Checkpoints: all that a run needs to go on exactly where it was, in one safetensors file.

A checkpoint replaces the one before it in a single step, so that whenever a run is killed there is
a whole one. Tensors are the model's and the optimiser's; the rest is JSON in the file's header.
"""

from __future__ import annotations

import json
import os
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import torch
from safetensors import SafetensorError, safe_open
from safetensors.torch import save
from torch import Tensor

from kbforge.errors import ModelError, quoted
from kbforge_training.gpt import GPT

CHECKPOINT = "checkpoint.safetensors"

_MOMENTS = ("exp_avg", "exp_avg_sq", "step")


def save_checkpoint(
    folder: Path, model: GPT, optimizer: torch.optim.Optimizer, progress: Mapping[str, Any]
) -> None:
    """Write a checkpoint; `progress` is JSON.

    Raises:
        ModelError: it cannot be written.

    """
    tensors: dict[str, Tensor] = {}
    for name, parameter in model.named_parameters():
        tensors[f"model.{name}"] = parameter.detach().contiguous()
        for moment, value in optimizer.state.get(parameter, {}).items():
            tensors[f"{moment}.{name}"] = torch.as_tensor(value).contiguous()
    content = save(tensors, metadata={"progress": json.dumps(progress)})
    temporary = folder / f"{CHECKPOINT}.new"
    try:
        with open(temporary, "wb") as file:
            file.write(content)
            file.flush()
            os.fsync(file.fileno())
        os.replace(temporary, folder / CHECKPOINT)
    except OSError as error:
        raise ModelError(
            f"cannot write {quoted(str(folder), 400)}: {(error.strerror or str(error)).lower()}"
        ) from error


def read_progress(folder: Path) -> dict[str, Any] | None:
    """The `progress` of the checkpoint in a folder, None if there is none.

    Raises:
        ModelError: the file is damaged.

    """
    path = folder / CHECKPOINT
    if not path.is_file():
        return None
    with _opened(path) as file:
        progress: dict[str, Any] = json.loads((file.metadata() or {}).get("progress", "{}"))
        return progress


def load_checkpoint(folder: Path, model: GPT, optimizer: torch.optim.Optimizer) -> None:
    """Put a checkpoint's tensors into a model and its optimiser.

    Raises:
        ModelError: it is damaged, or of another model.

    """
    path = folder / CHECKPOINT
    with _opened(path) as file, torch.no_grad():
        names = set(file.keys())
        for name, parameter in model.named_parameters():
            if f"model.{name}" not in names:
                raise ModelError(f"{quoted(str(path), 400)} is of another model: no {name}")
            stored = file.get_tensor(f"model.{name}")
            if stored.shape != parameter.shape:
                raise ModelError(
                    f"{quoted(str(path), 400)} is of another model: {name} has shape "
                    f"{tuple(stored.shape)}, expected {tuple(parameter.shape)}"
                )
            parameter.copy_(stored)
            if f"step.{name}" in names:
                state = {moment: file.get_tensor(f"{moment}.{name}") for moment in _MOMENTS}
                for moment in ("exp_avg", "exp_avg_sq"):
                    state[moment] = state[moment].to(parameter.device)
                optimizer.state[parameter] = state


def _opened(path: Path) -> Any:
    try:
        return safe_open(path, framework="pt")
    except (SafetensorError, OSError) as error:
        raise ModelError(f"{quoted(str(path), 400)} is damaged: {error}") from error
