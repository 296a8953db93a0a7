"""The measurements, their fits and the plan: tables for people, one object for programs."""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any

from kbforge import __version__
from kbforge.words import percent
from kbforge_lab.bench.scale.fit import Between, Growth, Line
from kbforge_lab.bench.scale.measuring import PARTS, Measured, figures
from kbforge_lab.bench.scale.plan import AHEAD, SHARED, Fits, Needs, Wishes, needs
from kbforge_lab.bench.scale.shards import AHEAD as PENDING
from kbforge_lab.bench.scale.shards import Routed

_NONE = "none are enough"
_UNKNOWN = 1_000.0  # times the value: an interval up to there has no upper end
_UNITS = ((86_400.0, "days"), (3_600.0, "h"), (60.0, "min"), (0.0, "s"))


@dataclass(frozen=True, slots=True)
class Grid:
    """A table: what is above its columns, its rows, and what it is about."""

    title: str
    head: Sequence[str]
    rows: Sequence[Sequence[str]]


@dataclass(frozen=True, slots=True)
class Scaled:
    """All that a bench of sizes has found.

    Attributes:
        source: what was measured: a file's name, or that the records are made up.
        draw: how the parts of a file were drawn, in words.
        sizes: measured, ascending.
        wishes: what a worker has.

    """

    source: str
    draw: str
    sizes: Sequence[Measured]
    wishes: Wishes

    @property
    def fits(self) -> Fits:
        """How costs grow."""
        return Fits.of(self.sizes)

    @property
    def plans(self) -> list[Needs]:
        """What larger files would take."""
        fits = self.fits
        return [needs(fits, n, self.wishes) for n in AHEAD if n > self.sizes[-1].fragments]


def grids(scaled: Scaled) -> list[Grid]:
    """The tables."""
    tables = [_measured(scaled.sizes), _fitted(scaled.fits), _planned(scaled.plans)]
    return [*tables, *([_routed(routed)] if (routed := scaled.sizes[-1].routed) else [])]


def _measured(sizes: Sequence[Measured]) -> Grid:
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


def _line(name: str, found: Line, unit: str) -> list[str]:
    rule = f"{_digits(found.at(0).value)} + {_digits(1000 * found.slope)} a thousand"
    return [name, rule, f"{_digits(found.residual)} {unit}", str(found.points)]


def _planned(plans: Sequence[Needs]) -> Grid:
    head = ["fragments", "time, one process", "memory", "workers by memory", "by time"]
    rows = [
        [
            f"{one.fragments:,}",
            duration(one.seconds),
            "-" if one.gib is None else f"{_within(one.gib, 1)} GiB",
            "-" if one.by_memory is None else _whole(one.by_memory),
            _NONE if one.by_time is None else f"{one.by_time:,}",
            f"{duration(one.with_workers)} on {one.workers:,}",
        ]
        for one in plans
    ]
    return Grid("planned", [*head, "time with workers"], rows)


def _routed(found: Sequence[Routed]) -> Grid:
    head = ["shards", "messages a fragment", "crossing", "hand-overs a fragment", "skew"]
    rows = [
        [
            f"{one.shards:,}",
            f"{one.messages / one.fragments:.3f}",
            f"{100 * one.crossing / one.fragments:.1f} %",
            f"{one.moves / one.fragments:.3f}",
            f"{one.skew:.2f}",
            f"{one.fragments / max(one.seconds, 1e-9):,.0f}",
        ]
        for one in found
    ]
    return Grid("routed", [*head, "router, fragments/s"], rows)


def duration(seconds: Between) -> str:
    """A time and its interval, in the unit that suits it."""
    size, unit = next(one for one in _UNITS if seconds.value >= one[0])
    return f"{_within(seconds, size or 1.0)} {unit}"


def _within(found: Between, unit: float) -> str:
    value, low, high = (_digits(one / unit) for one in found)
    return f"{value} ({low} to {high if _is_known(found) else '?'})"


def _is_known(found: Between) -> bool:
    """Whether the interval says anything of its upper end."""
    return found.high < _UNKNOWN * found.value


def _whole(found: Between) -> str:
    value, low, high = (_NONE if math.isinf(one) else f"{one:,.0f}" for one in found)
    if value == _NONE:
        return _NONE
    return f"{value} ({low} to {high})"


def _digits(number: float) -> str:
    """Three digits that mean something."""
    return f"{number:,.0f}" if number >= 100 else f"{number:.3g}"


def sentences(scaled: Scaled) -> Iterator[str]:
    """What the plan takes for granted."""
    wishes, last = scaled.wishes, scaled.sizes[-1]
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
    yield (
        f"A worker has {wishes.gib:g} GiB and holds its share of everything (the busiest "
        "one, its larger share): fragments, keys and subproblems. What several workers hold "
        "twice, such as values that occur at all of them, is not counted."
    )
    yield (
        f"Workers share the {SHARED} alone; reading, preparing and writing stay in one process. "
        f"The shares are {'even' if not wishes.share else 'as the router was simulated'}. Messages "
        f"between machines cost nothing here. By time means: done within {wishes.hours:g} hours."
    )
    if last.routed:
        yield (
            f"The router was simulated on the {last.fragments:,} fragments, {PENDING} of them "
            "pending at a time, from the subproblems that the run ended with: what was connected "
            "for a while is left out, so messages and hand-overs are counted from below. Of "
            f"{last.routed[-1].shards:,} shards the busiest takes "
            f"{percent(last.routed[-1].busiest)} of the fragments; no "
            "number of workers is taken to do better."
        )
    yield from _bounds(scaled.plans)


def _bounds(plans: Sequence[Needs]) -> Iterator[str]:
    for bound, why in (
        ("memory", "memory asks for more workers than time does"),
        ("time", "time asks for more workers than memory does"),
        ("one worker", "the busiest worker holds too much, however many there are"),
        ("one process", "what one process does alone takes longer than it may"),
        ("neither", "one process is enough"),
    ):
        where = [f"{one.fragments:,}" for one in plans if one.bound == bound]
        if where:
            yield f"At {', '.join(where)} fragments {why}."


def markdown(scaled: Scaled) -> str:
    """The report as a page."""
    parts = ["# What a larger file would take\n"]
    for grid in grids(scaled):
        lines = [grid.head, ["---:"] * len(grid.head), *grid.rows]
        shown = "\n".join("| " + " | ".join(cells) + " |" for cells in lines)
        parts.append(f"## {grid.title.capitalize()}\n\n{shown}\n")
    parts.append("## Taken for granted\n")
    parts += [f"- {sentence}" for sentence in sentences(scaled)]
    return "\n".join(parts) + "\n"


def summary(scaled: Scaled) -> dict[str, Any]:
    """The same for programs: seconds, MiB, GiB."""
    fits, wishes = scaled.fits, scaled.wishes
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
        "worker": {"gib": wishes.gib, "hours": wishes.hours, "share": wishes.share},
        "plans": [_plan(one) for one in scaled.plans],
        "assumptions": list(sentences(scaled)),
    }


def _straight(found: Line) -> dict[str, float]:
    return {"fixed": found.at(0).value, "a_fragment": found.slope, "residual": found.residual}


def _plan(one: Needs) -> dict[str, Any]:
    return {
        "fragments": one.fragments,
        "seconds": one.seconds._asdict(),
        "parts": {part: found._asdict() for part, found in one.parts.items()},
        "gib": None if one.gib is None else one.gib._asdict(),
        "workers_by_memory": None if one.by_memory is None else one.by_memory._asdict(),
        "workers_by_time": one.by_time,
        "workers": one.workers,
        "seconds_with_workers": one.with_workers._asdict(),
        "bound": one.bound,
    }
