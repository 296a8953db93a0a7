"""The different fragments of a file as a table: one row for all that state the same.

What a fragment is called is the values of `name`; in a file without that attribute, those of the
attributes whose names speak of one, or else of the attribute with the most different values.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import TypeAlias

import numpy as np

from kbforge.contracts import Fragment, IntArray
from kbforge_plugins.models.attributes.kinds import normalised, stated
from kbforge_plugins.models.pairs.bags import Bags, Weights
from kbforge_plugins.models.pairs.texts import (
    acronyms_of,
    compact,
    folded,
    number_of,
    skeleton,
    tokens_of,
    trigrams_of,
)

Statement: TypeAlias = tuple[tuple[str, str], ...]
"""What a fragment states: (attribute, its values as one), by ascending attribute."""

MOST_ATTRIBUTES = 24
"""So many attributes are compared one by one: those that most fragments have."""
_MOST_SOUP = 64
_LONGEST_COMPARED = 120
_NAMING = ("name", "title", "label")
_LETTERS = 64


def statement_of(fragment: Fragment) -> Statement:
    """What a fragment states; blank values say nothing."""
    said = ((attribute, stated(values)) for attribute, values in fragment.properties.items())
    return tuple(sorted((attribute, value) for attribute, value in said if value))


@dataclass(frozen=True, slots=True)
class Column:
    """One attribute of a table: by row, the number of its value (0 is missing) and its tokens."""

    value: IntArray
    text: np.ndarray
    bags: Bags


@dataclass(frozen=True, slots=True)
class Table:
    """Rows of statements in the forms that are compared.

    Attributes:
        statements: by row.
        name: the folded name by row, cut to what is compared letter by letter.
        bare: its consonants by row.
        sorted: its words in alphabetical order by row.
        numbers: by form of the name, the number that stands for it, shape [rows] each.
        letters: first letters of the name's words, and its words of one letter, as bits.
        count: words of the name.
        trigrams: of the folded name.
        words: of the name.
        digits: words of the name that have a digit.
        sounds: skeletons of the words.
        soup: words of all values, whatever attribute they are of.
        columns: the attributes that are compared one by one.

    """

    statements: tuple[Statement, ...]
    name: np.ndarray
    bare: np.ndarray
    sorted: np.ndarray
    numbers: Mapping[str, IntArray]
    letters: Mapping[str, IntArray]
    count: IntArray
    trigrams: Bags
    words: Bags
    digits: Bags
    sounds: Bags
    soup: Bags
    columns: Mapping[str, Column]

    def __len__(self) -> int:
        return len(self.statements)


@dataclass(frozen=True, slots=True)
class _Read:
    """One statement, taken apart."""

    name: str
    tokens: list[str]
    trigrams: list[str]
    words: list[str]
    digits: list[str]
    sounds: list[str]
    soup: list[str]


class Reader:
    """Makes tables of statements, all with the columns of one file.

    Args:
        statements: of the file, different ones, ascending.

    Attributes:
        naming: the attributes that say what a fragment is called.
        attributes: those that are compared one by one.

    """

    def __init__(self, statements: Sequence[Statement]) -> None:
        present = Counter(attribute for said in statements for attribute, _ in said)
        self.naming = _naming(statements, present)
        rest = sorted(
            (name for name in present if self.naming != (name,)), key=lambda a: (-present[a], a)
        )
        self.attributes = tuple(rest[:MOST_ATTRIBUTES])
        read = [self._read(said) for said in statements]
        distinct = list({r.name: r for r in read}.values())
        self._weights = {
            "trigrams": Weights([r.trigrams for r in distinct]),
            "words": Weights([r.words for r in distinct]),
            "digits": Weights([r.digits for r in distinct]),
            "sounds": Weights([r.sounds for r in distinct]),
            "soup": Weights([r.soup for r in read]),
        }
        self._of_attribute = {
            name: Weights([tokens_of(value) for value in sorted(values)])
            for name, values in _values(statements, self.attributes).items()
        }
        self._parts = read
        self._statements = statements

    def table(self, statements: Sequence[Statement]) -> Table:
        """The table of some statements, of the file or others."""
        read = (
            self._parts
            if statements is self._statements
            else [self._read(said) for said in statements]
        )
        names = [r.name for r in read]
        ordered = [" ".join(sorted(r.tokens)) for r in read]
        bare = [" ".join(r.sounds) for r in read]
        acronyms = [acronyms_of(r.tokens) for r in read]
        numbers = {
            "name": names,
            "sorted": ordered,
            "compact": [compact(r.tokens) for r in read],
            "bare": [" ".join(sorted(r.sounds)) for r in read],
            "first": [r.tokens[0] if r.tokens else "" for r in read],
            "last": [r.tokens[-1] if r.tokens else "" for r in read],
            "acronym": [a for a, _ in acronyms],
            "short acronym": [b for _, b in acronyms],
        }
        bags = {
            key: Bags(weights.rows([getattr(r, key) for r in read]))
            for key, weights in self._weights.items()
        }
        return Table(
            statements=tuple(statements),
            name=_texts(names),
            bare=_texts(bare),
            sorted=_texts(ordered),
            numbers={key: _numbers(values) for key, values in numbers.items()},
            letters={
                "first": _bits([[t[0] for t in r.tokens if len(t) > 1] for r in read]),
                "single": _bits([[t for t in r.tokens if len(t) == 1] for r in read]),
            },
            count=np.array([len(r.tokens) for r in read], dtype=np.int64),
            **bags,
            columns={
                name: self._column(name, [dict(said).get(name, "") for said in statements])
                for name in self.attributes
            },
        )

    def _column(self, attribute: str, values: Sequence[str]) -> Column:
        folds = [folded(value) for value in values]
        weights = self._of_attribute[attribute]
        return Column(
            _numbers(values), _texts(folds), Bags(weights.rows([tokens_of(v) for v in values]))
        )

    def _read(self, said: Statement) -> _Read:
        values = dict(said)
        called = [values[name] for name in self.naming if name in values]
        # several names are one text of all their words, in the order in which they are stated
        name = folded(normalised(" ".join(called).replace("\n", " ")))
        tokens = tokens_of(name)
        soup = dict.fromkeys(
            token for _, value in said for token in tokens_of(folded(value.replace("\n", " ")))
        )
        return _Read(
            name=name,
            tokens=tokens,
            trigrams=trigrams_of(name) if name else [],
            words=tokens,
            digits=[t for t in tokens if any(c.isdigit() for c in t)],
            sounds=[skeleton(t) for t in tokens],
            soup=list(soup)[:_MOST_SOUP],
        )


def _naming(statements: Sequence[Statement], present: Counter[str]) -> tuple[str, ...]:
    if "name" in present:
        return ("name",)
    speaking = [a for a in present if any(word in a.casefold() for word in _NAMING)]
    if speaking:
        return tuple(sorted(speaking))
    values = _values(statements, tuple(present))
    return tuple(sorted(present, key=lambda a: (-len(values[a]), a))[:1])


def _values(
    statements: Sequence[Statement], attributes: Sequence[str]
) -> dict[str, set[str]]:
    out: dict[str, set[str]] = {name: set() for name in attributes}
    for said in statements:
        for name, value in said:
            if name in out:
                out[name].add(value)
    return out


def _texts(values: Sequence[str]) -> np.ndarray:
    out = np.empty(len(values), dtype=object)
    out[:] = [value[:_LONGEST_COMPARED] for value in values]
    return out


def _numbers(values: Sequence[str]) -> IntArray:
    return np.array([number_of(value) for value in values], dtype=np.int64)


def _bits(letters: Sequence[Sequence[str]]) -> IntArray:
    out = np.zeros(len(letters), dtype=np.uint64)
    for row, some in enumerate(letters):
        bits = 0
        for letter in some:
            bits |= 1 << (ord(letter) % _LETTERS)
        out[row] = bits
    return out.view(np.int64)
