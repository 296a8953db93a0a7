"""Checkpoints: all that a run needs to go on exactly where it was, in one safetensors file.

A checkpoint replaces the one before it in a single step, so that whenever a run is killed there is
a whole one. Tensors are the model's and the optimiser's; the rest is JSON in the file's header.
"""

from __future__ import annotations

import dataclasses
import json
import os
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import torch
from safetensors import SafetensorError, safe_open
from safetensors.torch import save
from torch import Tensor, nn

from kbforge.errors import ModelError, quoted
from kbforge_training.fitting.optimizers import moments

CHECKPOINT = "checkpoint.safetensors"


@dataclass(frozen=True, slots=True)
class Place:
    """Where in the stream of batches a run is: the next one is `batch` of `pool` of `epoch`."""

    epoch: int = 0
    pool: int = 0
    batch: int = 0


@dataclass(frozen=True, slots=True)
class Progress:
    """How far a run has come.

    Attributes:
        step: number of steps done.
        tokens: tokens read so far.
        place: where the next batch is.

    """

    step: int = 0
    tokens: int = 0
    place: Place = field(default_factory=Place)


def save_checkpoint(
    folder: Path, model: nn.Module, optimizer: torch.optim.Optimizer, progress: Progress
) -> None:
    """Write a checkpoint.

    Raises:
        ModelError: it cannot be written; the one before is still there.

    """
    tensors: dict[str, Tensor] = {}
    for name, parameter in model.named_parameters():
        tensors[f"model.{name}"] = parameter.detach().contiguous()
        for moment, value in optimizer.state.get(parameter, {}).items():
            tensors[f"{moment}.{name}"] = torch.as_tensor(value).contiguous()
    content = save(tensors, metadata={"progress": json.dumps(dataclasses.asdict(progress))})
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


def read_progress(folder: Path) -> Progress | None:
    """How far the checkpoint in a folder had come, None if there is none.

    Raises:
        ModelError: the file is damaged, or no checkpoint.

    """
    path = folder / CHECKPOINT
    if not path.is_file():
        return None
    try:
        with safe_open(path, framework="pt") as file:
            metadata: dict[str, str] = file.metadata() or {}
    except (SafetensorError, OSError) as error:
        raise _damaged(path, str(error)) from error
    try:
        found = json.loads(metadata.get("progress", "null"))
        progress = Progress(found["step"], found["tokens"], Place(**found["place"]))
    except (ValueError, TypeError, KeyError, RecursionError) as error:
        raise _damaged(path, "it does not say how far its run had come") from error
    numbers = (progress.step, progress.tokens, *dataclasses.astuple(progress.place))
    whole = all(type(number) is int and number >= 0 for number in numbers)
    if not whole or dataclasses.asdict(progress) != found:
        raise _damaged(path, "it does not say how far its run had come")
    return progress


def load_checkpoint(folder: Path, model: nn.Module, optimizer: torch.optim.Optimizer) -> None:
    """Put a checkpoint's tensors into a model and its optimiser; all of them or none.

    Raises:
        ModelError: it is damaged, or of another model, with what differs.

    """
    path = folder / CHECKPOINT
    try:
        with safe_open(path, framework="pt") as file:
            stored = {name: file.get_tensor(name) for name in file.keys()}  # noqa: SIM118
    except (SafetensorError, OSError) as error:
        raise _damaged(path, str(error)) from error
    expected = _expected(model, optimizer, begun=any(not n.startswith("model.") for n in stored))
    for name in sorted(stored.keys() ^ expected.keys()):
        what = "lacks the tensor" if name in expected else "has the tensor"
        raise _foreign(path, f"it {what} {quoted(name)}")
    for name, shape in expected.items():
        found = stored[name]
        if tuple(found.shape) != shape or found.dtype != torch.float32:
            raise _foreign(
                path,
                f"{name} is {found.dtype} of shape {tuple(found.shape)}, "
                f"expected {torch.float32} of shape {shape}",
            )
    remembered = moments(optimizer)
    for name, parameter in model.named_parameters():
        with torch.no_grad():
            parameter.copy_(stored[f"model.{name}"])
        if f"step.{name}" in stored:
            # copies, because what was read is a view of the file
            optimizer.state[parameter] = {
                moment: stored[f"{moment}.{name}"].to(parameter.device, copy=True)
                for moment in remembered[parameter]
            }


def _expected(
    model: nn.Module, optimizer: torch.optim.Optimizer, begun: bool
) -> dict[str, tuple[int, ...]]:
    """Shapes of the tensors of a checkpoint; before the first step there are no moments."""
    out: dict[str, tuple[int, ...]] = {}
    remembered = moments(optimizer)
    for name, parameter in model.named_parameters():
        shape = tuple(parameter.shape)
        out[f"model.{name}"] = shape
        for moment in remembered[parameter] if begun else ():
            out[f"{moment}.{name}"] = () if moment == "step" else shape
    return out


def _damaged(path: Path, what: Any) -> ModelError:
    return ModelError(f"{quoted(str(path), 400)} is damaged: {quoted(str(what), 200)}")


def _foreign(path: Path, what: str) -> ModelError:
    return ModelError(f"{quoted(str(path), 400)} is of another model: {what}")
