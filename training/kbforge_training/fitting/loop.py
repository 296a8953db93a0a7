"""The training loop: reads batches, steps, measures, saves; and plots the losses.

A run is a function of recipe, data and step number: the stream of batches is seeded by its place,
dropout by the step. So a run that was killed and resumed computes what it would have computed. On a
CPU with the same number of threads the weights are identical.

A run may also be given a time, all its processes together. Then it ends with the first of the two,
its tokens or its time, and the learning rate is at its floor there: it goes by the part of the run
that is over, by tokens or by time, whichever is more. Weights of such a run depend on the machine.

A step's loss depends more on the lengths in its batches than on what the step before learned. The
picture therefore shows nats and fragments summed over a window of steps.
"""

from __future__ import annotations

import dataclasses
import json
import math
import os
import time
import warnings
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import IO, TYPE_CHECKING, Any, Generic, Protocol, TypeVar

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor, nn

from kbforge.contracts import FloatArray
from kbforge.errors import KBForgeError, ModelError, UsageError, quoted
from kbforge.files.io import open_output
from kbforge.interrupts import deferred
from kbforge.pictures import FAINT, PALETTE, look, new_figure, require_matplotlib, save
from kbforge_training.fitting.recipes import Schedule, learning_rate, make_optimizers
from kbforge_training.fitting.run_folder import (
    Place,
    RunProgress,
    load_checkpoint,
    read_progress,
    save_checkpoint,
)

if TYPE_CHECKING:
    from matplotlib.axes import Axes

METRICS = "metrics.jsonl"


@dataclass(frozen=True, slots=True)
class Step:
    """What a step did, for progress bars and metrics."""

    step: int  # number of steps done
    tokens: int  # read so far
    learning_rate: float
    nats_per_token: float  # the step's training loss
    nats_per_fragment: float
    nats_per_pair: float | None
    dev_nats_per_fragment: float | None  # validation loss, if measured
    seconds: float  # of training, by all processes of the run


@dataclass(frozen=True, slots=True)
class LoopSettings:
    """The settings of a run that do not change the weights."""

    folder: Path  # of checkpoint and metrics
    device: torch.device
    checkpoint_seconds: float = 300.0
    validate_every: int = 250  # steps
    most_seconds: float = math.inf  # of training, by all processes of the run


class Sized(Protocol):
    """A batch, as the loop sees it."""

    @property
    def lengths(self) -> NDArray[Any]:
        """Tokens (or points) of each row."""
        ...

    @property
    def fragments(self) -> int:
        """Number of fragments of all rows, the unit of the losses shown."""
        ...


B = TypeVar("B", bound=Sized)
M = TypeVar("M", bound=nn.Module)


@dataclass(eq=False)
class Loop(Generic[M, B]):
    """One run, which changes the model in place.

    From a place on, `stream` gives batches without end, each with the place after it. `loss` is of
    a model and a batch, in nats; `pairs` a further loss of a model and a number of steps, in nats a
    pair, and its weight. `clock` tells the seconds.
    """

    model: M
    stream: Callable[[Place], Iterator[tuple[B, Place]]]
    dev: Sequence[B]
    loss: Callable[[M, B], Tensor]
    schedule: Schedule
    settings: LoopSettings
    pairs: tuple[float, Callable[[M, int], Tensor]] | None = None
    clock: Callable[[], float] = time.monotonic

    def __post_init__(self) -> None:
        schedule, model = self.schedule, self.model
        self._optimizers = make_optimizers(
            schedule.optimizer, model, schedule.learning_rate, schedule.weight_decay
        )
        on_gpu = self.settings.device.type == "cuda"
        self._forward: Any = torch.compile(model, dynamic=True) if on_gpu else model
        self._done = RunProgress()
        self._earlier = 0.0  # seconds of the processes before this one
        self._began = 0.0  # when this one began to train
        self._first = 0.0  # seconds of its first step, which compiles the model
        self._over = False

    def run(self, on_step: Callable[[Step], None] | None = None) -> Step:
        """Train to the end of the schedule or of the time, from the checkpoint; the last step.

        Ctrl-C leaves a checkpoint of its step; any other end, such as an error in `on_step`, the
        last checkpoint.

        Raises:
            KBForgeError: the loss became infinite or NaN.
            ModelError: the checkpoint or the metrics are damaged or cannot be written.
            KeyboardInterrupt: Ctrl-C, after the checkpoint.
        """
        self._resume()
        self._began = saved = self.clock()
        stream = self.stream(self._done.place)
        metrics = self.settings.folder / METRICS
        with open(metrics, "a", encoding="utf-8") as log, deferred() as interrupted:
            self._over = self._part() >= 1
            while not self._over and not interrupted():
                step = self._one_step(stream)
                log.write(json.dumps(dataclasses.asdict(step)) + "\n")
                log.flush()
                if on_step is not None:
                    on_step(step)
                if self.clock() - saved >= self.settings.checkpoint_seconds:
                    self._save(log)
                    saved = self.clock()
            self._save(log)
        last = metrics.read_text(encoding="utf-8").splitlines()[-1]
        return Step(**json.loads(last))

    def validate(self) -> float:
        """The validation loss, in nats per fragment."""
        self.model.eval()
        with torch.inference_mode():
            nats = sum(float(self.loss(self.model, batch)) for batch in self.dev)
        self.model.train()
        return nats / max(1, sum(batch.fragments for batch in self.dev))

    def _seconds(self) -> float:
        return self._earlier + self.clock() - self._began

    def _part(self) -> float:
        """The part of the run that is over, by tokens or by time; 1 is the end."""
        by_tokens = self._done.tokens / self.schedule.tokens
        left = self.settings.most_seconds - self._first
        return max(by_tokens, (self._seconds() - self._first) / left if left > 0 else 1.0)

    def _one_step(self, stream: Iterator[tuple[B, Place]]) -> Step:
        batches = [next(stream) for _ in range(self.schedule.accumulate)]
        n_tokens = sum(int(batch.lengths.sum()) for batch, _ in batches)
        before = self._done
        rate = learning_rate(self.schedule, self._part())
        for optimizer in self._optimizers:
            for group in optimizer.param_groups:
                group["lr"] = rate
        torch.manual_seed(self.schedule.seed * 1_000_003 + before.step)
        nats, of_pairs = self._learn([batch for batch, _ in batches], n_tokens)
        self._done = RunProgress(before.step + 1, before.tokens + n_tokens, batches[-1][1])
        self._first = self._first or self.clock() - self._began
        due = self._done.step % self.settings.validate_every == 0
        self._over = self._part() >= 1
        return Step(
            self._done.step,
            self._done.tokens,
            rate,
            nats / n_tokens,
            nats / sum(batch.fragments for batch, _ in batches),
            of_pairs,
            self.validate() if self.dev and (due or self._over) else None,
            self._seconds(),
        )

    def _learn(self, batches: Sequence[B], n_tokens: int) -> tuple[float, float | None]:
        """One step of the optimizers; returns the nats of the batches and of a pair before it."""
        self.model.train()
        try:
            losses = self._backward(batches, n_tokens)
        except RuntimeError as error:
            if self._forward is self.model:
                raise
            # such as where there is no C compiler
            warnings.warn(f"the model is not compiled, and trains slower: {error}", stacklevel=2)
            self._forward = self.model
            self.model.zero_grad(set_to_none=True)
            losses = self._backward(batches, n_tokens)
        numbers = torch.stack(losses).tolist()
        of_pairs = numbers.pop() if self.pairs is not None else None
        nats = sum(numbers)
        if not math.isfinite(total := nats + (of_pairs or 0.0)):
            raise KBForgeError(
                f"the loss of step {self._done.step + 1:,} is {total}: the training has diverged; "
                f"lower the recipe's learning_rate and delete "
                f"{quoted(str(self.settings.folder), 400)}"
            )
        torch.nn.utils.clip_grad_norm_(self.model.parameters(), self.schedule.clip)
        for optimizer in self._optimizers:
            optimizer.step()
            optimizer.zero_grad(set_to_none=True)
        return nats, of_pairs

    def _backward(self, batches: Sequence[B], n_tokens: int) -> list[Tensor]:
        """Add up the gradients; the nats of each batch, and of a pair if there are pairs."""
        losses: list[Tensor] = []  # read at the end, as reading one waits for a GPU
        for batch in batches:
            with self._precision():
                loss = self.loss(self._forward, batch)
            torch.autograd.backward(loss / n_tokens)
            losses.append(loss.detach())
        if self.pairs is not None:
            weight, pair_loss = self.pairs
            with self._precision():
                loss = pair_loss(self._forward, self._done.step)
            torch.autograd.backward(weight * loss)
            losses.append(loss.detach())
        return losses

    def _precision(self) -> Any:
        # bf16 needs hardware: on CPUs without it, its backward pass is many times slower than fp32
        return torch.autocast("cuda", torch.bfloat16, enabled=self.settings.device.type == "cuda")

    def _save(self, log: IO[str]) -> None:
        os.fsync(log.fileno())  # no checkpoint may be ahead of its metrics
        save_checkpoint(self.settings.folder, self.model, self._optimizers, self._done)

    def _resume(self) -> None:
        progress = read_progress(self.settings.folder)
        if progress is not None:
            load_checkpoint(self.settings.folder, self.model, self._optimizers)
            self._done = progress
        self._earlier = _cut_metrics(self.settings.folder / METRICS, self._done.step)


def _cut_metrics(path: Path, step: int) -> float:
    """Drop the lines of steps that will be done again; the seconds of training up to there.

    Raises:
        ModelError: lines of earlier steps are missing.
    """
    lines: dict[int, tuple[bytes, float]] = {}
    for line in path.read_bytes().splitlines() if path.exists() else ():
        try:
            one = json.loads(line)
            lines[one["step"]] = line + b"\n", float(one["seconds"])
        except (ValueError, TypeError, KeyError):  # a line that the kill cut short
            continue
    kept = [lines[number] for number in range(1, step + 1) if number in lines]
    if len(kept) < step:
        raise ModelError(
            f"{quoted(str(path), 400)} is damaged: it has {len(kept):,} of the {step:,} steps "
            f"that the checkpoint beside it has done"
        )
    with open_output(str(path)) as out:
        out.write(b"".join(line for line, _ in kept))
    return kept[-1][1] if kept else 0.0


PICTURE = "loss.png"

_WIDTH, _HEIGHT = 7.0, 4.2
_WINDOWS = 30  # over the whole run
_HEADROOM = 0.08  # of the height, above and below the curves


def metrics_and_picture(work: Path, say: Callable[[str], None]) -> dict[str, bytes]:
    """A run's metrics as files of its bundle, with a picture if one can be drawn; else says why."""
    files = {METRICS: (work / METRICS).read_bytes()}
    try:
        require_matplotlib()
    except UsageError as error:
        say(f"note: the model has no {PICTURE}: {error}")
    else:
        draw_losses(work / METRICS, work / PICTURE)
        files[PICTURE] = (work / PICTURE).read_bytes()
    return files


@look()
def draw_losses(metrics: Path, picture: Path) -> None:
    """Draw the metrics of a run to a PNG or SVG file; a UsageError without matplotlib."""
    figure = new_figure(_WIDTH, _HEIGHT)
    steps = [json.loads(line) for line in metrics.read_bytes().splitlines()]
    tokens = np.array([step["tokens"] for step in steps], dtype=np.float64)
    loss = np.array([step["nats_per_fragment"] for step in steps])
    nats = np.diff(tokens, prepend=0.0) * [step["nats_per_token"] for step in steps]
    smooth = _smoothed(nats, nats / loss)
    dev = [(s["tokens"], s["dev_nats_per_fragment"]) for s in steps]
    held_out = np.array([point for point in dev if point[1] is not None]).reshape(-1, 2)

    axes = figure.subplots()
    axes.plot(tokens, loss, ".", ms=4, color=FAINT, alpha=0.8, mew=0, label="a step")
    axes.plot(tokens, smooth, lw=1.8, color=PALETTE[0], label="training sets, smoothed")
    if len(held_out):
        style: dict[str, Any] = {"ms": 3.5, "lw": 1.3, "color": PALETTE[1], "clip_on": False}
        axes.plot(*held_out.T, "o-", label="held-out sets", **style)
        axes.annotate(
            f"{held_out[-1, 1]:.2f}",
            held_out[-1],
            xytext=(0, 7),
            textcoords="offset points",
            ha="right",
            color=PALETTE[1],
        )
    axes.set(xlabel="tokens read", ylabel="nats per fragment", xlim=(0.0, tokens[-1]))
    axes.xaxis.set_major_formatter(_short)
    _limit(axes, smooth, held_out[:, 1])
    axes.legend(loc="upper right")
    save(figure, str(picture))


def _smoothed(nats: FloatArray, fragments: FloatArray) -> FloatArray:
    """Nats per fragment over a window around each step, shape [steps]."""
    half = len(nats) // (2 * _WINDOWS)
    at = np.arange(len(nats))
    first, last = np.maximum(at - half, 0), np.minimum(at + half + 1, len(nats))
    sums = [np.concatenate(([0.0], np.cumsum(values))) for values in (nats, fragments)]
    out: FloatArray = (sums[0][last] - sums[0][first]) / (sums[1][last] - sums[1][first])
    return out


def _limit(axes: Axes, smooth: FloatArray, held_out: FloatArray) -> None:
    """Fit the height without the first steps, which would flatten the rest."""
    shown = np.concatenate((smooth[len(smooth) // 20 :], held_out))
    margin = _HEADROOM * float(np.ptp(shown)) or 1.0
    axes.set_ylim(max(0.0, float(shown.min()) - margin), float(shown.max()) + margin)


def _short(value: float, _: float) -> str:
    """2,500,000 as 2.5 M."""
    for size, unit in ((1e9, "G"), (1e6, "M"), (1e3, "k")):
        if value >= size:
            return f"{value / size:g} {unit}"
    return f"{value:g}"
