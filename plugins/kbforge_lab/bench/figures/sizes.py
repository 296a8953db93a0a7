"""Seconds against the number of fragments, one curve a program."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING

from kbforge.pictures.canvas import PALETTE, look, new_figure

if TYPE_CHECKING:
    from matplotlib.figure import Figure

_WIDTH, _HEIGHT = 6.5, 4.5


@look()
def seconds_by_size(curves: Mapping[str, Sequence[tuple[int, float]]]) -> Figure | None:
    """Seconds from file to result against fragments, both logarithmic.

    Args:
        curves: by program, (fragments, seconds) above 0.

    """
    shown = {name: sorted(points) for name, points in curves.items() if points}
    if not shown:
        return None
    figure = new_figure(_WIDTH, _HEIGHT)
    axes = figure.subplots()
    for place, (name, points) in enumerate(shown.items()):
        axes.plot(
            [n for n, _ in points],
            [seconds for _, seconds in points],
            "o-",
            ms=4,
            lw=1.3,
            label=name,
            color=PALETTE[place % len(PALETTE)],
        )
    axes.set_xscale("log")
    axes.set_yscale("log")
    axes.set_xlabel("fragments")
    axes.set_ylabel("seconds from file to result")
    axes.legend()
    return figure
