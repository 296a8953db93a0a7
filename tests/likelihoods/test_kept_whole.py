"""What first-party plugins keep of thousands of values is taken up, and kept again as it was."""

import random
from collections.abc import Callable

import numpy as np
import pytest

from kbforge import registry
from kbforge.contracts import CandidateIndex, ConjugateLikelihood, Fragment, Likelihood
from kbforge.indexes import INDEXES
from kbforge.store.pages import kept_from_bytes, kept_to_bytes
from tests.people import people

DISTINCT = 3000
LONG = "international consortium of independent manufacturers of agricultural machinery"
KEEPING = [
    name
    for name in registry.names("likelihoods")
    if registry.load("likelihoods", name).keeps and name != "gpt"
]


def spellings(n: int, seed: int) -> list[Fragment]:
    """Different spellings of one long name, and other attributes that most fragments share."""
    rng = random.Random(seed)
    said: dict[str, None] = {}
    while len(said) < n:
        letters = list(LONG)
        for _ in range(3):
            letters[rng.randrange(len(letters))] = rng.choice("abcdefghijklmnopqrstuvwxyz")
        said["".join(letters)] = None
    return [
        Fragment(f"{seed}-{at}", {"name": (name,), "kind": ("society",), "town": (f"t{at % 7}",)})
        for at, name in enumerate(said)
    ]


def require_kept(name: str, fragments: list[Fragment], later: list[Fragment]) -> None:
    """Keep, take up, add, keep again: always the same bytes, and both say the same."""
    first: Likelihood = registry.create("likelihoods", name)
    first.fit(fragments)
    content = kept_to_bytes(first.dump())
    second: Likelihood = registry.create("likelihoods", name)
    second.load(kept_from_bytes(content))
    assert kept_to_bytes(second.dump()) == content
    assert isinstance(first, ConjugateLikelihood)
    assert isinstance(second, ConjugateLikelihood)
    said = []
    for model in (first, second):
        table = model.live_clusters()
        told = []
        for slot, fragment in enumerate(later):
            x = table.encode(fragment)
            told.append(table.log_predictive(x, slot).tolist())
            table.extend(x, np.array([-1]), np.array([slot]))
        said.append(told)
    assert said[0] == said[1]
    for model in (first, second):
        assert kept_to_bytes(model.dump()) == content


@pytest.mark.slow
@pytest.mark.parametrize("name", KEEPING)
def test_a_likelihood_reads_what_it_keeps_of_thousands_of_values(name):
    known = spellings(DISTINCT, 1)
    require_kept(name, known, [*spellings(10, 2), *known[:5], *people(4, 3)])


@pytest.mark.parametrize("name", ["ngrams", "selective"])
def test_an_index_reads_what_it_keeps_of_thousands_of_values(name):
    check_kept_index(INDEXES[name])


def check_kept_index(index_type: Callable[[], CandidateIndex]) -> None:
    known = spellings(DISTINCT, 1)
    first = index_type()
    first.fit(known)
    kept = first.dump()
    content = kept_to_bytes(kept)
    second = index_type()
    second.load(kept_from_bytes(content))
    later = [*spellings(10, 2), *known[:5]]
    assert [list(first.keys(x)) for x in later] == [list(second.keys(x)) for x in later]
    for index in (first, second):
        again = index.dump()
        assert kept_to_bytes(again) == content
