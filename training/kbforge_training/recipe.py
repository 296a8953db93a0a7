"""Training recipes: every number of a run, in one TOML file.

    description = "..."
    grammar = "canonical-json"
    pieces = 1200
    [shape]       # gpt.Shape without n_tokens
    [sets]        # sets.SetRule
    [schedule]    # Schedule
    [pairs]       # pairs.PairRule; without it there are none

`recipes/` holds the ones that ship. Reading is strict: a key that is unknown, missing or of another
type is an error.
"""

from __future__ import annotations

import dataclasses
import math
from collections.abc import Mapping
from dataclasses import dataclass
from importlib.resources import files
from pathlib import Path
from typing import Any, TypeVar

from kbforge import registry
from kbforge.errors import UsageError, quoted
from kbforge.files.toml import parse_toml
from kbforge_training.optimizers import OPTIMIZERS
from kbforge_training.pairs import PairRule
from kbforge_training.sets import SetRule

_FOLDER = "recipes"
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
    pairs: PairRule = dataclasses.field(default_factory=PairRule)

    def to_json(self) -> dict[str, Any]:
        """The recipe as it stands in a bundle's manifest."""
        return dataclasses.asdict(self)


def shipped(folder: str = _FOLDER) -> list[str]:
    """Names of the recipes that ship in a folder of the package."""
    inside = files("kbforge_training").joinpath(folder)
    return sorted(
        file.name.removesuffix(".toml") for file in inside.iterdir() if file.name.endswith(".toml")
    )


def read_recipe(name_or_path: str) -> Recipe:
    """A recipe that ships, by name, or a file's.

    Raises:
        UsageError: there is none of that name, or the file is not a recipe.

    """
    return _recipe(*read_table(name_or_path))


def read_table(name_or_path: str, folder: str = _FOLDER) -> tuple[dict[str, Any], str]:
    """A recipe as TOML has it, and how to call it in errors.

    Args:
        name_or_path: a recipe that ships, by name, or a file.
        folder: of the package, where those that ship are.

    Raises:
        UsageError: there is none of that name, or the file is not TOML.

    """
    where = f"recipe {quoted(name_or_path, 400)}"
    if name_or_path in shipped(folder):
        content = files("kbforge_training").joinpath(f"{folder}/{name_or_path}.toml").read_bytes()
    elif Path(name_or_path).is_file():
        content = _read(Path(name_or_path), where)
    else:
        raise UsageError(
            f'there is no recipe "{quoted(name_or_path)}": expected one of '
            f"{', '.join(shipped(folder))}, or a TOML file"
        )
    return parse_toml(content, where, UsageError), where


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
    sections: dict[str, type[Any]] = {"shape": Sizes, "sets": SetRule, "schedule": Schedule}
    if "pairs" in table:
        sections["pairs"] = PairRule
    recipe = from_table(Recipe, table, sections, where)
    _check(recipe, where)
    return recipe


def from_table(
    kind: type[_Section],
    table: Mapping[str, Any],
    sections: Mapping[str, type[Any]],
    where: str,
) -> _Section:
    """A dataclass from a table and its sections, every key and type checked.

    Args:
        kind: the dataclass.
        table: what TOML has.
        sections: those of its keys that are tables, and their dataclasses.
        where: how to call it in errors.

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


def require_schedule(schedule: Schedule, where: str) -> None:
    """Find out whether a run can be fitted by a schedule.

    Raises:
        UsageError: a number out of range.

    """
    if schedule.optimizer not in OPTIMIZERS:
        raise UsageError(
            f'{where}: there is no optimizer "{quoted(schedule.optimizer)}", expected one of '
            f"{', '.join(OPTIMIZERS)}"
        )
    for name in ("tokens", "batch_tokens", "accumulate"):
        if getattr(schedule, name) < 1:
            raise UsageError(f"{where}: {name}: expected at least 1, got {getattr(schedule, name)}")
    if not 0 <= schedule.seed <= _LARGEST_SEED:
        raise UsageError(f"{where}: seed: expected 0 to {_LARGEST_SEED:,}, got {schedule.seed}")
    for name in ("warmup", "floor", "dropout"):
        if not 0 <= getattr(schedule, name) <= 1:
            raise UsageError(f"{where}: {name}: expected 0 to 1, got {getattr(schedule, name)}")
    for name in ("learning_rate", "clip"):
        if not 0 < getattr(schedule, name) < math.inf:
            raise UsageError(
                f"{where}: {name}: expected a number above 0, got {getattr(schedule, name)}"
            )
    _require_finite({"weight_decay": schedule.weight_decay}, where)


def _require_finite(numbers: Mapping[str, float], where: str) -> None:
    for name, number in numbers.items():
        if not 0 <= number < math.inf:
            raise UsageError(f"{where}: {name}: expected 0 or more, got {number}")


def _check(recipe: Recipe, where: str) -> None:
    shape, sets, pairs = recipe.shape, recipe.sets, recipe.pairs
    if recipe.grammar not in registry.names("grammars"):
        raise UsageError(
            f'{where}: there is no grammar "{quoted(recipe.grammar)}", expected one of '
            f"{', '.join(registry.names('grammars'))}"
        )
    require_schedule(recipe.schedule, where)
    whole = {**dataclasses.asdict(shape), "draws": sets.draws, "largest": sets.largest}
    whole["per_step"] = pairs.per_step
    for name, value in whole.items():
        # a sequence of one token would be its beginning alone
        least = 2 if name == "context" else 1
        if value < least:
            raise UsageError(f"{where}: {name}: expected at least {least}, got {value}")
    if shape.d_model % (2 * shape.n_heads):
        raise UsageError(
            f"{where}: d_model {shape.d_model} is not a multiple of 2 x n_heads {shape.n_heads}"
        )
    if not 256 <= recipe.pieces <= 30_000:
        raise UsageError(f"{where}: pieces: expected 256 to 30,000, got {recipe.pieces}")
    for name, part in {"views": sets.views, "variants": sets.variants}.items():
        if not 0 <= part <= 1:
            raise UsageError(f"{where}: {name}: expected 0 to 1, got {part}")
    _require_finite({"weight": pairs.weight, "offset": pairs.offset}, where)
