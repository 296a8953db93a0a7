"""Constraints: which fragments are one entity, and which clusters a fragment may join.

Must-links close transitively into *components*; a cannot-link of two fragments holds of their
components. A component is named by its smallest id.

A constrained fragment has *tags*: its component, and its values of the linking attribute. A cluster
has the tags of its fragments. The tags of a new fragment say what it may join: if clusters hold its
own component, only those; never one with a component that its own is apart from, or with one of its
linking values. A fragment without tags is free, and a session without constraints has no bindings.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import TypeAlias

import numpy as np

from kbforge.clustering.propose import PutativeScores
from kbforge.clustering.state import NewClusters, State
from kbforge.contracts import Cluster, Constraints, Decision, Fragment, IntArray
from kbforge.errors import ContradictionError, quoted


class Closure:
    """The components of some decisions.

    Args:
        decisions: any.

    Raises:
        ContradictionError: they cannot all hold; the message names those that cause it.

    Attributes:
        component: by id, its component, of all that the decisions name.
        members: by component, its ids, ascending.
        apart: by component, those that it is not one with; none where there are none.

    """

    def __init__(self, decisions: Sequence[Decision]) -> None:
        self._ties: dict[str, list[tuple[str, Decision]]] = {}
        for decision in decisions:
            for id in (decision.first, decision.second):
                self._ties.setdefault(id, [])
            if decision.same:
                self._ties[decision.first].append((decision.second, decision))
                self._ties[decision.second].append((decision.first, decision))
        self.component: dict[str, str] = {}
        self.members: dict[str, tuple[str, ...]] = {}
        for id in sorted(self._ties):
            if id not in self.component:
                reached = self._reached(id)
                self.members[id] = tuple(sorted(reached))
                self.component.update(dict.fromkeys(reached, id))
        self.apart: dict[str, set[str]] = {}
        for decision in decisions:
            if not decision.same:
                self._separate(decision)

    def ties(self, first: str, second: str) -> list[Decision]:
        """The fewest must-links by which two fragments of a component are one."""
        reached = self._reached(first)
        out = []
        while second != first:
            second, decision = reached[second]
            out.append(decision)
        return out[::-1]

    def _separate(self, decision: Decision) -> None:
        one, other = self.component[decision.first], self.component[decision.second]
        if one == other:
            ties = self.ties(decision.first, decision.second)
            because = listed(ties) if ties else "a fragment is the same as itself"
            raise ContradictionError(
                f"{called(decision)} cannot hold: {because}",
                tuple(each.name for each in (decision, *ties)),
            )
        self.apart.setdefault(one, set()).add(other)
        self.apart.setdefault(other, set()).add(one)

    def _reached(self, start: str) -> dict[str, tuple[str, Decision]]:
        """All that must-links lead to; by id, where from and by which, `start` by itself."""
        reached: dict[str, tuple[str, Decision]] = {start: (start, Decision(True, start, start))}
        queue = deque([start])
        while queue:
            here = queue.popleft()
            for there, decision in self._ties[here]:
                if there not in reached:
                    reached[there] = here, decision
                    queue.append(there)
        return reached


def called(decision: Decision) -> str:
    """A decision as messages call it."""
    word = "same" if decision.same else "different"
    said = f'{word} "{quoted(decision.first)}" "{quoted(decision.second)}"'
    return f"{quoted(decision.name)} ({said})" if decision.name else said


def listed(decisions: Sequence[Decision]) -> str:
    """Decisions that hold, as messages say it."""
    said = list(_shortened(decisions))
    holds = "holds" if len(decisions) == 1 else "hold"
    return f"{', '.join(said)} {holds}"


_MOST_NAMED = 6


def _shortened(decisions: Sequence[Decision]) -> Iterator[str]:
    """A long chain of decisions by its beginning and end."""
    if len(decisions) <= _MOST_NAMED:
        yield from map(called, decisions)
        return
    yield from map(called, decisions[: _MOST_NAMED // 2])
    yield f"{len(decisions) - _MOST_NAMED} more"
    yield from map(called, decisions[-_MOST_NAMED // 2 :])


Tag: TypeAlias = tuple[bool, str]
"""(True, a component) or (False, a value of the linking attribute)."""

Tags: TypeAlias = frozenset[Tag]

_FREE: Tags = frozenset()


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
        self._tags: dict[int, Tags] = {}
        # by component, which of its fragments has a linking value
        self._stated: dict[str, dict[str, str]] = {}

    def of(self, fragment: int) -> Tags:
        """The tags of a fragment, by number."""
        return self._tags.get(fragment, _FREE)

    def of_fragment(self, x: Fragment) -> Tags:
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


@dataclass(frozen=True, slots=True)
class Bounds:
    """Where a fragment may go.

    Attributes:
        only: slots of the clusters of which it must join one, ascending; None leaves it free to
            join any, or to open one.
        barred: it must not join a cluster with one of these tags.
        of_slot: by slot, the tags of clusters that have any.
        apart: slots of clusters with barred tags, those of linking values left out.

    """

    only: IntArray | None
    barred: Tags
    of_slot: Mapping[int, Tags]
    apart: Sequence[Collection[int]] = ()

    @classmethod
    def of(cls, slots: IntArray) -> Bounds:
        """The fragment may join these clusters, ascending, and no others."""
        return cls(slots, _FREE, {})

    def within(self, state: State, scores: PutativeScores) -> PutativeScores:
        """The scores of the clusters that are not barred."""
        barred = self.barred
        if not barred:
            return scores
        slots = scores.slots
        if slots is None:
            # all there are: fewer are apart than are not
            allowed = state.reach[: state.n_slots] > -np.inf
            for held in self.apart:
                allowed[np.fromiter(held, dtype=np.int64, count=len(held))] = False
            slots = np.flatnonzero(allowed)
            barred = frozenset(tag for tag in barred if not tag[0])
        if barred:
            of = self.of_slot
            left = [slot for slot in slots.tolist() if of.get(slot, _FREE).isdisjoint(barred)]
            slots = np.array(left, dtype=np.int64)
        return PutativeScores(scores.log_predictive, slots)


class Bindings(FragmentTags):
    """The tags of a run's fragments and clusters; the arguments are those of `FragmentTags`."""

    def __init__(
        self,
        constraints: Constraints,
        closure: Closure,
        reserved: Mapping[str, Collection[str]] | None = None,
    ) -> None:
        super().__init__(constraints, closure, reserved)
        self._of_slot: dict[int, Tags] = {}
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

    def follow(self, fragment: int, x: Fragment, new: NewClusters, dropped: IntArray) -> None:
        """A step has been taken: clusters hold the fragment, and others are no more."""
        self.take_in(fragment, x)
        own = self.of(fragment)
        for parent, child in zip(new.parents.tolist(), new.slots.tolist(), strict=True):
            self._tag(child, own | self._of_slot.get(parent, _FREE))
        self._release(dropped.tolist())

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

    def _tag(self, slot: int, tags: Tags) -> None:
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
