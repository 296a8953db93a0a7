"""The index `ngrams`: names and short texts by their rarest character n-grams.

Two texts of one entity share most of their n-grams, and rare ones are most informative: a text's
keys are its rarest n-grams, counted over the values of the file. It is a prefix filter (Chaudhuri,
Ganti and Kaushik, "A primitive operator for similarity joins in data cleaning", 2006): of two sets
of n-grams A and B with |A & B| >= t |A|, each has one of its (1 - t)|A| + 1 rarest in common with
the other. Nearly all n-grams of a name are kept; long texts are cut to their rarest ones.

N-grams that many values have lead too far in a large file, so pairs of them are also keys. Equal
texts share one more key. A fragment is compared with the clusters that most of its keys lead to.
"""

from __future__ import annotations

from collections.abc import Sequence
from itertools import combinations, islice

import numpy as np
from numpy.typing import NDArray

from kbforge.contracts import LearnedState
from kbforge.contracts.fragment import Fragment
from kbforge.contracts.index import IntArray
from kbforge.errors import UsageError, require_least
from kbforge.indexes.hashed import (
    HashedIndex,
    Hashes,
    OwnedNumbers,
    Said,
    Values,
    combined,
    counted,
    different,
    distinct,
    first_of_each,
    grams_of,
    mixed,
    of_owners,
)
from kbforge.models.bundle import KeptReader
from kbforge.numerics import at_numbers, starts_of

_MOST_CHARACTERS = 4096  # of a value that are read
_MOST_KEYS = 512  # of a fragment
_PAIRED = 6  # common n-grams of a value that are paired: 15 keys
_AT_ONCE = 4096  # values of which n-grams are counted at once
_MOST_ORDER = 8
_SALT_OF_PAIRS = np.uint64(0x70616972)
_SALT_OF_VALUES = np.uint64(0x76616C75)


class Ngrams(HashedIndex):
    """Keys by a text's rarest character n-grams.

    Args:
        families: maximum number of families of clusters that a key leads to; a key with more is
            closed: it counts only for fragments without any other key that leads to a family.
        shared: minimum number of keys in common with a family of clusters, if any family has that
            many.
        compared: maximum number of families that a fragment is compared with, those with the most
            keys in common; 0 sets no limit.
        order: n; from 2 to 8.
        rarest: maximum n-grams of a value that become keys, the rarest first.
        common: minimum number of values for an n-gram to be paired with others.
        attributes: the attributes to read; by default all.

    Raises:
        UsageError: a number out of range.

    """

    options = ("order", "rarest", "common", "attributes")

    def __init__(
        self,
        families: int = 128,
        shared: int = 1,
        compared: int = 64,
        order: int = 3,
        rarest: int = 64,
        common: int = 100,
        attributes: tuple[str, ...] = (),
    ) -> None:
        require_least(
            1, "index ngrams: ", families=families, shared=shared, rarest=rarest, common=common
        )
        require_least(0, "index ngrams: ", compared=compared)
        if not 2 <= order <= _MOST_ORDER:
            raise UsageError(f"index ngrams: order: expected 2 to {_MOST_ORDER}, got {order}")
        self.families, self.shared, self.compared = families, shared, compared
        self.order, self.rarest, self.common = order, rarest, common
        self.attributes = tuple(sorted(set(attributes)))
        self._use(np.zeros(0, dtype=np.uint64), np.zeros(0, dtype=np.int64))

    def _use(self, grams: Hashes, counts: IntArray) -> None:
        self._grams, self._counts = grams, counts

    def fit(self, fragments: Sequence[Fragment]) -> str | None:
        """Count how many different values have each n-gram."""
        said = different(fragments, self.attributes)
        blocks = iter(lambda: list(islice(said, _AT_ONCE)), [])
        grams, counts = counted(distinct(self._grams_of(part)) for part in blocks)
        self._use(grams, counts)
        return None

    def dump(self) -> LearnedState:
        """The n-grams of the file, and how many values have each."""
        return LearnedState({}, {"grams": self._grams, "counts": self._counts})

    def load(self, kept: LearnedState) -> None:
        read = KeptReader(kept, "index ngrams")
        read.only()
        grams = read.array("grams", np.uint64, ascending=True)
        self._use(grams, read.array("counts", np.int64, len(grams), least=1))

    def keys_of(self, fragments: Sequence[Fragment]) -> tuple[IntArray, IntArray]:
        values = Values(fragments, self.attributes)
        keys = combined(self._keys_of(values.said), values.of_fragment)
        keys = first_of_each(distinct(keys), _MOST_KEYS)
        return keys.starts, keys.numbers.view(np.int64)

    def _grams_of(self, said: Sequence[Said]) -> OwnedNumbers:
        return grams_of(said, self.order, _MOST_CHARACTERS)

    def _keys_of(self, said: Sequence[Said]) -> OwnedNumbers:
        """The keys of some values."""
        grams = distinct(self._grams_of(said))
        counts = at_numbers(self._grams, self._counts, grams.numbers, 0)
        order = np.lexsort((grams.numbers, counts, grams.owners))
        often = counts[order] > self.common
        grams = OwnedNumbers(grams.starts, grams.numbers[order])
        kinds = (
            first_of_each(grams, self.rarest),
            _pairs(first_of_each(_those(grams, often), _PAIRED)),
            _values(grams),
        )
        return _side_by_side(kinds)


def _those(parts: OwnedNumbers, which: NDArray[np.bool_]) -> OwnedNumbers:
    return of_owners(parts.owners[which], parts.numbers[which], len(parts.starts) - 1)


def _pairs(parts: OwnedNumbers) -> OwnedNumbers:
    """A key for each pair of an owner's few numbers."""
    lengths = np.diff(parts.starts)
    owners, keys = [], []
    for one, other in combinations(range(int(lengths.max(initial=0))), 2):
        having = np.flatnonzero(lengths > other)
        first, second = (parts.numbers[parts.starts[having] + place] for place in (one, other))
        owners.append(having)
        keys.append(mixed(mixed(first ^ _SALT_OF_PAIRS) + second))
    if not keys:
        return OwnedNumbers(np.zeros_like(parts.starts), np.zeros(0, dtype=np.uint64))
    of_all = np.concatenate(owners)
    order = np.argsort(of_all, kind="stable")
    return of_owners(of_all[order], np.concatenate(keys)[order], len(lengths))


def _values(grams: OwnedNumbers) -> OwnedNumbers:
    """A key for each value that has any n-gram, equal for equal n-grams."""
    lengths = np.diff(grams.starts)
    having = lengths > 0
    sums = np.zeros(0, dtype=np.uint64)
    if having.any():
        sums = np.add.reduceat(mixed(grams.numbers), grams.starts[:-1][having])
    return OwnedNumbers(starts_of(having.astype(np.int64)), mixed(sums ^ _SALT_OF_VALUES))


def _side_by_side(kinds: Sequence[OwnedNumbers]) -> OwnedNumbers:
    """Each owner's numbers of the first kind, then those of the next."""
    owners = np.concatenate([parts.owners for parts in kinds])
    numbers = np.concatenate([parts.numbers for parts in kinds])
    order = np.argsort(owners, kind="stable")
    return of_owners(owners[order], numbers[order], len(kinds[0].starts) - 1)
