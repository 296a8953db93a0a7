"""The fragments of a file as columns: texts once, and numbers of them.

A million fragments as Python objects take half a gigabyte. In columns (`kbforge.files.lines` reads
them) a `Fragment` is made when it is asked for.

Learning, keys and encoding need every value once, and of a fragment only the numbers of its values
(`Statements`).
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from ctypes import Structure
from dataclasses import replace
from itertools import pairwise
from typing import Any, NamedTuple, cast, overload

import numpy as np
import orjson
from numpy.typing import NDArray

from kbforge.contracts import Fragment, IntArray
from kbforge.contracts.fragment import ASSERTED_OF, AUTHORITY, ROW, TIMES
from kbforge.errors import BadRecord, UsageError, option, quoted
from kbforge.files.fragments import held
from kbforge.kernel.binding import as_address, structure
from kbforge.numerics import spread, starts_of

_BLOCK = 1024  # fragments that are made at a time
_MOST_SHARED = 1 << 17
_LONGEST_SHARED = 128  # characters; longer values are seldom equal


class Statements(NamedTuple):
    """What fragments state, in the order in which they state it.

    Attributes and, within each attribute, values are numbered in the order of their first
    statement. A fragment that gives several values of an attribute has one statement for each; a
    value that it repeats is stated as often.
    """

    attributes: list[str]  # their names, by number
    texts: list[Sequence[str]]  # of each attribute the texts of its values, by number
    starts: IntArray  # where the statements of each fragment begin, shape [fragments + 1]
    attribute: NDArray[np.int32]  # number of the attribute of each statement, int32
    value: NDArray[np.int32]  # number of the value among those of the attribute, int32


def statements_of(fragments: Sequence[Fragment]) -> Statements:
    """The statements of fragments."""
    if isinstance(fragments, FragmentColumns):
        return fragments.statements
    numbers: dict[str, int] = {}
    known: list[dict[str, int]] = []  # the numbers of values, by attribute
    ends, attribute, value = [0], [], []
    for fragment in fragments:
        for name, values in fragment.properties.items():
            number = numbers.setdefault(name, len(numbers))
            if number == len(known):
                known.append({})
            of_values = known[number]
            for text in values:
                attribute.append(number)
                value.append(of_values.setdefault(text, len(of_values)))
        ends.append(len(value))
    return Statements(
        list(numbers),
        [list(of_values) for of_values in known],
        np.array(ends, dtype=np.int64),
        np.array(attribute, dtype=np.int32),
        np.array(value, dtype=np.int32),
    )


def ids_of(fragments: Sequence[Fragment]) -> Sequence[str]:
    """The ids of fragments."""
    if isinstance(fragments, FragmentColumns):
        return fragments.ids
    return [fragment.id for fragment in fragments]


def sizes_of_sources(fragments: Sequence[Fragment], most: int) -> Mapping[str | None, int]:
    """How many fragments each source has; empty if there are more than `most` sources."""
    numbers, sources = sources_of(fragments)
    sizes = np.bincount(numbers + 1, minlength=1)
    found = sizes.nonzero()[0].tolist()
    some = found if len(found) <= most else ()
    return {sources[k - 1] if k else None: int(sizes[k]) for k in some}


def sources_of(fragments: Sequence[Fragment]) -> tuple[IntArray, Sequence[str]]:
    """The number of each fragment's source, -1 without one, and the sources."""
    if isinstance(fragments, FragmentColumns):
        return fragments.sources.numbers.astype(np.int64), fragments.sources.texts
    known: dict[str | None, int] = {None: -1}
    numbers = [known.setdefault(x.source, len(known) - 1) for x in fragments]
    return np.array(numbers, np.int64), [source for source in known if source is not None]


class Taken(Sequence[Fragment]):
    """Some fragments in an order; those of a file are made when somebody asks for them.

    Args:
        fragments: of which.
        places: their places there.

    """

    def __init__(self, fragments: Sequence[Fragment], places: IntArray) -> None:
        self.fragments, self.places = fragments, places

    @classmethod
    def of(cls, fragments: Sequence[Fragment]) -> Taken:
        """Fragments in their own order, unless they are taken in another."""
        if isinstance(fragments, Taken):
            return fragments
        return cls(fragments, np.arange(len(fragments)))

    def __len__(self) -> int:
        return len(self.places)

    @overload
    def __getitem__(self, index: int) -> Fragment: ...
    @overload
    def __getitem__(self, index: slice) -> list[Fragment]: ...
    def __getitem__(self, index: int | slice) -> Fragment | list[Fragment]:
        if not isinstance(index, slice):
            return self.fragments[int(self.places[index])]
        places = self.places[index]
        if not isinstance(self.fragments, FragmentColumns):
            return [self.fragments[place] for place in places.tolist()]
        ascending = np.argsort(places)
        some = self.fragments.some(places[ascending])
        return [some[k] for k in np.argsort(ascending).tolist()]

    def __iter__(self) -> Iterator[Fragment]:
        for begin in range(0, len(self), _BLOCK):
            yield from self[begin : begin + _BLOCK]


class Texts(Sequence[str]):
    """Texts that lie one after another in UTF-8; each is decoded when it is asked for."""

    __slots__ = ("_content", "_starts")

    def __init__(self, starts: IntArray, content: bytes) -> None:
        kind = np.uint32 if len(content) < 1 << 32 else np.int64
        self._starts, self._content = starts.astype(kind).data, content

    def __len__(self) -> int:
        return len(self._starts) - 1

    @overload
    def __getitem__(self, index: int) -> str: ...
    @overload
    def __getitem__(self, index: slice) -> list[str]: ...
    def __getitem__(self, index: int | slice) -> str | list[str]:
        if isinstance(index, slice):
            begin, end, step = index.indices(len(self))
            if step == 1:
                return self._between(begin, end)
            return [self.raw(number).decode() for number in range(begin, end, step)]
        if index < 0:
            index = range(len(self))[index]
        return self._content[self._starts[index] : self._starts[index + 1]].decode()

    def __iter__(self) -> Iterator[str]:
        for begin in range(0, len(self), _BLOCK):
            yield from self._between(begin, min(begin + _BLOCK, len(self)))

    def parts(self) -> tuple[IntArray, bytes]:
        """Where each begins, and their bytes."""
        return np.asarray(self._starts).astype(np.int64), self._content

    def raw(self, number: int) -> bytes:
        """The bytes of a text by its number."""
        return self._content[self._starts[number] : self._starts[number + 1]]

    def of(self, rows: IntArray) -> list[str]:
        """Some texts, by ascending numbers."""
        if len(rows) and rows[-1] - rows[0] == len(rows) - 1:
            return self._between(int(rows[0]), int(rows[-1]) + 1)
        return [self.raw(row).decode() for row in rows.tolist()]

    def _between(self, begin: int, end: int) -> list[str]:
        if begin >= end:
            return []
        starts = self._starts[begin : end + 1].tolist()
        content = self._content[starts[0] : starts[-1]]
        if content.isascii():
            text, first = content.decode(), starts[0]
            return [text[a - first : b - first] for a, b in pairwise(starts)]
        return [self._content[a:b].decode() for a, b in pairwise(starts)]


def encoded_texts(texts: Sequence[str]) -> Structure:
    """Texts as the kernel reads them: its `kb_texts`."""
    if isinstance(texts, Texts):
        starts, content = texts.parts()
    else:
        encoded = [text.encode() for text in texts]
        starts, content = starts_of(list(map(len, encoded))), b"".join(encoded)
    return structure("kb_texts", n=len(texts), starts=starts, bytes=as_address(content))


class OptionalTexts(NamedTuple):
    """A text that each fragment may have: its number among the distinct ones, or -1."""

    texts: Texts
    numbers: NDArray[np.int32]

    def of(self, rows: IntArray) -> list[str | None]:
        """The texts of some fragments; equal ones share memory."""
        numbers = self.numbers[rows].tolist()
        known: dict[int, str | None] = {n: self.texts.raw(n).decode() for n in {*numbers} - {-1}}
        return [known.get(number) for number in numbers]


class FragmentColumns(Sequence[Fragment]):
    """The fragments of a file, made when they are asked for.

    Those that somebody goes through are kept, because others follow.

    Args:
        ids: of the fragments.
        statements: what they state; the arrays are not to be changed.
        labels: of the fragments.
        sources: of the fragments.
        rests: `[vector, metadata]` as JSON, of a fragment that has either; -1 - n for one with no
            vector, whose metadata are only the row n.
        apart: the name of a text that some have in their metadata besides, if any, and the texts.

    """

    def __init__(
        self,
        ids: Texts,
        statements: Statements,
        labels: OptionalTexts,
        sources: OptionalTexts,
        rests: OptionalTexts,
        apart: tuple[str, OptionalTexts] | None = None,
    ) -> None:
        self.ids, self.statements, self._labels = ids, statements, labels
        self.sources, self.rests, self.apart = sources, rests, apart
        self._held: dict[int, tuple[str, ...]] = {}  # values that lists of one share
        self._kept: dict[int, list[Fragment]] = {}  # blocks of fragments

    def __len__(self) -> int:
        return len(self.ids)

    @overload
    def __getitem__(self, index: int) -> Fragment: ...
    @overload
    def __getitem__(self, index: slice) -> Sequence[Fragment]: ...
    def __getitem__(self, index: int | slice) -> Fragment | Sequence[Fragment]:
        if isinstance(index, slice):
            rows = range(len(self))[index]
            if rows == range(len(self)):
                return self
            if rows and rows.step == 1:
                return list(self._between(rows.start, rows.stop))
            return [self[row] for row in rows]
        if index < 0:
            index = range(len(self))[index]
        if (kept := self._kept.get(index // _BLOCK)) is not None:
            return kept[index % _BLOCK]
        row = range(len(self))[index]
        return next(self._made(np.array([row])))

    def __iter__(self) -> Iterator[Fragment]:
        for block in range(-(-len(self) // _BLOCK)):
            if block not in self._kept:
                end = min(_BLOCK * (block + 1), len(self))
                self._kept[block] = held(self._made(np.arange(_BLOCK * block, end)))
            yield from self._kept[block]

    def _between(self, begin: int, end: int) -> Iterator[Fragment]:
        """The fragments from `begin` up to `end`, some of which are kept."""
        for block in range(begin // _BLOCK, -(-end // _BLOCK)):
            first = _BLOCK * block
            a, b = max(begin, first), min(end, first + _BLOCK)
            kept = self._kept.get(block)
            yield from self._made(np.arange(a, b)) if kept is None else kept[a - first : b - first]

    def some(self, rows: IntArray) -> list[Fragment]:
        """The fragments at ascending rows: those that are kept, or others that are not."""
        kept = self._kept
        if kept and all(block in kept for block in {*(rows // _BLOCK).tolist()}):
            return [kept[row // _BLOCK][row % _BLOCK] for row in rows.tolist()]
        return list(self._made(rows))

    def may_have(self, name: str) -> bool:
        """Whether the metadata of a fragment may have something of this name."""
        content = self.rests.texts.parts()[1]
        return b"\\" in content or orjson.dumps(name) in content

    def with_metadata(self, attribute: str) -> FragmentColumns:
        """As `in_metadata`."""
        said = self.statements
        if attribute not in said.attributes:
            return self
        gone = said.attributes.index(attribute)
        is_other = said.attribute != gone
        starts = starts_of(is_other)[said.starts]
        own, others = np.diff(said.starts) - np.diff(starts), np.diff(starts)
        for row in np.flatnonzero((own > 1) | ((own == 1) & (others == 0))).tolist():
            _with_metadata(self[row], attribute)  # which refuses it, unless it has a vector
        numbers = np.full(len(self), -1, np.int32)
        numbers[own == 1] = said.value[~is_other]
        names, texts = ([*of[:gone], *of[gone + 1 :]] for of in (said.attributes, said.texts))
        number = said.attribute[is_other]
        left = Statements(names, texts, starts, number - (number > gone), said.value[is_other])
        apart = attribute, OptionalTexts(cast(Texts, said.texts[gone]), numbers)
        return FragmentColumns(self.ids, left, self._labels, self.sources, self.rests, apart)

    def _made(self, rows: IntArray) -> Iterator[Fragment]:
        """The fragments at ascending rows."""
        columns = zip(
            self.ids.of(rows),
            self._properties(rows),
            self._labels.of(rows),
            self.sources.of(rows),
            self.rests.numbers[rows].tolist(),
            [None] * len(rows) if self.apart is None else self.apart[1].of(rows),
            strict=True,
        )
        for name, properties, label, source, rest, text in columns:
            vector = metadata = None
            if rest < -1:
                metadata = {ROW: -1 - rest}
            elif rest >= 0:
                vector, metadata = orjson.loads(self.rests.texts.raw(rest))
                vector = None if vector is None else tuple(map(float, vector))
            if self.apart is not None and text is not None:
                metadata = {**(metadata or {}), self.apart[0]: text}
            yield Fragment(name, properties, vector, label, source, metadata)

    def _properties(self, rows: IntArray) -> Iterator[dict[str, tuple[str, ...]]]:
        """The properties of some fragments, from their statements."""
        every, attributes = self.statements.starts, self.statements.attributes
        starts, said = starts_of(every[rows + 1] - every[rows]), spread(every, rows)[0]
        attribute, value = self.statements.attribute[said], self.statements.value[said]
        # the statements that begin a list of values
        is_first = np.ones(len(value) + 1, dtype=np.bool_)
        is_first[1:-1] = attribute[1:] != attribute[:-1]
        is_first[starts] = True
        firsts = is_first.nonzero()[0]
        keys = (attribute.astype(np.int64) << 32 | value)[firsts[:-1]].tolist()
        known = self._held
        lists = [known.get(key) or self._hold(key) for key in keys]
        for place in (np.diff(firsts) > 1).nonzero()[0].tolist():
            texts = self.statements.texts[keys[place] >> 32]
            numbers = value[firsts[place] : firsts[place + 1]].tolist()
            lists[place] = tuple(texts[number] for number in numbers)
        names = [attributes[key >> 32] for key in keys]
        for a, b in pairwise(np.searchsorted(firsts, starts).tolist()):
            yield dict(zip(names[a:b], lists[a:b], strict=True))

    def _hold(self, key: int) -> tuple[str, ...]:
        """One value as a list; short ones share memory."""
        values = (self.statements.texts[key >> 32][key & 0xFFFFFFFF],)
        if len(values[0]) <= _LONGEST_SHARED:
            if len(self._held) >= _MOST_SHARED:
                self._held.clear()
            self._held[key] = values
        return values


def in_metadata(fragments: Sequence[Fragment], attribute: str | None) -> Sequence[Fragment]:
    """The fragments with the value of an attribute in their metadata, where no model reads it.

    Raises:
        UsageError: the name has another meaning in metadata, or a person asserts a fragment.
        BadRecord: a fragment has several values of it, or nothing else.

    """
    if attribute in (ROW, AUTHORITY, TIMES, ASSERTED_OF):
        named = option("time", attribute)
        raise UsageError(f"{named}: metadata have something else of this name; rename it")
    for row in np.flatnonzero(asserted_in(fragments)).tolist():
        said = f'"{quoted(fragments[row].id)}" is what a person asserts, by its {ASSERTED_OF}'
        raise UsageError(f"{said}: leave it out; kbforge decide STORE value says it to a store")
    if attribute is None:
        return fragments
    if isinstance(fragments, FragmentColumns):
        return fragments.with_metadata(attribute)
    return [_with_metadata(x, attribute) if attribute in x.properties else x for x in fragments]


def _with_metadata(x: Fragment, attribute: str) -> Fragment:
    left = {name: values for name, values in x.properties.items() if name != attribute}
    value, *others = x.properties[attribute]
    if others or not (left or x.vector):
        expected = "one value, and values of other attributes"
        raise BadRecord(x.place or x.id, expected, "several" if others else "no others", attribute)
    return replace(x, properties=left, metadata={**(x.metadata or {}), attribute: value})


def asserted_in(fragments: Sequence[Fragment]) -> NDArray[np.uint8]:
    """Which fragments are what persons assert (`kbforge.kb.assertions`)."""
    told, number = metadata_of(fragments, ASSERTED_OF)
    return np.array([*(isinstance(one, str) for one in told), False], np.uint8)[number]


def metadata_of(fragments: Sequence[Fragment], name: str | None) -> tuple[Sequence[Any], IntArray]:
    """What metadata have of a name, as JSON, and the number of each fragment's; -1 for none."""
    if not isinstance(fragments, FragmentColumns):
        return [(x.metadata or {}).get(name or "") for x in fragments], np.arange(len(fragments))
    if fragments.apart is not None and fragments.apart[0] == name:
        return fragments.apart[1].texts, fragments.apart[1].numbers.astype(np.int64)
    if name is None or not fragments.may_have(name):
        return (), np.full(len(fragments), -1)
    texts = fragments.rests.texts
    found = (orjson.loads(texts.raw(k))[1] for k in range(len(texts)))
    numbers = np.maximum(fragments.rests.numbers, -1)
    return [None if metadata is None else metadata.get(name) for metadata in found], numbers
