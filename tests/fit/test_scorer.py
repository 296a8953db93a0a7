"""The scorer's file is read strictly, gains are smooth, and exact names have a margin."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
from safetensors.numpy import load, save

from kbforge.errors import ModelError
from kbforge.fit.choose import shipped_scorer
from kbforge.fit.judge import NAMES, Hypothesis, read_scorer, smoothed, worths


def path(*likelihoods: str) -> list[Hypothesis]:
    labels = np.arange(3)
    return [Hypothesis(name, float(k), labels) for k, name in enumerate(likelihoods)]


def test_the_shipped_scorer_is_read_back_as_it_was_written() -> None:
    scorer = shipped_scorer(None)
    again = read_scorer(scorer.to_bytes(), "judge")
    assert again.to_bytes() == scorer.to_bytes()
    assert 0 <= scorer.margin < 0.2
    assert scorer.spread > 0


@pytest.mark.parametrize("how", ["cut", "margin", "lacking", "more"])
def test_what_is_no_scorer_is_refused(how: str) -> None:
    content = shipped_scorer(None).to_bytes()
    parts = load(content)
    if how == "margin":
        parts["margin"] = np.array([np.nan])
    elif how == "lacking":
        del parts["level"]
    elif how == "more":
        parts["further"] = np.zeros(1)
    damaged = content[:-100] if how == "cut" else save(parts)
    with pytest.raises(ModelError, match="judge"):
        read_scorer(damaged, "judge")


def test_gains_are_smoothed_along_their_own_path() -> None:
    found = path(NAMES, *["bigram"] * 5, "pairs")
    gains = smoothed(np.array([7.0, 0.0, 0.0, 10.0, 0.0, 0.0, 1.0]), found)
    assert gains.tolist() == pytest.approx([0.0, 1.0, 2.0, 4.0, 2.0, 1.0, 1.0])


@pytest.mark.parametrize(("gain", "chosen"), [(0.01, 0), (0.05, 2)])
def test_exact_names_yield_to_a_gain_above_the_margin(gain: float, chosen: int) -> None:
    found = path(NAMES, "bigram", "bigram")
    assert worths(np.array([0.0, -1.0, gain]), found, 0.02, 1.0).argmax() == chosen


def test_of_equal_gains_the_one_near_the_own_alpha_of_its_likelihood_is_worth_most() -> None:
    labels = np.arange(3)
    found = [Hypothesis("pairs", log_alpha, labels, 0.0) for log_alpha in (-3.0, 0.5, 2.0, 6.0)]
    found.append(Hypothesis("bigram", 0.0, labels))
    worth = worths(np.full(5, 0.1), found, 0.02, 1.0)
    assert worth.argmax() == 1
    assert worth[1] > worth[2] > worth[0]
    # so far away nothing more is lost, and an alpha that says nothing is as far
    assert worth[0] == worth[3] == worth[4]


def test_on_records_what_attributes_find_by_themselves_takes_a_good_reason_to_displace() -> None:
    found = path(NAMES, "attributes", "attributes", "pairs")
    found = [replace(h, own=h.log_alpha if k == 2 else 9.0) for k, h in enumerate(found)]
    for gain, chosen in ((0.16, 2), (0.18, 3)):
        gains = np.array([0.12, 0.1, 0.1, gain])
        assert worths(gains, found, 0.02, 3.0).argmax() == chosen
    assert worths(np.array([0.12, 0.1, 0.1, 0.1]), found, 0.02, 2.0).argmax() == 0


def test_statistics_that_are_not_known_are_an_error() -> None:
    scorer = shipped_scorer(None)
    with pytest.raises(ModelError, match="statistic"):
        scorer.gains(("another",), np.zeros((1, 1)), path(NAMES))
