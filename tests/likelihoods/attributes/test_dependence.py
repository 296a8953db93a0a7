"""What an agreement is worth where other attributes agree already."""

from __future__ import annotations

import random
from dataclasses import replace

import pytest

from kbforge.contracts import Fragment
from kbforge_plugins.likelihoods.attributes.distortion import AttributeRates
from kbforge_plugins.likelihoods.attributes.fitting import discounts_of, vocabularies_of
from kbforge_plugins.likelihoods.attributes.model import Encoder
from kbforge_plugins.likelihoods.attributes.urn import Urns
from kbforge_plugins.likelihoods.attributes.vocabulary import Vocabulary

BRANDS = ["acme", "bolt", "crux", "dyna", "etna", "fuji", "gorr", "hale", "iota", "jive"] * 4


def things(seed: int, records: int, tells: bool) -> tuple[list[Fragment], list[tuple[int, ...]]]:
    """Things of which a line may tell the maker; each line has five, each thing so many records."""
    rng = random.Random(seed)
    fragments: list[Fragment] = []
    clusters = []
    for thing in range(300):
        line = f"line{thing // 5 if tells else rng.randrange(60):02}"
        maker = f"{BRANDS[thing // 5 % 40]} {thing // 50}" if tells else f"maker{rng.randrange(60)}"
        said = {"line": (line,), "maker": (maker,), "model": (f"{rng.randrange(10**6)}x",)}
        clusters.append(tuple(range(len(fragments), len(fragments) + records)))
        fragments += [Fragment(f"{thing}-{k}", said) for k in range(records)]
    return fragments, clusters


def found_for(fragments: list[Fragment], clusters: list[tuple[int, ...]]) -> dict[str, float]:
    vocabularies = vocabularies_of(fragments)
    encoder = Encoder(vocabularies)
    records = [encoder.encode(fragment) for fragment in fragments]
    urns = [Urns(v, AttributeRates.prior(v.kind)) for v in vocabularies.values()]
    return dict(zip(vocabularies, discounts_of(urns, records, clusters), strict=True))


def test_an_attribute_that_another_tells_is_discounted() -> None:
    dependent = found_for(*things(1, 1, tells=True))
    assert dependent["maker"] < 0.5
    assert dependent["model"] == 1
    independent = found_for(*things(1, 1, tells=False))
    assert independent["maker"] > 0.9


def test_entities_that_were_split_are_hardly_taken_for_dependence() -> None:
    """The same records, whole or in single pieces: all attributes agree, and not some of them."""
    fragments, clusters = things(2, 2, tells=False)
    whole = found_for(fragments, clusters)
    split = found_for(fragments, [(i,) for cluster in clusters for i in cluster])
    assert min(whole.values()) > 0.9
    # where attributes do tell each other, a tenth is left
    assert min(split.values()) > 0.4
    dependent = found_for(*things(2, 1, tells=True))
    assert max(dependent["line"], dependent["maker"]) < 0.2


def test_one_attribute_has_nothing_to_depend_on() -> None:
    fragments = [Fragment(str(i), {"name": (f"name {i // 2}",)}) for i in range(200)]
    assert found_for(fragments, [(i,) for i in range(200)]) == {"name": 1.0}


@pytest.mark.parametrize("kind", ["text", "title", "category"])
def test_a_discount_takes_its_share_of_what_agreement_is_worth(kind: str) -> None:
    vocabulary = Vocabulary(kind, {"a b c d e": 2, "f g": 30, "h": 8})  # type: ignore[arg-type]
    rates = AttributeRates.prior(kind)  # type: ignore[arg-type]

    def worth(discount: float) -> float:
        urn = Urns(vocabulary, replace(rates, discount=discount)).single(0)
        return urn.gain(0) - urn.log_marginal

    assert worth(1.0) > 2
    assert 0 < worth(0.5) < 0.6 * worth(1.0)
    # what disagreement costs stays
    for discount in (1.0, 0.5):
        urns = Urns(vocabulary, replace(rates, discount=discount))
        assert urns.single(1).gain(2) - urns.single(2).log_marginal < -1
