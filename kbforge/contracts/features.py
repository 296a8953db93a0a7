"""Features: numbers that say what fragments are like, for those who hash them.

A likelihood that compares fragments by certain features says which (`Likelihood.features`). Of any
other the hash families take the fragments' vectors, and where there are none, character n-grams.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray


class Features(NamedTuple):
    """The features of n fragments, laid end to end.

    Attributes:
        starts: where each fragment's begin, shape [n + 1]; a fragment may have none.
        names: which feature it is, the same number for the same one; each once a fragment.
        values: how much of it, finite and not 0: a count, or a coordinate.

    """

    starts: NDArray[np.int64]
    names: NDArray[np.uint64]
    values: NDArray[np.float64]
