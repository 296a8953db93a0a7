"""Growing NumPy arrays, for the tables of live clusters."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

_LEAST = 64


def capacity_for(needed: int, current: int) -> int:
    """The capacity to grow to: doubled until it suffices, so that growth costs O(1) a slot."""
    capacity = max(current, _LEAST)
    while capacity < needed:
        capacity *= 2
    return capacity


def grown(array: NDArray[Any], capacity: int, axis: int = 0) -> NDArray[Any]:
    """A copy with `capacity` entries along `axis`, the new ones zero."""
    shape = list(array.shape)
    shape[axis] = capacity
    larger = np.zeros(shape, dtype=array.dtype)
    larger[tuple(slice(0, size) for size in array.shape)] = array
    return larger
