"""Small worlds of strings, vocabularies and rates over them, and the urn written out."""

import itertools
import math
import random
from collections import Counter
from collections.abc import Callable, Sequence

from kbforge.texts.kinds import KINDS, Kind
from kbforge_plugins.likelihoods.attributes.urn import (
    AttributeRates,
    component_names,
)
from kbforge_plugins.likelihoods.attributes.vocabulary import Vocabulary
from tests.likelihoods.attributes.components import components

LETTERS: dict[Kind, str] = {
    "text": "ab ",
    "title": "ab ",
    "date": "12-",
    "code": "a1 ",
    "number": "12,",
    "category": "abc",
    "set": "ab\n",
    "month first": "12-",
    "email": "ab@",
    "phone": "12 ",
    "nothing": "abc",
}


def world(letters: str, longest: int) -> list[str]:
    """All strings of the letters, of one letter up to so many."""
    return [
        "".join(chosen)
        for length in range(1, longest + 1)
        for chosen in itertools.product(letters, repeat=length)
    ]


def random_vocabulary(rng: random.Random, kind: Kind, strings: Sequence[str]) -> Vocabulary:
    """Some of the strings, each seen now and then."""
    seen = rng.sample(strings, rng.randint(1, min(8, len(strings))))
    return Vocabulary(kind, {value: rng.choice([1, 1, 2, 7]) for value in seen})


def random_rates(rng: random.Random, kind: Kind) -> AttributeRates:
    """Any rates that a file can hold."""
    weights = [rng.random() ** 3 for _ in component_names(kind)]
    return AttributeRates.of(kind, weights, 10 ** rng.uniform(-3, 6))


def random_kind(rng: random.Random) -> Kind:
    return rng.choice(KINDS)


def urn_written_out(vocabulary: Vocabulary, rates: AttributeRates, drawn: Sequence[int]) -> float:
    """L of a sequence of values, by drawing one after the other from each possible truth's urn."""
    weights, c = rates.weights(), rates.concentration

    def distorted(u: int, v: int) -> float:
        parts = components(vocabulary, u, v)
        return sum(w * p for w, p in zip(weights, parts, strict=True))

    def sequence(chance: Callable[[int], float]) -> float:
        seen: Counter[int] = Counter()
        total = 0.0
        for k, u in enumerate(drawn):
            total += math.log((c * chance(u) + seen[u]) / (c + k))
            seen[u] += 1
        return total

    terms = [
        math.log(vocabulary.base[v]) + sequence(lambda u: distorted(u, v))  # noqa: B023
        for v in set(drawn)
    ]
    terms.append(sequence(lambda u: (1 - weights[0]) * vocabulary.base[u]))
    top = max(terms)
    return top + math.log(math.fsum(math.exp(term - top) for term in terms))
