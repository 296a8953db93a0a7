"""Counts, lists and probabilities in plain words."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from kbforge.errors import quoted

_SHOWN = 80  # characters of an id and its source
_LONGEST_NAME = 200  # characters; longer ones are compared no further


def percent(probability: float) -> str:
    """A probability to the percent, never rounded to certainty."""
    if 0.995 <= probability < 1:
        return "over 99 %"
    if 0 < probability < 0.01:
        return "under 1 %"
    return f"{probability:.0%}".replace("%", " %")


def counted(count: int, noun: str, plural: str | None = None) -> str:
    """`3 fragments`, `1 fragment`; a plural is told where it is more than an s."""
    return f"{count:,} {noun if count == 1 else plural or noun + 's'}"


def lasting(seconds: float) -> str:
    """A duration, roughly: `about 40 seconds`, `about 25 minutes`, `about 3 hours`."""
    if seconds < 90:
        return f"about {counted(max(round(seconds), 1), 'second')}"
    if seconds < 5400:
        return f"about {counted(round(seconds / 60), 'minute')}"
    return f"about {counted(round(seconds / 3600), 'hour')}"


def listed(items: Sequence[str], most: int, limit: int = _SHOWN) -> str:
    """The first items, each cut to `limit` characters, and how many more there are."""
    shown = ", ".join(quoted(item, limit) for item in items[:most])
    return shown if len(items) <= most else f"{shown} and {len(items) - most:,} more"


def did_you_mean(name: str, known: Iterable[str]) -> str:
    """` (did you mean "x"?)` if one of the known names is close to a wrong one, else nothing."""
    from difflib import get_close_matches  # only a mistake needs it

    close = get_close_matches(name[:_LONGEST_NAME], list(known), 1)
    return f' (did you mean "{quoted(close[0])}"?)' if close else ""
