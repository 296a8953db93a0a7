"""What is believed of pairs follows the candidates, then the answers."""

from __future__ import annotations

import numpy as np
import pytest
from scipy.special import expit

from kbforge.fit.questions import ERROR, design, prior, said_same, update

WEIGHTS = np.array([0.5, 0.3, 0.2])
NONE, ALL = np.zeros((1, 3), np.bool_), np.ones((1, 3), np.bool_)


def test_before_any_answer_more_weight_is_more_probable() -> None:
    belief = prior(WEIGHTS)
    votes = np.array([[0, 0, 0], [0, 0, 1], [0, 1, 0], [1, 0, 0], [1, 1, 1]], np.bool_)
    probability = belief.probability(votes)
    assert (np.diff(probability) > 0).all()
    assert probability[0] < 0.1
    assert probability[-1] > 0.75


def test_answers_move_what_has_these_votes_and_what_is_near() -> None:
    before = prior(WEIGHTS)
    asked = np.array([[1, 0, 0]], np.bool_)
    after = update(before, np.repeat(asked, 8, axis=0), np.zeros(8, np.bool_))
    assert after.probability(asked)[0] < 0.15 < before.probability(asked)[0]
    near = np.array([[1, 1, 0]], np.bool_)
    assert after.probability(near)[0] < before.probability(near)[0]
    assert after.logit(asked)[1] < before.logit(asked)[1]


def test_no_answers_change_nothing() -> None:
    before = prior(WEIGHTS)
    assert update(before, np.zeros((0, 3), np.bool_), np.zeros(0, np.bool_)) is before


def test_the_mode_is_where_the_slope_is_nought() -> None:
    rng = np.random.default_rng(0)
    before = prior(WEIGHTS)
    votes, same = rng.random((40, 3)) < 0.5, rng.random(40) < 0.5
    mode = update(before, votes, same).mean
    x, precision = design(votes), np.linalg.inv(before.covariance)

    def log_posterior(w: np.ndarray) -> float:
        said = ERROR + (1 - 2 * ERROR) * expit(x @ w)
        off = w - before.mean
        return float(np.log(np.where(same, said, 1 - said)).sum() - off @ precision @ off / 2)

    best = log_posterior(mode)
    for k in range(4):
        for step in (-1e-3, 1e-3):
            assert log_posterior(mode + step * np.eye(4)[k]) < best


def test_no_answer_is_certain() -> None:
    """Forty answers one way leave the other possible by the error of people."""
    after = update(prior(WEIGHTS), np.repeat(ALL, 40, axis=0), np.ones(40, np.bool_))
    assert 0.9 < after.probability(ALL)[0] < 0.99
    assert said_same(np.array([-1e3, 1e3])) == pytest.approx([ERROR, 1 - ERROR])
