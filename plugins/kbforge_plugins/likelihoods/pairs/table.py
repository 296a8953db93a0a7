"""The distinct fragments of a file as a table: one row for all that state the same.

A table has what is compared, different names and different values once. Rows of tables with the
same columns can be taken out and joined. A `StatementReader` makes tables from statements, with the
tokens, weights and attributes of one file. The names of a fragment are the values of `name`; in a
file without that attribute, those of the attributes that are called like names, or else of the
attribute with the most different values.

*Forms of a string* that survive another spelling, another script, or a cut:

| form | of "Дж. О'Хара" | of "National Health Service" |
|---|---|---|
| folded | dzh o'khara | national health service |
| skeleton | dj hr | ntnl hl srvk |
| acronym | | nhs |

Letters of other alphabets are written with Latin ones by tables that keep the consonants apart as
far as most transliterations do; vowels of Semitic scripts are not written and not compared.
"""

from __future__ import annotations

import hashlib
import unicodedata
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import lru_cache
from typing import TypeAlias

import numpy as np

from kbforge.contracts import Fragment, IntArray
from kbforge_plugins.likelihoods.attributes.kinds import normalised, stated, words_of
from kbforge_plugins.likelihoods.pairs.bags import Bags, Weights
from kbforge_plugins.likelihoods.pairs.keeping import (
    PartReader,
    PartWriter,
    Strings,
    sizes_of,
    spread,
    starts_of,
)


def _table(letters: str, written: str) -> dict[str, str]:
    """How each letter is written; a comma stands between two."""
    return dict(zip(letters, written.split(","), strict=True))


_CYRILLIC = _table(
    "абвгдежзийклмнопрстуфхцчшщъыьэюяіїєґўј",
    "a,b,v,g,d,e,zh,z,i,i,k,l,m,n,o,p,r,s,t,u,f,kh,ts,ch,sh,sh,,y,,e,yu,ya,i,i,e,g,u,j",
)
_GREEK = _table("αβγδεζηθικλμνξοπρσςτυφχψω", "a,v,g,d,e,z,i,th,i,k,l,m,n,x,o,p,r,s,s,t,i,f,ch,ps,o")
_ARABIC = _table(
    "ابتثجحخدذرزسشصضطظعغفقكلمنهويةىءأإآؤئپچژگکی",
    "a,b,t,th,j,h,kh,d,dh,r,z,s,sh,s,d,t,z,,gh,f,q,k,l,m,n,h,w,y,a,a,,a,a,a,w,y,p,ch,zh,g,k,y",
)
_SYRIAC = _table("ܐܒܓܕܗܘܙܚܛܝܟܠܡܢܣܥܦܨܩܪܫܬ", "a,b,g,d,h,w,z,h,t,y,k,l,m,n,s,,p,s,q,r,sh,t")
_HEBREW = _table(
    "אבגדהוזחטיכךלמםנןסעפףצץקרשת",
    "a,b,g,d,h,w,z,h,t,y,k,k,l,m,m,n,n,s,,p,p,ts,ts,k,r,sh,t",
)
_OTHER = {"ß": "ss", "ø": "o", "đ": "d", "ł": "l", "æ": "ae", "œ": "oe", "ı": "i", "þ": "th"}
_LATIN = str.maketrans({**_CYRILLIC, **_GREEK, **_ARABIC, **_SYRIAC, **_HEBREW, **_OTHER, "ð": "d"})
_SOUNDS = (
    *(("sch", "s"), ("tch", "c"), ("ch", "h"), ("kh", "h"), ("gh", "g"), ("ph", "f")),
    *(("sh", "s"), ("th", "t"), ("dh", "d"), ("zh", "j"), ("ts", "s"), ("tz", "s"), ("ck", "k")),
    *(("qu", "k"), ("x", "ks"), ("c", "k"), ("q", "k"), ("z", "s"), ("w", "v"), ("dj", "j")),
)
_SILENT = frozenset("aeiouy'`’ʿʾ")
_SMALL = frozenset(
    (
        *("a", "an", "and", "at", "by", "for", "in", "of", "on", "the", "to"),
        *("de", "del", "der", "des", "di", "du", "e", "el", "et", "für", "i", "la", "le", "les"),
        *("u", "und", "von", "y"),
    )
)
_MOST_TOKENS = 40
_LONGEST_ACRONYM = 8


@lru_cache(maxsize=1 << 16)
def folded(value: str) -> str:
    """A normalised value in Latin letters without marks, as far as the tables go."""
    if value.isascii():
        return value
    plain = "".join(c for c in unicodedata.normalize("NFKD", value) if not unicodedata.combining(c))
    return plain.translate(_LATIN)


def tokens_of(value: str) -> list[str]:
    """The different words of a normalised value in order, a bounded number."""
    return list(dict.fromkeys(words_of(value)))[:_MOST_TOKENS]


@lru_cache(maxsize=1 << 16)
def skeleton(token: str) -> str:
    """What most spellings of a folded word have in common: its first sound and its consonants."""
    for written, sound in _SOUNDS:
        if written in token:
            token = token.replace(written, sound)
    kept = [c for c in token if c not in _SILENT]
    out = [c for place, c in enumerate(kept) if place == 0 or c != kept[place - 1]]
    return "".join(out) or token[:1]


def acronyms_of(tokens: list[str]) -> tuple[str, str]:
    """The first letters of all words, and of those that are not small; "" of a single word."""
    if not 2 <= len(tokens) <= _LONGEST_ACRONYM:
        return "", ""
    large = [token for token in tokens if token not in _SMALL]
    return "".join(t[0] for t in tokens), "".join(t[0] for t in large) if len(large) > 1 else ""


def compact(tokens: list[str]) -> str:
    """The words without what stands between them."""
    return "".join(tokens)


def trigrams_of(value: str) -> list[str]:
    """Runs of three characters of a folded value, with a space before and behind, distinct."""
    padded = f" {value} "
    return list(dict.fromkeys(padded[i : i + 3] for i in range(max(len(padded) - 2, 1))))


@lru_cache(maxsize=1 << 17)
def number_of(text: str) -> int:
    """A number that stands for a text wherever it is met; 0 for the empty text."""
    if not text:
        return 0
    digest = hashlib.blake2b(text.encode(errors="surrogatepass"), digest_size=8).digest()
    return int.from_bytes(digest, signed=True) or 1


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

    def keep(self, into: PartWriter) -> None:
        """Write what `taken` reads."""
        into.array("which", self.which.astype(np.int32))
        into.array("numbers", self.numbers)
        into.strings("text", self.text)
        self.bags.keep(into.part("bags"))

    @classmethod
    def taken(cls, kept: PartReader, weights: Weights, rows: int) -> Column:
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
class NameForms:
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

    def keep(self, into: PartWriter) -> None:
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
    def taken(cls, kept: PartReader, weights: Mapping[str, Weights]) -> NameForms:
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

    def take(self, places: IntArray) -> NameForms:
        """Some of them, or the same ones again."""
        return NameForms(
            text=Strings.of(self.text.many(places)),
            bare=Strings.of(self.bare.many(places)),
            sorted=Strings.of(self.sorted.many(places)),
            numbers={form: numbers[places] for form, numbers in self.numbers.items()},
            letters={form: letters[places] for form, letters in self.letters.items()},
            count=self.count[places],
            bags={name: bags.take(places) for name, bags in self.bags.items()},
        )

    @classmethod
    def joined(cls, some: Sequence[NameForms]) -> NameForms:
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
class RecordTable:
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

    names: NameForms
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

    def keep(self, into: PartWriter) -> None:
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
        cls, kept: PartReader, weights: Mapping[str, Weights], columns: Mapping[str, Weights]
    ) -> RecordTable:
        """What `keep` has written.

        Args:
            kept: that.
            weights: of the reader.
            columns: of the reader.

        Raises:
            ModelError: it is damaged.

        """
        names = NameForms.taken(kept.part("names"), weights)
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

    def take(self, rows: IntArray) -> RecordTable:
        """Some of the rows, each with names of its own."""
        at, _ = spread(self.called, rows)
        return RecordTable(
            names=self.names.take(self.which[at]),
            called=starts_of(self.called[rows + 1] - self.called[rows]),
            which=np.arange(len(at)),
            trigrams=self.trigrams.take(rows),
            soup=self.soup.take(rows),
            stated=self.stated[rows],
            columns={name: column.take(rows) for name, column in self.columns.items()},
        )

    @classmethod
    def joined(cls, some: Sequence[RecordTable]) -> RecordTable:
        """The rows of all, one after the other."""
        return cls(
            names=NameForms.joined([one.names for one in some]),
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


MOST_ATTRIBUTES = 24
"""So many attributes are compared one by one: those that most fragments have."""
_MOST_SOUP = 64
_MOST_NAMES = 4
_LONGEST_COMPARED = 120
_NAMING = ("name", "title", "label")
_LETTERS = 64


@dataclass(frozen=True, slots=True)
class _NameParts:
    """One name, taken apart."""

    name: str
    words: list[str]
    trigrams: list[str]
    digits: list[str]
    sounds: list[str]


@dataclass(frozen=True, slots=True)
class _StatementParts:
    """Statements, taken apart.

    Attributes:
        names: the different ones, ascending.
        which: by statement, the places of its names, at least one.
        soups: the words of all values of each.
        values: by attribute that is compared, the different values, ascending.
        stated: by such an attribute and by statement, the place of its value.
        attributes: of each statement.

    """

    names: list[_NameParts]
    which: list[list[int]]
    soups: list[list[str]]
    values: Mapping[str, list[str]]
    stated: Mapping[str, IntArray]
    attributes: IntArray


class StatementReader:
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
    def fitted(cls, statements: Sequence[Statement]) -> tuple[StatementReader, RecordTable]:
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

    def keep(self, into: PartWriter) -> None:
        """Write what `taken` reads."""
        into.value("naming", list(self.naming))
        into.value("attributes", list(self.columns))
        for name, weights in self.weights.items():
            weights.keep(into.part(name))
        for at, weights in enumerate(self.columns.values()):
            weights.keep(into.part(f"columns/{at}"))

    @classmethod
    def taken(cls, kept: PartReader) -> StatementReader:
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

    def table(self, statements: Sequence[Statement]) -> RecordTable:
        """The table of some statements, of the file or others."""
        return self._table(_read(statements, self.naming, list(self.columns)))

    def _table(self, read: _StatementParts) -> RecordTable:
        trigrams = [
            list(dict.fromkeys(t for at in some for t in read.names[at].trigrams))
            for some in read.which
        ]
        return RecordTable(
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

    def _names(self, read: Sequence[_NameParts]) -> NameForms:
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
        return NameForms(
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
) -> _StatementParts:
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
    return _StatementParts(
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


def _read_name(name: str) -> _NameParts:
    words = tokens_of(name)
    return _NameParts(
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
