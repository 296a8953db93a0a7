"""Reviewing a session in memory: evidence, decisions, undo."""

from __future__ import annotations

import json

import pytest

from kbforge import open_session
from kbforge.contracts import Decision, Fragment, Touched
from kbforge.errors import ContradictionError, LikelihoodError
from kbforge.fit.posterior_queue import PosteriorQueue
from kbforge.fit.review import MOST_OTHERS, Evidence, PosteriorReview

NAMES = ["ada lovelace", "ada lovelac", "a lovelace", "bo ek", "bo ekk", "bo eck", "cyd orr"]
FRAGMENTS = [
    Fragment(
        f"p{n}", {"name": (NAMES[n % 7],), "born": (str(1800 + n % 3),)}, label=NAMES[n % 7][0]
    )
    for n in range(21)
]


class Memory:
    """A session that is reviewed, and goes back by its snapshots."""

    def __init__(self, likelihood: str = "bigram") -> None:
        live = open_session(FRAGMENTS, likelihood=likelihood, alpha=3)
        live.add(FRAGMENTS)
        self.problem, self.session = live.prepared.problem, live.session
        self._clusterer, self._before = live.prepared.clusterer, []
        self.session.touched()

    def subproblem(self, name):
        return self.session.subproblem(name)

    def fragment(self, number):
        return self.session.fragments[number]

    def decide(self, question, same):
        first, second = (self.fragment(n).id for n in (question.first, question.second))
        before = self.session.snapshot()
        self.session.constrain([Decision(same, first, second)])
        self._before.append(before)
        return self.session.touched()

    def undo(self):
        import numpy as np

        old = {s.fragments[0] for s in self.session.posterior().subproblems}
        rng = np.random.default_rng(0)
        self.session = self._clusterer.open(self.problem, rng, self._before.pop())
        new = {s.fragments[0] for s in self.session.posterior().subproblems}
        return Touched(tuple(sorted(new)), tuple(sorted(old - new)))

    def reviewing(self) -> PosteriorReview:
        blocks = self.session.posterior().subproblems
        return PosteriorReview(self, self.problem, PosteriorQueue(), blocks)


def pair(evidence: Evidence | None) -> tuple[str, str]:
    assert evidence is not None
    return evidence.first.fragment.id, evidence.second.fragment.id


def test_answers_become_decisions_and_end_the_doubt() -> None:
    memory = Memory()
    reviewing = memory.reviewing()
    asked = 0
    while evidence := reviewing.question():
        one, other = evidence.first.fragment, evidence.second.fragment
        reviewing.answer(evidence, one.label == other.label)
        asked += 1
    assert reviewing.decisions == asked > 0
    assert len(memory.session.constraints.decisions) == asked
    for decision in memory.session.constraints.decisions:
        labels = {f.label for f in FRAGMENTS if f.id in (decision.first, decision.second)}
        assert decision.same == (len(labels) == 1)


def test_undo_asks_the_same_question_again() -> None:
    memory = Memory()
    reviewing = memory.reviewing()
    assert not reviewing.undo()
    asked, said = [], [True, None, False, None]
    for same in said:
        evidence = reviewing.question()
        asked.append(evidence)
        reviewing.answer(evidence, same)
    assert reviewing.decisions == 2
    for evidence in reversed(asked):
        assert reviewing.undo()
        assert reviewing.question() == evidence
    assert not reviewing.undo()
    assert memory.session.constraints.decisions == ()


def test_evidence_tells_both_sides_and_no_labels() -> None:
    memory = Memory("attributes")
    reviewing = memory.reviewing()
    evidence = reviewing.question()
    assert evidence is not None
    told = json.loads(json.dumps(evidence.to_json()))
    assert told.keys() == {"a", "b", "asked", "explanation"}
    assert "label" not in json.dumps(told)
    clusters = memory.session.subproblem(evidence.question.subproblem).clusters
    for side in (evidence.first, evidence.second):
        held = next(c for c in clusters if int(side.fragment.id[1:]) in c)
        assert side.size == len(held)
        assert len(side.others) <= MOST_OTHERS
        assert not {f.id for f in side.others} & set(pair(evidence))
        assert {int(f.id[1:]) for f in side.others} <= set(held)
    assert evidence.explanation is not None
    assert evidence.explanation.attributes.keys() == {"name", "born"}
    assert told["asked"]["value"] == evidence.question.value


@pytest.mark.parametrize("error", [ContradictionError, LikelihoodError])
def test_an_answer_that_cannot_hold_is_not_kept_and_asked_no_more(error) -> None:
    class Refusing(Memory):
        def decide(self, question, same):
            raise error("no")

    memory = Refusing()
    reviewing = memory.reviewing()
    evidence = reviewing.question()
    with pytest.raises(error):
        reviewing.answer(evidence, True)
    assert reviewing.decisions == 0
    assert reviewing.question() is None or pair(reviewing.question()) != pair(evidence)
