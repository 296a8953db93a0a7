"""The timeline of an entity: when each value was stated and held, as places between 0 and 100.

A bar goes from the first to the last statement. Behind it, until the value is contradicted or the
timeline ends, a value holds.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from datetime import UTC, datetime, timedelta

from kbforge.kb.times import Period, read_time
from kbforge_serve.answers import Facts

_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
_MOST_TICKS = 5
_STEPS = (1, 2, 5, 10, 20, 50, 100, 200, 500, 1_000, 2_000, 5_000)  # years between ticks
_LEAST_WIDTH = 1.0  # of a bar, so that a day in a century is seen
_NEAR_EDGE = 8  # where a tick is not in the middle of its text


def timeline(properties: Mapping[str, Sequence[Facts]], at: str) -> Facts | None:
    """Rows by attribute and first time, the years above them, and the place of a time `at`, if it
    is among them; None if no value has a time. Attributes with several values come first.

    Args:
        properties: values of attributes, as the page of an entity has them.
        at: "" if no time is asked for.

    """
    timed = {
        attribute: sorted(stated, key=lambda value: _period(value["first"]))
        for attribute, values in properties.items()
        if (stated := [value for value in values if value["first"] is not None])
    }
    if not timed:
        return None
    times = [
        _period(value[name])
        for values in timed.values()
        for value in values
        for name in ("first", "last", "until")
        if value[name] is not None
    ]
    whole = Period(min(time.begin for time in times), max(time.end for time in times))
    asked = read_time(at)
    is_within = asked is not None and whole.begin <= asked.end <= whole.end
    return {
        "rows": [
            (attribute, [_bar(value, values, whole) for value in values])
            for attribute, values in sorted(timed.items(), key=lambda item: len(item[1]) == 1)
        ],
        "ticks": _ticks(whole),
        "at": _place(asked.end, whole) if asked and is_within else None,
    }


def _bar(value: Facts, values: Iterable[Facts], whole: Period) -> Facts:
    """A value with the places of its bar, and the value that took its place."""
    start, last = _place(_period(value["first"]).begin, whole), _period(value["last"]).end
    width = max(_place(last, whole) - start, _LEAST_WIDTH)
    start = min(start, 100 - width)
    end = whole.end if value["until"] is None else max(_period(value["until"]).begin, last)
    then = (other["value"] for other in values if other["first"] == value["until"])
    return value | {
        "start": start,
        "width": width,
        "end": max(_place(end, whole), start + width),
        "then": None if value["until"] is None else next(then, None),
    }


def _ticks(whole: Period) -> list[tuple[float, str, str]]:
    """Places, texts, and which end of a text is there: beginnings of years or, in a shorter time,
    its first and its last day."""
    first, last = (_EPOCH + timedelta(microseconds=time) for time in whole)
    for step in _STEPS:
        years = [y for y in range(first.year, last.year + 1) if y % step == 0]
        places = [(_place(_period(f"{year:04}").begin, whole), str(year)) for year in years]
        found = [(place, year) for place, year in places if place >= 0]
        if len(found) <= _MOST_TICKS:
            break
    if len(found) < 2:
        found = [(0.0, first.date().isoformat()), (100.0, last.date().isoformat())]
    return [
        (at, said, "start" if at < _NEAR_EDGE else "end" if at > 100 - _NEAR_EDGE else "middle")
        for at, said in found
    ]


def _place(time: int, whole: Period) -> float:
    return round(100 * (time - whole.begin) / max(whole.end - whole.begin, 1), 2)


def _period(text: str) -> Period:
    found = read_time(text)
    assert found is not None, f"{text} is a time of a value"
    return found
