"""Training a diffusion model of circles, from recipe to bundle.

    fit        the loop of the language models, on simulated clusters, from its checkpoint if there
               is one
    measure    the entropy of held-out clusters, which the loss cannot fall below
    publish    the bundle, whole, under its name

While it runs, everything is in FOLDER.training, as when a language model is trained.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import cast

import torch

from kbforge.files.io import require_writable
from kbforge.models.bundle import require_place, write_bundle
from kbforge.models.resolve import require_device
from kbforge_lab.models.diffusion.network import SetDenoiser, Shape
from kbforge_lab.models.diffusion.trained import SetDiffusion, to_bundle
from kbforge_lab.training.diffusion.recipe import DiffusionRecipe
from kbforge_lab.training.diffusion.simulated_sets import (
    DiffusionLoss,
    SetBatches,
    standard_of,
    truth,
)
from kbforge_training.fitting.loop import Loop, LoopSettings, Step
from kbforge_training.fitting.loss_plot import metrics_and_picture
from kbforge_training.fitting.run_folder import (
    alone_in,
    begin_run,
    folder_of_run,
    going_on,
    read_progress,
    remove_run,
)

_VALIDATIONS, _VALIDATE_EVERY = 10, 500  # at least so many; at most so many steps apart

Say = Callable[[str], None]


@dataclass(frozen=True, slots=True)
class TrainedDiffusion:
    """What training did.

    Attributes:
        parameters: of the model.
        steps: of the optimizer.
        points: learned from, as often as they were drawn.
        nats_per_point: the bound on held-out clusters at the end.
        entropy: what the bound of a perfect model would be, estimated on the same sizes.

    """

    parameters: int
    steps: int
    points: int
    nats_per_point: float
    entropy: float


def train_diffusion(
    folder: Path,
    recipe: DiffusionRecipe,
    device: str = "cpu",
    checkpoint_seconds: float = 300.0,
    on_step: Callable[[Step], None] | None = None,
    say: Say = lambda sentence: None,
) -> TrainedDiffusion:
    """Train, or go on training, and write the bundle.

    Args:
        folder: where the bundle goes; one that is there is replaced.
        recipe: everything else.
        device: "cpu" or "cuda".
        checkpoint_seconds: between checkpoints.
        on_step: called after each step; a token is a point.
        say: called with sentences for the user, as things happen.

    Raises:
        KBForgeError: another run's checkpoint is in the way, or the loss became infinite.
        UsageError: no usable GPU.
        ModelError: the bundle or a checkpoint cannot be written, or is damaged.
        KeyboardInterrupt: Ctrl-C; the run's folder has a checkpoint.

    """
    require_device(device)
    require_place(folder)
    require_writable(str(folder))
    work = folder_of_run(folder)
    begin_run(work, {"recipe": recipe.to_json()})
    with alone_in(work):
        if progress := read_progress(work):
            say(going_on(progress, recipe.schedule.tokens, "points"))
        settings = LoopSettings(work, torch.device(device), checkpoint_seconds, _every(recipe))
        model, last, entropy = _fit(recipe, settings, on_step, say)
        write_bundle(
            folder, to_bundle(model, {"simulated": "circles"}, metrics_and_picture(work, say))
        )
        remove_run(work)
    return TrainedDiffusion(
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
    last = Loop(denoiser, batches, held_out, loss, schedule, settings).run(on_step)
    say("measuring the entropy of held-out circles, which the loss cannot fall below")
    entropy = truth(circles, [int(batch.lengths[0]) for batch in held_out], schedule.seed)
    training = {
        "recipe": recipe.to_json(),
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
