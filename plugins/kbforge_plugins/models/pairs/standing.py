"""Features of how a pair stands among others: is each the other's best, and by how much?"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from kbforge.contracts import FloatArray, IntArray
from kbforge_plugins.models.pairs.keeping import Reading, Writing

STANDING_FEATURES = tuple(
    f"{way} {what}"
    for way in ("letters", "words")
    for what in (*("rank least", "rank most", "gap least", "gap most", "near least", "near most"),)
)
_CLOSE = 0.08
_SAME = 1e-9


@dataclass(frozen=True, slots=True)
class Standings:
    """By row and way of being near, the cosines of the nearest rows, descending, -1 where none."""

    letters: FloatArray
    words: FloatArray

    def take(self, rows: IntArray) -> Standings:
        return Standings(self.letters[rows], self.words[rows])

    @classmethod
    def joined(cls, some: Sequence[Standings]) -> Standings:
        """The rows of all, one after the other."""
        return cls(
            np.concatenate([one.letters for one in some]),
            np.concatenate([one.words for one in some]),
        )

    def keep(self, into: Writing) -> None:
        """Write what `taken` reads."""
        into.array("letters", self.letters)
        into.array("words", self.words)

    @classmethod
    def taken(cls, kept: Reading, rows: int, nearest: int) -> Standings:
        """What `keep` has written.

        Raises:
            ModelError: it is damaged.

        """
        ways = (kept.array(name, np.float64, rows, nearest) for name in ("letters", "words"))
        return cls(*ways)


def standing_features(
    a: Standings, b: Standings, letters: FloatArray, words: FloatArray
) -> list[FloatArray]:
    """`STANDING_FEATURES`.

    Args:
        a: of the one row of each pair.
        b: of the other.
        letters: the cosine of each pair's names' trigrams.
        words: the cosine of each pair's words.

    """
    out = []
    for one, other, value in ((a.letters, b.letters, letters), (a.words, b.words, words)):
        parts = [_standing(nearest, value) for nearest in (one, other)]
        for x, y in zip(*parts, strict=True):
            out += [np.minimum(x, y), np.maximum(x, y)]
    return out


def _standing(nearest: FloatArray, value: FloatArray) -> tuple[FloatArray, FloatArray, FloatArray]:
    """Better ones, the gap to the best of the others, and how many are about as near."""
    better = (nearest > value[:, None] + _SAME).sum(axis=1).astype(np.float64)
    best = nearest.max(axis=1, initial=-1.0)
    second = nearest[:, 1] if nearest.shape[1] > 1 else np.full(len(nearest), -1.0)
    others = np.where(value >= best - _SAME, second, best)
    gap = value - np.maximum(others, 0.0)
    near = (np.abs(nearest - value[:, None]) <= _CLOSE).sum(axis=1).astype(np.float64)
    return better, gap, near
