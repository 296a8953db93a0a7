"""Recipes of diffusion models: every number of a run, in one TOML file.

    description = "..."
    [circles]     # circles.Circles; noise is what the density sees points blurred by
    [sizes]       # simulated_sets.SizeRule
    [shape]       # Sizes
    [schedule]    # recipes.Schedule; a token is a point

`recipes/diffusion/` holds the ones that ship. Reading is as strict as that of language models'.
"""

from __future__ import annotations

import dataclasses
import math
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from kbforge.errors import UsageError
from kbforge_lab.suites.circle import Circles
from kbforge_lab.training.diffusion.simulated_sets import SizeRule
from kbforge_training.fitting.recipes import Schedule, from_table, read_table, require_schedule

_FOLDER = "recipes/diffusion"
_LARGEST_SET = 10_000


@dataclass(frozen=True, slots=True)
class Sizes:
    """Sizes of the model; see `network.Shape`."""

    width: int
    layers: int
    heads: int
    told: int
    most_noise: float


@dataclass(frozen=True, slots=True)
class DiffusionRecipe:
    """Everything that a training run is made of."""

    description: str
    circles: Circles
    sizes: SizeRule
    shape: Sizes
    schedule: Schedule

    def to_json(self) -> dict[str, Any]:
        """The recipe as it stands in a bundle's manifest."""
        return dataclasses.asdict(self)


def read_diffusion_recipe(name_or_path: str) -> DiffusionRecipe:
    """A recipe that ships, by name, or a file's.

    Raises:
        UsageError: there is none of that name, or the file is not a recipe.

    """
    table, where = read_table(name_or_path, _FOLDER)
    sections: Mapping[str, type[Any]] = {
        "circles": Circles,
        "sizes": SizeRule,
        "shape": Sizes,
        "schedule": Schedule,
    }
    recipe = from_table(DiffusionRecipe, table, sections, where)
    _check(recipe, where)
    return recipe


def _check(recipe: DiffusionRecipe, where: str) -> None:
    require_schedule(recipe.schedule, where)
    if recipe.schedule.accumulate != 1 or recipe.schedule.dropout != 0.0:
        raise UsageError(f"{where}: a diffusion model has accumulate 1 and dropout 0")
    if recipe.schedule.optimizer != "adamw":
        raise UsageError(f"{where}: a diffusion model has the optimizer adamw")
    shape, sizes = recipe.shape, recipe.sizes
    for name in ("width", "layers", "heads", "told"):
        if getattr(shape, name) < 1:
            raise UsageError(f"{where}: {name}: expected at least 1, got {getattr(shape, name)}")
    if not 1 <= sizes.few <= sizes.largest <= _LARGEST_SET:
        raise UsageError(f"{where}: expected 1 <= few <= largest <= {_LARGEST_SET:,}")
    if not 0 <= sizes.small <= 1:
        raise UsageError(f"{where}: small: expected 0 to 1, got {sizes.small}")
    if recipe.circles.noise == 0:
        raise UsageError(f"{where}: noise: points that are not blurred have no density")
    if not recipe.circles.noise / recipe.circles.reach < shape.most_noise < math.inf:
        raise UsageError(f"{where}: most_noise: expected much more than noise")
