"""The oracle reproductions: what questions and answers gain."""

from argparse import Namespace

import numpy as np
import pytest

from kbforge.contracts import Fragment
from kbforge.fit.choices import RunOptions
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


# Answers by gold.


labels = script("label_oracle")


def test_answers_by_gold_do_no_harm_and_set_the_odds_right(monkeypatch):
    monkeypatch.setattr(labels, "STOPS", (0, 12))
    scores = labels.after_answers(tuple(people(40, 3)), RunOptions())
    assert scores.shape == (2, 2)
    assert (scores[1] > scores[0] - 0.01).all()
    assert labels.rows_of({"people": np.array([[0.5, 0.25]])}) == [["people", "0.500/0.250"]]


def test_larger_sets_are_cut():
    small, large = labels.chosen(["ror", "fair_el"], 2_000)
    assert (small.name, small.first) == ("fair_el", None)
    assert (large.name, large.first) == ("ror", 2_000)
