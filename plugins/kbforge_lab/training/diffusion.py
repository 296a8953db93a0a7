"""Trains a diffusion model of circles, from recipe to bundle.

`fit` is the loop of the language models on simulated clusters, `measure` the entropy of held-out
clusters, which the loss cannot fall below, `publish` the bundle. While it runs, everything is in
FOLDER.training. A recipe is one TOML file; `recipes/diffusion/` has the shipped ones:

    description = "..."
    [circles]     # Circles; noise is what the density sees points blurred by
    [sizes]       # SizeRule
    [shape]       # Sizes
    [schedule]    # recipes.Schedule; a token is a point

A batch holds clusters of one size n, small ones more often, because online clustering grows every
cluster from one point. Batch number k is a function of the seed and k, so that a run can go on
anywhere. Noise levels are spread evenly over the batch, at random points of the strata (Kingma et
al. 2021, appendix I.1), for less variance of the estimated bound.
"""

from __future__ import annotations

import dataclasses
import math
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, cast

import numpy as np
import torch
from torch import Tensor

from kbforge.contracts.likelihood import IntArray
from kbforge.errors import UsageError
from kbforge.files.io import require_writable
from kbforge.models.bundle import require_device, require_place, write_bundle
from kbforge_lab.circles import Circles
from kbforge_lab.likelihoods.diffusion import SetDenoiser, SetDiffusion, Shape, Standard, to_bundle
from kbforge_training.fitting.loop import Loop, LoopSettings, Step, metrics_and_picture
from kbforge_training.fitting.recipes import Schedule, from_table, read_table, require_schedule
from kbforge_training.fitting.run_folder import (
    Place,
    alone_in,
    begin_run,
    folder_of_run,
    going_on,
    read_progress,
    remove_run,
)

_FOLDER = "recipes/diffusion"
_LARGEST_SET = 10_000


@dataclass(frozen=True, slots=True)
class Sizes:
    """Sizes of the model; see `likelihoods.diffusion.Shape`."""

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


def read_diffusion_recipe(name_or_path: str) -> DiffusionRecipe:
    """A recipe that ships, by name, or a file's."""
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


_STREAM, _HELD_OUT = 0, 1
_HELD_OUT_BATCHES = 32
_OF_EACH = 4  # clusters of a size whose evidence is averaged


@dataclass(frozen=True, slots=True)
class SizeRule:
    """Which sizes of sets are learned from."""

    largest: int
    few: int
    small: float

    def draw(self, rng: np.random.Generator) -> int:
        return int(rng.integers(1, (self.few if rng.random() < self.small else self.largest) + 1))


@dataclass(frozen=True, slots=True)
class NoisySets:
    """K clusters of n points, standardised, and the noise to be found."""

    points: Tensor  # x, [K, n, 2]
    noise: Tensor  # e, [K, n, 2]
    log_s: Tensor  # [K]
    lengths: IntArray  # n, [K]

    @property
    def fragments(self) -> int:
        return int(self.lengths.sum())


class SetBatches:
    """The stream of batches; the shape says which noise levels exist."""

    def __init__(
        self,
        circles: Circles,
        standard: Standard,
        shape: Shape,
        sizes: SizeRule,
        budget: int,
        seed: int,
    ) -> None:
        self._rims = Circles(circles.radius, circles.reach)
        self._standard = standard
        self._low = math.log(shape.least_noise)
        self._range = math.log(shape.most_noise) - self._low
        self._sizes = sizes
        self._budget = budget
        self._seed = seed

    def stream(self, place: Place) -> Iterator[tuple[NoisySets, Place]]:
        """Batches from a place on, each with the place of the next one; never ends."""
        number = place.batch
        while True:
            rng = np.random.default_rng((self._seed, _STREAM, number))
            number += 1
            yield self._draw(rng), Place(batch=number)

    def held_out(self) -> list[NoisySets]:
        """Batches that the stream does not have, the same every time."""
        rng = np.random.default_rng((self._seed, _HELD_OUT))
        return [self._draw(rng) for _ in range(_HELD_OUT_BATCHES)]

    def _draw(self, rng: np.random.Generator) -> NoisySets:
        n = self._sizes.draw(rng)
        k = max(1, self._budget // n)
        points = self._standard(self._rims.points(self._rims.centres(k, rng), n, rng))
        strata = (rng.permutation(k) + rng.random(k)) / k
        return NoisySets(
            torch.tensor(points, dtype=torch.float32),
            torch.tensor(rng.normal(size=points.shape), dtype=torch.float32),
            torch.tensor(self._low + self._range * strata, dtype=torch.float32),
            np.full(k, n, dtype=np.int64),
        )


class DiffusionLoss:
    """The variational bound of a batch, in nats of the data's coordinates.

    The bound is of points blurred by the least noise: that noise's entropy and the diffusion term
    of larger ones. What the largest leaves to be told is less than a thousandth of a nat.
    """

    def __init__(self, shape: Shape, standard: Standard, device: torch.device) -> None:
        self._range = math.log(shape.most_noise / shape.least_noise)
        blur = shape.least_noise * standard.scale
        self._entropy = 1.0 + math.log(2.0 * math.pi) + 2.0 * math.log(blur)
        self._device = device

    def __call__(self, model: SetDenoiser, batch: NoisySets) -> Tensor:
        points, noise, log_s = (
            tensor.to(self._device) for tensor in (batch.points, batch.noise, batch.log_s)
        )
        noisy = points + log_s.exp()[:, None, None] * noise
        real = torch.ones(points.shape[:2], dtype=torch.bool, device=self._device)
        missed: Tensor = (model(noisy, noisy, log_s, real) - noise).square().sum()
        return self._range * missed + self._entropy * batch.fragments


def standard_of(circles: Circles) -> tuple[Standard, float]:
    """The standardisation of a distribution of clusters, and W, in closed form.

    A centre has variance reach^2 / 3 in each dimension, a point about it radius^2 / 2.
    """
    within = circles.radius**2 / 2.0
    total = circles.reach**2 / 3.0 + within
    return Standard((0.0, 0.0), math.sqrt(total)), within / total


def truth(circles: Circles, sizes: Sequence[int], seed: int) -> float:
    """The entropy that the bound cannot fall below, in nats a point, every size counting the same.

    An estimate, with a standard error of .025 for 32 sizes of the circles that ship.
    """
    rng = np.random.default_rng((seed, _HELD_OUT))
    drawn = [x for n in sizes for x in circles.points(circles.centres(_OF_EACH, rng), n, rng)]
    return -float(np.mean([circles.log_evidence(x, cells=150) / len(x) for x in drawn]))


_VALIDATIONS, _VALIDATE_EVERY = 10, 500  # at least so many; at most so many steps apart

Say = Callable[[str], None]


@dataclass(frozen=True, slots=True)
class DiffusionTraining:
    """What training did."""

    parameters: int
    steps: int
    points: int
    nats_per_point: float  # the bound on held-out clusters at the end
    entropy: float  # estimated on the same sizes


def train_diffusion(
    folder: Path,
    recipe: DiffusionRecipe,
    device: str = "cpu",
    checkpoint_seconds: float = 300.0,
    on_step: Callable[[Step], None] | None = None,
    say: Say = lambda sentence: None,
) -> DiffusionTraining:
    """Train, or continue training, and write the bundle."""
    require_device(device)
    require_place(folder)
    require_writable(str(folder))
    work = folder_of_run(folder)
    begin_run(work, {"recipe": dataclasses.asdict(recipe)})
    with alone_in(work):
        if progress := read_progress(work):
            say(going_on(progress, recipe.schedule.tokens, "points"))
        settings = LoopSettings(work, torch.device(device), checkpoint_seconds, _every(recipe))
        model, last, entropy = _fit(recipe, settings, on_step, say)
        write_bundle(
            folder, to_bundle(model, {"simulated": "circles"}, metrics_and_picture(work, say))
        )
        remove_run(work)
    return DiffusionTraining(
        parameters=sum(p.numel() for p in model.denoiser.parameters()),
        steps=last.step,
        points=last.tokens,
        nats_per_point=cast(float, last.dev_nats_per_fragment),
        entropy=entropy,
    )


def _fit(
    recipe: DiffusionRecipe,
    settings: LoopSettings,
    on_step: Callable[[Step], None] | None,
    say: Say,
) -> tuple[SetDiffusion, Step, float]:
    """The trained model, the last step, and the entropy of what it was validated on."""
    schedule, s, circles = recipe.schedule, recipe.shape, recipe.circles
    standard, within = standard_of(circles)
    least = circles.noise / standard.scale
    shape = Shape(s.width, s.layers, s.heads, s.told, least, s.most_noise, within)
    torch.manual_seed(schedule.seed)
    denoiser = SetDenoiser(shape).to(settings.device)
    batches = SetBatches(
        circles, standard, shape, recipe.sizes, schedule.batch_tokens, schedule.seed
    )
    held_out = batches.held_out()
    loss = DiffusionLoss(shape, standard, settings.device)
    last = Loop(denoiser, batches.stream, held_out, loss, schedule, settings).run(on_step)
    say("measuring the entropy of held-out circles, which the loss cannot fall below")
    entropy = truth(circles, [int(batch.lengths[0]) for batch in held_out], schedule.seed)
    training = {
        "recipe": dataclasses.asdict(recipe),
        "steps": last.step,
        "points": last.tokens,
        "held_out_nats_per_point": last.dev_nats_per_fragment,
        "entropy_per_point": entropy,
    }
    return SetDiffusion(denoiser.eval(), standard, training), last, entropy


def _every(recipe: DiffusionRecipe) -> int:
    """Steps between validations; more often in short runs."""
    steps = recipe.schedule.tokens // recipe.schedule.batch_tokens
    return min(max(1, steps // _VALIDATIONS), _VALIDATE_EVERY)
