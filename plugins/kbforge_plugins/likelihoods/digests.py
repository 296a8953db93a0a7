"""Texts as numbers of 63 bits, and what was learned of many texts as arrays in the order of these.

The digest of a text is the same on every machine and whoever was asked about before. Two texts of n
have the same one with probability n^2 / 2^64, which is 3e-7 for ten million.
"""

from __future__ import annotations

import hashlib
from bisect import bisect_left
from collections.abc import Iterable
from typing import TypeAlias

import numpy as np

from kbforge.contracts import IntArray

LARGEST = 2**63 - 1
_NOTHING_YET = hashlib.blake2b(digest_size=8)


def digest_of(text: str) -> int:
    """The digest, from 0 to `LARGEST`."""
    hasher = _NOTHING_YET.copy()  # thrice as fast as a new one
    hasher.update(text.encode("utf-8", "surrogatepass"))
    return int.from_bytes(hasher.digest()) >> 1


Begun: TypeAlias = "hashlib.blake2b"
"""The digest of a text's beginning."""


def begun_digest(beginning: str) -> Begun:
    """What `digest_after` goes on from."""
    return hashlib.blake2b(beginning.encode("utf-8", "surrogatepass"), digest_size=8)


def digest_after(begun: Begun, rest: str) -> int:
    """The digest of a beginning and the rest of a text."""
    hasher = begun.copy()
    hasher.update(rest.encode("utf-8", "surrogatepass"))
    return int.from_bytes(hasher.digest()) >> 1


def digests_of(texts: Iterable[str]) -> IntArray:
    """The digests of some texts, shape [texts]."""
    return np.fromiter(map(digest_of, texts), np.int64)


class Places:
    """Where a text stands among those that were learned of, by its digest.

    Args:
        digests: ascending, shape [texts].

    Attributes:
        digests: as given.

    """

    def __init__(self, digests: IntArray) -> None:
        self.digests = digests
        self._looked_up = memoryview(digests)  # type: ignore[arg-type]  # numpy has buffers
        self._n = len(digests)

    def __len__(self) -> int:
        return self._n

    def __contains__(self, text: str) -> bool:
        return self.of(text) >= 0

    def of(self, text: str) -> int:
        """Its place, -1 if it is none of them."""
        if not self._n:
            return -1
        digest = digest_of(text)
        place = bisect_left(self._looked_up, digest)
        return place if place < self._n and self._looked_up[place] == digest else -1


def nowhere() -> Places:
    """No text has a place."""
    return Places(np.zeros(0, np.int64))
