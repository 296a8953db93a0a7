"""Likelihoods of discrete values: Dirichlet-multinomial and beta-Bernoulli.

*Dirichlet-multinomial*, of attribute values or vectors of counts. Every value of attribute h is a
draw from the cluster's own distribution over values, which has a Dirichlet prior with
alpha[h, v] = concentration * g(v), sum over v of g(v) = 1:

    L(C) = sum over h of log DirichletMultinomial(counts of C's values of h)

of the ordered draws (Minka, "Estimating a Dirichlet distribution", 2000, equation 53). A small
concentration prefers clusters whose fragments repeat the same values.

The vocabulary is open. After `fit`, g is 1 / (K + 1) for each of the K values of h in the input,
and all other values share the remaining 1 / (K + 1) evenly as 2^32 equals: new values have their
own probability, a repeated one is recognised, and the order of fragments never matters. Not fitted,
K = 0. Values count literally: nothing is folded. With `reads=words`, a value is as many draws as it
has words: runs of letters, digits and underscores, case folded. With `reads=vector`, dimension d is
category d, the numbers are counts, and g(d) = 1 / D.

*Beta-Bernoulli*: each feature is present in a cluster's fragments at its own rate. Feature v is
present in a fragment with probability theta_v ~ Beta(a, b), independently. With k_v of the n_h
fragments of a cluster showing it that state its attribute h,

    L(C) = sum over v of [log B(k_v + a, n_h - k_v + b) - log B(a, b)]

over all features, absent ones too: absence is evidence where the attribute is stated, and a missing
attribute says nothing. The predictive splits into a term that a cluster has for every attribute
that x states and one for the features that x shows:

    L(C + x) - L(C) = sum over h in x of base_h(C) + sum over v in x of
                      log((k_v + a) / (n_h - k_v + b))
    base_h(C)       = sum over v of h of log((n_h - k_v + b) / (n_h + a + b))

By `reads`, the features are the (attribute, value) pairs in the input given to `fit` (others are
ignored, because nobody knows how many others are absent) or the dimensions of 0/1 vectors, which
are one attribute. To all this comes `unread_marginal` for fragments that state none of the
attributes. A table takes 4 bytes for each feature of each cluster, so this model is for
vocabularies of thousands.
"""

from __future__ import annotations

import math
import re
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Literal, NamedTuple, TypeAlias

import numpy as np
from numpy.typing import NDArray
from scipy.special import betaln, gammaln

from kbforge.contracts import UNREAD, LearnedState, unread_marginal
from kbforge.contracts.fragment import Fragment
from kbforge.contracts.likelihood import (
    ConjugateLikelihood,
    FloatArray,
    IntArray,
)
from kbforge.errors import LikelihoodError, OtherModelError, UsageError, quoted
from kbforge.models.bundle import KeptReader
from kbforge.numerics import capacity_for, grown
from kbforge.texts import LARGEST, Places, digests_of, nowhere
from kbforge_lab.likelihoods.live import EditableClusters
from kbforge_lab.likelihoods.live_rows import LiveRows
from kbforge_lm.likelihoods.counts import DirichletRows, RowClusters
from kbforge_plugins.likelihoods.gaussian import vector_of

_UNSEEN_VALUES = 2.0**32
_LARGEST_COUNT = 2**31
_WORD = re.compile(r"\w+")


Known: TypeAlias = frozenset[str] | Places
"""The values of an attribute that there are; of which one asks whether it is one, and how many."""


@dataclass(frozen=True, slots=True, eq=False)
class SparseCounts:
    """Bags of draws from distributions with Dirichlet priors (compound multinomials).

    L(C) is the sum over rows r of s_r [lgamma(n_r + a_r) - lgamma(a_r)], n_r the count of C in r. A
    category of a distribution is a row of sign +1, whose pseudo-count is the category's; the
    draws of the whole distribution are a row of sign -1, whose pseudo-count is the sum of these.

    Attributes:
        starts: where each fragment's entries begin, shape [n + 1].
        rows: of the entries, ascending for each fragment; int32.
        counts: how often the fragment counts there, at least 1; int32.
        pseudo_counts: a of each row, > 0, shape [rows].
        signs: +1 or -1 of each row, shape [rows].

    """

    starts: IntArray
    rows: NDArray[np.int32]
    counts: NDArray[np.int32]
    pseudo_counts: FloatArray
    signs: FloatArray


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
        """Learn which values there are; the categories of vectors are given."""
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

    def dump(self) -> LearnedState:
        """The attributes, and the digests of their values."""
        known = [
            values.digests if isinstance(values, Places) else np.sort(digests_of(values))
            for values in self._vocabulary.values()
        ]
        arrays = {f"values_{number}": digests for number, digests in enumerate(known)}
        return LearnedState({"attributes": list(self._vocabulary)}, arrays)

    def load(self, kept: LearnedState) -> None:
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
        """L(C), shape [len(clusters)]: the closed form."""
        return self.rows.log_marginal(clusters)

    def live_clusters(self) -> RowClusters | LiveRows:
        """A new, empty table; in Python for vectors, whose counts are larger than the kernel's."""
        return LiveRows(self.rows) if self.reads == "vector" else RowClusters(self._rows)

    def exponential_family(self, fragments: Sequence[Fragment]) -> SparseCounts | None:
        """Fragments as sufficient statistics; None if nothing is read of one of them.

        Raises:
            LikelihoodError: a fragment lacks what the model reads.

        """
        rows = self.rows
        starts, numbers, counts = rows.entries_of(fragments)
        if not (rows.always_read or np.diff(starts).all()):
            return None
        return SparseCounts(starts, numbers, counts, *rows.priors)

    @property
    def rows(self) -> DirichletRows:
        """The rows of one table or one call: vectors may be of another length in the next."""
        return self._rows_for({}) if self.reads == "vector" else self._rows


def _read(
    fragment: Fragment, attributes: tuple[str, ...], by_words: bool
) -> Mapping[str, Sequence[str]]:
    """What the fragment's attributes count, by attribute."""
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

    counts_type = np.int64  # a fragment alone may count 2^31 - 1 times
    always_read = True

    def __init__(self, concentration: float) -> None:
        super().__init__()
        self._concentration = concentration

    def count(self, fragment: Fragment) -> Mapping[int, int]:
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
        total = sum(counts.values())
        if total >= _LARGEST_COUNT:
            raise LikelihoodError(
                f'fragment "{quoted(fragment.id)}" has counts in its vector that add up to '
                f"{total:,}, expected at most {_LARGEST_COUNT - 1:,}"
            )
        if counts:
            counts[self.size - 1] = total
        return counts


_UNKNOWN = -1


class BetaBernoulli(ConjugateLikelihood):
    """Fragments of a cluster have the same features.

    Args:
        a: pseudo-observations of presence, > 0.
        b: pseudo-observations of absence, > 0.
        attributes: the attributes to read; by default all.
        reads: "values" of attributes, or the "vector".

    Raises:
        UsageError: a parameter out of range.

    """

    keeps = True

    def __init__(
        self,
        a: float = 0.1,
        b: float = 1.0,
        attributes: tuple[str, ...] = (),
        reads: Literal["values", "vector"] = "values",
    ) -> None:
        for name, value in (("a", a), ("b", b)):
            if not (math.isfinite(value) and value > 0):
                raise UsageError(f"likelihood beta-bernoulli: {name} must be positive, got {value}")
        self.a, self.b, self.attributes, self.reads = a, b, attributes, reads
        self._features = _Features(attributes, reads)

    def fit(self, fragments: Sequence[Fragment]) -> str | None:
        """Learn which values there are; the features of vectors are given."""
        if self.reads == "vector":
            return None
        self._features = _Features(self.attributes, self.reads)
        self._features.learn(fragments)
        return (
            f"beta-bernoulli: fitted to the {self._features.size:,} different values of the input"
        )

    def dump(self) -> LearnedState:
        """The features there are, as digests, with their numbers."""
        return self._features.dump()

    def load(self, kept: LearnedState) -> None:
        features = _Features(self.attributes, self.reads)
        features.load(kept)
        self._features = features

    def log_marginal(self, clusters: Sequence[Sequence[Fragment]]) -> FloatArray:
        """L(C), shape [len(clusters)]: the closed form."""
        out = np.zeros(len(clusters))
        features = self._readable()
        for i, cluster in enumerate(clusters):
            shown = [features.encode(fragment) for fragment in cluster]
            if shown:
                k = np.bincount(np.concatenate([x.features for x in shown]), None, features.size)
                n = np.bincount(
                    np.concatenate([x.attributes for x in shown]), None, features.n_attributes
                )[features.attribute]
                terms = betaln(k + self.a, n - k + self.b) - betaln(self.a, self.b)
                unread = sum(not len(x.attributes) for x in shown)
                out[i] = terms.sum() + unread_marginal(unread, unread < len(shown))
        return out

    def live_clusters(self) -> LiveBetaBernoulli:
        return LiveBetaBernoulli(self._readable(), self.a, self.b)

    def _readable(self) -> _Features:
        """The features of one table or one call: vectors may be of another length in the next."""
        return self._features if self.reads == "values" else _Features((), self.reads)


class _Shown(NamedTuple):
    """What a fragment shows, ascending and distinct: features, shape [n], and their attributes."""

    features: IntArray
    attributes: IntArray


class _Features:
    """The features there are, as integers 0..size-1.

    Attributes:
        attribute: of each feature, shape [size]; those of vectors are all of one.

    """

    def __init__(self, attributes: tuple[str, ...], reads: str) -> None:
        self._attributes, self._reads = attributes, reads
        self._numbers: dict[tuple[str, str], int] = {}
        self._known, self._number = nowhere(), np.zeros(0, np.int64)
        self._names: dict[str, int] = {}
        self._dimensions: int | None = None
        self.attribute = np.zeros(0, np.int64)

    @property
    def size(self) -> int:
        return len(self.attribute)

    @property
    def n_attributes(self) -> int:
        """How many attributes have features."""
        return 1 if self._reads == "vector" else len(self._names)

    def dump(self) -> LearnedState:
        digests, number = self._known.digests, self._number
        if not len(digests):
            found = digests_of(map("\0".join, self._numbers))
            number = np.argsort(found, kind="stable")
            digests = found[number]
        arrays = {"features": digests, "number": number, "attribute": self.attribute}
        return LearnedState({"attributes": list(self._names)}, arrays)

    def load(self, kept: LearnedState) -> None:
        read = KeptReader(kept, "likelihood beta-bernoulli")
        if not kept.values and set(kept.arrays) == {"features", "number"}:
            raise OtherModelError("what was kept does not say of which attributes the features are")
        names = read.only("attributes").texts("attributes")
        known = read.array("features", np.int64, least=0, most=LARGEST, ascending=True)
        n = len(known)
        self._number = read.array("number", np.int64, n, least=0, most=n - 1)
        if n and np.bincount(self._number).max() > 1:
            raise read.wrong("number", "each number once", "one of them twice")
        self.attribute = read.array("attribute", np.int64, n, least=0, most=len(names) - 1)
        self._known = Places(known)
        self._names = {name: number for number, name in enumerate(names)}

    def learn(self, fragments: Sequence[Fragment]) -> None:
        for fragment in fragments:
            for pair in self._pairs(fragment.properties):
                self._numbers.setdefault(pair, len(self._numbers))
        attributes = [attribute for attribute, _ in self._numbers]
        self._names = {name: number for number, name in enumerate(dict.fromkeys(attributes))}
        self.attribute = np.array([self._names[name] for name in attributes], np.int64)

    def _pairs(self, properties: Mapping[str, tuple[str, ...]]) -> list[tuple[str, str]]:
        wanted = self._attributes or properties
        return [(a, value) for a in wanted for value in properties.get(a, ())]

    def _numbered(self, pair: tuple[str, str]) -> int:
        found = self._numbers.get(pair)
        if found is None:
            place = self._known.of("\0".join(pair))
            if place < 0:
                return _UNKNOWN
            found = self._numbers[pair] = int(self._number[place])
        return found

    def encode(self, fragment: Fragment) -> _Shown:
        """The features that a fragment shows, and the attributes that it states."""
        if self._reads == "values":
            pairs = self._pairs(fragment.properties)
            shown = {self._numbered(pair) for pair in pairs} - {_UNKNOWN}
            stated = {self._names[name] for name, _ in pairs if name in self._names}
            return _Shown(*(np.array(sorted(some), dtype=np.int64) for some in (shown, stated)))
        vector = vector_of(fragment, self._dimensions, "beta-bernoulli")
        bad = vector[(vector != 0) & (vector != 1)]
        if len(bad):
            raise LikelihoodError(
                f'fragment "{quoted(fragment.id)}" has {bad[0]:g} in its vector, '
                f"expected zeros and ones"
            )
        if self._dimensions is None:
            self._dimensions, self.attribute = len(vector), np.zeros(len(vector), np.int64)
        return _Shown(vector.nonzero()[0], np.zeros(1, np.int64))


class LiveBetaBernoulli(EditableClusters):
    """The clusters of one run. Row 0 is the empty cluster, slot s is at row s + 1."""

    def __init__(self, features: _Features, a: float, b: float) -> None:
        self._features, self._a, self._b = features, a, b
        self._sizes = np.zeros((0, 0))  # [rows, attributes]: the fragments that state it
        self._base = np.zeros((0, 0))  # [rows, attributes]
        self._shown: NDArray[np.int32] = np.zeros((0, 0), dtype=np.int32)
        self._unread = np.zeros(0, dtype=np.int64)  # the fragments that state none
        self._columns: list[IntArray | slice] = []  # the features of each attribute

    def encode(self, fragment: Fragment) -> _Shown:
        shown = self._features.encode(fragment)
        # vectors fix the number of features only when the first is seen
        if self._shown.shape[1] != self._features.size or not len(self._sizes):
            self._start()
        return shown

    def _start(self) -> None:
        of, n = self._features.attribute, self._features.n_attributes
        self._columns = [slice(None)] if n == 1 else [np.flatnonzero(of == h) for h in range(n)]
        self._shown = np.zeros((0, self._features.size), dtype=np.int32)
        self._sizes, self._base = np.zeros((2, 0, n))
        self._unread = np.zeros(0, dtype=np.int64)
        self._grow(1)
        self._base[:] = np.bincount(of, minlength=n) * math.log(self._b / (self._a + self._b))

    def _grow(self, needed: int) -> None:
        capacity = capacity_for(needed, len(self._sizes))
        self._sizes, self._base = grown(self._sizes, capacity), grown(self._base, capacity)
        self._shown, self._unread = grown(self._shown, capacity), grown(self._unread, capacity)

    def log_predictive(self, x: _Shown, slots: int) -> FloatArray:
        if slots + 1 > len(self._sizes):
            self._grow(slots + 1)
        total = self._predict(x, 1, slots + 1)
        if len(x.attributes):
            rows = slice(1, slots + 1)
            total[(self._unread[rows] > 0) & ~self._sizes[rows].any(axis=1)] += UNREAD
        else:
            total += UNREAD
        return total

    def _predict(self, x: _Shown, begin: int, end: int) -> FloatArray:
        # rows contiguous, so that a row is summed in one order however many there are
        k = self._shown[begin:end].take(x.features, axis=1)
        n = self._sizes[begin:end].take(self._features.attribute.take(x.features), axis=1)
        odds = (k + self._a) / (n - k + self._b)
        base = self._base[begin:end].take(x.attributes, axis=1).sum(axis=1)
        total: FloatArray = np.log(odds).sum(axis=1) + base
        return total

    def log_predictive_new(self, x: _Shown) -> float:
        return float(self._predict(x, 0, 1)[0])

    def extend(self, x: _Shown, parents: IntArray, children: IntArray) -> None:
        if not len(children):
            return
        rows = children + 1
        if int(rows.max()) >= len(self._sizes):
            self._grow(int(rows.max()) + 1)
        shown = self._shown.take(parents + 1, axis=0)
        sizes = self._sizes.take(parents + 1, axis=0)
        shown[:, x.features] += 1
        sizes[:, x.attributes] += 1
        unread = self._unread.take(parents + 1) + (not len(x.attributes))
        self._write(rows, shown, sizes, unread)

    def _write(
        self, rows: IntArray, shown: NDArray[np.int32], sizes: FloatArray, unread: IntArray
    ) -> None:
        self._shown[rows], self._sizes[rows], self._unread[rows] = shown, sizes, unread
        self._base[rows] = self._base_of(shown, sizes)

    def _base_of(self, shown: NDArray[np.int32], sizes: FloatArray) -> FloatArray:
        n = sizes.take(self._features.attribute, axis=1)
        terms = np.log((n - shown + self._b) / (n + self._a + self._b))
        sums = [terms[:, columns].sum(axis=1) for columns in self._columns]
        return np.stack(sums, axis=1) if sums else np.zeros_like(sizes)

    def log_predictive_held(self, x: _Shown, slot: int) -> float:
        shown, sizes, unread = self._without(x, slot)
        k, n = shown[0].take(x.features), sizes[0].take(self._features.attribute.take(x.features))
        odds = (k + self._a) / (n - k + self._b)
        here = slice(slot + 1, slot + 2)
        gain = unread_marginal(int(self._unread[here][0]), bool(self._sizes[here].any()))
        gain -= unread_marginal(int(unread[0]), bool(sizes.any()))
        base = self._base_of(shown, sizes)[0].take(x.attributes)
        return float(np.log(odds).sum() + base.sum() + gain)

    def add(self, x: _Shown, slot: int) -> None:
        """C := C + x, in place. Counts are whole numbers: nothing drifts."""
        slots = np.array([slot])
        self.extend(x, slots, slots)

    def remove(self, x: _Shown, slot: int) -> None:
        self._write(np.array([slot + 1]), *self._without(x, slot))

    def _without(self, x: _Shown, slot: int) -> tuple[NDArray[np.int32], FloatArray, IntArray]:
        """What a cluster shows, states and does not state without x, each of one row."""
        here = slice(slot + 1, slot + 2)
        shown, sizes = self._shown[here].copy(), self._sizes[here].copy()
        shown[:, x.features] -= 1
        sizes[:, x.attributes] -= 1
        return shown, sizes, self._unread[here] - (not len(x.attributes))

    def log_merge_ratio_of(self, slot: int, slots: IntArray) -> FloatArray:
        shown, sizes = self._shown[slots + 1], self._sizes[slots + 1]
        one, its = self._shown[slot + 1 : slot + 2], self._sizes[slot + 1 : slot + 2]
        ratio = self._log_marginals(shown + one, sizes + its)
        ratio -= self._log_marginals(shown, sizes)
        ratio -= self._log_marginals(one, its)
        ratio[~sizes.any(axis=1) | ~its.any()] += UNREAD
        return ratio

    def merge(self, slot: int, into: int) -> None:
        rows, one = np.array([into + 1]), np.array([slot + 1])
        shown, sizes = self._shown[rows] + self._shown[one], self._sizes[rows] + self._sizes[one]
        self._write(rows, shown, sizes, self._unread[rows] + self._unread[one])

    def _log_marginals(self, shown: NDArray[np.int32], sizes: FloatArray) -> FloatArray:
        """L of clusters from their counts [k, features] and sizes [k, attributes], shape [k]."""
        # counts are small numbers: their log factors are looked up
        numbers = np.arange(int(sizes.max(initial=0)) + 1)
        pseudo_counts = (self._a, self._b, self._a + self._b)
        present, absent, both = (gammaln(numbers + count) for count in pseudo_counts)
        n = sizes.astype(np.int64)
        of_features = n.take(self._features.attribute, axis=1)
        total = present.take(shown).sum(axis=1) + absent.take(of_features - shown).sum(axis=1)
        features = np.bincount(self._features.attribute, minlength=n.shape[1])
        total -= (both.take(n) + betaln(self._a, self._b)) @ features.astype(np.float64)
        marginals: FloatArray = total
        return marginals
