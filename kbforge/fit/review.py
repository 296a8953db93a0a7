"""Questions to people: a review of a file before it is clustered, and of a clustering.

Both ask about the most useful pair first, and take answers back:

    while question := review.question():
        review.answer(question, same=ask_somebody(question))

A `FileReview` asks which of the judge's hypotheses (`kbforge.fit.judge`) is best. Its answers go to
a file, by which `kbforge cluster --answers` chooses. A `PosteriorReview` asks about uncertain pairs
of a clustering, in a store or in memory, and shows what speaks for and against. Its answers are
decisions. `kbforge.cli.review` asks at a terminal or line by line.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from dataclasses import asdict, dataclass, replace
from typing import Any, Protocol

from kbforge.contracts import Cluster, Explanation, Fragment, Problem, Subproblem, SubproblemChanges
from kbforge.errors import ContradictionError, KBForgeError, LikelihoodError, UsageError, quoted
from kbforge.files.answers import AUDIT, Answer, AnswerFile, NumberedAnswer, QuestionDetails, placed
from kbforge.fit.alpha import fingerprint
from kbforge.fit.choices import Choices
from kbforge.fit.choose import AnswerEffect, effect_of_answers
from kbforge.fit.grouping_queue import CandidatePair
from kbforge.fit.judge import Judgement
from kbforge.fit.posterior_queue import PairQuestion, PosteriorQueue
from kbforge.fit.prepare import prepare


@dataclass(frozen=True, slots=True)
class FileQuestion:
    """A pair to ask about; whoever asks shows no labels.

    Attributes:
        drawn: the pair as it came out of the queue.
        a: a fragment.
        b: another one.
        asked: why.

    """

    drawn: CandidatePair
    a: Fragment
    b: Fragment
    asked: QuestionDetails

    def to_json(self) -> dict[str, Any]:
        """The question as one JSON object, without labels."""
        return {
            "a": without_label(self.a),
            "b": without_label(self.b),
            "asked": asdict(self.asked),
        }


class FileReview:
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
        judged = prepare(fragments, replace(choices, answers=None)).judgement
        if judged is None:
            raise UsageError(
                f"{quoted(choices.likelihood_name, 400)}: nothing is chosen for it by answers; "
                "name another likelihood, or none"
            )
        self._file, self._judgement = file, judged
        self._sha256 = fingerprint(fragments)
        self._numbers = {fragment.id: number for number, fragment in enumerate(fragments)}
        self._answers = earlier
        self._queue = judged.answered(earlier).questions(choices.seed)

    @property
    def judgement(self) -> Judgement:
        """The hypotheses, and which is best by the answers so far."""
        return self._judgement.answered(self._answers)

    def question(self) -> FileQuestion | None:
        """What to ask next; None if nothing is left to ask."""
        drawn = self._queue.next()
        if drawn is None:
            return None
        a, b = (self._judgement.sample.fragments[at] for at in (drawn.first, drawn.second))
        number = len(self._file.answers) + 1
        return FileQuestion(
            drawn, a, b, QuestionDetails(number, drawn.how, drawn.joined, drawn.share)
        )

    def answer(self, question: FileQuestion, same: bool | None) -> None:
        """Keep an answer; None says that nobody knows.

        Raises:
            OutputError: it cannot be written; nothing has changed then.

        """
        a, b = question.a.id, question.b.id
        answer = Answer(a, b, same, question.asked, self._sha256)
        self._file.append(answer)
        first, second = self._numbers[a], self._numbers[b]
        self._answers.append(NumberedAnswer(first, second, same, question.asked.how == AUDIT))
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

    def changed(self) -> AnswerEffect:
        """What the answers change."""
        return effect_of_answers(self._judgement, self.judgement)


def without_label(fragment: Fragment) -> dict[str, Any]:
    """A fragment as whoever answers may see it."""
    shown = fragment.to_json()
    shown.pop("label", None)
    return shown


MOST_OTHERS = 4
"""Other fragments of a cluster that evidence shows."""

_MOST_COMPARED = 100


class ReviewState(Protocol):
    """What can be asked about, and decided."""

    def subproblem(self, name: int) -> Subproblem:
        """As `Session`."""
        ...

    def fragment(self, number: int) -> Fragment:
        """A fragment by its number."""
        ...

    def decide(self, question: PairQuestion, same: bool) -> SubproblemChanges:
        """Put an answer in force as a decision and keep it; what changed.

        Args:
            question: about two fragments, by number.
            same: whether the two are one entity.

        Raises:
            ContradictionError: it contradicts others; nothing has changed then.
            LikelihoodError: no grouping that satisfies it is possible; likewise.

        """
        ...

    def undo(self) -> SubproblemChanges:
        """Take back the last of the decisions that `decide` made; what changed."""
        ...


@dataclass(frozen=True, slots=True)
class Side:
    """One of the two fragments of a question, and whom it is with by the point estimate.

    Attributes:
        fragment: that is asked about.
        others: some fragments of its cluster, neither of the two that are asked about.
        size: how many fragments the cluster has.

    """

    fragment: Fragment
    others: tuple[Fragment, ...]
    size: int

    def to_json(self) -> dict[str, Any]:
        """The JSON object, without labels."""
        return {
            "fragment": without_label(self.fragment),
            "others": [without_label(other) for other in self.others],
            "size": self.size,
        }


@dataclass(frozen=True, slots=True)
class Evidence:
    """A question with what speaks for and against.

    Attributes:
        question: by numbers.
        first: the one.
        second: the other; if the two are together, its cluster is the same.
        explanation: what speaks for the second one's being with the cluster of the first one, in
            nats; None if the likelihood does not explain.
        compared: how many fragments of that cluster it was compared with.
        probability: whether the explanation is in nats; else it is in the points of a score.

    """

    question: PairQuestion
    first: Side
    second: Side
    explanation: Explanation | None
    compared: int
    probability: bool = True

    def to_json(self) -> dict[str, Any]:
        """The question as one JSON object, without labels."""
        asked = asdict(self.question)
        for key in ("subproblem", "first", "second"):
            del asked[key]
        out = {"a": self.first.to_json(), "b": self.second.to_json(), "asked": asked}
        if self.explanation is not None:
            out["explanation"] = self.explanation.to_json()
        return out


class PosteriorReview:
    """Questions about a clustering; their answers are decided, and change what is asked next.

    Args:
        state: the clustering.
        problem: likelihood and alpha, which explain.
        questions: the queue; it may be empty.
        subproblems: to ask about beside those that the queue knows.

    """

    def __init__(
        self,
        state: ReviewState,
        problem: Problem,
        questions: PosteriorQueue,
        subproblems: Iterable[Subproblem] = (),
    ) -> None:
        self._state, self._problem, self._questions = state, problem, questions
        self._said: list[tuple[PairQuestion, bool | None]] = []
        questions.update(subproblems)

    @property
    def decisions(self) -> int:
        """How many decisions were made, and not undone."""
        return sum(same is not None for _, same in self._said)

    def question(self) -> Evidence | None:
        """What to ask next; None if nothing is left to ask."""
        question = self._questions.next()
        return None if question is None else self._evidence(question)

    def answer(self, evidence: Evidence, same: bool | None) -> None:
        """Decide; None says that nobody knows, and the question is asked no more.

        Raises:
            ContradictionError: the answer contradicts decisions; the question is asked no more.
            LikelihoodError: no grouping that satisfies it is possible; likewise.

        """
        question = evidence.question
        if same is None:
            self._questions.pass_over(question)
        else:
            try:
                touched = self._state.decide(question, same)
            except (ContradictionError, LikelihoodError):
                self._questions.pass_over(question)
                raise
            self._questions.learn(question, same)
            self._follow(touched)
        self._said.append((question, same))

    def undo(self) -> bool:
        """Take back the last answer of this review; whether there was one."""
        if not self._said:
            return False
        question, same = self._said[-1]
        if same is None:
            self._questions.ask_again(question)
        else:
            touched = self._state.undo()
            self._questions.unlearn()
            self._follow(touched)
        self._said.pop()
        return True

    def _follow(self, touched: SubproblemChanges) -> None:
        self._questions.gone(touched.gone)
        self._questions.update(map(self._state.subproblem, touched.changed))

    def _evidence(self, question: PairQuestion) -> Evidence:
        clusters = self._state.subproblem(question.subproblem).clusters
        pair = (question.first, question.second)
        first, second = (next(c for c in clusters if number in c) for number in pair)
        with_first = [number for number in first if number != question.second]
        compared = [self._state.fragment(number) for number in with_first[:_MOST_COMPARED]]
        why = None
        if self._problem.likelihood.explains:
            why = explained(self._problem, self._state.fragment(question.second), compared)
        return Evidence(
            question,
            self._side(question.first, first, pair),
            self._side(question.second, second, pair),
            why,
            len(compared),
            self._problem.likelihood.probability,
        )

    def _side(self, number: int, cluster: Cluster, pair: tuple[int, int]) -> Side:
        others = [other for other in cluster if other not in pair][:MOST_OTHERS]
        return Side(
            self._state.fragment(number),
            tuple(self._state.fragment(other) for other in others),
            len(cluster),
        )


def explained(problem: Problem, x: Fragment, cluster: Sequence[Fragment]) -> Explanation:
    """What speaks for a fragment's being with others; the likelihood explains.

    Args:
        problem: likelihood and alpha.
        x: the fragment.
        cluster: the others; at least one.

    """
    prior = math.log(len(cluster)) - math.log(problem.alpha)
    return Explanation(prior, dict(problem.likelihood.contributions(x, cluster)))
