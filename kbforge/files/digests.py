"""A set that remembers only that it has seen something: 8 bytes a member.

Proving that ids are unique, or dropping repeats, needs memory for every member; a Python set of
strings takes some 120 bytes each, this takes 12 to 24. A member is a keyed 64-bit digest, so two
different members are taken for one with probability n^2 / 2^65: 3e-6 at ten million. The key is
drawn anew for each set, so that no input can be built to collide.
"""

from __future__ import annotations

import os
from array import array
from hashlib import blake2b

_FIRST_SLOTS = 1 << 12


class DigestSet:
    """Open addressing over an array of 64-bit digests; 0 marks a free slot."""

    def __init__(self) -> None:
        self._key = os.urandom(16)
        self._slots = array("Q", bytes(8 * _FIRST_SLOTS))
        self._members = 0

    def __len__(self) -> int:
        return self._members

    def add(self, member: bytes) -> bool:
        """Remember a member; False if it was there before."""
        digest = blake2b(member, digest_size=8, key=self._key).digest()
        value = int.from_bytes(digest, "little") or 1
        if not _insert(self._slots, value):
            return False
        self._members += 1
        if 3 * self._members > 2 * len(self._slots):
            self._grow()
        return True

    def _grow(self) -> None:
        larger = array("Q", bytes(16 * len(self._slots)))
        for value in self._slots:
            if value:
                _insert(larger, value)
        self._slots = larger


def _insert(slots: array[int], value: int) -> bool:
    mask = len(slots) - 1
    slot = value & mask
    while held := slots[slot]:
        if held == value:
            return False
        slot = (slot + 1) & mask
    slots[slot] = value
    return True
