"""The live clusters of the likelihood `attributes`, in the kernel.

The kernel numbers values as they come. It receives base probability, letters and features of a
value before the first fragment with that value. It asks here for the words that titles share.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from itertools import chain, count
from operator import mul
from typing import Any, TypeAlias

import numpy as np
from numpy.typing import NDArray

from kbforge.contracts import Fragment
from kbforge.kernel.binding import BY_WORDS, address, kernel_library
from kbforge.kernel.clusters import EncodedFragments, KernelRecord, MergingClusters
from kbforge_plugins.likelihoods.attributes.urn import SLIPS, AttributeRates, words_kept
from kbforge_plugins.likelihoods.attributes.vocabulary import Encoder, Vocabulary

_Attribute: TypeAlias = tuple[int, str, dict[tuple[str, ...], int]]
"""The index and name of an attribute, and the kernel's numbers of its values."""

_Told: TypeAlias = tuple[int, int, int, tuple[NDArray[Any], ...]]
"""The index of an attribute, the kernel's first new number, how many, and what it reads of them."""

_MOST_ORDERS = 4096  # cached orders of attributes


class UrnClusters(MergingClusters):
    """An urn a cluster and attribute."""

    def __init__(
        self, encoder: Encoder, read_as: Sequence[tuple[Vocabulary, AttributeRates]]
    ) -> None:
        super().__init__(kernel_library().kb_attributes_new())
        self._encoder, self._read_as = encoder, read_as
        # the kernel calls these as long as the table lives
        self._asked = [
            BY_WORDS(self._by_words if of.titles is not None else 0) for of, _ in read_as
        ]
        for (of, rates), asked in zip(read_as, self._asked, strict=True):
            self._begin(of, rates, asked)
        # by attribute, the values in the kernel's order, and their places
        self._values: list[list[int]] = [[] for _ in read_as]
        self._number: list[dict[int, int]] = [{} for _ in read_as]
        # all attributes, and by names of attributes of a fragment, those that are read
        names = encoder.attributes
        self._attributes: list[_Attribute] = [(i, name, {}) for i, name in enumerate(names)]
        self._orders: dict[tuple[str, ...], list[_Attribute]] = {}

    def read(self, fragments: Sequence[Fragment]) -> EncodedFragments:
        orders, starts = self._orders, [0]
        attributes: list[int] = []
        values: list[int] = []
        new: list[list[int]] = [[] for _ in self._read_as]
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

    def encode_all(self, fragments: Sequence[Fragment]) -> list[KernelRecord]:
        values: list[list[int]] = [[] for _ in self._read_as]
        for fragment in fragments:
            for index, name, numbers in self._order(fragment.properties):
                raw = fragment.properties[name]
                value = None if raw in numbers else self._encoder.number(index, raw)
                if value is not None:
                    values[index].append(value)
        self.meet(values)
        return super().encode_all(fragments)

    def meet(self, values: Sequence[Iterable[int]]) -> None:
        """Number values by attribute, new ones ascending: merges are scored one way round."""
        new = [sorted({*some}.difference(self._number[i])) for i, some in enumerate(values)]
        for numbers, some in zip(self._number, new, strict=True):
            numbers.update(zip(some, count(len(numbers)), strict=False))
        self._tell(self._told(new))

    def evidence(self, index: int, u: int, v: int) -> float:
        """L({u, v}) - L({u}) - L({v}) of two values of an attribute that were met, nats."""
        numbers = self._number[index]
        told: float = self.kernel.kb_attributes_evidence(self.handle, index, numbers[u], numbers[v])
        return told

    def _told(self, new: Sequence[list[int]]) -> list[_Told]:
        """For `tell`, the new values of each attribute that has any."""
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
        self._tell(encoded.new)

    def _tell(self, told: Sequence[_Told]) -> None:
        for index, first, n, arrays in told:
            tell = self.kernel.kb_attributes_values
            tell(self.handle, index, first, n, *map(address, arrays))

    def _begin(self, vocabulary: Vocabulary, rates: AttributeRates, asked: Any) -> None:
        weights = np.array(rates.weights(), dtype=np.float64)
        letters = np.array(sorted(map(ord, vocabulary.letters)), dtype=np.uint32)
        self.kernel.kb_attributes_begin(
            self.handle,
            rates.concentration,
            rates.discount,
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
        vocabulary = self._read_as[index][0]
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
        """The weight of noise and shared words: of u given v, of v given u."""
        vocabulary, rates = self._read_as[attribute]
        *weights, noise = rates.weights()[len(SLIPS) :]
        one, other = (self._values[attribute][number] for number in (u, v))
        for place, pair in enumerate(((one, other), (other, one))):
            kept = words_kept(vocabulary, *pair, rates.discount)
            out[place] = noise + sum(map(mul, weights, kept))
