"""How values look beside the others of a file: what says that a value is a slip or a usual one.

A *candidate* is a value of an entity in question, and its *cell* the entity's attribute; see
`kbforge.kb.facts`. A *change* is what two candidates of a cell have between equal beginnings and
ends, if it is more than one slip.
"""

from __future__ import annotations

from collections.abc import Sequence
from itertools import pairwise
from typing import NamedTuple, TypeAlias

import numpy as np
from numpy.typing import NDArray

from kbforge.contracts import FloatArray, IntArray
from kbforge.files.columns import Statements, Texts
from kbforge.kb.spelling import CHARACTERS, MOST, SLIP, abbreviates
from kbforge.numerics import at_numbers, spread, starts_of
from kbforge.texts import digest_of, digests_of

_MOST_TEXTS, _FEWER = 50_000, 5_000  # of an attribute that say how its values look; if none asks
_TRIGRAM_BITS = 18
_CHANGE = 3  # statements with one side alone, with which it is half as usual as can be
_PRIME = 0x9E3779B97F4A7C15
_NONE = np.zeros(0, np.int64)
_Digests: TypeAlias = NDArray[np.uint64]
_NO: tuple[_Digests, IntArray] = np.zeros(0, np.uint64), _NONE


class Pairs(NamedTuple):
    """Pairs of candidates of one cell; columns have one row for each side."""

    sides: IntArray  # candidates, shape [2, pairs]
    near: FloatArray  # how near the other one is to each, shape [2, pairs]
    changes: _Digests  # of what each has where the other has something else, shape [2, pairs]

    @classmethod
    def of(cls, start: IntArray, pools: Sequence[str], attributes: Sequence[str]) -> Pairs:
        """The pairs; of a cell only those of the `MOST` first candidates. A third of the characters
        of near ones may be slips; a change is 0 if it is one slip, or nothing is equal."""
        from rapidfuzz.distance import OSA, Postfix, Prefix  # .1 s to import
        from rapidfuzz.process import cpdist

        one, other = _in_cells(np.diff(start, append=len(pools)).clip(max=MOST), start)
        texts = [value[:CHARACTERS] for value in pools]
        length = np.array(list(map(len, texts)), np.float64)
        of = [texts[k] for k in one.tolist()], [texts[k] for k in other.tolist()]
        scorers = OSA.distance, Prefix.similarity, Postfix.similarity
        distance, begin, end = (cpdist(*of, scorer=scorer, workers=1) for scorer in scorers)
        alike = (1 - SLIP * distance / np.maximum(length[one], length[other]).clip(1)).clip(0)
        n_words = np.array([text.count(" ") for text in texts])
        near, changes = np.array([alike, alike]), np.zeros((2, len(one)), np.int64)
        for at in np.flatnonzero((n_words[one] == n_words[other]) & (n_words[one] > 0)).tolist():
            a, b = of[0][at], of[1][at]
            near[:, at] = np.maximum(near[:, at], (abbreviates(b, a), abbreviates(a, b)))
        changed, parts = np.flatnonzero((distance > 1) & (begin + end > 0)), list[tuple[str, str]]()
        for at in changed.tolist():
            a, b = (text[at][begin[at] :] for text in of)
            equal = min(end[at], len(a), len(b))
            parts.append((a[: len(a) - equal], b[: len(b) - equal]))
        names = [attributes[k] for k in one[changed].tolist()]
        for side, order in enumerate((1, -1)):
            told = zip(parts, names, strict=True)
            changes[side, changed] = digests_of("\0".join((*of[::order], a)) for of, a in told)
        return cls(np.array([one, other]), near, changes.astype(np.uint64))

    def features(self, looks: Looks, size: IntArray) -> FloatArray:
        """How near the other statements of each candidate's cell are, in sum, and how much more
        often the file has its side of changes; `size` as in `Questions`. Shape [2, candidates]."""
        of, sides = size[self.sides], self.sides.ravel()
        elsewhere = at_numbers(*looks, self.changes.ravel(), 1) - of.ravel()
        own, other = elsewhere.clip(0).reshape(of.shape)
        more = (own - other) / (own + other + _CHANGE)
        columns = self.near * of[::-1], np.array([more, -more])
        near, usual = (np.bincount(sides, column.ravel(), len(size)) for column in columns)
        return np.array([np.log1p(near), usual])

    def counted(self, size: IntArray) -> Looks:
        """How many statements have each side of a change."""
        is_change = self.changes > 0
        return Looks(*_repeated(self.changes[is_change], size[self.sides[is_change]]))


def _in_cells(sizes: IntArray, start: IntArray) -> tuple[IntArray, IntArray]:
    """The pairs of so many first candidates of each cell, each pair once."""
    compared = np.arange(sizes.sum()) + (start - starts_of(sizes)[:-1]).repeat(sizes)
    later = (start + sizes).repeat(sizes) - compared - 1  # in its cell
    one = compared.repeat(later)
    return one, one + 1 + np.arange(len(one)) - starts_of(later)[:-1].repeat(later)


class Looks(NamedTuple):
    """How many statements of an attribute have the same letters and digits, or the same side of a
    change, how many texts its shape, and how often texts have three characters; without what a file
    has once."""

    keys: NDArray[np.uint64]  # digests, ascending
    counts: IntArray

    @classmethod
    def of(
        cls, stated: Statements, asked: IntArray = _NONE, changes: tuple[_Digests, IntArray] = _NO
    ) -> Looks:
        """The looks of all attributes, with those of changes. If an attribute has too many texts,
        some count, among them those in question, which have the codes `asked`."""
        firsts = starts_of([len(texts) for texts in stated.texts])
        count = np.bincount(firsts[stated.attribute] + stated.value, minlength=firsts[-1])
        number, found = np.unique(asked % max(firsts[-1], 1)), [changes]
        for attribute, (begin, end) in enumerate(pairwise(firsts.tolist())):
            own = number[slice(*np.searchsorted(number, (begin, end)))]
            step = 1 + (end - begin) // (_MOST_TEXTS if len(own) else _FEWER)
            some = np.union1d(np.arange(begin, end, step), own)
            marks, _ = _marks(stated, attribute, some - begin)
            for keys, weights in zip(marks, (count[some], None, None), strict=True):
                found.append(_repeated(keys, weights))
        keys, counts = (np.concatenate(parts) for parts in zip(*found, strict=True))
        order = np.argsort(keys)
        return cls(keys[order], counts[order])

    def of_texts(self, stated: Statements, attributes: IntArray, numbers: IntArray) -> FloatArray:
        """The counts of each text, of its rarest three characters; shape [3, texts]."""
        looks = np.zeros((3, len(numbers)))
        for attribute in np.unique(attributes).tolist():
            at = np.flatnonzero(attributes == attribute)
            some, place = np.unique(numbers[at], return_inverse=True)
            marks, starts = _marks(stated, attribute, some)
            letters, shapes, trigrams = (at_numbers(*self, keys, 1) for keys in marks)
            counts = letters, shapes, np.minimum.reduceat(trigrams, starts[:-1])
            looks[:, at] = np.array(counts)[:, place]
        return looks


def _repeated(keys: _Digests, weights: IntArray | None) -> tuple[_Digests, IntArray]:
    """Digests, ascending, with the sums of their weights, or how many there are, if above 1."""
    key, place = np.unique(keys, return_inverse=True)
    sums = np.bincount(place, weights, len(key)).astype(np.int64)
    return key[sums > 1], sums[sums > 1]


def _marks(stated: Statements, attribute: int, some: IntArray) -> tuple[list[_Digests], IntArray]:
    """Digests of some texts' letters and digits, shapes, and trigrams, and where these begin."""
    starts, content = _bytes(stated.texts[attribute], some)
    is_letter = (content >= 97) & (content <= 122) | (content >= 128)
    is_digit = (content >= 48) & (content <= 57)
    kind = np.where(is_digit, 48, np.where(is_letter, 97, content))
    is_inner = np.append(False, is_letter[1:] & is_letter[:-1])[: len(content)]
    is_inner[starts[:-1]] = False
    name = stated.attributes[attribute]
    marks = (
        _sums(starts, content, is_letter | is_digit),
        _sums(starts, kind, ~is_inner),
        _trigrams(starts, content),
    )
    return [m + np.uint64(digest_of(f"{k}\0{name}")) for k, m in enumerate(marks)], starts


def _bytes(texts: Sequence[str], some: IntArray) -> tuple[IntArray, NDArray[np.uint8]]:
    """Where some texts begin, and the end, and their bytes in lower case."""
    if isinstance(texts, Texts):
        starts, content = texts.parts()
        places, _ = spread(starts, some)
        found, starts = np.frombuffer(content, np.uint8)[places], starts_of(np.diff(starts)[some])
    else:
        encoded = [texts[number].encode() for number in some.tolist()]
        found = np.frombuffer(b"".join(encoded), np.uint8)
        starts = starts_of(list(map(len, encoded)))
    return starts, found + 32 * ((found >= 65) & (found <= 90)).astype(np.uint8)


def _sums(starts: IntArray, content: NDArray[np.uint8], kept: NDArray[np.bool_]) -> _Digests:
    """The digest of each text, of the bytes kept."""
    begin = np.append(0, np.cumsum(kept))[starts]
    place = np.arange(begin[-1]) - begin[:-1].repeat(np.diff(begin))
    power = np.cumprod(np.full(int(place.max(initial=0)) + 1, _PRIME, np.uint64))
    sums = np.append(np.uint64(0), np.cumsum(content[kept] * power[place], dtype=np.uint64))
    return np.asarray(np.diff(sums[begin]))


def _trigrams(starts: IntArray, content: NDArray[np.uint8]) -> _Digests:
    """The digests of all three characters of each text, whose ends are marked."""
    length = np.diff(starts)
    shift = 2 * np.arange(len(length)).repeat(length)
    marked = np.zeros(len(content) + 2 * len(length), np.uint32)
    marked[np.arange(len(content)) + 1 + shift] = content
    code = marked[:-2] | marked[1:-1] << np.uint32(8) | marked[2:] << np.uint32(16)
    code = code * np.uint32(2654435761) >> np.uint32(32 - _TRIGRAM_BITS)
    return np.asarray(code[np.arange(len(content)) + shift], np.uint64)
