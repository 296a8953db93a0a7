"""Pairs of one entity and of two namesakes, and how a likelihood's scores tell them apart."""

from __future__ import annotations

import random

import numpy as np
import pytest

from kbforge.contracts import Fragment
from tests.scripts import script

entity_pairs = script("entity_pairs")


def entities(n: int, largest: int) -> list[list[Fragment]]:
    """Entities with two of five names each, in either case; entity n is called nothing else has."""
    rng = random.Random(0)
    out = []
    for number in range(n):
        names = rng.sample("vwxyz", 2)
        size = rng.randint(1, largest)
        out.append(
            [
                Fragment(f"{number}-{k}", {"name": (rng.choice([str.upper, str])(names[k % 2]),)})
                for k in range(size)
            ]
        )
    out.append([Fragment(f"{n}-{k}", {"name": ("alone",)}) for k in range(largest)])
    return out


@pytest.mark.parametrize("seed", range(20))
def test_the_area_is_the_share_of_pairs_in_the_right_order(seed: int) -> None:
    rng = np.random.default_rng(seed)
    scores, weights = rng.integers(0, 4, 12).astype(float), rng.integers(0, 3, 12).astype(float)
    positive = np.arange(12) < rng.integers(1, 11)
    weights[[0, -1]] = 1  # something on either side
    rows = list(zip(scores, weights, positive, strict=True))
    total = right = 0.0
    for s, w, _ in (row for row in rows if row[2]):
        for t, v, _ in (row for row in rows if not row[2]):
            total += w * v
            right += w * v * ((s > t) + (s == t) / 2)
    found = entity_pairs.weighted_auc(scores, positive, weights)
    assert found == pytest.approx(right / total)


def test_pairs_are_what_they_should_be() -> None:
    given_entities = entities(20, 12)
    label = {f.id: number for number, entity in enumerate(given_entities) for f in entity}
    names = [{f.names[0].lower() for f in entity} for entity in given_entities]
    pairs = entity_pairs.draw_pairs(given_entities, 200, seed=1)
    assert len(pairs) == 400
    assert [pair.is_positive for pair in pairs] == [True, False] * 200
    for pair in pairs:
        assert {label[f.id] for f in pair.a} == {pair.entities[0]}
        assert {label[f.id] for f in pair.b} == {pair.entities[1]}
        assert len({f.id for f in pair.a + pair.b}) == len(pair.a) + len(pair.b)
        assert names[pair.entities[0]] & names[pair.entities[1]]
    for positive, negative in zip(pairs[::2], pairs[1::2], strict=True):
        assert len(positive.a) == len(negative.a)
        assert len(positive.b) == len(negative.b)
    assert {len(pair.a) for pair in pairs} == {len(pair.b) for pair in pairs} == {1, 2, 3, 4, 5}
    different = {frozenset((ids(pair.a), ids(pair.b))) for pair in pairs}
    assert len(different) == len(pairs)
    assert any(pair.entities == (20, 20) for pair in pairs)
    assert not any(20 in pair.entities for pair in pairs[1::2])


def ids(part: list[Fragment]) -> frozenset[str]:
    return frozenset(f.id for f in part)


def test_few_entities_give_the_pairs_there_are() -> None:
    two = [[Fragment(f"{e}{k}", {"name": ("n",)}) for k in range(2)] for e in "ab"]
    pairs = entity_pairs.draw_pairs(two, 5, seed=0)
    # a0 a1 and b0 b1, with two of the four mixed ones
    assert len(pairs) == 4
    assert entity_pairs.draw_pairs([entity[:1] for entity in two], 5, seed=0) == []


def test_equal_parts_and_shared_content_are_seen() -> None:
    x, y = (Fragment(name, {"name": (name,)}) for name in "xy")
    again = Fragment("again", {"name": ("x",)})
    kinds = [
        (pair.is_equal, pair.is_overlapping)
        for pair in (
            entity_pairs.Pair([x], [again], (0, 1)),
            entity_pairs.Pair([x, y], [again], (0, 1)),
            entity_pairs.Pair([x], [y], (0, 1)),
        )
    ]
    assert kinds == [(True, True), (False, True), (False, False)]


class Squares:
    """L(C) = |C|^2 if all labels are those of one entity, else 0."""

    def log_marginal(self, clusters: list[list[Fragment]]) -> np.ndarray:
        one = [len({f.id.split("-")[0] for f in cluster}) == 1 for cluster in clusters]
        return np.array([len(c) ** 2 * same for c, same in zip(clusters, one, strict=True)], float)


def test_gains_and_their_area() -> None:
    pairs = entity_pairs.draw_pairs(entities(20, 12), 100, seed=2)
    gain, by_fragment = entity_pairs.gains(Squares(), pairs)
    for pair, g, n in zip(pairs, gain, by_fragment, strict=True):
        a, b = len(pair.a), len(pair.b)
        assert g == (2 * a * b if pair.is_positive else -(a**2) - b**2)
        assert n == ((a + b) if pair.is_positive else 0)
    perfect = entity_pairs.area(pairs, gain, seed=0)
    assert (perfect.auc, perfect.low, perfect.high) == (1, 1, 1)
    chance = entity_pairs.area(pairs, np.zeros(len(pairs)), seed=0)
    assert (chance.auc, chance.positives, chance.negatives) == (0.5, 100, 100)


def test_the_interval_of_the_area_covers_it() -> None:
    pairs = entity_pairs.draw_pairs(entities(20, 12), 100, seed=3)
    noise = np.random.default_rng(0).normal(size=len(pairs))
    found = entity_pairs.area(pairs, noise + [pair.is_positive for pair in pairs], seed=0)
    assert found.low < found.auc < found.high
    assert found.auc == pytest.approx(0.76, abs=0.07)  # of normals one deviation apart
