"""Charts as inline SVG: bars with their numbers beside them, and stated against right.

They are drawn at about the size of a telephone's screen, so that their letters stay legible there,
and take their colours from the page.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from html import escape

_WIDTH = 360
_ROW = 22
_LABEL = 84
_NUMBER = 70
_SIDE = 220  # of the square of `reliability`
_EDGE = 58


def bars(title: str, rows: Sequence[tuple[str, int]]) -> str:
    """A bar a row, its name before it and its number behind it.

    Args:
        title: for who cannot see it.
        rows: names, plain text, and numbers from 0.

    """
    most = max((number for _, number in rows), default=0) or 1
    room = _WIDTH - _LABEL - _NUMBER
    parts = []
    for k, (name, number) in enumerate(rows):
        y = k * _ROW
        # what is there is seen, however little it is
        width = max(room * number / most, 1.5) if number else 0
        parts.append(
            f'<text x="{_LABEL - 8}" y="{y + 15}" text-anchor="end">{escape(name)}</text>'
            f'<rect class="bar" x="{_LABEL}" y="{y + 4}" width="{width:.1f}" height="14" rx="2"/>'
            f'<text class="number" x="{_LABEL + width + 6:.1f}" y="{y + 15}">{number:,}</text>'
        )
    return _svg(title, _WIDTH, len(rows) * _ROW + 4, parts)


def reliability(title: str, points: Sequence[tuple[float, float, int]]) -> str:
    """How much is right of what is stated, each point as large as what it stands for.

    Args:
        title: for who cannot see it.
        points: stated, the share that is right, and of how many.

    """
    most = max((count for _, _, count in points), default=0) or 1

    def x(value: float) -> float:
        return _EDGE + _SIDE * value

    def y(value: float) -> float:
        return 10 + _SIDE * (1 - value)

    parts = [f'<line class="even" x1="{x(0)}" y1="{y(0)}" x2="{x(1)}" y2="{y(1)}"/>']
    for tick in (0.0, 0.25, 0.5, 0.75, 1.0):
        parts.append(
            f'<line class="grid" x1="{x(tick)}" y1="{y(0)}" x2="{x(tick)}" y2="{y(1)}"/>'
            f'<line class="grid" x1="{x(0)}" y1="{y(tick)}" x2="{x(1)}" y2="{y(tick)}"/>'
            f'<text class="number" x="{x(tick)}" y="{y(0) + 16}" text-anchor="middle">'
            f"{tick * 100:.0f} %</text>"
            f'<text class="number" x="{x(0) - 6}" y="{y(tick) + 4}" text-anchor="end">'
            f"{tick * 100:.0f} %</text>"
        )
    for stated, right, count in points:
        radius = 3 + 7 * math.sqrt(count / most)
        parts.append(
            f'<circle class="point" cx="{x(stated):.1f}" cy="{y(right):.1f}" r="{radius:.1f}">'
            f"<title>stated {stated * 100:.1f} %, right {right * 100:.1f} %, of {count:,}</title>"
            "</circle>"
        )
    parts.append(
        f'<text x="{x(0.5)}" y="{y(0) + 36}" text-anchor="middle">stated</text>'
        f'<text transform="translate(12 {y(0.5)}) rotate(-90)" text-anchor="middle">right</text>'
    )
    return _svg(title, _EDGE + _SIDE + 24, _SIDE + 52, parts)


def _svg(title: str, width: int, height: int, parts: Sequence[str]) -> str:
    return (
        f'<svg viewBox="0 0 {width} {height}" role="img" aria-label="{escape(title)}">'
        f"{''.join(parts)}</svg>"
    )
