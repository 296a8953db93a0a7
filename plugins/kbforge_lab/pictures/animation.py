"""Clustering as it happens, as a GIF."""

from __future__ import annotations

import io
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

import numpy as np

from kbforge.contracts import FloatArray, Fragment, Posterior, Progress, Rounds
from kbforge.errors import UsageError, quoted
from kbforge.files.io import open_output
from kbforge.pictures import INK, PALETTE, look, new_figure
from kbforge.words import counted
from kbforge_lab.pictures.draw import Colours, draw_view, shape
from kbforge_lab.pictures.scene import View, points_of, scene_of_posterior

if TYPE_CHECKING:
    from matplotlib.axes import Axes


@dataclass(frozen=True, slots=True)
class Frame:
    """A grouping on the way to the last one.

    Attributes:
        view: the grouping; its title says how far the run has come.
        newest: the fragment that came last, None where all are there from the start.

    """

    view: View
    newest: int | None


class Recorder:
    """An `on_step` that keeps frames, at most `count` of them, evenly spread over the run.

    An online method's frames are of how many fragments it has seen. An offline one's are of
    rounds: how many there will be nobody knows, so whenever there are `count` frames every second
    one goes, and from then on every second round is passed over.
    """

    def __init__(self, fragments: Sequence[Fragment], count: int) -> None:
        marks = np.linspace(1, len(fragments), num=min(count, len(fragments)))
        self._fragments, self._count = fragments, count
        self._marks = set(np.rint(marks).astype(int).tolist())
        self._rounds: Rounds | None = None
        self._seen, self._stride = 0, 1
        self.frames: list[Frame] = []

    def __call__(self, progress: Progress) -> None:
        """Keep the state if its turn has come."""
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

    def _view(self, posterior: Posterior) -> View:
        (view,) = scene_of_posterior(self._fragments, posterior).views
        return view


def _posterior_of(progress: Progress) -> Posterior:
    if progress.posterior is None:
        raise UsageError("this clusterer does not show its states, so there is no film")
    return progress.posterior()


def _title_by_fragments(progress: Progress, view: View) -> str:
    return (
        f"{progress.fragments:,} of {progress.total:,} fragments: {_entities(view)}\n"
        f"{counted(progress.subproblems, 'subproblem stands', 'subproblems stand')} for "
        f"$10^{{{progress.log10_effective_particles:.0f}}}$ groupings"
    )


def _after(rounds: Rounds) -> str:
    return f"after {counted(rounds.done, 'round')}"


def _entities(view: View) -> str:
    return counted(len(view.clusters), "entity", "entities")


_INCHES = 4.2  # of the longer side
_SHORTEST = (3.4, 1.0)  # the title is as wide
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
