"""Labelling: ask about the pairs that tell most, keep the answers, and choose by them.

    with AnswerFile("answers.jsonl") as file:
        labelling = Labelling(fragments, choices, file)
        while question := labelling.question():
            labelling.answer(question, same=ask_somebody(question))
        print(labelling.changed())

The questions are about the hypotheses that the judge chooses from (`kbforge.fit`).
`kbforge cluster --answers` chooses by the same rule.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import asdict, dataclass, replace
from typing import Any

from kbforge.contracts import Fragment
from kbforge.errors import KBForgeError, UsageError, quoted
from kbforge.files.answers import AUDIT, Answer, AnswerFile, Asked, Placed, placed
from kbforge.fit.answered import Changed, changed_by
from kbforge.fit.calibration import fingerprint
from kbforge.fit.choices import Choices
from kbforge.fit.judging import Judged
from kbforge.fit.prepare import prepare
from kbforge.fit.queue import Drawn


@dataclass(frozen=True, slots=True)
class Question:
    """A pair to ask about; whoever asks shows no labels.

    Attributes:
        drawn: the pair as it came out of the queue.
        a: a fragment.
        b: another one.
        asked: why.

    """

    drawn: Drawn
    a: Fragment
    b: Fragment
    asked: Asked

    def to_json(self) -> dict[str, Any]:
        """The question as one JSON object, without labels."""
        return {
            "a": without_label(self.a),
            "b": without_label(self.b),
            "asked": asdict(self.asked),
        }


class Labelling:
    """Questions about one file of fragments, and the answers so far.

    Args:
        fragments: distinct ids.
        choices: a likelihood that they name is the only one that is chosen from.
        file: where the answers go; those that it holds count.

    Raises:
        KBForgeError: no fragments, answers about others, nothing to choose between, or as
            `kbforge.fit.prepare.prepare`.

    """

    def __init__(self, fragments: Sequence[Fragment], choices: Choices, file: AnswerFile) -> None:
        if not fragments:
            raise KBForgeError("there are no fragments to ask about")
        earlier = placed(file.answers, fragments, file.path)
        judged = prepare(fragments, replace(choices, answers=None)).judged
        if judged is None:
            raise UsageError(
                f"{quoted(choices.likelihood_name, 400)}: nothing is chosen for it by answers; "
                "name another likelihood, or none"
            )
        self._file, self._judged = file, judged
        self._sha256 = fingerprint(fragments)
        self._numbers = {fragment.id: number for number, fragment in enumerate(fragments)}
        self._answers = earlier
        self._queue = judged.answered(earlier).questions(choices.seed)

    @property
    def judged(self) -> Judged:
        """The hypotheses, and which is best by the answers so far."""
        return self._judged.answered(self._answers)

    def question(self) -> Question | None:
        """What to ask next; None if nothing is left to ask."""
        drawn = self._queue.next()
        if drawn is None:
            return None
        a, b = (self._judged.sample.fragments[at] for at in (drawn.first, drawn.second))
        number = len(self._file.answers) + 1
        return Question(drawn, a, b, Asked(number, drawn.how, drawn.joined, drawn.share))

    def answer(self, question: Question, same: bool | None) -> None:
        """Keep an answer; None says that nobody knows.

        Raises:
            OutputError: it cannot be written; nothing has changed then.

        """
        a, b = question.a.id, question.b.id
        answer = Answer(a, b, same, question.asked, self._sha256)
        self._file.append(answer)
        first, second = self._numbers[a], self._numbers[b]
        self._answers.append(Placed(first, second, same, question.asked.how == AUDIT))
        self._queue.add(question.drawn.first, question.drawn.second, same)

    def undo(self) -> bool:
        """Take back the last answer of this session; whether there was one.

        The next question is then the one that it was the answer to.

        Raises:
            OutputError: the file cannot be written; nothing has changed then.

        """
        if not self._file.appended:
            return False
        self._file.undo()
        self._answers.pop()
        self._queue.undo()
        return True

    def changed(self) -> Changed:
        """What the answers change."""
        return changed_by(self._judged, self.judged)


def without_label(fragment: Fragment) -> dict[str, Any]:
    """A fragment as whoever answers may see it."""
    shown = fragment.to_json()
    shown.pop("label", None)
    return shown
