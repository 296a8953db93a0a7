"""The terminal of all verbs: messages go to stderr, results to stdout."""

from __future__ import annotations

import contextlib
import math
import sys
import threading
import time
from collections.abc import Callable, Collection, Iterable, Iterator, Sequence
from typing import TYPE_CHECKING, Any

from kbforge import interrupts
from kbforge.errors import escaped, escaped_lines, lasting, quoted

if TYPE_CHECKING:
    from rich.console import Console, ConsoleRenderable
    from rich.table import Table

    from kbforge.contracts import OnStage, OnStep, Progress, Stage
    from kbforge.jobs.opening import EventResult

EVERY = 10.0  # seconds between two plain lines where there is no terminal
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

    class EscapingConsole(Console, RenderHook):
        def process_renderables(
            self, renderables: list[ConsoleRenderable]
        ) -> list[ConsoleRenderable]:
            return [Escaped(renderable) for renderable in renderables]

        def on_broken_pipe(self) -> None:
            raise BrokenPipeError  # which ends the program without an error

    console = EscapingConsole(stderr=to_stderr, highlight=False)
    console.push_render_hook(console)
    return console


def note(message: str) -> None:
    """Print one plain line on stderr, with control characters escaped."""
    print(escaped(message), file=sys.stderr)


def remark(sentence: str) -> None:
    """Print a sentence as a note."""
    note(f"note: {sentence}")


def notes(sentences: Iterable[str]) -> None:
    """Print each sentence as a note."""
    for sentence in sentences:
        remark(sentence)


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
    """Report what a verb changed in a store: one JSON object on stdout, or a sentence on stderr."""
    if as_json:
        print_json(done.summary())
        return
    run = "nothing changed" if done.told.get("already") else f"run {done.run}"
    note(
        f"{run}: {what}; {quoted(store, 400)} has {done.fragments:,} fragments in "
        f"{done.entities:,} entities"
    )


def table_of(
    columns: Sequence[str], rows: Iterable[Sequence[str]], figures: Collection[str] = ()
) -> Table:
    """A table with bold titles; the columns of `figures` are on the right, on one line."""
    from rich.table import Table
    from rich.text import Text

    table = Table(box=None, pad_edge=False, padding=(0, 2, 0, 0), header_style="bold")
    for column in columns:
        if column in figures:
            table.add_column(column, justify="right", no_wrap=True)
        else:
            table.add_column(column, overflow="fold")
    for row in rows:
        table.add_row(*map(Text, row))
    return table


def figures_of(rows: Iterable[tuple[str, str]]) -> Table:
    """A table of two columns: bold names, and values."""
    from rich.table import Table
    from rich.text import Text

    table = Table(show_header=False, box=None, padding=(0, 2, 0, 0))
    table.add_column(style="bold")
    table.add_column(justify="right")
    for name, figure in rows:
        table.add_row(name, Text(figure))
    return table


def prior_rows(alpha: float, exponent: float) -> dict[str, str]:
    """Alpha and, unless it is 1, the exponent of sizes, as rows of a summary."""
    rows = {"alpha": f"{alpha:,.6g}"}
    return rows if exponent == 1 else rows | {"size exponent": f"{exponent:g}"}


# --- signs of life --------------------------------------------------------------------------------


@contextlib.contextmanager
def working(doing: str, every: float = EVERY) -> Iterator[Callable[[str], None]]:
    """Show a spinner on a terminal, and a line after `every` seconds elsewhere.

    Yields a function that sets the text of the current work.
    """
    console = stderr()
    if console.is_terminal:
        from rich.text import Text

        with console.status(escaped(doing)) as status:
            yield lambda doing: status.update(Text(escaped(doing)))
        return

    begin, ended = time.monotonic(), threading.Event()

    def name(work: str) -> None:
        nonlocal doing
        doing = work

    def repeat() -> None:
        while not ended.wait(every):
            note(f"{doing}: {lasting(time.monotonic() - begin)} so far")

    thread = threading.Thread(target=repeat, daemon=True)  # one stage may take minutes
    thread.start()
    try:
        yield name
    finally:
        ended.set()
        thread.join()


class Bar:
    """A progress bar on a terminal (`shown`, from rich); a plain line every ten seconds
    elsewhere."""

    def __init__(self, shown: Any, description: str, total: float | None) -> None:
        self._shown, self._description, self._total = shown, description, total
        self._task: Any = None
        self._due = time.monotonic() + EVERY
        self._first: tuple[float, float] | None = None  # time and count of the first update

    def update(self, completed: float, **fields: str) -> None:
        """Show `completed` units and the fields named by the columns."""
        if self._shown is None:
            self._note(completed, fields)
            return
        # the task starts with its first fields, because columns must not name missing ones, and
        # with the units done before, which say nothing about its speed
        if self._task is None:
            self._task = self._shown.add_task(
                self._description, total=self._total, completed=completed, **fields
            )
        self._shown.update(self._task, completed=completed, **fields)

    def _note(self, completed: float, fields: dict[str, str]) -> None:
        now = time.monotonic()
        self._first = begin, done = self._first or (now, completed)
        if now < self._due:
            return
        self._due = now + EVERY
        total, left = "", ""
        if self._total is not None:
            total = f"/{self._total:,.12g}"
            if done < completed < self._total:
                seconds = (now - begin) / (completed - done) * (self._total - completed)
                left = f", {lasting(seconds)} left"
        rest = "".join(f", {name.replace('_', ' ')} {value}" for name, value in fields.items())
        note(f"{self._description}: {completed:,.12g}{total}{rest}{left}")


@contextlib.contextmanager
def progress(*columns: str, total: float | None, description: str) -> Iterator[Bar]:
    """A progress bar on a terminal; a plain line every ten seconds elsewhere.

    Columns are text with `{task.fields[...]}` placeholders, shown on a line below the bar.
    """
    console = stderr()
    if not console.is_terminal:
        yield Bar(None, description, total)
        return
    from rich.progress import BarColumn, MofNCompleteColumn, TextColumn, TimeRemainingColumn
    from rich.progress import Progress as RichProgress
    from rich.table import Column
    from rich.text import Text

    class TwoLines(RichProgress):
        """The bar, with the fields on a second line, because most terminals are too narrow for one.

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
    ) as shown:
        yield Bar(shown, description, total)


# --- the progress of a clustering -----------------------------------------------------------------

_COLUMNS = (
    "{task.fields[speed]}",
    "{task.fields[subproblems]} subproblems",
    "10^{task.fields[log10_effective_particles]} particles",
    "{task.fields[model_evaluations]} evaluations",
)
_OFFLINE_COLUMNS = (
    "{task.fields[speed]}",
    "{task.fields[clusters]} clusters",
    "{task.fields[log_posterior]}",
    "{task.fields[model_evaluations]} evaluations",
)
_ENOUGH = 3  # fragments or rounds are enough to measure a speed
_SECONDS_TO_TELL = 10.0
_LONG = 120.0  # seconds left that are worth a note
_SAME_SIGNAL = 0.5  # seconds within which a repeated signal counts once


@contextlib.contextmanager
def stoppable() -> Iterator[Callable[[], None]]:
    """A signal ends a run between two steps; before the first step there is nothing to keep.

    Yields a function to call before each step; it raises `Interrupted` after a signal.
    """
    from kbforge.contracts import Interrupted

    stepping = False
    stopped = math.inf  # when the first signal came

    def stop() -> None:
        nonlocal stopped
        now = time.monotonic()
        # a second Ctrl-C does not wait for the step; one that follows at once is the first one,
        # passed on by a shell or a launcher as well
        if not stepping or now - stopped > _SAME_SIGNAL:
            raise KeyboardInterrupt
        stopped = min(stopped, now)

    def check() -> None:
        nonlocal stepping
        if stopped < math.inf:
            raise Interrupted
        stepping = True

    with interrupts.handled(stop):
        yield check


@contextlib.contextmanager
def following(
    check: Callable[[], None] | None = None, every: float = EVERY
) -> Iterator[tuple[OnStep, OnStage]]:
    """Show the progress of a clustering: the stages before the first step, then a bar.

    Yields functions for the run to call: after a step, and at the start of each stage before.
    `check`, from `stoppable`, is called before each step; `every` is as for `working`.
    """
    begin = time.monotonic()
    shown = -math.inf
    bar: Any = None
    first = 0  # units done at the first step, before the speed is measured
    told = False
    with contextlib.ExitStack() as stack:
        before = stack.enter_context(contextlib.ExitStack())
        name = before.enter_context(working("preparing", every))

        def on_stage(stage: Stage) -> None:
            name(f"{stage.doing} ({stage.number} of {stage.of})")

        def on_step(progress: Progress) -> None:
            nonlocal begin, first, shown, bar, told
            if check is not None:
                check()
            now = time.monotonic()
            done, total, fields = figures(progress, now - begin, first)
            if bar is None:  # only the first step knows the unit and the total
                before.close()
                bar = stack.enter_context(bar_for(progress))
                begin, first = now, done  # the stages before say nothing about the speed
            elif now - shown < 0.1 and done != total:
                return
            shown = now
            bar.update(done, **fields)
            if not told and (rest := time_left(done - first, done, total, now - begin)) > _LONG:
                told = True
                note(
                    f"note: at this speed it takes {lasting(rest)} more; --limit reads fewer "
                    "fragments, and n-grams are faster than a language model"
                )

        on_step.seldom = True  # type: ignore[attr-defined]
        yield on_step, on_stage


def speed(done: int, seconds: float, unit: str) -> str:
    """The speed of a run: `175 fragments/s`, `2.5 rounds/s`, or `12 s a fragment` if it is slow."""
    rate = done / max(seconds, 1e-9)
    if rate >= 9.95:
        return f"{rate:,.0f} {unit}s/s"
    if rate >= 0.95:
        return f"{rate:.1f} {unit}s/s"
    if not done:
        return f"no {unit} yet"
    return f"{seconds / done:,.{1 if seconds < 9.95 * done else 0}f} s a {unit}"


def time_left(measured: int, done: int, total: int | None, seconds: float) -> float:
    """Seconds left at the rate of the measured units, which took `seconds`; 0 if unknown."""
    if total is None or measured < _ENOUGH or seconds < _SECONDS_TO_TELL:
        return 0.0
    return seconds / measured * (total - done)


def bar_for(step: Progress) -> Any:
    """A bar of fragments, or of rounds for a method that repeats over all fragments."""
    if step.rounds is None:
        return progress(*_COLUMNS, total=step.total, description="clustering")
    return progress(*_OFFLINE_COLUMNS, total=step.rounds.most, description="clustering")


def figures(
    step: Progress, seconds: float, first: int = 0
) -> tuple[int, int | None, dict[str, str]]:
    """The units done, their total (None if unknown), and the bar's fields.

    The speed is measured after the `first` units, over `seconds`.
    """
    rounds, evaluations = step.rounds, {"model_evaluations": f"{step.model_evaluations:,}"}
    if rounds is None:
        fields = {
            "speed": speed(step.fragments - first, seconds, "fragment"),
            "subproblems": f"{step.subproblems:,}",
            "log10_effective_particles": f"{step.log10_effective_particles:,.0f}",
        }
        return step.fragments, step.total, fields | evaluations
    called = "log posterior" if rounds.probability else "score"
    fields = {
        "speed": speed(rounds.done - first, seconds, "round"),
        "clusters": f"{rounds.clusters:,}",
        "log_posterior": f"{called} {rounds.log_posterior:,.1f}",
    }
    return rounds.done, rounds.most, fields | evaluations
