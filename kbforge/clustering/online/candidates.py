"""Candidates: the clusters that an index leads to, growing with the run.

A key leads to *families*: all live clusters with the same first fragment. A cluster only ever
grows from one with the same first fragment, so a family's name never changes, whatever happens to
its clusters, and a key need not be told when they do.

One key in common is weak evidence, so families that several keys lead to are preferred. A key that
leads to more families than the index allows is closed: no further ones are added, and it is
followed only if the fragment's open keys lead nowhere, so that a fragment of common values alone is
still compared with something.

Only families in the heaviest particles count towards that. Ten fragments of one entity are up to
ten families, since improbable particles have each alone; the heaviest have one.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from typing import TypeAlias

import numpy as np
from numpy.typing import NDArray

from kbforge.contracts import CandidateIndex, Fragment, IntArray

InHeaviest: TypeAlias = Callable[[IntArray], NDArray[np.bool_]]
"""Which of some slots hold a cluster of the heaviest particle of its subproblem."""


class Candidates:
    """What the keys of an index lead to in one run."""

    def __init__(self, index: CandidateIndex) -> None:
        self._index = index
        self._families: dict[int, list[int]] = {}
        self._closed: set[int] = set()
        self._live: dict[int, set[int]] = {}
        self._family: dict[int, int] = {}
        self._open: Sequence[int] = ()  # keys of the fragment turned to

    def turn_to(self, fragment: Fragment, in_heaviest: InHeaviest) -> IntArray:
        """The slots of the clusters to compare the next fragment with, ascending, shape [slots].

        It may close keys, so it is asked once a fragment.
        """
        keys = self._index.keys(fragment)
        for key in keys:
            if key not in self._closed and self._leads_too_far(key, in_heaviest):
                self._closed.add(key)
        self._open = [key for key in keys if key not in self._closed]
        families = self._reached(keys)
        live = self._live
        slots = [slot for family in families for slot in live.get(family, ())]
        slots.sort()
        return np.array(slots, dtype=np.int64)

    def extend(self, families: IntArray, children: IntArray) -> None:
        """Clusters children[k] of families[k] now exist and hold the fragment turned to."""
        for family, child in zip(families.tolist(), children.tolist(), strict=True):
            self._family[child] = family
            self._live.setdefault(family, set()).add(child)
        for family in dict.fromkeys(families.tolist()):
            for key in self._open:
                led = self._families.setdefault(key, [])
                if family not in led:
                    led.append(family)

    def release(self, slots: IntArray) -> None:
        """These clusters no longer exist."""
        for slot in slots.tolist():
            family = self._family.pop(slot)
            left = self._live[family]
            left.discard(slot)
            if not left:
                del self._live[family]

    def _reached(self, keys: Sequence[int]) -> Iterable[int]:
        """The live families that enough open keys lead to, else any, else those of closed keys."""
        live, led = self._live, dict[int, int]()
        for key in self._open:
            for family in self._families.get(key, ()):
                if family in live:
                    led[family] = led.get(family, 0) + 1
        if led:
            return [family for family, keys in led.items() if keys >= self._index.shared] or led
        return {family for key in keys for family in self._families.get(key, ())}

    def _leads_too_far(self, key: int, in_heaviest: InHeaviest) -> bool:
        """Whether an open key leads to more families than the index allows."""
        led, most = self._families.get(key, ()), self._index.families
        if len(led) <= most:
            return False
        led = self._families[key] = [family for family in led if family in self._live]
        if len(led) <= most:
            return False
        slots = np.array([slot for family in led for slot in self._live[family]], dtype=np.int64)
        heaviest = slots[in_heaviest(slots)]
        return len({self._family[slot] for slot in heaviest.tolist()}) > most
