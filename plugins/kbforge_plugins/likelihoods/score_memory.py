"""Scores that were given, to be given again: the same bits, and no second evaluation."""

from __future__ import annotations

import sys
from collections import OrderedDict

_ENTRY_BYTES = 150  # of a held score beside the characters of its key


class ScoreMemory:
    """Scores by key, bounded in bytes; the least recently used go first."""

    def __init__(self, most_bytes: int) -> None:
        self._most = most_bytes
        self._bytes = 0
        self._scores: OrderedDict[str, float] = OrderedDict()

    def __len__(self) -> int:
        return len(self._scores)

    def get(self, key: str) -> float | None:
        """The score, if it is still held."""
        found = self._scores.get(key)
        if found is not None:
            self._scores.move_to_end(key)
        return found

    def put(self, key: str, score: float) -> None:
        """Hold a score that is not held yet."""
        self._scores[key] = score
        self._bytes += _bytes(key)
        while self._bytes > self._most and self._scores:
            old, _ = self._scores.popitem(last=False)
            self._bytes -= _bytes(old)


def _bytes(key: str) -> int:
    return sys.getsizeof(key) + _ENTRY_BYTES
