"""A scene as a picture: colours say what belongs together, boxes what is a problem of its own."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

import numpy as np

from kbforge.contracts import Cluster, FloatArray
from kbforge.pictures.canvas import FAINT, INK, new_figure
from kbforge.pictures.colours import Colours
from kbforge.pictures.scene import Scene, View

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

_PANEL = 4.6  # inches
_MOST_COLUMNS = 3
_MARGIN = 0.012  # of the picture's width, around the points of a box


def draw(scene: Scene) -> Figure:
    """All views of a scene, side by side, in one set of colours."""
    count = len(scene.views)
    columns = min(count, _MOST_COLUMNS)
    rows = -(-count // columns)
    figure = new_figure(_PANEL * columns, _PANEL * rows)
    panels = figure.subplots(rows, columns, squeeze=False, sharex=True, sharey=True)
    colours = Colours(scene.points)
    for axes, view in zip(panels.flat, scene.views, strict=False):
        draw_view(axes, scene.points, view, colours)
        axes.set_title(view.title)
    for axes in panels.flat[count:]:
        axes.set_axis_off()
    for axes in panels[-1]:
        axes.set_xlabel("first coordinate")
    for axes in panels[:, 0]:
        axes.set_ylabel("second coordinate")
    if any(view.moved for view in scene.views):
        note = "ringed: in another entity than in the first; boxes: subproblems"
    else:
        note = "boxes: subproblems"
    figure.supxlabel(note, fontsize=8, color=INK)
    return figure


def draw_view(axes: Axes, points: FloatArray, view: View, colours: Colours) -> None:
    """The points in the colours of their clusters, and a box around each subproblem."""
    low, high = limits(points)
    axes.set_xlim(low[0], high[0])
    axes.set_ylim(low[1], high[1])
    axes.set_aspect("equal")
    axes.grid(visible=False)
    _draw_boxes(axes, points, view.blocks, _MARGIN * float((high - low).max()))
    size = float(np.clip(9000 / max(len(points), 1), 8, 40))
    shown = [i for cluster in view.clusters for i in cluster]
    painted = zip(view.clusters, colours.paint(view.clusters), strict=True)
    paint = [colour for cluster, colour in painted for _ in cluster]
    x, y = points[shown].T
    axes.scatter(x, y, s=size, c=paint, linewidths=0.3, edgecolors="white", zorder=2)
    if view.moved:
        x, y = points[list(view.moved)].T
        axes.scatter(x, y, s=3 * size, facecolors="none", edgecolors=INK, lw=0.7, zorder=3)


def limits(points: FloatArray) -> tuple[FloatArray, FloatArray]:
    """Lower left and upper right corner of a picture of these points."""
    low, high = points.min(axis=0), points.max(axis=0)
    room = 0.05 * max(float((high - low).max()), 1e-9)
    return low - room, high + room


def _draw_boxes(axes: Axes, points: FloatArray, blocks: Sequence[Cluster], margin: float) -> None:
    from matplotlib.patches import FancyBboxPatch

    for block in blocks:
        if len(block) < 2:
            continue  # a point alone is its own box
        own = points[list(block)]
        low, size = own.min(axis=0), np.ptp(own, axis=0)
        axes.add_patch(
            FancyBboxPatch(
                (float(low[0]), float(low[1])),
                float(size[0]),
                float(size[1]),
                boxstyle=f"round,pad={margin}",
                facecolor="none",
                edgecolor=FAINT,
                linewidth=1.0,
                zorder=1,
            )
        )
