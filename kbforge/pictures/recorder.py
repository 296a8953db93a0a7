"""Frames of a film: the best grouping after every few fragments, or rounds."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

import numpy as np

from kbforge.contracts import Fragment, Posterior, Progress, Rounds
from kbforge.errors import UsageError
from kbforge.pictures.scene import View, scene_of_posterior
from kbforge.words import counted


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

    Args:
        fragments: what is clustered, in order.
        count: how many frames, at least 2.

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
