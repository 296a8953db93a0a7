"""The longest common subsequence of two values."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from rapidfuzz.distance import LCSseq
from rapidfuzz.process import cdist

from kbforge.contracts import FloatArray
from kbforge_lab.features.texts import TextFeature


class Subsequence(TextFeature):
    """The share of the longer value that is not in the longest common subsequence."""

    def part(self, text: str) -> str:
        return text

    def distances(self, one: Sequence[str], other: Sequence[str]) -> FloatArray:
        """See `kbforge_lab.contracts.feature`."""
        scorer = LCSseq.normalized_distance
        return np.asarray(cdist(one, other, scorer=scorer, dtype=np.float64))
