"""Features: how far apart two fragments are in one respect, from 0 to 1.

One signature for the family:

    reading(fragment) -> str or None
    distances(readings[n], readings[m]) -> [n, m]

A feature reads something of every fragment, and compares what it read. Supervised clustering learns
from labelled fragments which features matter; it makes vectors of their distances.

Laws, tested for every member by `kbforge_lab.testing.feature`:

1. A reading depends on the fragment's properties alone, and on what the feature was fitted to; None
   says that the fragment has nothing to compare.
2. Distances are from 0 to 1, 0 between equal readings, and the same whichever way round.
3. The distance of two readings does not depend on which others are asked for beside them.
4. Deterministic: the same fit and the same readings give the same bits.

A feature need not be a metric, but one that nearly keeps the triangle inequality is embedded
better.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Sequence

from kbforge.contracts.fragment import Fragment
from kbforge.contracts.likelihood import FloatArray


class Feature(ABC):
    """One respect in which fragments differ.

    Its options are its constructor's parameters; one is `attribute`, what it reads.
    """

    def fit(self, fragments: Sequence[Fragment]) -> None:
        """Look at all fragments, of which those to be compared are some, if that helps."""
        return

    @abstractmethod
    def reading(self, fragment: Fragment) -> str | None:
        """What is compared of a fragment; None if it has nothing of the kind."""

    @abstractmethod
    def distances(self, one: Sequence[str], other: Sequence[str]) -> FloatArray:
        """How far each of some readings is from each of others, shape [len(one), len(other)]."""
