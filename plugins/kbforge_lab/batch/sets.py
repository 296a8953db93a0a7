"""L of many sets of the same fragments, which are read once."""

from __future__ import annotations

import math
from collections.abc import Sequence

import numpy as np
from scipy.special import gammaln

from kbforge.clustering.scoring import Key, ScoreCache
from kbforge.contracts import FloatArray, Fragment, IntArray, Likelihood
from kbforge_plugins.likelihoods.gaussian import Gaussian, PlacedPoints


class SetScores:
    """One run's view of a cache: sets of its fragments by index, and how many it asked for."""

    def __init__(self, likelihood: Likelihood, fragments: Sequence[Fragment]) -> None:
        self._cache = ScoreCache.of(likelihood)
        self._fragments = fragments
        self._numbers: list[int] = []
        self._asked: set[Key] = set()

    def __len__(self) -> int:
        """How many distinct sets this run has asked for, whoever had them scored."""
        return len(self._asked)

    def score(self, sets: Sequence[tuple[int, ...]]) -> FloatArray:
        """L of each set of fragment indices, nats, shape [len(sets)]; errors as `ScoreCache`."""
        keys = [tuple(sorted(map(self._number, members))) for members in sets]
        unknown = {
            key: [self._fragments[i] for i in members]
            for key, members in zip(keys, sets, strict=True)
            if key not in self._cache
        }
        self._cache.learn(unknown)
        self._asked.update(keys)
        return self._cache.recall(keys)

    def _number(self, fragment: int) -> int:
        # in order of arrival, so that numbers do not depend on which sets are asked for first
        while len(self._numbers) <= fragment:
            self._numbers.append(self._cache.number(self._fragments[len(self._numbers)]))
        return self._numbers[fragment]


class PointSets:
    """L of sets of points of a Gaussian likelihood: equation 95, with cached constants."""

    def __init__(self, likelihood: Gaussian, fragments: Sequence[Fragment]) -> None:
        self._placed = PlacedPoints.of(likelihood, fragments)
        self._constants: dict[int, float] = {}

    def log_marginal(self, sets: Sequence[IntArray]) -> FloatArray:
        return np.array(
            [self._log_marginal(self._placed.points.take(of_one, axis=0)) for of_one in sets]
        )

    def _log_marginal(self, x: FloatArray) -> float:
        placed, n = self._placed, len(x)
        mean = np.add.reduce(x, axis=0)
        mean /= n
        x -= mean  # a copy: `take` made it
        squares = np.einsum("nd,nd->d", x, x)
        mean -= placed.centre
        mean *= mean
        mean *= placed.lam * n / (placed.lam + n)
        b_n = placed.b + 0.5 * (squares + mean)
        return self._constant(n) - float((placed.a + 0.5 * n) @ np.log(b_n))

    def _constant(self, n: int) -> float:
        """The part that depends only on n."""
        known = self._constants.get(n)
        if known is None:
            placed = self._placed
            terms = gammaln(placed.a + 0.5 * n) - gammaln(placed.a) + placed.a * np.log(placed.b)
            terms += 0.5 * np.log(placed.lam / (placed.lam + n)) - 0.5 * n * math.log(2 * math.pi)
            known = self._constants[n] = float(terms.sum())
        return known
