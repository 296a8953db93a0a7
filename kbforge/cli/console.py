"""What all verbs share on the terminal: messages on stderr, results on stdout."""

from __future__ import annotations

import contextlib
import sys
from collections.abc import Iterator
from typing import TYPE_CHECKING, Any

from kbforge.errors import escaped

if TYPE_CHECKING:
    from rich.console import Console
    from rich.progress import Progress


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
    from rich.text import Text

    class TwoLines(RichProgress):
        """The bar, and below it the fields: one line of both is too long for most terminals."""

        def get_renderables(self) -> Iterator[Any]:
            yield self.make_tasks_table(self.tasks)
            if columns:
                for task in self.tasks:
                    yield Text("  ".join(column.format(task=task) for column in columns))

    with TwoLines(
        TextColumn("{task.description}"),
        BarColumn(),
        MofNCompleteColumn(),
        TimeRemainingColumn(),
        console=console,
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

    def update(self, completed: float, **fields: str) -> None:
        if self._clock() < self._due:
            return
        self._due = self._clock() + self._SECONDS
        total = "" if self._total is None else f"/{self._total:,.12g}"
        rest = "".join(f", {name.replace('_', ' ')} {value}" for name, value in fields.items())
        note(f"{self._description}: {completed:,.12g}{total}{rest}")
