"""Candidate indexes: choose the clusters that a fragment is compared with.

One signature for the family:

    keys(fragment) -> numbers

Two fragments with a key in common are candidates for one entity; the clusterer compares a fragment
only with the clusters that hold a candidate. The keys of a fragment depend on it and on what the
index was fitted to, not on earlier calls.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from itertools import chain
from typing import Any, TypeAlias

import numpy as np
from numpy.typing import NDArray

from kbforge.contracts.fragment import Fragment
from kbforge.contracts.posterior import starts_of

IntArray: TypeAlias = NDArray[np.int64]


@dataclass(frozen=True, slots=True, eq=False)
class LearnedState:
    """The learned state of a fitted plugin, as plain data that a store can hold.

    `dump` returns it. Another plugin with the same options loads it with `load` and then returns
    the same results, bit for bit. A plugin without them is fitted again to the same fragments.
    `values` are plain JSON.
    """

    values: Mapping[str, Any] = field(default_factory=dict)
    arrays: Mapping[str, NDArray[Any]] = field(default_factory=dict)


class CandidateIndex(ABC):
    """Gives a shared key to fragments that may be the same entity. The constructor's parameters are
    its options.

    Attributes:
        families: maximum number of families of clusters that a key may lead to. A family is all
            competing clusters with the same first fragment.
        shared: minimum number of keys in common with a family, if any family has that many.
        compared: maximum number of families that a fragment is compared with: those with the most
            keys in common, the earliest first; 0 sets no limit.

    """

    families: int = 8
    shared: int = 1
    compared: int = 0

    @abstractmethod
    def keys(self, fragment: Fragment) -> Sequence[int]:
        """The fragment's keys, distinct, in a fixed order; signed numbers of 64 bits."""

    def keys_of(self, fragments: Sequence[Fragment]) -> tuple[IntArray, IntArray]:
        """The keys of several fragments, end to end.

        Returns the position of each fragment's first key, shape [fragments + 1], and the keys.
        """
        keys = [self.keys(fragment) for fragment in fragments]
        starts = starts_of([len(of_one) for of_one in keys])
        flat = chain.from_iterable(keys)
        return starts, np.fromiter(flat, dtype=np.int64, count=int(starts[-1]))

    def fit(self, fragments: Sequence[Fragment]) -> str | None:
        """Learn from the fragments to be clustered.

        Returns one sentence for the user that says what was fitted, or None if nothing was.
        """
        return None

    def like(self, other: CandidateIndex) -> bool:
        """Whether both, fitted to the same fragments, give each fragment the same keys."""
        return self is other

    def dump(self) -> LearnedState | None:
        """What `fit` learned; None if the index must be fitted again."""
        return None

    def load(self, kept: LearnedState) -> None:
        """Load the state that an index with the same options dumped; a ModelError if it is
        damaged."""
        raise NotImplementedError(f"{type(self).__name__} does not keep what it learned")
