"""How two attributes of a file differ within one entity: debuts are 15 to 35 years after births.

A *measure* is a number that a value states: a plain number, an amount, or a date in years. For two
attributes a and b, the rows that state both teach a *rule* without labels (Fellegi and Sunter
1969): the log ratio, in nats and by bins of the difference d of the measures, of d's frequency
within these rows to its frequency among random pairs of their values,

    log ratio(bin) = log ((n_bin + s u_bin) / ((n + s) u_bin))

where n rows state both, n_bin of them with a difference in the bin, and u_bin is the share of
random pairs in it. Bins contain equally much of both kinds of differences together. The smoothing s
assumes independent attributes, so that a difference which no row has says more if there are more
rows. A rule is kept if it explains more than chance would: under independence, n times the mean log
ratio is about half the number of bins.

In a pair of rows, a rule compares the a of each with the b of the other. If both state a, or both
state b, their comparison says most of this, because a and b agree within each row: such a
difference counts for the least evidence, but not for the sum.
"""

from __future__ import annotations

import re
from collections.abc import Collection
from dataclasses import dataclass
from functools import lru_cache
from itertools import combinations
from math import isqrt

import numpy as np

from kbforge.contracts import FloatArray, IntArray
from kbforge.kernel.binding import address
from kbforge.texts.kinds import amount, parse_date
from kbforge_plugins.likelihoods.pairs.bags import Part, PartReader
from kbforge_plugins.likelihoods.pairs.table import Column, RecordTable

DIFFERENCE_FEATURES = ("difference evidence", "difference evidence least", "difference pairs")
_PLAIN = re.compile(r"-?\d{1,15}(?:\.\d{1,17})?", re.ASCII)
_LONGEST = 40
_SAMPLE = 500
_SHARE = 0.5
"""Share of an attribute's values above which it is one of measures."""
_FEWEST = 20
"""Minimum number of rows that teach a rule."""
_BINS = 32
_GRID = 256
_SMOOTHING = 2.0
_MOST_NATS = 8.0
_MOST_RULES = 10


@lru_cache(maxsize=1 << 16)
def measure(value: str) -> float:
    """The number that a value states, or the year of a date and its part that has passed; NaN for
    none."""
    if len(value) > _LONGEST:
        return np.nan
    if _PLAIN.fullmatch(value):
        return float(value)
    stated = amount(value)
    if stated >= 0:
        return stated
    date = parse_date(value)
    if date is None:
        return np.nan
    year, month, day = date
    # typos make months such as 86
    months = min(max(int(month or 1), 1), 12) - 1
    return int(year) + (months + (min(max(int(day or 1), 1), 31) - 1) / 31) / 12


@dataclass(eq=False)
class Differences:
    """The rules of a file: shapes [rules, 2] of places in `attributes`, [rules, bins - 1] and
    [rules, bins]."""

    attributes: tuple[str, ...]
    which: IntArray
    bounds: FloatArray
    log_ratio: FloatArray

    def __post_init__(self) -> None:
        sizes, arrays = (len(self), len(self.attributes)), (self.which, self.bounds, self.log_ratio)
        self.told = np.array((*sizes, *map(address, arrays)), np.int64)  # what the kernel reads

    def __len__(self) -> int:
        return len(self.which)

    @classmethod
    def fitted(cls, table: RecordTable) -> Differences:
        """Learn the rules from the rows of a file, the most informative ones."""
        names = [name for name, column in table.columns.items() if _states_measures(column)]
        measures = _measures(table, names).T
        found = []
        for which in combinations(range(len(names)), 2):
            x, y = measures[:, ~np.isnan(measures[which, :]).any(axis=0)][which, :]
            if len(x) >= _FEWEST:
                gain, *rule = _rule(x, y)
                found.append((-gain, which, rule))
        kept = sorted((one for one in found if one[0] < 0), key=lambda one: one[:2])[:_MOST_RULES]
        used = sorted({at for _, which, _ in kept for at in which})
        return cls(
            tuple(names[at] for at in used),
            np.searchsorted(used, np.array([which for _, which, _ in kept]).reshape(-1, 2)),
            np.array([bounds for _, _, (bounds, _) in kept]).reshape(-1, _BINS - 1),
            np.array([log_ratio for _, _, (_, log_ratio) in kept]).reshape(-1, _BINS),
        )

    def read(self, table: RecordTable) -> FloatArray:
        """The measures that rows state, shape [rows, attributes]; NaN for none."""
        return _measures(table, self.attributes)

    def compared(self, a: FloatArray, i: IntArray, b: FloatArray, j: IntArray) -> FloatArray:
        """How much the rules say of each attribute of rows i of the first, either way: nats, shape
        [attributes, pairs]."""
        out = np.zeros((len(self.attributes), len(i)))
        for (one, other), bounds, log_ratio in zip(
            self.which.tolist(), self.bounds, self.log_ratio, strict=True
        ):
            for mine, difference in (
                (one, b[j, other] - a[i, one]),
                (other, a[i, other] - b[j, one]),
            ):
                said = np.abs(log_ratio[np.searchsorted(bounds, difference, side="right")])
                out[mine] += np.where(np.isnan(difference), 0.0, said)
        return out

    def dump(self) -> Part:
        return {
            "attributes": list(self.attributes),
            "which": self.which,
            "bounds": self.bounds,
            "log_ratio": self.log_ratio,
        }

    @classmethod
    def load(cls, kept: PartReader, columns: Collection[str]) -> Differences:
        """Load the form of `dump`, for a table with these columns."""
        attributes = kept.names("attributes")
        unknown = [name for name in attributes if name not in columns]
        if unknown:
            raise kept.damaged("attributes", "attributes of the file", "others")
        which = kept.array("which", np.int64, -1, 2, low=0, high=len(attributes) - 1)
        bounds = kept.array("bounds", np.float64, len(which), _BINS - 1)
        if np.any(np.diff(bounds, axis=1) < 0):
            raise kept.damaged("bounds", "ascending numbers", "others")
        most = _MOST_NATS
        log_ratio = kept.array("log_ratio", np.float64, len(which), _BINS, low=-most, high=most)
        return cls(attributes, which, bounds, log_ratio)


def _states_measures(column: Column) -> bool:
    """Whether enough of a column's values, or of a sample of them, are measures."""
    stated = np.flatnonzero(column.numbers)
    some = stated[:: max(1, len(stated) // _SAMPLE)].tolist()
    found = [measure(column.text[at]) for at in some]
    return bool(np.count_nonzero(~np.isnan(found)) > _SHARE * len(found))


def _measures(table: RecordTable, names: Collection[str]) -> FloatArray:
    """The measures that rows state of these attributes, shape [rows, attributes]."""
    out = np.empty((len(table), len(names)))
    for at, name in enumerate(names):
        column = table.columns[name]
        values = [measure(column.text[k]) for k in range(len(column.numbers))]
        out[:, at] = np.array(values, np.float64)[column.which]
    return out


def _rule(x: FloatArray, y: FloatArray) -> tuple[float, FloatArray, FloatArray]:
    """How much the rows that state x and y, shape [rows], tell beyond chance, nats, and the rule's
    bounds and log ratios."""
    within = y - x
    chance = np.subtract.outer(_spread(y), _spread(x)).ravel()
    bins = min(_BINS, isqrt(len(within)))
    both = np.sort(np.concatenate([_spread(within), _spread(chance)]))
    # of fewer rows there are fewer bins: some bounds are equal, and nothing is between them
    bounds = both[np.arange(1, _BINS) * bins // _BINS * len(both) // bins]
    seen, by_chance = (
        np.bincount(np.searchsorted(bounds, some, side="right"), minlength=_BINS)
        for some in (within, chance)
    )
    u = (by_chance + 0.5) / (len(chance) + 0.5 * _BINS)
    m = (seen + _SMOOTHING * u) / (len(within) + _SMOOTHING)
    log_ratio = np.clip(np.log(m / u), -_MOST_NATS, _MOST_NATS)
    return float(len(within) * (m @ log_ratio) - bins), bounds, log_ratio


def _spread(values: FloatArray) -> FloatArray:
    """As many values as the grid has, equally far apart in their order."""
    places = (2 * np.arange(_GRID) + 1) * len(values) // (2 * _GRID)
    return np.sort(values)[places]
