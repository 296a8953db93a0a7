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
from numpy.typing import NDArray

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
Texts: TypeAlias = NDArray[np.object_]

MOST_ATTRIBUTES = 24
"""So many attributes are compared one by one: those that most fragments have."""
_MOST_SOUP = 64
_MOST_NAMES = 4
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
    text: Texts
    bags: Bags


@dataclass(frozen=True, slots=True)
class Names:
    """Different names, in the forms that are compared.

    Attributes:
        text: the folded name, cut to what is compared letter by letter.
        bare: its consonants.
        sorted: its words in alphabetical order.
        numbers: by form of the name, the number that stands for it.
        letters: first letters of its words, and its words of one letter, as bits.
        count: its words.
        trigrams: of the folded name.
        words: of the name.
        digits: words that have a digit.
        sounds: skeletons of the words.

    """

    text: Texts
    bare: Texts
    sorted: Texts
    numbers: Mapping[str, IntArray]
    letters: Mapping[str, IntArray]
    count: IntArray
    trigrams: Bags
    words: Bags
    digits: Bags
    sounds: Bags


@dataclass(frozen=True, slots=True)
class Table:
    """Rows of statements in the forms that are compared.

    Attributes:
        statements: by row.
        names: all that occur.
        first: the place of each row's first name among them.
        called: names of each row, at least 1 (the empty one).
        which: the names' places, those of a row together.
        trigrams: of all names of a row.
        soup: words of all values, whatever attribute they are of.
        stated: attributes of each row.
        columns: the attributes that are compared one by one.

    """

    statements: tuple[Statement, ...]
    names: Names
    first: IntArray
    called: IntArray
    which: IntArray
    trigrams: Bags
    soup: Bags
    stated: IntArray
    columns: Mapping[str, Column]

    def __len__(self) -> int:
        return len(self.statements)

    def numbers(self, form: str) -> IntArray:
        """The number that stands for a form of each row's first name."""
        return self.names.numbers[form][self.first]


@dataclass(frozen=True, slots=True)
class _Name:
    """One name, taken apart."""

    name: str
    tokens: list[str]
    trigrams: list[str]
    digits: list[str]
    sounds: list[str]


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
        names = [_read_name(n) for n in sorted({n for s in statements for n in self._called(s)})]
        self._weights = {
            "trigrams": Weights([n.trigrams for n in names]),
            "words": Weights([n.tokens for n in names]),
            "digits": Weights([n.digits for n in names]),
            "sounds": Weights([n.sounds for n in names]),
        }
        self._soup = Weights([_soup(said) for said in statements])
        self._of_attribute = {
            name: Weights([tokens_of(value) for value in sorted(values)])
            for name, values in _values(statements, self.attributes).items()
        }

    def table(self, statements: Sequence[Statement]) -> Table:
        """The table of some statements, of the file or others."""
        called = [self._called(said) for said in statements]
        distinct = sorted({name for names in called for name in names})
        place = {name: at for at, name in enumerate(distinct)}
        read = [_read_name(name) for name in distinct]
        which = [[place[name] for name in names] for names in called]
        trigrams = [
            list(dict.fromkeys(t for at in some for t in read[at].trigrams)) for some in which
        ]
        values = [dict(said) for said in statements]
        return Table(
            statements=tuple(statements),
            names=self._names(read),
            first=np.array([some[0] for some in which], dtype=np.int64),
            called=np.array([len(some) for some in which], dtype=np.int64),
            which=np.array([at for some in which for at in some], dtype=np.int64),
            trigrams=Bags(self._weights["trigrams"].rows(trigrams)),
            soup=Bags(self._soup.rows([_soup(said) for said in statements])),
            stated=np.array([len(said) for said in statements], dtype=np.int64),
            columns={
                name: self._column(name, [said.get(name, "") for said in values])
                for name in self.attributes
            },
        )

    def _called(self, said: Statement) -> list[str]:
        """The folded names of a statement, at least one, which may be empty."""
        values = dict(said)
        called = [values[name] for name in self.naming if name in values]
        if len(self.naming) > 1:
            # parts of one name
            return [folded(normalised(" ".join(called).replace("\n", " ")))]
        names = [folded(name) for value in called for name in value.split("\n")]
        return list(dict.fromkeys(names))[:_MOST_NAMES] or [""]

    def _names(self, read: Sequence[_Name]) -> Names:
        acronyms = [acronyms_of(n.tokens) for n in read]
        ordered = [" ".join(sorted(n.tokens)) for n in read]
        numbers = {
            "name": [n.name for n in read],
            "sorted": ordered,
            "compact": [compact(n.tokens) for n in read],
            "bare": [" ".join(sorted(n.sounds)) for n in read],
            "first": [n.tokens[0] if n.tokens else "" for n in read],
            "last": [n.tokens[-1] if n.tokens else "" for n in read],
            "acronym": [a for a, _ in acronyms],
            "short acronym": [b for _, b in acronyms],
        }
        weights = self._weights
        return Names(
            text=_texts([n.name for n in read]),
            bare=_texts([" ".join(n.sounds) for n in read]),
            sorted=_texts(ordered),
            numbers={key: _numbers(values) for key, values in numbers.items()},
            letters={
                "first": _bits([[t[0] for t in n.tokens if len(t) > 1] for n in read]),
                "single": _bits([[t for t in n.tokens if len(t) == 1] for n in read]),
            },
            count=np.array([len(n.tokens) for n in read], dtype=np.int64),
            trigrams=Bags(weights["trigrams"].rows([n.trigrams for n in read])),
            words=Bags(weights["words"].rows([n.tokens for n in read])),
            digits=Bags(weights["digits"].rows([n.digits for n in read])),
            sounds=Bags(weights["sounds"].rows([n.sounds for n in read])),
        )

    def _column(self, attribute: str, values: Sequence[str]) -> Column:
        folds = [folded(value) for value in values]
        weights = self._of_attribute[attribute]
        return Column(
            _numbers(values), _texts(folds), Bags(weights.rows([tokens_of(v) for v in values]))
        )


def _read_name(name: str) -> _Name:
    tokens = tokens_of(name)
    return _Name(
        name=name,
        tokens=tokens,
        trigrams=trigrams_of(name) if name else [],
        digits=[t for t in tokens if any(c.isdigit() for c in t)],
        sounds=[skeleton(t) for t in tokens],
    )


def _soup(said: Statement) -> list[str]:
    words = (w for _, value in said for w in tokens_of(folded(value.replace("\n", " "))))
    return list(dict.fromkeys(words))[:_MOST_SOUP]


def _naming(statements: Sequence[Statement], present: Counter[str]) -> tuple[str, ...]:
    if "name" in present:
        return ("name",)
    speaking = [a for a in present if any(word in a.casefold() for word in _NAMING)]
    if speaking:
        return tuple(sorted(speaking))
    values = _values(statements, tuple(present))
    return tuple(sorted(present, key=lambda a: (-len(values[a]), a))[:1])


def _values(statements: Sequence[Statement], attributes: Sequence[str]) -> dict[str, set[str]]:
    out: dict[str, set[str]] = {name: set() for name in attributes}
    for said in statements:
        for name, value in said:
            if name in out:
                out[name].add(value)
    return out


def _texts(values: Sequence[str]) -> Texts:
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
