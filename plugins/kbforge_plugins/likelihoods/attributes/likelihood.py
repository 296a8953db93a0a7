"""The likelihood `attributes`: learns from unlabelled records.

Every attribute of an entity has a true value; a record's value is a copy of it, a typo, a variant
that shares something with it, or unrelated. The family is Copas and Hilton's hit-miss model (1990)
as Steorts (2015) and Marchant et al. (2021) use it for entity resolution, with records that repeat
each other's variants (`urn`). Attributes are independent given the entity, and a missing value is
ignored:

    L(C) = sum over attributes of L_a(values of C)

and `unread_marginal` for records without any attribute that is read. Agreement on a rare value
counts for more than on a common one, through the base probabilities, and for less if other
attributes predict it (`fitting`).

The kernel numbers values as they arrive. It receives base probability, letters and features of a
value before the first fragment with that value. It calls back here for the words that titles share.
"""

from __future__ import annotations

import weakref
from collections.abc import Iterable, Mapping, Sequence
from ctypes import CDLL
from itertools import chain
from pathlib import Path
from typing import Any, Self, TypeAlias

import numpy as np
import orjson
from numpy.typing import NDArray

from kbforge.contracts import (
    UNREAD,
    CandidateIndex,
    ConjugateLikelihood,
    EncodedFragments,
    FloatArray,
    Fragment,
    IntArray,
    LearnedState,
    LiveClusters,
    MergingClusters,
    unread_marginal,
)
from kbforge.errors import ModelError, UsageError, quoted
from kbforge.files.io import called, read_small
from kbforge.indexes.selective import Selective
from kbforge.kernel.binding import BY_WORDS, address
from kbforge.models.bundle import KeptReader, read_bundle, together
from kbforge.numerics import capacity_for
from kbforge.texts.kinds import counts_of, counts_read, normalised
from kbforge_plugins.likelihoods.attributes.fitting import (
    FittedAttributes,
    fit_unlabelled,
    vocabularies_of,
)
from kbforge_plugins.likelihoods.attributes.urn import (
    Rates,
    Urn,
    Urns,
    rates_from_toml,
    rates_to_toml,
)
from kbforge_plugins.likelihoods.attributes.vocabulary import (
    LEAST_COUNT,
    Encoder,
    Record,
    Vocabulary,
)

RATES_FILE, VALUES_FILE = "rates.toml", "values.json"
_MOST_RATES_BYTES = 1 << 22
_UNFITTED_ALPHA = 1.0
_CALLED = "likelihood attributes"
_LEAST_ALPHA, _MOST_ALPHA = 1e-300, 1e300


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
    """A cluster whose urns are made on first use, because a step never needs most clusters.

    Attributes:
        unread: the number of its fragments without readable attributes, if its urns are made.

    """

    __slots__ = ("_from", "_urns", "_x", "unread")

    def __init__(
        self,
        urns: list[Urn | None] | None,
        unread: int = 0,
        grown_from: _ClusterUrns | None = None,
        x: EncodedRecord | None = None,
    ) -> None:
        self._urns, self.unread, self._from, self._x = urns, unread, grown_from, x

    def urns(self, table: AttributeTable) -> list[Urn | None]:
        """By attribute; None if no fragment states it."""
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
                self._urns, self.unread = below._urns, below.unread
                for x in reversed(records):
                    self._urns = table.joined(self._urns, x)
            self.unread += sum(not record for record in records)
            self._from = self._x = None
        return self._urns  # type: ignore[return-value]

    def log_marginal(self, table: AttributeTable) -> float:
        """L, in nats."""
        return _log_marginal(self.urns(table), self.unread)


class AttributeTable(LiveClusters):
    """See `kbforge.contracts.likelihood`: live clusters that fragments can also leave."""

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
        return _log_marginal(self.joined(None, x.record), 0)

    def extend(self, x: EncodedRecord, parents: IntArray, children: IntArray) -> None:
        top = int(children.max(initial=-1))
        if top >= len(self._clusters):
            self._clusters.extend([None] * (top + 1 - len(self._clusters)))
        for parent, child in zip(parents.tolist(), children.tolist(), strict=True):
            below = self._clusters[parent] if parent >= 0 else None
            self._clusters[child] = _ClusterUrns(None, 0, below, x)

    def release(self, slots: IntArray) -> None:
        for slot in slots.tolist():
            self._clusters[slot] = None

    def log_predictive_held(self, x: EncodedRecord, slot: int) -> float:
        return self._held(slot).log_marginal(self) - self._left(slot, x).log_marginal(self)

    def add(self, x: EncodedRecord, slot: int) -> None:
        held = self._held(slot)
        urns = self.joined(held.urns(self), x.record)
        self._clusters[slot] = _ClusterUrns(urns, held.unread + (not x.record))

    def remove(self, x: EncodedRecord, slot: int) -> None:
        self._clusters[slot] = self._left(slot, x)

    def log_merge_ratio(self, slot: int, slots: int) -> FloatArray:
        own = self._held(slot).urns(self)
        out = np.zeros(slots)
        for other, held in enumerate(self._clusters[:slots]):
            if held is not None and other != slot:
                out[other] = self._merge_ratio(own, held.urns(self))
        return out

    def log_merge_ratio_of(self, slot: int, slots: IntArray) -> FloatArray:
        own = self._held(slot).urns(self)
        return np.array([self._merge_ratio(own, self._held(s).urns(self)) for s in slots.tolist()])

    def merge(self, slot: int, into: int) -> None:
        one, two = self._held(slot), self._held(into)
        urns = [
            of.merged(urn, other) if urn is not None and other is not None else urn or other
            for of, urn, other in zip(self._urns, one.urns(self), two.urns(self), strict=True)
        ]
        self._clusters[into] = _ClusterUrns(urns, one.unread + two.unread)
        self._clusters[slot] = None

    def _merge_ratio(self, held: Sequence[Urn | None], others: Sequence[Urn | None]) -> float:
        """L of both together minus L of each, in nats."""
        if not any(held) or not any(others):
            return UNREAD
        total = 0.0
        for urns, urn, other in zip(self._urns, held, others, strict=True):
            if urn is not None and other is not None:
                total += urns.merge_gain(urn, other)
        return total

    def log_marginal(self, seen: Sequence[EncodedRecord]) -> float:
        """L of a set of fragments, in nats; the table does not change."""
        records = [x.record for x in seen]
        return _log_marginal(self.holding(records), sum(not record for record in records))

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

    def _held(self, slot: int) -> _ClusterUrns:
        held = self._clusters[slot]
        assert held is not None, f"slot {slot} is free"
        return held

    def _left(self, slot: int, x: EncodedRecord) -> _ClusterUrns:
        """The cluster of a slot without one of its fragments."""
        held = self._held(slot)
        urns = list(held.urns(self))
        for index, u in x.record:
            urn = urns[index]
            assert urn is not None, "the fragment is not in the cluster"
            urns[index] = urn.shrunk(u)
        return _ClusterUrns(urns, held.unread - (not x.record))

    def _gains(self, x: Record, slots: list[int]) -> list[float]:
        # the gain where the cluster has no value of the attribute
        first = [(index, u, self._urns[index].single(u).log_marginal) for index, u in x]
        out = []
        for slot in slots:
            urns = self._held(slot).urns(self)
            total = 0.0
            for index, u, alone in first:
                urn = urns[index]
                if urn is None:
                    total += alone
                else:
                    gain = urn.gains.get(u)
                    total += urn.gain(u) if gain is None else gain
            out.append(total if x and any(urns) else total + UNREAD)
        return out

    def joined(self, urns: Sequence[Urn | None] | None, x: Record) -> list[Urn | None]:
        """The urns with one more record; None stands for an empty cluster."""
        out: list[Urn | None] = [None] * len(self._urns) if urns is None else list(urns)
        for index, u in x:
            urn = out[index]
            out[index] = self._urns[index].single(u) if urn is None else urn.grown(u)
        return out


def _one(urn: Urn | None) -> float:
    return 0.0 if urn is None else urn.log_marginal


def _log_marginal(urns: Sequence[Urn | None], unread: int) -> float:
    total = unread_marginal(unread, any(urns))
    for urn in urns:  # one by one: Python's own sum rounds otherwise from version to version
        total += _one(urn)
    return total


_Attribute: TypeAlias = tuple[int, str, dict[tuple[str, ...], int]]
"""The index and name of an attribute, and the kernel's numbers of its values."""

_MOST_ORDERS = 4096  # cached orders of attributes


class CompiledUrns:
    """See `kbforge.contracts.CompiledClusters`."""

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
        told = self._told(new)
        return EncodedFragments(np.array(starts, dtype=np.int64), *stated, told)

    def merging(self, fragments: Sequence[Fragment]) -> CompiledUrnMerges:
        """A cluster for each of these fragments, in an empty table."""
        new: list[list[int]] = [[] for _ in self._urns]
        for fragment in fragments:
            for index, name, numbers in self._order(fragment.properties):
                raw = fragment.properties[name]
                if raw not in numbers:
                    numbers[raw] = self._numbered(index, raw, new[index])
        # merges are scored the same way round by the reference: its numbers and these ascend alike
        for index, of_attribute in enumerate(new):
            of_attribute.sort()
            self._number[index] = {value: n for n, value in enumerate(of_attribute)}
            self._attributes[index][2].clear()
        told = self._told(new)
        return CompiledUrnMerges(self._kernel, self, self.encode(fragments)._replace(new=told))

    def _told(self, new: Sequence[list[int]]) -> list[tuple[int, int, int, Any]]:
        """The new values for `tell`, of each attribute that has any."""
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
        return told

    def _order(self, stated: Iterable[str]) -> list[_Attribute]:
        """Those of these attributes that are read, by index."""
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
        """The kernel's inputs for new values of an attribute."""
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


class CompiledUrnMerges:
    """See `kbforge.contracts.MergingClusters`."""

    def __init__(self, kernel: CDLL, table: CompiledUrns, encoded: EncodedFragments) -> None:
        self._kernel, self._table = kernel, table
        table.tell(encoded)
        stated = address(encoded.attributes), address(encoded.values)
        starts, none = encoded.starts, np.array([-1])
        for slot in range(len(starts) - 1):
            record, place = (address(starts) + slot * starts.itemsize, *stated), np.array([slot])
            kernel.kb_extend(table.handle, *record, 1, address(none), address(place))

    def log_merge_ratio_of(self, slot: int, slots: IntArray) -> FloatArray:
        """See `kbforge.contracts.MergingClusters`."""
        others, out = np.ascontiguousarray(slots, dtype=np.int64), np.empty(len(slots))
        told = len(others), address(others), address(out)
        self._kernel.kb_attributes_merge_ratios(self._table.handle, slot, *told)
        return out

    def merge(self, slot: int, into: int) -> None:
        """See `kbforge.contracts.MergingClusters`."""
        self._kernel.kb_attributes_merge(self._table.handle, slot, into)


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

    def compiled_merges(self, kernel: CDLL, fragments: Sequence[Fragment]) -> MergingClusters:
        """See `kbforge.contracts.likelihood`."""
        return CompiledUrns(kernel, self._encoder, self._urns).merging(fragments)


class Attributes(AttributeModel):
    """Records with several noisy attributes: names, dates, places, codes, numbers.

    Without a trained model it learns from the clustered fragments themselves, without labels.

    Args:
        attributes: the attributes to read; by default all.
        rates: use this rates file in place of the model's, such as an edited copy.

    Raises:
        UsageError: an attribute named twice.
        ModelError: the rates file is not one.

    """

    explains = loads_bundles = alpha_from_file = keeps = True

    def __init__(self, attributes: tuple[str, ...] = (), rates: str | None = None) -> None:
        if len(set(attributes)) < len(attributes):
            raise UsageError("likelihood attributes: an attribute is named twice")
        self._read = attributes
        self._given = _read_rates(rates) if rates is not None else {}
        self._trained = False
        self.default_alpha = _UNFITTED_ALPHA
        self.index: CandidateIndex = Selective(attributes=attributes)
        self._trained_on: dict[str, Vocabulary] = {}
        self._use({}, {})

    def _use(self, vocabularies: dict[str, Vocabulary], rates: Rates) -> None:
        self.vocabularies, self.rates = vocabularies, {**rates, **self._given}
        self._names = tuple(vocabularies)
        super().__init__(vocabularies, self.rates)

    @classmethod
    def trained(cls, fitted: FittedAttributes) -> Self:
        """A model whose rates `fit` does not change."""
        model = cls()
        model.default_alpha = fitted.alpha
        model._keep(fitted.vocabularies, fitted.rates)
        return model

    def _keep(self, vocabularies: dict[str, Vocabulary], rates: Rates) -> None:
        self._use(vocabularies, rates)
        self._trained, self._trained_on = True, vocabularies
        self.index = Selective(attributes=self._names)

    @classmethod
    def from_bundle(
        cls, path: Path, attributes: tuple[str, ...] = (), rates: str | None = None
    ) -> Self:
        """Load a model that `kbforge train-attributes` wrote.

        Args:
            path: the bundle's folder.
            attributes: some of the bundle's attributes; by default all.
            rates: a rates file that replaces the bundle's.

        Raises:
            ModelError: the bundle is damaged or not of this kind, or lacks an attribute.
            UsageError: an attribute named twice.

        """
        bundle = read_bundle(path)
        where = quoted(str(path), 400)
        for name in (RATES_FILE, VALUES_FILE):
            if name not in bundle.files:
                raise ModelError(f"{where} has no {name}: it is not an attribute model")
        read = rates_from_toml(bundle.files[RATES_FILE], f"{where}/{RATES_FILE}")
        counts = _read_values(bundle.files[VALUES_FILE], where)
        for name in sorted(read.keys() ^ counts.keys()):
            lacking = VALUES_FILE if name in read else RATES_FILE
            raise ModelError(f'{where}/{lacking} lacks the attribute "{quoted(name)}"')
        model = cls(attributes, rates)
        for name in attributes:
            if name not in read:
                raise ModelError(f'{where} was not trained on the attribute "{quoted(name)}"')
        for name in model._given:
            if name not in read:
                raise ModelError(f'{where} has no attribute "{quoted(name)}" of the rates file')
        chosen = {**read, **model._given}
        kept = sorted(attributes or read)
        model._keep(
            {name: Vocabulary(chosen[name].kind, counts[name]) for name in kept},
            {name: chosen[name] for name in kept},
        )
        return model

    def fit(self, fragments: Sequence[Fragment]) -> str | None:
        """Without a trained model, learn from the input.

        The index always learns from the input. A trained model counts the values that it was not
        trained on, so they get base probabilities and share features with others.

        Returns: One sentence for the user; None for a trained model that can read the fragments.

        Raises:
            UsageError: the fragments lack a named attribute, or have none at all.

        """
        if isinstance(self.index, Selective):
            self.index.fit(fragments)
        if self._trained:
            return self._count_new(fragments)
        self._require(fragments)
        if self._read:
            fragments = [_only(fragment, self._read) for fragment in fragments]
        kinds = {name: rates.kind for name, rates in self._given.items()}
        vocabularies = vocabularies_of(fragments, kinds)
        fitted = fit_unlabelled(fragments, vocabularies, self.index, AttributeModel, self._given)
        self.default_alpha = fitted.alpha
        self._use(fitted.vocabularies, fitted.rates)
        return (
            f"attributes: rates are learned from {fitted.sample:,} of the "
            f"{len(fragments):,} fragments (kbforge train-attributes makes a model and shows them)"
        )

    def dump(self) -> LearnedState:
        """Vocabularies, rates and alpha, and the index's learned state."""
        rates = {name: self.rates[name] for name in self._names}
        own = LearnedState(
            {
                "trained": self._trained,
                "alpha": self.default_alpha,
                "attributes": list(self._names),
                "rates": rates_to_toml(rates).decode() if rates else "",
            }
        )
        parts = {f"values_{i}": v.dump() for i, v in enumerate(self.vocabularies.values())}
        return together(own, index=self.index.dump(), **parts)

    def load(self, kept: LearnedState) -> None:
        """See `kbforge.contracts.likelihood`."""
        read = KeptReader(kept, _CALLED)
        names = read.fields.texts("attributes")
        parts = [f"values_{i}" for i in range(len(names))]
        fields = read.only("trained", "alpha", "attributes", "rates", "index", *parts)
        if fields.get("trained", bool, "true or false") != self._trained:
            raise read.wrong("trained", f"{self._trained}", f"{not self._trained}")
        alpha, toml = fields.within("alpha", _LEAST_ALPHA, _MOST_ALPHA), fields.get("rates", str)
        rates = rates_from_toml(toml.encode(), f"{_CALLED}: the saved state") if names else {}
        if len(set(names)) < len(names) or rates.keys() != {*names}:
            raise read.wrong("rates", "those of its attributes", ", ".join(rates) or "none")
        vocabularies = {
            name: Vocabulary.load(rates[name].kind, read.part(part), f"{_CALLED}: {part}")
            for name, part in zip(names, parts, strict=True)
        }
        self.index.load(read.part("index"))
        self.default_alpha = alpha
        self._use(vocabularies, rates)

    def _require(self, fragments: Sequence[Fragment]) -> None:
        wanted = {*self._read, *self._given}
        present: set[str] = set()
        for fragment in fragments:
            for attribute, values in fragment.properties.items():
                if attribute not in present and any(map(normalised, values)):
                    present.add(attribute)
            if present and present >= wanted:
                return
        if not present:
            raise UsageError("likelihood attributes: the fragments have no attributes to read")
        for names, whose in ((self._read, ""), (self._given, " of the rates file")):
            for name in names:
                if name not in present:
                    said = f'no fragment has the attribute "{quoted(name)}"{whose}'
                    raise UsageError(f"likelihood attributes: {said}")

    def _count_new(self, fragments: Sequence[Fragment]) -> str | None:
        counts, known = counts_of(fragments), self._trained_on
        read = {name: counts_read(v.kind, counts.get(name, {})) for name, v in known.items()}
        new = {
            name: {value: n for value, n in read[name].items() if value not in v.counts}
            for name, v in known.items()
        }
        self._use(
            {
                name: Vocabulary(v.kind, {**v.counts, **new[name]}) if new[name] else v
                for name, v in known.items()
            },
            self.rates,
        )
        if counts.keys() & known.keys():
            return None
        names = quoted(", ".join(known))
        return f"attributes: no fragment has an attribute that the model reads ({names})"

    def contributions(self, fragment: Fragment, cluster: Sequence[Fragment]) -> dict[str, float]:
        """L_a(C + x) - L_a(C) - L_a({x}), in nats, by each attribute a that both have.

        The sum over attributes is L(C + x) - L(C) - L({x}). If one of the two has no readable
        attribute, the fragment's first attribute gets this value.
        """
        table = self.live_clusters()
        x, others = table.encode(fragment), [table.encode(f) for f in cluster]
        if cluster and not (x.record and any(other.record for other in others)):
            return {next(iter(fragment.properties), "name"): UNREAD}
        values = table.contributions(x, others)
        return {self._names[index]: value for index, value in values.items()}


def _only(fragment: Fragment, attributes: tuple[str, ...]) -> Fragment:
    kept = {name: fragment.properties[name] for name in attributes if name in fragment.properties}
    return Fragment(fragment.id, kept)


def _read_rates(path: str) -> Rates:
    content = read_small(path, "a rates file", _MOST_RATES_BYTES, ModelError)
    return rates_from_toml(content, quoted(called(path), 400))


def _read_values(content: bytes, where: str) -> dict[str, dict[str, float]]:
    """By attribute: value -> how often it occurs."""
    where = f"{where}/{VALUES_FILE}"
    try:
        table = orjson.loads(content)
    except orjson.JSONDecodeError as error:
        raise ModelError(f"{where} is not JSON ({error})") from None
    if not isinstance(table, dict):
        raise ModelError(f"{where}: expected an object of attributes, got {quoted(table)}")
    for attribute, counts in table.items():
        place = f"{where}: {quoted(attribute)}"
        if not isinstance(counts, dict) or not counts:
            raise ModelError(f"{place}: expected an object of values, got {quoted(counts)}")
        for value, count in counts.items():
            if type(count) not in (int, float) or count < LEAST_COUNT:
                said = f"expected a number of at least {LEAST_COUNT}, got {quoted(count)}"
                raise ModelError(f"{place}: {quoted(value)}: {said}")
    return table
