"""Keys by the pair model, of one fragment and of many."""

from __future__ import annotations

import itertools

import pytest

from kbforge.contracts import Fragment
from kbforge_plugins.likelihoods.pairs.likelihood import Pairs
from tests.people import people


@pytest.mark.parametrize("known", [0, 60, 200])
def test_keys_of_many_are_those_of_each(known: int) -> None:
    """Where the file has all of them, and where it does not."""
    fragments = [*people(70, 5, error=0.3), Fragment("empty", {})]
    model = Pairs()
    model.fit(fragments[:known] if known < len(fragments) else fragments)
    for some in (fragments[:known], fragments, fragments[:1], []):
        starts, keys = model.index.keys_of(some)
        told = [keys[a:b].tolist() for a, b in itertools.pairwise(starts)]
        assert told == [list(model.index.keys(f)) for f in some]
