"""What features of strings share: what they read of a fragment, and distances in batches.

Source of the features: Daumé and Marcu (2005), section 7.3.2, which compares first, last and full
names, years and conference names, and section 7.3.3, which compares initials and the longest common
subsequence.
"""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Sequence

import numpy as np
from rapidfuzz.distance import Levenshtein
from rapidfuzz.process import cdist

from kbforge.contracts import FloatArray, Fragment
from kbforge.errors import UsageError
from kbforge_lab.contracts.feature import Feature
from kbforge_plugins.likelihoods.attributes.kinds import normalised

ALL = "*"
"""In place of an attribute: the values of all of them."""


class TextFeature(Feature):
    """A feature of the text that an attribute's values make together."""

    def __init__(self, attribute: str = "name") -> None:
        """Take what all of them take.

        Args:
            attribute: what to read; `*` reads the values of all attributes.

        Raises:
            UsageError: no attribute is named.

        """
        if not attribute:
            raise UsageError(f"attribute: expected a name, or {ALL} for all")
        self.attribute = attribute

    def reading(self, fragment: Fragment) -> str | None:
        """What `part` makes of the values as they are compared, in order, spaces between them."""
        read = fragment.properties
        names = sorted(read) if self.attribute == ALL else [self.attribute]
        values = (normalised(value) for name in names for value in read.get(name, ()))
        return self.part(" ".join(value for value in values if value)) or None

    @abstractmethod
    def part(self, text: str) -> str:
        """What is compared of a text, which may be empty; "" if there is nothing."""

    def distances(self, one: Sequence[str], other: Sequence[str]) -> FloatArray:
        """Edit distances: changed, added and left out characters, by the longer one's length."""
        scorer = Levenshtein.normalized_distance
        return np.asarray(cdist(one, other, scorer=scorer, dtype=np.float64))
