"""Close ones: seeds of a sample bring their likest relatives, whatever the order or the ids."""

from __future__ import annotations

from dataclasses import replace
from functools import lru_cache

import numpy as np
import pytest

from kbforge.clustering.sample import MOST_RELATIVES
from kbforge.contracts import Fragment
from kbforge.fit.description import PairOdds
from kbforge.fit.sample import close_ones
from kbforge.models.resolve import make_likelihood
from kbforge_plugins.likelihoods.pairs.likelihood import Pairs
from tests.fit.people import made


def odds_of(fragments: list[Fragment]) -> PairOdds:
    model = make_likelihood("pairs")
    assert isinstance(model, Pairs)
    model.fit(fragments)
    return model.pair_odds(fragments)


@lru_cache
def people() -> tuple[Fragment, ...]:
    return tuple(made("many_people"))


def test_small_files_are_taken_whole() -> None:
    fragments = list(people())
    sample = close_ones(fragments, odds_of(fragments), len(fragments))
    assert sample.seeds == len(fragments)
    assert sorted(sample.places) == list(range(len(fragments)))


def test_seeds_bring_all_that_might_be_the_same_or_the_likest_of_them() -> None:
    fragments = list(people())
    odds = odds_of(fragments)
    sample = close_ones(fragments, odds, 60)
    assert 60 <= len(sample.fragments) < 60 + MOST_RELATIVES
    assert 0 < sample.seeds < len(sample.fragments) == len(set(sample.places))
    assert [fragments[i] for i in sample.places] == list(sample.fragments)
    inside = set(sample.places)
    nats = dict(
        zip(zip(odds.first.tolist(), odds.second.tolist(), strict=True), odds.nats, strict=True)
    )
    for seed in sample.places[: sample.seeds]:
        near = {
            other: nats[odds.row[seed], odds.row[other]]
            for other in range(len(fragments))
            if other != seed and nats.get((odds.row[seed], odds.row[other]), -9.0) >= -3.0
        }
        outside = set(near) - inside
        if outside:
            assert len(near) > MOST_RELATIVES
            likest = sorted(near.values(), reverse=True)[:MOST_RELATIVES]
            assert max(near[other] for other in outside) <= likest[-1]


def test_order_and_ids_do_not_matter() -> None:
    fragments = list(people())
    turned = [replace(f, id=f"x{i}") for i, f in enumerate(reversed(fragments))]
    one, other = (close_ones(some, odds_of(some), 60) for some in (fragments, turned))
    assert [f.properties for f in one.fragments] == [f.properties for f in other.fragments]


@pytest.mark.parametrize("most", [1, 7])
def test_equal_fragments_are_relatives(most: int) -> None:
    fragments = [Fragment(str(i), {"name": ("Ann Lee",)}) for i in range(40)]
    sample = close_ones(fragments, odds_of(fragments), most)
    assert len(np.unique(sample.places)) == len(sample.places) == 1 + MOST_RELATIVES
    assert sample.seeds == 1
