"""Random numbers by (seed, sweep, fragment, purpose): they do not depend on who draws when.

SplitMix64 (Steele, Lea and Flood 2014), as `mixed` in kbforge/kernel/src/numbers.hpp.
"""

from __future__ import annotations

from enum import IntEnum

_MASK = 2**64 - 1
_PURPOSES = 64


class Purpose(IntEnum):
    """What a fragment's numbers are for; try j has the two numbers from TRY + 2 j on."""

    EXPLORE = 0
    PICK = 1
    COMPONENT = 2
    CHOICE = 3
    ACCEPT = 4
    TRY = 8


def mixed(x: int) -> int:
    """A fixed random-looking number of 64 bits."""
    x = (x + 1) * 0x9E3779B97F4A7C15 & _MASK
    x = (x ^ (x >> 30)) * 0xBF58476D1CE4E5B9 & _MASK
    x = (x ^ (x >> 27)) * 0x94D049BB133111EB & _MASK
    return x ^ (x >> 31)


def stream(seed: int, sweep: int) -> int:
    """Where the numbers of a sweep begin; sweep 0 is the start."""
    return mixed((mixed(seed & _MASK) + sweep) & _MASK)


def uniform(stream: int, fragment: int, purpose: int) -> float:
    """A number in [0, 1), a multiple of 2^-53."""
    return float(mixed((stream + fragment * _PURPOSES + purpose) & _MASK) >> 11) * 2.0**-53
