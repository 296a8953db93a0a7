"""Values pooled: which texts of an entity's attribute say the same.

Texts say the same if they spell one value (`kbforge.kb.spelling`; dates, telephone numbers and
e-mail addresses by what they mean), or if they most probably name one entity, each with more than
an even chance (`kbforge.kb.relations`). A year, or a month, says the same as the only date in it.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from itertools import pairwise
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from kbforge.contracts import IntArray
from kbforge.files.columns import Statements
from kbforge.kb.entities import EntityColumns
from kbforge.kb.relations import Relations
from kbforge.kb.spelling import MOST, values_of
from kbforge.numerics import at_numbers, starts_of
from kbforge.texts.kinds import Kind, kind_of, read_as, read_otherwise
from kbforge.texts.kinds import stated as normalised

_DATES = ("date", "month first")


class Pools(NamedTuple):
    """What the texts say of attributes of which an entity has several texts."""

    code: IntArray  # of the entity's first fragment and the text (`codes`), ascending
    value: IntArray  # number of what it says
    values: Sequence[str]  # in words; "" says nothing
    kinds: dict[str, Kind]  # of attributes

    @classmethod
    def of(
        cls,
        stated: Statements,
        entities: IntArray,
        relations: Relations | None = None,
        numbers: IntArray | None = None,
        kinds: Mapping[str, Kind] | None = None,
    ) -> Pools:
        """The pools of a grouping.

        Args:
            stated: what the fragments of a file state.
            entities: the first fragment of the entity of each, shape [fragments].
            relations: what values mean that name entities, if any do.
            numbers: the number of the entity of each fragment in `relations`, shape [fragments];
                None if it is the entity's first fragment.
            kinds: those that are known; others are learned from these texts.

        """
        said = Said.of(stated, entities)
        texts = said.where(runs(said.code)[0])
        texts = texts.where(sizes(texts.cell) > 1)
        known = dict(kinds or {})
        value, values = _pooled(stated, texts, known)
        if relations is not None:
            number = (entities if numbers is None else numbers)[texts.fragment]
            meant = relations.probably(stated, number, texts.attribute, texts.value)
            value = _joined(texts.cell, value, meant, len(values))
        return cls(texts.code, value, values, known)

    def says(
        self,
        stated: Statements,
        entity: IntArray,
        attribute: NDArray[np.integer],
        value: NDArray[np.integer],
    ) -> IntArray:
        """The number of what each text says; entities are given by their first fragments."""
        return at_numbers(self.code, self.value, codes(stated, entity, attribute, value), -1)

    def of_values(self, entities: EntityColumns) -> IntArray:
        """A number for what each value says: the least number of the values of its attribute that
        say the same."""
        cells = np.flatnonzero(np.diff(entities.value_start) > 1)
        values, owner, attribute = entities.values_of(cells)
        says = self.says(entities.stated, owner, attribute, entities.value[values])
        code = (owner * len(entities.stated.attributes) + attribute) * len(self.values) + says
        _, first, same = np.unique(code, return_index=True, return_inverse=True)
        out = np.arange(len(entities.value))
        out[values] = values[first[same]]
        return out


def _joined(cell: IntArray, value: IntArray, meant: IntArray, n: int) -> IntArray:
    """The values of texts, those of one cell joined whose first linked texts mean one entity, which
    is -1 for none; there are n values."""
    _, pool = np.unique(cell * n + value, return_inverse=True)
    linked = np.flatnonzero(meant >= 0)
    pools, first = np.unique(pool[linked], return_index=True)
    first = linked[first]
    code = cell[first] * (1 + meant.max(initial=0)) + meant[first]
    _, one, same = np.unique(code, return_index=True, return_inverse=True)
    of_pool = np.empty(1 + pool.max(initial=-1), np.int64)
    of_pool[pool] = value
    of_pool[pools] = value[first[one[same]]]
    return np.asarray(of_pool[pool])


class Said(NamedTuple):
    """What entities state, by entity, attribute and text; arrays of one shape."""

    cell: IntArray  # of the entity and the attribute
    code: IntArray  # of the entity and the text
    attribute: IntArray
    value: IntArray  # number of the text
    fragment: IntArray

    @classmethod
    def of(cls, stated: Statements, entities: IntArray) -> Said:
        """What fragments state, each text once."""
        owner = np.arange(len(entities)).repeat(np.diff(stated.starts))
        attribute, entity = stated.attribute.astype(np.int64), entities[owner]
        code = codes(stated, entity, attribute, stated.value)
        cell = entity * len(stated.attributes) + attribute
        said = cls(cell, code, attribute, stated.value.astype(np.int64), owner)
        said = said.where(np.argsort(code, kind="stable"))
        is_new = np.diff(said.code, prepend=-1) | np.diff(said.fragment, prepend=-1)
        return said.where(is_new != 0)

    def where(self, rows: NDArray[Any]) -> Said:
        """Some of it."""
        return Said(*(column[rows] for column in self))

    def texts(self, stated: Statements) -> list[str]:
        """The texts."""
        numbers = zip(self.attribute.tolist(), self.value.tolist(), strict=True)
        return [stated.texts[attribute][number] for attribute, number in numbers]


def runs(numbers: IntArray) -> tuple[IntArray, IntArray]:
    """The first place of each run of equal numbers, and the number of the run at each place."""
    is_first = np.diff(numbers, prepend=-1) != 0
    return np.flatnonzero(is_first), np.cumsum(is_first) - 1


def sizes(numbers: IntArray) -> IntArray:
    """The size of the run of equal numbers at each place."""
    run = runs(numbers)[1]
    return np.bincount(run)[run]


def codes(
    stated: Statements, entity: IntArray, attribute: NDArray[np.integer], value: NDArray[np.integer]
) -> IntArray:
    """A number for an entity and a text, ascending by entity, attribute and number of the text."""
    firsts = starts_of([len(texts) for texts in stated.texts])
    return np.asarray(entity * firsts[-1] + firsts[attribute] + value)


def _pooled(stated: Statements, said: Said, known: dict[str, Kind]) -> tuple[IntArray, list[str]]:
    """The number of the value that each text spells, and the values in order; "" says nothing.
    Kinds of attributes are added to those `known`."""
    texts = said.texts(stated)
    read = [normalised((text,)) for text in texts]
    names = [stated.attributes[a] for a in said.attribute.tolist()]
    counts: dict[str, Counter[str]] = {}
    for name, value in zip(names, read, strict=True):
        if name not in known:
            counts.setdefault(name, Counter())[value] += 1
    known |= {name: kind_of(of) for name, of in counts.items()}
    kinds = read_otherwise(known)
    pooled = list[str]()
    for a, b in pairwise([*runs(said.cell)[0].tolist(), len(texts)]):
        if (kind := kinds.get(names[a])) is not None:
            found = [read_as(kind, value) for value in read[a:b]]
            pooled += map(_fuller(found).__getitem__, found) if kind in _DATES else found
        else:
            value_of = values_of(texts[a:b])[0]
            pooled += [value_of[t] if r else "" for t, r in zip(texts[a:b], read[a:b], strict=True)]
    values = sorted({*pooled})
    numbers = {value: number for number, value in enumerate(values)}
    return np.array([numbers[value] for value in pooled], np.int64), values


def _fuller(dates: Sequence[str]) -> dict[str, str]:
    """Dates, and for a year or a month the date in it, if there is only one; "1977" is no other
    value than "1977-03-30"."""
    if len({*dates}) > MOST:
        return dict(zip(dates, dates, strict=True))
    whole = {d for d in dates if not any(other.startswith(f"{d}-") for other in dates)}
    within = {d: [w for w in whole if w == d or w.startswith(f"{d}-")] for d in dates}
    return {d: found[0] if len(found) == 1 else d for d, found in within.items()}
