"""Rates from clusters: expectation maximisation that climbs, and finds what made the data."""

from __future__ import annotations

import itertools
import math
import random
from collections import Counter

import pytest

from kbforge_plugins.likelihoods.attributes import fitting
from kbforge_plugins.likelihoods.attributes.fitting import Counts, learn_rates
from kbforge_plugins.likelihoods.attributes.kinds import Kind, feature_names
from kbforge_plugins.likelihoods.attributes.urn import SLIPS, AttributeRates, Urns, component_names
from kbforge_plugins.likelihoods.attributes.vocabulary import LEAST_COUNT, Vocabulary


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
            own = [f for i, f in vocabulary.features[v] if i == index]
            kept = self.rng.choice(own) if own else None
            holders = [u for u in holders if (index, kept) in vocabulary.features[u]]
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
    kind: Kind,
    weights: dict[str, float],
    concentration: float,
    sizes: tuple[int, int],
    error: float,
    of_concentration: float,
) -> None:
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


@pytest.mark.parametrize(("kind", "weights"), RATES)
@pytest.mark.parametrize("seed", [1, 2])
def test_no_round_lowers_the_penalised_likelihood(
    kind: Kind, weights: dict[str, float], seed: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    simulator = Simulator(kind, rates_of(kind, 3.0, **weights), seed)
    clusters = [simulator.cluster(simulator.rng.randint(2, 9)) for _ in range(60)]
    values = []
    for rounds in range(12):
        monkeypatch.setattr(fitting, "_ROUNDS", rounds)
        rates = learn_rates(simulator.vocabulary, clusters, AttributeRates.prior(kind))
        values.append(penalised(simulator.vocabulary, clusters, rates))
    steps = [after - before for before, after in itertools.pairwise(values)]
    # weights are kept above 1e-7 when they are reported, which costs next to nothing
    assert min(steps) > -1e-3
    assert values[-1] > values[0] + 1


def test_nothing_in_common_is_noise(monkeypatch: pytest.MonkeyPatch) -> None:
    """Of pairs of unrelated values the true one is mostly neither; every round sees it better."""
    simulator = Simulator("category", rates_of("category", 3.0, **SLIPPING), 5)
    vocabulary, rng = simulator.vocabulary, simulator.rng
    clusters = [dict.fromkeys(rng.sample(range(simulator.known), 2), 1) for _ in range(80)]
    values, rates = [], AttributeRates.prior("category")
    for rounds in range(12):
        monkeypatch.setattr(fitting, "_ROUNDS", rounds)
        rates = learn_rates(vocabulary, clusters, AttributeRates.prior("category"))
        values.append(penalised(vocabulary, clusters, rates))
    steps = [after - before for before, after in itertools.pairwise(values)]
    assert min(steps) > -1e-3
    assert rates.mixture["noise"] > 0.5
    assert rates.mixture["copy"] < 0.5


def test_clusters_of_one_say_nothing() -> None:
    vocabulary = Vocabulary("text", {"ann": 1, "bo": 1})
    prior = AttributeRates.prior("text")
    assert learn_rates(vocabulary, [{0: 1}, {1: 1}], prior) == prior
    assert learn_rates(vocabulary, [], prior) == prior


def test_few_data_move_the_rates_little() -> None:
    vocabulary = Vocabulary("text", {"ann": 2, "bo": 2})
    prior = AttributeRates.prior("text")
    found = learn_rates(vocabulary, [{0: 2}], prior)
    assert found.mixture["copy"] > prior.mixture["copy"]
    assert found.mixture["copy"] < 0.9


def test_the_order_of_clusters_does_not_matter() -> None:
    simulator = Simulator("code", rates_of("code", 3.0, **VARYING), 4)
    clusters = [simulator.cluster(5) for _ in range(80)]
    prior = AttributeRates.prior("code")
    one = learn_rates(simulator.vocabulary, clusters, prior)
    other = learn_rates(simulator.vocabulary, clusters[::-1], prior)
    assert other.weights() == pytest.approx(one.weights(), abs=1e-9)
    assert other.concentration == pytest.approx(one.concentration, rel=1e-9)


def test_a_cluster_of_very_many_different_values() -> None:
    vocabulary = Vocabulary("text", {f"name {i}": 1 for i in range(3000)})
    found = learn_rates(vocabulary, [dict.fromkeys(range(3000), 1)], AttributeRates.prior("text"))
    assert sum(found.weights()) == pytest.approx(1)
