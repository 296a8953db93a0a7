"""Labelling: ask about the pairs that tell most, keep the answers, and choose by them.

    with AnswerFile("answers.jsonl") as file:
        labelling = Labelling(fragments, choices, file)
        while question := labelling.question():
            labelling.answer(question, same=ask_somebody(question))
        print(labelling.changed())

The questions are about the candidate groupings of the file (`kbforge.jobs.candidates`), of which
the answers choose one. `kbforge cluster --answers` chooses by the same rule.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import asdict, dataclass
from typing import Any

from kbforge.contracts import Fragment
from kbforge.errors import KBForgeError
from kbforge.files.answers import Answer, AnswerFile, Asked, placed
from kbforge.jobs.answered import Changed, Chooser
from kbforge.jobs.candidates import candidates
from kbforge.jobs.choices import Choices
from kbforge.models.calibration import fingerprint


@dataclass(frozen=True, slots=True)
class Question:
    """A pair to ask about; whoever asks shows no labels.

    Attributes:
        a: a fragment.
        b: another one.
        asked: why.

    """

    a: Fragment
    b: Fragment
    asked: Asked

    def to_json(self) -> dict[str, Any]:
        """The question as one JSON object, without labels."""
        return {
            "a": _without_label(self.a),
            "b": _without_label(self.b),
            "asked": asdict(self.asked),
        }


class Labelling:
    """Questions about one file of fragments, and the answers so far.

    Args:
        fragments: distinct ids.
        choices: a likelihood that they name is the only one that is chosen from.
        file: where the answers go; those that it holds count.

    Attributes:
        chooser: the candidates, and which one is best by the answers.

    Raises:
        KBForgeError: no fragments, answers about others, or as `kbforge.jobs.cluster.cluster`.

    """

    def __init__(self, fragments: Sequence[Fragment], choices: Choices, file: AnswerFile) -> None:
        if not fragments:
            raise KBForgeError("there are no fragments to ask about")
        earlier = placed(file.answers, fragments, file.path)
        self._file, self._fragments = file, fragments
        self._sha256 = fingerprint(fragments)
        self._numbers = {fragment.id: number for number, fragment in enumerate(fragments)}
        self.chooser = Chooser(fragments, candidates(fragments, choices), choices.seed)
        for answer in earlier:
            self.chooser.add(answer.first, answer.second, answer.same)

    def question(self) -> Question | None:
        """What to ask next; None if nothing is left to ask."""
        drawn = self.chooser.next()
        if drawn is None:
            return None
        a, b = self._fragments[drawn.first], self._fragments[drawn.second]
        number = len(self._file.answers) + 1
        return Question(a, b, Asked(number, drawn.how, drawn.joined, drawn.share))

    def answer(self, question: Question, same: bool | None) -> None:
        """Keep an answer; None says that nobody knows.

        Raises:
            OutputError: it cannot be written; nothing has changed then.

        """
        a, b = question.a.id, question.b.id
        self._file.append(Answer(a, b, same, question.asked, self._sha256))
        self.chooser.add(self._numbers[a], self._numbers[b], same)

    def undo(self) -> bool:
        """Take back the last answer of this session; whether there was one.

        The next question is then the one that it was the answer to.

        Raises:
            OutputError: the file cannot be written; nothing has changed then.

        """
        if not self._file.appended:
            return False
        self._file.undo()
        self.chooser.undo()
        return True

    def changed(self) -> Changed:
        """What the answers change."""
        return self.chooser.changed()


def _without_label(fragment: Fragment) -> dict[str, Any]:
    shown = fragment.to_json()
    shown.pop("label", None)
    return shown
