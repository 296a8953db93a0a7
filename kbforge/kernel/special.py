"""Special functions of arrays: SciPy's bits, without the time that loading SciPy takes."""

from __future__ import annotations

import numpy as np
from numpy.typing import ArrayLike

from kbforge.contracts import FloatArray
from kbforge.kernel.binding import address, kernel_library

_EXPIT, _LOG_GAMMA, _DIGAMMA = range(3)


def expit(x: ArrayLike) -> FloatArray:
    """1 / (1 + exp(-x)), same shape."""
    return _of(_EXPIT, x)


def gammaln(x: ArrayLike) -> FloatArray:
    """log gamma(x) for x >= 0, same shape."""
    return _of(_LOG_GAMMA, x)


def digamma(x: ArrayLike) -> FloatArray:
    """The derivative of `gammaln` for x >= 0, same shape."""
    return _of(_DIGAMMA, x)


def _of(function: int, x: ArrayLike) -> FloatArray:
    given = np.asarray(x, np.float64, order="C")
    out = np.empty(given.shape)
    kernel_library().kb_special(function, given.size, address(given), address(out))
    return out
