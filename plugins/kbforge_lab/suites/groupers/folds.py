"""Cross-validation over labels, so that what is judged are clusters that were not seen."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TypeAlias

import numpy as np
from numpy.typing import NDArray

from kbforge.contracts import IntArray
from kbforge.errors import KBForgeError

Fold: TypeAlias = tuple[NDArray[np.bool_], NDArray[np.bool_]]
"""Which examples are left, and which are hidden."""


def hidden_labels(labels: IntArray, folds: int, rng: np.random.Generator) -> Iterator[Fold]:
    """Folds that hide about half of the labels each, at least two, and leave at least two.

    Raises:
        KBForgeError: there are fewer than four.

    """
    known = np.unique(labels)
    if len(known) < 4:
        raise KBForgeError(
            "what is tuned on labels that are hidden from it: expected at least 4 labels among "
            f"the examples, got {len(known)}"
        )
    for _ in range(folds):
        hidden = np.isin(labels, rng.permutation(known)[: len(known) // 2])
        yield ~hidden, hidden
