"""A file as a table: one row for all identical fragments.

A table holds each distinct name and value once, in comparable forms. A `StatementReader` makes
tables of one file, which can be joined. The names of a fragment are the values of `name`, or else
of the attributes with "name" in theirs, or else of the one with the most values.

*Forms of a string* that survive another spelling, another script, or truncation:

| form | of "Дж. О'Хара" | of "National Health Service" |
|---|---|---|
| folded | dzh. o'khara | national health service |
| skeleton | dj o hr | ntnl hl srvk |
| acronym | | nhs |

Other scripts are written in Latin letters, Semitic ones by tables that distinguish the consonants
as most transliterations do, and others by anyascii.
"""

from __future__ import annotations

import hashlib
import re
import unicodedata
from collections import Counter, defaultdict
from collections.abc import Callable, Hashable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import lru_cache
from itertools import chain, count, groupby, pairwise
from typing import TypeAlias, cast

import numpy as np
from anyascii import anyascii
from numpy.typing import NDArray

from kbforge.contracts import Constraints, FloatArray, Fragment, IntArray
from kbforge.kernel.binding import address
from kbforge.numerics import starts_of
from kbforge.texts.kinds import (
    KINDS,
    Kind,
    amount,
    are_amounts,
    has_digit,
    idle_attributes,
    kinds_of,
    normalised,
    read_as,
    read_otherwise,
    stated,
    words_of,
)
from kbforge.texts.statements import StatedValues
from kbforge_plugins.likelihoods.pairs.bags import (
    CODE_BAGS,
    Bags,
    Part,
    PartReader,
    Strings,
    TokenLists,
    Weights,
    codes_of,
    joined_fields,
    spelt,
)


def _table(letters: str, written: str) -> dict[str, str]:
    """The Latin spelling of each letter, from a list with commas."""
    return dict(zip(letters, written.split(","), strict=True))


_ARABIC = _table(
    "ابتثجحخدذرزسشصضطظعغفقكلمنهويةىءأإآؤئپچژگکی",
    "a,b,t,th,j,h,kh,d,dh,r,z,s,sh,s,d,t,z,,gh,f,q,k,l,m,n,h,w,y,a,a,,a,a,a,w,y,p,ch,zh,g,k,y",
)
_SYRIAC = _table("ܐܒܓܕܗܘܙܚܛܝܟܠܡܢܣܥܦܨܩܪܫܬ", "a,b,g,d,h,w,z,h,t,y,k,l,m,n,s,,p,s,q,r,sh,t")
_HEBREW = _table(
    "אבגדהוזחטיכךלמםנןסעפףצץקרשת",
    "a,b,g,d,h,w,z,h,t,y,k,k,l,m,m,n,n,s,,p,p,ts,ts,k,r,sh,t",
)
_SEMITIC = str.maketrans({**_ARABIC, **_SYRIAC, **_HEBREW})
# behind another letter they mostly stand for a long vowel
_WAW, _YOD = re.compile(r"(?<=\w)[وܘו]"), re.compile(r"(?<=\w)[يیܝי]")
_SCRIPTS = (
    *("LATIN", "CYRILLIC", "GREEK", "CJK", "HANGUL", "ARABIC", "HEBREW", "SYRIAC", "ARMENIAN"),
    *("GEORGIAN", "DEVANAGARI", "BENGALI", "TAMIL", "TELUGU", "THAI", "ETHIOPIC"),
)
_LATIN, _OTHER = 0, len(_SCRIPTS)
_CLASSES = str.maketrans("bfvdghqcjrzx", "ppptkkkkklss")
_SOUNDS = (
    *(("sch", "s"), ("tch", "c"), ("ch", "h"), ("kh", "h"), ("gh", "g"), ("ph", "f")),
    *(("sh", "s"), ("th", "t"), ("dh", "d"), ("zh", "j"), ("ts", "s"), ("tz", "s"), ("ck", "k")),
    *(("qu", "k"), ("x", "ks"), ("c", "k"), ("q", "k"), ("z", "s"), ("w", "v"), ("dj", "j")),
)
_SILENT = frozenset("aeiouy'`’ʿʾ")
SMALL = frozenset(
    (
        *("a", "an", "and", "at", "by", "for", "in", "of", "on", "the", "to"),
        *("de", "del", "der", "des", "di", "du", "e", "el", "et", "fur", "i", "la", "le", "les"),
        *("u", "und", "von", "y"),
    )
)
_MOST_TOKENS = 40
_LONGEST_ACRONYM = 8


@lru_cache(maxsize=1 << 16)
def folded(value: str) -> str:
    """A normalised value in Latin letters without diacritics, as far as the tables go."""
    if value.isascii():
        return value
    marked = unicodedata.normalize("NFC", value)
    plain = "".join(c for c in marked if not unicodedata.combining(c))
    return "".join(map(_in_latin, _YOD.sub("i", _WAW.sub("u", plain))))


@lru_cache(maxsize=1 << 16)
def _in_latin(character: str) -> str:
    """A character in Latin letters without diacritics."""
    decomposed = unicodedata.normalize("NFKD", character)
    plain = "".join(c for c in decomposed if not unicodedata.combining(c)).translate(_SEMITIC)
    return plain if plain.isascii() else anyascii(character).casefold()


def script_of(value: str) -> int:
    """The number of the script of most letters in a value; Latin without letters."""
    if value.isascii():
        return _LATIN
    counts = Counter(_script(c) for c in value if c.isalpha())
    return min(counts, key=lambda script: (-counts[script], script), default=_LATIN)


@lru_cache(maxsize=1 << 16)
def _script(letter: str) -> int:
    name = unicodedata.name(letter, "").split(" ")[0]
    name = {"HIRAGANA": "CJK", "KATAKANA": "CJK"}.get(name, name)
    return _SCRIPTS.index(name) if name in _SCRIPTS else _OTHER


def tokens_of(value: str) -> list[str]:
    """The distinct words of a normalised value in order, up to a maximum."""
    return list(dict.fromkeys(words_of(value)))[:_MOST_TOKENS]


@lru_cache(maxsize=1 << 16)
def skeleton(token: str) -> str:
    """The common part of most spellings of a folded word: its first sound and its consonants."""
    for written, sound in _SOUNDS:
        if written in token:
            token = token.replace(written, sound)
    kept = [c for c in token if c not in _SILENT]
    out = [c for place, c in enumerate(kept) if place == 0 or c != kept[place - 1]]
    return "".join(out) or token[:1]


def consonants_of(name: str) -> list[str]:
    """Tokens that a folded name shares with its spelling in another script, distinct.

    These are short runs of the consonants of each word, and runs of three classes of consonants of
    the whole name, because some scripts have no spaces between words, or do not distinguish b from
    p.
    """
    tokens = tokens_of(name)
    classes = "".join(skeleton(token) for token in tokens).translate(_CLASSES)
    whole = "".join(c for c, _ in groupby(classes))
    runs = [run for token in tokens for run in _consonant_runs(token)]
    return list(dict.fromkeys([*runs, *(f"#{run}" for run in trigrams_of(whole))]))


@lru_cache(maxsize=1 << 16)
def _consonant_runs(token: str) -> list[str]:
    padded = f" {skeleton(token)} "
    return [padded[i : i + n] for n in (2, 3) for i in range(len(padded) + 1 - n)]


def acronyms_of(tokens: list[str]) -> tuple[str, str]:
    """The first letters of all words, and of words that are not small; "" for a single word."""
    if not 2 <= len(tokens) <= _LONGEST_ACRONYM:
        return "", ""
    large = [token for token in tokens if token not in SMALL]
    return "".join(t[0] for t in tokens), "".join(t[0] for t in large) if len(large) > 1 else ""


def _forms_of(name: str, words: list[str], bare: str) -> tuple[str, ...]:
    """The `FORMS` of a name."""
    first, last = (words[0], words[-1]) if words else ("", "")
    return name, " ".join(sorted(words)), "".join(words), bare, first, last, *acronyms_of(words)


def trigrams_of(value: str) -> list[str]:
    """Trigrams of a folded value with a space on either side, distinct."""
    padded = f" {value} "
    return list(dict.fromkeys(padded[i : i + 3] for i in range(max(len(padded) - 2, 1))))


@lru_cache(maxsize=1 << 17)
def number_of(text: str) -> int:
    """A number that identifies a text across files; 0 for the empty text."""
    if not text:
        return 0
    digest = hashlib.blake2b(text.encode(errors="surrogatepass"), digest_size=8).digest()
    return int.from_bytes(digest, signed=True) or 1


Statement: TypeAlias = tuple[tuple[str, str], ...]
"""A fragment's statement: (attribute, its values as one), by ascending attribute."""

_TABLE = "\0table"
"""The attribute of a statement that names its linked table."""

FORMS = ("name", "sorted", "compact", "bare", "first", "last", "acronym", "short acronym")
LETTER_FORMS = ("first letters", "words of one letter")
BAGS = ("trigrams", "words", "digits", "sounds")


def statement_of(fragment: Fragment, link: str | None = None) -> Statement:
    """The statement of a fragment, without blank values.

    If fragments that share a value of `link` are different entities, its values are not an
    attribute but the statement's table.
    """
    said = [(attribute, stated(values)) for attribute, values in fragment.properties.items()]
    if link is not None:
        table = stated(Constraints(link=link).stated(fragment))
        said = [(_TABLE, table), *((attribute, v) for attribute, v in said if attribute != link)]
    return tuple(sorted((attribute, value) for attribute, value in said if value))


def statements_of(
    fragments: Sequence[Fragment], link: str | None = None
) -> tuple[list[Statement], NDArray[np.int32]]:
    """The different statements of fragments, ascending, and the place of each fragment's."""
    numbers: defaultdict[Hashable, int] = defaultdict(count().__next__)
    if link is not None:
        of = [numbers[statement_of(fragment, link)] for fragment in fragments]
        known = cast(list[Statement], list(numbers))
    else:
        said = StatedValues.of(fragments)
        starts, places = said.ranked(sorted(said.attributes), np.arange(len(said)))
        pairs = [(a, v) for a, some in zip(said.attributes, said.values, strict=True) for v in some]
        kept = np.array([value != "" for _, value in pairs], np.bool_)[said.value[places]]
        values, starts = said.value[places][kept], starts_of(kept)[starts]
        content, size = values.tobytes(), values.itemsize
        of = [numbers[content[a:b]] for a, b in pairwise((size * starts).tolist())]
        numbered = (np.frombuffer(cast(bytes, one), values.dtype).tolist() for one in numbers)
        known = [tuple(map(pairs.__getitem__, some)) for some in numbered]
    order = sorted(range(len(known)), key=known.__getitem__)
    return [known[k] for k in order], np.argsort(order)[of].astype(np.int32)


def table_of(said: Statement) -> str:
    """The table of a statement; "" if it has none."""
    return said[0][1] if said and said[0][0] == _TABLE else ""


@dataclass(frozen=True, slots=True)
class Column:
    """One attribute of a table."""

    which: IntArray  # by row, the place of its value among the different ones
    numbers: IntArray  # of each different value; 0 of a missing one
    text: Strings
    bags: Bags
    amounts: FloatArray  # of each different value, -1 of others; none unless these are magnitudes

    def value(self, rows: IntArray | int) -> IntArray:
        """The numbers of the values of some rows."""
        values: IntArray = self.numbers[self.which[rows]]
        return values

    @property
    def addresses(self) -> tuple[int, ...]:
        """What the kernel reads."""
        amounts = address(self.amounts) if len(self.amounts) else 0
        return (
            *(address(self.which), address(self.numbers)),
            *(*self.text.addresses, *self.bags.addresses, amounts),
        )

    def dump(self) -> Part:
        return {
            "which": self.which.astype(np.int32),
            "numbers": self.numbers,
            "text": self.text.dump(),
            "bags": self.bags.dump(),
            "amounts": self.amounts,
        }

    @classmethod
    def load(cls, kept: PartReader, weights: Weights, rows: int) -> Column:
        numbers = kept.array("numbers", np.int64, -1)
        n = len(numbers)
        which = kept.array("which", np.int32, rows, low=0, high=n - 1).astype(np.int64)
        bags = Bags.load(kept.part("bags"), weights, n)
        amounts = kept.array("amounts", np.float64, -1, low=-1)
        if len(amounts) not in (0, n):
            raise kept.damaged("amounts", f"none or {n:,}", f"{len(amounts):,}")
        return cls(which, numbers, kept.strings("text", n), bags, amounts)

    @classmethod
    def joined(cls, some: Sequence[Column]) -> Column:
        """All rows of several collections, in order."""
        which = _shifted([one.which for one in some], [len(one.numbers) for one in some])
        return replace(joined_fields(some), which=which)


@dataclass(frozen=True, slots=True)
class NameForms:
    """Distinct names, in comparable forms."""

    text: Strings
    bare: Strings  # their consonants
    sorted: Strings  # their words in alphabetical order
    forms: IntArray  # of `FORMS`, shape [forms, names]
    letters: IntArray  # of `LETTER_FORMS`, as bits, shape [2, names]
    count: IntArray  # of their words
    bags: Mapping[str, Bags]  # trigrams of the folded name, words, words with a digit, skeletons

    def __len__(self) -> int:
        return len(self.count)

    def numbers(self, form: str) -> IntArray:
        """The numbers of a form."""
        numbers: IntArray = self.forms[FORMS.index(form)]
        return numbers

    @property
    def addresses(self) -> tuple[int, ...]:
        """What the kernel reads."""
        texts, arrays = (self.text, self.bare, self.sorted), (self.forms, self.letters, self.count)
        return (
            *chain.from_iterable(some.addresses for some in texts),
            *map(address, arrays),
            *chain.from_iterable(self.bags[kind].addresses for kind in BAGS),
        )

    def dump(self) -> Part:
        return {
            "text": self.text.dump(),
            "bare": self.bare.dump(),
            "sorted": self.sorted.dump(),
            "numbers": self.forms,
            "letters": self.letters,
            "count": self.count.astype(np.int32),
            **{name: bags.dump() for name, bags in self.bags.items()},
        }

    @classmethod
    def load(cls, kept: PartReader, weights: Mapping[str, Weights]) -> NameForms:
        count = kept.array("count", np.int32, -1, low=0)
        n = len(count)
        return cls(
            text=kept.strings("text", n),
            bare=kept.strings("bare", n),
            sorted=kept.strings("sorted", n),
            forms=kept.array("numbers", np.int64, len(FORMS), n),
            letters=kept.array("letters", np.int64, len(LETTER_FORMS), n),
            count=count.astype(np.int64),
            bags={name: Bags.load(kept.part(name), weights[name], n) for name in BAGS},
        )

    @classmethod
    def joined(cls, some: Sequence[NameForms]) -> NameForms:
        """All names of several collections, in order."""
        return joined_fields(some)


@dataclass(frozen=True, slots=True)
class RecordTable:
    """Rows of statements in comparable forms."""

    names: NameForms
    called: IntArray  # where the names of each row begin in `which`, at least one, maybe ""
    which: IntArray
    trigrams: Bags  # of all names of a row
    consonants: Bags  # the same, see `consonants_of`
    script: IntArray  # of each row's names
    all_text: Bags  # words of all values of a row
    codes: Mapping[str, Bags]  # by kind of `CODE_BAGS`, those of all values of a row
    coded: Strings  # the codes of each row
    spelt: Strings  # letters and digits of all values of a row
    linked: IntArray  # the number of the table that each row is of, 0 for none
    stated: IntArray  # number of attributes of each row
    columns: Mapping[str, Column]

    def __len__(self) -> int:
        return len(self.stated)

    def numbers(self, form: str, rows: IntArray | None = None) -> IntArray:
        """The numbers of a form of the first names of some rows, by default of all."""
        first = self.called[:-1] if rows is None else self.called[rows]
        return self.names.numbers(form)[self.which[first]]

    @property
    def addresses(self) -> tuple[int, ...]:
        """What the kernel reads, but the columns."""
        bags = self.trigrams, self.consonants, self.all_text, *(self.codes[k] for k in CODE_BAGS)
        return (
            *(*self.names.addresses, address(self.called), address(self.which)),
            *chain.from_iterable(some.addresses for some in bags),
            *(*self.coded.addresses, *self.spelt.addresses),
            *(address(self.script), address(self.stated)),
        )

    def dump(self) -> Part:
        return {
            "names": self.names.dump(),
            "called": np.diff(self.called).astype(np.int32),
            "which": self.which.astype(np.int32),
            "trigrams": self.trigrams.dump(),
            "consonants": self.consonants.dump(),
            "script": self.script.astype(np.int32),
            "soup": self.all_text.dump(),
            "codes": {kind: bags.dump() for kind, bags in self.codes.items()},
            "coded": self.coded.dump(),
            "spelt": self.spelt.dump(),
            "linked": self.linked,
            "stated": self.stated.astype(np.int32),
            "columns": {str(at): one.dump() for at, one in enumerate(self.columns.values())},
        }

    @classmethod
    def load(
        cls, kept: PartReader, weights: Mapping[str, Weights], columns: Mapping[str, Weights]
    ) -> RecordTable:
        """Load the form of `dump`, with the weights of its reader."""
        names = NameForms.load(kept.part("names"), weights)
        stated = kept.array("stated", np.int32, -1, low=0)
        n = len(stated)
        called = kept.starts("called", n, low=1)
        which = kept.array("which", np.int32, int(called[-1]), low=0, high=len(names) - 1)
        return cls(
            names=names,
            called=called,
            which=which.astype(np.int64),
            trigrams=Bags.load(kept.part("trigrams"), weights["trigrams"], n),
            consonants=Bags.load(kept.part("consonants"), weights["consonants"], n),
            script=kept.array("script", np.int32, n, low=0, high=_OTHER).astype(np.int64),
            all_text=Bags.load(kept.part("soup"), weights["soup"], n),
            codes={
                kind: Bags.load(kept.part(f"codes/{kind}"), weights[kind], n) for kind in CODE_BAGS
            },
            coded=kept.strings("coded", n),
            spelt=kept.strings("spelt", n),
            linked=kept.array("linked", np.int64, n, low=0),
            stated=stated.astype(np.int64),
            columns={
                name: Column.load(kept.part(f"columns/{at}"), of_attribute, n)
                for at, (name, of_attribute) in enumerate(columns.items())
            },
        )

    @classmethod
    def joined(cls, some: Sequence[RecordTable]) -> RecordTable:
        """All rows of several collections, in order."""
        return replace(
            joined_fields(some),
            called=starts_of(np.concatenate([np.diff(one.called) for one in some])),
            which=_shifted([one.which for one in some], [len(one.names) for one in some]),
        )


def _shifted(places: Sequence[IntArray], sizes: Sequence[int]) -> IntArray:
    """Places among several lists, as places among all of them."""
    before = np.cumsum([0, *sizes[:-1]])
    return np.concatenate([some + shift for some, shift in zip(places, before, strict=True)])


MOST_ATTRIBUTES = 24
"""How many attributes are compared one by one: the most common ones."""
_MOST_WORDS = 64
_MOST_NAMES = 4
_LONGEST_COMPARED = 120
_NAMING = ("name", "title", "label")
_LETTERS = 64


class _Parts:
    """Statements split into parts: distinct names and values, ascending, and their places."""

    def __init__(
        self, statements: Sequence[Statement], naming: tuple[str, ...], attributes: Sequence[str]
    ) -> None:
        self.linked = np.abs(_numbers([table_of(said) for said in statements]))
        statements = [said[1:] if table_of(said) else said for said in statements]
        called = [_called(said, naming) for said in statements]
        self.names = sorted({name for names in called for name in names})
        words = TokenLists.of(map(tokens_of, self.names))
        self.tokens = {
            "trigrams": TokenLists.of(trigrams_of(name) if name else () for name in self.names),
            "words": words,
            "digits": words.only(lambda token: not token.isalpha() and has_digit(token)),
            "sounds": words.each(skeleton),
        }
        place = {name: at for at, name in enumerate(self.names)}
        self.called = starts_of(list(map(len, called)))
        self.which = np.array([place[name] for names in called for name in names], dtype=np.int64)
        written = ("".join(v for name, v in said if name in naming) for said in statements)
        self.scripts = list(map(script_of, written))
        consonants = TokenLists.of(map(consonants_of, self.names))
        self.consonants = consonants.together(self.called, self.which)
        words_in = lru_cache(maxsize=1 << 14)(lambda value: tokens_of(folded(value)))
        self.words_of_all = TokenLists.of(_all_words(said, words_in) for said in statements)
        self.codes = {kind: TokenLists() for kind in CODE_BAGS}
        spelled = []
        for said in statements:
            text = folded(" ".join(value for _, value in said).replace("\n", " "))
            for kind, tokens in codes_of(text).items():
                self.codes[kind].add(tokens)
            spelled.append(spelt(text))
        self.spelt = Strings.of(spelled)
        self.values: dict[str, list[str]] = {}
        self.stated: dict[str, IntArray] = {}
        columns: dict[str, list[str]] = {attribute: [] for attribute in attributes}
        for one in map(dict, statements):
            for attribute, column in columns.items():
                column.append(one.get(attribute, ""))
        for attribute, column in columns.items():
            self.values[attribute] = sorted({*column})
            at = {value: k for k, value in enumerate(self.values[attribute])}
            self.stated[attribute] = np.fromiter(map(at.__getitem__, column), np.int64)
        self.attributes = np.array([len(one) for one in statements], dtype=np.int64)


@dataclass(eq=False)
class StatementReader:
    """Makes tables of statements, all with the columns and weights of one file."""

    naming: tuple[str, ...]
    weights: Mapping[str, Weights]
    columns: Mapping[str, Weights]
    kinds: Mapping[str, Kind]  # of the attributes that are not read as they are stated
    amounts: frozenset[str]  # the columns of magnitudes

    @classmethod
    def fitted(
        cls, statements: Sequence[Statement], often: IntArray
    ) -> tuple[StatementReader, RecordTable]:
        """The reader of a file, and its table, from its distinct statements, ascending.

        `often` is the number of fragments with each statement.
        """
        kinds = _kinds_read(statements, often)
        statements = _read(statements, kinds)
        present = Counter(attribute for said in statements for attribute, _ in said)
        del present[_TABLE]
        naming = _naming(statements, present)
        rest = sorted(
            (name for name in present if naming != (name,)), key=lambda a: (-present[a], a)
        )
        parts = _Parts(statements, naming, rest[:MOST_ATTRIBUTES])
        weights = {kind: Weights.fitted(tokens) for kind, tokens in parts.tokens.items()}
        weights["consonants"] = Weights.fitted(parts.consonants)
        weights["soup"] = Weights.fitted(parts.words_of_all)
        weights |= {kind: Weights.fitted(tokens) for kind, tokens in parts.codes.items()}
        columns = {
            name: Weights.fitted(TokenLists.of(tokens_of(value) for value in values if value))
            for name, values in parts.values.items()
        }
        amounts = frozenset(
            name for name, values in parts.values.items() if are_amounts([v for v in values if v])
        )
        reader = cls(naming, weights, columns, kinds, amounts)
        table = reader._table(parts)
        for some in (*weights.values(), *columns.values()):
            some.forget()
        return reader, table

    def dump(self) -> Part:
        return {
            "naming": list(self.naming),
            "attributes": list(self.columns),
            "read": list(self.kinds),
            "kinds": list(self.kinds.values()),
            "amounts": sorted(self.amounts),
            **{name: weights.dump() for name, weights in self.weights.items()},
            "columns": {str(at): one.dump() for at, one in enumerate(self.columns.values())},
        }

    @classmethod
    def load(cls, kept: PartReader) -> StatementReader:
        read, kinds = kept.names("read"), kept.value("kinds")
        known = {kind: kind for kind in KINDS}
        if not isinstance(kinds, list) or len(kinds) != len(read) or not {*kinds} <= {*KINDS}:
            raise kept.damaged("kinds", f"{len(read):,} kinds of attributes", "others")
        return cls(
            kept.names("naming"),
            {
                name: Weights.load(kept.part(name))
                for name in (*BAGS, "consonants", "soup", *CODE_BAGS)
            },
            {
                name: Weights.load(kept.part(f"columns/{at}"))
                for at, name in enumerate(kept.names("attributes"))
            },
            dict(zip(read, (known[kind] for kind in kinds), strict=True)),
            frozenset(kept.names("amounts")),
        )

    def table(self, statements: Sequence[Statement]) -> RecordTable:
        """The table of some statements, of the file or others."""
        said = _read(statements, self.kinds)
        return self._table(_Parts(said, self.naming, list(self.columns)))

    def _table(self, parts: _Parts) -> RecordTable:
        of_rows = parts.tokens["trigrams"].together(parts.called, parts.which)
        return RecordTable(
            names=self._names(parts),
            called=parts.called,
            which=parts.which,
            trigrams=self.weights["trigrams"].rows(of_rows),
            consonants=self.weights["consonants"].rows(parts.consonants),
            script=np.array(parts.scripts, dtype=np.int64),
            all_text=self.weights["soup"].rows(parts.words_of_all),
            codes={kind: self.weights[kind].rows(tokens) for kind, tokens in parts.codes.items()},
            coded=Strings.of(map(" ".join, parts.codes["codes"].texts())),
            spelt=parts.spelt,
            linked=parts.linked,
            stated=parts.attributes,
            columns={
                name: Column(
                    parts.stated[name],
                    _numbers(values),
                    _texts(map(folded, values)),
                    self.columns[name].rows(TokenLists.of(map(tokens_of, values))),
                    np.array([amount(v) for v in values] if name in self.amounts else [], float),
                )
                for name, values in parts.values.items()
            },
        )

    def _names(self, parts: _Parts) -> NameForms:
        words, sounds = parts.tokens["words"].texts, parts.tokens["sounds"].texts

        def ordered() -> Iterator[str]:
            return (" ".join(sorted(some)) for some in words())

        bare = (" ".join(sorted(some)) for some in sounds())
        forms = map(_forms_of, parts.names, words(), bare)
        return NameForms(
            text=_texts(parts.names),
            bare=_texts(map(" ".join, sounds())),
            sorted=_texts(ordered()),
            forms=_numbers(chain.from_iterable(forms)).reshape(-1, len(FORMS)).T.copy(),
            letters=np.stack(
                [
                    _bits([t[0] for t in some if len(t) > 1] for some in words()),
                    _bits([t for t in some if len(t) == 1] for some in words()),
                ]
            ),
            count=np.diff(parts.tokens["words"].starts),
            bags={kind: self.weights[kind].rows(tokens) for kind, tokens in parts.tokens.items()},
        )


def _kinds_read(statements: Sequence[Statement], often: IntArray) -> dict[str, Kind]:
    """The kinds of the attributes whose values are normalised."""
    said = [one[1:] if table_of(one) else one for one in statements]
    kinds = read_otherwise(kinds_of(_counts(said, often)))
    read = _read(said, kinds)
    idle = idle_attributes(list(map(dict, read)), _counts(read, np.ones_like(often)))
    return kinds | dict.fromkeys(sorted(idle), "nothing")


def _counts(statements: Sequence[Statement], often: IntArray) -> dict[str, Counter[str]]:
    """For each attribute, how many fragments state each value."""
    counts: defaultdict[str, Counter[str]] = defaultdict(Counter)
    for said, n in zip(statements, often.tolist(), strict=True):
        for attribute, value in said:
            counts[attribute][value] += n
    return counts


def _read(statements: Sequence[Statement], kinds: Mapping[str, Kind]) -> list[Statement]:
    """Statements with the values of these attributes normalised by kind."""
    return [
        tuple(
            (attribute, value)
            for attribute, stated_value in said
            if (
                value := read_as(kinds[attribute], stated_value)
                if attribute in kinds
                else stated_value
            )
        )
        for said in statements
    ]


def _called(said: Statement, naming: tuple[str, ...]) -> list[str]:
    """The folded names of a statement, at least one, which may be empty."""
    values = dict(said)
    called = [values[name] for name in naming if name in values]
    if len(naming) > 1:
        # parts of one name
        return [folded(normalised(" ".join(called).replace("\n", " ")))]
    names = [folded(name) for value in called for name in value.split("\n")]
    return list(dict.fromkeys(names))[:_MOST_NAMES] or [""]


def _all_words(said: Statement, words_in: Callable[[str], list[str]]) -> list[str]:
    words = chain.from_iterable(words_in(value.replace("\n", " ")) for _, value in said)
    return list(dict.fromkeys(words))[:_MOST_WORDS]


def _naming(statements: Sequence[Statement], present: Counter[str]) -> tuple[str, ...]:
    if "name" in present:
        return ("name",)
    speaking = [a for a in present if any(word in a.casefold() for word in _NAMING)]
    if speaking:
        return tuple(sorted(speaking))
    values: dict[str, set[str]] = {name: set() for name in present}
    for said in statements:
        for name, value in said:
            if name in values:  # not the table
                values[name].add(value)
    return tuple(sorted(present, key=lambda a: (-len(values[a]), a))[:1])


def _texts(values: Iterable[str]) -> Strings:
    return Strings.of(value[:_LONGEST_COMPARED] for value in values)


def _numbers(values: Iterable[str]) -> IntArray:
    return np.fromiter(map(number_of, values), np.int64)


def _bits(letters: Iterable[Sequence[str]]) -> IntArray:
    rows = (sum({1 << (ord(letter) % _LETTERS) for letter in some}) for some in letters)
    return np.fromiter(rows, np.uint64).view(np.int64)
