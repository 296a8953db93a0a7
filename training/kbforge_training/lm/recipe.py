"""Recipes of language models: every number of a training run, in one TOML file.

    description = "..."
    grammar = "canonical-json"
    pieces = 1200
    [shape]       # Sizes
    [sets]        # data.SetRule
    [schedule]    # recipes.Schedule
    [pairs]       # pairs.PairRule; without it there are none

`recipes/` holds the ones that ship. Reading is strict: a key that is unknown, missing or of another
type is an error.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from kbforge import registry
from kbforge.errors import UsageError, quoted
from kbforge_training.fitting.recipes import (
    Schedule,
    from_table,
    read_table,
    require_finite,
    require_schedule,
)
from kbforge_training.lm.data import SetRule
from kbforge_training.lm.pairs import PairRule


@dataclass(frozen=True, slots=True)
class ModelSizes:
    """Sizes of the model; see `gpt.Shape`."""

    d_model: int
    n_layers: int
    n_heads: int
    d_ff: int
    context: int


@dataclass(frozen=True, slots=True)
class Recipe:
    """Everything that a training run is made of but the data."""

    description: str
    grammar: str
    pieces: int
    shape: ModelSizes
    sets: SetRule
    schedule: Schedule
    pairs: PairRule = dataclasses.field(default_factory=PairRule)

    def to_json(self) -> dict[str, Any]:
        """The recipe as it stands in a bundle's manifest."""
        return dataclasses.asdict(self)


def read_recipe(name_or_path: str) -> Recipe:
    """A recipe that ships, by name, or a file's.

    Raises:
        UsageError: there is none of that name, or the file is not a recipe.

    """
    return _recipe(*read_table(name_or_path))


def _recipe(table: Mapping[str, Any], where: str) -> Recipe:
    sections: dict[str, type[Any]] = {"shape": ModelSizes, "sets": SetRule, "schedule": Schedule}
    if "pairs" in table:
        sections["pairs"] = PairRule
    recipe = from_table(Recipe, table, sections, where)
    _check(recipe, where)
    return recipe


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
    require_finite({"weight": pairs.weight, "offset": pairs.offset}, where)
