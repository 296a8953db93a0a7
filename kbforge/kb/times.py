"""When facts were stated: reads times of fragments, and says from when to when values hold.

Metadata have the time of all that a fragment states under the name `RunOptions.time`; those of
single values, as graphs state them, under `TIMES`, each with begin and end, "" if unknown:

    {"employer": {"Acme": [["2015", "2019-03"]]}}

A time is a text in ISO 8601, such as 2019, 2019-03 or 2019-03-01T10:00Z; without a zone it is UTC.
Texts stay as stated, and are compared as periods of microseconds.

A statement holds from its begin to the end that its source gives. Without one it holds until the
first statement that begins after it ends and says something else (`kbforge.kb.pools`), where an
attribute has one value at a time (not in `Corpus.several`). A value holds when one of its
statements does: in spans, between which others hold. So the order of statements does not matter,
and a later one adds `until` to a value, but removes none.

| member of a value | meaning |
|---|---|
| first | of the times with which it was stated, the one that begins first |
| last | the one that ends last |
| until | from when it no longer holds: another value contradicts it, or a source gives its end |
| held | its spans, each with all `stated` times and `until`; left out if the others say as much |
"""

from __future__ import annotations

from calendar import isleap, monthrange
from collections.abc import Collection, Iterator, Sequence
from dataclasses import replace
from datetime import UTC, datetime
from functools import lru_cache
from itertools import chain
from math import inf
from typing import TYPE_CHECKING, NamedTuple, TypeAlias

import numpy as np
import orjson
from numpy.typing import NDArray

from kbforge.contracts import Fragment, IntArray, Value
from kbforge.contracts.entity import Span
from kbforge.contracts.fragment import TIMES
from kbforge.errors import UsageError, counted, did_you_mean, option, quoted
from kbforge.files.columns import metadata_of, statements_of

if TYPE_CHECKING:
    from kbforge.kb.entities import Annotator, EntityColumns
    from kbforge.kb.pools import Pools

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

    Different texts are numbered by the beginnings of their periods, and ranked by the ends. Places
    on the line of times are numbered, too.
    """

    def __init__(self, fragments: Sequence[Fragment], time: str | None) -> None:
        self._fragments, self._time = fragments, time
        given, self._number = metadata_of(fragments, time)
        single, self._single = metadata_of(fragments, TIMES)
        of_values = [one for k, stated in enumerate(single) for one in _times_of_values(k, stated)]
        self._given = ["" if one is None else str(one) for one in given]
        texts = {*self._given, *chain(*(chain(*pairs) for _, pairs in of_values))}
        periods = {text: period for text in sorted(texts) if (period := read_time(text))}
        begin, end = np.fromiter(chain(*periods.values()), np.int64).reshape(-1, 2).T
        known, order = [*periods], np.lexsort((end, begin)).tolist()
        begin, after = begin[order], end[order] + 1
        self._texts = [orjson.dumps(known[k]).decode() for k in order]
        numbers = {known[k]: number for number, k in enumerate(order)}
        self._of_rank = np.lexsort((begin, after))
        self._rank = np.argsort(self._of_rank)
        places = np.unique(np.append(begin, after))
        self._never = len(places)
        self._begin, self._after = (np.searchsorted(places, of) for of in (begin, after))
        self._of_given = np.array([numbers.get(text, -1) for text in (*self._given, "")])
        self._of_values: dict[_Key, list[tuple[int, int, bool]]] = {}
        for key, pairs in of_values:
            for pair in pairs:
                if both := [numbers[text] for text in pair if text in numbers]:
                    times = min(both), max(both, key=self._rank.__getitem__), pair[1] in numbers
                    self._of_values.setdefault(key, []).append(times)

    def __bool__(self) -> bool:
        """Whether there are any times."""
        return bool(self._texts)

    def note(self, strict: bool = True) -> str:
        """A sentence about the times of all that a fragment states; "" if there is none.

        Raises a UsageError if no fragment has one, and `strict`.
        """
        is_time, named = self._of_given >= 0, option("time", quoted(self._time))
        often = np.bincount(self._number + 1, minlength=len(is_time) + 1)[1:]
        bad = [k for k, text in enumerate(self._given) if text and not is_time[k]]
        got = f'"{quoted(self._given[bad[0]])}"' if bad else "none"
        if self._time is None or not (strict or bad):
            return ""
        if strict and not is_time.any():
            known = statements_of(self._fragments).attributes
            raise UsageError(
                f"{named}: expected {EXPECTED}, got {got}"
                if bad
                else f"{named}: no fragment has an attribute of this name, nor its metadata"
                f"{did_you_mean(self._time, known)}"
            )
        n = counted(int(often[is_time].sum()), "fragment")
        left = f"; {often[bad].sum():,} cannot be read, such as {got}" if bad else ""
        return f"{named}: {n} with a time, which no model compares{left}"

    def together(self, entities: IntArray) -> IntArray:
        """For each fragment the first one of its entity that states at the same time. Fragments
        whose time is unknown, or differs by value, are alone if others of the entity have one:
        their values may follow each other."""
        given, n_times = self._of_given[self._number], len(self._texts)
        is_single = np.isin(self._single, [k for k, *_ in self._of_values])
        is_dated = np.isin(entities, entities[is_single | (given >= 0)])
        own = n_times + np.arange(len(entities))
        time = np.where(is_dated, np.where(is_single | (given < 0), own, given), 0)
        code = entities * (n_times + len(entities)) + time
        _, first, which = np.unique(code, return_index=True, return_inverse=True)
        return np.asarray(first[which])

    def annotator(self, several: Collection[str], pools: Pools) -> Annotator:
        """Says when values held; attributes in `several` have no contradictions, nor have names, of
        which another is a spelling or an alias, nor do values that say the same."""

        from kbforge.kb.entities import is_whole_name  # its reader needs this module

        def members(entities: EntityColumns) -> dict[int, str]:
            statements = self._statements(entities)
            if not statements.size:
                return {}
            value, first, last, is_over = statements
            cell = np.searchsorted(entities.value_start, value, "right") - 1
            attributes = entities.stated.attributes
            single = np.array(
                [not (name in several or is_whole_name(name)) for name in attributes], np.bool_
            )
            may_end = single[entities.attribute[cell]] & (is_over == 0)
            end, until = self._contradictions(cell, first, last, may_end)
            end = np.where(is_over, self._after[last], end)
            until = np.where(is_over, last, until)
            end, until = self._lasting(pools.of_values(entities)[value], first, end, until, may_end)
            return self._told(value, first, last, end, until)

        return members if self._texts else lambda entities: {}

    def _statements(self, entities: EntityColumns) -> IntArray:
        """Of each statement with a time the value, the numbers of its first and its last time, and
        whether its source gives its end; shape [4, statements]."""
        value = np.repeat(np.arange(len(entities.value)), np.diff(entities.holder_start))
        number = self._of_given[self._number[entities.holder]]
        rows = np.stack([value, number, number, np.zeros_like(number)])
        if self._of_values:
            single = self._single[entities.holder]
            places = np.flatnonzero(np.isin(single, [k for k, *_ in self._of_values]))
            cells = np.searchsorted(entities.value_start, value[places], "right") - 1
            numbers, texts = entities.value[value[places]], entities.stated.texts
            columns = places, single[places], entities.attribute[cells], numbers
            own = list[tuple[int, int, int, int]]()
            for place, k, a, v in zip(*(column.tolist() for column in columns), strict=True):
                if told := self._of_values.get((k, entities.stated.attributes[a], texts[a][v])):
                    rows[1, place] = -1
                    own += [(value[place], *times) for times in told]
            rows = np.hstack([rows, np.array(own, np.int64).reshape(-1, 4).T])
        return rows[:, rows[1] >= 0]

    def _contradictions(
        self, cell: IntArray, first: IntArray, last: IntArray, may_end: NDArray[np.bool_]
    ) -> tuple[IntArray, IntArray]:
        """The place and the number of the next time of the cell after each statement; a statement
        that cannot end has the place after all others, and -1."""
        n, m = self._never + 1, len(self._texts)
        order = np.argsort(cell * m + first, kind="stable")
        begins, cells = (cell * n + self._begin[first])[order], cell[order]
        following = np.searchsorted(begins, cell * n + self._after[last])
        ends = may_end & (following < np.searchsorted(cells, cell, "right"))
        until = np.where(ends, first[order[np.where(ends, following, 0)]], -1)
        return np.where(ends, self._begin[until], self._never), until

    def _lasting(
        self,
        said: IntArray,
        first: IntArray,
        end: IntArray,
        until: IntArray,
        may_end: NDArray[np.bool_],
    ) -> tuple[IntArray, IntArray]:
        """The places and the numbers of ends: what a statement says lasts as long as statements
        that say the same follow; `said` is a number for what it says."""
        order, starts = self._spans(said, first, end)
        length = np.diff(starts, append=len(order))
        latest = np.maximum.reduceat((end * (len(self._texts) + 1) + until + 1)[order], starts)
        latest_of = np.empty_like(end)
        latest_of[order] = latest.repeat(length)
        ends, untils = np.divmod(latest_of, len(self._texts) + 1)
        return np.where(may_end, ends, end), np.where(may_end, untils - 1, until)

    def _spans(self, said: IntArray, first: IntArray, end: IntArray) -> tuple[IntArray, IntArray]:
        """The order of statements by what they say and begin, and where each span begins in it."""
        n, order = self._never + 1, np.lexsort((first, said))
        said, first, end = (of[order] for of in (said, first, end))
        # a span goes on while a statement begins before those until there have ended
        reached = np.maximum.accumulate(said * n + end)
        is_new = np.append(True, (said * n + self._begin[first])[1:] > reached[:-1])
        return order, np.flatnonzero(is_new)

    def _told(
        self, value: IntArray, first: IntArray, last: IntArray, end: IntArray, until: IntArray
    ) -> dict[int, str]:
        """The members of values, from their statements and when these end."""
        m = len(self._texts)
        order, starts = self._spans(value, first, end)
        value, first, last, end, until = (of[order] for of in (value, first, last, end, until))
        span = np.arange(len(starts)).repeat(np.diff(starts, append=len(order)))
        stated = np.unique(np.append(span * m + first, span * m + last))
        until = np.maximum.reduceat(end * (m + 1) + until + 1, starts) % (m + 1) - 1
        last = self._of_rank[np.maximum.reduceat(self._rank[last], starts)]
        first, owner = first[starts], value[starts]
        of_span = np.searchsorted(stated, np.arange(len(starts) + 1) * m)
        has_more = np.diff(of_span) > 1 + (first != last)
        opening = np.flatnonzero(np.diff(owner, prepend=-1))
        closing = np.append(opening[1:], len(owner)) - 1
        has_more = (closing > opening) | np.maximum.reduceat(has_more, opening)
        texts, ends = self._texts, [f',"until":{self._texts[k]}' if k >= 0 else "" for k in until]

        def held(k: int) -> str:
            times = ",".join(texts[j] for j in (stated[of_span[k] : of_span[k + 1]] % m).tolist())
            return f'{{"stated":[{times}]{ends[k]}}}'

        columns = owner[opening], first[opening], last[closing], opening, closing, has_more
        return {
            of: f',"first":{texts[a]},"last":{texts[b]}{ends[j]}'
            + f',"held":[{",".join(map(held, range(i, j + 1)))}]' * more
            for of, a, b, i, j, more in zip(*(column.tolist() for column in columns), strict=True)
        }


_Key: TypeAlias = tuple[int, str, str]
"""A number of metadata, an attribute, and a value."""


def _times_of_values(k: int, stated: object) -> Iterator[tuple[_Key, list[list[str]]]]:
    """The begins and the ends of values."""
    for attribute, of in stated.items() if isinstance(stated, dict) else ():
        for value, times in of.items() if isinstance(of, dict) else ():
            pairs = times if isinstance(times, list) else ()
            if all(isinstance(pair, list) and len(pair) == 2 for pair in pairs):
                yield (k, attribute, value), [[str(one) for one in pair] for pair in pairs]


def spans_of(value: Value) -> tuple[Span, ...]:
    """The spans in which a value held, in order; none for a value without times."""
    if value.first is None or value.last is None:
        return ()
    return value.held or (Span(tuple(dict.fromkeys((value.first, value.last))), value.until),)


def extent(span: Span) -> tuple[int, float]:
    """The first and the last microsecond of a span, since 1970; infinity if it has no end."""
    begin, last = period_of(span.stated[0]).begin, period_of(last_of(span)).end
    return begin, inf if span.until is None else max(last, period_of(span.until).begin - 1)


def holds(value: Value, at: Period) -> bool:
    """Whether a value holds at the end of a period; one without times always does."""
    extents = [extent(span) for span in spans_of(value)]
    return not extents or any(begin <= at.end <= end for begin, end in extents)


def last_stated(value: Value, at: Period | None = None) -> float:
    """The end of the last time with which a value was stated, of those that begin by the end of a
    period; minus infinity if there is none."""
    times = [period_of(text) for span in spans_of(value) for text in span.stated]
    return max((time.end for time in times if at is None or time.begin <= at.end), default=-inf)


def with_times_of(value: Value, one: Value, other: Value) -> Value:
    """A value that two attributes state, with the times of both."""
    spans = list[Span]()
    for span in sorted((*spans_of(one), *spans_of(other)), key=extent):
        if not spans or extent(span)[0] > extent(spans[-1])[1] + 1:
            spans.append(span)
            continue
        longer = max(spans[-1], span, key=lambda of: extent(of)[1])
        stated = sorted({*spans[-1].stated, *span.stated}, key=period_of)
        spans[-1] = Span(tuple(stated), longer.until)
    if not spans:
        return value
    return replace(
        value,
        first=spans[0].stated[0],
        last=last_of(spans[-1]),
        until=spans[-1].until,
        held=tuple(spans),
    )


def when(value: Value, others: Sequence[Value]) -> str:
    """The times of a value in words, such as `2015 to 2018, until 2019, then Acme`; "" without."""
    return "; ".join(_in_words(span, value, others) for span in spans_of(value))


def _in_words(span: Span, value: Value, others: Sequence[Value]) -> str:
    first, last, until = span.stated[0], last_of(span), span.until
    if until == last:  # its source says so
        return f"until {until}" if first == last else f"{first} until {until}"
    said = first if first == last else f"{first} to {last}"
    if until is None:
        return said
    spans = ((one.value, of) for one in others if one is not value for of in spans_of(one))
    then = [f", then {name}" for name, of in spans if until in of.stated]
    return f"{said}, until {until}{''.join(then[:1])}"


def last_of(span: Span) -> str:
    """Of the times with which a value was stated in a span, the one that ends last."""
    return max(span.stated, key=lambda text: period_of(text)[::-1])


def period_of(text: str) -> Period:
    """The period of a text that is a time."""
    found = read_time(text)
    assert found is not None, f"{text} is a time of a value"
    return found
