"""A scene as a picture: colours say what belongs together, boxes what is a problem of its own."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np

from kbforge.contracts import Cluster, FloatArray
from kbforge.pictures import FAINT, INK, PALETTE, look, new_figure
from kbforge_lab.pictures.matching import matched
from kbforge_lab.pictures.scene import Scene, View

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure


_MOST_APART = 1000  # above, neighbours are too small to tell apart, and their distances too many


class Colours:
    """Paints one grouping after another, in the colours of the one before or of the first.

    Args:
        points: what is grouped, shape [n, 2].

    """

    def __init__(self, points: FloatArray, of_the_first: bool = False) -> None:
        self._points, self._of_the_first = points, of_the_first
        self._clusters: Sequence[Cluster] = ()
        self._numbers: list[int] = []

    def paint(self, clusters: Sequence[Cluster]) -> list[str]:
        """A colour a cluster; one that is the same as in the other grouping keeps its own.

        A new one takes none that the other grouping has, while there are some: it is not the
        cluster that had it.
        """
        same = matched(self._clusters, clusters)
        numbers = [self._numbers[same[i]] if i in same else -1 for i in range(len(clusters))]
        if len(clusters) > _MOST_APART:
            numbers = [i % len(PALETTE) if n < 0 else n for i, n in enumerate(numbers)]
        elif -1 in numbers:
            others = zip(self._numbers, self._centres(self._clusters), strict=True)
            _fill(numbers, self._centres(clusters), others)
        if not (self._of_the_first and self._clusters):
            self._clusters, self._numbers = tuple(clusters), numbers
        return [PALETTE[number] for number in numbers]

    def _centres(self, clusters: Sequence[Cluster]) -> FloatArray:
        """Shape [clusters, 2]."""
        return np.array([self._points[list(c)].mean(axis=0) for c in clusters]).reshape(-1, 2)


def _fill(
    numbers: list[int], centres: FloatArray, others: Iterable[tuple[int, FloatArray]]
) -> None:
    """Replace each -1 by the colour whose nearest cluster is farthest; an unused one before all.

    Args:
        centres: of the same clusters, shape [k, 2].

    """
    nearest = np.full((len(centres), len(PALETTE)), np.inf)
    for number, other in others:
        _bring_near(nearest[:, number], centres, other)
    for i in sorted(range(len(numbers)), key=lambda i: numbers[i] < 0):  # those with a colour first
        if numbers[i] < 0:
            numbers[i] = int(nearest[i].argmax())
        _bring_near(nearest[:, numbers[i]], centres, centres[i])


def _bring_near(nearest: FloatArray, centres: FloatArray, other: FloatArray) -> None:
    np.minimum(nearest, np.linalg.norm(centres - other, axis=1), out=nearest)


# inches: layout engines of matplotlib cut off titles of panels whose shape is given
_PANEL = 3.8  # longer side
_SHORTEST = (2.4, 1.2)  # nearly as much as a title, and the name of the second axis
_BETWEEN = (0.7, 0.9)
_LEFT, _RIGHT, _TOP, _BOTTOM = 0.8, 0.2, 0.35, 0.75
_MOST_COLUMNS = 3
_RESOLVED = 1e-14  # of a number, about what float64 can tell from nothing
_MARGIN = 0.012  # of the picture's width, around the points of a box


@look()
def draw(scene: Scene) -> Figure:
    """All views of a scene, side by side, entities in the colours that they have in the first."""
    count = len(scene.views)
    figure, panels = _panels(count, np.maximum(_PANEL * shape(scene.points), _SHORTEST))
    colours = Colours(scene.points, of_the_first=True)  # as the rings are
    for axes, view in zip(panels.flat, scene.views, strict=False):
        draw_view(axes, scene.points, view, colours)
        axes.set_title(view.title)
    for axes in panels.flat[count:]:
        axes.set_axis_off()
    for column in range(panels.shape[1]):
        lowest = panels[(count - 1 - column) // panels.shape[1], column]
        lowest.set_xlabel("first coordinate")
        lowest.xaxis.set_tick_params(labelbottom=True)
    for axes in panels[:, 0]:
        axes.set_ylabel("second coordinate")
    if any(view.moved for view in scene.views):
        note = "ringed: in another entity than in the first; boxes: subproblems"
    else:
        note = "boxes: subproblems"
    figure.supxlabel(note, fontsize=8, color=INK)
    return figure


def _panels(count: int, size: FloatArray) -> tuple[Figure, Any]:
    """A figure with at least so many axes of one size, in inches."""
    columns = min(count, _MOST_COLUMNS)
    rows = -(-count // columns)
    across, up = size.tolist()
    width = _LEFT + columns * across + (columns - 1) * _BETWEEN[0] + _RIGHT
    height = _BOTTOM + rows * up + (rows - 1) * _BETWEEN[1] + _TOP
    figure = new_figure(width, height, layout=None)
    figure.subplots_adjust(
        left=_LEFT / width,
        right=1 - _RIGHT / width,
        bottom=_BOTTOM / height,
        top=1 - _TOP / height,
        wspace=_BETWEEN[0] / across,
        hspace=_BETWEEN[1] / up,
    )
    return figure, figure.subplots(rows, columns, squeeze=False, sharex=True, sharey=True)


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
    """Lower left and upper right corner of a picture of these points.

    The room around them is a part of what they span, and at least what float64 can tell from
    nothing where they are: an axis shorter than that cannot be drawn.
    """
    low, high = points.min(axis=0), points.max(axis=0)
    magnitude = float(np.abs(points).max())
    span = float((high - low).max()) or magnitude or 1.0
    room = max(0.05 * span, _RESOLVED * magnitude, float(np.finfo(np.float64).tiny))
    return low - room, high + room


def shape(points: FloatArray) -> FloatArray:
    """Width and height of a picture of these points, the longer one 1, shape [2]."""
    low, high = limits(points)
    out: FloatArray = (high - low) / (high - low).max()
    return out


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
