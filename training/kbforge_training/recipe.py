"""Training recipes: every number of a run, in one TOML file.

    description = "..."
    grammar = "canonical-json"
    pieces = 1200
    [shape]       # gpt.Shape without n_tokens
    [sets]        # sets.SetRule
    [schedule]    # Schedule

`recipes/` holds the ones that ship. Reading is strict: a key that is unknown, missing or of another
type is an error.
"""

from __future__ import annotations

import dataclasses
import math
import tomllib
from collections.abc import Mapping
from dataclasses import dataclass
from importlib.resources import files
from pathlib import Path
from typing import Any, TypeVar

from kbforge import registry
from kbforge.errors import UsageError, quoted
from kbforge_training.optimizers import OPTIMIZERS
from kbforge_training.sets import SetRule

_MAX_BYTES = 1 << 20
_LARGEST_SEED = 1 << 40  # seeds of steps are made of it, and have 64 bits
_Section = TypeVar("_Section")


@dataclass(frozen=True, slots=True)
class Sizes:
    """Sizes of the model; see `gpt.Shape`."""

    d_model: int
    n_layers: int
    n_heads: int
    d_ff: int
    context: int


@dataclass(frozen=True, slots=True)
class Schedule:
    """How a model is fitted.

    Attributes:
        tokens: how many tokens a run reads, padding not counted.
        batch_tokens: most tokens of a batch, padding included.
        accumulate: batches a step.
        learning_rate: at its peak, after the warm-up.
        warmup: the part of `tokens` over which the learning rate rises.
        floor: the learning rate at the end, as a part of the peak; the way there is a cosine.
        weight_decay: of matrices.
        clip: largest norm of a gradient.
        dropout: probability.
        seed: of everything that is random.
        optimizer: one of optimizers.OPTIMIZERS.

    """

    tokens: int
    batch_tokens: int
    accumulate: int
    learning_rate: float
    warmup: float
    floor: float
    weight_decay: float
    clip: float
    dropout: float
    seed: int
    optimizer: str = "adamw"


@dataclass(frozen=True, slots=True)
class Recipe:
    """Everything that a training run is made of but the data."""

    description: str
    grammar: str
    pieces: int
    shape: Sizes
    sets: SetRule
    schedule: Schedule

    def to_json(self) -> dict[str, Any]:
        """The recipe as it stands in a bundle's manifest."""
        return dataclasses.asdict(self)


def shipped() -> list[str]:
    """Names of the recipes that ship."""
    folder = files("kbforge_training").joinpath("recipes")
    return sorted(
        file.name.removesuffix(".toml") for file in folder.iterdir() if file.name.endswith(".toml")
    )


def read_recipe(name_or_path: str) -> Recipe:
    """A recipe that ships, by name, or a file's.

    Raises:
        UsageError: there is none of that name, or the file is not a recipe.

    """
    where = f"recipe {quoted(name_or_path, 400)}"
    if name_or_path in shipped():
        content = files("kbforge_training").joinpath(f"recipes/{name_or_path}.toml").read_bytes()
    elif Path(name_or_path).is_file():
        content = _read(Path(name_or_path), where)
    else:
        raise UsageError(
            f'there is no recipe "{quoted(name_or_path)}": expected one of '
            f"{', '.join(shipped())}, or a TOML file"
        )
    try:
        table = tomllib.loads(content.decode())
    except (tomllib.TOMLDecodeError, UnicodeDecodeError, RecursionError) as error:
        raise UsageError(f"{where}: expected TOML, got {quoted(str(error), 200)}") from error
    return _recipe(table, where)


def _read(path: Path, where: str) -> bytes:
    try:
        with open(path, "rb") as file:
            content = file.read(_MAX_BYTES + 1)
    except OSError as error:
        raise UsageError(f"{where}: {(error.strerror or str(error)).lower()}") from error
    if len(content) > _MAX_BYTES:
        raise UsageError(f"{where}: expected at most {_MAX_BYTES:,} bytes, got more")
    return content


def _recipe(table: Mapping[str, Any], where: str) -> Recipe:
    sections = {"shape": Sizes, "sets": SetRule, "schedule": Schedule}
    plain = dict(table)
    for name, kind in sections.items():
        if not isinstance(plain.get(name), dict):
            raise UsageError(f"{where}: expected a table [{name}]")
        plain[name] = _section(kind, plain[name], f"{where}: [{name}]")
    recipe = _section(Recipe, plain, where)
    _check(recipe, where)
    return recipe


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
            if field.default is dataclasses.MISSING:
                raise UsageError(f'{where}: the key "{field.name}" is missing')
            continue
        wanted: Any = {"int": int, "float": (int, float), "str": str}.get(str(field.type), object)
        value = table[field.name]
        if not isinstance(value, wanted) or isinstance(value, bool):
            raise UsageError(
                f"{where}: {field.name}: expected {field.type}, got {quoted(repr(value))}"
            )
    return kind(**table)


def _check(recipe: Recipe, where: str) -> None:
    shape, sets, schedule = recipe.shape, recipe.sets, recipe.schedule
    if recipe.grammar not in registry.names("grammars"):
        raise UsageError(
            f'{where}: there is no grammar "{quoted(recipe.grammar)}", expected one of '
            f"{', '.join(registry.names('grammars'))}"
        )
    if schedule.optimizer not in OPTIMIZERS:
        raise UsageError(
            f'{where}: there is no optimizer "{quoted(schedule.optimizer)}", expected one of '
            f"{', '.join(OPTIMIZERS)}"
        )
    whole = {**dataclasses.asdict(shape), "draws": sets.draws, "largest": sets.largest}
    for name in ("tokens", "batch_tokens", "accumulate"):
        whole[name] = getattr(schedule, name)
    for name, value in whole.items():
        # a sequence of one token would be its beginning alone
        least = 2 if name == "context" else 1
        if value < least:
            raise UsageError(f"{where}: {name}: expected at least {least}, got {value}")
    if shape.d_model % (2 * shape.n_heads):
        raise UsageError(
            f"{where}: d_model {shape.d_model} is not a multiple of 2 x n_heads {shape.n_heads}"
        )
    for name, value, least, most in (
        ("pieces", recipe.pieces, 256, 30_000),
        ("seed", schedule.seed, 0, _LARGEST_SEED),
    ):
        if not least <= value <= most:
            raise UsageError(f"{where}: {name}: expected {least:,} to {most:,}, got {value}")
    parts = {"warmup": schedule.warmup, "floor": schedule.floor, "dropout": schedule.dropout}
    parts |= {"views": sets.views, "variants": sets.variants}
    for name, part in parts.items():
        if not 0 <= part <= 1:
            raise UsageError(f"{where}: {name}: expected 0 to 1, got {part}")
    for name in ("learning_rate", "clip"):
        if not 0 < getattr(schedule, name) < math.inf:
            raise UsageError(
                f"{where}: {name}: expected a number above 0, got {getattr(schedule, name)}"
            )
    if not 0 <= schedule.weight_decay < math.inf:
        raise UsageError(f"{where}: weight_decay: expected 0 or more, got {schedule.weight_decay}")
