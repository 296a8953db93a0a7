"""The clusters that an index retrieves for a fragment.

A key leads to *families*: all live clusters with the same first fragment. A cluster only grows from
one with the same first fragment, so a family keeps its name whatever happens to its clusters.

One key in common is weak evidence, so families that several keys lead to are preferred. A key that
leads to more families than the index allows is closed: it gets no further ones, and is followed
only if the fragment's open keys lead nowhere, so that a fragment of common values alone is still
compared with something. Only families in the heaviest particles count towards that: ten fragments
of one entity are up to ten families, since improbable particles have each alone.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import TypeAlias

import numpy as np
from numpy.typing import NDArray

from kbforge.contracts import CandidateIndex, IntArray, KeyFamilies

InHeaviest: TypeAlias = Callable[[IntArray], NDArray[np.bool_]]
"""Which of some slots hold a cluster of the heaviest particle of its subproblem."""


@dataclass(frozen=True, slots=True)
class KeyLookup:
    """Where a fragment's keys lead.

    `slots` are the clusters to compare it with, ascending; `families` the live families of each key
    that was looked into; `followed` all families that its keys were followed to, live or not.
    """

    slots: IntArray
    open: Sequence[int]
    closed: Sequence[int]
    families: Mapping[int, list[int]]
    followed: Iterable[int]


class Candidates:
    """What the keys of an index lead to in one run."""

    def __init__(self, index: CandidateIndex) -> None:
        self._index = index
        self._families: dict[int, list[int]] = {}
        self._closed: set[int] = set()
        self._live: dict[int, set[int]] = {}
        self._family: dict[int, int] = {}
        # keys that may lead elsewhere than at the last checkpoint; None: there was none
        self._changed: set[int] | None = None

    def look_up(self, keys: Sequence[int], in_heaviest: InHeaviest) -> KeyLookup:
        """Where a fragment's keys lead. Nothing changes until it is given to `extend`."""
        families: dict[int, list[int]] = {}
        left = [key for key in keys if key not in self._closed]
        closed = [key for key in left if self._leads_too_far(key, families, in_heaviest)]
        left = [key for key in left if key not in closed]
        led = self._counted(left)
        followed = self.families_of(left if led else keys)
        if led:
            enough = {family: n for family, n in led.items() if n >= self._index.shared}
            led = enough or led
        else:
            led = self._counted(keys)
        live = self._live
        slots = [slot for family in self._nearest(led) for slot in live.get(family, ())]
        slots.sort()
        return KeyLookup(np.array(slots, dtype=np.int64), left, closed, families, followed)

    def families_of(self, keys: Iterable[int], closed: bool = True) -> Iterable[int]:
        """The families that keys lead to, live or not; those of closed keys only if `closed`."""
        return (
            family
            for key in keys
            if closed or key not in self._closed
            for family in self._families.get(key, ())
        )

    def extend(self, reached: KeyLookup, families: IntArray, children: IntArray) -> None:
        """Clusters children[k] of families[k] now exist and hold the fragment looked up."""
        self._families.update(reached.families)
        self._closed.update(reached.closed)
        for family, child in zip(families.tolist(), children.tolist(), strict=True):
            self._family[child] = family
            self._live.setdefault(family, set()).add(child)
        for family in dict.fromkeys(families.tolist()):
            for key in reached.open:
                led = self._families.setdefault(key, [])
                if family not in led:
                    led.append(family)
        if self._changed is not None:
            self._changed.update(reached.families, reached.open, reached.closed)

    def release(self, slots: IntArray) -> None:
        """These clusters no longer exist."""
        for slot in slots.tolist():
            family = self._family.pop(slot)
            left = self._live[family]
            left.discard(slot)
            if not left:
                del self._live[family]

    def hold(self, families: Mapping[int, int]) -> None:
        """These slots' clusters exist, too; by slot, their families."""
        self._family.update(families)
        for slot, family in families.items():
            self._live.setdefault(family, set()).add(slot)

    def put(self, led: Mapping[int, KeyFamilies], changes: bool) -> None:
        """Keys lead there from now on; `changes`: they led elsewhere before."""
        for key, known in led.items():
            self._families.pop(key, None)
            self._closed.discard(key)
            if known.families:
                self._families[key] = list(known.families)
            if known.closed:
                self._closed.add(key)
        if changes and self._changed is not None:
            self._changed.update(led)

    def contents(self) -> dict[int, KeyFamilies]:
        """Where all known keys lead that lead anywhere."""
        return self.led_of(sorted(self._families))

    def changed(self) -> dict[int, KeyFamilies]:
        """Where keys lead that may lead elsewhere than when this was last asked; at first, all."""
        led = self.led_of(sorted(self._families if self._changed is None else self._changed))
        self._changed = set()
        return led

    def led_of(self, keys: Iterable[int]) -> dict[int, KeyFamilies]:
        """Where these keys lead."""
        families = self._families
        return {key: KeyFamilies(tuple(families.get(key, ())), key in self._closed) for key in keys}

    def _counted(self, keys: Iterable[int]) -> dict[int, int]:
        """By live family that keys lead to, how many of them do."""
        live, led = self._live, dict[int, int]()
        for key in keys:
            for family in self._families.get(key, ()):
                if family in live:
                    led[family] = led.get(family, 0) + 1
        return led

    def _nearest(self, led: Mapping[int, int]) -> Iterable[int]:
        """Of these, at most as many as a fragment is compared with."""
        most = self._index.compared
        if not most or len(led) <= most:
            return led
        return sorted(led, key=lambda family: (-led[family], family))[:most]

    def _leads_too_far(
        self, key: int, families: dict[int, list[int]], in_heaviest: InHeaviest
    ) -> bool:
        """Whether an open key leads to too many live families, which are noted in `families`."""
        led, most = self._families.get(key, ()), self._index.families
        if len(led) <= most:
            return False
        led = families[key] = [family for family in led if family in self._live]
        if len(led) <= most:
            return False
        slots = np.array([slot for family in led for slot in self._live[family]], dtype=np.int64)
        heaviest = slots[in_heaviest(slots)]
        return len({self._family[slot] for slot in heaviest.tolist()}) > most
