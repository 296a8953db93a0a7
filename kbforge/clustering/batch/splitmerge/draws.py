"""What split-merge kernels draw: a few kinds of choices, so that all of them can be enumerated."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Protocol

import numpy as np
from numpy.typing import NDArray

from kbforge.contracts import FloatArray


class Draws(Protocol):
    """Choices, each independent of all others."""

    def below(self, n: int) -> int:
        """A number of 0..n-1, each as likely."""
        ...

    def happens(self, p: float) -> bool:
        """Whether something happens that has the probability p."""
        ...

    def coins(self, n: int) -> NDArray[np.bool_]:
        """n fair coins, shape [n]."""
        ...

    def index(self, log_weights: FloatArray) -> int:
        """An index with probability proportional to exp(log_weights), one of which is finite."""
        ...

    def shuffled(self, items: Sequence[int]) -> list[int]:
        """The items in an order that is as likely as any other."""
        ...


class RandomDraws:
    """Choices by a random number generator."""

    def __init__(self, rng: np.random.Generator) -> None:
        self._rng = rng

    def below(self, n: int) -> int:
        """See `Draws`; a double is random enough, and much faster than an exact draw."""
        return int(self._rng.random() * n)

    def happens(self, p: float) -> bool:
        """See `Draws`."""
        return bool(self._rng.random() < p)

    def coins(self, n: int) -> NDArray[np.bool_]:
        """See `Draws`."""
        return self._rng.random(n) < 0.5

    def index(self, log_weights: FloatArray) -> int:
        """See `Draws`."""
        cumulative = np.exp(log_weights - log_weights.max()).cumsum()
        u = self._rng.random() * cumulative[-1]
        return int(cumulative.searchsorted(u, side="right"))

    def shuffled(self, items: Sequence[int]) -> list[int]:
        """See `Draws`."""
        order: list[int] = self._rng.permutation(np.asarray(items, dtype=np.int64)).tolist()
        return order
