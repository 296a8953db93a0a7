"""Tests of kept state: through a store and back, compared, and damaged in every way."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from typing import Any

import numpy as np
import orjson

from kbforge.contracts.kept import LearnedState
from kbforge.errors import ModelError


def stored(kept: LearnedState) -> LearnedState:
    """As a store gives it back: values through JSON, arrays as bytes that cannot be written."""
    arrays = {
        name: np.frombuffer(array.tobytes(), array.dtype).reshape(array.shape)
        for name, array in kept.arrays.items()
    }
    return LearnedState(orjson.loads(orjson.dumps(kept.values)), arrays)


def same(one: LearnedState, other: LearnedState) -> bool:
    """Whether two hold the same, bit for bit."""
    if one.values != other.values or one.arrays.keys() != other.arrays.keys():
        return False
    return all(
        (array.dtype, array.shape, array.tobytes())
        == (other.arrays[name].dtype, other.arrays[name].shape, other.arrays[name].tobytes())
        for name, array in one.arrays.items()
    )


def not_refused(
    take_up: Callable[[LearnedState], object], kept: LearnedState, signed: Collection[str] = ()
) -> list[str]:
    """What can be wrong with what was kept without an error of one line that says so.

    Args:
        take_up: is to refuse it.
        kept: nothing is wrong with it.
        signed: the arrays of whole numbers that may be below 0.

    """
    out = []
    for how, wrong in damaged(stored(kept), signed):
        try:
            take_up(wrong)
        except ModelError as error:
            if "\n" not in str(error):
                continue
        out.append(how)
    return out


def damaged(kept: LearnedState, signed: Collection[str] = ()) -> Iterator[tuple[str, LearnedState]]:
    """The same with one thing wrong, and what that is; `signed` as of `not_refused`."""
    for name, array in kept.arrays.items():
        rest = {other: held for other, held in kept.arrays.items() if other != name}
        yield f"{name} is missing", LearnedState(kept.values, rest)
        for how, wrong in _wrong(array, name in signed):
            yield f"{name} {how}", LearnedState(kept.values, {**rest, name: wrong})
    for place in _places(kept.values, {name.rpartition(".")[0] for name in kept.arrays}):
        said = ".".join(place)
        yield f"{said} is missing", LearnedState(_with(kept.values, place), kept.arrays)
        for wrong in ({"": None}, None):
            yield (
                f"{said} is {wrong}",
                LearnedState(_with(kept.values, place, [wrong]), kept.arrays),
            )


def _wrong(array: Any, signed: bool) -> Iterator[tuple[str, Any]]:
    yield "has numbers of another type", array.astype(np.complex64)
    yield "has another shape", array[None, None]
    yield "is a list", array.tolist()
    if array.dtype.kind == "f" and array.size:
        for value in (np.nan, np.inf):
            spoilt = array.copy()
            spoilt.flat[-1] = value
            yield f"holds {value}", spoilt
    if array.dtype.kind == "i" and array.size and not signed:
        spoilt = array.copy()
        spoilt.flat[0] = -7
        yield "holds a number below 0", spoilt


def _places(values: Mapping[str, Any], parts: set[str]) -> Iterator[tuple[str, ...]]:
    """The ways to all values, and to those of parts."""
    for name, value in values.items():
        yield (name,)
        if name in parts and isinstance(value, dict):
            for way in _places(value, {p.removeprefix(f"{name}.") for p in parts}):
                yield (name, *way)


def _with(
    values: Mapping[str, Any], place: tuple[str, ...], wrong: Sequence[Any] = ()
) -> dict[str, Any]:
    """The values with one of them replaced, or left out."""
    name, *rest = place
    out = dict(values)
    if rest:
        out[name] = _with(out[name], tuple(rest), wrong)
    else:
        del out[name]
        if wrong:
            out[name] = wrong[0]
    return out
