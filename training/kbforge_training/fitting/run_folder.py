"""The folder of a training run, FOLDER.training, beside the bundle that it becomes.

    run.json                  what identifies the run: recipe and data
    lock                      held while a process trains here
    checkpoint.safetensors    the state of the run

It is created and removed in one step each, so that a killed process leaves either no run or one
that can be resumed. A checkpoint has all that a run needs to resume at exactly the same place, in
one safetensors file that replaces the previous one in a single step: the tensors of the model and
of the optimizers, and JSON in the file's header.
"""

from __future__ import annotations

import contextlib
import dataclasses
import json
import os
import shutil
import tempfile
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import orjson
import torch
from safetensors import SafetensorError, safe_open
from safetensors.torch import save
from torch import Tensor, nn

from kbforge.errors import KBForgeError, ModelError, UsageError, quoted
from kbforge.files.io import locked, open_output, reason_of
from kbforge_training.fitting.recipes import moments

CHECKPOINT = "checkpoint.safetensors"


@dataclass(frozen=True, slots=True)
class Place:
    """A place in the stream of batches: the next one is `batch` of `pool` of `epoch`."""

    epoch: int = 0
    pool: int = 0
    batch: int = 0


@dataclass(frozen=True, slots=True)
class RunProgress:
    """How far a run has come."""

    step: int = 0  # number of steps done
    tokens: int = 0  # read so far
    place: Place = field(default_factory=Place)  # of the next batch


def save_checkpoint(
    folder: Path,
    model: nn.Module,
    optimizers: Sequence[torch.optim.Optimizer],
    progress: RunProgress,
) -> None:
    """Write a checkpoint; a ModelError leaves the one before."""
    tensors: dict[str, Tensor] = {}
    owners = moments(optimizers)
    for name, parameter in model.named_parameters():
        tensors[f"model.{name}"] = parameter.detach().contiguous()
        for moment, value in owners[parameter][0].state.get(parameter, {}).items():
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
        where = quoted(str(folder), 400)
        raise ModelError(f"cannot write {where}: {reason_of(error)}") from error


def read_progress(folder: Path) -> RunProgress | None:
    """The progress of the checkpoint in a folder, if there is one; a ModelError if damaged."""
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
        progress = RunProgress(found["step"], found["tokens"], Place(**found["place"]))
    except (ValueError, TypeError, KeyError, RecursionError) as error:
        raise _damaged(path, "it does not say how far its run had come") from error
    numbers = (progress.step, progress.tokens, *dataclasses.astuple(progress.place))
    whole = all(type(number) is int and number >= 0 for number in numbers)
    if not whole or dataclasses.asdict(progress) != found:
        raise _damaged(path, "it does not say how far its run had come")
    return progress


def load_checkpoint(
    folder: Path, model: nn.Module, optimizers: Sequence[torch.optim.Optimizer]
) -> None:
    """Load a checkpoint's tensors, all or none; a ModelError if it is damaged or does not fit."""
    path = folder / CHECKPOINT
    try:
        with safe_open(path, framework="pt") as file:
            stored = {name: file.get_tensor(name) for name in file.keys()}  # noqa: SIM118
    except (SafetensorError, OSError) as error:
        raise _damaged(path, str(error)) from error
    begun = any(not name.startswith("model.") for name in stored)
    expected = _expected(model, optimizers, begun)
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
    owners = moments(optimizers)
    for name, parameter in model.named_parameters():
        with torch.no_grad():
            parameter.copy_(stored[f"model.{name}"])
        if begun:
            optimizer, names = owners[parameter]
            # copies, because the stored tensors are views of the file
            optimizer.state[parameter] = {
                moment: stored[f"{moment}.{name}"].to(parameter.device, copy=True)
                for moment in names
            }


def _expected(
    model: nn.Module, optimizers: Sequence[torch.optim.Optimizer], begun: bool
) -> dict[str, tuple[int, ...]]:
    """Shapes of the tensors of a checkpoint; before the first step there are no moments."""
    out: dict[str, tuple[int, ...]] = {}
    owners = moments(optimizers)
    for name, parameter in model.named_parameters():
        shape = tuple(parameter.shape)
        out[f"model.{name}"] = shape
        for moment in owners[parameter][1] if begun else ():
            out[f"{moment}.{name}"] = () if moment == "step" else shape
    return out


def _damaged(path: Path, what: Any) -> ModelError:
    return ModelError(f"{quoted(str(path), 400)} is damaged: {quoted(str(what), 200)}")


def _foreign(path: Path, what: str) -> ModelError:
    return ModelError(f"{quoted(str(path), 400)} belongs to another model: {what}")


def going_on(progress: RunProgress, total: int, unit: str) -> str:
    """The sentence that a run continues; `total` units are to be read."""
    return f"continuing after step {progress.step:,} ({progress.tokens:,} of {total:,} {unit})"


def interrupted(bundle: Path, total: int, unit: str) -> str:
    """The sentence that the run for a bundle was interrupted, and where it will continue."""
    folder = folder_of_run(bundle)
    done = read_progress(folder)
    if done is None:
        return "interrupted before the first checkpoint: the same command starts again"
    return (
        f"interrupted: the same command continues after step {done.step:,} "
        f"({done.tokens:,} of {total:,} {unit}), which {folder} holds"
    )


RUN = "run.json"

_LOCK = "lock"


def folder_of_run(bundle: Path) -> Path:
    """The folder of the run for a bundle."""
    # "." and ".." have no name to extend
    named = bundle if bundle.name not in ("", "..") else Path(os.path.abspath(bundle))
    return named.with_name(f"{named.name}.training")


def begin_run(work: Path, run: Mapping[str, Any]) -> None:
    """Make the folder of a run, or check that it belongs to this run (`run`, JSON).

    Raises:
        UsageError: the folder is another run's, with what differs, or no run's.
        KBForgeError: it cannot be read or written.
    """
    path, where = work / RUN, quoted(str(work), 400)
    try:
        if path.exists():
            _require_same(where, orjson.loads(path.read_bytes()), run)
            return
        work.mkdir(exist_ok=True)
        # a process that was killed here may leave hidden files
        if any(not name.startswith(".") for name in os.listdir(work)):
            raise UsageError(f"{where} exists and holds no unfinished run; move or delete it")
    except OSError as error:
        raise KBForgeError(f"cannot write {where}: {reason_of(error)}") from error
    except orjson.JSONDecodeError as error:
        raise KBForgeError(f"{where}: {RUN} is not JSON ({error}); delete the folder") from error
    with open_output(str(path)) as out:
        out.write(orjson.dumps(run, option=orjson.OPT_INDENT_2))


@contextlib.contextmanager
def alone_in(work: Path) -> Iterator[None]:
    """Lock the folder; a UsageError if another process is training there."""
    with contextlib.ExitStack() as held:
        try:
            held.enter_context(locked(work / _LOCK))
        except OSError:
            raise UsageError(
                f"{quoted(str(work), 400)} is in use: another process is training there"
            ) from None
        yield


def remove_run(work: Path) -> None:
    """Delete the folder of a run, which a kill leaves either whole or gone."""
    aside = tempfile.mkdtemp(prefix=f".{work.name}.", dir=work.parent)
    os.rename(work, Path(aside) / work.name)
    shutil.rmtree(aside)


def _require_same(where: str, there: Any, here: Mapping[str, Any]) -> None:
    old, new = _flat(there), _flat(here)
    for name in [*new, *old]:
        if old.get(name) != new.get(name):
            raise UsageError(
                f"{where} holds an unfinished run that differs in {quoted(name)}: "
                f"{quoted(str(old.get(name)), 20)} there, {quoted(str(new.get(name)), 20)} here; "
                f"finish that one, or delete the folder"
            )


def _flat(value: Any, name: str = "") -> dict[str, Any]:
    """Leaves of nested tables: {"a": {"b": 1}} -> {"a b": 1}."""
    if not isinstance(value, Mapping):
        return {name: value}
    return {
        key: leaf
        for part, inner in value.items()
        for key, leaf in _flat(inner, f"{name} {part}".strip()).items()
    }
