"""What an index leaves out, where it is known: an index of everything, of nothing, of some."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from kbforge.contracts import CandidateIndex, Fragment, ModelSpec
from kbforge_plugins.likelihoods.names import Names
from tests.scripts import script

PEOPLE = 20


class By(CandidateIndex):
    """One key a fragment, by its number."""

    families = 10_000

    def __init__(self, key: Callable[[int], int]) -> None:
        self._key = key

    def keys(self, fragment: Fragment) -> list[int]:
        return [self._key(int(fragment.id))]


def fragments(rounds: int = 5) -> list[Fragment]:
    """One record of each person, then another of each, and so on."""
    return [Fragment(str(i), {"name": (f"person {i % PEOPLE}",)}) for i in range(PEOPLE * rounds)]


@pytest.mark.parametrize(
    ("key", "found"),
    [
        (lambda _: 1, 1.0),
        (lambda number: number, 0.0),
        (lambda number: number % PEOPLE if number % PEOPLE < 15 else number, 0.75),
    ],
    ids=["everything", "nothing", "three in four"],
)
def test_recall_is_the_share_that_the_keys_lead_to(key, found):
    """Every person is known when a round begins, and equal names are one entity."""
    spec = ModelSpec(Names(), 1.0, index=By(key))
    recall = script("index_recall").recall_of_steps(fragments(), spec, places=1, steps=PEOPLE)
    assert recall.steps == PEOPLE
    assert recall.best == found
    assert recall.mass == pytest.approx(found, abs=0.01)
    # whom the index leads to has competing clusters, which count one each
    assert recall.kept == found if found in (0, 1) else 0 < recall.kept < 1
