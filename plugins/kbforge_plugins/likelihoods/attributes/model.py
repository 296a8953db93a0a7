"""Attribute likelihood with known rates: the live clusters of a run, in Python and the kernel.

The kernel numbers values as they come. It receives base probability, letters and features of a
value before the first fragment with that value. It asks here for the words that titles share.
"""

from __future__ import annotations

import weakref
from collections.abc import Iterable, Mapping, Sequence
from ctypes import CDLL
from itertools import chain
from typing import Any, TypeAlias

import numpy as np
from numpy.typing import NDArray

from kbforge.contracts import (
    ConjugateLikelihood,
    EncodedFragments,
    FloatArray,
    Fragment,
    IntArray,
    LiveClusters,
)
from kbforge.kernel.binding import BY_WORDS, address
from kbforge.numerics import capacity_for
from kbforge_plugins.likelihoods.attributes.kinds import stated
from kbforge_plugins.likelihoods.attributes.urn import Rates, Urn, Urns
from kbforge_plugins.likelihoods.attributes.vocabulary import Vocabulary

Record: TypeAlias = tuple[tuple[int, int], ...]
"""A fragment as (index of an attribute, number of its value), in order of the index."""


class Encoder:
    """Encodes fragments as records; the index of an attribute is its place in the vocabularies."""

    def __init__(self, vocabularies: Mapping[str, Vocabulary]) -> None:
        self._vocabularies = vocabularies
        self.attributes = tuple(vocabularies)
        self._number: list[dict[tuple[str, ...], int | None]] = [{} for _ in vocabularies]

    def encode(self, fragment: Fragment) -> Record:
        """The record of a fragment, without attributes that have only blank values."""
        out = []
        for index, attribute in enumerate(self.attributes):
            raw = fragment.properties.get(attribute)
            number = None if raw is None else self.number(index, raw)
            if number is not None:
                out.append((index, number))
        return tuple(out)

    def number(self, index: int, raw: tuple[str, ...]) -> int | None:
        """The number of an attribute's values; None if they are blank."""
        numbers = self._number[index]
        if raw not in numbers:
            value = stated(raw)
            vocabulary = self._vocabularies[self.attributes[index]]
            numbers[raw] = vocabulary.number(value) if value else None
        return numbers[raw]


class EncodedRecord:
    """A fragment whose record is made on first use."""

    __slots__ = ("_encoder", "_fragment", "_record")

    def __init__(self, encoder: Encoder, fragment: Fragment) -> None:
        self._encoder, self._fragment = encoder, fragment
        self._record: Record | None = None

    @property
    def record(self) -> Record:
        """The record of the fragment."""
        if self._record is None:
            self._record = self._encoder.encode(self._fragment)
        return self._record


class _ClusterUrns:
    """A cluster whose urns are made on first use, from those of the cluster that it grew from.

    Most clusters that a step makes are never asked about, nor most clusters of a subproblem that is
    fetched from a store.
    """

    __slots__ = ("_from", "_urns", "_x")

    def __init__(
        self,
        urns: list[Urn | None] | None,
        grown_from: _ClusterUrns | None = None,
        x: EncodedRecord | None = None,
    ) -> None:
        self._urns, self._from, self._x = urns, grown_from, x

    def urns(self, table: AttributeTable) -> list[Urn | None]:
        """By attribute; None where no fragment states it."""
        if self._urns is None:
            records: list[Record] = []
            below: _ClusterUrns | None = self
            while below is not None and below._urns is None:
                assert below._x is not None, "a cluster without urns has grown"
                records.append(below._x.record)
                below = below._from
            if below is None:
                self._urns = table.holding(records)
            else:
                self._urns = below._urns
                for x in reversed(records):
                    self._urns = table.joined(self._urns, x)
            self._from = self._x = None
        return self._urns  # type: ignore[return-value]


class AttributeTable(LiveClusters):
    """See `kbforge.contracts.likelihood`: live clusters that fragments can also leave.

    Args:
        encoder: of the fragments.
        urns: by index of the attribute.

    """

    editable = mergeable = True

    def __init__(self, encoder: Encoder, urns: Sequence[Urns]) -> None:
        self._encoder, self._urns = encoder, urns
        self._clusters: list[_ClusterUrns | None] = []
        self._out: FloatArray = np.zeros(0)

    def encode(self, fragment: Fragment) -> EncodedRecord:
        return EncodedRecord(self._encoder, fragment)

    def log_predictive(self, x: EncodedRecord, slots: int) -> FloatArray:
        if len(self._out) < slots:
            self._out = np.zeros(capacity_for(slots, len(self._out)))
        live = [s for s, held in enumerate(self._clusters[:slots]) if held is not None]
        self._out[live] = self._gains(x.record, live)
        return self._out[:slots]

    def log_predictive_of(self, x: EncodedRecord, slots: IntArray) -> FloatArray:
        return np.array(self._gains(x.record, slots.tolist()))

    def log_predictive_new(self, x: EncodedRecord) -> float:
        return _log_marginal(self.joined(None, x.record))

    def extend(self, x: EncodedRecord, parents: IntArray, children: IntArray) -> None:
        top = int(children.max(initial=-1))
        if top >= len(self._clusters):
            self._clusters.extend([None] * (top + 1 - len(self._clusters)))
        for parent, child in zip(parents.tolist(), children.tolist(), strict=True):
            below = self._clusters[parent] if parent >= 0 else None
            self._clusters[child] = _ClusterUrns(None, below, x)

    def release(self, slots: IntArray) -> None:
        for slot in slots.tolist():
            self._clusters[slot] = None

    def log_predictive_held(self, x: EncodedRecord, slot: int) -> float:
        held = self._held(slot)
        return _log_marginal(held) - _log_marginal(_left(held, x.record))

    def add(self, x: EncodedRecord, slot: int) -> None:
        self._clusters[slot] = _ClusterUrns(self.joined(self._held(slot), x.record))

    def remove(self, x: EncodedRecord, slot: int) -> None:
        self._clusters[slot] = _ClusterUrns(_left(self._held(slot), x.record))

    def log_merge_ratio(self, slot: int, slots: int) -> FloatArray:
        own = self._held(slot)
        out = np.zeros(slots)
        for other, held in enumerate(self._clusters[:slots]):
            if held is not None and other != slot:
                out[other] = self._merge_ratio(own, held.urns(self))
        return out

    def log_merge_ratio_of(self, slot: int, slots: IntArray) -> FloatArray:
        own = self._held(slot)
        return np.array([self._merge_ratio(own, self._held(s)) for s in slots.tolist()])

    def merge(self, slot: int, into: int) -> None:
        urns = [
            of.merged(urn, other) if urn is not None and other is not None else urn or other
            for of, urn, other in zip(self._urns, self._held(slot), self._held(into), strict=True)
        ]
        self._clusters[into] = _ClusterUrns(urns)
        self._clusters[slot] = None

    def _merge_ratio(self, held: Sequence[Urn | None], others: Sequence[Urn | None]) -> float:
        """L of both together less L of each, in nats."""
        total = 0.0
        for urns, urn, other in zip(self._urns, held, others, strict=True):
            if urn is not None and other is not None:
                total += urns.merge_gain(urn, other)
        return total

    def log_marginal(self, seen: Sequence[EncodedRecord]) -> float:
        """L of a set of fragments, in nats; the table does not change."""
        return _log_marginal(self.holding([x.record for x in seen]))

    def contributions(self, x: EncodedRecord, cluster: Sequence[EncodedRecord]) -> dict[int, float]:
        """L_a(C + x) - L_a(C) - L_a({x}), in nats, by index of each attribute that both have."""
        held, alone = self.holding([y.record for y in cluster]), self.joined(None, x.record)
        joined = self.joined(held, x.record)
        return {
            index: _one(joined[index]) - _one(held[index]) - _one(alone[index])
            for index, _ in x.record
            if held[index] is not None
        }

    def holding(self, records: Sequence[Record]) -> list[Urn | None]:
        """The urns of some records, by attribute."""
        seen: list[dict[int, int]] = [{} for _ in self._urns]
        for record in records:
            for index, u in record:
                seen[index][u] = seen[index].get(u, 0) + 1
        return [
            urns.urn(*zip(*sorted(counts.items()), strict=True)) if counts else None
            for urns, counts in zip(self._urns, seen, strict=True)
        ]

    def _held(self, slot: int) -> list[Urn | None]:
        held = self._clusters[slot]
        assert held is not None, f"slot {slot} is free"
        return held.urns(self)

    def _gains(self, x: Record, slots: list[int]) -> list[float]:
        # the gain where the cluster has no value of the attribute
        first = [(index, u, self._urns[index].single(u).log_marginal) for index, u in x]
        out = []
        for slot in slots:
            urns = self._held(slot)
            total = 0.0
            for index, u, alone in first:
                urn = urns[index]
                if urn is None:
                    total += alone
                else:
                    gain = urn.gains.get(u)
                    total += urn.gain(u) if gain is None else gain
            out.append(total)
        return out

    def joined(self, urns: Sequence[Urn | None] | None, x: Record) -> list[Urn | None]:
        """The urns with one more record; None stands for an empty cluster."""
        out: list[Urn | None] = [None] * len(self._urns) if urns is None else list(urns)
        for index, u in x:
            urn = out[index]
            out[index] = self._urns[index].single(u) if urn is None else urn.grown(u)
        return out


def _left(urns: Sequence[Urn | None], x: Record) -> list[Urn | None]:
    out = list(urns)
    for index, u in x:
        urn = out[index]
        assert urn is not None, "the fragment is not in the cluster"
        out[index] = urn.shrunk(u)
    return out


def _one(urn: Urn | None) -> float:
    return 0.0 if urn is None else urn.log_marginal


def _log_marginal(urns: Sequence[Urn | None]) -> float:
    total = 0.0  # one by one: Python's own sum rounds otherwise from version to version
    for urn in urns:
        total += _one(urn)
    return total


_Attribute: TypeAlias = tuple[int, str, dict[tuple[str, ...], int]]
"""The index and name of an attribute, and the kernel's numbers of its values."""

_MOST_ORDERS = 4096  # cached orders of attributes


class CompiledUrns:
    """See `kbforge.contracts.CompiledClusters`.

    Args:
        kernel: the library.
        encoder: of the fragments.
        urns: by index of the attribute.

    Attributes:
        handle: address of the kernel's table.

    """

    def __init__(self, kernel: CDLL, encoder: Encoder, urns: Sequence[Urns]) -> None:
        self._kernel, self._encoder, self._urns = kernel, encoder, urns
        self.handle: int = kernel.kb_attributes_new()
        self._finalizer = weakref.finalize(self, kernel.kb_table_free, self.handle)
        # the kernel calls these as long as the table lives
        self._asked = [BY_WORDS(self._by_words) if of.titles else BY_WORDS(0) for of in urns]
        for of, asked in zip(urns, self._asked, strict=True):
            self._begin(of, asked)
        # by attribute, the values in the kernel's order, and their places
        self._values: list[list[int]] = [[] for _ in urns]
        self._number: list[dict[int, int]] = [{} for _ in urns]
        # all attributes, and by names of attributes of a fragment, those that are read
        names = encoder.attributes
        self._attributes: list[_Attribute] = [(i, name, {}) for i, name in enumerate(names)]
        self._orders: dict[tuple[str, ...], list[_Attribute]] = {}

    def encode(self, fragments: Sequence[Fragment]) -> EncodedFragments:
        """See `kbforge.contracts.CompiledClusters`."""
        orders, starts = self._orders, [0]
        attributes: list[int] = []
        values: list[int] = []
        new: list[list[int]] = [[] for _ in self._urns]
        for fragment in fragments:
            said = fragment.properties
            order = orders.get(tuple(said))
            if order is None:
                order = self._order(said)
            for index, name, numbers in order:
                raw = said[name]
                number = numbers.get(raw)
                if number is None:
                    number = numbers[raw] = self._numbered(index, raw, new[index])
                if number >= 0:
                    attributes.append(index)
                    values.append(number)
            starts.append(len(values))
        stated = np.array(attributes, dtype=np.int32), np.array(values, dtype=np.int32)
        told = [
            (
                index,
                len(self._values[index]),
                len(of_attribute),
                self._arrays_of(index, of_attribute),
            )
            for index, of_attribute in enumerate(new)
            if of_attribute
        ]
        for index, of_attribute in enumerate(new):
            self._values[index] += of_attribute
        return EncodedFragments(np.array(starts, dtype=np.int64), *stated, told)

    def _order(self, stated: Iterable[str]) -> list[_Attribute]:
        """The attributes among these that are read, by index."""
        if len(self._orders) >= _MOST_ORDERS:
            self._orders.clear()
        names = tuple(stated)
        order = [one for one in self._attributes if one[1] in names]
        self._orders[names] = order
        return order

    def _numbered(self, index: int, raw: tuple[str, ...], new: list[int]) -> int:
        """The kernel's number of an attribute's values; -1 if they are blank."""
        value = self._encoder.number(index, raw)
        if value is None:
            return -1
        numbers = self._number[index]
        if value not in numbers:
            numbers[value] = len(numbers)
            new.append(value)
        return numbers[value]

    def tell(self, encoded: EncodedFragments) -> None:
        """See `kbforge.contracts.CompiledClusters`."""
        for index, first, n, arrays in encoded.new:
            tell = self._kernel.kb_attributes_values
            tell(self.handle, index, first, n, *map(address, arrays))

    def _begin(self, urns: Urns, asked: Any) -> None:
        vocabulary = urns.vocabulary
        weights = np.array(urns.weights, dtype=np.float64)
        letters = np.array(sorted(map(ord, vocabulary.letters)), dtype=np.uint32)
        self._kernel.kb_attributes_begin(
            self.handle,
            urns.concentration,
            urns.discount,
            len(weights),
            address(weights),
            vocabulary.numeric,
            vocabulary.alphabet,
            len(letters),
            address(letters),
            asked,
        )

    def _arrays_of(self, index: int, new: Sequence[int]) -> tuple[NDArray[Any], ...]:
        """What the kernel reads of new values of an attribute."""
        vocabulary = self._urns[index].vocabulary
        spelled = [vocabulary.values[v] for v in new]
        base = np.array([vocabulary.base[v] for v in new], dtype=np.float64)
        counted = np.array([vocabulary.counted(v) for v in new], dtype=np.uint8)
        letters = "".join(spelled).encode("utf-32-le", "surrogatepass")
        held = [vocabulary.features[v] for v in new]
        of_letters, of_features = np.zeros((2, len(new) + 1), dtype=np.int64)
        np.cumsum([len(value) for value in spelled], out=of_letters[1:])
        np.cumsum([len(features) for features in held], out=of_features[1:])
        pairs = list(chain.from_iterable(held))
        return (
            base,
            counted,
            of_letters,
            np.frombuffer(letters, dtype=np.uint32),
            of_features,
            np.array([name for name, _ in pairs], dtype=np.int32),
            np.array([feature for _, feature in pairs], dtype=np.int32),
            np.array([vocabulary.mass[feature] for _, feature in pairs], dtype=np.float64),
        )

    def _by_words(self, attribute: int, u: int, v: int, out: Any) -> None:
        values = self._values[attribute]
        out[0], out[1] = self._urns[attribute].by_words(values[u], values[v])


class AttributeModel(ConjugateLikelihood):
    """The likelihood with known rates, of at least the attributes of the vocabularies."""

    def __init__(self, vocabularies: Mapping[str, Vocabulary], rates: Rates) -> None:
        self._encoder = Encoder(vocabularies)
        self._urns = [Urns(vocabulary, rates[name]) for name, vocabulary in vocabularies.items()]

    def log_marginal(self, clusters: Sequence[Sequence[Fragment]]) -> FloatArray:
        """L(C), nats, shape [len(clusters)]."""
        table = self.live_clusters()
        return np.array(
            [table.log_marginal([table.encode(x) for x in cluster]) for cluster in clusters],
            dtype=np.float64,
        )

    def live_clusters(self) -> AttributeTable:
        """A new, empty table."""
        return AttributeTable(self._encoder, self._urns)

    def compiled_clusters(self, kernel: CDLL) -> CompiledUrns | None:
        """See `kbforge.contracts.likelihood`."""
        return CompiledUrns(kernel, self._encoder, self._urns)
