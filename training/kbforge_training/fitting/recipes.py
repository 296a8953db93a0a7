"""Recipes of training runs: TOML files, schedules and optimizers.

*Optimizers.* AdamW (Loshchilov and Hutter 2019) scales each number by its own history. Muon (Jordan
et al. 2024) replaces the averaged gradient of a matrix by the nearest matrix with singular values
of about one. It is scaled as Liu et al. (2025, "Muon is scalable for LLM training") do and takes
AdamW's learning rates. Embeddings and norms stay with AdamW.
"""

from __future__ import annotations

import dataclasses
import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from importlib.resources import files
from pathlib import Path
from typing import Any, TypeVar

import torch
from torch import nn

from kbforge.errors import UsageError, quoted
from kbforge.files.io import read_small
from kbforge.files.records import parse_toml

OPTIMIZERS = ("adamw", "muon")

_BETAS = (0.9, 0.95)


def make_optimizers(
    name: str, model: nn.Module, learning_rate: float, weight_decay: float
) -> tuple[torch.optim.Optimizer, ...]:
    """The optimizers of a recipe, each with parameters of its own; vectors are not decayed."""
    matrices = [p for p in model.parameters() if p.dim() >= 2]
    vectors = [p for p in model.parameters() if p.dim() < 2]
    layers = [layer for layer in model.modules() if isinstance(layer, nn.Embedding)]
    embeddings = {p for layer in layers for p in layer.parameters()}
    maps = [p for p in matrices if p not in embeddings] if name == "muon" else []
    groups = [
        {"params": [p for p in matrices if p not in set(maps)], "weight_decay": weight_decay},
        {"params": vectors, "weight_decay": 0.0},
    ]
    adamw = torch.optim.AdamW(groups, lr=learning_rate, betas=_BETAS, fused=True)
    if not maps:
        return (adamw,)
    muon = torch.optim.Muon(
        maps, learning_rate, weight_decay, momentum=0.95, adjust_lr_fn="match_rms_adamw"
    )
    return muon, adamw


def moments(
    optimizers: Sequence[torch.optim.Optimizer],
) -> dict[nn.Parameter, tuple[torch.optim.Optimizer, tuple[str, ...]]]:
    """By parameter, its optimizer, and the names of its state after a step."""
    return {
        parameter: (
            optimizer,
            ("momentum_buffer",)
            if isinstance(optimizer, torch.optim.Muon)
            else ("exp_avg", "exp_avg_sq", "step"),
        )
        for optimizer in optimizers
        for group in optimizer.param_groups
        for parameter in group["params"]
    }


RECIPES = "recipes"  # the folder of the recipes of language models
_MAX_BYTES = 1 << 20
_Section = TypeVar("_Section")


def shipped(folder: str = RECIPES) -> list[str]:
    """Names of the recipes that ship in a folder of the package."""
    inside = files("kbforge_training").joinpath(folder)
    return sorted(
        file.name.removesuffix(".toml") for file in inside.iterdir() if file.name.endswith(".toml")
    )


def read_table(name_or_path: str, folder: str = RECIPES) -> tuple[dict[str, Any], str]:
    """The table of a recipe that ships in `folder`, or of a file, and its name in errors.

    Raises:
        UsageError: there is no such recipe, or the file is not TOML.
    """
    where = f"recipe {quoted(name_or_path, 400)}"
    if name_or_path in shipped(folder):
        content = files("kbforge_training").joinpath(f"{folder}/{name_or_path}.toml").read_bytes()
    elif Path(name_or_path).is_file():
        content = read_small(name_or_path, "a recipe", _MAX_BYTES, UsageError)
    else:
        raise UsageError(
            f'there is no recipe "{quoted(name_or_path)}": expected one of '
            f"{', '.join(shipped(folder))}, or a TOML file"
        )
    return parse_toml(content, where, UsageError), where


def from_table(
    kind: type[_Section],
    table: Mapping[str, Any],
    sections: Mapping[str, type[Any]],
    where: str,
) -> _Section:
    """A dataclass from a TOML table; `sections` are the dataclasses of keys that are tables.

    Raises:
        UsageError: a key is unknown, missing or of another type.
    """
    plain = dict(table)
    for name, inner in sections.items():
        if not isinstance(plain.get(name), dict):
            raise UsageError(f"{where}: expected a table [{name}]")
        plain[name] = _section(inner, plain[name], f"{where}: [{name}]")
    return _section(kind, plain, where)


def _section(kind: type[_Section], table: Mapping[str, Any], where: str) -> _Section:
    fields: Any = dataclasses.fields(kind)  # type: ignore[arg-type]
    types = {field.name: field.type for field in fields}
    for name in table:
        if name not in types:
            raise UsageError(
                f'{where}: unknown key "{quoted(name)}", expected {", ".join(sorted(types))}'
            )
    for field in fields:
        if field.name not in table:
            if field.default is field.default_factory is dataclasses.MISSING:
                raise UsageError(f'{where}: the key "{field.name}" is missing')
            continue
        wanted: Any = {"int": int, "float": (int, float), "str": str}.get(str(field.type), object)
        value = table[field.name]
        if not isinstance(value, wanted) or isinstance(value, bool):
            raise UsageError(
                f"{where}: {field.name}: expected {field.type}, got {quoted(repr(value))}"
            )
    return kind(**table)


def require(where: str, expected: str, holds: Callable[[float], bool], **numbers: float) -> None:
    """Refuse numbers that are not as expected with a UsageError."""
    for name, number in numbers.items():
        if not holds(number):
            raise UsageError(f"{where}: {name}: expected {expected}, got {number}")


def is_share(number: float) -> bool:
    """Whether a number is from 0 to 1."""
    return 0 <= number <= 1


def is_finite(number: float) -> bool:
    """Whether a number is 0 or more, and finite."""
    return 0 <= number < math.inf


_LARGEST_SEED = 1 << 40  # seeds of steps, of 64 bits, are made of it


@dataclass(frozen=True, slots=True)
class Schedule:
    """How a model is fitted."""

    tokens: int  # how many tokens a run reads, padding not counted
    batch_tokens: int  # maximum tokens of a batch, padding included
    accumulate: int  # batches a step
    learning_rate: float  # at its peak, after the warm-up
    warmup: float  # the part of the run over which the learning rate rises
    floor: float  # the learning rate at the end, as a part of the peak; the way there is a cosine
    weight_decay: float  # of matrices
    clip: float  # largest norm of a gradient
    dropout: float  # probability
    seed: int  # of everything that is random
    optimizer: str = "adamw"  # one of `OPTIMIZERS`


def require_schedule(schedule: Schedule, where: str) -> None:
    """Refuse a schedule with a number out of range with a UsageError."""
    if schedule.optimizer not in OPTIMIZERS:
        raise UsageError(
            f'{where}: there is no optimizer "{quoted(schedule.optimizer)}", expected one of '
            f"{', '.join(OPTIMIZERS)}"
        )
    at_least_1 = {n: getattr(schedule, n) for n in ("tokens", "batch_tokens", "accumulate")}
    require(where, "at least 1", lambda n: n >= 1, **at_least_1)
    in_range = f"0 to {_LARGEST_SEED:,}"
    require(where, in_range, lambda n: 0 <= n <= _LARGEST_SEED, seed=schedule.seed)
    shares = {name: getattr(schedule, name) for name in ("warmup", "floor", "dropout")}
    require(where, "0 to 1", is_share, **shares)
    above = {"learning_rate": schedule.learning_rate, "clip": schedule.clip}
    require(where, "a number above 0", lambda n: n > 0 and is_finite(n), **above)
    require(where, "0 or more", is_finite, weight_decay=schedule.weight_decay)


def learning_rate(schedule: Schedule, done: float) -> float:
    """Linear warm-up, then a cosine down to the floor; `done` is the part of the run, 1 its end."""
    if done < schedule.warmup:
        # the first step must move, too
        return schedule.learning_rate * max(done / schedule.warmup, 0.01)
    rest = min(1.0, (done - schedule.warmup) / (1.0 - schedule.warmup or 1.0))
    height = schedule.floor + (1.0 - schedule.floor) * 0.5 * (1.0 + math.cos(math.pi * rest))
    return schedule.learning_rate * height
