"""Digits of ten kinds as vectors: five kinds are examples, the other five are to be grouped.

The experiment of Daumé and Marcu (2005), section 7.3.1: 8 by 8 pixels, 30 to 300 of each digit, the
features centred and scaled over all of them.
"""

from __future__ import annotations

import os
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from kbforge.contracts import FloatArray, Fragment, IntArray
from kbforge.errors import KBForgeError, quoted

EXAMPLES = (1, 3, 5, 8, 9)
USPS = "usps/usps.h5"
_EXTRA = "pip install 'kbforge[supervised]'"


@dataclass(frozen=True)
class Digits:
    """Fragments of vectors, the labels being the digits."""

    examples: tuple[Fragment, ...]
    fragments: tuple[Fragment, ...]


def of_scikit_learn() -> tuple[FloatArray, IntArray]:
    """The 1,797 digits that come with scikit-learn, shapes [n, 64] and [n].

    Raises:
        KBForgeError: it is not installed.

    """
    try:
        from sklearn.datasets import load_digits
    except ImportError as error:
        raise KBForgeError(
            f"the suite supervised needs scikit-learn, whose digits it groups: {_EXTRA}"
        ) from error
    bunch = load_digits()
    return np.asarray(bunch.data, dtype=np.float64), np.asarray(bunch.target, dtype=np.int64)


def usps_file() -> Path | None:
    """The digits of the United States Postal Service in the folder that KBFORGE_DATA names."""
    folder = os.environ.get("KBFORGE_DATA")
    path = Path(folder) / USPS if folder else None
    return path if path is not None and path.is_file() else None


def of_usps(path: Path) -> tuple[FloatArray, IntArray]:
    """The 7,291 of its train set, 2 by 2 pixels averaged, shapes [n, 64] and [n].

    Raises:
        KBForgeError: h5py is not installed, or the file is another one.

    """
    try:
        import h5py
    except ImportError as error:
        raise KBForgeError(f"reading {USPS} needs h5py: {_EXTRA}") from error
    try:
        with h5py.File(path) as file:
            images, target = np.asarray(file["train/data"]), np.asarray(file["train/target"])
    except (OSError, KeyError) as error:
        raise KBForgeError(
            f"{quoted(str(path), 400)} does not hold the digits: {quoted(str(error), 200)}"
        ) from error
    blocks = images.astype(np.float64).reshape(-1, 8, 2, 8, 2).mean(axis=(2, 4))
    return blocks.reshape(-1, 64), target.astype(np.int64)


def drawn(
    images: FloatArray,
    target: IntArray,
    counts: tuple[int, int],
    rng: np.random.Generator,
) -> Digits:
    """So many of each digit, or as many as there are; pixels that are always equal left out.

    Args:
        images: shape [n, pixels].
        target: the digits, shape [n].
        counts: the least and the most of each digit; how many is drawn evenly.
        rng: of the draws.

    """
    low, high = counts
    rows = [
        rng.permutation(np.flatnonzero(target == digit))[: rng.integers(low, high + 1)]
        for digit in range(10)
    ]
    chosen = np.concatenate(rows)
    values, labels = images[chosen], target[chosen]
    spread = values.std(axis=0)
    values = (values - values.mean(axis=0))[:, spread > 0] / spread[spread > 0]
    made: dict[bool, list[Fragment]] = {True: [], False: []}
    for number, vector, digit in zip(chosen, values.tolist(), labels.tolist(), strict=True):
        made[digit in EXAMPLES].append(Fragment(f"digit-{number}", {}, tuple(vector), str(digit)))
    return Digits(tuple(made[True]), tuple(made[False]))
