"""The oracle reproductions: what questions gain, and what share of the gap answers close."""

from argparse import Namespace

import numpy as np
import pytest

from kbforge.contracts import Fragment
from kbforge.fit.choices import RunOptions
from kbforge_lab.training.defaults.families import LabelledFile
from tests.people import people
from tests.scripts import script

oracle = script("review_oracle")


class Set:
    """Made-up people, each of whom bears a name that others bear."""

    family = "people"

    def read(self, folder):
        return tuple(
            Fragment(f.id, {**f.properties, "name": (f"ada {int(f.label) % 7}",)}, label=f.label)
            for f in people(40, 3, error=0.4)
        )


@pytest.fixture
def options(monkeypatch, tmp_path):
    monkeypatch.setenv("KBFORGE_DATA", str(tmp_path))
    ways = list(oracle.WAYS)
    return Namespace(answers=12, orders=1, repeats=2, errors=0.0, ways=ways, without=None)


def test_every_way_starts_from_one_state_and_good_questions_gain_most(options, tmp_path):
    curves = oracle.measured(Set(), options)
    assert set(curves) == set(oracle.WAYS)
    assert len({round(float(f1[0, 0]), 9) for f1 in curves.values()}) == 1
    assert {way: f1.shape for way, f1 in curves.items()} == {
        way: (2 if "random" in way else 1, 13) for way in oracle.WAYS
    }
    gained = {way: float((f1[:, -1] - f1[:, 0]).mean()) for way, f1 in curves.items()}
    assert gained["gain"] > max(gained[oracle.RANDOM], 0.0)
    rows = oracle.table_of(curves).splitlines()[2:]
    assert [row.split("|")[1].strip() for row in rows] == list(oracle.WAYS)
    oracle.draw({"people": curves}, str(tmp_path / "r.png"))
    assert (tmp_path / "r.png").read_bytes().startswith(b"\x89PNG")


def test_wrong_answers_that_contradict_others_are_passed_over(options):
    options.errors, options.ways = 0.4, ["gain"]
    curves = oracle.measured(Set(), options)
    assert np.isfinite(curves["gain"]).all()


def test_a_curve_that_ends_early_stays_where_it_is():
    assert oracle.padded([[0.1, 0.2], [0.3]], 3).tolist() == [[0.1, 0.2, 0.2], [0.3, 0.3, 0.3]]


# Answers by gold, and what share of the gap they close.


labels = script("label_oracle")


def test_answers_by_gold_come_near_the_best():
    file = LabelledFile("people", "p", tuple(people(40, 3)))
    found = labels.ask(file, 0.0, RunOptions(), confidence=True)
    assert found.family == "people"
    assert len(found.chosen) == len(labels.STOPS)
    assert max(found.chosen) <= found.best
    assert found.best - found.chosen[-1] < 0.05
    assert found.plain <= found.best
    assert found.expected >= 0
    assert all(0 <= off <= 1 for off in found.off)


def test_families_count_alike_in_the_mean():
    answered = [
        labels.Answered("a", 0.9, 0.9, (0.5, 0.5, 0.5, 0.5, 0.5, 0.9), 0.1),
        labels.Answered("a", 0.9, 0.9, (0.7,) * 6, 0.1),
        labels.Answered("b", 0.9, 0.8, (0.8,) * 6, 0.0),
    ]
    rows = labels.table_of(answered).splitlines()[2:]
    assert [row.split("|")[1].strip() for row in rows] == ["a", "b", "mean"]
    first = [float(row.split("|")[4]) for row in rows]
    assert first == pytest.approx([0.6, 0.8, 0.7])
    # of .15 to the best without bias, and of .2 to the best, .1 is closed in the end
    shares = "0% (0%), 0% (0%), 0% (0%), 0% (0%), 67% (50%)"
    assert f"close {shares} of the gap" in labels.closed(answered)


def test_what_is_expected_is_compared_with_what_is_gained():
    answered = [
        labels.Answered("a", 1.0, 1.0, (0.5, 0.5, 0.5, 0.5 + gain, 0.5, 0.5), expected)
        for gain, expected in ((0.0, 0.005), (0.06, 0.04), (0.1, 0.1))
    ]
    said = labels.expectations(answered)
    assert "expected +0.048, gained +0.053, correlation 0.9" in said
    assert "from 0.03: 1 files +0.040 +0.060" in said
