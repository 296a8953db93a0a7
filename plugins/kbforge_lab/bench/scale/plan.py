"""Fits measured costs and plans larger files, with intervals.

| cost | fitted as | where a fragment gets cheaper |
|---|---|---|
| seconds of reading, preparing, clustering, writing, each | c N^b | fixed + m N |
| peak of memory | fixed + m N | |
| entities, subproblems | c N^b, to be told | |

The interval of a value at x_0 is that of a new observation by ordinary least squares,

    y_0 -+ t(.95, k - 2) s sqrt(1 + 1/k + (x_0 - mean x)^2 / S_xx),

for k points, s the standard deviation of the residuals by k - 2, S_xx the sum of squares of x about
their mean: 90 % if the errors were normal and the line were true beyond the measurements, which no
figure can show (Draper and Smith, Applied Regression Analysis, section 3.1). The interval of a sum
adds the ends of its parts' intervals: their errors go together.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple

from kbforge import __version__
from kbforge.errors import KBForgeError
from kbforge_lab.bench.report import Grid
from kbforge_lab.bench.scale.measuring import PARTS, Measurement, figures

LEAST_SIZES = 3
SPAN = 100
"""Costs are fitted on sizes from the largest one's hundredth: below, fixed costs rule."""

_MOST = 690.0  # of a logarithm, so that its exponential is a number
# 95 % quantiles of Student's t with 1, 2, ... degrees of freedom; the last also serves for more
_T95 = (6.314, 2.920, 2.353, 2.132, 2.015, 1.943, 1.895, 1.860, 1.833, 1.812)


class Interval(NamedTuple):
    """A value and its interval."""

    value: float
    low: float
    high: float


@dataclass(frozen=True, slots=True)
class LineFit:
    """A straight line through points."""

    slope: float
    residual: float  # standard deviation of the points about the line
    points: int
    mean_x: float
    mean_y: float
    spread: float

    def at(self, x: float) -> Interval:
        value = self.mean_y + self.slope * (x - self.mean_x)
        away = (x - self.mean_x) ** 2 / self.spread
        t = _T95[min(self.points - 2, len(_T95)) - 1]
        half = t * self.residual * math.sqrt(1 + 1 / self.points + away)
        return Interval(value, value - half, value + half)


def line(xs: Sequence[float], ys: Sequence[float]) -> LineFit:
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
    return LineFit(slope, residual, len(xs), mean_x, mean_y, spread)


def _means(xs: Sequence[float], ys: Sequence[float]) -> tuple[float, float]:
    return math.fsum(xs) / len(xs), math.fsum(ys) / len(ys)


@dataclass(frozen=True, slots=True)
class Growth:
    """How a cost grows with the number of fragments."""

    power: LineFit  # log cost per fragment against log N: slope b - 1 where the cost is c N^b
    straight: LineFit | None  # cost against N, for a cost that falls per fragment
    last: float

    @property
    def exponent(self) -> float:
        return 1 + self.power.slope

    def total(self, n: float) -> Interval:
        """The cost of this many fragments, more than were measured."""
        if self.straight is not None:
            return Interval(*(max(cost, self.last) for cost in self.straight.at(n)))
        found = self.power.at(math.log(n))
        return Interval(*(max(n * math.exp(min(y, _MOST)), self.last) for y in found))


def growth(sizes: Sequence[int], costs: Sequence[float]) -> Growth:
    """Fit the costs of files of these sizes.

    A cost that falls per fragment is a fixed part and a constant cost for each: extrapolating the
    fall would make the largest files free.
    """
    begin = min(sum(SPAN * size < sizes[-1] for size in sizes), max(len(sizes) - LEAST_SIZES, 0))
    ns, found = sizes[begin:], costs[begin:]
    each = [math.log(cost / n) for n, cost in zip(ns, found, strict=True)]
    power = line(list(map(math.log, ns)), each)
    return Growth(power, line(ns, found) if power.slope < 0 else None, costs[-1])


AHEAD = (10**7, 10**8, 10**9)
_MIB_A_GIB = 1024
_LEAST_SECONDS = 1e-6  # below what clocks show


@dataclass(frozen=True, slots=True)
class Fits:
    """How costs grow."""

    time: Mapping[str, Growth]
    memory: LineFit | None  # MiB by fragments
    counts: Mapping[str, Growth]

    @classmethod
    def of(cls, sizes: Sequence[Measurement]) -> Fits:
        ns = [one.fragments for one in sizes]
        peaks = [one.peak_mib for one in sizes if one.peak_mib is not None]
        return cls(
            {
                part: growth(ns, [max(one.own(part), _LEAST_SECONDS) for one in sizes])
                for part in PARTS
            },
            line(ns, peaks) if len(peaks) == len(ns) else None,
            {
                "entities": growth(ns, [one.entities for one in sizes]),
                "subproblems": growth(ns, [one.subproblems for one in sizes]),
            },
        )


@dataclass(frozen=True, slots=True)
class Requirements:
    """The cost of this many fragments in one process; None if the memory is unknown."""

    fragments: int
    seconds: Interval
    parts: Mapping[str, Interval]
    gib: Interval | None


def needs(fits: Fits, n: int) -> Requirements:
    """The cost of this many fragments."""
    parts = {part: found.total(n) for part, found in fits.time.items()}
    gib = None if fits.memory is None else _memory(fits.memory, n)
    return Requirements(n, _sum(parts), parts, gib)


def _memory(fitted: LineFit, n: int) -> Interval:
    """The line, which may not go below what was measured of smaller files; GiB."""
    value, low, high = (max(mib, fitted.mean_y) / _MIB_A_GIB for mib in fitted.at(n))
    return Interval(value, low, high)


def _sum(parts: Mapping[str, Interval]) -> Interval:
    return Interval(*(sum(ends) for ends in zip(*parts.values(), strict=True)))


_UNKNOWN = 1_000.0  # times the value: an interval up to there has no upper end
_UNITS = ((86_400.0, "days"), (3_600.0, "h"), (60.0, "min"), (0.0, "s"))


@dataclass(frozen=True, slots=True)
class ScaleReport:
    """All that a bench of sizes has found."""

    source: str  # the file's name, or that the records are made up
    draw: str  # how the parts were drawn, in words
    sizes: Sequence[Measurement]

    @property
    def fits(self) -> Fits:
        return Fits.of(self.sizes)

    @property
    def plans(self) -> list[Requirements]:
        fits = self.fits
        return [needs(fits, n) for n in AHEAD if n > self.sizes[-1].fragments]


def grids(scaled: ScaleReport) -> list[Grid]:
    """The tables."""
    return [_measured(scaled.sizes), _fitted(scaled.fits), _planned(scaled.plans)]


def _measured(sizes: Sequence[Measurement]) -> Grid:
    head = ["fragments", "on the wall", *PARTS, "processor s", "engine/s", "peak MiB"]
    rows = []
    for one in sizes:
        rows.append(
            [
                f"{one.fragments:,}",
                _digits(one.seconds),
                *(_digits(one.own(part)) for part in PARTS),
                _digits(sum(one.cpu.values())),
                f"{one.engine_per_second:,.0f}",
                "-" if one.peak_mib is None else f"{one.peak_mib:,.0f}",
                f"{one.entities:,}",
                f"{one.subproblems:,}",
            ]
        )
    return Grid("measured", [*head, "entities", "subproblems"], rows)


def _fitted(fits: Fits) -> Grid:
    rows = [_grown(f"{part}, s", found, "s") for part, found in fits.time.items()]
    if fits.memory is not None:
        rows.append(_line("peak of memory, MiB", fits.memory, "MiB"))
    for name, found in fits.counts.items():
        rows.append(_power(name, found))
    return Grid("fitted", ["", "grows as", "residual", "sizes"], rows)


def _grown(name: str, found: Growth, unit: str) -> list[str]:
    return _power(name, found) if found.straight is None else _line(name, found.straight, unit)


def _power(name: str, found: Growth) -> list[str]:
    residual = f"{100 * found.power.residual:.1f} %"
    return [name, f"N^{found.exponent:.2f}", residual, str(found.power.points)]


def _line(name: str, found: LineFit, unit: str) -> list[str]:
    rule = f"{_digits(found.at(0).value)} + {_digits(1000 * found.slope)} a thousand"
    return [name, rule, f"{_digits(found.residual)} {unit}", str(found.points)]


def _planned(plans: Sequence[Requirements]) -> Grid:
    rows = [
        [
            f"{one.fragments:,}",
            duration(one.seconds),
            "-" if one.gib is None else f"{_within(one.gib, 1)} GiB",
        ]
        for one in plans
    ]
    return Grid("planned", ["fragments", "time", "memory"], rows)


def duration(seconds: Interval) -> str:
    """A time and its interval, in the unit that suits it."""
    size, unit = next(one for one in _UNITS if seconds.value >= one[0])
    return f"{_within(seconds, size or 1.0)} {unit}"


def _within(found: Interval, unit: float) -> str:
    value, low, high = (_digits(one / unit) for one in found)
    return f"{value} ({low} to {high if _is_known(found) else '?'})"


def _is_known(found: Interval) -> bool:
    """Whether the interval says anything of its upper end."""
    return found.high < _UNKNOWN * found.value


def _digits(number: float) -> str:
    """Three digits that mean something."""
    return f"{number:,.0f}" if number >= 100 else f"{number:.3g}"


def sentences(scaled: ScaleReport) -> Iterator[str]:
    """What the plan takes for granted."""
    last = scaled.sizes[-1]
    yield (
        f"Measured on {scaled.source} ({scaled.draw}), likelihood {last.likelihood}, KBForge "
        f"{__version__}, {last.kernel}. The seconds of a part are those on the wall, or of the "
        "processor where that is less: then it waited for other programs of the machine."
    )
    yield (
        "The seconds of each part are fitted as c N^b on the sizes from the largest one's "
        "hundredth. Where a fragment gets cheaper as there are more of them, there is a fixed "
        "cost; the part is then fitted as a fixed cost and the same for every fragment."
    )
    yield (
        "In brackets are 90 % intervals of a new measurement, if the fit holds. Whether it holds a "
        "thousand times beyond the last size, no interval can say: measure as large a part as you "
        "can with --sizes. A question mark is an upper end of more than a thousand times the "
        "value: more sizes, or a quieter machine, would narrow it."
    )
    yield (
        "What grows with the fragments: the input, which is held; the distinct values and keys; "
        "the subproblems with their clusters and particles. What does not grow: the families that "
        "a fragment is compared with (the index bounds them) and the particles of a subproblem."
    )


def markdown(scaled: ScaleReport) -> str:
    """The report as a page."""
    parts = ["# What a larger file would take\n"]
    for grid in grids(scaled):
        parts.append(f"## {grid.title.capitalize()}\n\n{grid.markdown()}\n")
    parts.append("## Taken for granted\n")
    parts += [f"- {sentence}" for sentence in sentences(scaled)]
    return "\n".join(parts) + "\n"


def summary(scaled: ScaleReport) -> dict[str, Any]:
    """The same for programs: seconds, MiB, GiB."""
    fits = scaled.fits
    growths = {**fits.time, **fits.counts}
    memory = fits.memory
    return {
        "source": scaled.source,
        "draw": scaled.draw,
        "version": __version__,
        "sizes": [
            {
                **figures(one),
                "seconds": one.seconds,
                "engine_per_second": one.engine_per_second,
            }
            for one in scaled.sizes
        ],
        "fits": {
            name: {
                "exponent": found.exponent,
                "residual_log": found.power.residual,
                "straight": None if found.straight is None else _straight(found.straight),
                "sizes": found.power.points,
            }
            for name, found in growths.items()
        },
        "memory_mib": None if memory is None else _straight(memory),
        "plans": [_plan(one) for one in scaled.plans],
        "assumptions": list(sentences(scaled)),
    }


def _straight(found: LineFit) -> dict[str, float]:
    return {"fixed": found.at(0).value, "a_fragment": found.slope, "residual": found.residual}


def _plan(one: Requirements) -> dict[str, Any]:
    return {
        "fragments": one.fragments,
        "seconds": one.seconds._asdict(),
        "parts": {part: found._asdict() for part, found in one.parts.items()},
        "gib": None if one.gib is None else one.gib._asdict(),
    }
