"""Lexical knowledge about names: nicknames, legal forms, abbreviations, acronyms, numbers.

A folded name is read once into sets of its words and parts. Words are compared for all pairs of
names at once, each pair of words once; parts, legal forms and numbers are compared only if both
names have them. Nicknames and legal forms come from `known.json`, which names its sources.

The *parts* of "institute of physics, university of oslo" are its heads, before a separator, and its
tails, after one. Separators are a comma, a bracket, a colon, a dash between spaces, and small words
such as "of". A part is compared by its *core*: its letters, without small words and without legal
forms at either end.
"""

from __future__ import annotations

import json
import re
from collections.abc import Collection, Iterable, Mapping, Sequence
from functools import lru_cache
from importlib.resources import files
from itertools import chain
from typing import NamedTuple, TypeAlias

import numpy as np
from numpy.typing import NDArray
from rapidfuzz import fuzz
from rapidfuzz.process import cpdist

from kbforge.contracts import FloatArray, IntArray
from kbforge.numerics import at_numbers, spread, starts_of
from kbforge.texts.kinds import words_of
from kbforge_plugins.likelihoods.pairs.table import SMALL

KNOWN_FEATURES = (
    *("name nicknames agree", "name short forms"),
    *("name words unexplained least", "name words unexplained most"),
    *("name core equal", "name legal forms agree", "name acronym of part"),
    *("name is head", "name is tail", "name part shared", "name numbers agree"),
)

_SEPARATOR = re.compile(
    r"\s*[,;:|()\[\]\u2013\u2014]+\s*|\s+[-/]\s+"
    r"|\s+(?:of|at|in|de|des|du|di|del|della|do|da|der|fur|for|van|von|zu)\s+"
)
_WITHIN = re.compile(r"\.|(?<=\b\w)/(?=\w\b)")
_MOST_WORDS_OF_A_FORM = 3
_MOST_PARTS = 5
_MOST_WORDS = 12
_LONGEST_ACRONYM = 8
_UNHEARD = frozenset(word for word in SMALL if len(word) > 1) | {"das", "die", "il", "las", "los"}
_SAME_FORM = {
    "company": "co",
    "corporation": "corp",
    "incorporated": "inc",
    "limited": "ltd",
    "unlimited": "unltd",
}
_ORDINALS = "first second third fourth fifth sixth seventh eighth ninth tenth"
_NUMBERS = {word: str(at) for at, word in enumerate(_ORDINALS.split(), 1)}
_DIGITS = re.compile(r"0*(\d{1,9})(?:st|nd|rd|th)?")
_ROMAN = re.compile(r"(x{0,3})(ix|iv|v?i{0,3})")
_ROMAN_UNITS = ("", "i", "ii", "iii", "iv", "v", "vi", "vii", "viii", "ix")


class Reading(NamedTuple):
    """A name in the form that `known_features` compares."""

    words: frozenset[str]  # all but small words and legal forms at either end
    core: str
    legal: frozenset[str]  # its legal forms, in one spelling each
    heads: frozenset[str]  # cores of parts
    tails: frozenset[str]
    acronyms: frozenset[str]  # of the whole and of its parts
    runs: frozenset[str]  # the same of any words in a row
    numbers: frozenset[str]


@lru_cache(maxsize=1)
def _tables() -> tuple[frozenset[str], dict[str, frozenset[str]]]:
    """The legal forms, and the long forms of each given name, including itself."""
    text = files("kbforge_plugins.likelihoods.pairs").joinpath("known.json").read_text("utf-8")
    told = json.loads(text)
    names: dict[str, set[str]] = {}
    for name, nicknames in told["nicknames"].items():
        for one in (name, *nicknames):
            names.setdefault(one, {one}).add(name)
    return frozenset(told["legal forms"]), {k: frozenset(v) for k, v in names.items()}


@lru_cache(maxsize=1 << 13)
def reading(name: str) -> Reading:
    """The sets of a folded name."""
    between = [words_of_part(part) for part in _SEPARATOR.split(name)]
    between = [words for words in between if words][:_MOST_PARTS]
    n = len(between)
    spans = [(i, j) for i in range(n) for j in range(i + 1, n + 1)]
    parts = {(i, j): _stripped([w for some in between[i:j] for w in some]) for i, j in spans}
    core, legal = parts.get((0, n), ([], set()))
    acronyms = {
        "".join(word[0] for word in words)
        for words, _ in parts.values()
        if 2 <= len(words) <= _LONGEST_ACRONYM
    }
    runs = {
        "".join(word[0] for word in core[i:j])
        for i in range(len(core))
        for j in range(i + 2, min(i + _LONGEST_ACRONYM, len(core)) + 1)
    }
    return Reading(
        words=frozenset(core),
        core="".join(core),
        legal=frozenset(legal),
        heads=frozenset("".join(parts[0, j][0]) for j in range(1, n)),
        tails=frozenset("".join(parts[i, j][0]) for i, j in spans if i),
        acronyms=frozenset(acronyms),
        runs=frozenset(runs | acronyms),
        numbers=frozenset(_numbers(core)),
    )


def _stripped(words: list[str]) -> tuple[list[str], set[str]]:
    """The words of a core, and the legal forms that were taken from its ends."""
    forms = _tables()[0]
    legal: set[str] = set()
    while n := _ending(words, forms):
        legal.add(" ".join(words[-n:]))
        words = words[:-n]
    # in front only what is no common short word
    while len(words) > 1 and len(words[0]) > 2 and words[0] in forms:
        legal.add(words[0])
        words = words[1:]
    core = [word for word in words if word not in _UNHEARD] or words
    return core[:_MOST_WORDS], {_SAME_FORM.get(form, form) for form in legal}


def words_of_part(part: str) -> list[str]:
    """The words of a folded text; words with dots or slashes, such as "s.a." and "a/s", stay
    whole."""
    return words_of(_WITHIN.sub("", part))


def _ending(words: Sequence[str], forms: frozenset[str]) -> int:
    """How many of the last words form one legal form, leaving at least one word."""
    longest = min(_MOST_WORDS_OF_A_FORM, len(words) - 1)
    return next((n for n in range(longest, 0, -1) if " ".join(words[-n:]) in forms), 0)


def _numbers(words: Sequence[str]) -> set[str]:
    """The numbers among words; a Roman one of a single letter counts only at the end."""
    numbers = set()
    for at, word in enumerate(words):
        if found := _DIGITS.fullmatch(word):
            numbers.add(found[1])
        elif word in _NUMBERS:
            numbers.add(_NUMBERS[word])
        elif (len(word) > 1 or 0 < at == len(words) - 1) and (found := _ROMAN.fullmatch(word)):
            numbers.add(str(10 * len(found[1]) + _ROMAN_UNITS.index(found[2])))
    return numbers


def known_features(names_a: Sequence[str], names_b: Sequence[str]) -> list[FloatArray]:
    """`KNOWN_FEATURES` of pairs of folded names, each [pairs]; NaN if one lacks the property."""
    place = _numbered([*names_a, *names_b])
    i, j = (_numbers_in(place, names) for names in (names_a, names_b))
    read = list(map(reading, place))
    # the empty core has number 0
    core = _numbers_in(_numbered(["", *(cores := [name.core for name in read])]), cores)
    equal = np.where((core[i] == 0) | (core[j] == 0), np.nan, core[i] == core[j])
    words, acronym = _word_features(read, i, j)
    legal = _agreements([name.legal for name in read], i, j)
    numbers = _agreements([name.numbers for name in read], i, j)
    return [*words, equal, legal, acronym, *_part_features(read, i, j), numbers]


def _numbered(texts: Iterable[str]) -> dict[str, int]:
    """Distinct texts in order, and their numbers."""
    return {text: number for number, text in enumerate(dict.fromkeys(texts))}


def _numbers_in(numbers: Mapping[str, int], texts: Sequence[str]) -> IntArray:
    return np.fromiter(map(numbers.__getitem__, texts), np.int64, len(texts))


def _agreements(sets: Sequence[frozenset[str]], i: IntArray, j: IntArray) -> FloatArray:
    """1 for equal sets, 0 for disjoint ones, NaN if one is empty."""
    out = np.full(len(i), np.nan)
    stated = np.array(list(map(bool, sets)), dtype=bool)
    for pair in np.flatnonzero(stated[i] & stated[j]).tolist():
        a, b = sets[i[pair]], sets[j[pair]]
        out[pair] = len(a & b) / len(a | b)
    return out


def _part_features(read: Sequence[Reading], i: IntArray, j: IntArray) -> FloatArray:
    """Whether a name is a head or a tail of the other, and the length of the longest shared part.

    The length is relative to the longer core, and NaN if neither name has several parts.
    """
    out = np.zeros((3, len(i)))
    out[2] = np.nan
    several = np.array([bool(name.heads) for name in read], dtype=bool)
    for pair in np.flatnonzero(several[i] | several[j]).tolist():
        a, b = read[i[pair]], read[j[pair]]
        shared = ({a.core} | a.heads | a.tails) & ({b.core} | b.heads | b.tails)
        out[:, pair] = (
            a.core in b.heads or b.core in a.heads,
            a.core in b.tails or b.core in a.tails,
            max(map(len, shared), default=0) / max(len(a.core), len(b.core), 1),
        )
    return out


_ALIKE = 80.0
_MOST_COMPARED = 36  # pairs of words; names that differ in more are long titles
_PairWords: TypeAlias = tuple[IntArray, IntArray]
"""Words of pairs of names: the numbers of the pairs, ascending, and of the words."""


class _Tokens:
    """For each name, the numbers of some words, ascending."""

    def __init__(self, words: Sequence[Collection[str]], numbers: Mapping[str, int]) -> None:
        sizes = np.fromiter(map(len, words), np.int64, len(words))
        flat = _numbers_in(numbers, list(chain.from_iterable(words)))
        order = np.lexsort((flat, np.repeat(np.arange(len(words)), sizes)))
        self._starts, self._words, self._width = starts_of(sizes), flat[order], len(numbers)

    def of(self, names: IntArray) -> _PairWords:
        """Those of some names: the positions in `names`, ascending, and words."""
        at, position = spread(self._starts, names)
        return position, self._words[at]

    def hold(self, names: IntArray, words: _PairWords) -> NDArray[np.bool_]:
        """Whether each word is one of the name at its position."""
        pair, word = self.of(names)
        keys, wanted = pair * self._width + word, words[0] * self._width + words[1]
        found: NDArray[np.bool_] = at_numbers(keys, np.ones(len(keys), bool), wanted, False)
        return found


def _word_features(
    read: Sequence[Reading], i: IntArray, j: IntArray
) -> tuple[list[FloatArray], FloatArray]:
    """The evidence of words that only one name has: the first of `KNOWN_FEATURES`, and the acronym.

    A word is unexplained if it is not met (`_met`) and is not an acronym of the other name's words.
    """
    numbers = _numbered(chain.from_iterable(name.words for name in read))
    words, every = _Tokens([name.words for name in read], numbers), {*numbers}
    stated = [name.runs & every for name in read]
    runs = _Tokens(stated, numbers)
    acronyms = _Tokens(
        [some and some & name.acronyms for some, name in zip(stated, read, strict=True)], numbers
    )
    sides, made = [], []
    for mine, theirs in ((i, j), (j, i)):
        pair, word = words.of(mine)
        alone = np.flatnonzero(~words.hold(theirs, (pair, word)))
        side = pair[alone], word[alone]
        sides.append(side)
        made.append(runs.hold(theirs, side).astype(np.int64) + acronyms.hold(theirs, side))
    agree, short, *met = _met(list(numbers), sides[0], sides[1], len(i))
    left, acronym = np.zeros((2, len(i))), np.zeros(len(i))
    for at, (pair, _) in enumerate(sides):
        left[at] = np.bincount(pair[(made[at] == 0) & ~met[at]], minlength=len(i))
        some = made[at] > 0
        np.maximum.at(acronym, pair[some], made[at][some])
    return [agree, short, left.min(axis=0), left.max(axis=0)], acronym


def _met(
    texts: Sequence[str], a: _PairWords, b: _PairWords, n: int
) -> tuple[FloatArray, FloatArray, NDArray[np.bool_], NDArray[np.bool_]]:
    """Whether given names agree, and words abbreviate others, each [pairs]; and the met words.

    `a` and `b` are the words that only the first name of a pair has, and only the second. A word is
    met if one of the other's words is similar to it, abbreviates it or is abbreviated by it, or is
    its nickname.
    """
    sizes = [np.bincount(pair, minlength=n) for pair, _ in (a, b)]
    few = np.flatnonzero((sizes[0] * sizes[1] <= _MOST_COMPARED)[a[0]])
    y, of_x = spread(starts_of(sizes[1]), a[0][few])
    x = few[of_x]
    low, high = np.minimum(a[1][x], b[1][y]), np.maximum(a[1][x], b[1][y])
    different, whole = np.unique(low * len(texts) + high, return_inverse=True)
    u, v = np.divmod(different, max(len(texts), 1))
    given, nickname, shortened, alike = (some[whole] for some in _words_compared(texts, u, v))
    pair = a[0][x]
    agree = np.full(n, np.nan)
    agree[pair[given]] = 0.0
    agree[pair[nickname]] = 1.0
    met = [np.zeros(len(word), dtype=bool) for _, word in (a, b)]
    for side, at in zip(met, (x, y), strict=True):
        side[at[nickname | shortened | alike]] = True
    short = np.bincount(pair[shortened], minlength=n).astype(np.float64)
    return agree, short, met[0], met[1]


def _words_compared(
    texts: Sequence[str], u: IntArray, v: IntArray
) -> tuple[NDArray[np.bool_], NDArray[np.bool_], NDArray[np.bool_], NDArray[np.bool_]]:
    """Whether words u and v are given names, nicknames, abbreviations of each other, and
    similar."""
    names = _tables()[1]
    long_names = [names.get(word) for word in texts]
    is_name = np.array([some is not None for some in long_names], dtype=bool)
    given = is_name[u] & is_name[v]
    nickname, shortened, alike = np.zeros((3, len(u)), dtype=bool)
    for at in np.flatnonzero(given).tolist():
        x, y = long_names[u[at]], long_names[v[at]]
        nickname[at] = x is not None and y is not None and not x.isdisjoint(y)
    first = np.array([ord(word[0]) for word in texts], dtype=np.int64)
    lengths = np.array(list(map(len, texts)), dtype=np.int64)
    less, more = np.minimum(lengths[u], lengths[v]), np.maximum(lengths[u], lengths[v])
    # what the lengths and first letters do not rule out
    for at in np.flatnonzero((first[u] == first[v]) & (less > 1) & (less < more - 1)).tolist():
        short, long = sorted((texts[u[at]], texts[v[at]]), key=len)
        shortened[at] = shortens(short, long)
    may = np.flatnonzero(200 * less >= (_ALIKE - 1) * (less + more))
    if len(may):
        one, other = ([texts[k] for k in some[may].tolist()] for some in (u, v))
        alike[may] = cpdist(one, other, scorer=fuzz.ratio, score_cutoff=_ALIKE, workers=1) > 0
    return given, nickname, shortened, alike


def shortens(short: str, long: str) -> bool:
    """Whether a word abbreviates another of the same first letter: "dept", "univ", "st".

    It is a prefix of the other, or has some of its letters in order, including the last. A single
    letter is an initial.
    """
    if not 1 < len(short) < len(long) - 1:
        return False
    if long.startswith(short):
        return True
    rest = iter(long)
    return short[-1] == long[-1] and all(letter in rest for letter in short)
