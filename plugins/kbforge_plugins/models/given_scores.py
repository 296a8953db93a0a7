"""Scores that were given for sets: each is computed once and stays, within a bound of bytes."""

from __future__ import annotations

import sys
from collections.abc import Callable, Mapping
from typing import Generic, TypeVar

from kbforge.contracts import FloatArray
from kbforge_plugins.models.bounded_memory import BoundedMemory

Key = TypeVar("Key", str, bytes)
Value = TypeVar("Value")

_MEBIBYTE = 1 << 20
_ENTRY_BYTES = 250  # of a score held, beside its key


class GivenScores(Generic[Key]):
    """Scores by key, in nats; the least recently used are forgotten first.

    What else is in a batch moves the last bits of a score, so the first one given stays.

    Args:
        most_mb: memory for them, in MiB.

    """

    def __init__(self, most_mb: int) -> None:
        self._memory: BoundedMemory[Key, float] = BoundedMemory(most_mb * _MEBIBYTE)

    def of(
        self, sets: Mapping[Key, Value], score: Callable[[Mapping[Key, Value]], FloatArray]
    ) -> dict[Key, float]:
        """The scores of sets by key; those that are not held are asked for in one batch."""
        held = {key: self._memory.get(key) for key in sets}
        known = {key: value for key, value in held.items() if value is not None}
        unknown = {key: one for key, one in sets.items() if key not in known}
        if unknown:
            for key, value in zip(unknown, score(unknown).tolist(), strict=True):
                known[key] = value
                self._memory.put(key, value, sys.getsizeof(key) + _ENTRY_BYTES)
        return known
