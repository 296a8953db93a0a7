"""The training loop: read batches, step, measure, checkpoint; all resumable to the same bits.

A run is a function of recipe, data and step number: the stream of batches is seeded by its place,
dropout by the step. So a run that was killed and resumed computes what it would have computed. On a
CPU with the same number of threads the weights are identical.
"""

from __future__ import annotations

import dataclasses
import json
import math
import os
import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import IO, Any, Generic, Protocol, TypeVar

import torch
from numpy.typing import NDArray
from torch import Tensor, nn

from kbforge.errors import KBForgeError, ModelError, quoted
from kbforge.files.io import open_output
from kbforge.interrupts import deferred
from kbforge_training.fitting.recipes import Schedule, learning_rate, make_optimizers
from kbforge_training.fitting.run_folder import (
    Place,
    RunProgress,
    load_checkpoint,
    read_progress,
    save_checkpoint,
)

METRICS = "metrics.jsonl"


@dataclass(frozen=True, slots=True)
class Step:
    """What a step did, for progress bars and metrics.

    Attributes:
        step: number of steps done.
        tokens: tokens read so far.
        learning_rate: of the step.
        nats_per_token: the step's training loss.
        nats_per_fragment: the same by fragment.
        nats_per_pair: the step's loss on pairs, if it had any.
        dev_nats_per_fragment: validation loss, on the steps that measured it.
        seconds: since the process began to train.

    """

    step: int
    tokens: int
    learning_rate: float
    nats_per_token: float
    nats_per_fragment: float
    nats_per_pair: float | None
    dev_nats_per_fragment: float | None
    seconds: float


@dataclass(frozen=True, slots=True)
class LoopSettings:
    """What a run does beside learning; changing it does not change the weights.

    Attributes:
        folder: where checkpoint and metrics are.
        device: where to train.
        checkpoint_seconds: between checkpoints.
        validate_every: steps between measurements of the validation loss.

    """

    folder: Path
    device: torch.device
    checkpoint_seconds: float = 300.0
    validate_every: int = 250


class Sized(Protocol):
    """A batch, as the loop sees it: how much it is."""

    @property
    def lengths(self) -> NDArray[Any]:
        """Tokens (or points) of each row."""
        ...

    @property
    def fragments(self) -> int:
        """What the losses shown are by: fragments, all rows together."""
        ...


B = TypeVar("B", bound=Sized)
B_co = TypeVar("B_co", bound=Sized, covariant=True)
M = TypeVar("M", bound=nn.Module)
M_contra = TypeVar("M_contra", bound=nn.Module, contravariant=True)


class SideLoss(Protocol[M_contra]):
    """What a step learns beside its batches; here, from pairs."""

    @property
    def weight(self) -> float:
        """How much it counts beside a token's loss."""
        ...

    def __call__(self, model: M_contra, step: int) -> Tensor:
        """The mean loss after so many steps, in nats a pair, a scalar."""
        ...


class Stream(Protocol[B_co]):
    """What to learn from."""

    def stream(self, place: Place) -> Iterator[tuple[B_co, Place]]:
        """Batches without end from a place on, each with the place behind it."""
        ...


class Loop(Generic[M, B]):
    """One run.

    Args:
        model: with its first weights; changed in place.
        batches: the stream to learn from.
        dev: batches to validate on.
        loss: of a model and a batch, in nats, a scalar.
        schedule: how to fit.
        settings: where and how often.
        pairs: what to learn beside it, if anything.

    """

    def __init__(
        self,
        model: M,
        batches: Stream[B],
        dev: Sequence[B],
        loss: Callable[[M, B], Tensor],
        schedule: Schedule,
        settings: LoopSettings,
        pairs: SideLoss[M] | None = None,
    ) -> None:
        self._model = model
        self._batches = batches
        self._dev = dev
        self._loss = loss
        self._schedule = schedule
        self._settings = settings
        self._pairs = pairs
        self._optimizers = make_optimizers(
            schedule.optimizer, model, schedule.learning_rate, schedule.weight_decay
        )
        on_gpu = settings.device.type == "cuda"
        self._forward: Any = torch.compile(model, dynamic=True) if on_gpu else model
        self._done = RunProgress()

    def run(self, on_step: Callable[[Step], None] | None = None) -> Step:
        """Train to the end of the schedule, from the checkpoint in the folder if there is one.

        Ctrl-C leaves a checkpoint of the step it came in. Whatever else ends a run, `on_step` that
        raises included, leaves the last one.

        Returns:
            the last step.

        Raises:
            KBForgeError: the loss became infinite or NaN.
            ModelError: the checkpoint or the metrics are damaged or cannot be written.
            KeyboardInterrupt: Ctrl-C, after the checkpoint.

        """
        self._resume()
        began = saved = time.monotonic()
        stream = self._batches.stream(self._done.place)
        metrics = self._settings.folder / METRICS
        with open(metrics, "a", encoding="utf-8") as log, deferred() as interrupted:
            while self._done.tokens < self._schedule.tokens and not interrupted():
                step = self._one_step(stream, began)
                log.write(json.dumps(dataclasses.asdict(step)) + "\n")
                log.flush()
                if on_step is not None:
                    on_step(step)
                if time.monotonic() - saved >= self._settings.checkpoint_seconds:
                    self._save(log)
                    saved = time.monotonic()
            self._save(log)
        return _last(metrics)

    def validate(self) -> float:
        """The validation loss, in nats per fragment."""
        self._model.eval()
        with torch.inference_mode():
            nats = sum(float(self._loss(self._model, batch)) for batch in self._dev)
        self._model.train()
        return nats / max(1, sum(batch.fragments for batch in self._dev))

    def _one_step(self, stream: Iterator[tuple[B, Place]], began: float) -> Step:
        batches = [next(stream) for _ in range(self._schedule.accumulate)]
        n_tokens = sum(int(batch.lengths.sum()) for batch, _ in batches)
        before = self._done
        rate = learning_rate(self._schedule, before.tokens)
        for optimizer in self._optimizers:
            for group in optimizer.param_groups:
                group["lr"] = rate
        torch.manual_seed(self._schedule.seed * 1_000_003 + before.step)
        nats, of_pairs = self._learn([batch for batch, _ in batches], n_tokens)
        self._done = RunProgress(before.step + 1, before.tokens + n_tokens, batches[-1][1])
        due = self._done.step % self._settings.validate_every == 0
        over = self._done.tokens >= self._schedule.tokens
        return Step(
            self._done.step,
            self._done.tokens,
            rate,
            nats / n_tokens,
            nats / sum(batch.fragments for batch, _ in batches),
            of_pairs,
            self.validate() if self._dev and (due or over) else None,
            time.monotonic() - began,
        )

    def _learn(self, batches: Sequence[B], n_tokens: int) -> tuple[float, float | None]:
        """One step of the optimizers; returns the batches' nats before it, and a pair's."""
        self._model.train()
        nats = 0.0
        for batch in batches:
            with self._precision():
                loss = self._loss(self._forward, batch)
            torch.autograd.backward(loss / n_tokens)
            nats += float(loss.detach())
        of_pairs = None if self._pairs is None else self._learn_pairs(self._pairs)
        if not math.isfinite(total := nats + (of_pairs or 0.0)):
            raise KBForgeError(
                f"the loss of step {self._done.step + 1:,} is {total}: the training has diverged; "
                f"lower the recipe's learning_rate and delete "
                f"{quoted(str(self._settings.folder), 400)}"
            )
        torch.nn.utils.clip_grad_norm_(self._model.parameters(), self._schedule.clip)
        for optimizer in self._optimizers:
            optimizer.step()
            optimizer.zero_grad(set_to_none=True)
        return nats, of_pairs

    def _learn_pairs(self, pairs: SideLoss[M]) -> float:
        with self._precision():
            loss = pairs(self._forward, self._done.step)
        torch.autograd.backward(pairs.weight * loss)
        return float(loss.detach())

    def _precision(self) -> Any:
        # bf16 needs hardware: on CPUs without it, its backward pass is many times slower than fp32
        return torch.autocast("cuda", torch.bfloat16, enabled=self._settings.device.type == "cuda")

    def _save(self, log: IO[str]) -> None:
        os.fsync(log.fileno())  # no checkpoint may be ahead of its metrics
        save_checkpoint(self._settings.folder, self._model, self._optimizers, self._done)

    def _resume(self) -> None:
        progress = read_progress(self._settings.folder)
        if progress is not None:
            load_checkpoint(self._settings.folder, self._model, self._optimizers)
            self._done = progress
        _cut_metrics(self._settings.folder / METRICS, self._done.step)


def _cut_metrics(path: Path, step: int) -> None:
    """Drop the lines of steps that will be done again.

    Raises:
        ModelError: lines of steps before those are missing.

    """
    lines: dict[int, bytes] = {}
    for line in path.read_bytes().splitlines() if path.exists() else ():
        try:
            lines[json.loads(line)["step"]] = line + b"\n"
        except (ValueError, TypeError, KeyError):  # a line that the kill cut short
            continue
    kept = [lines[number] for number in range(1, step + 1) if number in lines]
    if len(kept) < step:
        raise ModelError(
            f"{quoted(str(path), 400)} is damaged: it has {len(kept):,} of the {step:,} steps "
            f"that the checkpoint beside it has done"
        )
    with open_output(str(path)) as out:
        out.write(b"".join(kept))


def _last(metrics: Path) -> Step:
    last = metrics.read_text(encoding="utf-8").splitlines()[-1]
    return Step(**json.loads(last))
