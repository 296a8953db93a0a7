"""The picture of a training run: loss in nats per fragment as tokens are read.

A step's loss depends on which lengths its batches hold more than on what was learned since the step
before. The curve therefore shows nats and fragments summed over a window of steps.
"""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from kbforge.contracts import FloatArray
from kbforge.errors import UsageError
from kbforge.pictures import FAINT, PALETTE, look, new_figure, require_matplotlib, save
from kbforge_training.fitting.loop import METRICS

if TYPE_CHECKING:
    from matplotlib.axes import Axes

PICTURE = "loss.png"

_WIDTH, _HEIGHT = 7.0, 4.2
_WINDOWS = 30  # over the whole run
_HEADROOM = 0.08  # of the height, above and below the curves


def metrics_and_picture(work: Path, say: Callable[[str], None]) -> dict[str, bytes]:
    """The metrics of a run's folder as files of its bundle, with a picture if one can be drawn.

    Args:
        work: the folder.
        say: told why there is no picture.

    Raises:
        KBForgeError: the picture cannot be written.

    """
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
    """Draw what a run's metrics say, as PNG or SVG.

    Args:
        metrics: a `loop.Step` as JSON on each line, at least one.
        picture: the file to write; its name ends in .png or .svg.

    Raises:
        UsageError: matplotlib is not installed.
        KBForgeError: the picture cannot be written.

    """
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
        look: dict[str, Any] = {"ms": 3.5, "lw": 1.3, "color": PALETTE[1], "clip_on": False}
        axes.plot(*held_out.T, "o-", label="held-out sets", **look)
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
    """Leave the first steps' heights out: they would press the rest flat."""
    shown = np.concatenate((smooth[len(smooth) // 20 :], held_out))
    margin = _HEADROOM * float(np.ptp(shown)) or 1.0
    axes.set_ylim(max(0.0, float(shown.min()) - margin), float(shown.max()) + margin)


def _short(value: float, _: float) -> str:
    """2,500,000 as 2.5 M."""
    for size, unit in ((1e9, "G"), (1e6, "M"), (1e3, "k")):
        if value >= size:
            return f"{value / size:g} {unit}"
    return f"{value:g}"
