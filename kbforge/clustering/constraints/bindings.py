"""Bindings: the constraints on fragments and live clusters, updated at every step.

A fragment that is bound has *tags*: its component of decisions, and its values of the linking
attribute. A cluster has the tags of its fragments. So what a new fragment may join is read from its
tags: only clusters with its own component, if there are any, and none with a component that its own
is apart from, or with one of its linking values. A fragment without tags is free, and a session
without constraints has no bindings.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping
from typing import TypeAlias

import numpy as np

from kbforge.clustering.constraints.closure import Closure, listed
from kbforge.clustering.online.bounds import Bounds
from kbforge.clustering.plan import Plan
from kbforge.contracts import Cluster, Constraints, Fragment
from kbforge.errors import ContradictionError, quoted

Tag: TypeAlias = tuple[bool, str]
"""(True, a component) or (False, a value of the linking attribute)."""

_FREE: frozenset[Tag] = frozenset()


class FragmentTags:
    """The tags of a run's fragments.

    Args:
        constraints: what is to hold.
        closure: of its decisions.
        reserved: by component, linking values of its fragments that are yet to come. No cluster
            with the component may take in another fragment that has one of them.

    """

    def __init__(
        self,
        constraints: Constraints,
        closure: Closure,
        reserved: Mapping[str, Collection[str]] | None = None,
    ) -> None:
        self.constraints, self.closure = constraints, closure
        self._reserved = reserved or {}
        self._tags: dict[int, frozenset[Tag]] = {}
        # by component, which of its fragments has a linking value
        self._stated: dict[str, dict[str, str]] = {}

    def of(self, fragment: int) -> frozenset[Tag]:
        """The tags of a fragment, by number."""
        return self._tags.get(fragment, _FREE)

    def of_fragment(self, x: Fragment) -> frozenset[Tag]:
        """The tags that a fragment has, or will have."""
        component = self.closure.component.get(x.id)
        tags = {(False, value) for value in self.constraints.stated(x)}
        if component is not None:
            tags.update((False, value) for value in self._reserved.get(component, ()))
            tags.add((True, component))
        return frozenset(tags)

    def concern(self, x: Fragment) -> bool:
        """Whether a fragment has tags, or will."""
        return self.constraints.link is not None or x.id in self.closure.component

    def require_possible(self, x: Fragment) -> None:
        """Refuse a fragment that decisions make one with another of its linking values.

        Raises:
            ContradictionError: it is so; the message names the decisions.

        """
        component = self.closure.component.get(x.id)
        known = self._stated.get(component, {}) if component is not None else {}
        for value in self.constraints.stated(x):
            if known.get(value, x.id) != x.id:
                ties = self.closure.ties(known[value], x.id)
                both = f'fragments "{quoted(known[value])}" and "{quoted(x.id)}"'
                raise ContradictionError(
                    f'{both} have the same "{quoted(self.constraints.link)}" and cannot be one '
                    f"entity, but {listed(ties)}",
                    tuple(tie.name for tie in ties),
                )

    def take_in(self, fragment: int, x: Fragment) -> None:
        """The fragment has come."""
        component = self.closure.component.get(x.id)
        if component is not None:
            known = self._stated.setdefault(component, {})
            for value in self.constraints.stated(x):
                known.setdefault(value, x.id)
        tags = self.of_fragment(x)
        if tags:
            self._tags[fragment] = tags

    def forget(self, removed: Mapping[int, Fragment]) -> None:
        """These fragments are no more."""
        for number, x in removed.items():
            self._tags.pop(number, None)
            known = self._stated.get(self.closure.component.get(x.id, ""), {})
            for value in self.constraints.stated(x):
                if known.get(value) == x.id:
                    del known[value]

    def bound(self, components: Collection[str]) -> list[int]:
        """The fragments of some components, ascending."""
        wanted = {(True, component) for component in components}
        return sorted(i for i, tags in self._tags.items() if not wanted.isdisjoint(tags))

    def component_of(self, fragment: int) -> str | None:
        """The component of a fragment, by number."""
        tags = self.of(fragment)
        return next((name for decided, name in tags if decided), None)

    def allow(self, clusters: Iterable[Cluster]) -> bool:
        """Whether a grouping satisfies all constraints."""
        home: dict[str, int] = {}
        for at, cluster in enumerate(clusters):
            components: set[str] = set()
            values: set[str] = set()
            for fragment in cluster:
                for decided, name in self.of(fragment):
                    if decided:
                        if home.setdefault(name, at) != at:
                            return False
                        components.add(name)
                    elif name in values:
                        return False
                    else:
                        values.add(name)
            apart = self.closure.apart
            if any(not components.isdisjoint(apart.get(name, ())) for name in components):
                return False
        return True


class Bindings(FragmentTags):
    """The tags of a run's fragments and clusters; the arguments are those of `FragmentTags`."""

    def __init__(
        self,
        constraints: Constraints,
        closure: Closure,
        reserved: Mapping[str, Collection[str]] | None = None,
    ) -> None:
        super().__init__(constraints, closure, reserved)
        self._of_slot: dict[int, frozenset[Tag]] = {}
        # by component, the slots of clusters that hold one of its fragments
        self._holders: dict[str, set[int]] = {}

    def bounds(self, x: Fragment) -> Bounds | None:
        """Where a new fragment may go; None leaves it free."""
        component = self.closure.component.get(x.id)
        values = self.constraints.stated(x)
        mates: Collection[int] = ()
        barred: set[Tag] = set()
        if component is not None:
            mates = self._holders.get(component, ())
            barred.update((True, other) for other in self.closure.apart.get(component, ()))
            reserved = self._reserved.get(component, ())
            if mates:
                values = tuple(value for value in values if value not in reserved)
            else:
                values = (*values, *reserved)
        barred.update((False, value) for value in values)
        if mates:
            left = sorted(slot for slot in mates if self._of_slot[slot].isdisjoint(barred))
            return Bounds(np.array(left, dtype=np.int64), _FREE, self._of_slot)
        if not barred:
            return None
        apart = [
            self._holders[name] for decided, name in barred if decided and name in self._holders
        ]
        return Bounds(None, frozenset(barred), self._of_slot, apart)

    def follow(self, plan: Plan) -> None:
        """A step has been taken."""
        self.take_in(plan.fragment, plan.reading.fragment)
        own = self.of(plan.fragment)
        new = plan.new
        for parent, child in zip(new.parents.tolist(), new.slots.tolist(), strict=True):
            self._tag(child, own | self._of_slot.get(parent, _FREE))
        self._release(plan.dropped.tolist())

    def regroup(self, before: Iterable[int], clusters: Mapping[int, Cluster]) -> None:
        """In place of the clusters of some slots there are these, by slot."""
        self._release(before)
        tags = self._tags
        for slot, members in clusters.items():
            self._tag(slot, _FREE.union(*(tags[i] for i in members if i in tags)))

    def of_some(self, fragments: Iterable[Fragment]) -> Bindings:
        """New ones, for a run over these fragments alone, which are known beforehand."""
        reserved: dict[str, set[str]] = {}
        for x in fragments:
            component = self.closure.component.get(x.id)
            if component is not None:
                reserved.setdefault(component, set()).update(self.constraints.stated(x))
        sorted_values = {name: sorted(values) for name, values in reserved.items()}
        return Bindings(self.constraints, self.closure, sorted_values)

    def _tag(self, slot: int, tags: frozenset[Tag]) -> None:
        if tags:
            self._of_slot[slot] = tags
            for decided, name in tags:
                if decided:
                    self._holders.setdefault(name, set()).add(slot)

    def _release(self, slots: Iterable[int]) -> None:
        for slot in slots:
            for decided, name in self._of_slot.pop(slot, ()):
                if decided:
                    held = self._holders[name]
                    held.discard(slot)
                    if not held:
                        del self._holders[name]
