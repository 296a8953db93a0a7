"""Does a likelihood know one entity from two that share a name?

Parts A and B are drawn from one entity (a positive), or from two entities with a common name,
ignoring case (a negative). Clustering decides by the gain, which positives should have more of:

    L(A + B) - L(A) - L(B)

Every positive has a negative of the same sizes |A| and |B|. The area under the ROC curve is the
probability that a random positive scores above a random negative, ties counting half. Its interval
is a bootstrap over entities, because pairs of one entity are not independent.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from kbforge.contracts import Fragment, Likelihood
from kbforge.contracts.serializer import CanonicalJson, content_key

Floats = NDArray[np.float64]

_LARGEST_PART = 5
_ATTEMPTS = 50  # per pair wanted; small sets have fewer different pairs than that
_RESAMPLES = 1_000


@dataclass(frozen=True, slots=True)
class Pair:
    """Two parts, and the entities (by number) that they are from."""

    a: list[Fragment]
    b: list[Fragment]
    entities: tuple[int, int]

    @property
    def is_positive(self) -> bool:
        """Whether both parts are from one entity."""
        return self.entities[0] == self.entities[1]

    @property
    def is_equal(self) -> bool:
        """Whether the parts have the same text: no likelihood of texts can tell whose they are."""
        serialize = CanonicalJson().serialize
        return serialize(self.a) == serialize(self.b)

    @property
    def is_overlapping(self) -> bool:
        """Whether some fragment of one part has the same content as one of the other."""
        return not {content_key(f) for f in self.a}.isdisjoint(content_key(f) for f in self.b)


@dataclass(frozen=True, slots=True)
class Area:
    """An area under the ROC curve with its 95 % interval."""

    auc: float
    low: float
    high: float
    positives: int
    negatives: int


def namesakes(entities: Sequence[Sequence[Fragment]]) -> list[tuple[int, int]]:
    """The pairs of entities (i < j) that have a name in common, ignoring case."""
    names = [{name.casefold() for f in entity for name in f.names} for entity in entities]
    return [
        (i, j) for j in range(len(names)) for i in range(j) if not names[i].isdisjoint(names[j])
    ]


def draw_pairs(entities: Sequence[Sequence[Fragment]], wanted: int, seed: int) -> list[Pair]:
    """Up to `wanted` positives, each followed by a negative of the same sizes; no pair twice.

    A positive's entity is uniform over those of two fragments or more, |A| and |B| in 1..5 as far
    as it goes. The negative's are uniform over the ordered pairs of namesakes that are large
    enough; if there are none, the positive is drawn anew.
    """
    rng = np.random.default_rng(seed)
    sizes = [len(entity) for entity in entities]
    several = [number for number, size in enumerate(sizes) if size > 1]
    both_ways = [pair for i, j in namesakes(entities) for pair in ((i, j), (j, i))]
    pairs: list[Pair] = []
    seen: set[frozenset[frozenset[str]]] = set()
    if not several:
        return pairs
    for _ in range(wanted * _ATTEMPTS):
        if len(pairs) == 2 * wanted:
            break
        one = several[rng.integers(len(several))]
        n_a = int(rng.integers(1, min(_LARGEST_PART, sizes[one] - 1) + 1))
        n_b = int(rng.integers(1, min(_LARGEST_PART, sizes[one] - n_a) + 1))
        large = [(i, j) for i, j in both_ways if sizes[i] >= n_a and sizes[j] >= n_b]
        if not large:
            continue
        chosen = _part(entities[one], n_a + n_b, rng)
        i, j = large[rng.integers(len(large))]
        negative = Pair(_part(entities[i], n_a, rng), _part(entities[j], n_b, rng), (i, j))
        positive = Pair(chosen[:n_a], chosen[n_a:], (one, one))
        keys = {_key(positive), _key(negative)}
        if seen.isdisjoint(keys):
            seen |= keys
            pairs += [positive, negative]
    return pairs


def gains(model: Likelihood, pairs: Sequence[Pair]) -> tuple[Floats, Floats]:
    """L(A + B) - L(A) - L(B) of each pair, and L(A + B) by fragment; nats."""
    sets = [part for pair in pairs for part in (pair.a, pair.b, pair.a + pair.b)]
    a, b, whole = np.asarray(model.log_marginal(sets)).reshape(-1, 3).T
    sizes = np.array([len(pair.a) + len(pair.b) for pair in pairs])
    return whole - a - b, whole / sizes


def area(pairs: Sequence[Pair], scores: Floats, seed: int) -> Area:
    """How well scores tell positives from negatives."""
    positive = np.array([pair.is_positive for pair in pairs])
    ends = np.array([pair.entities for pair in pairs])
    n_entities = int(ends.max()) + 1
    rng = np.random.default_rng(seed)
    found = []
    for _ in range(_RESAMPLES):
        times = np.bincount(rng.integers(n_entities, size=n_entities), minlength=n_entities)
        # a negative is there as often as both its entities are, a positive as often as its one
        weights = np.where(positive, times[ends[:, 0]], times[ends].prod(axis=1)).astype(float)
        if weights[positive].any() and weights[~positive].any():
            found.append(weighted_auc(scores, positive, weights))
    low, high = np.quantile(found, (0.025, 0.975))
    auc = weighted_auc(scores, positive, np.ones(len(pairs)))
    return Area(auc, float(low), float(high), int(positive.sum()), int((~positive).sum()))


def weighted_auc(scores: Floats, positive: NDArray[np.bool_], weights: Floats) -> float:
    """P(positive above negative) + P(equal) / 2, pairs drawn by weight."""
    _, rank = np.unique(scores, return_inverse=True)
    up = np.bincount(rank, weights=weights * positive)
    down = np.bincount(rank, weights=weights * ~positive)
    below = np.cumsum(down) - down
    return float((up * (below + down / 2)).sum() / (up.sum() * down.sum()))


def _part(entity: Sequence[Fragment], size: int, rng: np.random.Generator) -> list[Fragment]:
    return [entity[k] for k in rng.choice(len(entity), size, replace=False)]


def _key(pair: Pair) -> frozenset[frozenset[str]]:
    return frozenset((frozenset(f.id for f in pair.a), frozenset(f.id for f in pair.b)))
