"""Constraints: which fragments must be together, and which clusters a fragment may join.

Must-links close transitively into *components*, named by their smallest ids; a cannot-link of two
fragments applies to their components. A constrained fragment has *tags*: its component, and its
values of the linking attribute (all known entities of an authority share one such value, so no two
of them are in one cluster). A cluster has the tags of its fragments. If clusters hold a new
fragment's component, it may join only those. It may never join a cluster with a component separate
from its own, or with one of its linking values. A fragment without tags is free.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import TypeAlias

from kbforge.clustering.compiled import CompiledRun
from kbforge.contracts import Cluster, Constraints, Decision, Fragment
from kbforge.contracts.clusterer import KNOWN
from kbforge.errors import ContradictionError, quoted


class DecisionGraph:
    """The components of some decisions: by id, by component, and which ones are separate.

    Raises:
        ContradictionError: they cannot all hold; the message names the decisions at fault.
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
        """The shortest chain of must-links between two fragments of a component."""
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
            reason = f"contradicts {_listed(ties)}" if ties else "contradicts itself"
            raise ContradictionError(
                f"{called(decision)} {reason}",
                tuple(each.name for each in (decision, *ties)),
            )
        self.apart.setdefault(one, set()).add(other)
        self.apart.setdefault(other, set()).add(one)

    def _reached(self, start: str) -> dict[str, tuple[str, Decision]]:
        """All ids that must-links reach, each with its predecessor and the link; `start` precedes
        itself."""
        reached: dict[str, tuple[str, Decision]] = {start: (start, Decision(True, start, start))}
        queue = deque([start])
        while queue:
            here = queue.popleft()
            for there, decision in self._ties[here]:
                if there not in reached:
                    reached[there] = here, decision
                    queue.append(there)
        return reached


def reconciled(
    decisions: Sequence[Decision], constraints: Constraints, fragments: Iterable[Fragment]
) -> tuple[list[Decision], list[str]]:
    """The decisions that can all hold, in order, and sentences about the others.

    If decisions contradict each other, the later one holds. `constraints` says which fragments are
    different in any case.
    """
    stated = {x.id: constraints.stated(x) for x in fragments}
    groups, kept, reasons, left = _Groups(stated), list[Decision](), list[str](), 0
    for decision in reversed(decisions):
        if groups.accept(decision):
            kept.append(decision)
        elif len(reasons) < _MOST_NAMED:
            why = _contradiction([decision, *kept], constraints, stated)
            reasons.append(f"{why}; the later one holds, and {quoted(decision.name)} does not")
        else:
            left += 1
    if left:
        reasons.append(f"{left:,} more contradict later ones and do not hold")
    return kept[::-1], reasons


def _contradiction(
    decisions: Sequence[Decision],
    constraints: Constraints,
    stated: Mapping[str, Sequence[str]],
) -> ContradictionError:
    """Why the first of some decisions contradicts the others."""
    try:
        graph = DecisionGraph(decisions)
    except ContradictionError as error:
        return error
    holder: dict[str, str] = {}
    for id in graph.members[graph.component[decisions[0].first]]:
        for value in stated.get(id, ()):
            if holder.setdefault(value, id) != id:
                return _linked_twice(graph, holder[value], id, value, constraints.link)
    raise AssertionError("the decisions can all hold")


class _Groups:
    """Groups of fragments that decisions merge, which groups are separate, and each group's linking
    values."""

    def __init__(self, stated: Mapping[str, Sequence[str]]) -> None:
        self._stated = stated
        self._group: dict[str, set[str]] = {}  # by fragment
        self._apart: dict[int, set[int]] = {}  # by identity of a group
        self._values: dict[int, set[str]] = {}

    def accept(self, decision: Decision) -> bool:
        """Add a decision unless it contradicts an earlier one."""
        one, other = self._of(decision.first), self._of(decision.second)
        if one is other:
            return decision.same
        if not decision.same:
            self._apart[id(one)].add(id(other))
            self._apart[id(other)].add(id(one))
            return True
        if id(other) in self._apart[id(one)] or self._values[id(one)] & self._values[id(other)]:
            return False
        small, large = sorted((one, other), key=len)
        large |= small
        for name in small:
            self._group[name] = large
        for third in self._apart[id(small)]:
            self._apart[third].discard(id(small))
            self._apart[third].add(id(large))
        self._apart[id(large)] |= self._apart.pop(id(small))
        self._values[id(large)] |= self._values.pop(id(small))
        return True

    def _of(self, name: str) -> set[str]:
        group = self._group.get(name)
        if group is None:
            group = self._group[name] = {name}
            self._apart[id(group)] = set()
            self._values[id(group)] = {*self._stated.get(name, ())}
        return group


def called(decision: Decision) -> str:
    """A decision's name in messages."""
    word = "same" if decision.same else "different"
    said = f'{word} "{quoted(decision.first)}" "{quoted(decision.second)}"'
    return f"{quoted(decision.name)} ({said})" if decision.name else said


def _listed(decisions: Sequence[Decision]) -> str:
    """Decisions, listed for a message."""
    return ", ".join(_shortened(decisions))


_MOST_NAMED = 6


def _shortened(decisions: Sequence[Decision]) -> Iterator[str]:
    """A long chain of decisions, shortened to its beginning and end."""
    if len(decisions) <= _MOST_NAMED:
        yield from map(called, decisions)
        return
    yield from map(called, decisions[: _MOST_NAMED // 2])
    yield f"{len(decisions) - _MOST_NAMED} more"
    yield from map(called, decisions[-_MOST_NAMED // 2 :])


def _linked_twice(
    graph: DecisionGraph, first: str, second: str, value: str, link: str | None
) -> ContradictionError:
    """The error that decisions merge two fragments with the same linking value."""
    ties = graph.ties(first, second)
    both = f'"{quoted(first)}" and "{quoted(second)}"'
    why = f'fragments {both} have the same "{quoted(link)}" and'
    if value == KNOWN:
        why = f"the entities {both} of the authority are different and"
    return ContradictionError(
        f"{why} cannot be one entity, but {_listed(ties)} {'holds' if len(ties) == 1 else 'hold'}",
        tuple(tie.name for tie in ties),
    )


Tag: TypeAlias = tuple[bool, str]
"""(True, a component) or (False, a value of the linking attribute)."""

_FREE: frozenset[Tag] = frozenset()


def _tags_of(x: Fragment, constraints: Constraints, graph: DecisionGraph) -> frozenset[Tag]:
    tags: set[Tag] = {(False, value) for value in constraints.stated(x)}
    if (component := graph.component.get(x.id)) is not None:
        tags.add((True, component))
    return frozenset(tags)


def _satisfied(
    clusters: Iterable[Cluster],
    tags: Mapping[int, frozenset[Tag]],
    apart: Mapping[str, Collection[str]],
) -> bool:
    """Whether clusters of tagged fragments, by number, satisfy all constraints."""
    home: dict[str, int] = {}
    for at, cluster in enumerate(clusters):
        components: set[str] = set()
        values: set[str] = set()
        for fragment in cluster:
            for decided, name in tags.get(fragment, _FREE):
                if decided:
                    if home.setdefault(name, at) != at:
                        return False
                    components.add(name)
                elif name in values:
                    return False
                else:
                    values.add(name)
        if any(not components.isdisjoint(apart.get(name, ())) for name in components):
            return False
    return True


def rule_of(
    constraints: Constraints, fragments: Sequence[Fragment]
) -> Callable[[Iterable[Cluster]], bool]:
    """Checks whether clusters of these fragments, by place, satisfy constraints."""
    graph = DecisionGraph(constraints.decisions)
    tags = {
        place: own
        for place, x in enumerate(fragments if constraints else ())
        if (own := _tags_of(x, constraints, graph))
    }
    return lambda clusters: not tags or _satisfied(clusters, tags, graph.apart)


class Bindings:
    """The constraints on a run's fragments; the run receives their tags as numbers."""

    def __init__(self, run: CompiledRun) -> None:
        self._run = run
        self.constraints, self.graph = Constraints(), DecisionGraph(())
        self._tags: dict[int, frozenset[Tag]] = {}
        # by component, which of its fragments has a linking value
        self._stated: dict[str, dict[str, str]] = {}
        self._component: dict[str, int] = {}
        self._value: dict[str, int] = {}

    def bind(
        self,
        constraints: Constraints,
        graph: DecisionGraph,
        fragments: Iterable[tuple[int, Fragment]],
    ) -> None:
        """Apply constraints to the fragments in memory; the particles stay.

        Raises:
            ContradictionError: they cannot all hold; nothing has changed.
        """
        before = self.constraints, self.graph, self._tags, self._stated
        self.constraints, self.graph, self._tags, self._stated = constraints, graph, {}, {}
        bound = {n: x for n, x in fragments if self.concern(x)}
        try:
            for number, x in bound.items():
                self.require_possible(x)
                self._note(number, x)
        except ContradictionError:
            self.constraints, self.graph, self._tags, self._stated = before
            raise
        self._component = {name: k for k, name in enumerate(graph.members)}
        self._run.bind(self._apart() if constraints else None)
        if constraints:
            self._tell({number: self._tags.get(number, _FREE) for number in bound})
            self._run.tag_clusters()

    def _apart(self) -> list[list[int]]:
        """For each component, those that are separate from it."""
        of, apart = self._component, self.graph.apart
        return [[of[other] for other in apart.get(name, ())] for name in self.graph.members]

    def concern(self, x: Fragment) -> bool:
        """Whether a fragment has or will have tags."""
        linked = self.constraints.link is not None or x.id in self.graph.component
        return linked or (self.constraints.known and x.known is not None)

    def require_possible(self, x: Fragment) -> None:
        """Refuse a fragment that decisions merge with another of the same linking value."""
        component = self.graph.component.get(x.id)
        known = self._stated.get(component, {}) if component is not None else {}
        for value in self.constraints.stated(x):
            if known.get(value, x.id) != x.id:
                link = self.constraints.link
                raise _linked_twice(self.graph, known[value], x.id, value, link)

    def take_in(self, fragments: Mapping[int, Fragment]) -> None:
        """Add fragments, by number; the run does not know their clusters yet."""
        bound = {number: x for number, x in fragments.items() if self.concern(x)}
        for number, x in bound.items():
            self._note(number, x)
        self._tell({number: self._tags.get(number, _FREE) for number in bound})

    def _note(self, number: int, x: Fragment) -> None:
        component = self.graph.component.get(x.id)
        if component is not None:
            known = self._stated.setdefault(component, {})
            for value in self.constraints.stated(x):
                known.setdefault(value, x.id)
        if tags := self._tags_of(x):
            self._tags[number] = tags

    def _tags_of(self, x: Fragment) -> frozenset[Tag]:
        """The tags of a fragment, present or future."""
        return _tags_of(x, self.constraints, self.graph)

    def expect(
        self, first: int, fragments: Sequence[Fragment]
    ) -> tuple[int, ContradictionError | None]:
        """Announce the next fragments, numbered from `first`.

        Returns how many of them can be added, and the problem with the next one.
        """
        bound, contradiction = list[int](), None
        for number, x in enumerate(fragments, first):
            if not self.concern(x):
                continue
            try:
                self.require_possible(x)
            except ContradictionError as error:
                fragments, contradiction = fragments[: number - first], error
                break
            self._note(number, x)
            bound.append(number)
        self._tell({number: self._tags.get(number, _FREE) for number in bound})
        return len(fragments), contradiction

    def preview(self, number: int, x: Fragment) -> None:
        """Look up a fragment as if it had this number."""
        if self.constraints:
            self._tell({number: self._tags_of(x)})

    def forget(self, fragments: Mapping[int, Fragment]) -> None:
        """Remove these fragments, by number, or cancel their announcement."""
        bound = {number: x for number, x in fragments.items() if number in self._tags}
        for number, x in bound.items():
            del self._tags[number]
            known = self._stated.get(self.graph.component.get(x.id, ""), {})
            for value in self.constraints.stated(x):
                if known.get(value) == x.id:
                    del known[value]
        self._tell(dict.fromkeys(bound, _FREE))

    def values(self, number: int) -> list[str]:
        """The linking values of a fragment."""
        return [name for decided, name in self._tags.get(number, _FREE) if not decided]

    @contextmanager
    def unlinked(self, number: int) -> Iterator[None]:
        """Make the run ignore the linking values of a fragment."""
        tags = self._tags.get(number, _FREE)
        self._tell({number: frozenset(tag for tag in tags if tag[0])})
        try:
            yield
        finally:
            self._tell({number: tags})

    def mates(self, x: Fragment) -> Sequence[str]:
        """The ids of all fragments that decisions merge with this one."""
        return self.graph.members.get(self.graph.component.get(x.id, ""), ())

    def bound(self, components: Collection[str]) -> list[int]:
        """The fragments of some components, ascending."""
        wanted = {(True, component) for component in components}
        return sorted(i for i, tags in self._tags.items() if not wanted.isdisjoint(tags))

    def component_of(self, fragment: int) -> str | None:
        """The component of a fragment, by number."""
        tags = self._tags.get(fragment, _FREE)
        return next((name for decided, name in tags if decided), None)

    def allow(self, clusters: Iterable[Cluster]) -> bool:
        """Whether a grouping satisfies all constraints."""
        return _satisfied(clusters if self._tags else (), self._tags, self.graph.apart)

    def bind_some(self, run: CompiledRun, fragments: Sequence[Fragment]) -> None:
        """Apply the constraints to a run over these fragments alone, in order.

        The first fragment of a component has the linking values of all, so no other fragment takes
        a place with one of them.
        """
        if not self.constraints:
            return
        run.bind(self._apart())
        values: dict[str, dict[str, None]] = {}
        for x in fragments:
            component = self.graph.component.get(x.id)
            if component is not None:
                values.setdefault(component, {}).update(dict.fromkeys(self.constraints.stated(x)))
        tags = {}
        for number, x in enumerate(fragments):
            component = self.graph.component.get(x.id)
            own = self.constraints.stated(x) if component is None else values.pop(component, ())
            tags[number] = frozenset((False, value) for value in own)
            if component is not None:
                tags[number] |= {(True, component)}
        run.tag(self._numbered(tags))

    def _tell(self, tags: Mapping[int, frozenset[Tag]]) -> None:
        if tags:
            self._run.tag(self._numbered(tags))

    def _numbered(self, tags: Mapping[int, frozenset[Tag]]) -> dict[int, tuple[int, Sequence[int]]]:
        """Tags per fragment: the number of its component, or -1, and the numbers of its values."""
        return {
            number: (
                next((self._component[name] for decided, name in own if decided), -1),
                [self._value.setdefault(v, len(self._value)) for decided, v in own if not decided],
            )
            for number, own in tags.items()
        }
