"""The urns of a run in the compiled kernel, and how values are told to it.

The kernel numbers values as it meets them. What it needs to know of one, base probability, letters
and features, it is told before the first fragment with it comes. Words in common of long
texts stay here, where it is known which texts have which words: the kernel asks.
"""

from __future__ import annotations

import weakref
from collections.abc import Iterable, Sequence
from ctypes import CDLL
from itertools import chain
from typing import Any, TypeAlias

import numpy as np
from numpy.typing import NDArray

from kbforge.contracts import Encoded, Fragment
from kbforge.kernel.binding import BY_WORDS, address
from kbforge_plugins.models.attributes.live_urns import Encoder
from kbforge_plugins.models.attributes.urn import Urns

_Attribute: TypeAlias = tuple[int, str, dict[tuple[str, ...], int]]
"""Its index, its name, and the kernel's number of what is stated of it."""

_MOST_ORDERS = 4096
"""Sets of attributes that are remembered in order."""


class CompiledUrns:
    """See `kbforge.contracts.CompiledClusters`.

    Args:
        kernel: the library.
        encoder: of the fragments.
        urns: of each attribute, by its index.

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
        # by attribute, the values that the kernel was told of, in its order, and their places
        self._met: list[list[int]] = [[] for _ in urns]
        self._number: list[dict[int, int]] = [{} for _ in urns]
        # the attributes, and what is known of what was stated of each; by what a fragment states,
        # those of them
        names = encoder.attributes
        self._attributes: list[_Attribute] = [(i, name, {}) for i, name in enumerate(names)]
        self._orders: dict[tuple[str, ...], list[_Attribute]] = {}

    def encode(self, fragments: Sequence[Fragment]) -> Encoded:
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
            (index, len(self._met[index]), len(met), self._arrays_of(index, met))
            for index, met in enumerate(new)
            if met
        ]
        for index, met in enumerate(new):
            self._met[index] += met
        return Encoded(np.array(starts, dtype=np.int64), *stated, told)

    def _order(self, stated: Iterable[str]) -> list[_Attribute]:
        """The attributes that are read of these, by their index."""
        if len(self._orders) >= _MOST_ORDERS:
            self._orders.clear()
        names = tuple(stated)
        order = [one for one in self._attributes if one[1] in names]
        self._orders[names] = order
        return order

    def _numbered(self, index: int, raw: tuple[str, ...], new: list[int]) -> int:
        """The kernel's number of what is stated of an attribute; -1 if that is nothing."""
        value = self._encoder.number(index, raw)
        if value is None:
            return -1
        known = self._number[index]
        if value not in known:
            known[value] = len(known)
            new.append(value)
        return known[value]

    def tell(self, encoded: Encoded) -> None:
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
        """What the kernel is told of values of an attribute that it has not met."""
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
        known = self._met[attribute]
        out[0], out[1] = self._urns[attribute].by_words(known[u], known[v])
