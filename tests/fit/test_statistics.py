"""What is expected of groupings is what summing over all pairs of fragments gives."""

from __future__ import annotations

import math

import numpy as np
import pytest
from scipy.special import expit

from kbforge.contracts import IntArray
from kbforge.fit.description import PairOdds
from kbforge.fit.statistics import EXPECTED, PairExpectations
from kbforge.models.resolve import make_likelihood
from kbforge_plugins.likelihoods.pairs.likelihood import Pairs
from tests.fit.people import made


def by_hand(odds: PairOdds, labels: IntArray) -> tuple[float, float, float, float]:
    """The same, pair by pair."""
    links = zip(odds.first.tolist(), odds.second.tolist(), odds.nats.tolist(), strict=True)
    probability = {(one, two): float(expit(nats)) for one, two, nats in links}
    n = len(labels)
    row = odds.row.tolist()
    precision, recall, f1, entities = [], [], [], 0.0
    for i in range(n):
        others = [(j, probability.get((row[i], row[j]), 0.0)) for j in range(n) if j != i]
        wanted = 1 + sum(p for _, p in others)
        right = 1 + sum(p for j, p in others if labels[i] == labels[j])
        size = int((labels == labels[i]).sum())
        precision.append(right / size)
        recall.append(right / wanted)
        f1.append(2 * right / (size + wanted))
        entities += 1 / wanted
    found = math.log(entities / len(set(labels.tolist())))
    return (*(float(np.mean(part)) for part in (precision, recall, f1)), found)


@pytest.mark.parametrize("share", [1.0, 0.4], ids=["the file", "a sample"])
def test_expectations_are_those_of_all_pairs(share: float) -> None:
    fragments = made("people")
    model = make_likelihood("pairs")
    assert isinstance(model, Pairs)
    model.fit(fragments)
    rng = np.random.default_rng(3)
    chosen = rng.permutation(len(fragments))[: round(share * len(fragments))]
    sample = [fragments[i] for i in chosen] + [fragments[chosen[0]]]
    odds = model.pair_odds(sample)
    expected = PairExpectations(odds)
    for entities in (1, 5, len(sample)):
        labels = rng.integers(0, entities, len(sample))
        told = expected.of(labels)
        assert tuple(told) == EXPECTED
        assert tuple(told.values()) == pytest.approx(by_hand(odds, labels), abs=1e-12)
