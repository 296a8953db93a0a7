"""Pictures of points coloured by entity, and films of a clustering.

A scene comes from a posterior or from a knowledge base, which keeps the best grouping alone. The
heaviest groupings of all fragments stand side by side: subproblems are independent, so the best
combination takes the heaviest particle of each. Colours are clusters, boxes are subproblems.
"""

from __future__ import annotations

import heapq
import io
import math
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

import numpy as np

from kbforge.contracts import (
    Cluster,
    Entity,
    FloatArray,
    Fragment,
    Posterior,
    Progress,
    Rounds,
    Subproblem,
)
from kbforge.errors import UsageError, counted, percent, quoted
from kbforge.files.io import open_output
from kbforge.pictures import FAINT, INK, PALETTE, look, new_figure

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure


def matched(before: Sequence[Cluster], after: Sequence[Cluster]) -> Mapping[int, int]:
    """Number of a cluster of `after` -> number of the same cluster of `before`.

    Two clusters are the same if neither shares more fragments with any other; ties go to the first.
    """
    home = {i: number for number, cluster in enumerate(before) for i in cluster}
    shared: dict[tuple[int, int], int] = {}
    for number, cluster in enumerate(after):
        for i in cluster:
            if i in home:
                pair = home[i], number
                shared[pair] = shared.get(pair, 0) + 1
    best_of_before: dict[int, tuple[int, int]] = {}
    best_of_after: dict[int, tuple[int, int]] = {}
    for pair in sorted(shared, key=lambda pair: (-shared[pair], pair)):
        best_of_before.setdefault(pair[0], pair)
        best_of_after.setdefault(pair[1], pair)
    return {b: a for b, (a, _) in best_of_after.items() if best_of_before[a] == (a, b)}


def moved_fragments(before: Sequence[Cluster], after: Sequence[Cluster]) -> tuple[int, ...]:
    """The fragments of `after` that are not in the same cluster as before, ascending."""
    same = matched(before, after)
    home = {i: number for number, cluster in enumerate(before) for i in cluster}
    return tuple(
        sorted(
            i
            for number, cluster in enumerate(after)
            for i in cluster
            if number not in same or home.get(i) != same[number]
        )
    )


@dataclass(frozen=True, slots=True)
class GroupingView:
    """One grouping."""

    title: str
    clusters: tuple[Cluster, ...]
    blocks: tuple[Cluster, ...]
    moved: tuple[int, ...] = ()  # fragments whose cluster differs from the first view's


@dataclass(frozen=True, slots=True)
class Scene:
    """Points of shape [n, 2] and one or more views of them."""

    points: FloatArray
    views: tuple[GroupingView, ...]


def points_of(fragments: Sequence[Fragment]) -> FloatArray:
    """The fragments' vectors, shape [n, 2]."""
    if not fragments:
        raise UsageError("there are no fragments to draw")
    for fragment in fragments:
        count = len(fragment.vector or ())
        if count != 2:
            has = f"one of {count}" if count else "none"
            raise UsageError(
                f'fragment "{quoted(fragment.id)}": expected a vector of 2 numbers to draw, '
                f"got {has} (kbforge load csv --vector x,y makes them from columns)"
            )
    return np.array([fragment.vector for fragment in fragments], dtype=np.float64)


def scene_of_kb(entities: Iterable[Entity], fragments: Sequence[Fragment]) -> Scene:
    """The best grouping, as a knowledge base keeps it."""
    points = points_of(fragments)
    index = {fragment.id: i for i, fragment in enumerate(fragments)}
    clusters: list[Cluster] = []
    blocks: dict[int, list[int]] = {}
    for entity in entities:
        unknown = [f for f in entity.fragments if f not in index]
        if unknown:
            raise UsageError(
                f'entity "{quoted(entity.id)}" has the fragment "{quoted(unknown[0])}", which the '
                "fragments lack: give those that were clustered"
            )
        members = tuple(sorted(index[f] for f in entity.fragments))
        clusters.append(members)
        blocks.setdefault(entity.subproblem, []).extend(members)
    missing = len(fragments) - sum(map(len, clusters))
    if missing:
        raise UsageError(f"the knowledge base lacks {missing:,} of the fragments")
    title = counted(len(clusters), "entity", "entities")
    view = GroupingView(title, tuple(clusters), tuple(tuple(sorted(b)) for b in blocks.values()))
    return Scene(points, (view,))


def scene_of_posterior(
    fragments: Sequence[Fragment], posterior: Posterior, count: int = 1
) -> Scene:
    """The `count` most probable groupings side by side, or as many as there are."""
    blocks = tuple(subproblem.fragments for subproblem in posterior.subproblems)
    alone = all(len(subproblem.particles) == 1 for subproblem in posterior.subproblems)
    views: list[GroupingView] = []
    for rank, (log_weight, clusters) in enumerate(heaviest(posterior.subproblems, count), 1):
        moved = moved_fragments(views[0].clusters, clusters) if views else ()
        entities = counted(len(clusters), "entity", "entities")
        title = entities if alone else f"{rank}. {entities}, {_percent(math.exp(log_weight))}"
        views.append(GroupingView(title, clusters, blocks, moved))
    return Scene(points_of(fragments[: posterior.n_fragments]), tuple(views))


def heaviest(
    subproblems: Sequence[Subproblem], count: int
) -> list[tuple[float, tuple[Cluster, ...]]]:
    """The exact heaviest combinations of a particle a subproblem, with their log weights."""
    found: list[tuple[float, tuple[int, ...]]] = [(0.0, ())]
    for subproblem in subproblems:
        extended = (
            (weight + particle.log_weight, (*ranks, rank))
            for weight, ranks in found
            for rank, particle in enumerate(subproblem.particles[:count])
        )
        found = heapq.nsmallest(count, extended, key=lambda item: (-item[0], item[1]))
    return [
        (
            weight,
            tuple(
                cluster
                for subproblem, rank in zip(subproblems, ranks, strict=True)
                for cluster in subproblem.particles[rank].clusters
            ),
        )
        for weight, ranks in found
    ]


def _percent(probability: float) -> str:
    """A probability in words that stay honest at both ends."""
    if probability < 0.0001:
        return f"probability {probability:.0e}"
    if probability < 0.1:
        return f"probability {100 * probability:.2g} %"
    return f"probability {percent(probability)}"


_MOST_APART = 1000  # above, neighbours are too small to tell apart, and their distances too many


class Colours:
    """Paints groupings of points [n, 2] in the colours of the one before, or of the first."""

    def __init__(self, points: FloatArray, of_the_first: bool = False) -> None:
        self._points, self._of_the_first = points, of_the_first
        self._clusters: Sequence[Cluster] = ()
        self._numbers: list[int] = []

    def paint(self, clusters: Sequence[Cluster]) -> list[str]:
        """A colour for each cluster; the same cluster keeps its colour.

        While others are free, a new cluster takes none of the other grouping's colours.
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
    """Replace each -1 by an unused colour, else by the one whose nearest cluster is farthest."""
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


def draw_view(axes: Axes, points: FloatArray, view: GroupingView, colours: Colours) -> None:
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

    The margin is at least what float64 can tell from nothing there: shorter axes cannot be drawn.
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


@dataclass(frozen=True, slots=True)
class Frame:
    """A grouping on the way to the last one."""

    view: GroupingView  # its title says how far the run has come
    newest: int | None  # the last fragment; None where all are there from the start


class Recorder:
    """An `on_step` that keeps at most `count` frames, evenly spread over the run.

    The number of an offline method's rounds is unknown: at `count` frames every second one goes,
    and from then on every second round is passed over.
    """

    def __init__(self, fragments: Sequence[Fragment], count: int) -> None:
        marks = np.linspace(1, len(fragments), num=min(count, len(fragments)))
        self._fragments, self._count = fragments, count
        self._marks = set(np.rint(marks).astype(int).tolist())
        self._rounds: Rounds | None = None
        self._seen, self._stride = 0, 1
        self.frames: list[Frame] = []

    def __call__(self, progress: Progress) -> None:
        if progress.rounds is not None:
            self._see_round(progress, progress.rounds)
        elif progress.fragments in self._marks:
            self._marks.remove(progress.fragments)
            view = self._view(_posterior_of(progress))
            titled = replace(view, title=_title_by_fragments(progress, view))
            self.frames.append(Frame(titled, progress.fragments - 1))

    def finish(self, posterior: Posterior) -> None:
        """Let the film of rounds end on what the run returned; the other kind does already."""
        if self._rounds is None and self.frames:
            return
        if self._rounds is not None and self._is_turn():
            self.frames.pop()  # the last round, of which this is the outcome
        after = "" if self._rounds is None else f", {_after(self._rounds)}"
        self._keep(f"the end{after}", posterior)

    def _see_round(self, progress: Progress, rounds: Rounds) -> None:
        # steps within a round come by the clock; the first that counts a round ends it
        if rounds.done == (0 if self._rounds is None else self._rounds.done):
            return
        self._rounds = rounds
        self._seen += 1
        if self._is_turn():
            self._keep(_after(rounds), _posterior_of(progress))
            if len(self.frames) == self._count:  # one is for the end
                del self.frames[1::2]
                self._stride *= 2

    def _is_turn(self) -> bool:
        """Whether the last round seen has a frame."""
        return (self._seen - 1) % self._stride == 0

    def _keep(self, when: str, posterior: Posterior) -> None:
        view = self._view(posterior)
        title = f"{when}: {_entities(view)}\nlog posterior {posterior.log_posterior:,.1f} nats"
        self.frames.append(Frame(replace(view, title=title), None))

    def _view(self, posterior: Posterior) -> GroupingView:
        (view,) = scene_of_posterior(self._fragments, posterior).views
        return view


def _posterior_of(progress: Progress) -> Posterior:
    if progress.posterior is None:
        raise UsageError("this clusterer does not show its states, so there is no film")
    return progress.posterior()


def _title_by_fragments(progress: Progress, view: GroupingView) -> str:
    return (
        f"{progress.fragments:,} of {progress.total:,} fragments: {_entities(view)}\n"
        f"{counted(progress.subproblems, 'subproblem stands', 'subproblems stand')} for "
        f"$10^{{{progress.log10_effective_particles:.0f}}}$ groupings"
    )


def _after(rounds: Rounds) -> str:
    return f"after {counted(rounds.done, 'round')}"


def _entities(view: GroupingView) -> str:
    return counted(len(view.clusters), "entity", "entities")


_INCHES = 4.2  # of the longer side
_SHORTEST_FRAME = (3.4, 1.0)  # the title is as wide
_TITLE = 0.45
_DOTS_PER_INCH = 110
_MILLISECONDS, _LAST_MILLISECONDS = 120, 3000
_COLOURS = 64
_BAND = 4


@look()
def write_animation(fragments: Sequence[Fragment], frames: Sequence[Frame], path: str) -> None:
    """Write the frames as a GIF that repeats for ever."""
    require_gif(path)
    points = points_of(fragments)
    width, height = np.maximum(_INCHES * shape(points), _SHORTEST_FRAME).tolist()
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
