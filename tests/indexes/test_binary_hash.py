"""Binary hashes of texts: how often two fragments share a key is what the angle says."""

from __future__ import annotations

import math

import pytest

from kbforge.contracts import Fragment
from kbforge.errors import UsageError
from kbforge_plugins.indexes.binary_hash import BinaryHash


def text(*words: str) -> Fragment:
    return Fragment("x", {"text": (" ".join(words),)})


@pytest.mark.parametrize(("shared", "rows"), [(0, 1), (2, 1), (3, 2), (4, 3)])
def test_keys_are_shared_as_often_as_the_angle_says(shared: int, rows: int) -> None:
    """Of four words `shared` are the same; within four standard errors, over 512 keys."""
    index = BinaryHash(rows=rows, bands=512, weighted=False)
    one = text("a0", "a1", "a2", "a3")
    other = text(*(f"a{i}" if i < shared else f"b{i}" for i in range(4)))
    p = (1 - math.acos(shared / 4) / math.pi) ** rows
    found = len(set(index.keys(one)) & set(index.keys(other)))
    assert abs(found - 512 * p) <= 4 * math.sqrt(512 * p * (1 - p)) + 1e-9


def test_rare_words_count_for_more() -> None:
    crowd = [Fragment(f"f{i}", {"text": (f"common w{i}",)}) for i in range(200)]
    index = BinaryHash(rows=1, bands=512)
    index.fit(crowd)
    one = set(index.keys(text("common", "w1", "rare")))
    rare, common = (set(index.keys(text("w2", "w3", word))) for word in ("rare", "common"))
    assert len(one & rare) > len(one & common) + 60


def test_bad_options_name_the_index() -> None:
    with pytest.raises(UsageError, match="index binary-hash: rows: expected 1 to 16, got 0"):
        BinaryHash(rows=0)
