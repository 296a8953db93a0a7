"""Candidates: the clusters that an index leads to, growing with the run.

A key leads to *families*: all live clusters with the same first fragment. A cluster only ever
grows from one with the same first fragment, so a family's name never changes, whatever happens to
its clusters, and a key need not be told when they do.

One key in common is weak evidence, so families that several keys lead to are preferred. A key that
leads to more families than the index allows is closed: no further ones are added, and it is
followed only if the fragment's open keys lead nowhere, so that a fragment of common values alone is
still compared with something. An index may bound how many families a fragment is compared with.

Only families in the heaviest particles count towards that. Ten fragments of one entity are up to
ten families, since improbable particles have each alone; the heaviest have one.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from itertools import chain
from typing import TypeAlias

import numpy as np
from numpy.typing import NDArray

from kbforge.contracts import CandidateIndex, Cluster, Fragment, IntArray, KeyFamilies

Source: TypeAlias = Callable[[Sequence[int]], Mapping[int, KeyFamilies]]
"""Where some keys lead; those that lead nowhere are left out."""

InHeaviest: TypeAlias = Callable[[IntArray], NDArray[np.bool_]]
"""Which of some slots hold a cluster of the heaviest particle of its subproblem."""


@dataclass(frozen=True, slots=True)
class KeyLookup:
    """Where a fragment's keys lead: read from the candidates, which are as they were.

    Attributes:
        slots: the clusters to compare the fragment with, ascending, shape [slots].
        open: its keys that are not closed.
        closed: its keys that have been found to lead too far.
        families: by key, where that was looked into, the live families that it leads to.

    """

    slots: IntArray
    open: Sequence[int]
    closed: Sequence[int]
    families: Mapping[int, list[int]]


class Candidates:
    """What the keys of an index lead to in one run."""

    def __init__(self, index: CandidateIndex) -> None:
        self._index = index
        self._families: dict[int, list[int]] = {}
        self._closed: set[int] = set()
        self._live: dict[int, set[int]] = {}
        self._family: dict[int, int] = {}
        # where keys lead that are not known yet, and those that are; None: all are
        self._source: Source | None = None
        self._known: set[int] = set()
        # keys that may lead elsewhere than at the last checkpoint; None: there was none
        self._changed: set[int] | None = None

    def follow(self, source: Source) -> None:
        """Ask there where a key leads that is not known yet; what is there is a checkpoint."""
        self._source, self._changed = source, set()

    def know(self, keys: Iterable[int]) -> None:
        """Have it known where these keys lead. May raise what the source does."""
        if self._source is None:
            return
        unknown = [key for key in dict.fromkeys(keys) if key not in self._known]
        if unknown:
            self.take_up(self._source(unknown))
            self._known.update(unknown)

    def open_families(self, keys: Sequence[int]) -> set[int]:
        """The families that a fragment's keys lead to, those of closed keys left out."""
        left = (key for key in keys if key not in self._closed)
        return {family for key in left for family in self._families.get(key, ())}

    def closed_families(self, keys: Sequence[int], in_heaviest: InHeaviest) -> set[int]:
        """Those that the closed keys lead to, where they would be followed; else none."""
        closed, left = self._closed_of(keys, in_heaviest, {})
        if any(family in self._live for key in left for family in self._families.get(key, ())):
            return set()
        known = self._closed.intersection(keys).difference(closed)
        return {family for key in known for family in self._families[key]}

    def look_up(self, fragment: Fragment, in_heaviest: InHeaviest) -> KeyLookup:
        """Where a fragment's keys lead. Nothing changes until it is given to `extend`."""
        keys = self._index.keys(fragment)
        self.know(keys)
        families: dict[int, list[int]] = {}
        closed, left = self._closed_of(keys, in_heaviest, families)
        live = self._live
        slots = [slot for family in self._reached(keys, left) for slot in live.get(family, ())]
        slots.sort()
        return KeyLookup(np.array(slots, dtype=np.int64), left, closed, families)

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

    def keys(self, fragment: Fragment) -> Sequence[int]:
        """The fragment's keys in the index."""
        return self._index.keys(fragment)

    def settle(
        self,
        slots: IntArray,
        clusters: Mapping[int, Cluster],
        keys_of: Mapping[int, Sequence[int]],
    ) -> None:
        """Some subproblems' clusters are others now.

        A key of their fragments leads where a cluster with such a fragment is, and no longer
        elsewhere among them. A closed key does if it led to one of them before, and stays closed
        as long as it leads anywhere.

        Args:
            slots: of the clusters that there were.
            clusters: by slot, those that there are.
            keys_of: by fragment, the keys of all that were or are in these.

        """
        before = {self._family[slot] for slot in slots.tolist()}
        self.release(slots)
        families_of: dict[int, set[int]] = {fragment: set() for fragment in keys_of}
        now: set[int] = set()
        for slot, cluster in clusters.items():
            family = self._family[slot] = cluster[0]
            self._live.setdefault(family, set()).add(slot)
            now.add(family)
            for fragment in cluster:
                families_of[fragment].add(family)
        leads: dict[int, set[int]] = {}
        for fragment, keys in keys_of.items():
            for key in keys:
                leads.setdefault(key, set()).update(families_of[fragment])
        for key, families in leads.items():
            led = self._families.get(key, ())
            kept = [family for family in led if family not in before and family not in now]
            if key not in self._closed or not before.isdisjoint(led):
                kept += sorted(families)
            if kept:
                self._families[key] = kept
            else:
                self._families.pop(key, None)
                self._closed.discard(key)
        if self._changed is not None:
            self._changed.update(leads)

    def contents(self) -> dict[int, KeyFamilies]:
        """Where all known keys lead that lead anywhere."""
        return self._led(self._families)

    def changed(self) -> dict[int, KeyFamilies]:
        """Where keys lead that may lead elsewhere than when this was last asked."""
        led = self._led(self._families if self._changed is None else self._changed)
        self._changed = set()
        return led

    def _led(self, keys: Iterable[int]) -> dict[int, KeyFamilies]:
        families = self._families
        return {
            key: KeyFamilies(tuple(families.get(key, ())), key in self._closed)
            for key in sorted(keys)
        }

    def take_up(self, led: Mapping[int, KeyFamilies]) -> None:
        """Keys of which nothing was known lead there."""
        for key, known in led.items():
            self._families[key] = list(known.families)
            if known.closed:
                self._closed.add(key)

    def hold(self, families: Mapping[int, int]) -> None:
        """These slots' clusters exist, too; by slot, their families."""
        self._family.update(families)
        for slot, family in families.items():
            self._live.setdefault(family, set()).add(slot)

    def _closed_of(
        self, keys: Sequence[int], in_heaviest: InHeaviest, families: dict[int, list[int]]
    ) -> tuple[list[int], list[int]]:
        """The keys that are found to lead too far now, and those that are open still.

        `families` takes what is left of those that a key led to, where that was looked into.
        """
        closed = [
            key
            for key in keys
            if key not in self._closed and self._leads_too_far(key, families, in_heaviest)
        ]
        return closed, [key for key in keys if key not in self._closed and key not in closed]

    def _reached(self, keys: Sequence[int], left: Sequence[int]) -> Iterable[int]:
        """The live families that enough open keys lead to, else any, else those of closed keys."""
        led = self._counted(left)
        if not led:
            return self._nearest(self._counted(keys))
        enough = {family: n for family, n in led.items() if n >= self._index.shared}
        return self._nearest(enough or led)

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
        """Whether an open key leads to more families than the index allows.

        `families` takes what is left of those that it led to.
        """
        led, most = self._families.get(key, ()), self._index.families
        if len(led) <= most:
            return False
        led = families[key] = [family for family in led if family in self._live]
        if len(led) <= most:
            return False
        slots = np.array([slot for family in led for slot in self._live[family]], dtype=np.int64)
        heaviest = slots[in_heaviest(slots)]
        return len({self._family[slot] for slot in heaviest.tolist()}) > most


def keys_of(
    candidates: Candidates | None, held: Mapping[int, Fragment], fragments: Sequence[int]
) -> dict[int, Sequence[int]]:
    """See `Scorer.keys`."""
    if candidates is None:
        return {}
    keys = {number: candidates.keys(held[number]) for number in fragments}
    candidates.know(chain.from_iterable(keys.values()))
    return keys


def families_of(clusters: Mapping[int, Cluster]) -> dict[int, int]:
    """By slot, the first fragments of clusters."""
    return {slot: cluster[0] for slot, cluster in clusters.items()}
