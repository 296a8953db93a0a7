"""The oracle reproduction: answers by gold, and what share of the gap they close."""

from __future__ import annotations

import pytest

from kbforge.fit.choices import Choices
from kbforge_lab.training.defaults.families import LabelledFile
from tests.people import people
from tests.scripts import script

oracle = script("label_oracle")


def test_answers_by_gold_come_near_the_best():
    file = LabelledFile("people", "p", tuple(people(40, 3)))
    found = oracle.ask(file, 0.0, Choices(), confidence=True)
    assert found.family == "people"
    assert len(found.chosen) == len(oracle.STOPS)
    assert max(found.chosen) <= found.best
    assert found.gaps[-1] < 0.05
    assert all(0 <= off <= 1 for off in found.off)


def test_families_count_alike_in_the_mean():
    answered = [
        oracle.Answered("a", 0.9, (0.5, 0.5, 0.5, 0.5, 0.9)),
        oracle.Answered("a", 0.9, (0.7, 0.7, 0.7, 0.7, 0.7)),
        oracle.Answered("b", 0.8, (0.8,) * 5),
    ]
    rows = oracle.table_of(answered).splitlines()[2:]
    assert [row.split("|")[1].strip() for row in rows] == ["a", "b", "mean"]
    assert [row.split("|")[-2].strip() for row in rows] == ["67%", "-", "67%"]
    first = [float(row.split("|")[3]) for row in rows]
    assert first == pytest.approx([0.6, 0.8, 0.7])
