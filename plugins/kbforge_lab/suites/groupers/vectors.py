"""Fragments as rows, labels as numbers, and what the groupers need of scikit-learn."""

from __future__ import annotations

from collections.abc import Sequence
from types import ModuleType

import numpy as np

from kbforge.contracts import FloatArray, Fragment, IntArray
from kbforge.errors import KBForgeError, quoted


def rows_of(fragments: Sequence[Fragment]) -> FloatArray:
    """The vectors, shape [n, features].

    Raises:
        KBForgeError: a fragment has none, or one of another length.

    """
    expected = max((len(fragment.vector or ()) for fragment in fragments), default=0)
    for fragment in fragments:
        if not 0 < len(fragment.vector or ()) == expected:
            raise KBForgeError(
                f'fragment "{quoted(fragment.id)}": expected a vector of {max(expected, 1)} '
                f"numbers, as others have, got {len(fragment.vector or ())}"
            )
    return np.array([fragment.vector for fragment in fragments], dtype=np.float64)


def labels_of(fragments: Sequence[Fragment]) -> IntArray:
    """The labels as 0, 1, ..., by their names, shape [n]."""
    return np.unique([str(f.label) for f in fragments], return_inverse=True)[1].reshape(-1)


def scikit_learn() -> ModuleType:
    """The package `sklearn`, which comes with an extra.

    Raises:
        KBForgeError: it is not installed.

    """
    try:
        import sklearn
    except ImportError as error:
        raise KBForgeError(
            "the suite supervised needs scikit-learn: pip install 'kbforge[supervised]'"
        ) from error
    return sklearn  # type: ignore[no-any-return]


def k_means(rows: FloatArray, clusters: int, rng: np.random.Generator) -> list[int]:
    """A label for each row, from one start.

    Raises:
        KBForgeError: scikit-learn is not installed.

    """
    scikit_learn()
    from sklearn.cluster import KMeans

    seed = int(rng.integers(2**31))
    found: list[int] = KMeans(clusters, n_init=1, random_state=seed).fit_predict(rows).tolist()
    return found
