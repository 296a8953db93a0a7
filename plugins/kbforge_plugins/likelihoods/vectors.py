"""The vectors that numeric likelihoods read, all of one length."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from kbforge.contracts.fragment import Fragment
from kbforge.contracts.likelihood import FloatArray
from kbforge.errors import LikelihoodError, quoted


def vector_of(fragment: Fragment, dimensions: int | None, reader: str) -> FloatArray:
    """The vector of a fragment, shape [dimensions].

    Args:
        fragment: any fragment.
        dimensions: the length it must have; None accepts any.
        reader: the likelihood's name, for the error.

    Raises:
        LikelihoodError: no vector, or one of another length; names the fragment.

    """
    if fragment.vector is None:
        raise LikelihoodError(
            f'fragment "{quoted(fragment.id)}" has no vector, which the {reader} likelihood reads '
            f"(kbforge load csv --vector x,y makes one from columns)"
        )
    if dimensions is not None and len(fragment.vector) != dimensions:
        raise LikelihoodError(
            f'fragment "{quoted(fragment.id)}" has a vector of {len(fragment.vector)} numbers, '
            f"expected {dimensions} as in the fragments before it"
        )
    return np.array(fragment.vector, dtype=np.float64)


def dimensions_of(clusters: Sequence[Sequence[Fragment]], reader: str) -> int | None:
    """The length of the first vector, None if there is no fragment at all."""
    for cluster in clusters:
        for fragment in cluster:
            return len(vector_of(fragment, None, reader))
    return None
