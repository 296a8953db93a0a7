"""Model choice: which model recovers hidden labelled publications best.

What is left free of a model (the power of its likelihood, its separation) is chosen so. References
that are really to be grouped have no say in it.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence

import numpy as np

from kbforge.contracts import FloatArray, IntArray
from kbforge_lab.scdp.references import References, references
from kbforge_lab.scdp.sampler import Scdp

Trial = Callable[[Scdp, References], IntArray]
"""Groupings that a model finds of the references to be grouped, shape [S, m]."""

Score = Callable[[IntArray, IntArray], float]
"""Of a grouping, given the right one; the larger the better."""


def hidden_in_turn(
    train: FloatArray, labels: IntArray, count: int
) -> Iterator[tuple[References, IntArray]]:
    """Problems with labelled publications hidden, as many as publications, and their solutions.

    Args:
        train: shape [n, F].
        labels: the publications of `train`, shape [n].

    """
    known = np.unique(labels)
    for first in range(len(known)):
        hidden = np.isin(labels, np.roll(known, -first)[:count])
        yield references(train[~hidden], labels[~hidden], train[hidden]), labels[hidden]


def scored(
    models: Sequence[Scdp],
    train: FloatArray,
    labels: IntArray,
    count: int,
    trial: Trial,
    score: Score,
) -> FloatArray:
    """What each model scores on hidden publications, shape [models].

    A score that rewards one large cluster misleads, as there are fewer publications to find than
    in earnest: the adjusted Rand index does not.

    Args:
        train: shape [n, F].
        labels: the publications of `train`, shape [n].

    """
    found = np.zeros(len(models))
    for data, gold in hidden_in_turn(train, labels, count):
        for i, model in enumerate(models):
            found[i] += np.mean([score(grouping, gold) for grouping in trial(model, data)])
    return found / len(np.unique(labels))
