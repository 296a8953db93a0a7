"""Common code of hashing indexes: n-grams as numbers, and random directions.

All numbers have 64 bits and are the same on every machine: `mixed` is the finaliser of splitmix64
(Steele, Lea and Flood, "Fast splittable pseudorandom number generators", 2014), a bijection.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from typing import ClassVar, NamedTuple, TypeAlias

import numpy as np
from numpy.typing import NDArray

from kbforge.contracts import Features, Fragment
from kbforge.contracts.index import CandidateIndex, IntArray
from kbforge.contracts.likelihood import FloatArray
from kbforge.numerics import spread, starts_of
from kbforge.texts import END, START, digest_of, normalised

Hashes: TypeAlias = NDArray[np.uint64]

Said: TypeAlias = tuple[str, str]
"""An attribute and a value of it."""

MOST_VALUES = 64
"""Maximum number of values that are read per attribute, the first ones."""

_GOLDEN = np.uint64(0x9E3779B97F4A7C15)
_FIRST, _SECOND = np.uint64(0xBF58476D1CE4E5B9), np.uint64(0x94D049BB133111EB)
_SHIFTS = np.uint64(30), np.uint64(27), np.uint64(31)


class HashedIndex(CandidateIndex):
    """An index that computes the keys of many fragments at once, and compares options."""

    options: ClassVar[tuple[str, ...]]
    """The options that keys depend on."""

    def like(self, other: CandidateIndex) -> bool:
        return type(other) is type(self) and all(
            getattr(self, name) == getattr(other, name) for name in self.options
        )

    def keys(self, fragment: Fragment) -> Sequence[int]:
        found: list[int] = self.keys_of((fragment,))[1].tolist()
        return found


class OwnedNumbers(NamedTuple):
    """Numbers of several owners, end to end, and where each owner's begin, shape [owners + 1]."""

    starts: IntArray
    numbers: Hashes

    @property
    def owners(self) -> IntArray:
        """The owner of each number."""
        return np.arange(len(self.starts) - 1).repeat(np.diff(self.starts))


def mixed(numbers: Hashes) -> Hashes:
    """Each number scrambled."""
    x = numbers + _GOLDEN
    x = (x ^ (x >> _SHIFTS[0])) * _FIRST
    x = (x ^ (x >> _SHIFTS[1])) * _SECOND
    return np.asarray(x ^ (x >> _SHIFTS[2]))


def of_owners(owners: IntArray, numbers: Hashes, n: int) -> OwnedNumbers:
    """Numbers whose owners ascend, of `n` owners."""
    return OwnedNumbers(np.searchsorted(owners, np.arange(n + 1)), numbers)


def distinct(parts: OwnedNumbers) -> OwnedNumbers:
    """The distinct numbers of every owner, ascending."""
    owners = parts.owners
    order = np.lexsort((parts.numbers, owners))
    owners, numbers = owners[order], parts.numbers[order]
    new = np.ones(len(numbers), dtype=np.bool_)
    new[1:] = (owners[1:] != owners[:-1]) | (numbers[1:] != numbers[:-1])
    return of_owners(owners[new], numbers[new], len(parts.starts) - 1)


def counted(parts: Iterable[OwnedNumbers]) -> tuple[Hashes, IntArray]:
    """All different numbers, ascending, and how many owners have each; numbers are distinct per
    owner."""
    numbers, counts = np.zeros(0, dtype=np.uint64), np.zeros(0, dtype=np.int64)
    for part in parts:
        more = part.numbers
        numbers, places = np.unique(np.concatenate([numbers, more]), return_inverse=True)
        weights = np.concatenate([counts, np.ones(len(more), dtype=np.int64)])
        counts = np.zeros(len(numbers), dtype=np.int64)
        np.add.at(counts, places.ravel(), weights)
    return numbers, counts


def first_of_each(parts: OwnedNumbers, most: int) -> OwnedNumbers:
    """The first numbers of every owner, up to a maximum."""
    kept = np.arange(len(parts.numbers)) - parts.starts[:-1].repeat(np.diff(parts.starts)) < most
    lengths = np.minimum(np.diff(parts.starts), most)
    return OwnedNumbers(starts_of(lengths), parts.numbers[kept])


def combined(parts: OwnedNumbers, which: Sequence[Sequence[int]]) -> OwnedNumbers:
    """New owners, each with the numbers of some owners of `parts`, in order."""
    flat = np.fromiter((old for of_one in which for old in of_one), np.int64)
    ends = starts_of(np.diff(parts.starts)[flat])
    places, _ = spread(parts.starts, flat)
    return OwnedNumbers(ends[starts_of([len(of_one) for of_one in which])], parts.numbers[places])


def grams_of(said: Sequence[Said], order: int, most: int) -> OwnedNumbers:
    """For each value, the hashes of its n-grams, with repetition; attributes share none.

    A shorter text is one n-gram; at most `most` characters are read.
    """
    texts = [START + normalised(value[:most]) + END for _, value in said]
    points = "".join(texts).encode("utf-32-le", "surrogatepass")
    characters = np.frombuffer(points, dtype="<u4").astype(np.uint64)
    lengths = np.array([len(text) for text in texts], dtype=np.int64)
    by_name = {name: digest_of(name) for name in {name for name, _ in said}}
    of_attribute = np.array([by_name[name] for name, _ in said], dtype=np.uint64)
    return runs_of(characters, lengths, np.maximum(lengths - order + 1, 1), order, of_attribute)


def runs_of(
    units: Hashes, lengths: IntArray, counts: IntArray, order: int, seed: Hashes
) -> OwnedNumbers:
    """By text, the hashes of runs of `order` units: one from each of its first `counts` units."""
    begins, starts = starts_of(lengths), starts_of(counts)
    places = np.arange(starts[-1]) + (begins[:-1] - starts[:-1]).repeat(counts)
    ends, hashes = begins[1:].repeat(counts), seed.repeat(counts)
    for offset in range(order if len(units) else 0):
        at = places + offset
        here = units[np.minimum(at, len(units) - 1)] + np.uint64(1)
        hashes = np.where(at < ends, mixed(hashes ^ here), hashes)
    return OwnedNumbers(starts, hashes)


class Values:
    """The values of fragments, each once, and each fragment's places among them."""

    def __init__(self, fragments: Iterable[Fragment], attributes: Sequence[str]) -> None:
        place: dict[Said, int] = {}
        self.of_fragment = [
            [place.setdefault(one, len(place)) for one in dict.fromkeys(_said(f, attributes))]
            for f in fragments
        ]
        self.said = list(place)


def different(fragments: Iterable[Fragment], attributes: Sequence[str]) -> Iterator[Said]:
    """The different attributes with a value of all fragments."""
    return iter(dict.fromkeys(one for f in fragments for one in _said(f, attributes)))


def _said(fragment: Fragment, attributes: Sequence[str]) -> Iterator[Said]:
    properties = fragment.properties
    for attribute in attributes or sorted(properties):
        for value in properties.get(attribute, ())[:MOST_VALUES]:
            yield attribute, value


_MOST_DIMENSIONS = 4096  # of more, several are added up with random signs


class RandomDirections:
    """Normal directions, `rows` of them for each of the `tables`."""

    def __init__(self, seed: int, dimensions: int, tables: int, rows: int) -> None:
        draws = np.random.Generator(np.random.PCG64([seed, 3, dimensions]))
        folded = min(dimensions, _MOST_DIMENSIONS)
        self._signs = draws.choice([-1.0, 1.0], size=dimensions)
        self._directions = draws.normal(size=(folded, tables, rows))

    def projected(self, vectors: FloatArray) -> FloatArray:
        """Projections on every direction, shape [vectors, tables, rows]; independent of other
        vectors."""
        n, dimensions = vectors.shape
        folded, *shape = self._directions.shape
        out = np.zeros((n, *shape))
        for place in range(folded):
            x = np.zeros(n)
            for other in range(place, dimensions, folded):
                x = x + vectors[:, other] * self._signs[other]
            out += x[:, None, None] * self._directions[place]
        return out


LARGEST = 1e100
"""Larger numbers are replaced with this one, because sums of their squares would overflow."""


def stacked(fragments: Sequence[Fragment]) -> FloatArray:
    """The vectors of fragments, all of one length, shape [vectors, dimensions]."""
    vectors = np.array([f.vector for f in fragments], dtype=np.float64)
    return np.clip(vectors, -LARGEST, LARGEST)


def ordinary(vectors: FloatArray) -> FloatArray:
    """The vectors with large numbers bounded."""
    return np.clip(np.nan_to_num(vectors), -LARGEST, LARGEST)


def located(vectors: FloatArray, standardised: bool) -> tuple[FloatArray, FloatArray]:
    """The median and the interquartile range of each dimension; 1 unless standardised."""
    low, median, high = np.quantile(vectors, [0.25, 0.5, 0.75], axis=0)
    spread = np.ones(vectors.shape[1])
    if standardised:
        deviation = np.sqrt(np.mean(np.square(vectors - median), axis=0))
        spread = np.where(high > low, high - low, deviation)
        spread = np.where(spread > 0, spread, 1.0)
    return median, spread


_MOST_CHARACTERS = 65_536  # of a value that are read


def gram_counts(fragments: Sequence[Fragment], attributes: Sequence[str], order: int) -> Features:
    """How often each character n-gram of the values of some attributes (by default all) occurs."""
    values = Values(fragments, attributes)
    grams = combined(grams_of(values.said, order, _MOST_CHARACTERS), values.of_fragment)
    order_of = np.lexsort((grams.numbers, grams.owners))
    owners, names = grams.owners[order_of], grams.numbers[order_of]
    new = np.ones(len(names), dtype=np.bool_)
    new[1:] = (owners[1:] != owners[:-1]) | (names[1:] != names[:-1])
    first = new.nonzero()[0]
    counts = np.diff(first, append=len(names)).astype(np.float64)
    starts = starts_of(np.bincount(owners[first], minlength=len(fragments)))
    return Features(starts, names[first], counts)
