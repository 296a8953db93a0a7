"""Dirichlet-multinomial likelihood of attribute values, or of vectors of counts.

Every value of attribute h is a draw from the cluster's own distribution over values, which has a
Dirichlet prior with alpha[h, v] = concentration * g(v), sum over v of g(v) = 1:

    L(C) = sum over h of log DirichletMultinomial(counts of C's values of h)

of the ordered draws (Minka, "Estimating a Dirichlet distribution", 2000, equation 53). So a small
concentration wants clusters whose fragments repeat the same values.

*Open vocabulary.* After `fit`, g is 1 / (K + 1) for each of the K values of h in the input, and all
values beyond share the remaining 1 / (K + 1) evenly as 2^32 equals. So new values have their own
probability, a repeated one is recognised, and the order of fragments never matters. Not fitted,
K = 0. Values count literally: nothing is folded.

*Texts* (`reads=words`): a value is as many draws as it has words: runs of letters, digits and
underscores, case folded.

*Vectors* (`reads=vector`): dimension d is category d, the numbers are counts, g(d) = 1 / D.
"""

from __future__ import annotations

import math
import re
from collections import Counter
from collections.abc import Mapping, Sequence
from ctypes import CDLL
from typing import Literal, TypeAlias

import numpy as np

from kbforge.contracts.exponential import SparseCounts
from kbforge.contracts.fragment import Fragment
from kbforge.contracts.kept import LearnedState
from kbforge.contracts.likelihood import ConjugateLikelihood, FloatArray
from kbforge.errors import LikelihoodError, UsageError, quoted
from kbforge.models.keeping import KeptReader
from kbforge_plugins.likelihoods.counts import CompiledRows, DirichletRows, LiveRows, RowsOfSets
from kbforge_plugins.likelihoods.digests import LARGEST, Places, digests_of
from kbforge_plugins.likelihoods.gaussian import vector_of

_UNSEEN_VALUES = 2.0**32
_LARGEST_COUNT = 2**31
_WORD = re.compile(r"\w+")


Known: TypeAlias = frozenset[str] | Places
"""The values of an attribute that there are; of which one asks whether it is one, and how many."""


class DirichletMultinomial(ConjugateLikelihood):
    """Fragments of a cluster repeat values.

    Args:
        concentration: pseudo-observations of each attribute (or of the vector), > 0.
        attributes: the attributes to read; by default all.
        reads: "values" of attributes, their "words", or the "vector".

    Raises:
        UsageError: a concentration out of range.

    """

    keeps = True

    def __init__(
        self,
        concentration: float = 1.0,
        attributes: tuple[str, ...] = (),
        reads: Literal["values", "words", "vector"] = "values",
    ) -> None:
        if not (math.isfinite(concentration) and concentration > 0):
            raise UsageError(
                f"likelihood dirichlet-multinomial: concentration must be positive, "
                f"got {concentration}"
            )
        self.concentration, self.attributes, self.reads = concentration, attributes, reads
        self._use({})

    def _use(self, vocabulary: Mapping[str, Known]) -> None:
        self._vocabulary = vocabulary
        self._rows = self._rows_for(vocabulary)

    def fit(self, fragments: Sequence[Fragment]) -> str | None:
        """Learn which values there are, from the input.

        Returns:
            One sentence for the user, or None for vectors, whose categories are given.

        """
        if self.reads == "vector":
            return None
        seen: dict[str, set[str]] = {}
        for fragment in fragments:
            for attribute, values in _read(fragment, self.attributes, self._by_words).items():
                seen.setdefault(attribute, set()).update(values)
        self._use({attribute: frozenset(values) for attribute, values in sorted(seen.items())})
        n = sum(map(len, seen.values()))
        return (
            f"dirichlet-multinomial: fitted to the {n:,} different {self.reads} of {len(seen):,} "
            f"attributes in the input"
        )

    def kept(self) -> LearnedState:
        """The attributes, and the digests of their values."""
        known = [
            values.digests if isinstance(values, Places) else np.sort(digests_of(values))
            for values in self._vocabulary.values()
        ]
        arrays = {f"values_{number}": digests for number, digests in enumerate(known)}
        return LearnedState({"attributes": list(self._vocabulary)}, arrays)

    def take_up(self, kept: LearnedState) -> None:
        """See `kbforge.contracts.likelihood`."""
        read = KeptReader(kept, "likelihood dirichlet-multinomial")
        attributes = read.only("attributes").texts("attributes")
        self._use(
            {
                attribute: Places(
                    read.array(f"values_{i}", np.int64, least=0, most=LARGEST, ascending=True)
                )
                for i, attribute in enumerate(attributes)
            }
        )

    def _rows_for(self, vocabulary: Mapping[str, Known]) -> DirichletRows:
        if self.reads == "vector":
            return _CountRows(self.concentration)
        return _ValueRows(self.concentration, self.attributes, vocabulary, self._by_words)

    @property
    def _by_words(self) -> bool:
        return self.reads == "words"

    def log_marginal(self, clusters: Sequence[Sequence[Fragment]]) -> FloatArray:
        """L(C), shape [len(clusters)]: the closed form.

        Raises:
            LikelihoodError: reading vectors, one that is missing or not of counts.

        """
        return self._readable().log_marginal(clusters)

    def live_clusters(self) -> LiveRows:
        """A new, empty table."""
        return LiveRows(self._readable())

    def set_marginals(self, fragments: Sequence[Fragment]) -> RowsOfSets:
        """These fragments' rows, read once."""
        return self._readable().set_marginals(fragments)

    def compiled_clusters(self, kernel: CDLL) -> CompiledRows | None:
        """A new, empty table in the compiled kernel; none for vectors, whose counts are larger."""
        return CompiledRows(kernel, self._rows) if self.reads != "vector" else None

    def exponential_family(self, fragments: Sequence[Fragment]) -> SparseCounts:
        """See `kbforge.contracts.likelihood`."""
        return self._readable().family_of(fragments)

    def _readable(self) -> DirichletRows:
        """The rows of one table or one call: vectors may be of another length in the next."""
        return self._rows_for({}) if self.reads == "vector" else self._rows


def _read(
    fragment: Fragment, attributes: tuple[str, ...], by_words: bool
) -> Mapping[str, Sequence[str]]:
    """What the fragment's attributes count, by attribute; none of them counts nothing."""
    read: Mapping[str, Sequence[str]] = fragment.properties
    if attributes:
        read = {a: read[a] for a in attributes if a in read}
    if by_words:
        texts = {attribute: " ".join(values).casefold() for attribute, values in read.items()}
        split = {attribute: _WORD.findall(text) for attribute, text in texts.items()}
        read = {attribute: words for attribute, words in split.items() if words}
    return read


class _ValueRows(DirichletRows):
    """Rows of (attribute, value), and of attributes (no value)."""

    def __init__(
        self,
        concentration: float,
        attributes: tuple[str, ...],
        vocabulary: Mapping[str, Known],
        by_words: bool,
    ) -> None:
        super().__init__()
        self._concentration, self._attributes = concentration, attributes
        self._by_words = by_words
        self._vocabulary = vocabulary
        self._row_of: dict[tuple[str, str | None], int] = {}

    def count(self, fragment: Fragment) -> Counter[int]:
        """The values of a fragment; none if it has none of the attributes."""
        counts: Counter[int] = Counter()
        for attribute, values in _read(fragment, self._attributes, self._by_words).items():
            counts[self._row(attribute, None)] += len(values)
            for value in values:
                counts[self._row(attribute, value)] += 1
        return counts

    def _row(self, attribute: str, value: str | None) -> int:
        row = self._row_of.get((attribute, value))
        if row is None:
            made = self._pseudo_count_and_sign(attribute, value)
            row = self._row_of[attribute, value] = self._made(*made)
        return row

    def _pseudo_count_and_sign(self, attribute: str, value: str | None) -> tuple[float, float]:
        if value is None:
            return self._concentration, -1.0
        known: Known = self._vocabulary.get(attribute, frozenset())
        share = self._concentration / (len(known) + 1)
        return (share if value in known else share / _UNSEEN_VALUES), 1.0


class _CountRows(DirichletRows):
    """Row d for dimension d, and row D for their sum."""

    def __init__(self, concentration: float) -> None:
        super().__init__()
        self._concentration = concentration

    def count(self, fragment: Fragment) -> Mapping[int, int]:
        """The counts of a fragment's vector."""
        dimensions = self.size - 1 if self.size else None
        vector = vector_of(fragment, dimensions, "dirichlet-multinomial")
        bad = [v for v in vector.tolist() if not (v.is_integer() and 0 <= v < _LARGEST_COUNT)]
        if bad:
            raise LikelihoodError(
                f'fragment "{quoted(fragment.id)}" has {bad[0]:g} in its vector, expected counts: '
                f"whole numbers from 0 to {_LARGEST_COUNT - 1:,}"
            )
        if not self.size:
            each = self._concentration / len(vector)
            for _ in vector:
                self._made(each, 1.0)
            self._made(self._concentration, -1.0)
        counts = {d: int(v) for d, v in enumerate(vector.tolist()) if v}
        if counts:
            counts[self.size - 1] = sum(counts.values())
        return counts
