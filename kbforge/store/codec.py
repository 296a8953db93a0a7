"""Rows of a store as bytes, and back: pages, lists of numbers, what a model keeps.

All is little-endian. A page is seven arrays with their lengths ahead of them;
what is kept is a line of JSON and the bytes of the arrays behind it.
"""

from __future__ import annotations

import struct
from collections.abc import Sequence
from typing import Any

import numpy as np
import orjson
from numpy.typing import NDArray

from kbforge.contracts import IntArray, Kept, Page
from kbforge.errors import KBForgeError, quoted

_INT, _FLOAT = np.dtype("<i8"), np.dtype("<f8")
_KINDS = "biuf"  # of arrays that may be kept
_ALIGNED = 8  # bytes: an array begins where its numbers can be read in place
_FEW = 32  # numbers that are packed sooner one by one than by way of an array
_FIELDS = ("slots", "lengths", "members", "scores", "rows", "cells", "weights")
_FLOATS = ("scores", "weights")
_KIND_OF = tuple((name, _FLOAT if name in _FLOATS else _INT) for name in _FIELDS)
_HEAD = f"<{len(_FIELDS)}q"


def numbers_to_bytes(numbers: Sequence[int] | IntArray) -> bytes:
    """Whole numbers as bytes."""
    if len(numbers) < _FEW:
        return struct.pack(f"<{len(numbers)}q", *numbers)
    return np.asarray(numbers, dtype=_INT).tobytes()


def numbers_from_bytes(content: bytes) -> IntArray:
    """As `numbers_to_bytes` made them."""
    return np.frombuffer(content, dtype=_INT).astype(np.int64)


def page_to_bytes(page: Page) -> bytes:
    """A page, without its name."""
    # most pages are short, and then each call into NumPy costs more than what it does
    arrays = [
        found if found.dtype == kind else found.astype(kind)
        for found, kind in ((getattr(page, name), kind) for name, kind in _KIND_OF)
    ]
    lengths = struct.pack(_HEAD, *map(len, arrays))
    return b"".join([lengths, *(array.tobytes() for array in arrays)])


def page_from_bytes(name: int, content: bytes) -> Page:
    """As `page_to_bytes` made it.

    Raises:
        KBForgeError: it is damaged.

    """
    head = _INT.itemsize * len(_FIELDS)
    lengths = np.frombuffer(content[:head], dtype=_INT) if len(content) >= head else np.zeros(0)
    if len(lengths) < len(_FIELDS) or head + 8 * int(lengths.sum()) != len(content):
        raise KBForgeError(f"the store is damaged: subproblem {name} is not as it was written")
    at, arrays = head, dict[str, Any]()
    for field, length in zip(_FIELDS, lengths.tolist(), strict=True):
        kind = _FLOAT if field in _FLOATS else _INT
        found = np.frombuffer(content, dtype=kind, count=length, offset=at)
        arrays[field] = found.astype(np.float64 if field in _FLOATS else np.int64)
        at += 8 * length
    return Page(name, **arrays)


def kept_to_bytes(kept: Kept) -> bytes:
    """What a model keeps."""
    described, parts = [], []
    for name, array in sorted(kept.arrays.items()):
        array = np.ascontiguousarray(array)
        array = array.astype(array.dtype.newbyteorder("<"), copy=False)
        assert array.dtype.kind in _KINDS, f"{name}: only numbers can be kept"
        described.append([name, array.dtype.str, list(array.shape)])
        parts.append(array.tobytes())
        parts.append(bytes(-array.nbytes % _ALIGNED))
    head = orjson.dumps({"values": dict(kept.values), "arrays": described})
    head += b" " * (-len(head) % _ALIGNED)
    return b"".join([len(head).to_bytes(8, "little"), head, *parts])


def kept_from_bytes(content: bytes) -> Kept:
    """As `kept_to_bytes` made it.

    Raises:
        KBForgeError: it is damaged.

    """
    try:
        end = 8 + int.from_bytes(content[:8], "little")
        head: dict[str, Any] = orjson.loads(content[8:end])
        arrays: dict[str, NDArray[Any]] = {}
        for name, kind, shape in head["arrays"]:
            dtype = np.dtype(kind)
            if dtype.kind not in _KINDS:
                raise ValueError(f"an array of {quoted(kind)}")
            count = int(np.prod(shape, dtype=np.int64))
            arrays[name] = np.frombuffer(content, dtype, count, end).reshape(shape)
            end += count * dtype.itemsize
            end += -end % _ALIGNED
        if end != len(content):
            raise ValueError("its length")
        return Kept(head["values"], arrays)
    except (ValueError, KeyError, TypeError) as error:
        raise KBForgeError(
            f"the store is damaged: what a model kept is not as it was written ({quoted(error)})"
        ) from None
