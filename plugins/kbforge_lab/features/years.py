"""How many years lie between two values."""

from __future__ import annotations

import re
from collections.abc import Sequence

import numpy as np

from kbforge.contracts import FloatArray
from kbforge.errors import UsageError
from kbforge_lab.features.texts import TextFeature

_YEAR = re.compile(r"(?<!\d)[12]\d{3}(?!\d)", re.ASCII)


class Years(TextFeature):
    """The years between the first year of each value, by a span, and 1 beyond it."""

    def __init__(self, attribute: str = "date", span: float = 10.0) -> None:
        """Take the options.

        Args:
            attribute: what to read; `*` reads the values of all attributes.
            span: years that are as far apart as can be, above 0.

        Raises:
            UsageError: the span is none.

        """
        super().__init__(attribute)
        if not 0 < span < np.inf:
            raise UsageError(f"feature years: span must be a number above 0, got {span}")
        self._span = span

    def part(self, text: str) -> str:
        found = _YEAR.search(text)
        return found[0] if found else ""

    def distances(self, one: Sequence[str], other: Sequence[str]) -> FloatArray:
        """See `kbforge_lab.contracts.feature`."""
        rows, columns = np.array(one, dtype=np.float64), np.array(other, dtype=np.float64)
        return np.minimum(np.abs(rows[:, None] - columns) / self._span, 1.0)
