"""Constraints: which fragments must be together, and which clusters a fragment may join.

Must-links close transitively into *components*, named by their smallest ids; a cannot-link of two
fragments applies to their components. Rules then merge components that share a value, in order of
arrival, unless something keeps them apart. A constrained fragment has *tags*: its component, its
values of the linking attribute (all known entities of an authority share one such value, so no two
of them are in one cluster), and its sets of values of attributes that must not differ. A cluster
has the tags of its fragments. If clusters hold a new fragment's component, it may join only those.
It may never join a cluster with a component separate from its own, with one of its linking values,
or with a set that is disjoint from its own. A fragment without tags is free.
"""

from __future__ import annotations

import hashlib
from collections import Counter, deque
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import NamedTuple

from kbforge.clustering.compiled import CompiledRun
from kbforge.clustering.rules import InfeasibleFragment
from kbforge.contracts import Cluster, Constraints, Decision, Fragment
from kbforge.contracts.clusterer import KNOWN, StatedSet
from kbforge.errors import ContradictionError, UsageError, counted, quoted


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
    named = {id for decision in decisions for id in (decision.first, decision.second)}
    stated = {x.id: constraints.stated(x) for x in fragments if x.id in named}
    components = Components(Constraints(link=constraints.link), DecisionGraph(()))
    kept, reasons, left = list[Decision](), list[str](), 0
    for decision in reversed(decisions):
        if components.accept(decision, stated):
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


def called(decision: Decision) -> str:
    """A decision's name in messages."""
    said = f'{decision.word} "{quoted(decision.first)}" "{quoted(decision.second)}"'
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


_MOST_APART = 1000
"""Maximum number of components that share a value of a rule and must stay apart."""


def _both(first: str, second: str) -> str:
    return f'fragments "{quoted(first)}" and "{quoted(second)}"'


def disjoint(mine: StatedSet, sets: Iterable[StatedSet]) -> Iterator[StatedSet]:
    """The sets of values of the same attribute that are disjoint from these."""
    attribute, values = mine
    return (one for one in sets if one[0] == attribute and values.isdisjoint(one[1]))


class Tags(NamedTuple):
    """What a fragment may be kept apart by, or must be together with."""

    component: str | None = None
    values: tuple[str, ...] = ()  # of the linking attribute
    sets: tuple[StatedSet, ...] = ()


_FREE = Tags()


@dataclass(slots=True)
class _Component:
    """What the fragments of a component state, each with one that states it."""

    values: dict[str, str] = field(default_factory=dict)
    sets: dict[StatedSet, str] = field(default_factory=dict)
    exempt: set[str] = field(default_factory=set)  # attributes in which decisions let it differ
    since: int = 0  # the call of `add` with its first fragment; 0: none has come


class Components:
    """The components of fragments: what decisions merge, and then what rules do.

    Attributes:
        graph: of the decisions.
        apart: by component, those that decisions keep separate.
        reasons: sentences about rules that do not hold; `left` is the number of further ones.
        joined: by attribute, how often a shared value merged a fragment with earlier ones.

    """

    def __init__(self, constraints: Constraints, graph: DecisionGraph) -> None:
        self.constraints, self.graph = constraints, graph
        self.apart = {name: {*others} for name, others in graph.apart.items()}
        self.reasons: list[str] = []
        self.joined = Counter[str]()
        self.left = 0
        self._merged: dict[str, str] = {}  # a component -> one that it is part of
        self._named: dict[str, str] = {}  # fragments without decisions -> component
        self._holders: dict[tuple[str, str], dict[str, str]] = {}  # by value: component -> fragment
        self._of = {name: _Component() for name in graph.members}
        self._calls = 0

    def of(self, id: str) -> str | None:
        """The component of a fragment."""
        name = first = self.graph.component.get(id, self._named.get(id))
        while name in self._merged:
            name = self._merged[name]
        if first and name and first != name:  # long chains are followed once
            self._merged[first] = name
        return name

    def accept(self, decision: Decision, stated: Mapping[str, Sequence[str]]) -> bool:
        """Add a decision unless it contradicts what holds; `stated` has linking values by id."""
        for id in (decision.first, decision.second):
            if id not in self._named:
                self._named[id] = id
                self._of[id] = _Component(dict.fromkeys(stated.get(id, ()), id))
        one, other = self.of(decision.first), self.of(decision.second)
        assert one is not None
        assert other is not None
        if one == other:
            return decision.same is True
        if not decision.same:
            self.apart.setdefault(one, set()).add(other)
            self.apart.setdefault(other, set()).add(one)
        elif self._forbids(one, other) is not None:
            return False
        else:
            self._merge(*sorted((one, other), key=lambda name: len(self._of[name].values)))
        return True

    def add(self, fragments: Sequence[Fragment]) -> bool:
        """Add fragments, in order; whether that changed earlier components, or what is apart."""
        self._calls += 1
        decided = [x for x in fragments if x.id in self.graph.component]
        changed = [self._decided(x) for x in decided]
        changed += [self._tied(x) for x in (fragments if self.constraints.always else ())]
        return any(changed)

    def _is_earlier(self, component: str) -> bool:
        return 0 < self._of[component].since < self._calls

    def _decided(self, x: Fragment) -> bool:
        """Note what a fragment in a component of decisions states; whether rules that held for
        earlier ones may not hold now."""
        name = self.of(x.id)
        assert name is not None
        one = self._of[name]
        one.since = one.since or self._calls
        before = len(one.values), len(one.sets), len(one.exempt)
        for value in self.constraints.stated(x):
            one.values.setdefault(value, x.id)
        for mine in self.constraints.differing(x):
            other = next(disjoint(mine, one.sets), None)
            if other is not None and mine[0] not in one.exempt:
                one.exempt.add(mine[0])
                both = _both(one.sets[other], x.id)
                self._tell(
                    f'{both} are one entity although "{quoted(mine[0])}" differs: decisions say so'
                )
            one.sets.setdefault(mine, x.id)
        states = before[:2] != (len(one.values), len(one.sets)) or self.constraints.shared(x)
        changed = len(one.exempt) > before[2] or bool(self.constraints.always and states)
        return changed and self._is_earlier(name)

    def _tied(self, x: Fragment) -> bool:
        """Merge a fragment's component with those that share a value; whether that merged earlier
        ones."""
        values, changed = self.constraints.shared(x), False
        if not values:
            return False
        name = self.of(x.id)
        if name is None:
            name = self._named[x.id] = x.id
            self._of[name] = _Component(
                dict.fromkeys(self.constraints.stated(x), x.id),
                dict.fromkeys(self.constraints.differing(x), x.id),
                since=self._calls,
            )
        for value in values:
            holders = self._holders.setdefault(value, {})
            if len(holders) > _MOST_APART:
                raise UsageError(
                    f'"{quoted(value[0])}" is no identifier: more than {_MOST_APART:,} groups of '
                    "fragments that must stay apart share a value of it; leave this rule out"
                )
            for held, holder in list(holders.items()):
                other = self.of(held)
                if other is None or other == name:
                    continue
                why = self._forbids(other, name)
                if why is None:
                    changed |= self._is_earlier(name) or bool(self.apart.get(name))
                    self._merge(name, other)
                    self.joined[value[0]] += 1
                    name = other
                else:
                    shared = f'{_both(holder, x.id)} share "{quoted(value[0])}"'
                    self._tell(f"{shared} and stay apart: {why}")
            holders.setdefault(name, x.id)
        return changed

    def _forbids(self, component: str, another: str) -> str | None:
        """Why two components must not be one; None if nothing forbids it."""
        one, other = self._of[component], self._of[another]
        if component in self.apart.get(another, ()):
            return "decisions say so"
        for value in one.values.keys() & other.values:
            if value == KNOWN:
                return "both are known"
            return f'they share "{quoted(self.constraints.link)}"'
        exempt = one.exempt | other.exempt
        for mine in other.sets:
            if mine[0] not in exempt and any(disjoint(mine, one.sets)):
                return f'"{quoted(mine[0])}" differs'
        return None

    def _merge(self, small: str, large: str) -> None:
        gone, one = self._of.pop(small), self._of[large]
        self._merged[small] = large
        one.values |= gone.values
        one.sets |= gone.sets
        one.exempt |= gone.exempt
        for other in self.apart.pop(small, ()):
            self.apart[other].discard(small)
            self.apart[other].add(large)
            self.apart.setdefault(large, set()).add(other)

    def told(self) -> list[str]:
        """Sentences about what rules do, and where they do not hold."""
        told = [
            f'"{quoted(name)}" makes {counted(self.joined[name], "fragment")} one entity with '
            "earlier ones that share a value"
            for name in self.constraints.always
        ]
        return [*told, *self.unheld]

    @property
    def unheld(self) -> list[str]:
        """Sentences about rules that do not hold."""
        more = f"rules do not hold for {counted(self.left, 'more pair')} of fragments"
        return [*self.reasons, *([more] if self.left else [])]

    def _tell(self, sentence: str) -> None:
        if len(self.reasons) < _MOST_NAMED:
            self.reasons.append(sentence)
        else:
            self.left += 1

    def tags(self, x: Fragment) -> Tags:
        """The tags of a fragment, present or future."""
        component, sets = self.of(x.id), self.constraints.differing(x)
        if sets and component is not None and (exempt := self._of[component].exempt):
            sets = tuple(one for one in sets if one[0] not in exempt)
        return Tags(component, self.constraints.stated(x), sets)


def satisfied(
    clusters: Iterable[Cluster], tags: Mapping[int, Tags], apart: Mapping[str, Collection[str]]
) -> bool:
    """Whether clusters of tagged fragments, by number, satisfy all constraints."""
    home: dict[str, int] = {}
    for at, cluster in enumerate(clusters):
        components: set[str] = set()
        values: set[str] = set()
        sets: dict[StatedSet, None] = {}
        for own in (tags.get(fragment, _FREE) for fragment in cluster):
            if own.component is not None:
                if home.setdefault(own.component, at) != at:
                    return False
                components.add(own.component)
            if not values.isdisjoint(own.values):
                return False
            values.update(own.values)
            sets |= dict.fromkeys(own.sets)
        if any(not components.isdisjoint(apart.get(name, ())) for name in components):
            return False
        if any(any(disjoint(one, sets)) for one in sets):
            return False
    return True


def rule_of(
    constraints: Constraints, fragments: Sequence[Fragment]
) -> Callable[[Iterable[Cluster]], bool]:
    """Checks whether clusters of these fragments, by place, satisfy constraints."""
    if not constraints:
        return lambda clusters: True
    components = components_of(constraints, fragments)
    tags = {place: components.tags(x) for place, x in enumerate(fragments)}
    return lambda clusters: satisfied(clusters, tags, components.apart)


def components_of(constraints: Constraints, fragments: Sequence[Fragment]) -> Components:
    """The components of all fragments, in order of arrival."""
    components = Components(constraints, DecisionGraph(constraints.decisions))
    components.add(fragments)
    return components


def keys_of_values(values: Iterable[tuple[str, str]]) -> list[int]:
    """The index keys of values that make fragments the same entity."""
    texts = ("\0".join(value).encode("utf-8", "surrogatepass") for value in values)
    digests = (hashlib.blake2b(text, digest_size=8).digest() for text in texts)
    return [int.from_bytes(digest, "little", signed=True) for digest in digests]


class Numbers:
    """Numbers for what keeps fragments apart, as the kernel has it."""

    def __init__(self) -> None:
        self.component: dict[str, int] = {}
        self._value: dict[str, int] = {}
        self._set: dict[StatedSet, int] = {}
        self._attribute: dict[str, int] = {}
        self._stated: dict[tuple[str, str], int] = {}
        self.sets: list[tuple[int, list[int]]] = []  # by number, the attribute and the values

    def of(self, tags: Tags) -> tuple[int, list[int], list[int]]:
        """The number of a component, or -1, and those of values and of sets."""
        component = -1
        if tags.component is not None:
            component = self.component.setdefault(tags.component, len(self.component))
        values = [self._value.setdefault(v, len(self._value)) for v in tags.values]
        return component, values, [self._set_of(one) for one in tags.sets]

    def _set_of(self, one: StatedSet) -> int:
        number = self._set.get(one)
        if number is None:
            number = self._set[one] = len(self._set)
            name, values = one
            attribute = self._attribute.setdefault(name, len(self._attribute))
            of = [self._stated.setdefault((name, v), len(self._stated)) for v in sorted(values)]
            self.sets.append((attribute, of))
        return number

    def apart(self, apart: Mapping[str, Collection[str]]) -> list[list[int]]:
        """By component, the numbered ones that are separate from it."""
        of = self.component
        return [[of[o] for o in apart.get(name, ()) if o in of] for name in of]


class Bindings:
    """The constraints on a run's fragments; the run receives their tags as numbers."""

    def __init__(self, run: CompiledRun) -> None:
        self._run = run
        self.constraints, self.graph = Constraints(), DecisionGraph(())
        self.components = Components(self.constraints, self.graph)
        self._tags: dict[int, Tags] = {}
        # by component of decisions, which of its fragments has a linking value
        self._stated: dict[str, dict[str, str]] = {}
        self._holders: dict[tuple[str, str], dict[int, None]] = {}  # by shared value
        self._numbers = Numbers()

    def bind(
        self,
        constraints: Constraints,
        graph: DecisionGraph,
        fragments: Iterable[tuple[int, Fragment]],
    ) -> list[int]:
        """Apply constraints to the fragments in memory; the particles stay.

        Returns the fragments whose tags are others now, and those of their components, ascending.

        Raises:
            ContradictionError: they cannot all hold; nothing has changed.
        """
        before = self.constraints, self.graph, self._tags, self._stated
        self.constraints, self.graph, self._tags, self._stated = constraints, graph, {}, {}
        bound = {n: x for n, x in fragments if self.concern(x)}
        try:
            for x in bound.values():
                self.require_possible(x)
                self._note_values(x)
        except ContradictionError:
            self.constraints, self.graph, self._tags, self._stated = before
            raise
        self.components, self._numbers = Components(constraints, graph), Numbers()
        self._holders = {}
        self.components.add(list(bound.values()))
        for number, x in bound.items():
            self._note(number, x)
        for name in graph.members:
            self._numbers.component.setdefault(self.components.of(name) or name, 0)
        self._numbers.component = {name: k for k, name in enumerate(self._numbers.component)}
        self._run.bind(self._numbers.apart(self.components.apart) if constraints else None)
        if constraints:
            self._tell({number: self._tags.get(number, _FREE) for number in bound})
            self._run.tag_clusters()
        changed = {n for n, tags in before[2].items() if self._tags.get(n, _FREE) != tags}
        changed |= self._tags.keys() - before[2].keys()
        components = {self.component_of(n) for n in changed} - {None}
        whole = {n for n, tags in self._tags.items() if tags.component in components}
        return sorted(changed | whole)

    def concern(self, x: Fragment) -> bool:
        """Whether a fragment has or will have tags."""
        of = self.constraints
        ruled = of.link is not None or of.never or of.always or x.id in self.graph.component
        return bool(ruled) or (of.known and x.known is not None)

    def require_possible(self, x: Fragment) -> None:
        """Refuse a fragment that decisions merge with another of the same linking value."""
        component = self.graph.component.get(x.id)
        known = self._stated.get(component, {}) if component is not None else {}
        for value in self.constraints.stated(x):
            if known.get(value, x.id) != x.id:
                link = self.constraints.link
                raise _linked_twice(self.graph, known[value], x.id, value, link)

    def take_in(self, fragments: Mapping[int, Fragment]) -> bool:
        """Add fragments, by number; the run does not know their clusters yet.

        Returns whether `bind` is to follow as soon as it does.
        """
        bound = {number: x for number, x in fragments.items() if self.concern(x)}
        changed = self.components.add(list(bound.values()))
        for number, x in bound.items():
            self._note_values(x)
            self._note(number, x)
        self._tell({number: self._tags.get(number, _FREE) for number in bound})
        return changed

    def _note_values(self, x: Fragment) -> None:
        component = self.graph.component.get(x.id)
        if component is not None:
            known = self._stated.setdefault(component, {})
            for value in self.constraints.stated(x):
                known.setdefault(value, x.id)

    def _note(self, number: int, x: Fragment) -> None:
        tags = self.components.tags(x)
        if tags != _FREE:
            self._tags[number] = tags
        values = self.constraints.shared(x)
        self._run.keep_open(keys_of_values(values))
        for value in values:
            self._holders.setdefault(value, {})[number] = None

    def expect(
        self, first: int, fragments: Sequence[Fragment]
    ) -> tuple[int, ContradictionError | InfeasibleFragment | None]:
        """Announce the next fragments, numbered from `first`.

        Returns how many of them can be added, and the problem with the next one: it is infeasible
        if others would have other components with it.
        """
        bound = list[int]()
        problem: ContradictionError | InfeasibleFragment | None = None
        for number, x in enumerate(fragments, first):
            if not self.concern(x):
                continue
            try:
                self.require_possible(x)
            except ContradictionError as error:
                fragments, problem = fragments[: number - first], error
                break
            if self.components.add((x,)):
                fragments, problem = fragments[: number - first], InfeasibleFragment()
                break
            self._note_values(x)
            self._note(number, x)
            bound.append(number)
        self._tell({number: self._tags.get(number, _FREE) for number in bound})
        return len(fragments), problem

    def preview(self, number: int, x: Fragment) -> None:
        """Look up a fragment as if it had this number."""
        if self.constraints:
            self._tell({number: self.components.tags(x)})

    def forget(self, fragments: Mapping[int, Fragment]) -> None:
        """Remove these fragments, by number, or cancel their announcement.

        With rules, `bind` is to follow.
        """
        bound = {number: x for number, x in fragments.items() if number in self._tags}
        for number, x in bound.items():
            del self._tags[number]
            known = self._stated.get(self.graph.component.get(x.id, ""), {})
            for value in self.constraints.stated(x):
                if known.get(value) == x.id:
                    del known[value]
        self._tell(dict.fromkeys(bound, _FREE))

    def values(self, number: int) -> Sequence[str]:
        """The linking values of a fragment."""
        return self._tags.get(number, _FREE).values

    def holders(self, values: Iterable[tuple[str, str]]) -> list[int]:
        """The fragments in memory with one of these values of rules, ascending."""
        return sorted({n for value in values for n in self._holders.get(value, ())})

    @contextmanager
    def unlinked(self, number: int) -> Iterator[None]:
        """Make the run ignore the linking values of a fragment."""
        tags = self._tags.get(number, _FREE)
        self._tell({number: tags._replace(values=())})
        try:
            yield
        finally:
            self._tell({number: tags})

    def mates(self, x: Fragment) -> Sequence[str]:
        """The ids of all fragments that decisions merge with this one."""
        return self.graph.members.get(self.graph.component.get(x.id, ""), ())

    def bound(self, components: Collection[str]) -> list[int]:
        """The fragments of some components of decisions, ascending."""
        wanted = {self.components.of(component) for component in components}
        return sorted(i for i, tags in self._tags.items() if tags.component in wanted)

    def component_of(self, fragment: int) -> str | None:
        """The component of a fragment, by number."""
        return self._tags.get(fragment, _FREE).component

    def allow(self, clusters: Iterable[Cluster]) -> bool:
        """Whether a grouping satisfies all constraints."""
        return satisfied(clusters if self._tags else (), self._tags, self.components.apart)

    def bind_some(self, run: CompiledRun, fragments: Sequence[int]) -> None:
        """Apply the constraints to a run over these fragments alone, in order.

        The first fragment of a component has the values and sets of all, so no other fragment takes
        a place that bars one of them.
        """
        if not self.constraints:
            return
        own = [self._tags.get(number, _FREE) for number in fragments]
        together: dict[str, Tags] = {}
        for tags in own:
            if tags.component is not None:
                so_far = together.get(tags.component, Tags(tags.component))
                values = dict.fromkeys((*so_far.values, *tags.values))
                sets = dict.fromkeys((*so_far.sets, *tags.sets))
                together[tags.component] = Tags(tags.component, tuple(values), tuple(sets))
        numbers = Numbers()
        told = {}
        for k, tags in enumerate(own):
            if tags.component is not None:
                tags = together.pop(tags.component, Tags(tags.component))
            told[k] = numbers.of(tags)
        run.bind(numbers.apart(self.components.apart))
        run.put_sets(numbers.sets)
        run.tag(told)

    def _tell(self, tags: Mapping[int, Tags]) -> None:
        if tags:
            known = len(self._numbers.sets)
            told = {number: self._numbers.of(own) for number, own in tags.items()}
            self._run.put_sets(self._numbers.sets[known:])
            self._run.tag(told)
