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
from kbforge_plugins.models.pairs.bags import compared, cosine
from kbforge_plugins.models.pairs.keeping import Reading, Writing
from kbforge_plugins.models.pairs.names import masses
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
        values: numbers of the values of the file, ascending.
        counts: fragments that state each.
        log_ratio: by bin of nearness, in nats.
        functional: how much more often the trusted agree than chance does, from 0 to 1.

    """

    def __init__(
        self, values: IntArray, counts: IntArray, log_ratio: FloatArray, functional: float
    ) -> None:
        self._values, self._count = values, counts.astype(np.float64)
        self._total = float(self._count.sum())
        self.log_ratio, self.functional = log_ratio, functional

    @classmethod
    def fitted(
        cls,
        column: Column,
        counts: IntArray,
        trusted: tuple[IntArray, IntArray],
        chance: tuple[IntArray, IntArray],
    ) -> Worth:
        """What it is worth in a file.

        Args:
            column: of the table of the file.
            counts: fragments of each row.
            trusted: pairs of rows that are mostly one entity.
            chance: pairs of rows drawn at random.

        """
        stating = np.bincount(column.which, weights=counts, minlength=len(column.numbers))
        order = np.argsort(column.numbers)
        order = order[column.numbers[order] != 0]
        m, u = (_frequencies(column, i, j) for i, j in (trusted, chance))
        return cls(
            column.numbers[order],
            stating[order].astype(np.int64),
            np.log(m / u),
            float(np.clip((m[3] - u[3]) / (1 - u[3] + 1e-9), 0.0, 1.0)),
        )

    def keep(self, into: Writing) -> None:
        """Write what `taken` reads."""
        into.array("values", self._values)
        into.array("counts", self._count.astype(np.int64))
        into.array("told", np.append(self.log_ratio, self.functional))

    @classmethod
    def taken(cls, kept: Reading) -> Worth:
        """What `keep` has written.

        Raises:
            ModelError: it is damaged.

        """
        values = kept.array("values", np.int64, -1)
        counts = kept.array("counts", np.int64, len(values), low=1)
        told = kept.array("told", np.float64, len(_BINS) + 2)
        return cls(values, counts, told[:-1], float(told[-1]))

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
        rarity = np.where(equal, self.rarity(x.value(i)), 0.0)
        evidence = self.log_ratio[np.searchsorted(_BINS, near, side="right")]
        # an agreement tells at most how rare the value is
        most = np.minimum(rarity, np.maximum(evidence, 0.0) + 2.0)
        evidence = np.where(equal, most, evidence).clip(-_MOST_EVIDENCE, _MOST_EVIDENCE)
        return near, rarity, evidence, self.functional * (1.0 - near)

    def evidence(self, x: Column, i: int, y: Column, j: int) -> float:
        """The evidence of one pair, in nats."""
        return float(self.told(x, np.array([i]), y, np.array([j]))[2][0])


def _frequencies(column: Column, i: IntArray, j: IntArray) -> FloatArray:
    both = (column.value(i) != 0) & (column.value(j) != 0)
    near = nearness(column, i[both], column, j[both])
    seen = np.bincount(np.searchsorted(_BINS, near, side="right"), minlength=4)[:4]
    prior = np.array([0.25, 0.25, 0.25, 0.25])
    frequencies = (seen + _SMOOTHING * prior) / (seen.sum() + _SMOOTHING)
    return np.asarray(frequencies, dtype=np.float64)


def nearness(a: Column, i: IntArray, b: Column, j: IntArray) -> FloatArray:
    """How near values are, from 0 to 1, which equal ones alone have, shape [pairs]."""
    if not len(i):
        return np.zeros(0)
    pairs = a.which[i] * len(b.numbers) + b.which[j]
    different, whole = np.unique(pairs, return_inverse=True)
    i, j = different // len(b.numbers), different % len(b.numbers)
    letters = cpdist(a.text.many(i), b.text.many(j), scorer=fuzz.ratio, workers=1)
    near = np.maximum(np.asarray(letters, dtype=np.float64) / 100, cosine(a.bags, i, b.bags, j))
    near = np.where(a.numbers[i] == b.numbers[j], 1.0, np.minimum(near, 0.99))
    return near[whole]


def agreement_features(
    a: Table, i: IntArray, b: Table, j: IntArray, worths: Mapping[str, Worth]
) -> list[FloatArray]:
    """`AGREEMENT_FEATURES` of rows i of one table and j of another."""
    n = len(i)
    sums = {name: np.zeros(n) for name in AGREEMENT_FEATURES}
    sums["nearness least"] += 2.0
    for name, worth in worths.items():
        x, y = a.columns[name], b.columns[name]
        in_i, in_j = x.value(i) != 0, y.value(j) != 0
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
    common = compared(a.soup, i, b.soup, j)
    return [common.cosine, *masses(np.stack([a.soup.mass[i], b.soup.mass[j]]), common)]
