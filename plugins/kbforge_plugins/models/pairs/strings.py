"""Many short texts as one long one, of which a piece is cut out when it is asked for."""

from __future__ import annotations

from collections.abc import Sequence
from typing import overload

import numpy as np

from kbforge.contracts import IntArray


class Strings(Sequence[str]):
    """Texts by number.

    Args:
        whole: all of them, one after the other.
        starts: where each begins, and where the last one ends, in characters, shape [texts + 1].

    """

    __slots__ = ("starts", "whole")

    def __init__(self, whole: str, starts: IntArray) -> None:
        self.whole, self.starts = whole, starts

    @classmethod
    def of(cls, texts: Sequence[str]) -> Strings:
        """These texts."""
        lengths = np.fromiter(map(len, texts), np.int64, len(texts))
        return cls("".join(texts), starts_of(lengths))

    @classmethod
    def joined(cls, some: Sequence[Strings]) -> Strings:
        """The texts of all, one after the other."""
        lengths = np.concatenate([sizes_of(one.starts) for one in some])
        return cls("".join([one.whole for one in some]), starts_of(lengths))

    def __len__(self) -> int:
        return len(self.starts) - 1

    @overload
    def __getitem__(self, at: int) -> str: ...

    @overload
    def __getitem__(self, at: slice) -> Sequence[str]: ...

    def __getitem__(self, at: int | slice) -> str | Sequence[str]:
        if isinstance(at, slice):
            return self.many(np.arange(len(self))[at])
        return self.whole[self.starts[at] : self.starts[at + 1]]

    def many(self, numbers: IntArray) -> list[str]:
        """These of them."""
        whole, starts = self.whole, self.starts
        return [
            whole[start:end]
            for start, end in zip(
                starts[numbers].tolist(), starts[numbers + 1].tolist(), strict=True
            )
        ]

    def lengths(self, numbers: IntArray) -> IntArray:
        """Characters of these."""
        return self.starts[numbers + 1] - self.starts[numbers]


def starts_of(lengths: IntArray) -> IntArray:
    """Where each of some runs begins, and where the last one ends, shape [runs + 1]."""
    out = np.zeros(len(lengths) + 1, dtype=np.int64)
    np.add.accumulate(lengths, out=out[1:])
    return out


def sizes_of(starts: IntArray) -> IntArray:
    """The lengths that `starts_of` made these of."""
    sizes: IntArray = starts[1:] - starts[:-1]
    return sizes


def spread(starts: IntArray, runs: IntArray) -> tuple[IntArray, IntArray]:
    """The entries of some runs, one run after the other: their places, and the number of the run.

    Args:
        starts: of all runs, as `starts_of`.
        runs: those that are asked for.

    """
    first = starts[runs]
    sizes = starts[runs + 1] - first
    number = np.arange(len(runs)).repeat(sizes)
    return np.arange(len(number)) + (first - starts_of(sizes)[:-1])[number], number
