"""Termination: SIGTERM and SIGHUP act like Ctrl-C.

A terminal that closes sends SIGHUP; systemd, Slurm and Docker send SIGTERM. All three signals raise
`KeyboardInterrupt` in the main thread. A signal that the program was started to ignore, as `nohup`
does with SIGHUP, stays ignored.
"""

from __future__ import annotations

import contextlib
import signal
import sys
import threading
from collections.abc import Callable, Iterator
from types import FrameType
from typing import cast

from kbforge.errors import EXIT_INTERRUPTED

_NAMES = ("SIGINT", "SIGTERM", "SIGHUP")
SIGNALS = tuple(getattr(signal, name) for name in _NAMES if hasattr(signal, name))
"""The signals that end a run; not every system has all of them."""

EXIT_CODES = frozenset(128 + number for number in SIGNALS)

_SOON = 0.02  # seconds after which a signal comes again that came while a module was loaded
_IMPORT = "<frozen importlib"  # how the file name of Python's own frames of an import begins

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


def _imports(frame: FrameType | None) -> int:
    """How many frames of imports there are around a frame."""
    count = 0
    while frame is not None:
        count += frame.f_code.co_filename.startswith(_IMPORT)
        frame = frame.f_back
    return count


def _send_again(number: int) -> None:
    """Send a signal to the main thread in a moment.

    An import is no place for an exception: Python's own callbacks print and lose it, and compiled
    modules crash.
    """

    def send() -> None:
        if hasattr(signal, "pthread_kill"):
            signal.pthread_kill(cast(int, threading.main_thread().ident), number)
        else:
            signal.raise_signal(number)

    timer = threading.Timer(_SOON, send)
    timer.daemon = True
    timer.start()


@contextlib.contextmanager
def _handled(handle: Callable[[int], None]) -> Iterator[None]:
    # only the main thread gets signals
    if threading.current_thread() is not threading.main_thread():
        yield
        return

    global _depth
    if not _depth:
        _received.clear()

    outside = _imports(sys._getframe())  # a program may run while its own module is imported

    def handler(number: int, frame: FrameType | None) -> None:
        if _imports(frame) > outside:
            _send_again(number)
            return
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
