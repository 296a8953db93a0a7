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
import tomllib
from collections.abc import Mapping
from dataclasses import dataclass
from importlib.resources import files
from pathlib import Path
from typing import Any, TypeVar

from kbforge.errors import UsageError, quoted
from kbforge_training.sets import SetRule

_MAX_BYTES = 1 << 20
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
        weight_decay: of matrices; AdamW.
        clip: largest norm of a gradient.
        dropout: probability.
        seed: of everything that is random.

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
    if name_or_path in shipped():
        text = files("kbforge_training").joinpath(f"recipes/{name_or_path}.toml").read_bytes()
    elif Path(name_or_path).is_file():
        with open(name_or_path, "rb") as file:
            text = file.read(_MAX_BYTES)
    else:
        raise UsageError(
            f'there is no recipe "{quoted(name_or_path)}": expected one of '
            f"{', '.join(shipped())}, or a TOML file"
        )
    try:
        table = tomllib.loads(text.decode())
    except (tomllib.TOMLDecodeError, UnicodeDecodeError) as error:
        raise UsageError(f"recipe {quoted(name_or_path)}: not TOML: {error}") from error
    return _recipe(table, f"recipe {quoted(name_or_path)}")


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
    shape, schedule = recipe.shape, recipe.schedule
    positive = {**dataclasses.asdict(shape), "tokens": schedule.tokens}
    positive |= {"batch_tokens": schedule.batch_tokens, "accumulate": schedule.accumulate}
    positive |= {"draws": recipe.sets.draws, "largest": recipe.sets.largest}
    for name, value in positive.items():
        if value < 1:
            raise UsageError(f"{where}: {name}: expected at least 1, got {value}")
    if shape.d_model % (2 * shape.n_heads):
        raise UsageError(
            f"{where}: d_model {shape.d_model} is not a multiple of 2 x n_heads {shape.n_heads}"
        )
    if not 256 <= recipe.pieces <= 30_000:
        raise UsageError(f"{where}: pieces: expected 256 to 30,000, got {recipe.pieces}")
    parts = {"warmup": schedule.warmup, "floor": schedule.floor, "dropout": schedule.dropout}
    parts |= {"views": recipe.sets.views, "variants": recipe.sets.variants}
    for name, value in parts.items():
        if not 0 <= value <= 1:
            raise UsageError(f"{where}: {name}: expected 0 to 1, got {value}")
    if schedule.learning_rate <= 0 or schedule.clip <= 0 or schedule.weight_decay < 0:
        raise UsageError(f"{where}: learning_rate and clip are above 0, weight_decay is not below")
