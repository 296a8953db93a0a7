"""Digests and features of many values are those of each by itself."""

from __future__ import annotations

import hashlib
from itertools import pairwise

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from kbforge.kernel.binding import WORKERS
from kbforge.testing.examples import HOSTILE_VALUES
from kbforge.texts import digest_of, digests_of
from kbforge.texts.features import features_of_each, numbered
from kbforge.texts.kinds import KINDS, Kind, feature_names, features_of, normalised
from tests.profile import examples

ANYTHING = st.text(max_size=60) | st.sampled_from(HOSTILE_VALUES)


def test_digests_of_texts_of_any_length():
    texts = ["\ud800é" + "x" * n for n in range(300)]
    long = [text.encode("utf-8", "surrogatepass") for text in texts]
    hashes = [hashlib.blake2b(one, digest_size=8).digest() for one in long]
    assert digests_of(texts).tolist() == [int.from_bytes(one) >> 1 for one in hashes]
    assert digests_of(texts).tolist() == list(map(digest_of, texts))


@pytest.mark.parametrize("kind", KINDS)
@given(raw=st.lists(ANYTHING | st.text("ab -'é1中\u0301", max_size=12), max_size=8))
@examples(60)
def test_features_of_each_value(kind: Kind, raw: list[str]):
    values, names = list(map(normalised, raw)), feature_names(kind)
    beginnings = [f"é{name}\0" for name in names]
    found = features_of_each(kind, values, beginnings)
    expected = [
        [
            (names.index(name), digest_of(f"é{name}\0{key}"))
            for name, keys in features_of(kind, value).items()
            for key in keys
        ]
        for value in values
    ]
    all_of = list(zip(found.names.tolist(), found.digests.tolist(), strict=True))
    starts = found.starts.tolist()
    assert [all_of[a:b] for a, b in pairwise(starts)] == expected


@pytest.mark.parametrize("kind", ["text", "title"])
def test_more_values_than_are_read_at_once(kind: Kind):
    values = [" ".join(f"w{k}{i}" for i in range(k % 40)) for k in range(20_000)]
    beginnings = list(feature_names(kind))
    found = features_of_each(kind, values, beginnings)
    (last,) = features_of_each(kind, values[-1:], beginnings).starts[1:]
    assert len(found.starts) == len(values) + 1
    assert found.starts[-1] == len(found.names) == len(found.digests)
    assert found.starts[-1] - found.starts[-2] == last


@given(st.lists(st.integers(0, 2**63 - 1) | st.integers(0, 9), max_size=200))
def test_digests_are_numbered_as_by_sorting(digests: list[int]):
    given_ = np.array(digests, np.int64)
    different, numbers = numbered(given_)
    expected = np.unique(given_, return_inverse=True)
    assert different.tolist() == expected[0].tolist()
    assert numbers.tolist() == expected[1].ravel().tolist()


def test_features_are_the_same_on_any_number_of_threads(monkeypatch: pytest.MonkeyPatch):
    values = [" ".join(f"w{k * i}" for i in range(k % 40)) for k in range(3_000)]
    found = []
    for threads in ("1", "2", "5"):
        monkeypatch.setenv(WORKERS, threads)
        found.append(features_of_each("text", values, list(feature_names("text"))))
    for other in found[1:]:
        for one, same in zip(found[0], other, strict=True):
            assert np.array_equal(one, same)
