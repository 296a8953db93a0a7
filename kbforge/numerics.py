"""Shared arithmetic: log sums, a grid on which sums are exact, growing arrays, flat arrays of runs.

*The grid.* Log weights are multiples of 2^-34 nats (6e-11). Sums of such numbers below 2^19 nats in
size have no rounding error at all in float64. So a weight does not depend on the order of
additions, and not on how particles are stored. A new number is rounded to the grid once. exp and
log come from the C library, number by number, because vectorised versions differ in the last bit.
So the kernel and Python compute the same bits.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from itertools import chain
from typing import Any

import numpy as np
from numpy.typing import NDArray

from kbforge.contracts import FloatArray, IntArray
from kbforge.contracts.posterior import starts_of as starts_of

GRID = 2.0**34
"""Grid units per nat."""
_LEAST = 64


def on_grid(values: FloatArray) -> FloatArray:
    """The nearest multiples of 2^-34 nats; -inf, +inf and NaN are kept."""
    return np.asarray(np.rint(values * GRID) / GRID)


def normalised(values: FloatArray) -> FloatArray:
    """Log weights minus the log of their sum, on the grid.

    Args:
        values: log weights on the grid, the first one the largest, finite; shape [n], n > 0.

    """
    relative = values - values[0]
    mass = math.fsum(map(math.exp, relative.tolist()))
    return np.asarray(relative - rounded(math.log(mass)))


def rounded(value: float) -> float:
    """One number, rounded to the grid."""
    return float(np.rint(value * GRID) / GRID)


def log_sum_exp(values: FloatArray) -> float:
    """log(sum(exp(values))), -inf for no values; ten times faster than SciPy's on short arrays."""
    if not len(values):
        return -np.inf
    largest = float(values.max())
    if largest == -np.inf:
        return -np.inf
    return largest + float(np.log(np.exp(values - largest).sum()))


_XTOL, _RTOL, _MOST_STEPS = 2e-12, 4 * np.finfo(np.float64).eps, 100


def root_of(
    function: Callable[[float], float], low: float, high: float, tolerance: float = _XTOL
) -> float:
    """A root between two places with values of different signs, by Brent's method (1973).

    Every bit is that of `scipy.optimize.brentq`, whose import takes as long as a small file.
    """
    before, here, across = low, high, low  # the last two places, and one with the other sign
    f_before, f_here = function(before), function(here)
    f_across, last, step = f_before, 0.0, 0.0
    if f_before == 0:
        return before
    for _ in range(_MOST_STEPS):
        if f_before != 0 != f_here and (f_before < 0) != (f_here < 0):
            across, f_across = before, f_before
            last = step = here - before
        if abs(f_across) < abs(f_here):
            before, here, across = here, across, here
            f_before, f_here, f_across = f_here, f_across, f_here
        least, half = (tolerance + _RTOL * abs(here)) / 2, (across - here) / 2
        if f_here == 0 or abs(half) < least:
            break
        tried = math.inf
        if abs(last) > least and abs(f_here) < abs(f_before):
            if before == across:
                tried = -f_here * (here - before) / (f_here - f_before)
            else:
                a = (f_before - f_here) / (before - here)
                b = (f_across - f_here) / (across - here)
                below = b * a * (f_across - f_before)
                tried = -f_here * (f_across * b - f_before * a) / below if below else math.inf
        if 2 * abs(tried) < min(abs(last), 3 * abs(half) - least):
            last, step = step, tried
        else:
            last = step = half
        before, f_before = here, f_here
        here += step if abs(step) > least else math.copysign(least, half)
        f_here = function(here)
    return here


def capacity_for(needed: int, current: int) -> int:
    """The capacity to grow to: doubled until it suffices, so growth costs O(1) per slot."""
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


def members_of(clusters: Sequence[Sequence[int]]) -> tuple[IntArray, IntArray]:
    """The size of each cluster, and the fragments of all, cluster after cluster."""
    sizes = np.fromiter(map(len, clusters), np.int64, len(clusters))
    return sizes, np.fromiter(chain.from_iterable(clusters), np.int64, int(sizes.sum()))


def end_to_end(lists: Sequence[Sequence[int]]) -> tuple[IntArray, IntArray]:
    """Where each list begins, and the end, shape [lists + 1], and all numbers."""
    starts = starts_of([len(numbers) for numbers in lists])
    return starts, np.fromiter(chain.from_iterable(lists), np.int64, int(starts[-1]))


def spread(starts: IntArray, runs: IntArray) -> tuple[IntArray, IntArray]:
    """The entries of some runs, end to end: their places, and the position of the run in `runs`."""
    first = starts[runs]
    sizes = starts[runs + 1] - first
    number = np.arange(len(runs)).repeat(sizes)
    return np.arange(len(number)) + (first - starts_of(sizes)[:-1])[number], number


def by_first(numbers: NDArray[Any], most: int) -> IntArray:
    """The different numbers, from 0 and below `most`, in the order of their first occurrence."""
    n = len(numbers)
    first = np.full(most, n)
    first[numbers[::-1]] = np.arange(n - 1, -1, -1)
    return np.argsort(first, kind="stable")[: np.count_nonzero(first < n)]


def at_numbers(
    numbers: NDArray[Any], values: NDArray[Any], wanted: NDArray[Any], missing: float
) -> NDArray[Any]:
    """The values of the wanted numbers, given for ascending `numbers` along the last axis."""
    if not len(numbers):
        return np.full((*values.shape[:-1], len(wanted)), missing)
    at = np.searchsorted(numbers, wanted).clip(max=len(numbers) - 1)
    return np.where(numbers[at] == wanted, values[..., at], missing)
