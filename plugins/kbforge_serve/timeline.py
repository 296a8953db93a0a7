"""The timeline of an entity: when each value was stated and held, as places between 0 and 100.

A bar goes from the first to the last statement of a span in which the value held. Behind it, until
the value is contradicted or the timeline ends, the value holds.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from datetime import UTC, datetime, timedelta

from kbforge.contracts.entity import Span
from kbforge.kb.times import Period, extent, last_of, period_of, read_time
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
        attribute: sorted(stated, key=lambda item: extent(item[1][0]))
        for attribute, values in properties.items()
        if (stated := [(value, _spans(value)) for value in values if value["held"]])
    }
    if not timed:
        return None
    times = [
        period_of(text)
        for stated in timed.values()
        for _, spans in stated
        for span in spans
        for text in (*span.stated, *([span.until] if span.until else ()))
    ]
    whole = Period(min(time.begin for time in times), max(time.end for time in times))
    asked = read_time(at)
    is_within = asked is not None and whole.begin <= asked.end <= whole.end
    return {
        "rows": [
            (attribute, [one | {"bars": [_bar(s, whole) for s in spans]} for one, spans in stated])
            for attribute, stated in sorted(timed.items(), key=lambda item: len(item[1]) == 1)
        ],
        "ticks": _ticks(whole),
        "at": _place(asked.end, whole) if asked and is_within else None,
    }


def _spans(value: Facts) -> list[Span]:
    return [Span(tuple(span["stated"]), span.get("until")) for span in value["held"]]


def _bar(span: Span, whole: Period) -> Facts:
    """The places of a span: of its statements, and of the end of what held."""
    begin, held = extent(span)
    start = _place(begin, whole)
    width = max(_place(period_of(last_of(span)).end, whole) - start, _LEAST_WIDTH)
    start = min(start, 100 - width)
    return {
        "start": start,
        "width": width,
        "end": max(_place(min(held, whole.end), whole), start + width),
        "ends": span.until is not None,
    }


def _ticks(whole: Period) -> list[tuple[float, str, str]]:
    """Places, texts, and which end of a text is there: beginnings of years or, in a shorter time,
    its first and its last day."""
    first, last = (_EPOCH + timedelta(microseconds=time) for time in whole)
    for step in _STEPS:
        years = [y for y in range(first.year, last.year + 1) if y % step == 0]
        places = [(_place(period_of(f"{year:04}").begin, whole), str(year)) for year in years]
        found = [(place, year) for place, year in places if place >= 0]
        if len(found) <= _MOST_TICKS:
            break
    if len(found) < 2:
        found = [(0.0, first.date().isoformat()), (100.0, last.date().isoformat())]
    return [
        (at, said, "start" if at < _NEAR_EDGE else "end" if at > 100 - _NEAR_EDGE else "middle")
        for at, said in found
    ]


def _place(time: float, whole: Period) -> float:
    return round(100 * (time - whole.begin) / max(whole.end - whole.begin, 1), 2)
