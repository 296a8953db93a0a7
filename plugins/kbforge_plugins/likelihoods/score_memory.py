"""Values by key, in memory: each is computed once and stays, within a bound of bytes."""

from __future__ import annotations

import sys
from collections import OrderedDict
from collections.abc import Callable, Hashable, Mapping
from typing import Generic, TypeVar

from kbforge.contracts import FloatArray

Key = TypeVar("Key", bound=Hashable)
Value = TypeVar("Value")

_MEBIBYTE = 1 << 20
_ENTRY_BYTES = 250  # of a score, beside its key


class BoundedMemory(Generic[Key, Value]):
    """Values by key, bounded in bytes; the least recently used go first."""

    def __init__(self, most_bytes: int) -> None:
        self._most = most_bytes
        self._bytes = 0
        self._entries: OrderedDict[Key, tuple[Value, int]] = OrderedDict()

    def __len__(self) -> int:
        return len(self._entries)

    def get(self, key: Key) -> Value | None:
        """The value, None if it is not in memory."""
        found = self._entries.get(key)
        if found is None:
            return None
        self._entries.move_to_end(key)
        return found[0]

    def put(self, key: Key, value: Value, n_bytes: int) -> None:
        """Add a value of a size, its key included; a key that has a value keeps that one."""
        if key in self._entries:
            self._entries.move_to_end(key)
            return
        self._entries[key] = (value, n_bytes)
        self._bytes += n_bytes
        while self._bytes > self._most:
            _, (_, freed) = self._entries.popitem(last=False)
            self._bytes -= freed


class ScoreMemory(Generic[Key]):
    """Scores by key, in nats; the least recently used are forgotten first.

    What else is in a batch moves the last bits of a score, so the first one computed stays.

    Args:
        most_mb: memory for them, in MiB.

    """

    def __init__(self, most_mb: int) -> None:
        self._memory: BoundedMemory[Key, float] = BoundedMemory(most_mb * _MEBIBYTE)

    def of(
        self, sets: Mapping[Key, Value], score: Callable[[Mapping[Key, Value]], FloatArray]
    ) -> dict[Key, float]:
        """The scores of sets by key; `score` computes the missing ones in one batch."""
        found = {key: self._memory.get(key) for key in sets}
        scores = {key: value for key, value in found.items() if value is not None}
        missing = {key: one for key, one in sets.items() if key not in scores}
        if missing:
            for key, value in zip(missing, score(missing).tolist(), strict=True):
                scores[key] = value
                self._memory.put(key, value, sys.getsizeof(key) + _ENTRY_BYTES)
        return scores
