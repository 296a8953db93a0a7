"""The entities of a file as lines of JSON, made by the kernel.

They are the lines of `kbforge.kb.entities.assemble`, byte for byte, without an object for each
fragment and entity: the kernel (`kbforge/kernel/src/entities.cpp`) works on columns and writes the
lines. Only names and the best of several spellings are chosen here.
"""

from __future__ import annotations

import weakref
from collections.abc import Iterator, Mapping, Sequence
from ctypes import POINTER, byref, c_char_p, c_int64, c_void_p, cast, string_at
from itertools import pairwise
from typing import Any, NamedTuple

import numpy as np
import orjson
from numpy.typing import NDArray

from kbforge.contracts import FloatArray, IntArray, Posterior, Provenance, Subproblems, Value
from kbforge.files.columns import FragmentColumns, Statements, Texts
from kbforge.kb.entities import (
    LEAST_PROBABILITY,
    MOST_CHARACTERS,
    Corpus,
    check_partition,
    entity_ids,
    mean_vector,
    name_parts,
    naming,
)
from kbforge.kb.spelling import Words, best_of
from kbforge.kernel import binding
from kbforge.kernel.binding import address, kernel_library
from kbforge.numerics import starts_of

_AT_ONCE = 1 << 15  # fragments of the entities that are assembled at a time
_NO_VECTOR = b"[null,"


def entity_lines(
    fragments: FragmentColumns,
    posterior: Posterior,
    most_alternatives: int | None,
    calibrated: Mapping[int, float] | None,
    corpus: Corpus,
    made: Provenance | None,
) -> Iterator[tuple[int, bytes]]:
    """The lines of the entities of the point estimate, and of how many entities.

    Arguments are as for `assemble`; the first line records how all were `made`.
    """
    check_partition(posterior)
    found = _Assembler(fragments, posterior, most_alternatives, corpus)
    taken = set[str]()
    for entities in found.parts():
        sure = None
        if calibrated is not None:
            sure = [calibrated[first] for first in entities.firsts.tolist()]
        lines = found.lines(entities, sure, list(_fresh(entities.first_ids(fragments), taken)))
        if made is not None and lines:
            end = lines.index(b"\n") - 1
            lines = lines[:end] + b',"made":' + orjson.dumps(made.to_json()) + lines[end:]
            made = None
        yield len(entities.firsts), lines


def _fresh(earliest: Sequence[str], taken: set[str]) -> Iterator[str]:
    for name in earliest:
        found = next(one for one in entity_ids(name) if one not in taken)
        taken.add(found)
        yield found


class _Entities(NamedTuple):
    """Some entities: their members, what they state, and how probable they are.

    An entity has cells, one for each attribute in order, with the values of the attribute, the most
    stated first; each value has the fragments that state it. Starts are where those of each begin.
    """

    member_start: IntArray
    cell_start: IntArray
    value_start: IntArray
    holder_start: IntArray
    members: NDArray[np.int32]
    attribute: NDArray[np.int32]  # of cells
    value: NDArray[np.int32]
    holder: NDArray[np.int32]  # of values
    reported: FloatArray
    probability: FloatArray  # of alternatives

    @property
    def firsts(self) -> NDArray[np.int32]:
        """The smallest fragment of each."""
        return self.members[self.member_start[:-1]]

    def first_ids(self, fragments: FragmentColumns) -> list[str]:
        """The ids of their smallest fragments."""
        return [fragments.ids[first] for first in self.firsts.tolist()]


class _Assembler:
    """The kernel's entities of a file."""

    def __init__(
        self,
        fragments: FragmentColumns,
        posterior: Posterior,
        most_alternatives: int | None,
        corpus: Corpus,
    ) -> None:
        subproblems = posterior.subproblems
        assert isinstance(subproblems, Subproblems)
        self._fragments, self._subproblems, self._corpus = fragments, subproblems, corpus
        stated = fragments.statements()
        self._stated = stated
        place = np.array([corpus.columns[name] for name in stated.attributes], np.int32)
        texts = [_texts(of) for of in stated.texts]
        groupings = subproblems.arrays()
        columns = (stated.starts, stated.attribute, stated.value, place)
        names, ids = _encoded(stated.attributes), _texts(fragments.ids)
        self._held = groupings, columns, texts, names, ids  # what the kernel reads
        said = binding.CSaid(
            *(column.ctypes.data for column in columns),
            (binding.CTexts * len(texts))(*(one.told for one in texts)),
            *(names.told, ids.told),
        )
        least = -1.0 if most_alternatives is None else LEAST_PROBABILITY
        most = -MOST_CHARACTERS if most_alternatives is None else most_alternatives
        self._kernel = kernel_library()
        self._handle = self._kernel.kb_entities_new(
            byref(binding.CGroupings(*map(address, groupings))), byref(said), most, least
        )
        self._texts_told = said  # holds the array of texts
        weakref.finalize(self, self._kernel.kb_entities_free, self._handle)
        rests = map(fragments.rests.texts.raw, range(len(fragments.rests.texts)))
        self._has_vectors = not all(rest.startswith(_NO_VECTOR) for rest in rests)

    def parts(self) -> Iterator[_Entities]:
        """The entities, some thousand at a time; each part lasts until the next one."""
        clusters, lengths = self._subproblems.arrays()[:2]
        cells = lengths[clusters]  # members of all clusters before each subproblem
        at, n, found = 0, len(self._subproblems), binding.CEntities()
        while at < n:
            end = max(int(np.searchsorted(cells, cells[at] + _AT_ONCE, side="right")) - 1, at + 1)
            self._kernel.kb_entities_assemble(self._handle, at, end, byref(found))
            yield _taken(found)
            at = end

    def lines(self, entities: _Entities, sure: Sequence[float] | None, ids: Sequence[str]) -> bytes:
        """The lines of a part, with calibrated confidence and ids."""
        names, best = self._chosen(entities)
        reported = orjson.dumps(entities.reported.tolist())
        texts = [_encoded(ids), _encoded(names), self._more(entities)]
        also = binding.CStatedEntities(
            *(one.told for one in texts),
            address(best),
            reported if sure is None else orjson.dumps(sure),
            None if sure is None else reported,
            orjson.dumps(entities.probability.tolist()),
        )
        lines = c_void_p()
        size = self._kernel.kb_entities_lines(self._handle, byref(also), byref(lines))
        return string_at(lines, size) if size else b""

    def _more(self, entities: _Entities) -> _Told:
        """The vectors of entities, as more of their JSON."""
        if not self._has_vectors:
            return _encoded([""] * len(entities.firsts))
        out = []
        for a, b in pairwise(entities.member_start.tolist()):
            vector = mean_vector(self._fragments.some(entities.members[a:b].astype(np.int64)))
            out.append("" if vector is None else f',"vector":{orjson.dumps(vector).decode()}')
        return _encoded(out)

    def _chosen(self, entities: _Entities) -> tuple[list[str], NDArray[np.int32]]:
        """The name of each entity, and of each attribute the place of its best value."""
        part = _Spellings(self._stated, entities, self._corpus.words)
        names, chosen = list[str](), dict[int, str]()
        for (a, b), first in zip(pairwise(part.cells), entities.firsts.tolist(), strict=True):
            parts = part.name_of(a, b)
            chosen |= parts
            names.append(" ".join(parts.values()) or self._fragments.ids[first])
        best = np.zeros(len(part.attributes), np.int32)
        for cell in np.flatnonzero(np.diff(entities.value_start) > 1).tolist():
            text = chosen.get(cell)
            texts = part.texts_of(cell)
            best[cell] = texts.index(part.best_of(cell) if text is None else text)
        return names, best


class _Spellings:
    """The values of some entities, of which the best are chosen."""

    def __init__(self, stated: Statements, entities: _Entities, words: Words | None) -> None:
        self._stated, self._entities, self._words = stated, entities, words
        self.cells, self._begins = entities.cell_start.tolist(), entities.value_start.tolist()
        self.attributes, self._value = entities.attribute.tolist(), entities.value.tolist()
        self._counts = np.diff(entities.holder_start).tolist()
        self._naming: dict[tuple[int, ...], list[int]] = {}

    def texts_of(self, cell: int) -> list[str]:
        """The values of a cell, the most stated first."""
        texts = self._stated.texts[self.attributes[cell]]
        begin, end = self._begins[cell : cell + 2]
        return [texts[number] for number in self._value[begin:end]]

    def best_of(self, cell: int) -> str:
        """The best of its values."""
        texts = self.texts_of(cell)
        if len(texts) == 1:
            return texts[0]
        begin, end = self._begins[cell : cell + 2]
        counts = self._counts[begin:end]
        return best_of(dict(zip(texts, counts, strict=True)), words=self._words)

    def name_of(self, first: int, last: int) -> dict[int, str]:
        """The name of the entity with these cells, as parts by cell."""
        attributes = tuple(self.attributes[first:last])
        places = self._naming.get(attributes)
        if places is None:
            names = [self._stated.attributes[number] for number in attributes]
            naming_ones = naming(names)
            places = [place for place, name in enumerate(names) if name in naming_ones]
            self._naming[attributes] = places
        if len(places) == 1:
            return {first + places[0]: self.best_of(first + places[0])}
        cells = {self._stated.attributes[attributes[place]]: first + place for place in places}
        values = {name: self._values_of(cell) for name, cell in cells.items()}
        parts = name_parts(values, {*values}, self._words) if values else {}
        return {cells[name]: text for name, text in parts.items()}

    def _values_of(self, cell: int) -> list[Value]:
        """The values of a cell with those that state them, by number."""
        begin, end = self._begins[cell : cell + 2]
        starts = self._entities.holder_start[begin : end + 1].tolist()
        holders = self._entities.holder[starts[0] : starts[-1]].tolist()
        held = (
            tuple(map(str, holders[a - starts[0] : b - starts[0]])) for a, b in pairwise(starts)
        )
        return [Value(*one) for one in zip(self.texts_of(cell), held, strict=True)]


class _Told(NamedTuple):
    """Texts as the kernel reads them."""

    starts: IntArray
    content: bytes

    @property
    def told(self) -> binding.CTexts:
        """The kernel's `kb_texts`, which these outlive."""
        content = cast(c_char_p(self.content), c_void_p)
        starts = self.starts.ctypes.data_as(POINTER(c_int64))
        return binding.CTexts(len(self.starts) - 1, starts, content)


def _texts(texts: Sequence[str]) -> _Told:
    return _Told(*texts.parts()) if isinstance(texts, Texts) else _encoded(texts)


def _encoded(texts: Sequence[str]) -> _Told:
    encoded = [text.encode() for text in texts]
    return _Told(starts_of(list(map(len, encoded))), b"".join(encoded))


def _taken(found: binding.CEntities) -> _Entities:
    """A copy of the kernel's columns."""

    def copied(pointer: Any, n: int) -> NDArray[Any]:
        return np.ctypeslib.as_array(pointer, (n,)).copy() if n else np.zeros(0, np.int32)

    member_start, cell_start = (
        copied(p, found.n + 1) for p in (found.member_start, found.cell_start)
    )
    value_start = copied(found.value_start, found.n_cells + 1)
    holder_start = copied(found.holder_start, int(value_start[-1]) + 1)
    return _Entities(
        *(member_start, cell_start, value_start, holder_start),
        copied(found.members, int(member_start[-1])),
        copied(found.attribute, found.n_cells),
        copied(found.value, int(value_start[-1])),
        copied(found.holder, int(holder_start[-1])),
        copied(found.reported, found.n),
        copied(found.probability, found.n_rivals),
    )
