"""Fits of measurements, with intervals for extrapolation.

The interval of a value at x_0 is that of a new observation by ordinary least squares,

    y_0 -+ t(.95, k - 2) s sqrt(1 + 1/k + (x_0 - mean x)^2 / S_xx),

90 % if the errors were normal and the line were true beyond the measurements, which no figure can
show (Draper and Smith, Applied Regression Analysis, section 3.1).

| symbol | meaning |
|---|---|
| k | points |
| s | standard deviation of the residuals, by k - 2 |
| S_xx | the sum of squares of x about their mean |
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import NamedTuple

from kbforge.errors import KBForgeError

LEAST_SIZES = 3
SPAN = 100
"""Costs are fitted on sizes from the largest one's hundredth: below, fixed costs rule."""

_MOST = 690.0  # of a logarithm, so that its exponential is a number
# 95 % quantiles of Student's t with 1, 2, ... degrees of freedom; the last also serves for more
_T95 = (6.314, 2.920, 2.353, 2.132, 2.015, 1.943, 1.895, 1.860, 1.833, 1.812)


class Between(NamedTuple):
    """A value and its interval."""

    value: float
    low: float
    high: float


@dataclass(frozen=True, slots=True)
class Line:
    """A straight line through points.

    Attributes:
        slope: of y by x.
        residual: standard deviation of the points about the line.
        points: k.
        mean_x: of the points.
        mean_y: of the points; the line goes through both.
        spread: S_xx.

    """

    slope: float
    residual: float
    points: int
    mean_x: float
    mean_y: float
    spread: float

    def at(self, x: float) -> Between:
        """The line there, with its interval."""
        value = self.mean_y + self.slope * (x - self.mean_x)
        away = (x - self.mean_x) ** 2 / self.spread
        t = _T95[min(self.points - 2, len(_T95)) - 1]
        half = t * self.residual * math.sqrt(1 + 1 / self.points + away)
        return Between(value, value - half, value + half)


def line(xs: Sequence[float], ys: Sequence[float]) -> Line:
    """The line of least squares."""
    mean_x, mean_y = _means(xs, ys)
    spread = math.fsum((x - mean_x) ** 2 for x in xs)
    if len(xs) < LEAST_SIZES or not spread:
        raise KBForgeError(
            f"a fit needs {LEAST_SIZES} sizes or more, got {len(set(xs))}; name more with --sizes"
        )
    slope = math.fsum((x - mean_x) * (y - mean_y) for x, y in zip(xs, ys, strict=True)) / spread
    errors = (y - mean_y - slope * (x - mean_x) for x, y in zip(xs, ys, strict=True))
    residual = math.sqrt(math.fsum(error**2 for error in errors) / (len(xs) - 2))
    return Line(slope, residual, len(xs), mean_x, mean_y, spread)


def _means(xs: Sequence[float], ys: Sequence[float]) -> tuple[float, float]:
    return math.fsum(xs) / len(xs), math.fsum(ys) / len(ys)


@dataclass(frozen=True, slots=True)
class Growth:
    """How a cost grows with the number of fragments.

    Attributes:
        power: log cost a fragment against log N; its slope is b - 1 where the cost is c N^b.
        straight: cost against N, for one that falls a fragment; None otherwise.
        last: the cost of the largest file measured.

    """

    power: Line
    straight: Line | None
    last: float

    @property
    def exponent(self) -> float:
        """The b of c N^b."""
        return 1 + self.power.slope

    def total(self, n: float) -> Between:
        """The cost of so many fragments, more than were measured."""
        if self.straight is not None:
            return Between(*(max(cost, self.last) for cost in self.straight.at(n)))
        found = self.power.at(math.log(n))
        return Between(*(max(n * math.exp(min(y, _MOST)), self.last) for y in found))


def growth(sizes: Sequence[int], costs: Sequence[float]) -> Growth:
    """Fit the costs of files of these sizes.

    A cost that falls a fragment has a fixed part. To believe that it falls for ever would make the
    largest files free. Such a cost is taken to be a fixed part and the same for every fragment.
    """
    begin = min(sum(SPAN * size < sizes[-1] for size in sizes), max(len(sizes) - LEAST_SIZES, 0))
    ns, found = sizes[begin:], costs[begin:]
    each = [math.log(cost / n) for n, cost in zip(ns, found, strict=True)]
    power = line(list(map(math.log, ns)), each)
    return Growth(power, line(ns, found) if power.slope < 0 else None, costs[-1])
