"""What is known about names in general: nicknames, legal forms, abbreviations, acronyms, numbers.

A folded name is read once into sets of its words and parts, and two readings are compared by set
operations. Nicknames and legal forms come from `known.json`, which states where they are from.

*Parts* of "institute of physics, university of oslo" are what stands before a separator, the heads,
and what stands behind one, the tails. A comma, a bracket, a colon, a dash between spaces, and the
small words that place one thing in another are separators. A part is compared by its *core*: its
letters without legal forms at either end and without small words.
"""

from __future__ import annotations

import json
import re
from collections.abc import Sequence
from functools import lru_cache
from importlib.resources import files
from typing import NamedTuple

import numpy as np
from rapidfuzz import fuzz

from kbforge.contracts import FloatArray
from kbforge_plugins.likelihoods.attributes.kinds import words_of
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
    """A name as `compared` reads it."""

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
    """The legal forms, and by given name what it may be short for, itself included."""
    text = files("kbforge_plugins.likelihoods.pairs").joinpath("known.json").read_text("utf-8")
    told = json.loads(text)
    names: dict[str, set[str]] = {}
    for name, nicknames in told["nicknames"].items():
        for one in (name, *nicknames):
            names.setdefault(one, {one}).add(name)
    return frozenset(told["legal forms"]), {k: frozenset(v) for k, v in names.items()}


@lru_cache(maxsize=1 << 13)
def reading(name: str) -> Reading:
    """What a folded name says."""
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
    """The words of a folded text, those with dots or slashes, such as "s.a." and "a/s", as one."""
    return words_of(_WITHIN.sub("", part))


def _ending(words: Sequence[str], forms: frozenset[str]) -> int:
    """How many of the last words are one legal form, leaving at least one word."""
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
    """`KNOWN_FEATURES` of pairs of folded names, each [pairs]."""
    rows = [compared(reading(a), reading(b)) for a, b in zip(names_a, names_b, strict=True)]
    return list(np.array(rows, dtype=np.float64).reshape(-1, len(KNOWN_FEATURES)).T)


def compared(a: Reading, b: Reading) -> tuple[float, ...]:
    """`KNOWN_FEATURES` of two readings; NaN of what one of them does not have."""
    only_a, only_b = a.words - b.words, b.words - a.words
    nicknames, short, left_a, left_b = _explained(only_a, only_b, a, b)
    return (
        nicknames,
        short,
        min(left_a, left_b),
        max(left_a, left_b),
        a.core == b.core if a.core and b.core else np.nan,
        _agreement(a.legal, b.legal),
        max(_is_acronym(only_a, b), _is_acronym(only_b, a)),
        a.core in b.heads or b.core in a.heads,
        a.core in b.tails or b.core in a.tails,
        _part_shared(a, b),
        _agreement(a.numbers, b.numbers),
    )


def _agreement(a: frozenset[str], b: frozenset[str]) -> float:
    """1 of equal sets, 0 of disjoint ones, NaN where one is empty."""
    return len(a & b) / len(a | b) if a and b else np.nan


def _is_acronym(words: frozenset[str], other: Reading) -> int:
    """2 if one of the words is the acronym of a part of the other, 1 of some words in a row."""
    if words.isdisjoint(other.runs):
        return 0
    return 1 if words.isdisjoint(other.acronyms) else 2


def _part_shared(a: Reading, b: Reading) -> float:
    """The longest part that both have, as a share of the longer core; NaN without parts."""
    if not (a.heads or b.heads):
        return np.nan
    shared = ({a.core} | a.heads | a.tails) & ({b.core} | b.heads | b.tails)
    longest = max(map(len, shared), default=0)
    return longest / max(len(a.core), len(b.core), 1)


_ALIKE = 80.0
_MOST_COMPARED = 36  # pairs of words; names that differ in more are long titles


def _explained(
    only_a: frozenset[str], only_b: frozenset[str], a: Reading, b: Reading
) -> tuple[float, int, int, int]:
    """Whether given names agree, words that are short for another, and words left on each side.

    A word is left if the other name has none that is alike, short or long for it, or its nickname.
    """
    given: list[bool] = []
    met_a, met_b = set(), set()
    short = 0
    names = _tables()[1]
    few = len(only_a) * len(only_b) <= _MOST_COMPARED
    for x in only_a if few else ():
        of_x = names.get(x)
        for y in only_b:
            nickname = False
            if of_x and (of_y := names.get(y)):
                nickname = not of_x.isdisjoint(of_y)
                given.append(nickname)
            shortened = x[0] == y[0] and (shortens(x, y) or shortens(y, x))
            short += shortened
            if nickname or shortened or fuzz.ratio(x, y, score_cutoff=_ALIKE):
                met_a.add(x)
                met_b.add(y)
    agree = float(any(given)) if given else np.nan
    return agree, short, len(only_a - met_a - b.runs), len(only_b - met_b - a.runs)


def shortens(short: str, long: str) -> bool:
    """Whether a word abbreviates another of the same first letter: "dept", "univ", "st".

    It begins the other, or has letters of it in order, the last one included. A single letter is an
    initial.
    """
    if not 1 < len(short) < len(long) - 1:
        return False
    if long.startswith(short):
        return True
    rest = iter(long)
    return short[-1] == long[-1] and all(letter in rest for letter in short)
