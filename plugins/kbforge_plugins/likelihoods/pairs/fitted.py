"""The log odds of pairs of rows by the likelihood `attributes`, which is fitted to their file.

A row is held as a cluster of one record in a table of the likelihood, by its number. The log odds
that rows i and j are one entity are L({i, j}) - L({i}) - L({j}), a sum over attributes, before the
likelihood's own alpha is taken off. The kernel takes them apart into features (`describe.cpp`).
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import replace
from typing import TYPE_CHECKING

import numpy as np

from kbforge.contracts import FloatArray, Fragment, IntArray, Likelihood
from kbforge.errors import UsageError
from kbforge.kernel.binding import EncodedFragments, address, kernel_library, workers
from kbforge_plugins.likelihoods.attributes.likelihood import Attributes
from kbforge_plugins.likelihoods.pairs.bags import Part, PartReader, Strings
from kbforge_plugins.likelihoods.pairs.near import NEAREST

if TYPE_CHECKING:
    from kbforge_plugins.likelihoods.pairs.file import RowPairs

NO_ODDS = -30.0
"""Nats that stand for the odds of a candidate that a row does not have."""


class FittedOdds:
    """A fitted likelihood, and its table of rows: those of the file, then later ones."""

    def __init__(self, likelihood: Attributes, rows: EncodedFragments | None = None) -> None:
        self.likelihood = likelihood
        self.log_alpha = math.log(likelihood.default_alpha)
        self.attributes = tuple(likelihood.vocabularies)
        self._table = likelihood.live_clusters()
        # all values of the file by their own numbers, so that a loaded table has the same
        self._sizes = [len(of.values) for of in likelihood.vocabularies.values()]
        self._table.meet(list(map(range, self._sizes)))
        self._n = 0
        self._rows = rows
        if rows is not None:
            self._hold(rows)

    @classmethod
    def fitted(
        cls,
        fragments: Sequence[Fragment],
        link: str | None = None,
        known: Likelihood | None = None,
    ) -> FittedOdds | None:
        """Fit the likelihood to a file, without its attribute `link`; None if it reads nothing.

        One that is `known` and that learned all it knows from the file is read as it is.
        """
        if link is None and isinstance(known, Attributes) and known.learned_all:
            return cls(known)
        likelihood = Attributes()
        if link is not None:
            fragments = [_without(fragment, link) for fragment in fragments]
        try:
            likelihood.fit(fragments)
        except UsageError:
            return None
        return cls(likelihood)

    @property
    def handle(self) -> int:
        """Address of the table in the kernel."""
        return self._table.handle

    def add_file(self, rows: Sequence[Fragment]) -> IntArray:
        """Hold the file's rows, one fragment for each; the numbers of their clusters."""
        self._rows = self._table.read_all(rows)._replace(new=None)
        return self._hold(self._rows)

    def add(self, row: Fragment) -> IntArray:
        """Hold a later row; the number of its cluster, shape [1]."""
        return self._hold(self._table.read_all([row]))

    def _hold(self, rows: EncodedFragments) -> IntArray:
        first, n = self._n, len(rows.starts) - 1
        told = address(rows.starts), address(rows.attributes), address(rows.values)
        kernel_library().kb_hold_each(self.handle, first, n, *told)
        self._n += n
        return np.arange(first, self._n)

    def totals(self, pairs: RowPairs) -> FloatArray:
        """The log odds of pairs of clusters, ascending by the first, nats, shape [pairs]."""
        out = np.empty(len(pairs))
        asked = len(pairs), address(pairs), workers(), address(out)
        kernel_library().kb_table_odds(self.handle, *asked)
        return out

    def dump(self) -> Part:
        assert self._rows is not None, "a file's rows are held"
        of_attributes = zip(self.likelihood.vocabularies.values(), self._sizes, strict=True)
        return {
            "likelihood": self.likelihood.dump(),
            "texts": {
                str(at): Strings.of(map(of.values.__getitem__, range(n))).dump()
                for at, (of, n) in enumerate(of_attributes)
            },
            "sizes": np.diff(self._rows.starts).astype(np.int32),
            "attributes": self._rows.attributes,
            "values": self._rows.values,
        }

    @classmethod
    def load(cls, kept: PartReader, rows: int) -> FittedOdds:
        likelihood = Attributes()
        likelihood.load(kept.state("likelihood"))
        for at, of in enumerate(likelihood.vocabularies.values()):
            texts = kept.strings(f"texts/{at}", len(of.values))
            for number in range(len(texts)):
                of.values.add(number, texts[number])
        starts, n = kept.starts("sizes", rows), len(likelihood.vocabularies)
        attributes = kept.array("attributes", np.int32, int(starts[-1]), low=0, high=n - 1)
        values = kept.array("values", np.int32, len(attributes), low=0)
        sizes = np.array([len(of.values) for of in likelihood.vocabularies.values()], np.int64)
        if len(values) and (values >= sizes[attributes]).any():
            raise kept.damaged("values", "values of the likelihood", "others")
        return cls(likelihood, EncodedFragments(starts, attributes, values, None))


def best_odds(rows: int, pairs: RowPairs, odds: FloatArray) -> FloatArray:
    """The greatest odds of each row with its candidates, descending, shape [rows, nearest]."""
    out = np.full((rows, NEAREST), NO_ODDS)
    kernel_library().kb_tops_of_pairs(len(pairs), address(pairs), address(odds), address(out))
    return out


def _without(fragment: Fragment, attribute: str) -> Fragment:
    if attribute not in fragment.properties:
        return fragment
    kept = {name: of for name, of in fragment.properties.items() if name != attribute}
    return replace(fragment, properties=kept)
