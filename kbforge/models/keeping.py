"""Strict readers of saved models: check every field and array.

A field or array that is missing, of another type or shape, or out of range is a ModelError that
names it. `together` puts several states into one, each under a name of its own.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import TypeVar

import numpy as np
from numpy.typing import NDArray

from kbforge.contracts import LearnedState
from kbforge.errors import ModelError, quoted
from kbforge.files.records import Record

Number = TypeVar("Number", bound=np.generic)

_BETWEEN = "."


def together(own: LearnedState, **parts: LearnedState | None) -> LearnedState:
    """A state with the states of parts under their names, without those that are None."""
    values, arrays = dict(own.values), dict(own.arrays)
    for name, part in parts.items():
        if part is not None:
            values[name] = dict(part.values)
            arrays |= {f"{name}{_BETWEEN}{key}": array for key, array in part.arrays.items()}
    return LearnedState(values, arrays)


class KeptReader:
    """A learned state of unknown origin, field by field; errors call its plugin `whose`."""

    def __init__(self, kept: LearnedState, whose: str) -> None:
        self._kept, self._whose = kept, whose
        if not isinstance(kept.values, Mapping) or not isinstance(kept.arrays, Mapping):
            raise self.wrong("all of it", "values and arrays by name", "something else")
        self.fields = Record(kept.values, self.wrong)

    def wrong(self, field: str, expected: str, got: str) -> ModelError:
        """The error about a field."""
        return ModelError(
            f"{self._whose}: what was kept is damaged: {quoted(field, 100)}: expected {expected}, "
            f"got {got}; kbforge refit fits it again"
        )

    def only(self, *fields: str) -> Record:
        """The values, which have all of these fields and no others."""
        for field in fields:
            if field not in self._kept.values:
                raise self.wrong(field, "a value", "nothing")
        return self.fields.only(*fields)

    def part(self, name: str) -> LearnedState:
        """The state of a part, which `together` put in."""
        values = self.fields.get(name, dict)
        start = f"{name}{_BETWEEN}"
        arrays = {
            name.removeprefix(start): array
            for name, array in self._kept.arrays.items()
            if isinstance(name, str) and name.startswith(start)
        }
        return LearnedState(values, arrays)

    def array(
        self,
        name: str,
        dtype: type[Number],
        length: int | None = None,
        least: float = -np.inf,
        most: float = np.inf,
        ascending: bool = False,
        width: int | None = None,
    ) -> NDArray[Number]:
        """An array of finite numbers from `least` to `most`, of shape [length] or [length, width].

        Without a length any will do; `ascending` ones may not be less than the one before.
        """
        found = self._kept.arrays.get(name)
        expected = np.dtype(dtype)
        shape = (length,) if width is None else (length, width)
        said = f"numbers of type {expected} in the shape {_shape(shape)}"
        if not isinstance(found, np.ndarray):
            raise self.wrong(name, said, "nothing" if found is None else type(found).__name__)
        fits = found.ndim == len(shape) and all(
            n in (None, given) for n, given in zip(shape, found.shape, strict=True)
        )
        if found.dtype != expected or not fits:
            raise self.wrong(name, said, f"{found.dtype} in the shape {_shape(found.shape)}")
        if found.size:
            # NaN compares false
            low, high = found.min(), found.max()
            if not (np.isfinite(low) and np.isfinite(high) and least <= low and high <= most):
                raise self.wrong(
                    name, f"finite numbers from {least:g} to {most:g}", f"{low:g} to {high:g}"
                )
        if ascending and (found[1:] < found[:-1]).any():
            raise self.wrong(name, "ascending numbers", "others")
        return np.ascontiguousarray(found)


def _shape(shape: tuple[int | None, ...]) -> str:
    return "[" + ", ".join("n" if n is None else str(n) for n in shape) + "]"
