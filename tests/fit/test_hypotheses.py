"""A sample has the relatives of its seeds; a path is agglomerative clustering at each alpha."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import replace
from functools import cache

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from kbforge.contracts import CandidateIndex, ConjugateLikelihood, Fragment, ModelSpec
from kbforge.fit.description import PairOdds
from kbforge.fit.hypotheses import (
    close_ones,
    groupings,
    part_of,
)
from kbforge.fit.prepare import Chooser
from kbforge.indexes.selective import MOST_RELATIVES, Selective
from kbforge.models.bundle import make_likelihood
from kbforge_plugins.clusterers.sequential import SplitSmc
from kbforge_plugins.likelihoods.pairs.likelihood import Pairs
from tests.clustering.test_exactness import attributes
from tests.clustering.test_rounds import OneKey, distinct, merges_in_rounds, some_records
from tests.fit.people import made
from tests.people import people
from tests.profile import examples


def odds_of(fragments: list[Fragment]) -> PairOdds:
    model = make_likelihood("pairs")
    assert isinstance(model, Pairs)
    model.fit(fragments)
    return model.pair_odds(fragments)


def test_seeds_bring_all_that_might_be_the_same_or_the_likest_of_them():
    fragments = made("many_people")
    odds = odds_of(fragments)
    whole = close_ones(fragments, odds, len(fragments))
    assert whole.seeds == len(fragments)
    assert sorted(whole.places) == list(range(len(fragments)))
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


@pytest.mark.parametrize("most", [1, 7])
def test_equal_fragments_are_relatives(most):
    fragments = [Fragment(str(i), {"name": ("Ann Lee",)}) for i in range(40)]
    sample = close_ones(fragments, odds_of(fragments), most)
    assert len(np.unique(sample.places)) == len(sample.places) == 1 + MOST_RELATIVES
    assert sample.seeds == 1


class ByWords(CandidateIndex):
    def keys(self, fragment: Fragment) -> Sequence[int]:
        return [int(word) for values in fragment.properties.values() for word in values]


# fifty bear each name, and five of them agree on everything
BEARERS = [
    Fragment(f"{name}-{k}-{copy}", {"name": (str(name),), "born": (str(1000 + 10 * name + k),)})
    for name in range(40)
    for k in range(10)
    for copy in range(5)
]


def require_of_part(found: Chooser, fragments: Sequence[Fragment]) -> None:
    """The judge has seen nothing but the part."""
    index = Selective()
    index.fit(fragments)
    sample = found.judgement.sample
    assert {*sample.places} <= {*part_of(fragments, index).places}
    assert [fragments[i] for i in sample.places] == list(sample.fragments)


@pytest.fixture
def small(monkeypatch):
    """Files of hundreds are large."""
    monkeypatch.setattr("kbforge.fit.prepare.MOST_COMPARED", 300)
    monkeypatch.setattr("kbforge.fit.prepare.MOST_TO_CHOOSE", 400)
    monkeypatch.setattr("kbforge.fit.hypotheses.MOST_FRAGMENTS", 100)
    monkeypatch.setattr("kbforge.fit.hypotheses.PART", 150)


@pytest.mark.usefixtures("small")
def test_a_very_large_file_is_not_given_to_the_model_of_pairs(monkeypatch):
    fragments = people(150, 3)
    monkeypatch.setattr("kbforge.fit.prepare.MOST_TO_CHOOSE", 450)
    found = Chooser(fragments)
    found.choose()
    assert found.judgement.only("pairs").chosen.likelihood == "pairs"  # it was judged
    monkeypatch.setattr("kbforge.fit.prepare.MOST_TO_CHOOSE", 400)
    large = Chooser(fragments)
    choice = large.choose()
    assert large.judgement is not None
    judged = {h.likelihood for h in found.judgement.found}
    assert {h.likelihood for h in large.judgement.found} == judged
    assert large.judgement.only("pairs").chosen.likelihood != "pairs"
    assert choice.name != "pairs"
    assert choice.note.endswith("; pairs is not considered above 400 fragments")


@pytest.mark.usefixtures("small")
def test_those_that_share_most_come_along_and_so_do_others_of_a_common_name():
    assert len(part_of(BEARERS[:150], ByWords()).fragments) == 150  # a small file is taken whole
    found = part_of(BEARERS, ByWords())
    assert [BEARERS[i] for i in found.places] == list(found.fragments)
    assert 150 <= len(found.fragments) < 191
    seeds, held = found.fragments[: found.seeds], {f.id for f in found.fragments}
    for seed in seeds:
        assert {f.id for f in BEARERS if f.properties == seed.properties} <= held
        strangers = {
            f.id for f in BEARERS if f.names == seed.names and f.properties != seed.properties
        }
        assert len(strangers & held) >= 8


@pytest.mark.usefixtures("small")
@pytest.mark.parametrize(
    ("drawn", "fragments"),
    [
        (lambda some: close_ones(some, odds_of(some), 60), made("many_people")),
        (lambda some: part_of(some, ByWords()), BEARERS),
    ],
    ids=["a sample", "a part"],
)
def test_order_and_ids_do_not_matter(drawn, fragments):
    renamed = [replace(f, id=f"x{k}") for k, f in enumerate(reversed(fragments))]
    one, other = map(drawn, (fragments, renamed))
    assert [f.properties for f in one.fragments] == [f.properties for f in other.fragments]


@pytest.mark.usefixtures("small")
def test_a_large_file_is_judged_by_its_part_and_doubt_hears_of_no_pairs():
    fragments = people(150, 3)
    assert len(fragments) > 400
    chosen = Chooser(fragments)
    chosen.choose()
    require_of_part(chosen, fragments)
    assert chosen.context("attributes", chosen.fitted["attributes"]).pairs is None
    pairs = make_likelihood("pairs", {})
    pairs.fit(fragments)
    assert chosen.context("pairs", pairs).pairs is pairs


@pytest.mark.usefixtures("small")
def test_a_choice_takes_a_larger_file_whole():
    fragments = people(150, 3)[:350]
    chosen = Chooser(fragments)
    chosen.choose()
    attributes = chosen.fitted["attributes"]
    assert chosen.context("attributes", attributes).pairs is not None
    named = Chooser(fragments, named=True)
    assert named.context("attributes", attributes).pairs is None
    bigram = make_likelihood("bigram")
    bigram.fit(fragments)
    assert named.prior("bigram", bigram) is not None
    require_of_part(named, fragments)


def fitted(name: str, fragments: list[Fragment]) -> ConjugateLikelihood:
    likelihood = make_likelihood(name)
    assert isinstance(likelihood, ConjugateLikelihood)
    likelihood.fit(fragments)
    return likelihood


@cache
def fitted_to_people(name: str) -> tuple[list[Fragment], ConjugateLikelihood]:
    fragments = made("people")
    return fragments, fitted(name, fragments)


@pytest.mark.parametrize("exponent", [1.0, 0.5])
@pytest.mark.parametrize("name", ["bigram", "attributes", "pairs"])
def test_split_smc_finds_nearly_the_same(name, exponent):
    fragments, likelihood = fitted_to_people(name)
    log_alpha = 1.0 if name == "pairs" else 5.0
    _, labels = groupings(likelihood, fragments, [0.0, log_alpha], exponent)
    spec = ModelSpec(likelihood, math.exp(log_alpha), index=likelihood.index, exponent=exponent)
    posterior = SplitSmc().cluster(fragments, spec, np.random.default_rng(0))
    same = labels[:, None] == labels
    others = np.array(posterior.labels())
    assert (same == (others[:, None] == others)).mean() > 0.98


def test_groupings_grow_coarser_as_alpha_falls():
    fragments = made("organisations")
    found = groupings(fitted("bigram", fragments), fragments, [0.0, 3.0, 9.0, 40.0])
    counts = [len(set(labels.tolist())) for labels in found]
    assert counts == sorted(counts)
    assert counts[-1] > counts[0]
    for fine, coarse in zip(found[1:], found, strict=False):
        assert len(set(zip(fine.tolist(), coarse.tolist(), strict=True))) == len(set(fine.tolist()))


@given(
    seed=st.integers(0, 10_000),
    n=st.integers(2, 12),
    exponent=st.sampled_from([1.0, 0.5]),
    log_alphas=st.lists(st.floats(-4.0, 12.0), min_size=1, max_size=4).map(sorted),
)
@examples(30)
def test_merges_are_those_of_plain_sets_as_alpha_falls(seed, n, exponent, log_alphas):
    items = distinct(some_records(seed, n))
    likelihood = attributes(items)
    likelihood.index = OneKey()
    spec = ModelSpec(likelihood, math.exp(log_alphas[0]), exponent=exponent)
    made = merges_in_rounds(items, spec, [one - log_alphas[0] for one in log_alphas[::-1]])
    found = groupings(likelihood, items, log_alphas, exponent)
    for log_alpha, labels in zip(log_alphas, found, strict=True):
        floors: dict[frozenset[int], float] = {}
        for gain, pair in made:
            floors[frozenset().union(*pair)] = min(
                gain + log_alphas[0], *(floors.get(one, math.inf) for one in pair)
            )
        expected = list(range(len(items)))
        for cluster, floor in floors.items():  # the larger ones come later
            if floor > log_alpha:
                for i in cluster:
                    expected[i] = min(cluster)
        assert labels.tolist() == expected


def test_many_equal_fragments_are_compared_all_the_same():
    """A key that very many share leads nowhere, unless there is no other."""
    equal = [Fragment(f"e{i}", {"name": ("Ann Lee",)}) for i in range(100)]
    likelihood = fitted("attributes", [*equal, Fragment("x", {"name": ("Bo Ek",)})])
    (labels,) = groupings(likelihood, equal, [-3.0])
    assert len(set(labels.tolist())) == 1
