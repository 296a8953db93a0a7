"""What people do with entities, said as decisions: join, part, move, confirm, choose, accept.

An act says that groups of fragments are one entity each, and that some groups are different ones.
All of that is one decision about two fragments, and its ties (`kbforge.jobs.decide`): so an act
holds as a whole or is refused, and its undo withdraws all of it, exactly if nothing came after it.
`accept` answers many questions. Each answer is a decision of its own, because one of them may turn
out wrong; they are of one run, and `take_back` withdraws them together.

| act | says |
|---|---|
| join | the fragments of two entities are one |
| part | some fragments of an entity are one, the others are one, and the two are different |
| move | some fragments and another entity are one; those they leave are one, and a different one |
| confirm | the fragments of an entity are one, and none that a particle has with them is |
| choose | the clusters of a particle are one each, and different if another particle joins them |
| accept | the pairs with at least a probability are one entity |

A proposal is made from the store as it is when it is taken. If an entity of one fragment is
confirmed, a decision names that fragment twice.
"""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Iterable, Sequence, Set
from dataclasses import dataclass

from kbforge.contracts import Cluster, Decision, FloatArray, Subproblem
from kbforge.errors import (
    ContradictionError,
    LikelihoodError,
    NotFoundError,
    UsageError,
    counted,
    quoted,
)
from kbforge.fit.questions import PosteriorQueue, likely_pairs
from kbforge.jobs.decide import content_of, honour_together
from kbforge.jobs.opening import EventResult, OpenStore, require_all
from kbforge.store.store import Store
from kbforge.store.tables import ask

MOST_ACCEPTED = 1_000
"""Maximum number of decisions of one act."""
_IN_DOUBT = """
SELECT subproblem FROM confidence WHERE reported < 1 UNION SELECT subproblem FROM stale
"""


@dataclass(frozen=True, slots=True)
class Proposal:
    """An act that can be taken.

    Each of `said` is a decision and its ties. Those that contradict others are left out if the act
    is `lenient`, otherwise all of it is refused. `probable` has the probability of each that is
    accepted.
    """

    verb: str
    about: str
    said: Sequence[Sequence[Decision]]
    lenient: bool = False
    probable: Sequence[float] = ()


def join(store: Store, entity: str, other: str) -> Proposal:
    """Two entities are one; errors as `_members`, and a UsageError if they are one already."""
    (first, ids), (second, others) = _members(store, entity), _members(store, other)
    if first == second:
        raise UsageError(f"both are the entity {quoted(first)} already")
    return Proposal("join", f"{first} {second}", [_one([ids[0], others[0], *ids[1:], *others[1:]])])


def part(store: Store, fragments: Sequence[str]) -> Proposal:
    """Some fragments are another entity than the others of theirs; errors as `_divided`."""
    entity, chosen, rest = _divided(store, fragments)
    if not rest:
        raise UsageError(f"these are all fragments of {quoted(entity)}: nothing is left to part")
    about = f"{counted(len(chosen), 'fragment')} of {entity}"
    return Proposal("part", about, [_apart([chosen, rest])])


def move(store: Store, fragments: Sequence[str], entity: str) -> Proposal:
    """Some fragments are of another entity than the others of theirs; errors as `_divided`."""
    left, chosen, rest = _divided(store, fragments)
    to, others = _members(store, entity)
    if to == left:
        raise UsageError(f"these are fragments of {quoted(to)} already")
    about = f"{counted(len(chosen), 'fragment')} of {left} to {to}"
    parted = _apart([chosen, rest]) if rest else _one(chosen)
    return Proposal("move", about, [[*_one([chosen[0], *others]), *parted]])


def confirm(store: Store, entity: str) -> Proposal:
    """An entity is exactly right."""
    id, ids = _members(store, entity)
    home, numbers = store.entity(id)
    own, rivals = set(numbers), set[int]()
    for particle in store.pages.page(home).subproblem().particles:
        for cluster in particle.clusters:
            if not own.isdisjoint(cluster):
                rivals.update(cluster)
    strange = [x.id for x in store.pages.fragments(sorted(rivals - own)).values()]
    decided = [*_one(ids), *(Decision(False, ids[0], one) for one in strange)]
    if len(ids) == 1:
        decided.append(Decision(True, ids[0], ids[0]))
    return Proposal("confirm", id, [decided])


def choose(store: Store, subproblem: int, grouping: str) -> Proposal:
    """A grouping of a subproblem is right, given by `key_of`.

    Raises a NotFoundError if it is not stored, and a UsageError if no other is.
    """
    try:
        block = store.pages.page(subproblem).subproblem()
    except (KeyError, OverflowError):
        raise NotFoundError(f"the knowledge base has no subproblem {subproblem}") from None
    found = [p.clusters for p in block.particles if key_of(p.clusters) == grouping]
    if not found:
        raise NotFoundError(f"subproblem {subproblem} has no such grouping now; look at it again")
    ids = {number: x.id for number, x in store.pages.fragments(block.fragments).items()}
    groups = [[ids[number] for number in cluster] for cluster in found[0]]
    decided = _apart(groups, _joined_elsewhere(block, found[0]))
    if not decided:
        raise UsageError(f"subproblem {subproblem} has no other grouping")
    return Proposal("choose", f"a grouping of subproblem {subproblem}", [decided])


def accept(
    store: Store,
    at_least: float,
    believed: Callable[[FloatArray], FloatArray] | None = None,
    within: Set[int] | None = None,
) -> Proposal:
    """The open pairs with at least this probability are one entity, `MOST_ACCEPTED` of them.

    `believed` gives the probability of pairs by the reported one. `within` are the subproblems
    whose pairs are accepted, by default all.
    """
    if not 0.5 < at_least <= 1:
        raise UsageError(f"expected a probability over .5, up to 1, got {at_least}")
    believed = believed or PosteriorQueue().believed
    pairs = [
        pair
        for (name,) in sorted(ask(store.database.connection, _IN_DOUBT))
        if within is None or name in within
        for pair in likely_pairs(store.pages.page(name).subproblem(), at_least, believed)
    ]
    pairs = sorted(pairs, reverse=True)[:MOST_ACCEPTED]
    found = store.pages.fragments([number for _, *pair in pairs for number in pair])
    decided = [[Decision(True, found[one].id, found[other].id)] for _, one, other in pairs]
    about = f"pairs with a probability of {at_least:.3g} or more"
    return Proposal("accept", about, decided, lenient=True, probable=[p for p, *_ in pairs])


def key_of(clusters: Iterable[Cluster]) -> str:
    """A short name of a grouping, by the numbers of its fragments."""
    return hashlib.blake2b(repr(sorted(clusters)).encode(), digest_size=12).hexdigest()


def take(held: OpenStore, proposal: Proposal, told: bool = True) -> EventResult:
    """Add the decisions of a proposal to an open store and end the run; `told` as in `honour`.

    Raises:
        ContradictionError: it contradicts decisions, which the message names.
        LikelihoodError: no grouping satisfies it.

    """
    in_force = {content_of(one) for one in held.session.constraints.decisions}
    new = [said for said in proposal.said if not in_force.issuperset(map(content_of, said))]
    left, made, refused = [new] if new else [], list[int](), 0
    try:
        while left:
            some = left.pop()
            try:
                made += [one.number for one in honour_together(held, some)[0]]
            except (ContradictionError, LikelihoodError):
                if not proposal.lenient:
                    raise
                half = len(some) // 2
                left += [some[half:], some[:half]] if half else []
                refused += not half
    finally:
        held.finish(told)
    return held.result(decisions=made, refused=refused)


def _members(store: Store, entity: str) -> tuple[str, Sequence[str]]:
    """An entity's id and those of its fragments, by place; a former id leads to it.

    Raises a NotFoundError if there never was such an entity, and a UsageError if it has parted.
    """
    now = store.now(entity)
    if len(now) > 1:
        raise UsageError(f"{quoted(entity)} has parted: {quoted(', '.join(now), 200)}")
    (found,) = store.members(now)
    return found


def _divided(store: Store, fragments: Sequence[str]) -> tuple[str, Sequence[str], Sequence[str]]:
    """The entity of some fragments, these, and its others, by place.

    Raises a NotFoundError for an unknown fragment, a UsageError if they are of several entities.
    """
    numbers = store.pages.numbers(fragments)
    require_all(store, fragments, numbers)
    entities = store.holders(numbers.values())
    if len(entities) != 1:
        raise UsageError(f"expected fragments of one entity, got {len(entities):,}")
    entity, ids = _members(store, entities[0])
    return entity, [id for id in ids if id in numbers], [id for id in ids if id not in numbers]


def _one(ids: Sequence[str]) -> list[Decision]:
    """All these fragments are one entity."""
    return [Decision(True, ids[0], id) for id in ids[1:]]


def _apart(
    groups: Sequence[Sequence[str]], pairs: Iterable[tuple[int, int]] = ((0, 1),)
) -> list[Decision]:
    """Each group is one entity; pairs of them, by place, are different."""
    apart = [Decision(False, groups[one][0], groups[other][0]) for one, other in pairs]
    return apart + [decision for group in groups for decision in _one(group)]


def _joined_elsewhere(block: Subproblem, clusters: Sequence[Cluster]) -> list[tuple[int, int]]:
    """The pairs of these clusters, by place, with fragments that a particle joins."""
    of = {number: place for place, cluster in enumerate(clusters) for number in cluster}
    found = set[tuple[int, int]]()
    for particle in block.particles:
        for cluster in particle.clusters:
            places = sorted({of[number] for number in cluster})
            found.update((one, other) for one in places for other in places if one < other)
    return sorted(found)
