"""The rates of an attribute from clusters, by expectation maximisation.

The hidden facts are the true value of each cluster, how often each value was drawn afresh and did
not repeat an earlier one (the tables of the Chinese restaurant: a value seen n times with
a = c G(u|v) sits at a (psi(a + n) - psi(a)) of them on average, Antoniak 1974), and the component
that made each fresh draw. Given their expectations, the weights are the components' shares of the
fresh draws, and c solves a fixed point: fresh draws = c (psi(c + n) - psi(c)) summed over clusters
(Minka 2000).
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TypeAlias

import numpy as np
from scipy.special import digamma, gammaln

from kbforge.contracts import FloatArray, IntArray
from kbforge_plugins.models.attributes.distortion import COPY, components
from kbforge_plugins.models.attributes.rates import AttributeRates
from kbforge_plugins.models.attributes.vocabulary import Vocabulary

Counts: TypeAlias = dict[int, int]
"""A cluster's values of one attribute by number, and how often each was seen."""

_ROUNDS = 40
_CONVERGED = 1e-4
_PSEUDO_DRAWS = 4.0
_PSEUDO_CLUSTERS = 2.0
_MOST_VALUES = 24
_SMALLEST = 1e-300
"""What a probability that rounds to zero is taken for, so that logs are finite."""


def learn_rates(
    vocabulary: Vocabulary, clusters: Sequence[Counts], prior: AttributeRates, doubt: float = 0.0
) -> AttributeRates:
    """The most probable rates, with the prior worth a few draws, and more if clusters are doubted.

    Args:
        vocabulary: of the attribute.
        clusters: what each holds of the attribute; those with one observation say nothing.
        prior: where to start, and what to believe without data.
        doubt: what the prior's weights are worth beside that, in draws for each draw of the data.

    """
    data = _Data.of(vocabulary, [c for c in clusters if sum(c.values()) > 1])
    if data is None:
        return prior
    believed = np.array(prior.weights())
    weights, concentration = believed, prior.concentration
    for _ in range(_ROUNDS):
        drawn, fresh = data.expected(weights, concentration)
        new = drawn + (_PSEUDO_DRAWS + doubt * drawn.sum()) * believed
        new /= new.sum()
        spread = (digamma(concentration + data.sizes) - digamma(concentration)).sum()
        concentration = float(
            (fresh + _PSEUDO_CLUSTERS) / (spread + _PSEUDO_CLUSTERS / prior.concentration)
        )
        moved = float(np.abs(new - weights).max())
        weights = new
        if moved < _CONVERGED:
            break
    return AttributeRates.of(vocabulary.kind, weights.tolist(), concentration)


@dataclass(frozen=True, slots=True)
class _Data:
    """All clusters, flat: a cell for each cluster, true value v and value u of it.

    Attributes:
        parts: G's components of each cell, shape [cells, components].
        count: how often u was seen, shape [cells].
        row_start: where the cells of each (cluster, v) begin.
        log_base: of each row's v.
        row_cluster: of each row.
        base: of each (cluster, u), shape [pairs].
        pair_count: how often u was seen, shape [pairs].
        pair_start: where the pairs of each cluster begin.
        sizes: observations of each cluster.

    """

    parts: FloatArray
    count: FloatArray
    row_start: IntArray
    log_base: FloatArray
    row_cluster: IntArray
    base: FloatArray
    pair_count: FloatArray
    pair_start: IntArray
    sizes: FloatArray

    @classmethod
    def of(cls, vocabulary: Vocabulary, clusters: Sequence[Counts]) -> _Data | None:
        if not clusters:
            return None
        kept = [_most_seen(counts) for counts in clusters]
        lengths = np.array([len(counts) for counts in kept])
        rows = [(i, v) for i, counts in enumerate(kept) for v in counts]
        cells = [(u, v, n) for counts in kept for v in counts for u, n in counts.items()]
        base = np.array(vocabulary.base)
        pairs = [(u, n) for counts in kept for u, n in counts.items()]
        row_lengths = np.repeat(lengths, lengths)
        return cls(
            parts=np.array([components(vocabulary, u, v) for u, v, _ in cells]),
            count=np.array([n for *_, n in cells], dtype=float),
            row_start=np.cumsum(row_lengths) - row_lengths,
            log_base=np.log(base[[v for _, v in rows]]),
            row_cluster=np.array([i for i, _ in rows]),
            base=base[[u for u, _ in pairs]],
            pair_count=np.array([n for _, n in pairs], dtype=float),
            pair_start=np.cumsum(lengths) - lengths,
            sizes=np.array([sum(counts.values()) for counts in kept], dtype=float),
        )

    def expected(self, weights: FloatArray, concentration: float) -> tuple[FloatArray, float]:
        """Expected fresh draws by component, shape [components], and in all.

        Args:
            weights: of the components, shape [components].
            concentration: c.

        """
        mixed = np.maximum(self.parts @ weights, _SMALLEST)
        a = concentration * mixed
        log_rows = self.log_base + np.add.reduceat(_log_rising(a, self.count), self.row_start)
        chance = np.maximum(concentration * (1 - weights[COPY]) * self.base, _SMALLEST)
        log_chance = np.add.reduceat(_log_rising(chance, self.pair_count), self.pair_start)
        top = log_chance.copy()
        np.maximum.at(top, self.row_cluster, log_rows)
        of_rows = np.exp(log_rows - top[self.row_cluster])
        of_chance = np.exp(log_chance - top)
        total = of_chance + np.bincount(self.row_cluster, of_rows, minlength=len(top))
        of_rows /= total[self.row_cluster]
        of_chance /= total

        cells_in_row = np.diff(np.append(self.row_start, len(a)))
        fresh = _tables(a, self.count) * np.repeat(of_rows, cells_in_row)
        drawn = ((fresh / mixed)[:, None] * self.parts * weights).sum(axis=0)
        pairs_in_cluster = np.diff(np.append(self.pair_start, len(chance)))
        by_chance = (
            _tables(chance, self.pair_count) * np.repeat(of_chance, pairs_in_cluster)
        ).sum()
        # a true value that was not seen: all observations are distorted, nobody knows how
        others = np.array(weights)
        others[COPY] = 0.0
        drawn += by_chance * others / others.sum()
        return drawn, float(fresh.sum() + by_chance)


def _log_rising(a: FloatArray, n: FloatArray) -> FloatArray:
    return np.asarray(gammaln(a + n) - gammaln(a))


def _tables(a: FloatArray, n: FloatArray) -> FloatArray:
    """Expected fresh draws of a value seen n times; a (psi(a + n) - psi(a)) without its 0/0."""
    return np.where(n == 1, 1.0, a * (digamma(a + n) - digamma(a)))


def _most_seen(counts: Counts) -> Counts:
    if len(counts) <= _MOST_VALUES:
        return counts
    ranked = sorted(counts.items(), key=lambda item: (-item[1], item[0]))
    return dict(ranked[:_MOST_VALUES])
