"""Clustering as it happens, as a GIF."""

from __future__ import annotations

import io
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import numpy as np

from kbforge.contracts import FloatArray, Fragment
from kbforge.errors import UsageError, quoted
from kbforge.files.io import open_output
from kbforge.pictures.canvas import INK, PALETTE, look, new_figure
from kbforge.pictures.colours import Colours
from kbforge.pictures.draw import draw_view, shape
from kbforge.pictures.recorder import Frame
from kbforge.pictures.scene import points_of

if TYPE_CHECKING:
    from matplotlib.axes import Axes

_INCHES = 4.2  # of the longer side
_SHORTEST = (3.4, 1.0)  # the title is as wide
_TITLE = 0.45
_DOTS_PER_INCH = 110
_MILLISECONDS, _LAST_MILLISECONDS = 120, 3000
_COLOURS = 64
_BAND = 4


@look()
def write_animation(fragments: Sequence[Fragment], frames: Sequence[Frame], path: str) -> None:
    """Write the frames as a GIF that repeats for ever.

    Raises:
        KBForgeError: the file cannot be written.
        UsageError: the name does not end in .gif.

    """
    require_gif(path)
    points = points_of(fragments)
    width, height = np.maximum(_INCHES * shape(points), _SHORTEST).tolist()
    figure = new_figure(width, height + _TITLE, layout=None)
    figure.subplots_adjust(left=0.0, right=1.0, bottom=0.0, top=height / (height + _TITLE))
    figure.set_dpi(_DOTS_PER_INCH)
    axes, canvas = figure.subplots(), figure.canvas
    colours = Colours(points)
    pictures = []
    for frame in frames:
        axes.clear()
        draw_view(axes, points, frame.view, colours)
        _decorate(axes, points, frame)
        canvas.draw()
        rendered: Any = canvas
        pictures.append(np.asarray(rendered.buffer_rgba())[..., :3].copy())
    with open_output(path) as out:
        out.write(_gif(pictures))


def require_gif(path: str) -> None:
    """Refuse a name that is not a GIF's."""
    if not path.lower().endswith(".gif"):
        raise UsageError(f'"{quoted(path, 400)}": expected a name that ends in .gif')


def _decorate(axes: Axes, points: FloatArray, frame: Frame) -> None:
    if frame.newest is not None:
        axes.plot(*points[frame.newest], "o", ms=9, mfc="none", mec=INK, mew=1.2, zorder=4)
    axes.set(xticks=[], yticks=[])
    axes.spines[:].set_visible(False)
    axes.set_title(frame.view.title)


def _gif(pictures: Sequence[Any]) -> bytes:
    from PIL import Image  # arrives with matplotlib

    # one palette for all keeps unchanged pixels unchanged; clusters of earlier frames may have
    # colours that the last frame lacks
    bands = np.zeros((len(PALETTE), *pictures[-1].shape[1:]), np.uint8)
    bands[:] = [[list(bytes.fromhex(colour[1:]))] for colour in PALETTE]
    every = np.concatenate([pictures[-1], np.repeat(bands, _BAND, axis=0)])
    palette = Image.fromarray(every).quantize(_COLOURS, Image.Quantize.MAXCOVERAGE)
    frames = [
        Image.fromarray(picture).quantize(palette=palette, dither=Image.Dither.NONE)
        for picture in pictures
    ]
    out = io.BytesIO()
    frames[0].save(
        out,
        format="GIF",
        save_all=True,
        append_images=frames[1:],
        duration=[*[_MILLISECONDS] * (len(frames) - 1), _LAST_MILLISECONDS],
        loop=0,
        optimize=True,
    )
    return out.getvalue()
