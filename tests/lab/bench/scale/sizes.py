"""Sizes that were never run, with costs by rule."""

from __future__ import annotations

from collections.abc import Callable

from kbforge_lab.bench.scale.measuring import PARTS, Measurement


def size(n: int, seconds: Callable[[int], float], mib: float | None = None) -> Measurement:
    """A size of which every part but reading, which takes a second, takes so many seconds."""
    wall = {part: 1.0 if part == "reading" else seconds(n) for part in PARTS}
    return Measurement(
        fragments=n,
        entities=n // 2,
        subproblems=n // 4,
        clusters=n,
        largest=5,
        wall=wall,
        cpu=wall,
        starting=0.5,
        peak_mib=mib,
        held_mib=dict.fromkeys(PARTS, mib),
        likelihood="attributes",
        kernel="a kernel",
        written=100 * n,
    )
