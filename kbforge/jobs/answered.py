"""What answers change: which candidate is used for a file of fragments."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import orjson

from kbforge.contracts import Cluster, FloatArray, Fragment, IntArray
from kbforge.files.answers import Placed, placed, read_answers
from kbforge.jobs.candidates import Candidate, Candidates, candidates
from kbforge.jobs.choices import Choices
from kbforge.models.answers.queue import Drawn, Queue
from kbforge.models.answers.shift import Shift, shift_of
from kbforge.words import counted


@dataclass(frozen=True, slots=True)
class Changed:
    """What answers changed.

    Attributes:
        answers: how many say "same" or "not the same".
        unknown: how many say neither.
        before: the candidate that is best without them.
        after: the candidate that is best with them.
        gain: how much more F1 is expected of it, from 0.

    """

    answers: int
    unknown: int
    before: Candidate
    after: Candidate
    gain: float

    def __str__(self) -> str:
        said = f"by {counted(self.answers, 'answer')} {_called(self.after)} is best"
        if self.after == self.before:
            return f"{said}, as without them"
        return f"{said}, not {_called(self.before)}: expected F1 {self.gain:+.3f}"

    def to_json(self) -> dict[str, Any]:
        """The figures by name."""
        before, after = (
            {"likelihood": one.likelihood, "alpha": one.alpha} for one in (self.before, self.after)
        )
        figures = {"answers": self.answers, "unknown": self.unknown}
        return {**figures, "before": before, "after": after, "expected_gain": self.gain}


class Chooser:
    """Candidates for a file, answers about its fragments, and what follows from them.

    Args:
        fragments: of the file.
        found: the candidates.
        seed: of the questions.

    Attributes:
        found: the candidates.

    """

    def __init__(self, fragments: Sequence[Fragment], found: Candidates, seed: int) -> None:
        self.found = found
        self._queue = Queue(found.groupings, found.gains, _alike(fragments, found.sample), seed)
        self._place = {number: at for at, number in enumerate(found.sample.tolist())}
        self._answers: list[tuple[int, int, bool | None]] = []

    def next(self) -> Drawn | None:
        """The pair to ask about, by numbers of fragments; None if nothing is left to ask."""
        drawn = self._queue.next()
        if drawn is None:
            return None
        first, second = (int(self.found.sample[at]) for at in (drawn.first, drawn.second))
        return replace(drawn, first=first, second=second)

    def add(self, first: int, second: int, same: bool | None) -> None:
        """Take in an answer; about a fragment that the candidates do not group it says nothing."""
        self._answers.append((first, second, same))
        if self._is_grouped(first, second):
            self._queue.add(self._place[first], self._place[second], same)

    def undo(self) -> None:
        """Forget the last answer."""
        first, second, _ = self._answers.pop()
        if self._is_grouped(first, second):
            self._queue.undo()

    @property
    def best(self) -> int:
        """The number of the candidate that is best by the answers."""
        return self._queue.best()

    def changed(self) -> Changed:
        """What the answers change."""
        worth, _ = self._queue.scores()
        before, after = int(np.argmax(self.found.gains)), self.best
        unknown = sum(same is None for _, _, same in self._answers)
        return Changed(
            answers=len(self._answers) - unknown,
            unknown=unknown,
            before=self.found.options[before],
            after=self.found.options[after],
            gain=float(worth[after] - worth[before]),
        )

    def _is_grouped(self, first: int, second: int) -> bool:
        return first in self._place and second in self._place


def by_answers(fragments: Sequence[Fragment], choices: Choices, notes: list[str]) -> Choices:
    """The choices with the likelihood and the alpha that are best by the answers they name.

    What is chosen already stays: a likelihood is the only one that answers choose from, and with
    an alpha or a calibration there is nothing left to choose.

    Args:
        fragments: to be clustered.
        choices: with `answers`.
        notes: a sentence that says what the answers changed is added to them.

    Raises:
        KBForgeError: the file cannot be read, or is about other fragments.

    """
    path = choices.answers
    if path is None:
        return choices
    answers = placed(read_answers(path), fragments, path)
    if choices.alpha is not None or choices.calibration is not None:
        return choices
    found = candidates(fragments, choices)
    if not found.options:
        notes.append(f"answers choose no alpha for {choices.likelihood_name}: it has its own")
        return choices
    chooser = Chooser(fragments, found, choices.seed)
    for answer in answers:
        chooser.add(answer.first, answer.second, answer.same)
    changed = chooser.changed()
    notes.append(str(changed))
    return replace(choices, likelihood=changed.after.likelihood, alpha=changed.after.alpha)


def shift_by(
    answers: Sequence[Placed], clusters: Sequence[Cluster], probability: FloatArray
) -> Shift:
    """How much surer or less sure of its entities a run may be, by the audits among the answers.

    Args:
        answers: about the fragments that were clustered, or others, which are passed over.
        clusters: the point estimate.
        probability: that each cluster is exactly an entity, by the map, shape [clusters].

    """
    holder = {fragment: number for number, held in enumerate(clusters) for fragment in held}
    tested = [
        (holder[a.first], a.same != (holder[a.first] == holder[a.second]))
        for a in answers
        if a.audit and a.same is not None and a.first in holder and a.second in holder
    ]
    numbers = np.array([number for number, _ in tested], np.int64)
    return shift_of(probability[numbers], np.array([failed for _, failed in tested], np.bool_))


def _called(candidate: Candidate) -> str:
    return f"{candidate.likelihood} with alpha {candidate.alpha:.4g}"


def _alike(fragments: Sequence[Fragment], sample: IntArray) -> IntArray:
    """Equal numbers for fragments that say the same, shape [n]."""
    numbers: dict[bytes, int] = {}
    says = (
        orjson.dumps([fragments[k].properties, fragments[k].vector], option=orjson.OPT_SORT_KEYS)
        for k in sample.tolist()
    )
    found = (numbers.setdefault(said, len(numbers)) for said in says)
    return np.fromiter(found, np.int64, len(sample))
