"""Rates and alpha are learned from fragments."""

from __future__ import annotations

import itertools
import math
import random
from collections import Counter
from dataclasses import replace

import numpy as np
import pytest

from kbforge.contracts import Fragment
from kbforge.indexes.selective import Selective
from kbforge.texts.kinds import Kind, feature_names
from kbforge.texts.statements import StatedValues
from kbforge_plugins.likelihoods.attributes import fitting
from kbforge_plugins.likelihoods.attributes.fitting import (
    Counts,
    FittedAttributes,
    concentration_for,
    counted_by_entity,
    fit_labelled,
    fit_unlabelled,
    learn_rates,
    vocabularies_of,
)
from kbforge_plugins.likelihoods.attributes.likelihood import AttributeModel
from kbforge_plugins.likelihoods.attributes.urn import SLIPS, AttributeRates, component_names
from kbforge_plugins.likelihoods.attributes.vocabulary import LEAST_COUNT, Encoder, Vocabulary
from tests.likelihoods.attributes.urns import Urns
from tests.people import people


class Simulator:
    """Draws clusters from the model, and counts which component made each fresh draw."""

    def __init__(self, kind: Kind, rates: AttributeRates, seed: int) -> None:
        self.rng = random.Random(seed)
        self.rates = rates
        self.vocabulary = Vocabulary(kind, {v: self.rng.choice([1, 2, 9]) for v in self._values()})
        self.known = len(self.vocabulary)
        self.made: Counter[str] = Counter()

    def _values(self) -> list[str]:
        letters = "bdklnprst"
        stems = ["".join(self.rng.choices(letters, k=4)) for _ in range(40)]
        return [
            f"{self.rng.choice(stems)} {''.join(self.rng.choices(letters, k=3))}"
            for _ in range(250)
        ]

    def cluster(self, n: int) -> Counts:
        c = self.rates.concentration
        (true,) = self.rng.choices(range(self.known), self.vocabulary.base[: self.known])
        drawn: list[int] = []
        for k in range(n):
            fresh = self.rng.random() < c / (c + k)
            drawn.append(self.fresh(true) if fresh else self.rng.choice(drawn))
        return dict(Counter(drawn))

    def fresh(self, v: int) -> int:
        while True:
            name = self.rng.choices(
                component_names(self.vocabulary.kind), list(self.rates.weights())
            )[0]
            u = self.of_component(name, v)
            if u is not None:
                self.made[name] += 1
                return u

    def of_component(self, name: str, v: int) -> int | None:
        """A draw, or None where the component is spent on what cannot be."""
        vocabulary, value = self.vocabulary, self.vocabulary.values[v]
        if name == "copy":
            return v
        if name in SLIPS:
            slipped = value
            for _ in range(2 if name == "two edits" else 1):
                slipped = self.slip(slipped, name == "substitution")
            u = vocabulary.number(slipped)
            return None if u == v else u
        holders = [u for u in range(self.known) if u != v]
        if name != "noise":
            index = feature_names(vocabulary.kind).index(name)
            own = [f for i, f in vocabulary.features(v) if i == index]
            kept = self.rng.choice(own) if own else None
            holders = [u for u in holders if (index, kept) in vocabulary.features(u)]
        if not holders:
            return None
        return self.rng.choices(holders, [vocabulary.base[u] for u in holders])[0]

    def slip(self, value: str, same_length: bool) -> str:
        letter, at = self.rng.choice("bdklnprst"), self.rng.randrange(len(value))
        if same_length:
            return value[:at] + letter + value[at + 1 :]
        if self.rng.random() < 0.1:
            return value[:at] + value[at + 1 :]
        return value[:at] + letter + value[at:]


def counted_of(vocabulary: Vocabulary, clusters: list[Counts]) -> tuple[Vocabulary, list[Counts]]:
    """The vocabulary with what slips wrote counted least, and the clusters in its numbers."""
    values = vocabulary.values
    counts = dict.fromkeys(values, LEAST_COUNT) | vocabulary.counts
    counted = Vocabulary(vocabulary.kind, counts)
    return counted, [
        {counted.number(values[v]): n for v, n in counts.items()} for counts in clusters
    ]


def rates_of(kind: Kind, concentration: float, **weights: float) -> AttributeRates:
    listed = [weights.get(name.replace(" ", "_"), 0.0) for name in component_names(kind)]
    return AttributeRates.of(kind, listed, concentration)


SLIPPING = {"copy": 0.6, "substitution": 0.2, "edit": 0.08, "two_edits": 0.02, "noise": 0.1}
VARYING = {"copy": 0.6, "substitution": 0.1, "edit": 0.05, "stem": 0.15, "noise": 0.1}
RATES = [("category", SLIPPING), ("code", VARYING)]


@pytest.mark.parametrize(("kind", "weights"), RATES)
@pytest.mark.parametrize(
    ("concentration", "sizes", "error", "of_concentration"),
    [
        # two edits are less probable than noise, and are taken for it
        (20.0, (6, 12), 0.025, 0.15),
        # the true value of many a small cluster was never copied; one that was is taken for it
        (3.0, (2, 9), 0.1, 0.5),
    ],
)
def test_the_rates_that_made_the_data_are_found(
    kind, weights, concentration, sizes, error, of_concentration
):
    """Weights to an absolute error, c to a relative one, of what was drawn."""
    true = rates_of(kind, concentration, **weights)
    simulator = Simulator(kind, true, seed=3)
    clusters = [simulator.cluster(simulator.rng.randint(*sizes)) for _ in range(400)]
    prior = AttributeRates.prior(kind)
    found = learn_rates(*counted_of(simulator.vocabulary, clusters), prior)
    drawn = {name: simulator.made[name] / simulator.made.total() for name in component_names(kind)}
    assert found.mixture == pytest.approx(drawn, abs=error)
    assert found.concentration == pytest.approx(concentration, rel=of_concentration)
    assert prior.mixture != pytest.approx(drawn, abs=error), "not to learn would pass as well"


def penalised(vocabulary: Vocabulary, clusters: list[Counts], rates: AttributeRates) -> float:
    """What learning climbs: log marginals, Dirichlet and gamma prior, from the urns themselves."""
    urns, prior = Urns(vocabulary, rates), AttributeRates.prior(vocabulary.kind)
    fitted = sum(
        urns.urn(*zip(*sorted(counts.items()), strict=True)).log_marginal for counts in clusters
    )
    weights = zip(prior.weights(), rates.weights(), strict=True)
    of_weights = 4.0 * sum(p * math.log(w) for p, w in weights)
    c = rates.concentration
    return fitted + of_weights + 2.0 * (math.log(c) - c / prior.concentration)


def climbed(vocabulary: Vocabulary, clusters: list[Counts]) -> tuple[list[float], AttributeRates]:
    """The penalised likelihood after each of some rounds, which never falls; the last rates."""
    values: list[float] = []
    rates = prior = AttributeRates.prior(vocabulary.kind)
    for rounds in range(12):
        rates = learn_rates(vocabulary, clusters, prior, rounds=rounds)
        values.append(penalised(vocabulary, clusters, rates))
    steps = [after - before for before, after in itertools.pairwise(values)]
    # weights are kept above 1e-7 when they are reported, which costs next to nothing
    assert min(steps) > -1e-3
    return values, rates


@pytest.mark.parametrize(("kind", "weights"), RATES)
@pytest.mark.parametrize("seed", [1, 2])
def test_no_round_lowers_the_penalised_likelihood(kind, weights, seed):
    simulator = Simulator(kind, rates_of(kind, 3.0, **weights), seed)
    clusters = [simulator.cluster(simulator.rng.randint(2, 9)) for _ in range(60)]
    values, _ = climbed(simulator.vocabulary, clusters)
    assert values[-1] > values[0] + 1


def test_nothing_in_common_is_noise():
    """Of pairs of unrelated values the true one is mostly neither; every round sees it better."""
    simulator = Simulator("category", rates_of("category", 3.0, **SLIPPING), 5)
    vocabulary, rng = simulator.vocabulary, simulator.rng
    clusters = [dict.fromkeys(rng.sample(range(simulator.known), 2), 1) for _ in range(80)]
    _, rates = climbed(vocabulary, clusters)
    assert rates.mixture["noise"] > 0.5
    assert rates.mixture["copy"] < 0.5


def test_clusters_of_one_say_nothing():
    vocabulary = Vocabulary("text", {"ann": 1, "bo": 1})
    prior = AttributeRates.prior("text")
    assert learn_rates(vocabulary, [{0: 1}, {1: 1}], prior) == prior
    assert learn_rates(vocabulary, [], prior) == prior


def test_few_data_move_the_rates_little():
    vocabulary = Vocabulary("text", {"ann": 2, "bo": 2})
    prior = AttributeRates.prior("text")
    found = learn_rates(vocabulary, [{0: 2}], prior)
    assert found.mixture["copy"] > prior.mixture["copy"]
    assert found.mixture["copy"] < 0.9


def test_the_order_of_clusters_does_not_matter():
    simulator = Simulator("code", rates_of("code", 3.0, **VARYING), 4)
    clusters = [simulator.cluster(5) for _ in range(80)]
    prior = AttributeRates.prior("code")
    one = learn_rates(simulator.vocabulary, clusters, prior)
    other = learn_rates(simulator.vocabulary, clusters[::-1], prior)
    assert other.weights() == pytest.approx(one.weights(), abs=1e-9)
    assert other.concentration == pytest.approx(one.concentration, rel=1e-9)


def test_a_cluster_of_very_many_different_values():
    vocabulary = Vocabulary("text", {f"name {i}": 1 for i in range(3000)})
    found = learn_rates(vocabulary, [dict.fromkeys(range(3000), 1)], AttributeRates.prior("text"))
    assert sum(found.weights()) == pytest.approx(1)


# All of it from unlabelled fragments: whatever their order, and nobody's labels.


def fit(fragments: list[Fragment], **limits: int) -> FittedAttributes:
    index = Selective()
    index.fit(fragments)
    said = StatedValues.of(fragments)
    return fit_unlabelled(fragments, said, vocabularies_of(said), index, AttributeModel, **limits)


def test_the_order_of_the_fragments_does_not_matter():
    """To the last bit."""
    fragments = people(60, 1)
    one = fit(fragments)
    for seed in (2, 3):
        shuffled = random.Random(seed).sample(fragments, len(fragments))
        other = fit(shuffled)
        assert other.rates == one.rates
        assert (other.alpha, other.sample) == (one.alpha, one.sample)


def test_a_sample_does_not_depend_on_the_order_either():
    fragments = people(60, 1)
    one, other = fit(fragments, size=40), fit(fragments[::-1], size=40)
    assert 40 <= one.sample < len(fragments)
    assert (other.rates, other.alpha, other.sample) == (one.rates, one.alpha, one.sample)


def test_labels_are_not_read():
    fragments = people(40, 5)
    blind = [replace(f, label=None) for f in fragments]
    misled = [replace(f, label="all the same", metadata={"x": 1}) for f in fragments]
    found = [fit(items) for items in (fragments, blind, misled)]
    assert found[0].rates == found[1].rates == found[2].rates
    assert found[0].alpha == found[1].alpha == found[2].alpha


def test_what_is_learned_is_near_what_labels_tell():
    """Rates within .05 of those of gold clusters, doubted alike; entities within a fifth."""
    fragments = people(150, 6)
    found = fit(fragments)
    gold: dict[str | None, list[int]] = {}
    for i, fragment in enumerate(fragments):
        gold.setdefault(fragment.label, []).append(i)
    told = fit_labelled(
        fragments, list(map(tuple, gold.values())), vocabularies_of(StatedValues.of(fragments))
    )
    for attribute, rates in told.rates.items():
        prior = AttributeRates.prior(rates.kind).mixture
        doubted = {
            name: (weight + fitting._PRIOR_WEIGHT * prior[name]) / (1 + fitting._PRIOR_WEIGHT)
            for name, weight in rates.mixture.items()
        }
        assert found.rates[attribute].mixture == pytest.approx(doubted, abs=0.05)
    assert expected_entities(found.alpha, len(fragments)) == pytest.approx(150, rel=0.2)
    assert expected_entities(told.alpha, len(fragments)) == pytest.approx(150, rel=1e-6)


def expected_entities(alpha: float, n: int) -> float:
    return float(sum(alpha / (alpha + k) for k in range(n)))


@pytest.mark.parametrize(("n", "entities"), [(100, 20.0), (100, 99.0), (5000, 2.0), (7, 3.5)])
def test_alpha_gives_as_many_entities_as_asked(n, entities):
    assert expected_entities(concentration_for(n, entities), n) == pytest.approx(entities, rel=1e-6)


@pytest.mark.parametrize(
    ("n", "entities"), [(1, 1.0), (10, 10.0), (10, 1.0), (10, 0.5), (10, 11.0)]
)
def test_alpha_is_a_number_at_the_edges(n, entities):
    assert 0 < concentration_for(n, entities) < np.inf


def test_values_are_counted_once_an_entity():
    """Where the entities are known; where they are not, as on average."""
    fragments = [
        *(Fragment(f"a{i}", {"name": ("ann",), "town": ("york",)}) for i in range(6)),
        Fragment("b", {"name": ("bo",), "town": ("york",)}),
        *(Fragment(f"c{i}", {"name": ("cy",)}) for i in range(4)),
    ]
    by_record = vocabularies_of(StatedValues.of(fragments))
    assert by_record["name"].counts == {"ann": 6, "bo": 1, "cy": 4}
    records = Encoder(by_record).encode_all(fragments)
    told = counted_by_entity(by_record, records, [tuple(range(6)), (6,), tuple(range(7, 11))])
    assert told["name"].counts == {"ann": 1, "bo": 1, "cy": 1}
    assert told["town"].counts == {"york": 2}
    half = counted_by_entity(by_record, records, [tuple(range(6)), (6,)])
    assert half["name"].counts == pytest.approx({"ann": 1, "bo": 1, "cy": 4 * 2 / 7})


def test_blanks_are_missing_and_repeated_values_count_once():
    fragments = [
        Fragment("a", {"name": ("Ann", "ANN ", " "), "note": ("\u3000",)}),
        Fragment("b", {"name": ("ann",)}),
    ]
    counts = StatedValues.of(fragments).counts()
    assert counts == {"name": {"ann": 2}, "note": {"": 1}}
    assert list(vocabularies_of(StatedValues.of(fragments))) == ["name"]


def test_of_very_many_attributes_the_rarest_are_left_out():
    common = [Fragment(f"c{i}", {f"a{k:03}": ("x",) for k in range(200)}) for i in range(3)]
    rare = [Fragment("r", {f"b{k}": ("y",) for k in range(100)})]
    assert list(vocabularies_of(StatedValues.of(common + rare))) == [f"a{k:03}" for k in range(200)]


def test_kinds_and_rates_that_are_known_are_kept():
    fragments = people(30, 8)
    vocabularies = vocabularies_of(StatedValues.of(fragments), {"town": "category"})
    assert vocabularies["town"].kind == "category"
    given = {"town": AttributeRates.of("category", [0.5, 0.1, 0.1, 0.1, 0.2], 3.0)}
    index = Selective()
    index.fit(fragments)
    found = fit_unlabelled(
        fragments, StatedValues.of(fragments), vocabularies, index, AttributeModel, given
    )
    assert found.rates["town"] == given["town"]
    assert found.rates["name"] != AttributeRates.prior("text")


@pytest.mark.parametrize("n", [1, 2])
def test_next_to_no_fragments(n):
    found = fit([Fragment(f"f{i}", {"name": ("ann lee",)}) for i in range(n)])
    assert found.sample == n
    assert 0 < found.alpha < np.inf
