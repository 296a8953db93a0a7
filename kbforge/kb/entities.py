r"""Assembles entities with provenance, confidence and alternatives from a posterior.

An entity is a cluster of its subproblem's heaviest particle, or of another point estimate
(`kbforge.kb.consensus`). Its reported probability is the total probability of the particles that
contain exactly that cluster; its alternatives are the groupings of its fragments in the other
particles:

| symbol | meaning |
|---|---|
| p_i | probability of particle i of the subproblem, exp(log weight) |
| C | a cluster of the point estimate |
| z_i \| C | the clusters of particle i that touch a fragment of C |
| reported(C) | the sum of p_i over the i with z_i \| C = {C} |
| alternative | a value G != {C} of z_i \| C, with the sum of p_i over the i that take it |

Attributes are in the order of the file, as far as its fragments show it: each fragment orders its
own attributes, and the overall order agrees with them. All entities of a file have the same order.
"""

from __future__ import annotations

import functools
import hashlib
import heapq
import math
from collections import Counter, defaultdict
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import lru_cache
from itertools import chain, pairwise
from typing import TypeAlias

import numpy as np
import orjson

from kbforge.contracts import (
    Alternative,
    Cluster,
    Entity,
    Fragment,
    IntArray,
    Posterior,
    Provenance,
    Subproblem,
    Subproblems,
    Value,
)
from kbforge.files.columns import FragmentColumns, Statements, statements_of
from kbforge.kb.spelling import Words, best_of
from kbforge.numerics import members_of

MOST_ALTERNATIVES = 3

LEAST_PROBABILITY = 0.01  # alternatives must exceed this, unless all are kept
_ID_DIGITS = 12
_AT_ONCE = 1 << 12  # fragments that are held while entities are assembled
MOST_CHARACTERS = 2_000_000  # of an entity's alternatives: a line has 16 MB at most

Fragments: TypeAlias = Sequence[Fragment] | Mapping[int, Fragment]
"""Fragments by number."""
_Rival: TypeAlias = tuple[float, tuple[Cluster, ...]]
"""An alternative: its probability, and the clusters."""


@dataclass(frozen=True, slots=True)
class Corpus:
    """Facts about a whole file: its order of attributes and its words.

    Attributes:
        columns: the place of each attribute.
        words: those that several fragments have; None if unknown.

    """

    columns: Mapping[str, int] = field(default_factory=dict)
    words: Words | None = None

    @classmethod
    def of(cls, stated: Statements) -> Corpus:
        """The facts about the fragments of these statements."""
        return cls(columns_of(stated), Words.of(stated))


_NO_CORPUS = Corpus()


def assemble(
    fragments: Sequence[Fragment],
    posterior: Posterior,
    most_alternatives: int | None = MOST_ALTERNATIVES,
    calibrated: Mapping[int, float] | None = None,
    known: Collection[str] = (),
    corpus: Corpus | None = None,
) -> Iterator[Entity]:
    """The entities of the point estimate, by subproblem, then by earliest fragment.

    Args:
        fragments: in order of arrival; an interrupted run's posterior covers a prefix of them.
        posterior: a clusterer's result.
        most_alternatives: maximum alternatives per entity, the most probable ones; None keeps all
            whose ids fit on one line.
        calibrated: confidence of every cluster of the point estimate, if calibrated, by the
            cluster's first fragment.
        known: ids of the entities of an authority, which the clusters of their fragments keep.
        corpus: facts about all fragments; None computes them.

    Raises:
        AssertionError: the point estimate is not a partition of the fragments, which is a bug of
            the clusterer; raised before the first entity.
    """
    check_partition(posterior)
    taken, held = set(known), dict[int, Fragment]()

    def fresh(cluster: Cluster) -> str:
        if known and (own := known_in(held, cluster)) is not None:
            return own
        found = next(one for one in entity_ids(held[cluster[0]].id) if one not in taken)
        taken.add(found)
        return found

    whole = Corpus.of(statements_of(fragments)) if corpus is None else corpus
    for part in _parts(posterior.subproblems):
        rows = sorted(chain.from_iterable(subproblem.fragments for _, subproblem in part))
        held = dict(zip(rows, _some(fragments, rows), strict=True))
        for number, subproblem in part:
            yield from assemble_subproblem(
                held, subproblem, number, fresh, most_alternatives, calibrated, whole
            )


def _parts(subproblems: Iterable[Subproblem]) -> Iterator[list[tuple[int, Subproblem]]]:
    """Numbered subproblems, as many as have some thousands of fragments."""
    part, size = list[tuple[int, Subproblem]](), 0
    for number, subproblem in enumerate(subproblems):
        part.append((number, subproblem))
        size += len(subproblem.fragments)
        if size >= _AT_ONCE:
            yield part
            part, size = [], 0
    yield part


def _some(fragments: Sequence[Fragment], rows: Sequence[int]) -> Iterable[Fragment]:
    if isinstance(fragments, FragmentColumns):
        return fragments.some(np.array(rows, np.int64))
    return map(fragments.__getitem__, rows)


def known_in(fragments: Fragments, cluster: Cluster) -> str | None:
    """The known entity with a fragment in a cluster, if any."""
    return next((x.known for x in (fragments[i] for i in cluster) if x.known is not None), None)


def assemble_subproblem(
    fragments: Fragments,
    subproblem: Subproblem,
    number: int,
    id_of: Callable[[Cluster], str],
    most_alternatives: int | None = MOST_ALTERNATIVES,
    calibrated: Mapping[int, float] | None = None,
    corpus: Corpus = _NO_CORPUS,
) -> Iterator[Entity]:
    """The entities of one subproblem, by earliest fragment; other arguments as for `assemble`.

    `fragments` are by the subproblem's numbers; `id_of` returns each cluster's id.
    """
    least = -1.0 if most_alternatives is None else LEAST_PROBABILITY
    certain = len(subproblem.particles) == 1 and subproblem.estimate is None
    beliefs = None if certain else _Beliefs(subproblem)
    for cluster in sorted(subproblem.clusters):
        reported, rivals = (1.0, []) if beliefs is None else beliefs.about(cluster, least)
        kept = _fitting(fragments, rivals) if most_alternatives is None else rivals
        kept = kept[:most_alternatives]
        sure = None if calibrated is None else calibrated[cluster[0]]
        members = [fragments[index] for index in cluster]
        name, properties = _described(members, corpus)
        yield Entity(
            id=id_of(cluster),
            name=name or members[0].id,
            properties=properties,
            fragments=tuple(member.id for member in members),
            confidence=reported if sure is None else sure,
            subproblem=number,
            alternatives=tuple(
                Alternative(probability, tuple(tuple(fragments[i].id for i in g) for g in groups))
                for probability, groups in kept
            ),
            vector=mean_vector(members),
            reported=None if sure is None else reported,
        )


def _fitting(fragments: Fragments, rivals: Sequence[_Rival]) -> list[_Rival]:
    """The most probable alternatives whose ids fit on one line."""
    kept, characters = [], 0
    for rival in rivals:
        characters += sum(len(fragments[index].id) for group in rival[1] for index in group)
        if characters > MOST_CHARACTERS:
            break
        kept.append(rival)
    return kept


def check_partition(posterior: Posterior) -> None:
    """AssertionError: the point estimate is not a partition of the fragments."""
    n = posterior.n_fragments
    found = posterior.subproblems
    if isinstance(found, Subproblems):
        members = found.estimate().members
    else:
        members = members_of(posterior.clusters())[1]
    if not np.array_equal(np.sort(members), np.arange(n)):
        raise AssertionError("the clusterer's point estimate is not a partition of the fragments")


def entity_ids(earliest: str) -> Iterator[str]:
    """Ids of an entity, shortest first, from its earliest fragment; the first unused one is
    assigned.

    The prefix "e-" before the hexadecimal digits prevents confusion with a Wikidata id.
    """
    digest = hashlib.blake2b(earliest.encode(), digest_size=32).hexdigest()
    for digits in range(_ID_DIGITS, len(digest) + 1):
        yield f"e-{digest[:digits]}"
    raise AssertionError("two fragments have one id")


class _Beliefs:
    """The posterior of a subproblem's fragments, over its particles.

    Clusters recur from particle to particle; if all particles agree, no other cluster touches an
    entity.
    """

    def __init__(self, subproblem: Subproblem) -> None:
        self._fragments = subproblem.fragments
        self._probabilities = [math.exp(p.log_weight) for p in subproblem.particles]
        self._having: dict[Cluster, list[int]] = {}
        for number, particle in enumerate(subproblem.particles):
            for cluster in particle.clusters:
                having = self._having.get(cluster)
                if having is None:
                    self._having[cluster] = [number]
                else:
                    having.append(number)

    @functools.cached_property
    def _clusters(self) -> list[Cluster]:
        return list(self._having)

    @functools.cached_property
    def _holding(self) -> dict[int, list[int]]:
        """The clusters of each fragment, by their place in `_clusters`.

        Places, since a set of tuples would hash all of a large cluster for each of its fragments.
        """
        holding: dict[int, list[int]] = {f: [] for f in self._fragments}
        for place, cluster in enumerate(self._clusters):
            for fragment in cluster:
                holding[fragment].append(place)
        return holding

    def about(self, cluster: Cluster, least: float) -> tuple[float, list[_Rival]]:
        """The probability of a cluster, and its alternatives above `least`, most probable first."""
        agreeing = self._having.get(cluster, ())  # a consensus may have it, and no particle
        # exactly 1 when nothing disagrees: rounding must not read as doubt
        if len(agreeing) == len(self._probabilities):
            return 1.0, []
        touching = {place for fragment in cluster for place in self._holding[fragment]}
        # a bit each: particles with the same bits are of one mind; agreeing ones have none
        ordered = sorted(other for place in touching if (other := self._clusters[place]) != cluster)
        minds: dict[int, int] = {}
        for place, other in enumerate(ordered):
            bit = 1 << place
            for number in self._having[other]:
                minds[number] = minds.get(number, 0) | bit
        masses: dict[int, list[float]] = {}
        for number, mind in minds.items():
            masses.setdefault(mind, []).append(self._probabilities[number])
        agreed = [self._probabilities[number] for number in agreeing]
        found = []
        for mind, mass in masses.items():
            probability = min(math.fsum(mass), 1.0)
            if probability > least:
                found.append((probability, _at(ordered, mind)))
        return min(math.fsum(agreed), 1.0), sorted(found, key=lambda r: (-r[0], r[1]))


def _at(ordered: Sequence[Cluster], bits: int) -> tuple[Cluster, ...]:
    """The clusters whose bit is set."""
    out = []
    while bits:
        lowest = bits & -bits
        out.append(ordered[lowest.bit_length() - 1])
        bits ^= lowest
    return tuple(out)


_TITLES = ("name", "fullname", "title", "label")
_MOST_SEEN = 1 << 16
_MOST_REMEMBERED = 256  # attributes of all orders; those of a table recur


def collect(
    fragments: Sequence[Fragment], corpus: Corpus = _NO_CORPUS
) -> dict[str, tuple[Value, ...]]:
    """Attribute -> distinct values, each with the fragments that state it; the best value first.

    The others follow by the number of fragments, then by code point. Attributes without a place in
    the corpus are in the order that the fragments show.
    """
    return _described(fragments, corpus)[1]


def name_of(fragments: Sequence[Fragment], corpus: Corpus = _NO_CORPUS) -> str | None:
    """The name of an entity with these fragments; None without properties.

    The name is the attribute `name`, or else `full_name`, `title` or `label`; else the attributes
    that end in "name", such as first_name and surname; else the first attribute. Case and
    punctuation of attributes do not matter. `kbforge.kb.spelling.best_of` chooses the best name,
    and the best value of an attribute. If several attributes name the entity, the name joins what
    one fragment states in all of them, in the best spelling of each; a name with a single part,
    such as only a surname, is the last choice.
    """
    return _described(fragments, corpus)[0]


def _described(
    fragments: Sequence[Fragment], corpus: Corpus
) -> tuple[str | None, dict[str, tuple[Value, ...]]]:
    """The name, and the values."""
    stated = _stated(fragments, corpus.columns)
    parts = name_parts(stated, _naming(tuple(stated)), corpus.words)
    for attribute, values in stated.items():
        if len(values) > 1:
            best = parts.get(attribute)
            if best is None:
                best = _best_of(values, corpus.words)
            values.sort(key=lambda value: value.value != best)
    properties = {attribute: tuple(values) for attribute, values in stated.items()}
    return " ".join(parts.values()) if parts else None, properties


def _stated(fragments: Sequence[Fragment], columns: Mapping[str, int]) -> dict[str, list[Value]]:
    """Attribute -> distinct values, the most stated first, then by code point."""
    stated: dict[str, dict[str, list[str]]] = {}
    for fragment in fragments:
        name = fragment.id
        for attribute, values in fragment.properties.items():
            by_value = stated.get(attribute)
            if by_value is None:
                by_value = stated[attribute] = defaultdict(list)
            if len(values) == 1:
                by_value[values[0]].append(name)
            else:
                for value in dict.fromkeys(values):
                    by_value[value].append(name)
    order = tuple(sorted(stated.keys() & columns.keys(), key=columns.__getitem__))
    if len(order) < len(stated):
        orders = tuple(dict.fromkeys(tuple(fragment.properties) for fragment in fragments))
        order = merged_order((order, *orders) if order else orders)
    return {attribute: _ranked(stated[attribute]) for attribute in order}


def _ranked(stated: Mapping[str, list[str]]) -> list[Value]:
    values = [Value(value, tuple(ids)) for value, ids in stated.items()]
    if len(values) > 1:
        values.sort(key=lambda value: (-len(value.fragments), value.value))
    return values


def name_parts(
    properties: Mapping[str, Sequence[Value]], naming: set[str], words: Words | None
) -> dict[str, str]:
    """The best name, as parts by attribute."""
    if len(naming) < 2:
        return {attribute: _best_of(properties[attribute], words) for attribute in naming}
    of_fragment: dict[str, dict[str, str]] = {}
    for attribute in properties:
        for value in properties[attribute] if attribute in naming else ():
            for fragment in value.fragments:
                of_fragment.setdefault(fragment, {}).setdefault(attribute, value.value)
    found = Counter(tuple(parts.items()) for parts in of_fragment.values())
    named = {" ".join(text for _, text in parts): parts for parts in sorted(found)}
    joined = Counter[str]()
    for parts, count in found.items():
        joined[" ".join(text for _, text in parts)] += count
    full = {name for name, parts in named.items() if len(parts) > 1}
    return dict(named[best_of(joined, full or None, words)])


def _best_of(values: Sequence[Value], words: Words | None) -> str:
    """The best of one or more values."""
    if len(values) == 1:
        return values[0].value
    return best_of({value.value: len(value.fragments) for value in values}, words=words)


def naming(attributes: Sequence[str]) -> set[str]:
    """The attributes that together name an entity."""
    letters = {a: "".join(filter(str.isalnum, a.casefold())) for a in attributes}
    for title in _TITLES:
        if title in letters.values():
            return {next(a for a in attributes if letters[a] == title)}
    return {a for a in attributes if letters[a].endswith("name")} or set(attributes[:1])


_naming = lru_cache(maxsize=1 << 10)(naming)


def mean_vector(fragments: Sequence[Fragment]) -> tuple[float, ...] | None:
    """The mean of the fragments' vectors, shape [D]; None without vectors of one length."""
    vectors = [fragment.vector for fragment in fragments if fragment.vector is not None]
    if not vectors or len({len(vector) for vector in vectors}) > 1:
        return None
    stacked = np.array(vectors)
    with np.errstate(over="ignore"):
        mean = stacked.mean(axis=0)
    if not np.isfinite(mean).all():
        # the sum of huge numbers overflows where their mean does not
        mean = (stacked / len(vectors)).sum(axis=0)
    return tuple(mean.tolist())


class AttributeOrder:
    """Merges partial orders of attributes; where they contradict, the first wins."""

    def __init__(self) -> None:
        self._place: dict[str, int] = {}
        self._after: dict[str, set[str]] = {}
        self._seen: set[tuple[str, ...]] = set()

    def add(self, attributes: Iterable[str]) -> None:
        """Add the order of a fragment or an entity."""
        order = tuple(attributes)
        if order in self._seen:
            return
        if len(self._seen) < _MOST_SEEN:
            self._seen.add(order)
        for attribute in order:
            if attribute not in self._place:
                self._place[attribute] = len(self._place)
                self._after[attribute] = set()
        for before, after in pairwise(order):
            self._after[before].add(after)

    def merged(self) -> list[str]:
        """All attributes in the merged order."""
        waits = dict.fromkeys(self._place, 0)
        for following in self._after.values():
            for attribute in following:
                waits[attribute] += 1
        ready = [(self._place[name], name) for name, count in waits.items() if not count]
        left = dict.fromkeys(self._place)
        out = []
        while left:
            if not ready:  # they contradict each other: the one that was met first goes first
                first = next(iter(left))
                ready.append((self._place[first], first))
            _, name = heapq.heappop(ready)
            if name not in left:
                continue
            del left[name]
            out.append(name)
            for attribute in self._after[name]:
                waits[attribute] -= 1
                if not waits[attribute] and attribute in left:
                    heapq.heappush(ready, (self._place[attribute], attribute))
        return out


def columns_of(stated: Statements) -> dict[str, int]:
    """The place of each attribute of a file."""
    firsts = firsts_of(stated)
    numbers = stated.attribute[firsts].tobytes()
    ends = (4 * np.searchsorted(firsts, stated.starts)).tolist()
    order = AttributeOrder()
    for own in dict.fromkeys(numbers[a:b] for a, b in pairwise(ends)):
        order.add(stated.attributes[number] for number in np.frombuffer(own, np.int32).tolist())
    return {attribute: place for place, attribute in enumerate(order.merged())}


def firsts_of(stated: Statements) -> IntArray:
    """The statements that are the first ones of their fragment about an attribute."""
    changes = np.diff(stated.attribute, prepend=-1) != 0
    begins = stated.starts[:-1]
    changes[begins[begins < stated.starts[1:]]] = True
    return np.flatnonzero(changes)


def merged_order(orders: tuple[tuple[str, ...], ...]) -> tuple[str, ...]:
    """The overall order of attributes."""
    if len(orders) == 1:
        return orders[0]
    if sum(map(len, orders)) > _MOST_REMEMBERED:
        return _merged(orders)
    return _remembered(orders)


def _merged(orders: tuple[tuple[str, ...], ...]) -> tuple[str, ...]:
    all_of_it = AttributeOrder()
    for order in orders:
        all_of_it.add(order)
    return tuple(all_of_it.merged())


_remembered = lru_cache(maxsize=1 << 12)(_merged)


def fragments_of(entity: Entity) -> list[Fragment]:
    """The values of each fragment of the entity, in the entity's order.

    Repeated values count once; label, source and vector are unknown.
    """
    stated: dict[str, dict[str, list[str]]] = {fragment: {} for fragment in entity.fragments}
    for attribute, values in entity.properties.items():
        for value in values:
            for fragment in value.fragments:
                stated[fragment].setdefault(attribute, []).append(value.value)
    return [
        Fragment(id, {attribute: tuple(sorted(values)) for attribute, values in properties.items()})
        for id, properties in stated.items()
    ]


def with_made(entities: Iterable[Entity], made: Provenance | None) -> Iterator[Entity]:
    """The entities, the first of which records how all were made."""
    for number, entity in enumerate(entities):
        yield entity if number or made is None else replace(entity, made=made)


def line_of(entity: Entity) -> bytes:
    """The line of an entity in a knowledge base."""
    return orjson.dumps(entity.to_json(), option=orjson.OPT_APPEND_NEWLINE)
