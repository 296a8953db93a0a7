"""Tables of the kernel in a worker, made of the bytes that the driver sends."""

from __future__ import annotations

import weakref
from collections.abc import Mapping
from functools import partial
from typing import Any

import numpy as np
from numpy.typing import NDArray

from kbforge.contracts import FloatArray, IntArray, LearnedState
from kbforge.errors import LikelihoodError
from kbforge.kernel.binding import BY_WORDS, address, kernel_library
from kbforge.models.bundle import KeptReader
from kbforge_plugins.likelihoods.attributes.urn import SENT as OF_ATTRIBUTE
from kbforge_plugins.likelihoods.attributes.urn import AttributeRates, noise_and_words
from kbforge_plugins.likelihoods.attributes.vocabulary import Vocabulary
from kbforge_plugins.likelihoods.pairs.likelihood import SENT as OF_PAIRS

_WHOSE = "the table that the driver sent"


class SentTable:
    """A table that holds the clusters it is asked about, and no others."""

    def __init__(self, kept: LearnedState) -> None:
        self._kernel, self._kept = kernel_library(), kept
        self._asked: list[Any] = []  # the kernel calls these as long as the table lives
        self._handle = self._of_pairs() if "rows" in kept.values else self._of_attributes()
        self._finalizer = weakref.finalize(self, self._kernel.kb_table_free, self._handle)

    def ratios(
        self, starts: IntArray, written: NDArray[np.int32], one: IntArray, other: IntArray
    ) -> FloatArray:
        """L(C + D) - L(C) - L(D) of pairs of written clusters, by their places, nats."""
        out = np.empty(len(one))
        first, second = one.astype(np.int32), np.ascontiguousarray(other, np.int64)
        told = len(starts) - 1, address(starts), address(written)
        pairs = len(out), address(first), address(second), address(out)
        if not self._kernel.kb_written_ratios(self._handle, *told, *pairs):
            raise LikelihoodError("a cluster from another worker cannot be read")
        return out

    def _of_pairs(self) -> int:
        values = self._kept.values
        links = [self._kept.arrays[name] for name in OF_PAIRS]
        new = self._kernel.kb_pairs_new
        handle: int = new(values["rows"], *map(address, links), values["apart"], values["units"])
        return handle

    def _of_attributes(self) -> int:
        handle: int = self._kernel.kb_attributes_new()
        read = KeptReader(self._kept, _WHOSE)
        for index in range(len(self._kept.values)):
            part = read.part(str(index))
            weights, letters, *arrays = (part.arrays[name] for name in OF_ATTRIBUTE)
            about = part.values
            asked = BY_WORDS(self._words_of(part, weights) if "titles" in about else 0)
            self._asked.append(asked)
            self._kernel.kb_attributes_begin(
                *(handle, about["concentration"], about["discount"], len(weights)),
                *(address(weights), about["numeric"], about["alphabet"]),
                *(len(letters), address(letters), asked),
            )
            n = len(arrays[0])
            self._kernel.kb_attributes_values(handle, index, 0, n, *map(address, arrays))
        return handle

    def _words_of(self, part: LearnedState, weights: FloatArray) -> Any:
        """What the kernel asks about titles."""
        about: Mapping[str, Any] = part.values
        rates = AttributeRates.of(
            "title", weights.tolist(), about["concentration"], about["discount"]
        )
        titles = Vocabulary.load("title", KeptReader(part, _WHOSE).part("titles"), _WHOSE)
        text = part.arrays["characters"].astype("<u4").tobytes().decode("utf-32-le")
        begin, end = (part.arrays["character_starts"][k:].tolist() for k in (0, 1))
        said = [text[i:j] for i, j in zip(begin, end, strict=False)]
        return partial(_by_words, titles, rates, titles.numbers(said).tolist())


def _by_words(
    titles: Vocabulary,
    rates: AttributeRates,
    numbers: list[int],
    _attribute: int,
    u: int,
    v: int,
    out: Any,
) -> None:
    out[0], out[1] = noise_and_words(titles, rates, numbers[u], numbers[v])
