"""What all verbs share on the terminal: messages on stderr, results on stdout."""

from __future__ import annotations

import contextlib
import sys
from collections.abc import Iterator
from typing import TYPE_CHECKING, Any

from kbforge.errors import escaped
from kbforge.words import lasting

if TYPE_CHECKING:
    from rich.console import Console
    from rich.progress import Progress


_BESIDE_BAR = 60  # columns of a terminal for description, counts and the time left
_SPEED_SECONDS = 120.0  # the time left is by the speed of so long: a slow step takes many of them


def stderr() -> Console:
    """A console on stderr. Print user data through `rich.text.Text` or `markup=False` only."""
    from rich.console import Console

    return Console(stderr=True, highlight=False)


def stdout() -> Console:
    """A console on stdout, for tables."""
    from rich.console import Console

    return Console(highlight=False)


def note(message: str) -> None:
    """One plain line on stderr; whatever a name or a path in it holds, a terminal obeys nothing."""
    print(escaped(message), file=sys.stderr)


def print_json(value: Any) -> None:
    """One JSON object on one line of stdout, keys in the given order."""
    import orjson

    try:
        text = orjson.dumps(value, option=orjson.OPT_SERIALIZE_NUMPY).decode()
    except orjson.JSONEncodeError:
        import json

        # a path may hold bytes that are no text, which only this one writes
        text = json.dumps(value, default=lambda number: number.item())
    sys.stdout.write(text + "\n")


@contextlib.contextmanager
def working(description: str) -> Iterator[None]:
    """A moving sign on a terminal while there is nothing to count; nothing elsewhere."""
    console = stderr()
    if not console.is_terminal:
        yield
        return
    with console.status(description):
        yield


@contextlib.contextmanager
def progress(*columns: Any, total: float | None, description: str) -> Iterator[_Bar]:
    """A progress bar on a terminal; a plain line every ten seconds elsewhere.

    Args:
        columns: texts with `{task.fields[...]}` placeholders, shown on a line below the bar.
        total: the number of units, None if unknown.
        description: what is being done.

    """
    console = stderr()
    if not console.is_terminal:
        yield _PlainBar(description, total)
        return
    from rich.progress import BarColumn, MofNCompleteColumn, TextColumn, TimeRemainingColumn
    from rich.progress import Progress as RichProgress
    from rich.table import Column
    from rich.text import Text

    class TwoLines(RichProgress):
        """The bar, and below it the fields: one line of both is too long for most terminals.

        Neither wraps: a narrow terminal gets a shorter bar, and the fields end in an ellipsis.
        """

        def get_renderables(self) -> Iterator[Any]:
            yield self.make_tasks_table(self.tasks)
            if columns:
                for task in self.tasks:
                    line = "  ".join(column.format(task=task) for column in columns)
                    yield Text(line, no_wrap=True, overflow="ellipsis")

    with TwoLines(
        TextColumn("{task.description}"),
        BarColumn(bar_width=max(10, min(40, console.width - _BESIDE_BAR))),
        MofNCompleteColumn(table_column=Column(no_wrap=True)),
        TimeRemainingColumn(table_column=Column(no_wrap=True)),
        TextColumn("left"),
        console=console,
        speed_estimate_period=_SPEED_SECONDS,
        refresh_per_second=8,
    ) as bar:
        yield _RichBar(bar, description, total)


class _Bar:
    """What a verb does to a progress bar."""

    def update(self, completed: float, **fields: str) -> None:
        """Show `completed` units and the fields that the columns name."""
        raise NotImplementedError


class _RichBar(_Bar):
    def __init__(self, bar: Progress, description: str, total: float | None) -> None:
        # rich mixes free fields into its keyword arguments, which no checker can follow
        self._bar: Any = bar
        self._description, self._total = description, total
        self._task: Any = None

    def update(self, completed: float, **fields: str) -> None:
        # the task starts with its first fields, because columns may not name missing ones, and
        # with what was done before, which says nothing about its speed
        if self._task is None:
            self._task = self._bar.add_task(
                self._description, total=self._total, completed=completed, **fields
            )
        self._bar.update(self._task, completed=completed, **fields)


class _PlainBar(_Bar):
    _SECONDS = 10.0

    def __init__(self, description: str, total: float | None) -> None:
        import time

        self._description, self._total, self._clock = description, total, time.monotonic
        self._due = self._clock() + self._SECONDS
        self._first: tuple[float, float] | None = None  # when the first update came, and its count

    def update(self, completed: float, **fields: str) -> None:
        now = self._clock()
        self._first = self._first or (now, completed)
        if now < self._due:
            return
        self._due = now + self._SECONDS
        total = "" if self._total is None else f"/{self._total:,.12g}"
        rest = "".join(f", {name.replace('_', ' ')} {value}" for name, value in fields.items())
        note(f"{self._description}: {completed:,.12g}{total}{rest}{self._left(now, completed)}")

    def _left(self, now: float, completed: float) -> str:
        """The time left by the speed since the first update."""
        assert self._first is not None
        begin, done = self._first
        if self._total is None or completed <= done or completed >= self._total:
            return ""
        left = (now - begin) / (completed - done) * (self._total - completed)
        return f", {lasting(left)} left"
