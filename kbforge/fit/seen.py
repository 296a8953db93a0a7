"""What is seen of a sample before anything is clustered: names, and pairs that might be one.

All groupings of a sample are measured on the same pairs, so they are compared once: how similar
the names are, and of each attribute that both have whether it agrees, how rare what it agrees on
is, and whether it contradicts. Nothing here knows what an attribute means.
"""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from itertools import chain
from typing import Any

import numpy as np
from numpy.typing import NDArray
from rapidfuzz import fuzz, process

from kbforge.contracts import CandidateIndex, FloatArray, Fragment, IntArray
from kbforge.fit.paths import candidates
from kbforge.models.exact_names import exact_groups, exact_name, exact_names

_LONGEST = 160
"""Characters of a value that are compared."""
_MOST_PAIRS = 60_000
_MOST_ATTRIBUTES = 24
_EQUAL_NAMES_NEXT = 8
"""Each fragment is paired with so many of those that bear its name after it."""
_AGREES, _CONTRADICTS = 0.9, 0.6


@dataclass(frozen=True, eq=False)
class Seen:
    """A sample and its pairs. A pair is two fragments that share a key or a name.

    Attributes:
        n: fragments.
        exact: [n] cluster numbers of the grouping by exact names.
        names: [n] exact names, cut.
        words: [n] their words.
        word_rarity: word -> -log of the share of exact names of the file that have it.
        attributes: [n] how many each fragment has, its name apart.
        record: [n] a number by all that a fragment states.
        one: [pairs] a fragment.
        two: [pairs] the other.
        equal: [pairs] whether their exact names are equal.
        similarity: [pairs] of names, 0 to 1.
        common: [pairs] of the words of both names, by rarity, the share that both have.
        agree: [pairs, attributes] 1 if both have it and it agrees.
        contradict: [pairs, attributes] 1 if both have it and it is clearly another.
        rarity: [pairs, attributes] -log of the share of fragments with the value agreed on.
        random: [attributes] how often two fragments agree that have nothing to do with each other.

    """

    n: int
    exact: IntArray
    names: list[str]
    words: list[list[str]]
    word_rarity: dict[str, float]
    attributes: IntArray
    record: IntArray
    one: IntArray
    two: IntArray
    equal: NDArray[np.bool_]
    similarity: FloatArray
    common: FloatArray
    agree: FloatArray
    contradict: FloatArray
    rarity: FloatArray
    random: FloatArray


def see(sample: Sequence[Fragment], index: CandidateIndex, everything: Sequence[Fragment]) -> Seen:
    """Compare what is close in a sample.

    Args:
        sample: some thousand fragments at most.
        index: fitted to everything.
        everything: the file, which says what is rare.

    """
    n = len(sample)
    exact = np.array(exact_groups(sample), dtype=np.int64)
    names = [exact_name(fragment)[:_LONGEST] for fragment in sample]
    words = [list(dict.fromkeys(name.split())) for name in names]
    word_rarity = _word_rarity(everything)
    one, two = _pairs(sample, index, exact)
    first, second = [names[i] for i in one.tolist()], [names[j] for j in two.tolist()]
    similarity = _similar(first, second, fuzz.token_sort_ratio)
    common = _common(words, word_rarity, one, two)
    values = _values(sample)
    shares = _shares(everything, list(values))
    agree, contradict, rarity, random = _compared(values, shares, one, two)
    return Seen(
        n=n,
        exact=exact,
        names=names,
        words=words,
        word_rarity=word_rarity,
        attributes=np.array([len(f.properties) - ("name" in f.properties) for f in sample]),
        record=_records(sample),
        one=one,
        two=two,
        equal=exact[one] == exact[two],
        similarity=similarity,
        common=common,
        agree=agree,
        contradict=contradict,
        rarity=rarity,
        random=random,
    )


def stated(values: Sequence[str]) -> str:
    """The values of an attribute as one text, case folded, order of no matter."""
    return "; ".join(sorted({" ".join(v[:_LONGEST].casefold().split()) for v in values[:32]}))


def _pairs(
    sample: Sequence[Fragment], index: CandidateIndex, exact: IntArray
) -> tuple[IntArray, IntArray]:
    near = candidates(sample, index)
    order = np.argsort(exact, kind="stable")
    for step in range(1, _EQUAL_NAMES_NEXT + 1):
        a, b = order[:-step], order[step:]
        same = exact[a] == exact[b]
        near[a[same], b[same]] = near[b[same], a[same]] = True
    one, two = np.nonzero(np.triu(near, 1))
    # a regular choice of too many
    step = max(1, math.ceil(len(one) / _MOST_PAIRS))
    return one[::step], two[::step]


def _similar(first: list[str], second: list[str], scorer: Any) -> FloatArray:
    if not first:
        return np.zeros(0)
    found = process.cpdist(first, second, scorer=scorer, dtype=np.float32, workers=1)
    return np.asarray(found, dtype=np.float64) / 100


def _word_rarity(everything: Sequence[Fragment]) -> dict[str, float]:
    names = {name[:_LONGEST] for name in exact_names(everything)}
    counts = Counter(chain.from_iterable(set(name.split()) for name in names))
    return {word: math.log((len(names) + 1) / count) for word, count in counts.items()}


def _common(
    words: list[list[str]], rarity: dict[str, float], one: IntArray, two: IntArray
) -> FloatArray:
    weights = [{word: rarity.get(word, 1.0) for word in held} for held in words]
    totals = [sum(held.values()) for held in weights]
    out = np.zeros(len(one))
    for place, (i, j) in enumerate(zip(one.tolist(), two.tolist(), strict=True)):
        a, b = weights[i], weights[j]
        both = sum(weight for word, weight in a.items() if word in b)
        either = totals[i] + totals[j] - both
        out[place] = both / either if either else 0.0
    return out


def _values(sample: Sequence[Fragment]) -> dict[str, list[str]]:
    """By attribute, what each fragment states of it, "" if nothing; the commonest attributes."""
    counts = Counter(key for f in sample for key in f.properties if key != "name")
    common = sorted(counts, key=lambda key: (-counts[key], key))[:_MOST_ATTRIBUTES]
    return {key: [stated(f.properties.get(key, ())) for f in sample] for key in sorted(common)}


def _shares(everything: Sequence[Fragment], attributes: list[str]) -> dict[str, dict[str, float]]:
    raw: dict[str, Counter[tuple[str, ...]]] = {key: Counter() for key in attributes}
    for fragment in everything:
        for key, values in fragment.properties.items():
            if key in raw:
                raw[key][values] += 1
    counts: dict[str, Counter[str]] = {key: Counter() for key in attributes}
    for key, held in raw.items():
        for values, n in held.items():
            counts[key][stated(values)] += n
    return {
        key: {value: n / total for value, n in counter.items()}
        for key, counter in counts.items()
        for total in (counter.total(),)
    }


def _compared(
    values: dict[str, list[str]],
    shares: dict[str, dict[str, float]],
    one: IntArray,
    two: IntArray,
) -> tuple[FloatArray, FloatArray, FloatArray, FloatArray]:
    """`agree`, `contradict`, `rarity` and `random` of `Seen`."""
    shape = len(one), len(values)
    agree, contradict, rarity = np.zeros(shape), np.zeros(shape), np.zeros(shape)
    random = np.zeros(len(values))
    for column, (key, texts) in enumerate(values.items()):
        number = {text: k for k, text in enumerate(dict.fromkeys(texts))}
        codes = np.array([number[text] if text else -1 for text in texts])
        a, b = codes[one], codes[two]
        both = (a >= 0) & (b >= 0)
        same = both & (a == b)
        close = np.where(same, 1.0, 0.0)
        differ = np.flatnonzero(both & ~same)
        first = [texts[i] for i in one[differ].tolist()]
        second = [texts[j] for j in two[differ].tolist()]
        close[differ] = _similar(first, second, fuzz.ratio)
        agree[:, column] = both & (close >= _AGREES)
        contradict[:, column] = both & (close < _CONTRADICTS)
        share = shares[key]
        rare = np.array([-math.log(share.get(text, 1.0)) for text in number])
        rarity[:, column] = np.where(same, rare[np.maximum(a, 0)], 0.0)
        random[column] = sum(part * part for part in share.values())
    return agree, contradict, rarity, random


def _records(sample: Sequence[Fragment]) -> IntArray:
    number: dict[tuple[tuple[str, str], ...], int] = {}
    return np.array(
        [
            number.setdefault(
                tuple((key, stated(values)) for key, values in sorted(f.properties.items())),
                len(number),
            )
            for f in sample
        ],
        dtype=np.int64,
    )
