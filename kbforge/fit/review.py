"""Reviews: questions to users about a file or a clustering.

Both ask about the most useful pair first, and can undo answers:

    while evidence := review.question():
        review.answer(evidence, same=ask_somebody(evidence))

A `FileReview` asks what teaches the model of pairs most. Its answers go to a file, from which
`kbforge cluster --answers` learns. The review of a store (`kbforge.jobs.decide`) asks about
uncertain pairs of its clustering, and shows the evidence for and against. Its answers are
decisions. `kbforge.fit.audit` has a third, which asks how right a grouping is.
`kbforge.cli.review` asks at a terminal or line by line.
"""

from __future__ import annotations

import math
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass, field, replace
from typing import Any, Generic, TypeVar

from kbforge.contracts import Cluster, Explanation, Fragment, ModelSpec, Subproblem
from kbforge.errors import KBForgeError, UsageError, quoted
from kbforge.files.answers import (
    TEST,
    Answer,
    AnswerFile,
    QuestionDetails,
    Said,
    checks_for,
    error_rates,
    placed,
)
from kbforge.fit.alpha import fingerprint
from kbforge.fit.choices import RunOptions
from kbforge.fit.description import Lesson
from kbforge.fit.prepare import judged_by_pairs
from kbforge.fit.questions import CandidatePair, Outcome, PairQuestion, TeachingQueue, outcomes

MOST_OTHERS = 4
"""Maximum number of other fragments of a cluster shown as evidence."""

_MOST_COMPARED = 100
MOST_LOOKS = 50
"""Maximum number of questions whose evidence is looked at before one of them is asked."""

Q = TypeVar("Q", CandidatePair, PairQuestion)


@dataclass(frozen=True, slots=True)
class Side:
    """One of the two fragments of a question, and its cluster."""

    fragment: Fragment
    others: tuple[Fragment, ...] = ()  # some of its cluster, without the two that are asked about
    size: int = 1  # fragments in the cluster

    def to_json(self) -> dict[str, Any]:
        """The JSON object, without labels."""
        return {
            "fragment": without_label(self.fragment),
            "others": [without_label(other) for other in self.others],
            "size": self.size,
        }


@dataclass(frozen=True, slots=True)
class Evidence(Generic[Q]):
    """A question with its two fragments and the evidence."""

    question: Q  # by numbers
    first: Side  # stands alone in a file, which is not clustered yet
    second: Side  # if the two are together, its cluster is the same
    explanation: Explanation | None = None  # for the second in the cluster of the first, nats
    compared: int = 0  # fragments of that cluster that it was compared with
    probability: bool = True  # whether the explanation is in nats; else in points of a score
    asked: QuestionDetails | None = None  # why a pair of a file is asked about
    settles: Mapping[str, Outcome] = field(default_factory=dict)  # by answer, of a store

    @property
    def doubt(self) -> float:
        """The largest probability, by what can be seen, that the estimate is wrong about a pair.

        If the two state the same, nothing that can be seen parts them. If the estimate has them
        apart and the evidence is against one entity as well, answers about other pairs do not make
        one entity more probable than report and evidence do.
        """
        a, b, asked = self.first.fragment, self.second.fragment, self.question
        assert isinstance(asked, PairQuestion)
        if asked.joined:
            return 0.0 if a.properties == b.properties and a.vector == b.vector else 1.0
        if self.explanation is None or not self.probability or self.explanation.total > 0:
            return 1.0
        return max(asked.reported, 1 / (1 + math.exp(-self.explanation.total)))

    def to_json(self) -> dict[str, Any]:
        """The question as one JSON object, without labels."""
        if self.asked is not None:
            one, other = (without_label(side.fragment) for side in (self.first, self.second))
            beside = {
                f"others_of_{name}": [without_label(other) for other in side.others]
                for name, side in (("a", self.first), ("b", self.second))
                if side.others
            }
            return {"a": one, "b": other, **beside, "asked": asdict(self.asked)}
        asked = asdict(self.question)
        for key in ("subproblem", "first", "second"):
            del asked[key]
        out = {"a": self.first.to_json(), "b": self.second.to_json(), "asked": asked}
        if self.settles:
            out["settles"] = {answer: asdict(one) for answer, one in self.settles.items()}
        if self.explanation is not None:
            out["explanation"] = self.explanation.to_json()
        return out


class Review(ABC, Generic[Q]):
    """Questions about pairs, most useful first; answers are stored and change the next
    questions."""

    def __init__(self) -> None:
        self._said: list[tuple[Q, bool | None]] = []

    @abstractmethod
    def question(self) -> Evidence[Q] | None:
        """The next question; None if there are no more."""

    @property
    def answers(self) -> list[Said]:
        """All answers, of earlier reviews as well."""
        return []

    def checks(self, program: str) -> Iterator[Evidence[Q]]:
        """Pairs that a person has answered, to test a program that has not.

        The pairs that the program has answered are no questions any more.
        """
        return iter(())

    def answer(self, evidence: Evidence[Q], same: bool | None, by: str | None = None) -> None:
        """Store an answer of a program (`by`) or a person; None is "unknown".

        Raises:
            OutputError: it cannot be written; nothing has changed.
            ContradictionError: it contradicts decisions; the question is skipped.
            LikelihoodError: no grouping that satisfies it is possible; the question is skipped.

        """
        self._keep(evidence, same, by)
        self._said.append((evidence.question, same))

    @property
    def n_useful(self) -> int | None:
        """An estimate of the questions that are worth an answer, if there is one."""
        return None

    def cannot_tell(self, evidence: Evidence[Q]) -> None:
        """Store that a person cannot tell; in a file, that is "unknown"."""
        self.answer(evidence, None)

    def undo(self) -> bool:
        """Undo the last answer of this review; False if there was none.

        The next question is then the same again.

        Raises:
            OutputError: it cannot be written; nothing has changed.

        """
        if not self._said:
            return False
        self._take_back(self._said[-1][1])
        self._said.pop()
        return True

    @abstractmethod
    def _keep(self, evidence: Evidence[Q], same: bool | None, by: str | None) -> None:
        """Store an answer and update the queue."""

    @abstractmethod
    def _take_back(self, same: bool | None) -> None:
        """Undo `_keep`."""


class FileReview(Review[CandidatePair]):
    """Questions about one file of fragments with distinct ids, and the answers so far.

    Answers are written to `file`, and those already there count; answers about other fragments are
    an error.
    """

    def __init__(
        self, fragments: Sequence[Fragment], choices: RunOptions, file: AnswerFile
    ) -> None:
        if not fragments:
            raise KBForgeError("there are no fragments to ask about")
        self._fragments = fragments
        answers = placed(file.answers, fragments, file.path)
        judged = judged_by_pairs(fragments, choices)
        if judged is None or judged.pairs is None:
            raise UsageError(
                f"{quoted(choices.likelihood_name, 400)}: answers teach nothing here, because the "
                "model of pairs cannot read the fragments; name another likelihood, or none"
            )
        read = range(len(fragments)) if judged.read is None else judged.read.places
        super().__init__()
        self._queue = TeachingQueue(judged.pairs, fragments, read, judged.entities, choices.seed)
        for answer in answers:
            self._queue.add(answer, answer.same, 1 - answer.right)
        self._file, self._sha256 = file, fingerprint(fragments)

    def question(self) -> Evidence[CandidatePair] | None:
        pair = self._queue.next()
        if pair is None:
            return None
        a, b = (Side(self._fragments[number]) for number in (pair.first, pair.second))
        asked = QuestionDetails(len(self._file.answers) + 1, pair.how, pair.joined, pair.share)
        return Evidence(pair, a, b, asked=asked)

    @property
    def answers(self) -> list[Said]:
        return [answer.said for answer in self._file.answers]

    def checks(self, program: str) -> Iterator[Evidence[CandidatePair]]:
        numbers = {fragment.id: at for at, fragment in enumerate(self._fragments)}
        joined = {answer.said.pair: answer.asked for answer in self._file.answers}
        for check in checks_for(program, self.answers):
            first, second = numbers[check.a], numbers[check.b]
            at = len(self._file.answers) + 1
            asked = replace(joined[check.pair], number=at, how=TEST)
            pair = CandidatePair(first, second, TEST, asked.joined, asked.share)
            a, b = (Side(self._fragments[number]) for number in (first, second))
            yield Evidence(pair, a, b, asked=asked)

    def _keep(self, evidence: Evidence[CandidatePair], same: bool | None, by: str | None) -> None:
        a, b, asked = evidence.first.fragment.id, evidence.second.fragment.id, evidence.asked
        assert asked is not None
        self._file.append(Answer(a, b, same, asked, self._sha256, by))
        wrong = error_rates(self.answers)[by]
        self._queue.add(evidence.question, same, wrong)

    def _take_back(self, same: bool | None) -> None:
        self._file.undo()
        self._queue.undo()

    @property
    def lesson(self) -> Lesson:
        """What the answers teach."""
        return self._queue.taught.lesson or Lesson(0, 0.0, 0.0)


def without_label(fragment: Fragment) -> dict[str, Any]:
    """A fragment without its label, which must be hidden from the person who answers."""
    shown = fragment.to_json()
    shown.pop("label", None)
    return shown


def evidence_on(
    question: PairQuestion,
    subproblem: Subproblem,
    fragment: Callable[[int], Fragment],
    spec: ModelSpec,
) -> Evidence[PairQuestion]:
    """The evidence about a pair of a subproblem; `fragment` is by number."""
    pair = (question.first, question.second)
    first, second = (next(c for c in subproblem.clusters if number in c) for number in pair)
    with_first = [number for number in first if number != question.second]
    compared = [fragment(number) for number in with_first[:_MOST_COMPARED]]
    why = None
    if spec.likelihood.explains:
        why = explained(spec, fragment(question.second), compared)

    def side(number: int, cluster: Cluster) -> Side:
        others = [other for other in cluster if other not in pair][:MOST_OTHERS]
        return Side(fragment(number), tuple(map(fragment, others)), len(cluster))

    return Evidence(
        question,
        side(question.first, first),
        side(question.second, second),
        why,
        len(compared),
        spec.likelihood.probability,
        settles=outcomes(subproblem, question),
    )


def explained(spec: ModelSpec, x: Fragment, cluster: Sequence[Fragment]) -> Explanation:
    """The evidence for adding a fragment to a cluster of at least one other."""
    return explained_all(spec, x, [cluster])[0]


def explained_all(
    spec: ModelSpec, x: Fragment, clusters: Sequence[Sequence[Fragment]]
) -> list[Explanation]:
    """The evidence for adding a fragment to each of some nonempty clusters."""
    said = spec.likelihood.contributions_to(x, clusters)
    return [
        Explanation(
            spec.exponent * math.log(len(cluster)) - math.log(spec.alpha), dict(contributions)
        )
        for cluster, contributions in zip(clusters, said, strict=True)
    ]
