"""Hashed character n-grams of many texts at once, and keys of many fragments laid end to end.

All numbers are of 64 bits and the same on every machine: `mixed` is the finaliser of splitmix64
(Steele, Lea and Flood, "Fast splittable pseudorandom number generators", 2014), a bijection.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from typing import NamedTuple, TypeAlias

import numpy as np
from numpy.typing import NDArray

from kbforge.contracts.fragment import Fragment
from kbforge.contracts.index import IntArray
from kbforge_plugins.likelihoods.digests import digest_of
from kbforge_plugins.likelihoods.ngram_text import END, START, normalised

Hashes: TypeAlias = NDArray[np.uint64]

Said: TypeAlias = tuple[str, str]
"""An attribute and a value of it."""

MOST_VALUES = 64
"""Values of an attribute that are read of a fragment: the first ones."""

_GOLDEN = np.uint64(0x9E3779B97F4A7C15)
_FIRST, _SECOND = np.uint64(0xBF58476D1CE4E5B9), np.uint64(0x94D049BB133111EB)
_SHIFTS = np.uint64(30), np.uint64(27), np.uint64(31)


class OwnedNumbers(NamedTuple):
    """Numbers of several owners, laid end to end.

    Attributes:
        starts: where each owner's begin, shape [owners + 1].
        numbers: all of them.

    """

    starts: IntArray
    numbers: Hashes

    @property
    def owners(self) -> IntArray:
        """By number, whose it is."""
        return np.arange(len(self.starts) - 1).repeat(np.diff(self.starts))


def mixed(numbers: Hashes) -> Hashes:
    """Each number scrambled."""
    x = numbers + _GOLDEN
    x = (x ^ (x >> _SHIFTS[0])) * _FIRST
    x = (x ^ (x >> _SHIFTS[1])) * _SECOND
    return np.asarray(x ^ (x >> _SHIFTS[2]))


def seeds(seed: int, n: int) -> Hashes:
    """The first `n` numbers that follow from a seed."""
    return mixed(mixed(np.arange(n, dtype=np.uint64)) ^ np.uint64(seed))


def starts_of(lengths: Sequence[int] | IntArray) -> IntArray:
    """Where parts of these lengths begin, and where the last one ends."""
    starts = np.zeros(len(lengths) + 1, dtype=np.int64)
    np.cumsum(lengths, out=starts[1:])
    return starts


def of_owners(owners: IntArray, numbers: Hashes, n: int) -> OwnedNumbers:
    """Numbers whose owners ascend, of `n` owners."""
    return OwnedNumbers(np.searchsorted(owners, np.arange(n + 1)), numbers)


def distinct(parts: OwnedNumbers) -> OwnedNumbers:
    """Every owner's numbers, each once, ascending."""
    owners = parts.owners
    order = np.lexsort((parts.numbers, owners))
    owners, numbers = owners[order], parts.numbers[order]
    new = np.ones(len(numbers), dtype=np.bool_)
    new[1:] = (owners[1:] != owners[:-1]) | (numbers[1:] != numbers[:-1])
    return of_owners(owners[new], numbers[new], len(parts.starts) - 1)


def counted(parts: Iterable[OwnedNumbers]) -> tuple[Hashes, IntArray]:
    """The different numbers of all owners of all parts, ascending, and how many owners have each.

    Args:
        parts: of each owner, distinct numbers.

    """
    numbers, counts = np.zeros(0, dtype=np.uint64), np.zeros(0, dtype=np.int64)
    for part in parts:
        more = part.numbers
        numbers, places = np.unique(np.concatenate([numbers, more]), return_inverse=True)
        weights = np.concatenate([counts, np.ones(len(more), dtype=np.int64)])
        counts = np.zeros(len(numbers), dtype=np.int64)
        np.add.at(counts, places.ravel(), weights)
    return numbers, counts


def first_of_each(parts: OwnedNumbers, most: int) -> OwnedNumbers:
    """Of every owner's numbers the first ones, at most so many."""
    kept = np.arange(len(parts.numbers)) - parts.starts[:-1].repeat(np.diff(parts.starts)) < most
    lengths = np.minimum(np.diff(parts.starts), most)
    return OwnedNumbers(starts_of(lengths), parts.numbers[kept])


def taken(parts: OwnedNumbers, which: Sequence[Sequence[int]]) -> OwnedNumbers:
    """New owners' numbers: each has those of some owners of `parts`, one after another."""
    flat = np.fromiter((old for of_one in which for old in of_one), np.int64)
    lengths = np.diff(parts.starts)[flat]
    ends = starts_of(lengths)
    places = np.arange(ends[-1]) + (parts.starts[flat] - ends[:-1]).repeat(lengths)
    return OwnedNumbers(ends[starts_of([len(of_one) for of_one in which])], parts.numbers[places])


def grams_of(said: Sequence[Said], order: int, most: int) -> OwnedNumbers:
    """By value, the hashes of its n-grams, as often as they occur; attributes share none.

    Args:
        said: attributes and values.
        order: n; a shorter text is one n-gram.
        most: characters of a value that are read.

    """
    texts = [START + normalised(value[:most]) + END for _, value in said]
    points = "".join(texts).encode("utf-32-le", "surrogatepass")
    characters = np.frombuffer(points, dtype="<u4").astype(np.uint64)
    lengths = np.array([len(text) for text in texts], dtype=np.int64)
    begins = starts_of(lengths)
    counts = np.maximum(lengths - order + 1, 1)
    starts = starts_of(counts)
    places = np.arange(starts[-1]) + (begins[:-1] - starts[:-1]).repeat(counts)
    ends = begins[1:].repeat(counts)
    by_name = {name: digest_of(name) for name in {name for name, _ in said}}
    of_attribute = np.array([by_name[name] for name, _ in said], dtype=np.uint64)
    return OwnedNumbers(starts, _runs(characters, places, ends, order, of_attribute.repeat(counts)))


def _runs(units: Hashes, places: IntArray, ends: IntArray, order: int, first: Hashes) -> Hashes:
    """The hashes of runs of units, each from a place on and not beyond an end.

    Args:
        units: all of them.
        places: where the runs begin, shape [runs].
        ends: where the text of each ends, shape [runs].
        order: units of a run.
        first: what each hash begins with, shape [runs].

    """
    hashes = first
    for offset in range(order if len(units) else 0):
        at = places + offset
        here = units[np.minimum(at, len(units) - 1)] + np.uint64(1)
        hashes = np.where(at < ends, mixed(hashes ^ here), hashes)
    return hashes


def words_of(said: Sequence[Said], order: int, most: int) -> OwnedNumbers:
    """By value, the hashes of each `order` words in a row; fewer are one, too.

    Args:
        said: attributes and values.
        order: words of one hash.
        most: characters of a value that are read.

    """
    number: dict[Said, int] = {}
    of_value = [
        [number.setdefault((name, word), len(number)) for word in normalised(value[:most]).split()]
        for name, value in said
    ]
    of_word = np.array([digest_of("\0".join(one)) for one in number], dtype=np.uint64)
    lengths = np.array([len(words) for words in of_value], dtype=np.int64)
    begins = starts_of(lengths)
    words = of_word[np.fromiter((w for words in of_value for w in words), np.int64)]
    counts = np.where(lengths > 0, np.maximum(lengths - order + 1, 1), 0)
    starts = starts_of(counts)
    places = np.arange(starts[-1]) + (begins[:-1] - starts[:-1]).repeat(counts)
    return OwnedNumbers(
        starts,
        _runs(
            words, places, begins[1:].repeat(counts), order, np.zeros_like(places, dtype=np.uint64)
        ),
    )


class Values:
    """What fragments say, each value once.

    Args:
        fragments: any.
        attributes: to read; none reads all.

    Attributes:
        said: the different attributes with a value.
        of_fragment: by fragment, the places of what it says in `said`.

    """

    def __init__(self, fragments: Iterable[Fragment], attributes: Sequence[str]) -> None:
        place: dict[Said, int] = {}
        self.of_fragment = [
            [place.setdefault(one, len(place)) for one in dict.fromkeys(_said(f, attributes))]
            for f in fragments
        ]
        self.said = list(place)


def different(fragments: Iterable[Fragment], attributes: Sequence[str]) -> Iterator[Said]:
    """What fragments say, each value once; of them all."""
    return iter(dict.fromkeys(one for f in fragments for one in _said(f, attributes)))


def _said(fragment: Fragment, attributes: Sequence[str]) -> Iterator[Said]:
    properties = fragment.properties
    for attribute in attributes or sorted(properties):
        for value in properties.get(attribute, ())[:MOST_VALUES]:
            yield attribute, value
