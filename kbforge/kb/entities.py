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

The kernel (`kbforge/kernel/src/entities.cpp`) works on columns and writes lines of JSON. Here names
and the best of several spellings beyond ASCII are chosen, and `Entity` objects are made of lines.
"""

from __future__ import annotations

import hashlib
import heapq
import weakref
from collections import Counter, deque
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from ctypes import byref, c_void_p, string_at
from dataclasses import dataclass, field
from functools import cached_property
from itertools import chain, filterfalse, pairwise
from typing import TypeAlias

import numpy as np
import orjson
from numpy.typing import NDArray

from kbforge.contracts import (
    Cluster,
    Entity,
    FloatArray,
    Fragment,
    IntArray,
    Particle,
    Posterior,
    Provenance,
    Subproblem,
    Subproblems,
)
from kbforge.files.columns import (
    FragmentColumns,
    Statements,
    asserted_in,
    encoded_texts,
    ids_of,
    statements_of,
)
from kbforge.kb.read import entity_from_json
from kbforge.kb.spelling import Words, best_of
from kbforge.kernel.binding import as_address, kernel_library, lent, structure, workers
from kbforge.kernel.interface import structures
from kbforge.numerics import end_to_end, members_of, spread, starts_of

MOST_ALTERNATIVES = 3

_LEAST_PROBABILITY = 0.01  # alternatives must exceed this, unless all are kept
_ID_DIGITS = 12
_SEVERAL = 1.05  # values of a fragment on average: a few state two by mistake
_AT_ONCE = 1 << 15  # fragments of the entities that are assembled at a time
_MOST_CHARACTERS = 2_000_000  # of an entity's alternatives: a line has 16 MB at most
_NO_VECTOR = b"[null,"

Lines: TypeAlias = tuple[int, bytes]
"""How many entities, and their lines."""
Annotator: TypeAlias = Callable[["EntityColumns"], Mapping[int, str]]
"""Returns more members of the JSON objects of values, by the value's number among these entities'
values, each with a comma before it, such as `,"confidence":0.9`."""


@dataclass(frozen=True, slots=True)
class Corpus:
    """Facts about a whole file: its order of attributes, its words, its attributes with several
    values at a time, and those whose values name other entities."""

    columns: Mapping[str, int] = field(default_factory=dict)  # the place of each attribute
    words: Words | None = None  # those that several fragments have; None if unknown
    several: frozenset[str] = frozenset()
    refer: frozenset[str] = frozenset()

    @classmethod
    def of(cls, stated: Statements, refer: Iterable[str] = ()) -> Corpus:
        """The facts about the fragments of these statements."""
        return cls(columns_of(stated), Words.of(stated), several_of(stated), frozenset(refer))

    def places(self, attributes: Sequence[str]) -> NDArray[np.int32]:
        """The places of attributes; unknown ones come last, by code point."""
        unknown = sorted({*attributes} - self.columns.keys())
        known = dict(self.columns) | {
            a: place for place, a in enumerate(unknown, len(self.columns))
        }
        return np.array([known[attribute] for attribute in attributes], np.int32)


def several_of(stated: Statements) -> frozenset[str]:
    """The attributes of which a fragment often states several values."""
    of_fragments = stated.attribute[firsts_of(stated)]
    n = len(stated.attributes)
    fragments, values = (np.bincount(of, minlength=n) for of in (of_fragments, stated.attribute))
    return frozenset(stated.attributes[k] for k in np.flatnonzero(values > _SEVERAL * fragments))


def entity_lines(
    fragments: Sequence[Fragment],
    posterior: Posterior,
    most_alternatives: int | None = MOST_ALTERNATIVES,
    calibrated: Mapping[int, float] | FloatArray | None = None,
    ids: Mapping[int, str] | None = None,
    corpus: Corpus | None = None,
    annotators: Sequence[Annotator] = (),
) -> Iterator[Lines]:
    """The entities of the point estimate as lines, by subproblem, then by earliest fragment.

    Args:
        fragments: in order of arrival; an interrupted run's posterior covers a prefix of them.
        posterior: a clusterer's result.
        most_alternatives: maximum alternatives per entity, the most probable ones; None keeps all
            whose ids fit on one line.
        calibrated: confidence of every cluster of the point estimate, if calibrated, by the
            cluster's first fragment.
        ids: of the entities, by the cluster's first fragment; None derives them.
        corpus: facts about all fragments; None computes them.
        annotators: say more about values.

    Raises:
        AssertionError: the point estimate is not a partition of the fragments, which is a bug of
            the clusterer; raised before the first entity.
    """
    check_partition(posterior)
    named = ids_of_entities(fragments, posterior) if ids is None else ids
    assembler = Assembler(fragments, posterior.subproblems, most_alternatives, corpus)
    yield from assembler.lines(
        lambda entities: map(named.__getitem__, entities.firsts.tolist()), calibrated, annotators
    )


def ids_of_entities(
    fragments: Sequence[Fragment], posterior: Posterior, known: Collection[str] = ()
) -> dict[int, str]:
    """The ids of the entities of the point estimate, by the cluster's first fragment.

    `known` are the ids of an authority's entities, which the clusters of their fragments keep.
    """
    ids, taken = ids_of(fragments), set(known)
    marked = {i: x.known for i, x in enumerate(fragments) if x.known} if known else {}
    out: dict[int, str] = {}
    for cluster in chain.from_iterable(posterior.estimates()):
        own = next((marked[i] for i in cluster if i in marked), None) if marked else None
        first = min(cluster)
        if own is None:
            own = next(filterfalse(taken.__contains__, entity_ids(ids[first])))
            taken.add(own)
        out[first] = own
    return out


def entities_of(lines: Iterable[Lines]) -> Iterator[Entity]:
    """The entities of lines."""
    for _, some in lines:
        for line in some.splitlines():
            yield entity_from_json(orjson.loads(line), "an entity")


def with_made(lines: Iterable[Lines], made: Provenance | None) -> Iterator[Lines]:
    """The lines, the first of which records how all entities were made."""
    for count, some in lines:
        if made is not None and some:
            end = some.index(b"\n") - 1
            some = some[:end] + b',"made":' + orjson.dumps(made.to_json()) + some[end:]
            made = None
        yield count, some


def described(
    fragments: Sequence[Fragment],
    corpus: Corpus | None = None,
) -> Entity:
    """One entity of all these fragments, at least one; without a corpus, all words are equal.

    The best value of an attribute is the first one; the others follow by the number of fragments,
    then by code point. The name is the attribute `name`, or else `full_name`, `title` or `label`;
    else the attributes that end in "name", such as first_name and surname; else the first other
    attribute that does not refer; else the id of the first fragment. Case and punctuation of
    attributes do not matter.
    `kbforge.kb.spelling.best_of` chooses the best name, and the best value of an attribute. If
    several attributes name the entity, the name joins what one fragment states in all of them, in
    the best spelling of each; a name with a single part, such as only a surname, is the last
    choice. What a person asserted last (`kbforge.kb.assertions`) is the best value.
    """
    return all_described([fragments], corpus)[0]


def all_described(
    groups: Sequence[Sequence[Fragment]], corpus: Corpus | None = None
) -> list[Entity]:
    """The entity of each group of fragments, as `described`, in one pass."""
    fragments = [x for group in groups for x in group]
    alone, end = list[Subproblem](), 0
    for group in groups:
        whole = tuple(range(end, end + len(group)))
        alone.append(Subproblem(whole, (Particle(0.0, (whole,)),)))
        end += len(group)
    corpus = Corpus(columns_of(statements_of(fragments))) if corpus is None else corpus
    assembler = Assembler(fragments, alone, 0, corpus)
    made = entities_of(assembler.lines(lambda entities: ["-"] * len(entities.firsts)))
    found = {entity.fragments[0]: entity for entity in made}
    return [found[group[0].id] for group in groups]


def name_of(fragment: Fragment) -> str:
    """The name of one fragment, as `described` has it; "" without properties."""
    stated = fragment.properties
    chosen = naming(tuple(stated))
    if len(chosen) == 1:
        return best_of(dict.fromkeys(stated[chosen.pop()], 1))
    return " ".join(min(values) for attribute, values in stated.items() if attribute in chosen)


def known_in(fragments: Sequence[Fragment], cluster: Cluster) -> str | None:
    """The known entity with a fragment in a cluster, if any."""
    return next((x.known for x in (fragments[i] for i in cluster) if x.known is not None), None)


def check_partition(posterior: Posterior) -> None:
    """AssertionError: the point estimate is not a partition of the fragments."""
    members, _ = _clusters(posterior)
    if not np.array_equal(np.sort(members), np.arange(posterior.n_fragments)):
        raise AssertionError("the clusterer's point estimate is not a partition of the fragments")


def firsts_of_entities(posterior: Posterior) -> IntArray:
    """The first fragment of each fragment's entity, shape [fragments]."""
    members, lengths = _clusters(posterior)
    starts, firsts = starts_of(lengths)[:-1], np.empty(len(members), np.int64)
    firsts[members] = members[starts].repeat(lengths)
    return firsts


def _clusters(posterior: Posterior) -> tuple[IntArray, IntArray]:
    """The members of the clusters of the point estimate, end to end, and the clusters' lengths."""
    if isinstance(posterior.subproblems, Subproblems):
        estimate = posterior.subproblems.estimate()
        return estimate.members, estimate.lengths
    lengths, members = members_of(posterior.clusters())
    return members, lengths


def entity_ids(earliest: str) -> Iterator[str]:
    """Ids of an entity, shortest first, from its earliest fragment; the first unused one is
    assigned.

    The prefix "e-" before the hexadecimal digits prevents confusion with a Wikidata id.
    """
    digest = hashlib.blake2b(earliest.encode(), digest_size=32).hexdigest()
    for digits in range(_ID_DIGITS, len(digest) + 1):
        yield f"e-{digest[:digits]}"
    raise AssertionError("two fragments have one id")


class Assembler:
    """The kernel's entities of some subproblems, which refer to fragments by their places.

    Args:
        fragments: all of them.
        subproblems: with their point estimates.
        most_alternatives: as for `entity_lines`.
        corpus: facts about more than these fragments; None computes those about these.
        numbers: what subproblems are called, shape [subproblems]; None numbers them from 0.

    """

    def __init__(
        self,
        fragments: Sequence[Fragment],
        subproblems: Sequence[Subproblem],
        most_alternatives: int | None,
        corpus: Corpus | None = None,
        numbers: Sequence[int] | None = None,
    ) -> None:
        self.fragments = fragments
        self.stated = stated = statements_of(fragments)
        corpus = Corpus.of(stated) if corpus is None else corpus
        self.words, self.refer = corpus.words, corpus.refer
        asserted = asserted_in(fragments)
        self.asserted = asserted if asserted.any() else None  # which fragments are assertions
        packed, estimates, estimate = _packed(subproblems)
        groupings = packed.arrays()
        clusters, lengths = groupings[:2]
        self._begins = lengths[clusters]  # members of all clusters before each subproblem
        parts = ("clusters", "lengths", "members", "particles", "weights", "rows", "cells")
        grouped = structure(
            "kb_groupings",
            **dict(zip(parts, groupings, strict=True)),
            estimates=estimates,
            estimate=estimate,
            numbers=None if numbers is None else np.array(numbers, np.int64),
        )
        self._texts = texts = [*map(encoded_texts, stated.texts)]  # the kernel reads them
        bits = np.zeros(0, np.uint8) if corpus.words is None else corpus.words.bits
        said = structure(
            "kb_said",
            starts=stated.starts,
            attribute=stated.attribute,
            value=stated.value,
            place=corpus.places(stated.attributes),
            naming=np.array(naming_ranks(stated.attributes, self.refer), np.int32),
            unnaming=UNNAMING,
            texts=(structures()["kb_texts"] * len(texts))(*texts),
            names=encoded_texts(stated.attributes),
            ids=encoded_texts(ids_of(fragments)),
            words=bits if len(bits) else None,
            n_words=len(bits),
            asserted=self.asserted,
        )
        least = -1.0 if most_alternatives is None else _LEAST_PROBABILITY
        most = -_MOST_CHARACTERS if most_alternatives is None else most_alternatives
        self.told = grouped, said, most, least
        self.has_vectors = _have_vectors(fragments)

    def lines(
        self,
        name: Callable[[EntityColumns], Iterable[str]],
        calibrated: Mapping[int, float] | FloatArray | None = None,
        annotators: Sequence[Annotator] = (),
    ) -> Iterator[Lines]:
        """The lines, those of some thousand fragments at a time.

        `name` returns the ids of entities; `calibrated` has confidence by first fragment;
        `annotators` say more about values.
        """
        for entities in self._parts():
            firsts, ids = entities.firsts.tolist(), list(name(entities))
            sure = None if calibrated is None else [float(calibrated[first]) for first in firsts]
            yield len(firsts), entities.lines(sure, ids, [told(entities) for told in annotators])

    def _parts(self) -> Iterator[EntityColumns]:
        """The entities, some thousand at a time; others are assembled ahead on threads."""
        ranges = list(self._ranges())
        if len(ranges) == 1:  # to start a thread takes longer than to assemble a few
            yield EntityColumns(self, *ranges[0])
            return
        ahead = deque[Future[EntityColumns]]()
        with ThreadPoolExecutor(workers()) as pool:
            for begin, end in ranges:
                ahead.append(pool.submit(EntityColumns, self, begin, end))
                if len(ahead) > workers():
                    yield ahead.popleft().result()
            while ahead:
                yield ahead.popleft().result()

    def _ranges(self) -> Iterator[tuple[int, int]]:
        """Where each part of the subproblems begins and ends."""
        cells, at, n = self._begins, 0, len(self._begins) - 1
        while at < n:
            end = max(int(np.searchsorted(cells, cells[at] + _AT_ONCE, side="right")) - 1, at + 1)
            yield at, end
            at = end


class EntityColumns:
    """The kernel's entities of some subproblems.

    An entity has cells, one for each attribute in order, with the values of the attribute, the most
    stated first; each value has the fragments that state it. Starts are where those of each begin:
    `members[member_start[e] : member_start[e + 1]]` are the fragments of entity e, and so with the
    cells of an entity (`cell_start`, with their `attribute`), the values of a cell (`value_start`,
    with the number of the `value` among those of its attribute), and the fragments that state a
    value (`holder_start`, `holder`). `stated` has the attributes and the texts of values.
    """

    def __init__(self, of: Assembler, begin: int, end: int) -> None:
        self.stated = of.stated
        self._of, self._kernel, found = of, kernel_library(), structure("kb_entities")
        grouped, said, most, least = of.told
        self._handle = self._kernel.kb_entities_new(
            *(byref(grouped), byref(said), most, least, begin, end, byref(found))
        )
        weakref.finalize(self, self._kernel.kb_entities_free, self._handle)
        self.member_start, self.cell_start = (
            lent(p, found.n + 1) for p in (found.member_start, found.cell_start)
        )
        self.value_start = lent(found.value_start, found.n_cells + 1)
        n_values = int(self.value_start[-1])
        self.holder_start = lent(found.holder_start, n_values + 1)
        self.members = lent(found.members, int(self.member_start[-1]))
        self.attribute, self._best = (lent(p, found.n_cells) for p in (found.attribute, found.best))
        self.value = lent(found.value, n_values)
        self.holder = lent(found.holder, int(self.holder_start[-1]))
        self._undecided = lent(found.undecided, found.n_undecided)
        self._reported = lent(found.reported, found.n)
        self._probability = lent(found.probability, found.n_rivals)  # of alternatives

    @property
    def firsts(self) -> NDArray[np.int32]:
        """The smallest fragment of each."""
        firsts: NDArray[np.int32] = self.members[self.member_start[:-1]]
        return firsts

    def values_of(self, cells: IntArray) -> tuple[IntArray, IntArray, IntArray]:
        """The numbers of the values of some cells, and of each the first fragment of its entity and
        its attribute; shape [values]."""
        values, cell = spread(self.value_start, cells)
        of_entity = np.searchsorted(self.cell_start, cells, side="right") - 1
        firsts = self.firsts[of_entity].astype(np.int64)
        return values, firsts[cell], self.attribute[cells][cell]

    @cached_property
    def asserted(self) -> Sequence[tuple[int, int]]:
        """The cells and the numbers of the values that persons assert, the latest one last."""
        asserted = self._of.asserted
        if asserted is None:
            return ()
        at = np.flatnonzero(asserted[self.holder])
        at = at[np.argsort(self.holder[at], kind="stable")]
        values = np.searchsorted(self.holder_start, at, side="right") - 1
        cells = np.searchsorted(self.value_start, values, side="right") - 1
        return [*zip(cells.tolist(), values.tolist(), strict=True)]

    def lines(
        self,
        sure: Sequence[float] | None,
        ids: Sequence[str],
        more: Sequence[Mapping[int, str]] = (),
    ) -> bytes:
        """Their lines, with calibrated confidence, ids, and more members of values by number."""
        names = [self._chosen(entity) for entity in self._undecided.tolist()]
        reported = orjson.dumps(self._reported.tolist())
        also = structure(
            "kb_stated_entities",
            ids=encoded_texts(ids),
            names=encoded_texts(names),
            more=encoded_texts(self._vectors()),
            of_values=encoded_texts(self._joined_members(more)),
            confidence=as_address(reported if sure is None else orjson.dumps(sure)),
            reported=None if sure is None else as_address(reported),
            rivals=as_address(orjson.dumps(self._probability.tolist())),
        )
        lines = c_void_p()
        size = self._kernel.kb_entities_lines(self._handle, byref(also), byref(lines))
        return string_at(lines, size) if size else b""

    def _joined_members(self, more: Sequence[Mapping[int, str]]) -> list[str]:
        """The members of all values; empty without any."""
        if not any(more):
            return []
        out = [""] * len(self.value)
        for some in more:
            for value, text in some.items():
                out[value] += text
        return out

    def _vectors(self) -> list[str]:
        """Their vectors, as more of their JSON; empty without vectors."""
        out = list[str]()
        if not self._of.has_vectors:
            return out
        for a, b in pairwise(self.member_start.tolist()):
            vector = mean_vector(_some(self._of.fragments, self.members[a:b].astype(np.int64)))
            out.append("" if vector is None else f',"vector":{orjson.dumps(vector).decode()}')
        return out

    def _chosen(self, entity: int) -> str:
        """The name of an entity, whose best values are chosen."""
        attributes = self.stated.attributes
        cells = range(*self.cell_start[entity : entity + 2].tolist())
        cell_of = {attributes[self.attribute[cell]]: cell for cell in cells}
        naming_ones = naming(tuple(name for name in cell_of if name not in self._of.refer))
        parts = dict[str, str]()
        if len(naming_ones) > 1:
            parts = self._joined({name: cell_of[name] for name in cell_of if name in naming_ones})
        settled = dict(self.asserted)
        for name, cell in cell_of.items():
            texts = self._texts(cell)
            begin, end = self.value_start[cell : cell + 2]
            counts = np.diff(self.holder_start[begin : end + 1]).tolist()
            stated = dict(zip(texts, counts, strict=True))
            if cell in settled:
                best = texts[settled[cell] - begin]
            else:
                best = parts[name] if name in parts else best_of(stated, words=self._of.words)
            self._best[cell] = texts.index(best)
            if {name} == naming_ones or (name in naming_ones and cell in settled):
                parts[name] = best
        named = [parts[name] for name in cell_of if name in parts]
        return " ".join(named) or self._of.fragments[int(self.firsts[entity])].id

    def _texts(self, cell: int) -> list[str]:
        """The values of a cell, the most stated first."""
        texts = self.stated.texts[self.attribute[cell]]
        return [texts[k] for k in self.value[slice(*self.value_start[cell : cell + 2])].tolist()]

    def _joined(self, cells: Mapping[str, int]) -> dict[str, str]:
        """The best name that fragments state, as parts by attribute."""
        of_fragment: dict[int, dict[str, str]] = {}
        for attribute, cell in cells.items():
            begin, end = self.value_start[cell : cell + 2]
            starts = pairwise(self.holder_start[begin : end + 1].tolist())
            for text, (a, b) in zip(self._texts(cell), starts, strict=True):
                for fragment in self.holder[a:b].tolist():
                    of_fragment.setdefault(fragment, {}).setdefault(attribute, text)
        found = Counter(tuple(parts.items()) for parts in of_fragment.values())
        named = {" ".join(text for _, text in parts): parts for parts in sorted(found)}
        joined = Counter[str]()
        for parts, count in found.items():
            joined[" ".join(text for _, text in parts)] += count
        full = {name for name, parts in named.items() if len(parts) > 1}
        return dict(named[best_of(joined, full or None, self._of.words)])


def _have_vectors(fragments: Sequence[Fragment]) -> bool:
    if isinstance(fragments, FragmentColumns):
        rests = map(fragments.rests.texts.raw, range(len(fragments.rests.texts)))
        return not all(rest.startswith(_NO_VECTOR) for rest in rests)
    return any(fragment.vector is not None for fragment in fragments)


def _some(fragments: Sequence[Fragment], rows: IntArray) -> Sequence[Fragment]:
    if isinstance(fragments, FragmentColumns):
        return fragments.some(rows)
    return [fragments[row] for row in rows.tolist()]


def _packed(
    subproblems: Sequence[Subproblem],
) -> tuple[Subproblems, IntArray | None, NDArray[np.int32] | None]:
    """Subproblems as arrays, where their point estimates begin, and which clusters these have; None
    if they are the heaviest particles."""
    if isinstance(subproblems, Subproblems):
        return subproblems, None, None
    sizes, rows, weights = list[int](), list[list[int]](), list[float]()
    clusters, estimates = list[Cluster](), list[list[int]]()
    for one in subproblems:
        numbers: dict[Cluster, int] = {}
        groupings = [particle.clusters for particle in one.particles]
        *own, estimate = (
            [numbers.setdefault(cluster, len(numbers)) for cluster in grouping]
            for grouping in (*groupings, one.clusters)
        )
        rows += own
        estimates.append(estimate)
        sizes.append(len(numbers))
        weights += [particle.log_weight for particle in one.particles]
        clusters += numbers
    lengths, members = members_of(clusters)
    packed = Subproblems(
        *(np.array(sizes, np.int64), lengths, members),
        np.array([len(one.particles) for one in subproblems], np.int64),
        np.array(weights),
        *members_of(rows),
    )
    starts, chosen = end_to_end(estimates)
    return packed, starts, chosen.astype(np.int32)


_TITLES = ("name", "fullname", "title", "label")
UNNAMING = len(_TITLES) + 1
"""The rank of attributes that do not name; those of the rank before name together."""
_MOST_SEEN = 1 << 16


def naming(attributes: Sequence[str]) -> set[str]:
    """The attributes that together name an entity."""
    ranks = dict(zip(attributes, naming_ranks(attributes), strict=True))
    least = min(ranks.values(), default=UNNAMING)
    found = [attribute for attribute in attributes if ranks[attribute] == least]
    return {*(found if least == UNNAMING - 1 else found[:1])}


def naming_ranks(attributes: Sequence[str], refer: Collection[str] = ()) -> list[int]:
    """The ranks of attributes among those that name an entity: a title, the attributes that end in
    "name" together, and others, of which the first one names what has no better; last those that
    `refer`, which name another entity."""
    return [UNNAMING + 1 if name in refer else _naming_rank(name) for name in attributes]


def is_whole_name(attribute: str) -> bool:
    """Whether an attribute alone has the names of entities, which may be many at one time."""
    return _naming_rank(attribute) <= _TITLES.index("fullname")


def _naming_rank(attribute: str) -> int:
    letters = "".join(filter(str.isalnum, attribute.casefold()))
    if letters in _TITLES:
        return _TITLES.index(letters)
    return UNNAMING - letters.endswith("name")


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


def merged_order(orders: Iterable[Iterable[str]]) -> tuple[str, ...]:
    """The overall order of attributes."""
    whole = AttributeOrder()
    for order in orders:
        whole.add(order)
    return tuple(whole.merged())


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
