"""Ended from outside: SIGTERM and SIGHUP do what Ctrl-C does.

A terminal that closes sends SIGHUP; systemd, Slurm and Docker send SIGTERM. All three signals raise
`KeyboardInterrupt` in the main thread. A signal that the program was started to ignore, as `nohup`
does with SIGHUP, stays ignored.
"""

from __future__ import annotations

import contextlib
import signal
import threading
from collections.abc import Callable, Iterator
from typing import Any

from kbforge.errors import EXIT_INTERRUPTED

_NAMES = ("SIGINT", "SIGTERM", "SIGHUP")
SIGNALS = tuple(getattr(signal, name) for name in _NAMES if hasattr(signal, name))
"""The signals that end a run; not every system has all of them."""

EXIT_CODES = frozenset(128 + number for number in SIGNALS)

_received: list[int] = []
_depth = 0


@contextlib.contextmanager
def heeded() -> Iterator[None]:
    """Each of the signals raises `KeyboardInterrupt`; the program runs in this block.

    Whoever ends a run from outside may send several signals in a row. A SIGTERM or a SIGHUP that
    is not the first signal is passed over, so that it cannot hurt what the first one began: the
    writing of a partial result. Ctrl-C always counts.
    """

    def end(number: int) -> None:
        raise KeyboardInterrupt

    with _handled(end):
        yield


@contextlib.contextmanager
def deferred() -> Iterator[Callable[[], bool]]:
    """Hold the signals back to the end of the block; Ctrl-C pressed twice does not wait.

    Yields:
        whether there was one.

    Raises:
        KeyboardInterrupt: at the end, if there was one.

    """
    came = False

    def note(number: int) -> None:
        nonlocal came
        if came:
            raise KeyboardInterrupt
        came = True

    with _handled(note):
        yield lambda: came
    if came:
        raise KeyboardInterrupt


@contextlib.contextmanager
def told(on_signal: Callable[[], None]) -> Iterator[None]:
    """Call a function at each of the signals; it may raise `KeyboardInterrupt`."""
    with _handled(lambda number: on_signal()):
        yield


def exit_code() -> int:
    """What a run exits with that was ended: 128 and the number of the signal that ended it."""
    return 128 + _received[0] if _received else EXIT_INTERRUPTED


def sentence() -> str:
    """`interrupted`, and by what if it was not Ctrl-C."""
    if not _received or _received[0] == signal.SIGINT:
        return "interrupted"
    return f"interrupted by {signal.Signals(_received[0]).name}"


@contextlib.contextmanager
def _handled(handle: Callable[[int], None]) -> Iterator[None]:
    # only the main thread gets signals
    if threading.current_thread() is not threading.main_thread():
        yield
        return

    global _depth
    if not _depth:
        _received.clear()

    def handler(number: int, frame: Any) -> None:
        again = bool(_received)
        _received.append(number)
        if number == signal.SIGINT or not again:
            handle(number)

    # a program in the background, or under nohup, may have been started to ignore one
    heard = {number: signal.getsignal(number) for number in SIGNALS}
    heard = {number: old for number, old in heard.items() if old not in (signal.SIG_IGN, None)}
    for number in heard:
        signal.signal(number, handler)
    _depth += 1
    try:
        yield
    finally:
        _depth -= 1
        for number, old in heard.items():
            signal.signal(number, old)
