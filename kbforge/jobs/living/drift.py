"""Drift: how far new fragments differ from those that the models learned from.

Two shares an attribute are compared. *Stated* is the share of fragments that have the attribute.
*New* is the share of values that are new: of what was learned from, the values seen once, which is
the Good-Turing estimate of what one more value would be (Good 1953); of what came since, the values
that the models have not seen. The drift is the largest difference of any share, less two standard
errors of a share among what came since.

Values that were seen are kept as bits, two a value, of sixteen a value: of values never seen about
one in seventy passes for seen.
"""

from __future__ import annotations

import hashlib
import math
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np
from numpy.typing import NDArray

from kbforge.contracts import Fragment

WORTH_IT = 0.1
"""A drift from which on learning again is worth it."""
GROWN = 2.0
"""So many times the fragments that were learned from make it worth it, too."""
LEAST = 30
"""Of fewer fragments that came since, shares say nothing."""
_MOST_ATTRIBUTES = 200
_BITS = 16
_LEAST_BITS = 1 << 10
_MOST_BITS = 1 << 30


@dataclass(slots=True)
class Tally:
    """One attribute.

    Attributes:
        stated: fragments that have it.
        values: of them, statements counted.
        new: values seen once, or for what came since, values never seen.

    """

    stated: int = 0
    values: int = 0
    new: int = 0


@dataclass(slots=True)
class Drift:
    """Tallies of what was learned from, and of what came since.

    Attributes:
        fragments: learned from.
        due: of them, those that have not come themselves yet: a store learns from a whole file
            before it takes in the first fragment.
        came: since.
        learned: by attribute.
        since: likewise.
        seen: bits of the values that were learned from.

    """

    fragments: int
    due: int
    came: int
    learned: dict[str, Tally]
    since: dict[str, Tally]
    seen: NDArray[np.uint8] = field(repr=False)

    def add(self, fragment: Fragment) -> None:
        """A fragment has come."""
        if self.due:
            self.due -= 1
            return
        self.came += 1
        for attribute, values in fragment.properties.items():
            tally = self.since.get(attribute)
            if tally is None:
                if len(self.since) >= _MOST_ATTRIBUTES:
                    continue
                tally = self.since[attribute] = Tally()
            tally.stated += 1
            for value in values:
                tally.values += 1
                tally.new += not all(
                    self.seen[bit >> 3] >> (bit & 7) & 1
                    for bit in _bits(attribute, value, 8 * len(self.seen))
                )

    @property
    def figures(self) -> dict[str, float]:
        """By attribute, the larger of its two differences, from 0 to 1."""
        out = {}
        for attribute in sorted({*self.learned, *self.since}):
            old = self.learned.get(attribute, Tally())
            new = self.since.get(attribute, Tally())
            out[attribute] = max(
                _apart(old.stated, self.fragments, new.stated, self.came),
                _apart(old.new, old.values, new.new, new.values),
            )
        return out

    @property
    def figure(self) -> float:
        """The drift, from 0 to 1."""
        return max(self.figures.values(), default=0.0)

    @property
    def worth_it(self) -> bool:
        """Whether learning again is worth it."""
        grown = self.came > (GROWN - 1) * self.fragments
        return self.came >= LEAST and (grown or self.figure > WORTH_IT)

    def to_json(self) -> dict[str, Any]:
        """As a store has it."""
        return {
            "fragments": self.fragments,
            "due": self.due,
            "came": self.came,
            "learned": _told(self.learned),
            "since": _told(self.since),
        }

    @classmethod
    def from_json(cls, told: Mapping[str, Any], seen: NDArray[np.uint8]) -> Drift:
        """As `to_json` told it.

        Args:
            told: the tallies.
            seen: the bits.

        """
        learned, since = (
            {name: Tally(*numbers) for name, numbers in told[which].items()}
            for which in ("learned", "since")
        )
        return cls(told["fragments"], told["due"], told["came"], learned, since, seen)


def drift_of(fragments: Sequence[Fragment], due: bool) -> Drift:
    """Nothing has come since the models learned from these.

    Args:
        fragments: learned from.
        due: whether they are yet to come.

    """
    stated: Counter[str] = Counter()
    counts: dict[str, Counter[str]] = {}
    for fragment in fragments:
        for attribute, values in fragment.properties.items():
            stated[attribute] += 1
            counts.setdefault(attribute, Counter()).update(values)
    common = sorted(stated, key=lambda a: (-stated[a], a))[:_MOST_ATTRIBUTES]
    different = sum(map(len, counts.values()))
    size = min(max(_BITS * different, _LEAST_BITS), _MOST_BITS)
    size = 1 << math.ceil(math.log2(size))
    seen = np.zeros(size // 8, dtype=np.uint8)
    for attribute, counter in counts.items():
        for value in counter:
            for bit in _bits(attribute, value, size):
                seen[bit >> 3] |= 1 << (bit & 7)
    learned = {
        a: Tally(stated[a], counts[a].total(), sum(n == 1 for n in counts[a].values()))
        for a in sorted(common)
    }
    return Drift(len(fragments), len(fragments) * due, 0, learned, {}, seen)


def _bits(attribute: str, value: str, size: int) -> tuple[int, int]:
    text = f"{attribute}\0{value}".encode(errors="surrogatepass")
    digest = hashlib.blake2b(text, digest_size=16).digest()
    return int.from_bytes(digest[:8]) % size, int.from_bytes(digest[8:]) % size


def _apart(old: int, of_old: int, new: int, of_new: int) -> float:
    """How much two shares differ, less two standard errors of the second."""
    if not of_old or not of_new:
        return 0.0
    a, b = old / of_old, new / of_new
    pooled = (old + new) / (of_old + of_new)
    return max(abs(a - b) - 2 * math.sqrt(pooled * (1 - pooled) / of_new), 0.0)


def _told(tallies: Mapping[str, Tally]) -> dict[str, list[int]]:
    return {name: [t.stated, t.values, t.new] for name, t in sorted(tallies.items())}
