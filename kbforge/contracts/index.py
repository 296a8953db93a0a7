"""Candidate indexes: the clusters that a fragment is compared with.

One signature for the family:

    keys(fragment) -> numbers

Two fragments with a key in common are candidates for one entity; the clusterer compares a fragment
with the clusters that hold a candidate and leaves all others out. Keys of a fragment depend on it
and on what the index was fitted to, not on which fragments were asked about before.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from itertools import chain
from typing import TYPE_CHECKING, Any, Self, TypeAlias

import numpy as np
from numpy.typing import NDArray

from kbforge.contracts.fragment import Fragment

if TYPE_CHECKING:
    from kbforge.contracts.likelihood import Likelihood

IntArray: TypeAlias = NDArray[np.int64]


@dataclass(frozen=True, slots=True, eq=False)
class LearnedState:
    """The learned state of a fitted plugin, as plain data that a store can hold.

    A plugin that keeps gives it with `kept`, and another with the same options goes on from it with
    `take_up`, as if it had been fitted itself: both say the same, bit for bit. A plugin that does
    not keep is fitted again, on the fragments that it was fitted to.

    Attributes:
        values: what JSON can say: numbers, strings, booleans, None, lists, and objects by string.
        arrays: of numbers, by name.

    """

    values: Mapping[str, Any] = field(default_factory=dict)
    arrays: Mapping[str, NDArray[Any]] = field(default_factory=dict)


class CandidateIndex(ABC):
    """Fragments that may be the same entity share a key. Options are the constructor's.

    Attributes:
        families: most families of clusters that a key may lead to. A family is all competing
            clusters with the same first fragment.
        shared: keys that must lead to a family, if any family is led to by so many.
        compared: most families that a fragment is compared with: those that most of its keys lead
            to, and the earliest of equals; 0 is no bound.

    """

    families: int = 8
    shared: int = 1
    compared: int = 0

    @classmethod
    def suited(cls, likelihood: Likelihood) -> Self | None:
        """One for a likelihood that brings none, where it is to cluster many fragments.

        Returns:
            An index with its usual options, still to be fitted, or None if it leaves out what the
            likelihood would put together.

        """
        return None

    @abstractmethod
    def keys(self, fragment: Fragment) -> Sequence[int]:
        """The fragment's keys, distinct, in a fixed order; each of 64 bits, with a sign."""

    def keys_of(self, fragments: Sequence[Fragment]) -> tuple[IntArray, IntArray]:
        """The keys of several fragments: where each one's begin, shape [fragments + 1], and all."""
        keys = [self.keys(fragment) for fragment in fragments]
        starts = np.zeros(len(keys) + 1, dtype=np.int64)
        np.cumsum([len(of_one) for of_one in keys], out=starts[1:])
        flat = chain.from_iterable(keys)
        return starts, np.fromiter(flat, dtype=np.int64, count=int(starts[-1]))

    def fit(self, fragments: Sequence[Fragment]) -> str | None:
        """Look at the fragments to be clustered, if that helps.

        Returns:
            One sentence for the user that says what was fitted, or None if nothing was.

        """
        return None

    def like(self, other: CandidateIndex) -> bool:
        """Whether both, fitted to the same fragments, give every fragment the same keys.

        It goes by their options; an index of which nothing is known is like itself alone.
        """
        return self is other

    def kept(self) -> LearnedState | None:
        """What was learned by `fit`; None if it is to be fitted again."""
        return None

    def take_up(self, kept: LearnedState) -> None:
        """Be as the one that kept this, which was made with the same options.

        Raises:
            ModelError: it is damaged, or not of such an index.

        """
        raise NotImplementedError(f"{type(self).__name__} does not keep what it learned")
