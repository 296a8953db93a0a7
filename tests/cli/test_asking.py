"""The loops that ask: at a terminal and line by line, over whatever has questions."""

from __future__ import annotations

import io
import json
from dataclasses import dataclass, field

import pytest
from rich.console import Console

from kbforge.cli.review import at_terminal, by_lines, show_evidence
from kbforge.contracts import Explanation, Fragment
from kbforge.errors import ContradictionError
from kbforge.fit.questions import PairQuestion
from kbforge.fit.review import Evidence, Side


@dataclass
class Asked:
    number: int

    def to_json(self):
        return {"number": self.number}


@dataclass
class Fake:
    """Asks about the numbers; a number may not be answered by True."""

    most: int = 5
    refused: int = -1
    n_useful: int | None = None
    said: list = field(default_factory=list)

    def question(self):
        return Asked(len(self.said)) if len(self.said) < self.most else None

    def answer(self, question, same):
        if same and question.number == self.refused:
            self.refused = -1
            raise ContradictionError("decision 1 says otherwise")
        self.said.append(same)

    def undo(self):
        return bool(self.said) and (self.said.pop(), True)[1]


def typed(monkeypatch: pytest.MonkeyPatch, text: str) -> None:
    monkeypatch.setattr("sys.stdin", io.TextIOWrapper(io.BytesIO(text.encode()), "utf-8"))


def test_keys_are_answers(monkeypatch, capsys) -> None:
    typed(monkeypatch, "y\n?\nu\ns\nno\nU\nn\nyes\nq\n")
    fake = Fake()
    at_terminal(fake, lambda question: f"pair {question.number}", 10)
    assert fake.said == [True, None, False, True]
    said = capsys.readouterr().out
    assert "1 of 10: one entity? [y]es [n]o [s]kip [u]ndo [q]uit: " in said
    assert "pair 4" in said


def test_the_count_and_the_end_of_the_questions_end_it(monkeypatch) -> None:
    typed(monkeypatch, "y\n" * 9)
    fake = Fake()
    at_terminal(fake, lambda question: "", 2)
    assert fake.said == [True, True]
    at_terminal(fake, lambda question: "", 10)
    assert fake.said == [True] * 5


def test_a_contradiction_is_told_and_asking_goes_on(monkeypatch, capsys) -> None:
    typed(monkeypatch, "y\ny\ny\n")
    fake = Fake(most=2, refused=1)
    at_terminal(fake, lambda question: "", 10)
    assert fake.said == [True, True]
    assert "not kept: decision 1 says otherwise" in capsys.readouterr().err
    lines = b'{"same": true}\n' * 3
    typed(monkeypatch, lines.decode())
    fake = Fake(most=2, refused=1)
    by_lines(fake, None, 10)
    told = [json.loads(line) for line in capsys.readouterr().out.splitlines()]
    assert told[2] == {"refused": "decision 1 says otherwise"}
    assert [one["question"]["number"] for one in told if "question" in one] == [0, 1, 1]


def shown(evidence: Evidence, width: int = 150) -> str:
    screen = Console(width=width, record=True, file=io.StringIO(), color_system=None)
    screen.print(show_evidence(evidence))
    return screen.export_text()


def evidence(joined: bool, explanation: Explanation | None = None, n: int = 2) -> Evidence:
    made = [
        Fragment(f"f{k}", {"name": (f"ada {k}",), "x": ("\x1b[2J[bold]\u202e" + "v" * 500,)})
        for k in range(9)
    ]
    question = PairQuestion(0, 0, 1, 0.4, 0.55, joined, 1.25, 0.6)
    size = n + 1 + joined
    return Evidence(
        question,
        Side(made[0], tuple(made[2 : 2 + min(n, 4)]), size),
        Side(made[1], tuple(made[2 : 2 + min(n, 4)]), size),
        explanation,
        n,
    )


def test_evidence_is_both_sides_their_company_and_why() -> None:
    said = shown(evidence(False, Explanation(0.5, {"name": 3.25, "x": -1.0}), n=6))
    assert "now apart; one entity with probability 55 % (reported 40 %)" in said
    assert "correct 1.2 fragments" in said
    assert "f0 is with 6 others:" in said
    assert "f1 is with 6 others:" in said
    assert said.count("… and 2 more") == 2
    assert "+3.25" in said
    assert "total" in said
    assert "+2.75" in said
    assert "\x1b" not in said
    assert "\u202e" not in said


def test_two_that_are_together_have_one_company() -> None:
    said = shown(evidence(True, n=1))
    assert "now together" in said
    assert "both are with 1 other:" in said
    assert "nats" not in said
    assert "both are with no other" in shown(evidence(True, n=0))
