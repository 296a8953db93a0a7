"""All of it from unlabelled fragments: whatever their order, and nobody's labels."""

from __future__ import annotations

import random
from dataclasses import replace

import numpy as np
import pytest

from kbforge.contracts import Fragment
from kbforge_plugins.indexes.selective import Selective
from kbforge_plugins.likelihoods.attributes import fitting
from kbforge_plugins.likelihoods.attributes.fitting import (
    FittedAttributes,
    concentration_for,
    counted_by_entity,
    fit_labelled,
    fit_unlabelled,
    vocabularies_of,
)
from kbforge_plugins.likelihoods.attributes.kinds import counts_of
from kbforge_plugins.likelihoods.attributes.model import Encoder
from kbforge_plugins.likelihoods.attributes.urn import AttributeRates
from tests.people import people


def fit(fragments: list[Fragment]) -> FittedAttributes:
    index = Selective()
    index.fit(fragments)
    return fit_unlabelled(fragments, vocabularies_of(fragments), index)


def test_the_order_of_the_fragments_does_not_matter() -> None:
    """To the last bit."""
    fragments = people(60, 1)
    one = fit(fragments)
    for seed in (2, 3):
        shuffled = random.Random(seed).sample(fragments, len(fragments))
        other = fit(shuffled)
        assert other.rates == one.rates
        assert (other.alpha, other.sample) == (one.alpha, one.sample)


def test_a_sample_does_not_depend_on_the_order_either(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(fitting, "_SAMPLE", 40)
    fragments = people(60, 1)
    one, other = fit(fragments), fit(fragments[::-1])
    assert 40 <= one.sample < len(fragments)
    assert (other.rates, other.alpha, other.sample) == (one.rates, one.alpha, one.sample)


def test_labels_are_not_read() -> None:
    fragments = people(40, 5)
    blind = [replace(f, label=None) for f in fragments]
    misled = [replace(f, label="all the same", metadata={"x": 1}) for f in fragments]
    found = [fit(items) for items in (fragments, blind, misled)]
    assert found[0].rates == found[1].rates == found[2].rates
    assert found[0].alpha == found[1].alpha == found[2].alpha


def test_what_is_learned_is_near_what_labels_tell() -> None:
    """Rates within .05 of those of gold clusters, doubted alike; entities within a fifth."""
    fragments = people(150, 6)
    found = fit(fragments)
    gold: dict[str | None, list[int]] = {}
    for i, fragment in enumerate(fragments):
        gold.setdefault(fragment.label, []).append(i)
    told = fit_labelled(fragments, list(map(tuple, gold.values())), vocabularies_of(fragments))
    for attribute, rates in told.rates.items():
        prior = AttributeRates.prior(rates.kind).mixture
        doubted = {
            name: (weight + fitting._DOUBT * prior[name]) / (1 + fitting._DOUBT)
            for name, weight in rates.mixture.items()
        }
        assert found.rates[attribute].mixture == pytest.approx(doubted, abs=0.05)
    assert expected_entities(found.alpha, len(fragments)) == pytest.approx(150, rel=0.2)
    assert expected_entities(told.alpha, len(fragments)) == pytest.approx(150, rel=1e-6)


def expected_entities(alpha: float, n: int) -> float:
    return float(sum(alpha / (alpha + k) for k in range(n)))


@pytest.mark.parametrize(("n", "entities"), [(100, 20.0), (100, 99.0), (5000, 2.0), (7, 3.5)])
def test_alpha_gives_as_many_entities_as_asked(n: int, entities: float) -> None:
    assert expected_entities(concentration_for(n, entities), n) == pytest.approx(entities, rel=1e-6)


@pytest.mark.parametrize(
    ("n", "entities"), [(1, 1.0), (10, 10.0), (10, 1.0), (10, 0.5), (10, 11.0)]
)
def test_alpha_is_a_number_at_the_edges(n: int, entities: float) -> None:
    assert 0 < concentration_for(n, entities) < np.inf


def test_values_are_counted_once_an_entity() -> None:
    """Where the entities are known; where they are not, as on average."""
    fragments = [
        *(Fragment(f"a{i}", {"name": ("ann",), "town": ("york",)}) for i in range(6)),
        Fragment("b", {"name": ("bo",), "town": ("york",)}),
        *(Fragment(f"c{i}", {"name": ("cy",)}) for i in range(4)),
    ]
    by_record = vocabularies_of(fragments)
    assert by_record["name"].counts == {"ann": 6, "bo": 1, "cy": 4}
    encoder = Encoder(by_record)
    records = [encoder.encode(fragment) for fragment in fragments]
    told = counted_by_entity(by_record, records, [tuple(range(6)), (6,), tuple(range(7, 11))])
    assert told["name"].counts == {"ann": 1, "bo": 1, "cy": 1}
    assert told["town"].counts == {"york": 2}
    half = counted_by_entity(by_record, records, [tuple(range(6)), (6,)])
    assert half["name"].counts == pytest.approx({"ann": 1, "bo": 1, "cy": 4 * 2 / 7})


def test_blanks_are_missing_and_repeated_values_count_once() -> None:
    fragments = [
        Fragment("a", {"name": ("Ann", "ANN ", " "), "note": ("\u3000",)}),
        Fragment("b", {"name": ("ann",)}),
    ]
    assert counts_of(fragments) == {"name": {"ann": 2}}
    assert list(vocabularies_of(fragments)) == ["name"]


def test_of_very_many_attributes_the_rarest_are_left_out() -> None:
    common = [Fragment(f"c{i}", {f"a{k:03}": ("x",) for k in range(200)}) for i in range(3)]
    rare = [Fragment("r", {f"b{k}": ("y",) for k in range(100)})]
    assert list(vocabularies_of(common + rare)) == [f"a{k:03}" for k in range(200)]


def test_kinds_and_rates_that_are_known_are_kept() -> None:
    fragments = people(30, 8)
    vocabularies = vocabularies_of(fragments, {"town": "category"})
    assert vocabularies["town"].kind == "category"
    given = {"town": AttributeRates.of("category", [0.5, 0.1, 0.1, 0.1, 0.2], 3.0)}
    index = Selective()
    index.fit(fragments)
    found = fit_unlabelled(fragments, vocabularies, index, given)
    assert found.rates["town"] == given["town"]
    assert found.rates["name"] != AttributeRates.prior("text")


@pytest.mark.parametrize("n", [1, 2])
def test_next_to_no_fragments(n: int) -> None:
    found = fit([Fragment(f"f{i}", {"name": ("ann lee",)}) for i in range(n)])
    assert found.sample == n
    assert 0 < found.alpha < np.inf
