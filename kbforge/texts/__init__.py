"""Hashes texts to 63 bits, and folds characters.

*Digests* are the same on every machine. Two of n texts share one with probability n^2 / 2^64,
3e-7 for ten million. `Places` stores arrays of many texts in the order of their digests.

*Normalised* texts keep letters and digits of every script; the published model of n-grams folds
text to `[a-z0-9 -]`, which would leave a name in Greek or Chinese empty. Accents and case are
folded away, dashes become hyphens, other punctuation disappears.
"""

from __future__ import annotations

import hashlib
import unicodedata
from bisect import bisect_left
from collections.abc import Iterable, Sequence

import numpy as np

from kbforge.contracts import IntArray
from kbforge.kernel.binding import address, kernel_library
from kbforge.numerics import starts_of

LARGEST = 2**63 - 1
_EMPTY = hashlib.blake2b(digest_size=8)


def digest_of(text: str) -> int:
    """The digest, from 0 to `LARGEST`."""
    hasher = _EMPTY.copy()  # three times as fast as a new one
    hasher.update(text.encode("utf-8", "surrogatepass"))
    return int.from_bytes(hasher.digest()) >> 1


def digests_of(texts: Iterable[str]) -> IntArray:
    """The digests of some texts, shape [texts]; computed in the kernel."""
    return digests_of_bytes([text.encode("utf-8", "surrogatepass") for text in texts])


def digests_of_bytes(encoded: Sequence[bytes]) -> IntArray:
    """The digests of some texts in UTF-8, shape [texts]."""
    starts, out = starts_of(list(map(len, encoded))), np.empty(len(encoded), dtype=np.int64)
    kernel_library().kb_digests(len(out), address(starts), b"".join(encoded), address(out))
    return out


class Places:
    """The places of texts among ascending digests, shape [texts]."""

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

    def of_digests(self, digests: IntArray) -> IntArray:
        """The places of digests, shape [digests]; -1 for others."""
        if not self._n:
            return np.full(len(digests), -1)
        places = np.searchsorted(self.digests, digests).clip(max=self._n - 1)
        return np.where(self.digests[places] == digests, places, -1)


def nowhere() -> Places:
    """No text has a place."""
    return Places(np.zeros(0, np.int64))


START = "\x02"
END = "\x03"


def normalised(value: str) -> str:
    """Fold case, accents and punctuation; may be empty.

    >>> normalised(" Łódź–Widzew  (F.C.) ")
    'łodz-widzew fc'
    """
    if value.isascii():  # most text; the general rule gives the same
        return " ".join(value.translate(_FOLDED_ASCII).split())
    text = unicodedata.normalize("NFKD", value).casefold()
    text = unicodedata.normalize("NFKD", text)
    return " ".join("".join(map(_folded, text)).split())


def _folded(character: str) -> str:
    if character.isalnum() or character in " -":
        return character
    if character.isspace():
        return " "
    category = unicodedata.category(character)
    if category == "Pd":
        return "-"
    # vowel signs of Indic scripts are marks, but do not combine in Unicode's sense
    if category[0] == "M" and not unicodedata.combining(character):
        return character
    return ""


_FOLDED_ASCII = {point: _folded(chr(point).lower()) for point in range(128)}
