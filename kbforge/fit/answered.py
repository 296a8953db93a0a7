"""What answers change: which hypothesis about a file is used."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from kbforge.contracts import Fragment
from kbforge.files.answers import Placed, placed, read_answers
from kbforge.fit.choices import Choices
from kbforge.fit.hypotheses import NAMES, Hypothesis
from kbforge.fit.judging import Judged
from kbforge.words import counted


@dataclass(frozen=True, slots=True)
class Changed:
    """What answers changed.

    Attributes:
        answers: how many say "same" or "not the same".
        unknown: how many say neither.
        before: the hypothesis that is best without them.
        after: the hypothesis that is best with them.
        gain: how much more F1 is expected of it, from 0.

    """

    answers: int
    unknown: int
    before: Hypothesis
    after: Hypothesis
    gain: float

    def __str__(self) -> str:
        said = f"by {counted(self.answers, 'answer')} {_called(self.after)} is best"
        if self.after is self.before:
            return f"{said}, as without them"
        return f"{said}, not {_called(self.before)} (expected F1 {self.gain:+.3f})"

    def to_json(self) -> dict[str, Any]:
        """The figures by name; exact names have no alpha."""
        before, after = (
            {
                "likelihood": one.likelihood,
                "alpha": None if one.likelihood == NAMES else one.alpha,
            }
            for one in (self.before, self.after)
        )
        figures = {"answers": self.answers, "unknown": self.unknown}
        return {**figures, "before": before, "after": after, "expected_gain": self.gain}


def answers_for(fragments: Sequence[Fragment], choices: Choices) -> tuple[Placed, ...]:
    """The answers of the file that the choices name; none without one.

    Raises:
        KBForgeError: the file cannot be read, or is about other fragments.

    """
    if choices.answers is None:
        return ()
    return tuple(placed(read_answers(choices.answers), fragments, choices.answers))


def changed_by(before: Judged, after: Judged) -> Changed:
    """What the answers changed that came in between.

    Args:
        before: what was judged without answers.
        after: the same with them.

    """
    unknown = sum(answer.same is None for answer in after.answers)
    return Changed(
        answers=len(after.answers) - unknown,
        unknown=unknown,
        before=before.chosen,
        after=after.chosen,
        gain=after.gain_over(before),
    )


def _called(hypothesis: Hypothesis) -> str:
    if hypothesis.likelihood == NAMES:
        return "names"
    return f"{hypothesis.likelihood} with alpha {hypothesis.alpha:,.4g}"
