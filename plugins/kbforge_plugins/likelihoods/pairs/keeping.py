"""The parts of a fitted model, written and read by name; many short texts in one long one."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, overload

import numpy as np
from numpy.typing import DTypeLike, NDArray

from kbforge.contracts import IntArray
from kbforge.contracts.kept import LearnedState
from kbforge.errors import ModelError, quoted


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


_AGAIN = "kbforge refit fits it again"


class PartWriter:
    """Values and arrays by name.

    Args:
        within: goes before each name.
        into: another one, of which this is a part.

    """

    def __init__(self, within: str = "", into: PartWriter | None = None) -> None:
        self._within = within
        self._values: dict[str, Any] = {} if into is None else into._values
        self._arrays: dict[str, NDArray[Any]] = {} if into is None else into._arrays

    def part(self, name: str) -> PartWriter:
        """What is written to it is read from the part of that name."""
        return PartWriter(f"{self._within}{name}/", self)

    def value(self, name: str, value: Any) -> None:
        """Write what JSON can say."""
        self._values[self._within + name] = value

    def array(self, name: str, array: NDArray[Any]) -> None:
        """Write numbers."""
        self._arrays[self._within + name] = array

    def strings(self, name: str, texts: Strings) -> None:
        """Write texts."""
        whole = texts.whole.encode(errors="surrogatepass")
        self.array(f"{name}/text", np.frombuffer(whole, dtype=np.uint8))
        self.array(f"{name}/lengths", np.diff(texts.starts).astype(np.int32))

    def kept(self) -> LearnedState:
        """All that was written."""
        return LearnedState(self._values, self._arrays)


class PartReader:
    """What was written, by name.

    Args:
        kept: all of it.
        within: goes before each name.

    """

    def __init__(self, kept: LearnedState, within: str = "", read: set[str] | None = None) -> None:
        self._kept, self._within = kept, within
        self._read: set[str] = set() if read is None else read

    def part(self, name: str) -> PartReader:
        """The part of that name."""
        return PartReader(self._kept, f"{self._within}{name}/", self._read)

    def value(self, name: str) -> Any:
        """What JSON said.

        Raises:
            ModelError: it is not there.

        """
        return self._found(self._kept.values, name)

    def whole(self, name: str) -> int:
        """A whole number, at least 0.

        Raises:
            ModelError: it is not.

        """
        value = self.value(name)
        if type(value) is not int or not 0 <= value < 1 << 40:
            raise self.damaged(name, f"expected a number of things, got {quoted(str(value))}")
        return value

    def names(self, name: str) -> tuple[str, ...]:
        """Different texts.

        Raises:
            ModelError: they are not.

        """
        value = self.value(name)
        if not isinstance(value, list) or not all(isinstance(one, str) for one in value):
            raise self.damaged(name, f"expected a list of names, got {quoted(str(value))}")
        if len(set(value)) < len(value):
            raise self.damaged(name, "expected different names")
        return tuple(value)

    def array(
        self,
        name: str,
        dtype: DTypeLike,
        *shape: int,
        low: int | None = None,
        high: int | None = None,
    ) -> NDArray[Any]:
        """Numbers.

        Args:
            name: what they were written under.
            dtype: their type.
            shape: theirs; -1 is any length.
            low: the least one allowed.
            high: the largest one allowed.

        Raises:
            ModelError: they are not there, or are others.

        """
        array = self._found(self._kept.arrays, name)
        wanted = np.dtype(dtype)
        if (
            not isinstance(array, np.ndarray)
            or array.dtype != wanted
            or array.ndim != len(shape)
            or any(size not in (-1, got) for size, got in zip(shape, array.shape, strict=True))
        ):
            got = f"{getattr(array, 'dtype', type(array).__name__)} {getattr(array, 'shape', '')}"
            raise self.damaged(name, f"expected {wanted} {shape}, got {got}")
        if wanted.kind == "f" and not np.isfinite(array).all():
            raise self.damaged(name, "expected finite numbers")
        if array.size and (
            (low is not None and array.min() < low) or (high is not None and array.max() > high)
        ):
            raise self.damaged(name, f"expected numbers of {low} to {high}, got others")
        return np.ascontiguousarray(array)

    def length(self, name: str) -> int:
        """How many numbers were written.

        Raises:
            ModelError: they are not there.

        """
        return int(np.size(self._found(self._kept.arrays, name)))

    def strings(self, name: str, n: int = -1) -> Strings:
        """Texts.

        Args:
            name: what they were written under.
            n: how many; -1 is any number.

        Raises:
            ModelError: they are not there, or are others.

        """
        lengths = self.array(f"{name}/lengths", np.int32, n, low=0)
        text = self.array(f"{name}/text", np.uint8, -1)
        try:
            whole = text.tobytes().decode(errors="surrogatepass")
        except UnicodeDecodeError:
            raise self.damaged(f"{name}/text", "expected texts in UTF-8") from None
        starts = starts_of(lengths)
        if starts[-1] != len(whole):
            raise self.damaged(name, f"expected {starts[-1]:,} characters, got {len(whole):,}")
        return Strings(whole, starts)

    def damaged(self, name: str, what: str) -> ModelError:
        """The error that says so."""
        return ModelError(
            f"the kept pair model is damaged: {quoted(self._within + name, 100)}: {what}; {_AGAIN}"
        )

    def require_all_read(self) -> None:
        """Refuse what holds more than was read.

        Raises:
            ModelError: it does.

        """
        for name in sorted({*self._kept.values, *self._kept.arrays} - self._read):
            raise self.damaged(name, "expected nothing of that name")

    def _found(self, held: Mapping[str, Any], name: str) -> Any:
        try:
            found = held[self._within + name]
        except (KeyError, TypeError):
            raise self.damaged(name, "expected it, got nothing") from None
        self._read.add(self._within + name)
        return found
