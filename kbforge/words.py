"""Counts, durations, lists and probabilities in plain words."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from kbforge.errors import option, quoted

_SHOWN = 80  # characters of an id and its source
_LONGEST_NAME = 200  # characters; the rest of a longer name is not compared


def percent(probability: float) -> str:
    """A probability as a percentage, never rounded to 0 % or 100 %."""
    if 0.995 <= probability < 1:
        return "over 99 %"
    if 0 < probability < 0.01:
        return "under 1 %"
    return f"{probability:.0%}".replace("%", " %")


_SURE = ((0.95, "almost certain"), (0.8, "very likely"), (0.6, "likely"), (0.4, "uncertain"))


def how_sure(probability: float) -> str:
    """A probability in words, from `almost certain` to `very unlikely`."""
    for least, said in _SURE:
        if probability >= least:
            return said
    return "unlikely" if probability >= 0.2 else "very unlikely"


def counted(count: int, noun: str, plural: str | None = None) -> str:
    """`3 fragments`, `1 fragment`; give a plural that is not formed with s."""
    return f"{count:,} {noun if count == 1 else plural or noun + 's'}"


def lasting(seconds: float) -> str:
    """A rough duration: `about 40 seconds`, `about 25 minutes`, `about 3 hours`."""
    if seconds < 90:
        return f"about {counted(max(round(seconds), 1), 'second')}"
    if seconds < 5400:
        return f"about {counted(round(seconds / 60), 'minute')}"
    return f"about {counted(round(seconds / 3600), 'hour')}"


def listed(items: Sequence[str], most: int, limit: int = _SHOWN) -> str:
    """The first `most` items, each cut to `limit` characters, and the number of others."""
    shown = ", ".join(quoted(item, limit) for item in items[:most])
    return shown if len(items) <= most else f"{shown} and {len(items) - most:,} more"


_MOST_COLUMNS = 12


def columns_differ(own: str, has: Sequence[str], others: str, have: Sequence[str]) -> str:
    """The columns of two sides, and how to map one to another."""
    mine, theirs = (listed(columns, _MOST_COLUMNS) or "none" for columns in (has, have))
    return (
        f"{own} {mine}, {others} {theirs}; {option('map', 'COLUMN=ATTRIBUTE')} makes two columns "
        "one attribute"
    )


def did_you_mean(name: str, known: Iterable[str]) -> str:
    """` (did you mean "x"?)` if one of the known names resembles a wrong one, else nothing."""
    from difflib import get_close_matches  # only for mistakes

    close = get_close_matches(name[:_LONGEST_NAME], list(known), 1)
    return f' (did you mean "{quoted(close[0])}"?)' if close else ""
