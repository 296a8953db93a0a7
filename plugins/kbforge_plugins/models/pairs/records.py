"""The different fragments of a file as a table: one row for all that state the same.

A table holds what is compared, of different names and different values once. Rows of tables with
the same columns can be taken out and joined.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import TypeAlias

import numpy as np

from kbforge.contracts import Fragment, IntArray
from kbforge_plugins.models.attributes.kinds import stated
from kbforge_plugins.models.pairs.bags import Bags, Weights
from kbforge_plugins.models.pairs.keeping import Reading, Writing
from kbforge_plugins.models.pairs.strings import Strings, sizes_of, spread, starts_of

Statement: TypeAlias = tuple[tuple[str, str], ...]
"""What a fragment states: (attribute, its values as one), by ascending attribute."""

FORMS = ("name", "sorted", "compact", "bare", "first", "last", "acronym", "short acronym")
LETTER_FORMS = ("first", "single")
BAGS = ("trigrams", "words", "digits", "sounds")


def statement_of(fragment: Fragment) -> Statement:
    """What a fragment states; blank values say nothing."""
    said = ((attribute, stated(values)) for attribute, values in fragment.properties.items())
    return tuple(sorted((attribute, value) for attribute, value in said if value))


@dataclass(frozen=True, slots=True)
class Column:
    """One attribute of a table.

    Attributes:
        which: by row, the place of its value among the different ones.
        numbers: of each different value, the number that stands for it; 0 of a missing one.
        text: of each, folded.
        bags: of each, its tokens.

    """

    which: IntArray
    numbers: IntArray
    text: Strings
    bags: Bags

    def value(self, rows: IntArray | int) -> IntArray:
        """The numbers of the values of some rows."""
        values: IntArray = self.numbers[self.which[rows]]
        return values

    def keep(self, into: Writing) -> None:
        """Write what `taken` reads."""
        into.array("which", self.which.astype(np.int32))
        into.array("numbers", self.numbers)
        into.strings("text", self.text)
        self.bags.keep(into.part("bags"))

    @classmethod
    def taken(cls, kept: Reading, weights: Weights, rows: int) -> Column:
        """What `keep` has written.

        Raises:
            ModelError: it is damaged.

        """
        numbers = kept.array("numbers", np.int64, -1)
        n = len(numbers)
        return cls(
            which=kept.array("which", np.int32, rows, low=0, high=n - 1).astype(np.int64),
            numbers=numbers,
            text=kept.strings("text", n),
            bags=Bags.taken(kept.part("bags"), weights, n),
        )

    def take(self, rows: IntArray) -> Column:
        """Some of the rows."""
        which = self.which[rows]
        return Column(
            np.arange(len(rows)),
            self.numbers[which],
            Strings.of(self.text.many(which)),
            self.bags.take(which),
        )

    @classmethod
    def joined(cls, some: Sequence[Column]) -> Column:
        """The rows of all, one after the other."""
        return cls(
            _shifted([c.which for c in some], [len(c.numbers) for c in some]),
            np.concatenate([c.numbers for c in some]),
            Strings.joined([c.text for c in some]),
            Bags.joined([c.bags for c in some]),
        )


@dataclass(frozen=True, slots=True)
class Names:
    """Different names, in the forms that are compared.

    Attributes:
        text: the names.
        bare: their consonants.
        sorted: their words in alphabetical order.
        numbers: by form of the name, the numbers that stand for it.
        letters: first letters of their words, and their words of one letter, as bits.
        count: their words.
        bags: by kind of token (trigrams of the folded name; words; digits, which are words that
            have one; sounds, which are skeletons of the words).

    """

    text: Strings
    bare: Strings
    sorted: Strings
    numbers: Mapping[str, IntArray]
    letters: Mapping[str, IntArray]
    count: IntArray
    bags: Mapping[str, Bags]

    def __len__(self) -> int:
        return len(self.count)

    def keep(self, into: Writing) -> None:
        """Write what `taken` reads."""
        into.strings("text", self.text)
        into.strings("bare", self.bare)
        into.strings("sorted", self.sorted)
        into.array("numbers", np.stack([self.numbers[form] for form in FORMS]))
        into.array("letters", np.stack([self.letters[form] for form in LETTER_FORMS]))
        into.array("count", self.count.astype(np.int32))
        for name, bags in self.bags.items():
            bags.keep(into.part(name))

    @classmethod
    def taken(cls, kept: Reading, weights: Mapping[str, Weights]) -> Names:
        """What `keep` has written.

        Raises:
            ModelError: it is damaged.

        """
        count = kept.array("count", np.int32, -1, low=0)
        n = len(count)
        numbers = kept.array("numbers", np.int64, len(FORMS), n)
        letters = kept.array("letters", np.int64, len(LETTER_FORMS), n)
        return cls(
            text=kept.strings("text", n),
            bare=kept.strings("bare", n),
            sorted=kept.strings("sorted", n),
            numbers=dict(zip(FORMS, numbers, strict=True)),
            letters=dict(zip(LETTER_FORMS, letters, strict=True)),
            count=count.astype(np.int64),
            bags={name: Bags.taken(kept.part(name), weights[name], n) for name in BAGS},
        )

    def take(self, places: IntArray) -> Names:
        """Some of them, or the same ones again."""
        return Names(
            text=Strings.of(self.text.many(places)),
            bare=Strings.of(self.bare.many(places)),
            sorted=Strings.of(self.sorted.many(places)),
            numbers={form: numbers[places] for form, numbers in self.numbers.items()},
            letters={form: letters[places] for form, letters in self.letters.items()},
            count=self.count[places],
            bags={name: bags.take(places) for name, bags in self.bags.items()},
        )

    @classmethod
    def joined(cls, some: Sequence[Names]) -> Names:
        """The names of all, one after the other."""
        return cls(
            text=Strings.joined([one.text for one in some]),
            bare=Strings.joined([one.bare for one in some]),
            sorted=Strings.joined([one.sorted for one in some]),
            numbers={f: np.concatenate([one.numbers[f] for one in some]) for f in FORMS},
            letters={f: np.concatenate([one.letters[f] for one in some]) for f in LETTER_FORMS},
            count=np.concatenate([one.count for one in some]),
            bags={name: Bags.joined([one.bags[name] for one in some]) for name in BAGS},
        )


@dataclass(frozen=True, slots=True)
class Table:
    """Rows of statements in the forms that are compared.

    Attributes:
        names: all that occur.
        called: where the names of each row begin in `which`, shape [rows + 1]; each has one at
            least (the empty one).
        which: the names' places, those of a row together.
        trigrams: of all names of a row.
        soup: words of all values, whatever attribute they are of.
        stated: attributes of each row.
        columns: the attributes that are compared one by one.

    """

    names: Names
    called: IntArray
    which: IntArray
    trigrams: Bags
    soup: Bags
    stated: IntArray
    columns: Mapping[str, Column]

    def __len__(self) -> int:
        return len(self.stated)

    def first(self, rows: IntArray) -> IntArray:
        """The place of each row's first name."""
        return self.which[self.called[rows]]

    def numbers(self, form: str) -> IntArray:
        """The number that stands for a form of each row's first name."""
        return self.names.numbers[form][self.which[self.called[:-1]]]

    def keep(self, into: Writing) -> None:
        """Write what `taken` reads."""
        self.names.keep(into.part("names"))
        into.array("called", sizes_of(self.called).astype(np.int32))
        into.array("which", self.which.astype(np.int32))
        self.trigrams.keep(into.part("trigrams"))
        self.soup.keep(into.part("soup"))
        into.array("stated", self.stated.astype(np.int32))
        for at, column in enumerate(self.columns.values()):
            column.keep(into.part(f"columns/{at}"))

    @classmethod
    def taken(
        cls, kept: Reading, weights: Mapping[str, Weights], columns: Mapping[str, Weights]
    ) -> Table:
        """What `keep` has written.

        Args:
            kept: that.
            weights: of the reader.
            columns: of the reader.

        Raises:
            ModelError: it is damaged.

        """
        names = Names.taken(kept.part("names"), weights)
        stated = kept.array("stated", np.int32, -1, low=0)
        n = len(stated)
        called = starts_of(kept.array("called", np.int32, n, low=1).astype(np.int64))
        which = kept.array("which", np.int32, int(called[-1]), low=0, high=len(names) - 1)
        return cls(
            names=names,
            called=called,
            which=which.astype(np.int64),
            trigrams=Bags.taken(kept.part("trigrams"), weights["trigrams"], n),
            soup=Bags.taken(kept.part("soup"), weights["soup"], n),
            stated=stated.astype(np.int64),
            columns={
                name: Column.taken(kept.part(f"columns/{at}"), of_attribute, n)
                for at, (name, of_attribute) in enumerate(columns.items())
            },
        )

    def take(self, rows: IntArray) -> Table:
        """Some of the rows, each with names of its own."""
        at, _ = spread(self.called, rows)
        return Table(
            names=self.names.take(self.which[at]),
            called=starts_of(self.called[rows + 1] - self.called[rows]),
            which=np.arange(len(at)),
            trigrams=self.trigrams.take(rows),
            soup=self.soup.take(rows),
            stated=self.stated[rows],
            columns={name: column.take(rows) for name, column in self.columns.items()},
        )

    @classmethod
    def joined(cls, some: Sequence[Table]) -> Table:
        """The rows of all, one after the other."""
        return cls(
            names=Names.joined([one.names for one in some]),
            called=starts_of(np.concatenate([sizes_of(one.called) for one in some])),
            which=_shifted([one.which for one in some], [len(one.names) for one in some]),
            trigrams=Bags.joined([one.trigrams for one in some]),
            soup=Bags.joined([one.soup for one in some]),
            stated=np.concatenate([one.stated for one in some]),
            columns={
                name: Column.joined([one.columns[name] for one in some]) for name in some[0].columns
            },
        )


def _shifted(places: Sequence[IntArray], sizes: Sequence[int]) -> IntArray:
    """Places among several lists, as places among all of them."""
    before = np.cumsum([0, *sizes[:-1]])
    return np.concatenate([some + shift for some, shift in zip(places, before, strict=True)])
