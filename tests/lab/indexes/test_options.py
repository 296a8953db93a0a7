"""Hashing indexes of words keep the rules that all indexes share."""

from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from kbforge.contracts import CandidateIndex, Fragment
from kbforge.errors import UsageError
from kbforge.indexes import make_index
from kbforge_lab.minhash import INDEXES, MinHash
from tests.indexes.test_options import SAID, check_equal_fragments, check_keys, check_seeds
from tests.likelihoods.test_kept_whole import check_kept_index
from tests.profile import examples


def make(name: str, **options: object) -> CandidateIndex:
    return make_index(name, options, INDEXES)


BAD: list[tuple[str, dict[str, Any], str]] = [
    ("binary-hash", {"rows": 0}, "rows: expected 1 to 16, got 0"),
    ("binary-hash", {"part": 0.0}, "part: expected above 0 to 1, got 0.0"),
    ("binary-hash", {"part": 1.5}, "part: expected above 0 to 1, got 1.5"),
    ("minhash", {"shared": 0}, "shared: expected at least 1, got 0"),
    ("minhash", {"seed": -1}, "seed: expected at least 0, got -1"),
    ("minhash", {"single": -1}, "single: expected at least 0, got -1"),
    ("minhash", {"rows": 0}, "rows: expected 1 to 16, got 0"),
    ("minhash", {"bands": 513}, "bands: expected 1 to 512, got 513"),
    ("minhash", {"order": 9}, "order: expected 1 to 8, got 9"),
]


@pytest.mark.parametrize(("name", "options", "sentence"), BAD)
def test_bad_options(name, options, sentence):
    with pytest.raises(UsageError) as error:
        make(name, **options)
    assert str(error.value) == f"index {name}: {sentence}"


@pytest.mark.parametrize(
    ("name", "one", "other", "alike"),
    [
        ("binary-hash", {"part": 0.3}, {"part": 0.3, "compared": 0}, True),
        ("binary-hash", {"part": 0.3}, {"part": 0.4}, False),
        ("binary-hash", {"rows": 8}, {"rows": 9}, False),
        ("minhash", {"seed": 1}, {"seed": 1, "compared": 0}, True),
        ("minhash", {"seed": 1}, {"seed": 2}, False),
        ("minhash", {"single": 1}, {"single": 2}, False),
    ],
)
def test_indexes_are_alike_by_the_options_that_keys_depend_on(name, one, other, alike):
    first, second = make(name, **one), make(name, **other)
    assert first.like(second) is second.like(first) is alike


def test_equal_fragments_lead_to_their_one_entity():
    check_equal_fragments(make("minhash", bands=4))


FITTED: list[tuple[str, dict[str, Any], int, int]] = [  # and how many keys a fragment has
    ("binary-hash", {"rows": 3, "bands": 20}, 1, 20),
    ("binary-hash", {"rows": 16, "bands": 20}, 1, 20),
    ("minhash", {"order": 2, "bands": 8}, 8, 8),
    ("minhash", {"unit": "character", "order": 2, "bands": 8}, 8, 8),
]


@pytest.mark.parametrize(("name", "options", "fewest", "most"), FITTED)
@examples(30)
@given(said=st.lists(SAID, min_size=2, max_size=9))
def test_keys_of_many_are_those_of_each_whoever_was_asked_about(name, options, fewest, most, said):
    check_keys(make(name, **options), fewest, most, said)


@pytest.mark.parametrize("name", ["binary-hash", "minhash"])
def test_keys_of_many_are_those_of_few(name):
    """However many features are drawn at once."""
    words = [[f"w{(7 * i + k) % 97}" for k in range(i % 40)] for i in range(1000)]
    fragments = [Fragment("x", {"text": (" ".join(some),)}) for some in words]
    index = make(name)
    index.fit(fragments)
    starts, keys = index.keys_of(fragments)
    parts = [index.keys_of(fragments[i : i + 10]) for i in range(0, 1000, 10)]
    assert keys.tolist() == np.concatenate([found for _, found in parts]).tolist()
    lengths = np.concatenate([np.diff(begins) for begins, _ in parts])
    assert np.diff(starts).tolist() == lengths.tolist()


def test_seeds_draw_other_keys():
    check_seeds(MinHash, 0)


def test_an_index_reads_what_it_keeps_of_thousands_of_values():
    check_kept_index(MinHash)
