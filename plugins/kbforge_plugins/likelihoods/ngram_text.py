"""Text as the n-gram models see it: normalised characters between start and end symbols.

The published model folds text to `[a-z0-9 -]` by transliteration. Here letters and digits of every
script are kept, so that a name in Greek or Chinese is not empty; accents and case are folded away
and dashes become hyphens, other punctuation disappears. Start and end are symbols of their own (the
published model starts with a space, which cannot be told from an inner one).
"""

from __future__ import annotations

import unicodedata
from collections import Counter
from collections.abc import Iterable

START = "\x02"
END = "\x03"


def normalised(value: str) -> str:
    """Fold case, accents and punctuation; may be empty.

    >>> normalised(" Łódź–Widzew  (F.C.) ")
    'łodz-widzew fc'
    """
    if value.isascii():  # most text; the general rule gives the same
        return " ".join(value.translate(_FOLDED_ASCII).split())
    text = unicodedata.normalize("NFKD", value).casefold()
    text = unicodedata.normalize("NFKD", text)
    return " ".join("".join(map(_folded, text)).split())


def _folded(character: str) -> str:
    if character.isalnum() or character in " -":
        return character
    if character.isspace():
        return " "
    category = unicodedata.category(character)
    if category == "Pd":
        return "-"
    # vowel signs of Indic scripts are marks but no accents: they do not combine in Unicode's sense
    if category[0] == "M" and not unicodedata.combining(character):
        return character
    return ""


_FOLDED_ASCII = {point: _folded(chr(point).lower()) for point in range(128)}


def ngrams(value: str, order: int) -> Counter[str]:
    """The n-grams of a value with their multiplicities: one for each character and the end.

    An n-gram is a string of `order` symbols, the last one predicted from the ones before it.
    """
    text = START * (order - 1) + normalised(value) + END
    return Counter(text[i : i + order] for i in range(len(text) - order + 1))


def ngrams_of_all(texts: Iterable[str], order: int) -> Counter[str]:
    """The n-grams of some normalised values together, as `ngrams` has those of one."""
    text = "".join(f"{START * (order - 1)}{value}{END}" for value in texts)
    counts = Counter(map("".join, zip(*(text[i:] for i in range(order)), strict=False)))
    for gram in [
        gram for gram in counts if END in gram[:-1]
    ]:  # it begins in one and ends in another
        del counts[gram]
    return counts
