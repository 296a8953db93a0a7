"""Likelihoods for testing everything else: exact, tiny, and free of any plugin.

`Categorical` is a Dirichlet-multinomial over one attribute with K known values. For a cluster of n
fragments, n_v of which have value v,

    L(C) = lgamma(K beta) - lgamma(K beta + n) + sum over v of [lgamma(beta + n_v) - lgamma(beta)]
    L(C + x) - L(C) = log((beta + n_x) / (K beta + n))
"""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Sequence

import numpy as np

from kbforge.contracts import (
    ConjugateLikelihood,
    FloatArray,
    Fragment,
    IntArray,
    Likelihood,
    LiveClusters,
)


class Categorical(ConjugateLikelihood):
    """Fragments of an entity tend to share the first value of one attribute.

    Args:
        attribute: whose first value is read.
        values: K, how many values there are.
        beta: the Dirichlet prior's concentration on each value, > 0.

    """

    def __init__(self, attribute: str = "colour", values: int = 4, beta: float = 0.2) -> None:
        self.attribute, self.values, self.beta = attribute, values, beta

    def log_marginal(self, clusters: Sequence[Sequence[Fragment]]) -> FloatArray:
        """L(C) by the formula above, shape [len(clusters)]."""
        return np.array([self._log_marginal(cluster) for cluster in clusters], dtype=np.float64)

    def live_clusters(self) -> LiveClusters:
        """A new, empty table."""
        return _CategoricalTable(self)

    def _log_marginal(self, cluster: Sequence[Fragment]) -> float:
        total, beta = self.values * self.beta, self.beta
        counts = Counter(f.properties[self.attribute][0] for f in cluster)
        gains = sum(math.lgamma(beta + n) - math.lgamma(beta) for n in sorted(counts.values()))
        return math.lgamma(total) - math.lgamma(total + len(cluster)) + gains


class _CategoricalTable(LiveClusters):
    def __init__(self, model: Categorical) -> None:
        self._model = model
        self._counts: dict[int, Counter[str]] = {}

    def encode(self, fragment: Fragment) -> str:
        return fragment.properties[self._model.attribute][0]

    def log_predictive(self, x: str, slots: int) -> FloatArray:
        return np.array([self._gain(x, self._counts.get(slot, Counter())) for slot in range(slots)])

    def log_predictive_new(self, x: str) -> float:
        return self._gain(x, Counter())

    def extend(self, x: str, parents: IntArray, children: IntArray) -> None:
        for parent, child in zip(parents.tolist(), children.tolist(), strict=True):
            known = self._counts[parent] if parent >= 0 else Counter[str]()
            self._counts[child] = known + Counter([x])

    def release(self, slots: IntArray) -> None:
        for slot in slots.tolist():
            del self._counts[slot]

    def _gain(self, x: str, counts: Counter[str]) -> float:
        model = self._model
        return math.log((model.beta + counts[x]) / (model.values * model.beta + counts.total()))


class UniformLikelihood(ConjugateLikelihood):
    """Every grouping is equally likely: L(C) = `per_fragment` |C|. Only the prior decides."""

    def __init__(self, per_fragment: float = 0.0) -> None:
        self.per_fragment = per_fragment

    def log_marginal(self, clusters: Sequence[Sequence[Fragment]]) -> FloatArray:
        """L(C), shape [len(clusters)]."""
        return self.per_fragment * np.array([len(cluster) for cluster in clusters], np.float64)

    def live_clusters(self) -> LiveClusters:
        """A new table, which needs to remember nothing."""
        return _UniformTable(self.per_fragment)


class _UniformTable(LiveClusters):
    def __init__(self, per_fragment: float) -> None:
        self._per_fragment = per_fragment

    def encode(self, fragment: Fragment) -> None:
        return None

    def log_predictive(self, x: None, slots: int) -> FloatArray:
        return np.full(slots, self._per_fragment)

    def log_predictive_new(self, x: None) -> float:
        return self._per_fragment

    def extend(self, x: None, parents: IntArray, children: IntArray) -> None:
        return None


class BlackBox(Likelihood):
    """A likelihood without its sufficient statistics, as a neural one would be."""

    def __init__(self, likelihood: Likelihood) -> None:
        self._likelihood = likelihood

    def log_marginal(self, clusters: Sequence[Sequence[Fragment]]) -> FloatArray:
        """L(C), shape [len(clusters)]."""
        return self._likelihood.log_marginal(clusters)
