"""Candidate groupings of a file: what each of several likelihoods makes of it at several alphas."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

import numpy as np

from kbforge.contracts import FloatArray, Fragment, IntArray
from kbforge.jobs.choices import Choices

_MOST_FRAGMENTS = 500
_ALPHAS = {
    "attributes": (0.1, 1.0, 10.0, 100.0, 1e3, 1e4, 1e6),
    "bigram": (10.0, 100.0, 1e3, 1e4, 1e5, 1e6, 1e8, 1e10),
}


@dataclass(frozen=True, slots=True)
class Candidate:
    """A likelihood and an alpha.

    Attributes:
        likelihood: its name.
        alpha: the concentration.
        gain: predicted F1 less that of putting equal names together.

    """

    likelihood: str
    alpha: float
    gain: float


@dataclass(frozen=True, slots=True)
class Candidates:
    """Candidates that group one sample of the fragments.

    Attributes:
        sample: numbers of the fragments grouped, ascending, shape [n].
        options: the candidates, K of them, at least one.
        groupings: number of each fragment's cluster, shape [K, n].

    """

    sample: IntArray
    options: tuple[Candidate, ...]
    groupings: IntArray

    @property
    def gains(self) -> FloatArray:
        """The predicted gains, shape [K]."""
        return np.array([option.gain for option in self.options])


def candidates(fragments: Sequence[Fragment], choices: Choices) -> Candidates:
    """Group a sample of the fragments in several ways."""
    from kbforge.jobs.cluster import cluster

    rng = np.random.default_rng(choices.seed)
    sample = np.sort(rng.permutation(len(fragments))[:_MOST_FRAGMENTS])
    held = [fragments[i] for i in sample.tolist()]
    options, groupings = [], []
    for name, alphas in _ALPHAS.items():
        if choices.likelihood not in (None, name):
            continue
        for alpha in alphas:
            how = replace(choices, clusterer="greedy", likelihood=name, alpha=alpha, answers=None)
            options.append(Candidate(name, alpha, 0.0))
            groupings.append(cluster(held, how).posterior.labels())
    return Candidates(sample, tuple(options), np.array(groupings))
