"""Lines through measurements, and how far beyond them they can be trusted.

The interval of a value at x_0 is that of a new observation by ordinary least squares,

    y_0 -+ t(.95, k - p) s sqrt(1 + 1/k + (x_0 - mean x)^2 / S_xx),

90 % if the errors were normal and the line were true beyond the measurements, which no figure can
show (Draper and Smith, Applied Regression Analysis, section 3.1).

| symbol | meaning |
|---|---|
| k | points |
| p | numbers fitted: 2, or 1 for a constant |
| s | standard deviation of the residuals, by k - p |
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
        slope: 0 of a constant.
        residual: standard deviation of the points about the line.
        points: k.
        free: degrees of freedom, k - p.
        mean_x: of the points.
        mean_y: of the points; the line goes through both.
        spread: S_xx; infinite of a constant, whose slope is not in doubt.

    """

    slope: float
    residual: float
    points: int
    free: int
    mean_x: float
    mean_y: float
    spread: float

    def at(self, x: float) -> Between:
        """The line there, with its interval."""
        value = self.mean_y + self.slope * (x - self.mean_x)
        away = (x - self.mean_x) ** 2 / self.spread
        t = _T95[min(self.free, len(_T95)) - 1]
        half = t * self.residual * math.sqrt(1 + 1 / self.points + away)
        return Between(value, value - half, value + half)


def line(xs: Sequence[float], ys: Sequence[float]) -> Line:
    """The line of least squares.

    Raises:
        KBForgeError: there are fewer than three points, or all are at one place.

    """
    mean_x, mean_y = _means(xs, ys)
    spread = math.fsum((x - mean_x) ** 2 for x in xs)
    if len(xs) < LEAST_SIZES or not spread:
        raise KBForgeError(
            f"a fit needs {LEAST_SIZES} sizes or more, got {len(set(xs))}; name more with --sizes"
        )
    slope = math.fsum((x - mean_x) * (y - mean_y) for x, y in zip(xs, ys, strict=True)) / spread
    residual = _residual(xs, ys, slope, len(xs) - 2)
    return Line(slope, residual, len(xs), len(xs) - 2, mean_x, mean_y, spread)


def _constant(xs: Sequence[float], ys: Sequence[float]) -> Line:
    """A line without a slope."""
    free = len(xs) - 1
    return Line(0.0, _residual(xs, ys, 0.0, free), len(xs), free, *_means(xs, ys), math.inf)


def _means(xs: Sequence[float], ys: Sequence[float]) -> tuple[float, float]:
    return math.fsum(xs) / len(xs), math.fsum(ys) / len(ys)


def _residual(xs: Sequence[float], ys: Sequence[float], slope: float, free: int) -> float:
    mean_x, mean_y = _means(xs, ys)
    errors = (y - mean_y - slope * (x - mean_x) for x, y in zip(xs, ys, strict=True))
    return math.sqrt(math.fsum(error**2 for error in errors) / free)


@dataclass(frozen=True, slots=True)
class Growth:
    """How the cost of one fragment grows with their number: c N^b.

    Attributes:
        line: of log cost against log N, as extrapolated.
        measured: b as fitted; the line's is 0 where that is below 0.
        least: the least cost a fragment that was measured.

    """

    line: Line
    measured: float
    least: float

    def total(self, n: float) -> Between:
        """The cost of so many fragments together."""
        found = self.line.at(math.log(n))
        value, low, high = (n * math.exp(min(y, 700.0)) for y in found)
        return Between(value, min(value, max(low, n * self.least)), high)


def growth(sizes: Sequence[int], costs: Sequence[float]) -> Growth:
    """Fit the costs of files of these sizes.

    A cost that falls a fragment has a fixed part. To believe in the fall beyond what was measured
    would make the largest files free. So the cost a fragment of the three largest files is then
    taken to last.

    Args:
        sizes: fragments, ascending.
        costs: of each whole file, above 0.

    Raises:
        KBForgeError: as `line`.

    """
    begin = min(
        sum(SPAN * size < sizes[-1] for size in sizes), max(len(sizes) - LEAST_SIZES, 0)
    )
    each = [cost / size for size, cost in zip(sizes[begin:], costs[begin:], strict=True)]
    xs, ys = list(map(math.log, sizes[begin:])), list(map(math.log, each))
    fitted = line(xs, ys)
    last = fitted if fitted.slope >= 0 else _constant(xs[-LEAST_SIZES:], ys[-LEAST_SIZES:])
    return Growth(last, fitted.slope, min(each))
