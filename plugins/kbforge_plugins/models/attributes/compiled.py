"""The urns of a run in the compiled kernel, and how values are told to it.

The kernel numbers values as the vocabularies do. What it needs to know of one, base probability,
letters and features, it is told before the first fragment with it comes. Words in common of long
texts stay here, where it is known which texts have which words: the kernel asks.
"""

from __future__ import annotations

import weakref
from collections.abc import Sequence
from ctypes import CDLL
from typing import Any

import numpy as np
from numpy.typing import NDArray

from kbforge.contracts import Fragment, IntArray
from kbforge.kernel.binding import BY_WORDS, address
from kbforge_plugins.models.attributes.live_urns import Encoder
from kbforge_plugins.models.attributes.urn import Urns
from kbforge_plugins.models.attributes.vocabulary import Vocabulary


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
        self._told = [(0, 0)] * len(urns)

    def encode(
        self, fragments: Sequence[Fragment]
    ) -> tuple[IntArray, NDArray[np.int32], NDArray[np.int32]]:
        """See `kbforge.contracts.CompiledClusters`."""
        encode = self._encoder.encode
        records = [encode(fragment) for fragment in fragments]
        starts = np.zeros(len(records) + 1, dtype=np.int64)
        np.cumsum([len(record) for record in records], out=starts[1:])
        flat = [number for record in records for stated in record for number in stated]
        stated = np.array(flat, dtype=np.int32).reshape(-1, 2)
        for index in range(len(self._urns)):
            self._tell(index)
        return starts, stated[:, 0].copy(), stated[:, 1].copy()

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

    def _tell(self, index: int) -> None:
        """Tell of the values and features that an attribute has come to have."""
        vocabulary = self._urns[index].vocabulary
        values, features = self._told[index]
        mass = np.array(vocabulary.mass[features:], dtype=np.float64)
        if len(mass):
            self._kernel.kb_attributes_features(self.handle, index, len(mass), address(mass))
        if values < len(vocabulary):
            self._tell_values(index, vocabulary, values)
        self._told[index] = (len(vocabulary), len(vocabulary.mass))

    def _tell_values(self, index: int, vocabulary: Vocabulary, first: int) -> None:
        new = vocabulary.values[first:]
        base = np.array(vocabulary.base[first:], dtype=np.float64)
        counted = np.array([vocabulary.counted(first + k) for k in range(len(new))], dtype=np.uint8)
        chars = np.frombuffer("".join(new).encode("utf-32-le", "surrogatepass"), dtype=np.uint32)
        of_chars, of_features = np.zeros((2, len(new) + 1), dtype=np.int64)
        np.cumsum([len(value) for value in new], out=of_chars[1:])
        held = vocabulary.features[first:]
        np.cumsum([len(features) for features in held], out=of_features[1:])
        flat = [number for features in held for feature in features for number in feature]
        pairs = np.array(flat, dtype=np.int32).reshape(-1, 2)
        names, features = pairs[:, 0].copy(), pairs[:, 1].copy()
        arrays = base, counted, of_chars, chars, of_features, names, features
        self._kernel.kb_attributes_values(
            self.handle, index, len(new), *map(address, arrays)
        )

    def _by_words(self, attribute: int, u: int, v: int, out: Any) -> None:
        out[0], out[1] = self._urns[attribute].by_words(u, v)
