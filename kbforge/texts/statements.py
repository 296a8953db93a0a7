"""What fragments state as columns: each value once, and by fragment the numbers of its values.

All values of an attribute count as one (`kinds.stated`), so a fragment has at most one of each. The
values of an attribute are numbered in the order of the first fragment that states them.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Container, Iterator, Mapping, Sequence
from contextlib import contextmanager
from contextvars import ContextVar
from dataclasses import dataclass
from functools import cached_property
from itertools import pairwise
from typing import Any, Self, TypeAlias, TypeVar

import numpy as np
from numpy.typing import NDArray

from kbforge.contracts import Fragment, IntArray
from kbforge.files.columns import statements_of
from kbforge.kernel.binding import address, kernel_library
from kbforge.numerics import by_first, spread, starts_of
from kbforge.texts.kinds import (
    MOST_HOLDERS,
    Kind,
    kinds_of,
    read_as,
    read_otherwise,
    relates,
    stated,
)

_Made = TypeVar("_Made")
_Make: TypeAlias = Callable[[Sequence[Fragment]], _Made]
_kept: ContextVar[dict[tuple[int, _Make[Any]], tuple[Sequence[Fragment], Any]] | None]
_kept = ContextVar("statements kept", default=None)


@contextmanager
def values_read_once() -> Iterator[None]:
    """Within the block, what a sequence of fragments, which must not change, states is kept."""
    before = _kept.set({}) if _kept.get() is None else None
    try:
        yield
    finally:
        if before is not None:
            _kept.reset(before)


def forget_values(but: tuple[type[StatedColumns], ...] = ()) -> None:
    """Free what is kept, but such columns; what is asked for again is made again."""
    kept = _kept.get() or {}
    for key in [key for key, (_, made) in kept.items() if not isinstance(made, but)]:
        del kept[key]


def once(make: _Make[_Made], fragments: Sequence[Fragment]) -> _Made:
    """What is made of fragments; within `values_read_once` it is made once."""
    kept = _kept.get()
    if kept is None:
        return make(fragments)
    key = id(fragments), make
    if key not in kept:
        kept[key] = fragments, make(fragments)
    made: _Made = kept[key][1]
    return made


@dataclass(frozen=True, eq=False)
class StatedColumns(ABC):
    """What fragments state, in the order in which each states its attributes."""

    attributes: list[str]  # their names, by number
    starts: IntArray  # where the statements of each fragment begin, shape [fragments + 1]
    attribute: NDArray[np.int32]  # number of the attribute of each statement; int32
    value: NDArray[np.int32]  # number of its value, which no other attribute has; int32

    @classmethod
    def of(cls, fragments: Sequence[Fragment]) -> Self:
        """What fragments state."""
        return once(cls._of, fragments)

    @classmethod
    @abstractmethod
    def _of(cls, fragments: Sequence[Fragment]) -> Self: ...

    def __len__(self) -> int:
        return len(self.starts) - 1

    def ranked(self, names: Sequence[str], rows: IntArray) -> tuple[IntArray, IntArray]:
        """The statements of some attributes by some fragments, of each in the order of the names.

        Returns where those of each fragment begin, shape [rows + 1], and the statements' places.
        """
        rank = np.array([names.index(a) if a in names else -1 for a in self.attributes], np.int64)
        said, owner = spread(self.starts, rows)
        of = rank[self.attribute[said]]
        if rank.min(initial=0) < 0:
            read = of >= 0
            said, owner, of = said[read], owner[read], of[read]
        order = np.argsort(owner * (len(names) + 1) + of, kind="stable")
        return starts_of(np.bincount(owner, minlength=len(rows))), said[order]


@dataclass(frozen=True, eq=False)
class JoinedStatements(StatedColumns):
    """The same, where several values of an attribute are one."""

    texts: list[str | tuple[str, ...]]  # by number of a value its text, or its texts

    @classmethod
    def _of(cls, fragments: Sequence[Fragment]) -> JoinedStatements:
        said = statements_of(fragments)
        n, starts = len(said.value), said.starts
        new = np.ones(n, np.bool_)
        new[1:] = said.attribute[1:] != said.attribute[:-1]
        new[starts[starts < n]] = True
        texts: list[str | tuple[str, ...]] = [text for of in said.texts for text in of]
        first = starts_of(list(map(len, said.texts)))[:-1].astype(np.int32)
        value = first[said.attribute] + said.value
        begins = np.flatnonzero(new)
        joined, sizes = value[begins], np.diff(begins, append=n)
        known: dict[tuple[int, ...], int] = {}
        for k in np.flatnonzero(sizes > 1).tolist():
            of = tuple(value[begins[k] : begins[k] + sizes[k]].tolist())
            place = known.setdefault(of, len(texts))
            if place == len(texts):
                texts.append(tuple(str(texts[one]) for one in of))
            joined[k] = place
        attribute = said.attribute
        if len(begins) < n:
            starts, attribute = starts_of(new)[starts], attribute[begins]
        return cls(said.attributes, starts, attribute, joined, texts)

    def values_of(self, number: int) -> tuple[str, ...]:
        """The texts of a value."""
        text = self.texts[number]
        return (text,) if isinstance(text, str) else text

    def in_order(self) -> tuple[IntArray, NDArray[np.int32]]:
        """The values that are stated, in the order of their first statement; their attributes."""
        owner = np.zeros(len(self.texts), np.int32)
        owner[self.value] = self.attribute
        used = by_first(self.value, len(self.texts))
        return used, owner[used]


@dataclass(frozen=True, eq=False)
class StatedValues(StatedColumns):
    """The same, where values that are the same when `stated` are one."""

    # of each attribute its values, by number counted on from attribute to attribute; "" is stated
    # by fragments that say nothing
    values: list[list[str]]

    @classmethod
    def _of(cls, fragments: Sequence[Fragment]) -> StatedValues:
        said = JoinedStatements.of(fragments)
        known: list[dict[str, int]] = [{} for _ in said.attributes]
        used, owners = said.in_order()
        numbers = [
            (of := known[a]).setdefault(stated(said.values_of(k)), len(of))
            for k, a in zip(used.tolist(), owners.tolist(), strict=True)
        ]
        number = np.zeros(len(said.texts), np.int32)
        number[used] = numbers
        values = [list(of) for of in known]
        begins = starts_of(list(map(len, values)))[:-1].astype(np.int32)
        value = begins[said.attribute] + number[said.value]
        return cls(said.attributes, said.starts, said.attribute, value, values)

    @cached_property
    def begins(self) -> IntArray:
        """Where the numbers of each attribute's values begin, shape [attributes + 1]."""
        return starts_of(list(map(len, self.values)))

    def often(self, chosen: NDArray[np.bool_] | None = None) -> list[IntArray]:
        """Of each attribute, how many fragments state each value; of chosen ones, or of all."""
        value = self.value
        if chosen is not None:
            value = value[chosen.repeat(np.diff(self.starts))]
        counts = np.bincount(value, minlength=self.begins[-1])
        return [counts[begin:end] for begin, end in pairwise(self.begins.tolist())]

    def counts(self, attributes: Container[str] = ()) -> dict[str, dict[str, int]]:
        """By attribute (by default all), how many fragments state each value, including ""."""
        return {
            attribute: dict(zip(values, often.tolist(), strict=True))
            for attribute, values, often in zip(
                self.attributes, self.values, self.often(), strict=True
            )
            if not attributes or attribute in attributes
        }

    @cached_property
    def kinds(self) -> Mapping[str, Kind]:
        """The kinds of all attributes."""
        return kinds_of(self.counts())

    def read(self, kinds: Mapping[str, Kind]) -> StatedValues:
        """The same, read as of these kinds; other attributes say nothing."""
        values, number = self.values_read(kinds)
        same = np.array_equal(number, np.arange(len(number)))
        value = self.value if same else number[self.value]
        return StatedValues(self.attributes, self.starts, self.attribute, value, values)

    def values_read(self, kinds: Mapping[str, Kind]) -> tuple[list[list[str]], NDArray[np.int32]]:
        """The values of each attribute, read as of these kinds, and the number of each value
        there."""
        values, parts, begin = [], [], 0
        for attribute, of in zip(self.attributes, self.values, strict=True):
            kind, texts, numbers = kinds.get(attribute, "nothing"), of, np.arange(len(of))
            if read_otherwise({attribute: kind}):
                known: dict[str, int] = {}
                told = [known.setdefault(read_as(kind, value), len(known)) for value in of]
                texts, numbers = [*known], np.array(told, np.int64)
            parts.append((begin + numbers).astype(np.int32))
            values.append(texts)
            begin += len(texts)
        return values, np.concatenate([np.zeros(0, np.int32), *parts])

    def first_of_content(self) -> NDArray[np.bool_]:
        """Which fragments are the first with their content, shape [fragments]."""
        out = np.zeros(len(self), np.bool_)
        arrays = address(self.starts), address(self.value), address(out)
        kernel_library().kb_first_rows(len(self), *arrays)
        return out

    def related_records(self) -> list[dict[str, str]]:
        """The records that share a value with few others, for `kinds.idle_attributes`."""
        texts = [value for of in self.values for value in of]
        often = np.bincount(self.value, minlength=len(texts))
        drawn = np.zeros(len(texts), np.bool_)
        for k in np.flatnonzero((often > 1) & (often <= MOST_HOLDERS)).tolist():
            drawn[k] = relates(texts[k], int(often[k]), len(self))
        rows = np.unique(np.searchsorted(self.starts, np.flatnonzero(drawn[self.value]), "right"))
        return [
            {
                self.attributes[a]: texts[v]
                for a, v in zip(self.attribute[of].tolist(), self.value[of].tolist(), strict=True)
                if texts[v]
            }
            for row in (rows - 1).tolist()
            for of in [slice(self.starts[row], self.starts[row + 1])]
        ]
