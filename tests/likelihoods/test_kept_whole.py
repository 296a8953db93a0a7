"""What first-party plugins keep of thousands of values is taken up, and kept again as it was."""

from __future__ import annotations

import random

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from kbforge import registry
from kbforge.contracts import CandidateIndex, ConjugateLikelihood, Fragment, Likelihood
from kbforge.store.pages import kept_from_bytes, kept_to_bytes
from kbforge_lm.likelihoods.gpt.scoring import BoundedMemory
from tests.people import people
from tests.profile import examples

DISTINCT = 3000
LONG = "international consortium of independent manufacturers of agricultural machinery"
KEEPING = [
    name
    for name in registry.names("likelihoods")
    if registry.load("likelihoods", name).keeps and name != "gpt"
]
INDEXES = ["ngrams", "selective"]


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
    content = kept_to_bytes(first.kept())
    second: Likelihood = registry.create("likelihoods", name)
    second.take_up(kept_from_bytes(content))
    assert kept_to_bytes(second.kept()) == content
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
        assert kept_to_bytes(model.kept()) == content


@pytest.mark.parametrize("name", KEEPING)
def test_a_likelihood_reads_what_it_keeps_of_thousands_of_values(name: str) -> None:
    known = spellings(DISTINCT, 1)
    require_kept(name, known, [*spellings(10, 2), *known[:5], *people(4, 3)])


@pytest.mark.parametrize("name", INDEXES)
def test_an_index_reads_what_it_keeps_of_thousands_of_values(name: str) -> None:
    check_kept_index(name)


def check_kept_index(name: str) -> None:
    known = spellings(DISTINCT, 1)
    first: CandidateIndex = registry.create("indexes", name)
    first.fit(known)
    kept = first.kept()
    assert kept is not None
    content = kept_to_bytes(kept)
    second: CandidateIndex = registry.create("indexes", name)
    second.take_up(kept_from_bytes(content))
    later = [*spellings(10, 2), *known[:5]]
    assert [list(first.keys(x)) for x in later] == [list(second.keys(x)) for x in later]
    for index in (first, second):
        again = index.kept()
        assert again is not None
        assert kept_to_bytes(again) == content


# The bounded memory against a list.


class Model:
    """The oldest use first; values leave at the front while they are too large together."""

    def __init__(self, most: int) -> None:
        self.most = most
        self.held: list[tuple[str, int, int]] = []

    def use(self, key: str) -> int | None:
        for one in self.held:
            if one[0] == key:
                self.held.remove(one)
                self.held.append(one)
                return one[1]
        return None

    def put(self, key: str, value: int, size: int) -> None:
        if self.use(key) is None:
            self.held.append((key, value, size))
        while sum(size for _, _, size in self.held) > self.most:
            del self.held[0]


USES = st.lists(
    st.tuples(st.booleans(), st.sampled_from("abcdef"), st.integers(0, 60)), max_size=80
)


@given(most=st.integers(0, 150), uses=USES)
@examples(300)
def test_holds_what_was_used_last_within_its_bound(
    most: int, uses: list[tuple[bool, str, int]]
) -> None:
    memory: BoundedMemory[str, int] = BoundedMemory(most)
    model = Model(most)
    for number, (is_put, key, size) in enumerate(uses):
        if is_put:
            memory.put(key, number, size)
            model.put(key, number, size)
        else:
            assert memory.get(key) == model.use(key)
        assert len(memory) == len(model.held)
    for key, value, _ in list(model.held):
        assert memory.get(key) == value
