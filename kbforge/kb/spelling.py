"""Chooses the best of several spellings of a name or another value.

Spellings that differ only in case, accents or punctuation are one value. So are "Surname, Given"
and "Given Surname"; but "Acme, Inc." is one with "Acme Inc.", if that is another spelling. These
rules, in order, choose the best value:

1. Most fragments state it.
2. All spellings together are nearest to it, so a misspelling loses.
3. It has the fewest words that no other fragment of the file has, because these may be
   misspellings.

The nearness of a spelling to a value is the largest of

| nearness | where |
|---|---|
| 1 | they are the same, or the spelling has initials for some words: "J. Smith", "John Smith" |
| 1 - 3 d / n | they differ by d edits, and the longer one has n characters |
| c / 2 n | words with c characters in all are in both |

These rules, in order, choose the best spelling of the value, and of values that are still tied:

1. It is not turned around.
2. It is not in capitals, if another one has several words in both cases.
3. Most fragments state it.
4. It has no comma; it has most accents.
5. It has both cases; an e-mail or web address has only lower-case letters.
6. It is the longest; it is the first by code point.

Nothing depends on the order of the fragments. Only the `MOST` most stated values are compared, by
their first `CHARACTERS` characters; so the time is linear in the number of spellings. Where all are
in ASCII, the kernel chooses, by the same rules (`kbforge/kernel/src/spelling.cpp`).
"""

from __future__ import annotations

import re
import unicodedata
import zlib
from collections.abc import Callable, Collection, Mapping, Sequence
from ctypes import byref
from functools import lru_cache
from itertools import chain
from typing import Any

import numpy as np
from numpy.typing import NDArray

from kbforge.files.columns import Statements, encoded_texts
from kbforge.kernel.binding import address, kernel_library
from kbforge.numerics import starts_of
from kbforge.texts.kinds import has_digit

MOST = 32
CHARACTERS = 128
SLIP = 3.0  # a third of the characters may be slips, then nothing is left of the nearness
_SHARED = 0.5
_LONG = 1_000
_LEAST_BITS, _MOST_BITS = 1 << 12, 1 << 23
_SPARSE = 32  # bits a word
_DIGITS = 9  # sums differ in their last bits

_NUMBER = re.compile(r"[+-]?\d*[.,]?\d+")
_SILENT = re.compile(r"['’`´.]")
_ASCII = {c: None if chr(c) in "'`." else " " for c in range(128) if not chr(c).isalnum()}
_LETTERS = re.compile(r"\b(\w) (?=\w\b)")


class Words:
    """The words that several fragments of a file have, in a table of bits.

    A word has one bit. At most one in thirty words that occur once shares the bit of another one,
    and passes for frequent; more only in a file with 260,000 frequent words.
    """

    def __init__(self, bits: NDArray[np.uint8]) -> None:
        self.bits = bits

    @classmethod
    def of(cls, stated: Statements) -> Words:
        """The words of a file."""
        found = [(_NO_SIZES, _NO_SIZES), *map(_places_of, stated.texts)]
        sizes, places = (np.concatenate(parts) for parts in zip(*found, strict=True))
        starts, first = starts_of(sizes), starts_of(list(map(len, stated.texts)))
        several = np.zeros(_MOST_BITS, np.uint8)  # how many fragments have the word, up to 2
        columns = stated.starts, stated.attribute, stated.value, first, starts, places, several
        n = len(stated.starts) - 1
        kernel_library().kb_words_count(n, *(address(column) for column in columns))
        bits = np.packbits(several == 2, bitorder="little")
        n_words = int((several == 2).sum())
        while len(bits) > _LEAST_BITS // 8 and _SPARSE * n_words <= 4 * len(bits):
            half = len(bits) // 2
            bits = bits[:half] | bits[half:]
        return cls(bits)

    def rare(self, text: str) -> int:
        """The number of words in a text that no other fragment has."""
        mask = 8 * len(self.bits) - 1
        return sum(not self.bits[(place & mask) >> 3] >> (place & 7) & 1 for place in _places(text))

    def rare_in(self, texts: Sequence[str]) -> NDArray[np.int64]:
        """The number of such words in each text, shape [texts]."""
        sizes, places = _places_of(texts)
        place = places & (8 * len(self.bits) - 1)
        of = np.arange(len(sizes)).repeat(sizes)
        return np.bincount(of[self.bits[place >> 3] >> (place & 7) & 1 == 0], minlength=len(sizes))


def _places_of(texts: Sequence[str]) -> tuple[NDArray[np.int32], NDArray[np.int32]]:
    """How many places each text has, and the places; the kernel reads texts in ASCII."""
    told = encoded_texts(texts)
    sizes = np.empty(len(texts), np.int32)
    places = np.empty((told.starts[told.n] + told.n) // 2 + 1, np.int32)
    count = kernel_library().kb_words_places(byref(told), address(sizes), address(places))
    others = np.flatnonzero(sizes < 0)
    found = [_places(texts[number]) for number in others.tolist()]
    at = np.repeat(starts_of(np.maximum(sizes, 0))[others], list(map(len, found)))
    sizes[others] = list(map(len, found))
    return sizes, np.insert(places[:count], at, [*chain(*found)])


_NO_SIZES = np.zeros(0, np.int32)


@lru_cache(maxsize=1 << 12)
def _places(text: str) -> tuple[int, ...]:
    """The bits of a text's words in the largest table; none for numbers and addresses."""
    if len(text) > _LONG or has_digit(text) or _is_address(text):
        return ()
    words = value_of(text).split()
    return tuple(zlib.crc32(word.encode()) & (_MOST_BITS - 1) for word in words)


def best_of(
    stated: Mapping[str, int], among: Collection[str] | None = None, words: Words | None = None
) -> str:
    """The best of one or more spellings, each with the number of fragments that state it.

    `among` are the spellings to choose from, at least one; None allows all. `words` are those of
    the file, if known.
    """
    if len(stated) == 1:
        return next(iter(stated))
    values, turned = values_of(stated)
    weights, allowed = dict[str, int](), dict[str, list[str]]()
    for text, count in stated.items():
        value = values[text]
        weights[value] = weights.get(value, 0) + count
        if among is None or text in among:
            allowed.setdefault(value, []).append(text)
    most = max(weights[value] for value in allowed)
    best = [value for value in allowed if weights[value] == most]
    if len(best) > 1:
        best = _nearest(best, weights)
    if len(best) > 1 and words is not None:
        rare = {value: min(map(words.rare, allowed[value])) for value in best}
        fewest = min(rare.values())
        best = [value for value in best if rare[value] == fewest]
    texts = [text for value in best for text in allowed[value]]
    if len(texts) == 1:
        return texts[0]
    is_written = any(" " in text and _has_both_cases(text) for text in texts)

    def rank(text: str) -> tuple[Any, ...]:
        return (
            text in turned,
            is_written and " " in text and text.isupper(),
            -stated[text],
            "," in text,
            -_accents(text),
            not (text.islower() if _is_address(text) else _has_both_cases(text)),
            -len(text),
            text,
        )

    return min(texts, key=rank)


def values_of(texts: Collection[str]) -> tuple[dict[str, str], Collection[str]]:
    """The values of an attribute's spellings, and which spellings are turned around."""
    values = {text: value_of(text) for text in texts}
    turned = {text: value_of(found) for text in texts if (found := _turned(text)) is not None}
    if turned:
        others = {value for text, value in values.items() if text not in turned}
        for text in list(turned):
            if turned[text] not in others and values[text] in others:
                del turned[text]
        values |= turned
    return values, turned


def value_of(text: str) -> str:
    """The key of all spellings of a value: its words without case and accents.

    With digits it is one word, unless it is a number, whose sign and decimal point count. A text of
    more than 1,000 characters has one spelling.

    >>> value_of("Łódź-Widzew (F.C.)"), value_of("(0113) 49-60"), value_of("-1.5")
    ('lodz widzew fc', '01134960', '-1.5')
    """
    if len(text) > _LONG:
        return text
    plain = _plain(text)
    if plain[-1:].isdecimal() and _NUMBER.fullmatch(plain):
        return plain
    if plain.isascii():
        words = plain.translate(_ASCII).split()
    else:
        words = "".join(map(_of_word, _SILENT.sub("", plain))).split()
    if not words:
        return text
    # "s. a." is "sa"
    return "".join(words) if has_digit(plain) else _LETTERS.sub(r"\1", " ".join(words))


def _turned(text: str) -> str | None:
    """Turn "B, A" into "A B"; None without such a comma or with digits."""
    if "," not in text:
        return None
    last, _, first = text.partition(",")
    if "," in first or not last.strip() or not first.strip():
        return None
    return None if has_digit(text) else f"{first.strip()} {last.strip()}"


def _plain(text: str) -> str:
    """A text without case and accents, in its own script."""
    if text.isascii():
        return text.lower()
    text = unicodedata.normalize("NFKD", text).casefold()
    if text.isascii():
        return text
    text = "".join(map(_without_accent, unicodedata.normalize("NFKD", text)))
    return unicodedata.normalize("NFC", text).casefold()


@lru_cache(maxsize=1 << 16)
def _without_accent(character: str) -> str:
    """A character itself, nothing for an accent, and Latin letters for a letter such as ł.

    Vowel signs of Indic scripts and of Thai, and the voicing marks of kana, are not accents.
    """
    if character.isascii():
        return character
    combining = unicodedata.combining(character)
    if 10 <= combining <= 36 or combining >= 200:
        return ""
    if character.isalpha() and unicodedata.name(character, "").startswith("LATIN"):
        from anyascii import anyascii

        return anyascii(character)
    return character


@lru_cache(maxsize=1 << 16)
def _of_word(character: str) -> str:
    """A letter, a digit or a vowel sign; a space for anything else."""
    is_part = character.isalnum() or unicodedata.category(character)[0] == "M"
    return character if is_part else " "


def _accents(text: str) -> int:
    if text.isascii():
        return 0
    return sum(_without_accent(c) != c for c in unicodedata.normalize("NFD", text[:_LONG]))


def _is_address(text: str) -> bool:
    return "@" in text or "://" in text


def _has_both_cases(text: str) -> bool:
    return text.upper() != text != text.lower()


def _nearest(values: Sequence[str], weights: Mapping[str, int]) -> list[str]:
    """The values, among equally frequent ones, that are nearest to all spellings."""
    near = nearness_to_all(values, weights)
    nearest = max(near.values())
    return [value for value in near if near[value] == nearest]


def nearness_to_all(values: Sequence[str], weights: Mapping[str, int]) -> dict[str, float]:
    """How near all spellings are to each of some values, in sum, each with its weight.

    Only the `MOST` most stated values and spellings are compared.
    """
    from rapidfuzz.distance import OSA  # .1 s to import

    def first(some: Collection[str]) -> list[str]:
        """The `MOST` most stated spellings; a checksum breaks ties."""
        if len(some) <= MOST:
            return sorted(some)
        by_weight = {v: (-weights[v], zlib.crc32(v.encode("utf-8", "replace")), v) for v in some}
        return sorted(some, key=by_weight.__getitem__)[:MOST]

    cut = {value: value[:CHARACTERS] for value in {*first(values), *first(weights)}}
    words = {value: {*text.split()} for value, text in cut.items()}

    def nearness(spelling: str, value: str) -> float:
        if spelling == value:
            return 1.0
        return _nearness(cut[spelling], cut[value], words[spelling], words[value], OSA.distance)

    spellings, near = first(weights), dict[str, float]()
    for value in first(values):
        sums = sum(weights[spelling] * nearness(spelling, value) for spelling in spellings)
        near[value] = round(sums, _DIGITS)
    return near


def _nearness(
    spelling: str,
    value: str,
    words: set[str],
    others: set[str],
    distance: Callable[[str, str], int],
) -> float:
    """The similarity of two values, by their first characters and words."""
    if abbreviates(spelling, value):
        return 1.0
    longer = max(len(spelling), len(value))
    alike = 1 - SLIP * distance(spelling, value) / longer
    shared = sum(map(len, words & others)) if len(words) + len(others) > 2 else 0
    return max(0.0, alike, _SHARED * shared / longer)


def abbreviates(spelling: str, value: str) -> bool:
    """Whether a spelling is a value with some words reduced to initials."""
    ours, theirs = spelling.split(), value.split()
    if len(ours) != len(theirs) or len(ours) < 2 or min(map(len, ours)) > 1:
        return False
    same = [one == other for one, other in zip(ours, theirs, strict=True)]
    initials = (len(a) == 1 and b.startswith(a) for a, b in zip(ours, theirs, strict=True))
    return any(same) and all(s or i for s, i in zip(same, initials, strict=True))
