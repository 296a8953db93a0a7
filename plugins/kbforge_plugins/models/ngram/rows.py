"""The n-grams and histories of a run, as rows of a Dirichlet-multinomial model."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable

from kbforge.contracts.fragment import Fragment
from kbforge_plugins.models.dirichlet.rows import DirichletRows, RowCounts
from kbforge_plugins.models.ngram.prior import NgramPrior
from kbforge_plugins.models.ngram.text import ngrams

_REMEMBERED = 1 << 15  # fragments whose encoding is kept, because names recur


class NgramRows(DirichletRows):
    """Rows of characters after histories.

    Args:
        prior: P(c | h).
        scale: the pseudo-observations of each history.
        attributes: the attributes to read; each has histories of its own.

    """

    def __init__(self, prior: NgramPrior, scale: float, attributes: Iterable[str]) -> None:
        super().__init__()
        self._prior, self._scale = prior, scale
        self._order = prior.counts.order
        self._row_of: dict[str, dict[str, int]] = {attribute: {} for attribute in attributes}
        self._known: dict[tuple[tuple[str, ...], ...], RowCounts] = {}

    def encode(self, fragment: Fragment) -> RowCounts:
        """The n-grams of a fragment's values; none if it has none of the attributes."""
        values = tuple(fragment.properties.get(attribute, ()) for attribute in self._row_of)
        found = self._known.get(values)
        if found is None:
            if len(self._known) >= _REMEMBERED:
                self._known.clear()
            found = self._known[values] = super().encode(fragment)
        return found

    def count(self, fragment: Fragment) -> Counter[int]:
        """The n-grams of a fragment's values, and the histories that they come after."""
        counts: Counter[int] = Counter()
        for attribute, row_of in self._row_of.items():
            for text in fragment.properties.get(attribute, ()):
                for gram, count in ngrams(text, self._order).items():
                    for key in (gram, gram[:-1]):
                        row = row_of.get(key)
                        if row is None:
                            made = self._pseudo_count_and_sign(attribute, key)
                            row = row_of[key] = self._made(*made)
                        counts[row] += count
        return counts

    def _pseudo_count_and_sign(self, attribute: str, key: str) -> tuple[float, float]:
        if len(key) < self._order:
            return self._scale, -1.0
        return self._scale * self._prior.probability(attribute, key), 1.0
