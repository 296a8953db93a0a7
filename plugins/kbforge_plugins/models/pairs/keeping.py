"""What a fitted model keeps, written and read by name, and checked when it is read."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np
from numpy.typing import DTypeLike, NDArray

from kbforge.contracts.kept import Kept
from kbforge.errors import ModelError, quoted
from kbforge_plugins.models.pairs.strings import Strings, starts_of

_AGAIN = "kbforge refit fits it again"


class Writing:
    """Values and arrays by name.

    Args:
        within: goes before each name.
        into: another one, of which this is a part.

    """

    def __init__(self, within: str = "", into: Writing | None = None) -> None:
        self._within = within
        self._values: dict[str, Any] = {} if into is None else into._values
        self._arrays: dict[str, NDArray[Any]] = {} if into is None else into._arrays

    def part(self, name: str) -> Writing:
        """What is written to it is read from the part of that name."""
        return Writing(f"{self._within}{name}/", self)

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

    def kept(self) -> Kept:
        """All that was written."""
        return Kept(self._values, self._arrays)


class Reading:
    """What was written, by name.

    Args:
        kept: all of it.
        within: goes before each name.

    """

    def __init__(self, kept: Kept, within: str = "", read: set[str] | None = None) -> None:
        self._kept, self._within = kept, within
        self._read: set[str] = set() if read is None else read

    def part(self, name: str) -> Reading:
        """The part of that name."""
        return Reading(self._kept, f"{self._within}{name}/", self._read)

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
