"""The terminal, for all verbs: messages go to stderr, results to stdout."""

from __future__ import annotations

import contextlib
import sys
from collections.abc import Iterator
from typing import TYPE_CHECKING, Any, Protocol

from kbforge.errors import escaped, escaped_lines, quoted
from kbforge.words import lasting

if TYPE_CHECKING:
    from rich.console import Console, ConsoleRenderable
    from rich.progress import Progress
    from rich.status import Status

    from kbforge.jobs.update import EventResult

_BESIDE_BAR = 60  # columns of a terminal for description, counts and the time left
_SPEED_SECONDS = 120.0  # the time left is estimated over so long, because a step may be slow


def stderr() -> Console:
    """A console on stderr. Print user data through `rich.text.Text` or `markup=False` only."""
    return _console(to_stderr=True)


def stdout() -> Console:
    """A console on stdout, for tables."""
    return _console(to_stderr=False)


def _console(to_stderr: bool) -> Console:
    """A console that escapes control characters in the text that it prints."""
    from rich.console import Console, ConsoleOptions, RenderableType, RenderHook
    from rich.segment import Segment

    class Escaped:
        def __init__(self, inner: RenderableType) -> None:
            self._inner = inner

        def __rich_console__(self, console: Console, options: ConsoleOptions) -> Iterator[Segment]:
            for segment in console.render(self._inner, options):
                if segment.control:
                    yield segment
                else:
                    yield Segment(escaped_lines(segment.text), segment.style)

    class Hook(RenderHook):
        def process_renderables(
            self, renderables: list[ConsoleRenderable]
        ) -> list[ConsoleRenderable]:
            return [Escaped(renderable) for renderable in renderables]

    class OwnConsole(Console):
        def on_broken_pipe(self) -> None:
            raise BrokenPipeError  # which ends the program without an error

    console = OwnConsole(stderr=to_stderr, highlight=False)
    console.push_render_hook(Hook())
    return console


def note(message: str) -> None:
    """Print one plain line on stderr, with control characters escaped."""
    print(escaped(message), file=sys.stderr)


def print_json(value: Any) -> None:
    """Print one JSON object on one line of stdout, keys in the given order.

    Control characters are escaped, which means the same to a reader of JSON.
    """
    import orjson

    try:
        text = orjson.dumps(value, option=orjson.OPT_SERIALIZE_NUMPY).decode()
    except orjson.JSONEncodeError:
        import json

        # a path may have bytes that are not text, which only this encoder writes
        text = json.dumps(value, default=lambda number: number.item())
    sys.stdout.write(escaped_lines(text) + "\n")


def print_done(done: EventResult, store: str, what: str, as_json: bool) -> None:
    """Say what a verb changed in a store: one JSON object on stdout, or a sentence on stderr."""
    if as_json:
        print_json(done.summary())
        return
    run = "nothing changed" if done.told.get("already") else f"run {done.run}"
    note(
        f"{run}: {what}; {quoted(store, 400)} has {done.fragments:,} fragments in "
        f"{done.entities:,} entities"
    )


class Sign(Protocol):
    """A sign of life during work that has nothing to count."""

    def say(self, doing: str) -> None:
        """Name the current work."""
        ...


@contextlib.contextmanager
def working(description: str) -> Iterator[Sign]:
    """Show a moving sign on a terminal, and a line every ten seconds elsewhere.

    Args:
        description: the work at first.

    """
    console = stderr()
    if console.is_terminal:
        with console.status(escaped(description)) as status:
            yield _RichSign(status)
        return
    with _PlainSign(description) as lines:
        yield lines


class _RichSign:
    def __init__(self, status: Status) -> None:
        self._status = status

    def say(self, doing: str) -> None:
        from rich.text import Text

        self._status.update(Text(escaped(doing)))


class _PlainSign:
    """A thread that names the current work every ten seconds: one stage may take minutes."""

    _SECONDS = 10.0

    def __init__(self, description: str) -> None:
        import threading
        import time

        self._doing, self._clock, self._begin = description, time.monotonic, time.monotonic()
        self._ended = threading.Event()
        self._thread = threading.Thread(target=self._repeat, daemon=True)

    def __enter__(self) -> _PlainSign:
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._ended.set()
        self._thread.join()

    def say(self, doing: str) -> None:
        self._doing = doing

    def _repeat(self) -> None:
        while not self._ended.wait(self._SECONDS):
            note(f"{self._doing}: {lasting(self._clock() - self._begin)} so far")


@contextlib.contextmanager
def progress(*columns: Any, total: float | None, description: str) -> Iterator[_Bar]:
    """A progress bar on a terminal; a plain line every ten seconds elsewhere.

    Args:
        columns: texts with `{task.fields[...]}` placeholders, shown on a line below the bar.
        total: the number of units, None if unknown.
        description: the work.

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
        """The bar, and the fields below it: most terminals are too narrow for one line of both.

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
    """A progress bar."""

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
        # the task starts with its first fields, because columns must not name missing ones, and
        # with the units done before, which say nothing about its speed
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
        self._first: tuple[float, float] | None = None  # time and count of the first update

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
        """The time left, by the speed since the first update."""
        assert self._first is not None
        begin, done = self._first
        if self._total is None or completed <= done or completed >= self._total:
            return ""
        left = (now - begin) / (completed - done) * (self._total - completed)
        return f", {lasting(left)} left"
