"""When facts were stated: reads times of fragments, and says from when to when values hold.

Metadata have the time of all that a fragment states under the name `RunOptions.time`; those of
single values, as graphs state them, under `TIMES`, each with begin and end, "" if unknown:

    {"employer": {"Acme": [["2015", "2019-03"]]}}

A time is a text in ISO 8601, such as 2019, 2019-03 or 2019-03-01T10:00Z; without a zone it is UTC.
Texts stay as stated, and are compared as periods of microseconds.

| member of a value | meaning |
|---|---|
| first | of the times with which it was stated, the one that begins first |
| last | the one that ends last |
| until | from when it no longer holds: another value contradicts it, or a source gives its end |

Where an attribute has one value at a time (not in `Corpus.several`), a value v is contradicted by
each w whose last(w) begins after last(v) ends: from the earliest first(w), or at once if w was
stated before. So the order of statements does not matter, and a later one adds `until` to a value,
but removes none.
"""

from __future__ import annotations

from calendar import isleap, monthrange
from collections.abc import Collection, Iterator, Sequence
from datetime import UTC, datetime
from functools import lru_cache
from itertools import chain
from typing import TYPE_CHECKING, NamedTuple, TypeAlias

import numpy as np
import orjson

from kbforge.contracts import Fragment, IntArray, Value
from kbforge.contracts.fragment import TIMES
from kbforge.errors import UsageError, counted, option, quoted
from kbforge.files.columns import metadata_of

if TYPE_CHECKING:
    from kbforge.kb.entities import Annotator, EntityColumns

EXPECTED = "a time such as 2019, 2019-03 or 2019-03-01T10:00Z"
"""What an error about a time expects."""
_EPOCH, _OF_DAY = datetime(1970, 1, 1, tzinfo=UTC), 86_400_000_000  # microseconds
_YEAR, _MONTH, _DAY = 4, 7, 10  # characters


class Period(NamedTuple):
    """The first and the last microsecond of a time, since 1970, UTC."""

    begin: int
    end: int


@lru_cache(maxsize=1 << 16)
def read_time(text: str) -> Period | None:
    """The period of a text in ISO 8601; None if it is not one."""
    rest = {_YEAR: "-01-01", _MONTH: "-01"}.get(len(text), "") if text[_YEAR:5] in ("", "-") else ""
    try:
        found = datetime.fromisoformat(text + rest)
        since = (found if found.tzinfo else found.replace(tzinfo=UTC)) - _EPOCH
    except (ValueError, OverflowError):
        return None
    begin = since.days * _OF_DAY + since.seconds * 1_000_000 + since.microseconds
    if len(text) > _DAY:
        return Period(begin, begin)
    of_year, of_month = 365 + isleap(found.year), monthrange(found.year, found.month)[1]
    return Period(begin, begin + {_YEAR: of_year, _MONTH: of_month}.get(len(text), 1) * _OF_DAY - 1)


class StatedTimes:
    """The times in the metadata of fragments, under the name `time` and for single values.

    Different texts are numbered by the beginnings of their periods, and ranked by the ends. A
    statement has the number of its first one, the rank of its last one, and that rank without an
    end that a source gives.
    """

    def __init__(self, fragments: Sequence[Fragment], time: str | None) -> None:
        self._time = time
        given, self._number = metadata_of(fragments, time)
        single, self._single = metadata_of(fragments, TIMES)
        of_values = [one for k, stated in enumerate(single) for one in _times_of_values(k, stated)]
        self._given = ["" if one is None else str(one) for one in given]
        texts = {*self._given, *chain(*(begins + ends for _, begins, ends in of_values))}
        periods = {text: period for text in sorted(texts) if (period := read_time(text))}
        begin, end = np.fromiter(chain(*periods.values()), np.int64).reshape(-1, 2).T
        known, order = [*periods], np.lexsort((end, begin)).tolist()
        self._texts = [orjson.dumps(known[k]).decode() for k in order]
        numbers = {known[k]: number for number, k in enumerate(order)}
        # of each the first that begins after it ends
        self._after = np.searchsorted(begin[order], end[order], "right")
        self._of_rank = np.lexsort((begin[order], end[order]))
        ranks = np.append(np.argsort(self._of_rank), -1)
        number = np.array([numbers.get(text, -1) for text in (*self._given, "")])
        first = np.where(number < 0, len(numbers), number)
        self._rows = np.stack([first, ranks[number], ranks[number]], 1)  # of metadata, and of none
        self._of_values: dict[_Key, tuple[int, int, int]] = {}
        for key, *times in of_values:
            begun, ended = ([numbers[text] for text in of if text in numbers] for of in times)
            if both := begun + ended:
                last = int(ranks[both].max()), int(ranks[begun].max(initial=-1))
                self._of_values[key] = min(both), *last

    def __bool__(self) -> bool:
        """Whether there are any times."""
        return bool(self._texts)

    def note(self, strict: bool = True) -> str:
        """A sentence about the times of all that a fragment states; "" if there is none.

        Raises a UsageError if no fragment has one, and `strict`.
        """
        is_time, named = self._rows[:, 1] >= 0, option("time", quoted(self._time))
        often = np.bincount(self._number + 1, minlength=len(is_time) + 1)[1:]
        bad = [k for k, text in enumerate(self._given) if text and not is_time[k]]
        got = f'"{quoted(self._given[bad[0]])}"' if bad else "none"
        if self._time is None or not (strict or bad):
            return ""
        if strict and not is_time.any():
            raise UsageError(f"{named}: expected {EXPECTED}, got {got}")
        n = counted(int(often[is_time].sum()), "fragment")
        left = f"; {often[bad].sum():,} cannot be read, such as {got}" if bad else ""
        return f"{named}: {n} with a time, which no model compares{left}"

    def apart(self, entities: IntArray) -> IntArray:
        """The entity of each fragment, of its own if it has times: its values follow each other."""
        has_time = self._rows[self._number, 1] >= 0
        has_time[[fragment for fragment, *_ in self._of_values]] = True
        own = entities.max(initial=0) + 1 + np.arange(len(entities))
        return np.where(np.isin(entities, entities[has_time]), own, entities)

    def annotator(self, several: Collection[str]) -> Annotator:
        """Says first, last and until of values; attributes in `several` have no contradictions."""

        def members(entities: EntityColumns) -> dict[int, str]:
            rows, starts = self._rows[self._number[entities.holder]], entities.holder_start[:-1]
            if self._of_values:
                self._put_single(rows, entities)
            if not len(starts):
                return {}
            first = np.minimum.reduceat(rows[:, 0], starts)
            last, without_ends = np.maximum.reduceat(rows[:, 1:], starts).T
            until = self._contradictions(entities, several, first, last)
            until = np.where((until < 0) & (last > without_ends), self._of_rank[last], until)
            values, said = np.flatnonzero(last >= 0), [*self._texts, ""]
            columns = values, first[values], self._of_rank[last[values]], until[values]
            return {
                value: f',"first":{said[a]},"last":{said[b]}' + f',"until":{said[c]}' * (c >= 0)
                for value, a, b, c in zip(*(column.tolist() for column in columns), strict=True)
            }

        return members if self._texts else lambda entities: {}

    def _put_single(self, rows: IntArray, entities: EntityColumns) -> None:
        """Replace the rows of statements that have their own times."""
        single = self._single[entities.holder]
        places = np.flatnonzero(np.isin(single, [k for k, _, _ in self._of_values]))
        values = np.searchsorted(entities.holder_start, places, "right") - 1
        numbers = entities.attribute[np.searchsorted(entities.value_start, values, "right") - 1]
        columns = places, single[places], numbers, entities.value[values]
        for place, k, a, v in zip(*(column.tolist() for column in columns), strict=True):
            key = k, entities.stated.attributes[a], entities.stated.texts[a][v]
            rows[place] = self._of_values.get(key, rows[place])

    def _contradictions(
        self, entities: EntityColumns, several: Collection[str], first: IntArray, last: IntArray
    ) -> IntArray:
        """For each value the number of the time at which another contradicts it; -1 for none."""
        until, n = np.full(len(first), -1), len(self._texts)
        single = np.array([name not in several for name in entities.stated.attributes], np.bool_)
        at = np.flatnonzero(last >= 0)
        cells = np.searchsorted(entities.value_start, at, "right") - 1
        chosen = single[entities.attribute[cells]] & (np.bincount(cells)[cells] > 1)
        at, own, ends = at[chosen], cells[chosen], self._of_rank[last[at[chosen]]]
        order = np.argsort(own * n + ends, kind="stable")  # in each cell by last times
        # of those from each on, the earliest first one
        earliest = np.minimum.accumulate((own * n + first[at])[order][::-1])[::-1]
        later = np.searchsorted((own * n + ends)[order], own * n + self._after[ends])
        found = later < np.searchsorted(own, own, "right")
        other = earliest[later[found]] - own[found] * n
        was_before = other < self._after[ends[found]]
        until[at[found]] = np.where(was_before, ends[found], other)
        return until


_Key: TypeAlias = tuple[int, str, str]
"""A number of metadata, an attribute, and a value."""


def _times_of_values(k: int, stated: object) -> Iterator[tuple[_Key, list[str], list[str]]]:
    """The begins and the ends of values."""
    for attribute, of in stated.items() if isinstance(stated, dict) else ():
        for value, times in of.items() if isinstance(of, dict) else ():
            pairs = times if isinstance(times, list) else ()
            if all(isinstance(pair, list) and len(pair) == 2 for pair in pairs):
                begins, ends = ([str(pair[side]) for pair in pairs] for side in (0, 1))
                yield (k, attribute, value), begins, ends


def holds(value: Value, at: Period) -> bool:
    """Whether a value holds at the end of a period; one without times always does."""
    first, last, until = (read_time(text or "") for text in (value.first, value.last, value.until))
    if first is None or last is None:
        return True
    return first.begin <= at.end and (last.end >= at.end or until is None or until.begin > at.end)


def end_of(text: str | None) -> float:
    """The end of a time; minus infinity if there is none."""
    period = read_time(text or "")
    return float("-inf") if period is None else period.end


def joined_times(one: Value, other: Value) -> tuple[str | None, str | None, str | None]:
    """First, last and until of a value that two attributes state."""
    timed = [value for value in (one, other) if value.first is not None]
    first = min(
        (v.first for v in timed), key=lambda text: read_time(text or "") or (0, 0), default=None
    )
    last = max((v.last for v in timed), key=end_of, default=None)
    until = max((v.until for v in timed), key=end_of, default=None)
    return first, last, until if all(v.until for v in timed) else None


def when(value: Value, others: Sequence[Value]) -> str:
    """The times of a value in words, such as `2015 to 2018, until 2019, then Acme`; "" without."""
    said = value.first or ""
    if value.last != value.first:
        said += f" to {value.last}"
    if value.until is None:
        return said
    then = [one.value for one in others if one.first == value.until and one is not value]
    return f"{said}, until {value.until}" + "".join(f", then {name}" for name in then[:1])
