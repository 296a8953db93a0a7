"""Features of two rows' attributes: what agrees, what conflicts, and what that is worth here.

An attribute's worth is learned from the file without labels, after Fellegi and Sunter (1969): by
how near two values are (equal, close, alike, different), the log ratio of its frequency among pairs
that are each other's nearest, which are mostly one entity, and among pairs drawn at random. For
equal values the rarity of the value takes the place of chance.
"""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np
from numpy.typing import NDArray
from rapidfuzz import fuzz
from rapidfuzz.process import cpdist

from kbforge.contracts import FloatArray, IntArray
from kbforge_plugins.models.pairs.bags import cosine, shared_mass, unmatched
from kbforge_plugins.models.pairs.records import Column, Table

AGREEMENT_FEATURES = (
    *("both stated", "one stated", "equal values", "different values"),
    *("evidence", "evidence for", "evidence against", "evidence for most", "evidence against most"),
    *("rarity of equal", "rarity of equal most"),
    *("nearness mean", "nearness least", "nearness most", "functional conflict"),
)
SOUP_FEATURES = (
    *("all words cosine", "all words covered least", "all words covered most"),
    *("all words shared mass", "all words unmatched least", "all words unmatched most"),
)
_BINS = np.array([0.5, 0.8, 1.0])
_MOST_EVIDENCE = 12.0
_SMOOTHING = 2.0


class Worth:
    """What agreement and conflict in one attribute are worth in one file.

    Args:
        column: of the table of the file.
        counts: fragments of each row.
        trusted: pairs of rows that are mostly one entity.
        chance: pairs of rows drawn at random.

    Attributes:
        log_ratio: by bin of nearness, in nats.
        functional: how much more often the trusted agree than chance does, from 0 to 1.

    """

    def __init__(
        self,
        column: Column,
        counts: IntArray,
        trusted: tuple[IntArray, IntArray],
        chance: tuple[IntArray, IntArray],
    ) -> None:
        stated = np.flatnonzero(column.value)
        self._values, inverse = np.unique(column.value[stated], return_inverse=True)
        self._count = np.bincount(
            inverse, weights=counts[stated].astype(np.float64), minlength=len(self._values)
        )
        self._total = float(self._count.sum())
        m, u = (_frequencies(column, i, j) for i, j in (trusted, chance))
        self.log_ratio = np.log(m / u)
        self.functional = float(np.clip((m[3] - u[3]) / (1 - u[3] + 1e-9), 0.0, 1.0))

    def rarity(self, values: IntArray) -> FloatArray:
        """-log of the share of the statements that a value has, nats; a new one counts once."""
        at = np.searchsorted(self._values, values).clip(max=max(len(self._values) - 1, 0))
        known = self._values[at] == values
        count = np.where(known, self._count[at], 1.0)
        return np.log((self._total + 1) / count)

    def told(
        self, x: Column, i: IntArray, y: Column, j: IntArray
    ) -> tuple[FloatArray, FloatArray, FloatArray, FloatArray]:
        """Nearness, rarity where equal, evidence and functional conflict, each [pairs]."""
        near = nearness(x, i, y, j)
        equal = near >= 1.0
        rarity = np.where(equal, self.rarity(x.value[i]), 0.0)
        evidence = self.log_ratio[np.searchsorted(_BINS, near, side="right")]
        # an agreement tells at most how rare the value is
        most = np.minimum(rarity, np.maximum(evidence, 0.0) + 2.0)
        evidence = np.where(equal, most, evidence).clip(-_MOST_EVIDENCE, _MOST_EVIDENCE)
        return near, rarity, evidence, self.functional * (1.0 - near)

    def evidence(self, x: Column, i: int, y: Column, j: int) -> float:
        """The evidence of one pair, in nats."""
        return float(self.told(x, np.array([i]), y, np.array([j]))[2][0])


def _frequencies(column: Column, i: IntArray, j: IntArray) -> FloatArray:
    both = (column.value[i] != 0) & (column.value[j] != 0)
    near = nearness(column, i[both], column, j[both])
    seen = np.bincount(np.searchsorted(_BINS, near, side="right"), minlength=4)[:4]
    prior = np.array([0.25, 0.25, 0.25, 0.25])
    frequencies = (seen + _SMOOTHING * prior) / (seen.sum() + _SMOOTHING)
    return np.asarray(frequencies, dtype=np.float64)


def nearness(a: Column, i: IntArray, b: Column, j: IntArray) -> FloatArray:
    """How near values are, from 0 to 1, which equal ones alone have, shape [pairs]."""
    if not len(i):
        return np.zeros(0)
    pairs = np.stack([a.value[i], b.value[j]])
    _, first, whole = np.unique(pairs, axis=1, return_index=True, return_inverse=True)
    i, j = i[first], j[first]
    letters = cpdist(a.text[i].tolist(), b.text[j].tolist(), scorer=fuzz.ratio, workers=1)
    near = np.maximum(np.asarray(letters, dtype=np.float64) / 100, cosine(a.bags, i, b.bags, j))
    near = np.where(a.value[i] == b.value[j], 1.0, np.minimum(near, 0.99))
    return near[whole.ravel()]


def agreement_features(
    a: Table, i: IntArray, b: Table, j: IntArray, worths: Mapping[str, Worth]
) -> list[FloatArray]:
    """`AGREEMENT_FEATURES` of rows i of one table and j of another."""
    n = len(i)
    sums = {name: np.zeros(n) for name in AGREEMENT_FEATURES}
    sums["nearness least"] += 2.0
    for name, worth in worths.items():
        x, y = a.columns[name], b.columns[name]
        in_i, in_j = x.value[i] != 0, y.value[j] != 0
        sums["one stated"] += in_i != in_j
        at = np.flatnonzero(in_i & in_j)
        if len(at):
            _add(sums, at, *worth.told(x, i[at], y, j[at]))
    both = sums["both stated"]
    none = both == 0
    sums["nearness mean"] = np.divide(sums["nearness mean"], both, out=np.zeros(n), where=~none)
    for name in ("nearness mean", "nearness least", "nearness most"):
        sums[name][none] = np.nan
    return list(sums.values())


def _add(
    sums: dict[str, FloatArray],
    at: NDArray[np.int64],
    near: FloatArray,
    rarity: FloatArray,
    evidence: FloatArray,
    conflict: FloatArray,
) -> None:
    sums["both stated"][at] += 1
    sums["equal values"][at] += near >= 1.0
    sums["different values"][at] += near < _BINS[0]
    sums["evidence"][at] += evidence
    sums["evidence for"][at] += evidence.clip(min=0)
    sums["evidence against"][at] += evidence.clip(max=0)
    sums["evidence for most"][at] = np.maximum(sums["evidence for most"][at], evidence)
    sums["evidence against most"][at] = np.minimum(sums["evidence against most"][at], evidence)
    sums["rarity of equal"][at] += rarity
    sums["rarity of equal most"][at] = np.maximum(sums["rarity of equal most"][at], rarity)
    sums["nearness mean"][at] += near
    sums["nearness least"][at] = np.minimum(sums["nearness least"][at], near)
    sums["nearness most"][at] = np.maximum(sums["nearness most"][at], near)
    sums["functional conflict"][at] += conflict


def soup_features(a: Table, i: IntArray, b: Table, j: IntArray) -> list[FloatArray]:
    """`SOUP_FEATURES`: what the words of all values have in common, wherever they stand."""
    shared = shared_mass(a.soup, i, b.soup, j)
    mass = np.stack([a.soup.mass[i], b.soup.mass[j]])
    covered = np.divide(shared, mass, out=np.zeros_like(mass), where=mass > 0)
    left = np.stack(unmatched(a.soup, i, b.soup, j))
    return [
        cosine(a.soup, i, b.soup, j),
        *(covered.min(axis=0), covered.max(axis=0)),
        shared,
        *(left.min(axis=0), left.max(axis=0)),
    ]
