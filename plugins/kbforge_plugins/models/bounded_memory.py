"""What was computed, to be given again: the same bits, and no second computation."""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Hashable
from typing import Generic, TypeVar

Key = TypeVar("Key", bound=Hashable)
Value = TypeVar("Value")


class BoundedMemory(Generic[Key, Value]):
    """Values by key, bounded in bytes; the least recently used go first."""

    def __init__(self, most_bytes: int) -> None:
        self._most = most_bytes
        self._bytes = 0
        self._held: OrderedDict[Key, tuple[Value, int]] = OrderedDict()

    def __len__(self) -> int:
        return len(self._held)

    def get(self, key: Key) -> Value | None:
        """The value, if it is still held."""
        found = self._held.get(key)
        if found is None:
            return None
        self._held.move_to_end(key)
        return found[0]

    def put(self, key: Key, value: Value, n_bytes: int) -> None:
        """Hold a value of a size, its key included; one that is held stays and counts as used."""
        if key in self._held:
            self._held.move_to_end(key)
            return
        self._held[key] = (value, n_bytes)
        self._bytes += n_bytes
        while self._bytes > self._most:
            _, (_, freed) = self._held.popitem(last=False)
            self._bytes -= freed
