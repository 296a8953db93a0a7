"""A tiny conjugate likelihood and tiny data for the calibrators' tests."""

from __future__ import annotations

import itertools
from collections.abc import Iterator, Sequence

import numpy as np
from scipy.special import gammaln

from kbforge.contracts import ConjugateLikelihood, Fragment, Likelihood, LiveClusters

LETTERS = "abcd"


class Letters(ConjugateLikelihood):
    """Dirichlet-multinomial over the letters of a fragment's first name; slow and obvious."""

    def __init__(self, prior: float = 0.2) -> None:
        self.prior = prior

    def log_marginal(self, clusters: Sequence[Sequence[Fragment]]) -> np.ndarray:
        return np.array([self._marginal(sum(map(counts, c), np.zeros(4))) for c in clusters])

    def _marginal(self, count: np.ndarray) -> float:
        a = self.prior
        ends = gammaln(4 * a) - gammaln(4 * a + count.sum())
        return float(ends + (gammaln(a + count) - gammaln(a)).sum())

    def live_clusters(self) -> LiveLetters:
        return LiveLetters(self)


class LiveLetters(LiveClusters):
    def __init__(self, model: Letters) -> None:
        self._model = model
        self._count: dict[int, np.ndarray] = {}

    def encode(self, fragment: Fragment) -> np.ndarray:
        return counts(fragment)

    def log_predictive(self, x: np.ndarray, slots: int) -> np.ndarray:
        held = [self._count.get(slot, np.zeros(4)) for slot in range(slots)]
        return np.array([self._model._marginal(c + x) - self._model._marginal(c) for c in held])

    def log_predictive_new(self, x: np.ndarray) -> float:
        return self._model._marginal(x)

    def extend(self, x: np.ndarray, parents: np.ndarray, children: np.ndarray) -> None:
        for parent, child in zip(parents.tolist(), children.tolist(), strict=True):
            assert child not in self._count, "a child's slot is taken"
            held = self._count[parent] if parent >= 0 else np.zeros(4)
            self._count[child] = held + x

    def release(self, slots: np.ndarray) -> None:
        for slot in slots.tolist():
            del self._count[slot]


class BlackBox(Likelihood):
    """The same likelihood without its sufficient statistics."""

    def __init__(self, model: Letters) -> None:
        self._model = model
        self.scored = 0

    def log_marginal(self, clusters: Sequence[Sequence[Fragment]]) -> np.ndarray:
        self.scored += len(clusters)
        return self._model.log_marginal(clusters)


def counts(fragment: Fragment) -> np.ndarray:
    name = fragment.names[0]
    return np.array([name.count(letter) for letter in LETTERS], dtype=float)


def fragments(names: Sequence[str], labels: Sequence[str | None] | None = None) -> list[Fragment]:
    labels = labels or [None] * len(names)
    return [
        Fragment(id=f"f{i}", properties={"name": (name,)}, label=label)
        for i, (name, label) in enumerate(zip(names, labels, strict=True))
    ]


def draw(n_entities: int, per_entity: int, seed: int) -> list[Fragment]:
    """Labelled fragments of entities with two preferred letters each."""
    rng = np.random.default_rng(seed)
    names, labels = [], []
    for entity in range(n_entities):
        taste = rng.dirichlet(np.full(4, 0.2))
        for _ in range(per_entity):
            names.append("".join(rng.choice(list(LETTERS), size=6, p=taste)))
            labels.append(f"e{entity}")
    order = rng.permutation(len(names))
    return fragments([names[i] for i in order], [labels[i] for i in order])


def partitions(n: int) -> Iterator[list[list[int]]]:
    """Every partition of 0..n-1."""
    for growth in itertools.product(range(n), repeat=n):
        if all(g <= max(growth[:i], default=-1) + 1 for i, g in enumerate(growth)):
            yield [[i for i in range(n) if growth[i] == k] for k in range(max(growth) + 1)]
