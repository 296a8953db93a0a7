"""Reads statements into tables, with the tokens, weights and attributes of one file.

What a fragment is called is the values of `name`; in a file without that attribute, those of the
attributes whose names speak of one, or else of the attribute with the most different values.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np

from kbforge.contracts import IntArray
from kbforge_plugins.models.attributes.kinds import normalised
from kbforge_plugins.models.pairs.bags import Weights
from kbforge_plugins.models.pairs.keeping import Reading, Writing
from kbforge_plugins.models.pairs.records import BAGS, Column, Names, Statement, Table
from kbforge_plugins.models.pairs.strings import Strings, starts_of
from kbforge_plugins.models.pairs.texts import (
    acronyms_of,
    compact,
    folded,
    number_of,
    skeleton,
    tokens_of,
    trigrams_of,
)

MOST_ATTRIBUTES = 24
"""So many attributes are compared one by one: those that most fragments have."""
_MOST_SOUP = 64
_MOST_NAMES = 4
_LONGEST_COMPARED = 120
_NAMING = ("name", "title", "label")
_LETTERS = 64


@dataclass(frozen=True, slots=True)
class _Name:
    """One name, taken apart."""

    name: str
    words: list[str]
    trigrams: list[str]
    digits: list[str]
    sounds: list[str]


@dataclass(frozen=True, slots=True)
class _Read:
    """Statements, taken apart.

    Attributes:
        names: the different ones, ascending.
        which: by statement, the places of its names, at least one.
        soups: the words of all values of each.
        values: by attribute that is compared, the different values, ascending.
        stated: by such an attribute and by statement, the place of its value.
        attributes: of each statement.

    """

    names: list[_Name]
    which: list[list[int]]
    soups: list[list[str]]
    values: Mapping[str, list[str]]
    stated: Mapping[str, IntArray]
    attributes: IntArray


class Reader:
    """Makes tables of statements, all with the columns of one file.

    Args:
        naming: the attributes that say what a fragment is called.
        weights: by kind of token, those of the file.
        columns: by attribute that is compared, the weights of its tokens.

    Attributes:
        naming: as given.
        weights: as given.
        columns: as given.

    """

    def __init__(
        self,
        naming: tuple[str, ...],
        weights: Mapping[str, Weights],
        columns: Mapping[str, Weights],
    ) -> None:
        self.naming, self.weights, self.columns = naming, weights, columns

    @classmethod
    def fitted(cls, statements: Sequence[Statement]) -> tuple[Reader, Table]:
        """The reader of a file, and its table.

        Args:
            statements: of the file, different ones, ascending.

        """
        present = Counter(attribute for said in statements for attribute, _ in said)
        naming = _naming(statements, present)
        rest = sorted(
            (name for name in present if naming != (name,)), key=lambda a: (-present[a], a)
        )
        read = _read(statements, naming, rest[:MOST_ATTRIBUTES])
        made = cls(
            naming,
            {
                **{kind: Weights.fitted([getattr(n, kind) for n in read.names]) for kind in BAGS},
                "soup": Weights.fitted(read.soups),
            },
            {
                name: Weights.fitted([tokens_of(value) for value in values if value])
                for name, values in read.values.items()
            },
        )
        table = made._table(read)
        for weights in (*made.weights.values(), *made.columns.values()):
            weights.settle()
        return made, table

    def keep(self, into: Writing) -> None:
        """Write what `taken` reads."""
        into.value("naming", list(self.naming))
        into.value("attributes", list(self.columns))
        for name, weights in self.weights.items():
            weights.keep(into.part(name))
        for at, weights in enumerate(self.columns.values()):
            weights.keep(into.part(f"columns/{at}"))

    @classmethod
    def taken(cls, kept: Reading) -> Reader:
        """What `keep` has written.

        Raises:
            ModelError: it is damaged.

        """
        return cls(
            kept.names("naming"),
            {name: Weights.taken(kept.part(name)) for name in (*BAGS, "soup")},
            {
                name: Weights.taken(kept.part(f"columns/{at}"))
                for at, name in enumerate(kept.names("attributes"))
            },
        )

    def table(self, statements: Sequence[Statement]) -> Table:
        """The table of some statements, of the file or others."""
        return self._table(_read(statements, self.naming, list(self.columns)))

    def _table(self, read: _Read) -> Table:
        trigrams = [
            list(dict.fromkeys(t for at in some for t in read.names[at].trigrams))
            for some in read.which
        ]
        return Table(
            names=self._names(read.names),
            called=starts_of(np.array(list(map(len, read.which)), dtype=np.int64)),
            which=np.array([at for some in read.which for at in some], dtype=np.int64),
            trigrams=self.weights["trigrams"].rows(trigrams),
            soup=self.weights["soup"].rows(read.soups),
            stated=read.attributes,
            columns={
                name: Column(
                    read.stated[name],
                    _numbers(values),
                    _texts([folded(value) for value in values]),
                    self.columns[name].rows([tokens_of(value) for value in values]),
                )
                for name, values in read.values.items()
            },
        )

    def _names(self, read: Sequence[_Name]) -> Names:
        acronyms = [acronyms_of(n.words) for n in read]
        ordered = [" ".join(sorted(n.words)) for n in read]
        numbers = {
            "name": [n.name for n in read],
            "sorted": ordered,
            "compact": [compact(n.words) for n in read],
            "bare": [" ".join(sorted(n.sounds)) for n in read],
            "first": [n.words[0] if n.words else "" for n in read],
            "last": [n.words[-1] if n.words else "" for n in read],
            "acronym": [a for a, _ in acronyms],
            "short acronym": [b for _, b in acronyms],
        }
        return Names(
            text=_texts([n.name for n in read]),
            bare=_texts([" ".join(n.sounds) for n in read]),
            sorted=_texts(ordered),
            numbers={key: _numbers(values) for key, values in numbers.items()},
            letters={
                "first": _bits([[t[0] for t in n.words if len(t) > 1] for n in read]),
                "single": _bits([[t for t in n.words if len(t) == 1] for n in read]),
            },
            count=np.array([len(n.words) for n in read], dtype=np.int64),
            bags={kind: self.weights[kind].rows([getattr(n, kind) for n in read]) for kind in BAGS},
        )


def _read(
    statements: Sequence[Statement], naming: tuple[str, ...], attributes: Sequence[str]
) -> _Read:
    called = [_called(said, naming) for said in statements]
    distinct = sorted({name for names in called for name in names})
    place = {name: at for at, name in enumerate(distinct)}
    said = [dict(one) for one in statements]
    values: dict[str, list[str]] = {}
    stated: dict[str, IntArray] = {}
    for attribute in attributes:
        all_values = [one.get(attribute, "") for one in said]
        values[attribute] = sorted(set(all_values))
        at = {value: k for k, value in enumerate(values[attribute])}
        stated[attribute] = np.array([at[value] for value in all_values], dtype=np.int64)
    return _Read(
        names=[_read_name(name) for name in distinct],
        which=[[place[name] for name in names] for names in called],
        soups=[_soup(one) for one in statements],
        values=values,
        stated=stated,
        attributes=np.array([len(one) for one in statements], dtype=np.int64),
    )


def _called(said: Statement, naming: tuple[str, ...]) -> list[str]:
    """The folded names of a statement, at least one, which may be empty."""
    values = dict(said)
    called = [values[name] for name in naming if name in values]
    if len(naming) > 1:
        # parts of one name
        return [folded(normalised(" ".join(called).replace("\n", " ")))]
    names = [folded(name) for value in called for name in value.split("\n")]
    return list(dict.fromkeys(names))[:_MOST_NAMES] or [""]


def _read_name(name: str) -> _Name:
    words = tokens_of(name)
    return _Name(
        name=name,
        words=words,
        trigrams=trigrams_of(name) if name else [],
        digits=[t for t in words if any(c.isdigit() for c in t)],
        sounds=[skeleton(t) for t in words],
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
    values: dict[str, set[str]] = {name: set() for name in present}
    for said in statements:
        for name, value in said:
            values[name].add(value)
    return tuple(sorted(present, key=lambda a: (-len(values[a]), a))[:1])


def _texts(values: Sequence[str]) -> Strings:
    return Strings.of([value[:_LONGEST_COMPARED] for value in values])


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
