"""The schedule of a run: how long it learns, how fast, and by which optimiser."""

from __future__ import annotations

import math
from dataclasses import dataclass

from kbforge.errors import UsageError, quoted
from kbforge_training.fitting.optimizers import OPTIMIZERS
from kbforge_training.fitting.recipe_files import require_finite

_LARGEST_SEED = 1 << 40  # seeds of steps are made of it, and have 64 bits


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
    require_finite({"weight_decay": schedule.weight_decay}, where)


def learning_rate(schedule: Schedule, tokens: int) -> float:
    """Linear warm-up, then a cosine down to the floor."""
    done = tokens / schedule.tokens
    if done < schedule.warmup:
        # the first step must move, too
        return schedule.learning_rate * max(done / schedule.warmup, 0.01)
    rest = min(1.0, (done - schedule.warmup) / (1.0 - schedule.warmup or 1.0))
    height = schedule.floor + (1.0 - schedule.floor) * 0.5 * (1.0 + math.cos(math.pi * rest))
    return schedule.learning_rate * height
