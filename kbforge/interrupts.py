"""Termination: SIGTERM and SIGHUP act like Ctrl-C.

A terminal that closes sends SIGHUP; systemd, Slurm and Docker send SIGTERM. All three signals raise
`KeyboardInterrupt` in the main thread. A signal that the program was started to ignore, as `nohup`
does with SIGHUP, stays ignored.

The exception is raised outside of imports, where code of KBForge or of its caller runs. Inside a
library it could crash a compiled module that has called Python, or get lost in a finalizer. A
signal that comes elsewhere is sent again every .02 s until it finds such a place, for a second;
then any place outside of imports is accepted, because a library may wait forever. If none is found,
the program ends with it.
"""

from __future__ import annotations

import _thread
import contextlib
import signal
import sys
import sysconfig
import threading
import time
from collections.abc import Callable, Iterator
from types import FrameType
from typing import cast

from kbforge.errors import EXIT_INTERRUPTED

_NAMES = ("SIGINT", "SIGTERM", "SIGHUP")
SIGNALS = tuple(getattr(signal, name) for name in _NAMES if hasattr(signal, name))
"""The signals that end a run; some systems lack some of them."""

EXIT_CODES = frozenset(128 + number for number in SIGNALS)

_AGAIN = 0.02  # seconds after which a signal that came in a bad place is sent again
_MOST_TIMES = 50  # then any place outside of imports will do
_IMPORT = "<frozen importlib"  # how the file name of Python's own frames of an import begins

_STANDARD_LIBRARY = sysconfig.get_path("stdlib")

_received: list[int] = []
_postponed: dict[int, int] = {}  # how often each signal was sent again that found no place yet
_depth = 0


@contextlib.contextmanager
def heeded() -> Iterator[None]:
    """Raise `KeyboardInterrupt` at each of the signals within the block.

    A scheduler or user may send several signals in a row. A SIGTERM or SIGHUP that is
    not the first signal is ignored, so that it cannot disturb what the first one began: the writing
    of a partial result. Ctrl-C always counts.
    """

    def end() -> None:
        raise KeyboardInterrupt

    with handled(end):
        yield


@contextlib.contextmanager
def deferred() -> Iterator[Callable[[], bool]]:
    """Hold signals back until the end of the block; Ctrl-C pressed twice does not wait.

    Yields:
        whether there was one.

    Raises:
        KeyboardInterrupt: at the end, if there was one.

    """
    came = False

    def note() -> None:
        nonlocal came
        if came:
            raise KeyboardInterrupt
        came = True

    with handled(note):
        yield lambda: came
    if came:
        raise KeyboardInterrupt


@contextlib.contextmanager
def not_inherited() -> Iterator[None]:
    """Start processes that ignore Ctrl-C, which a terminal sends to all: their parent ends them.

    They inherit the signals that this thread blocks; this thread receives the signal afterwards.
    """
    if not hasattr(signal, "pthread_sigmask"):
        yield
        return
    from multiprocessing import resource_tracker

    resource_tracker.ensure_running()  # as it begins, it lets the signal through again
    before = signal.pthread_sigmask(signal.SIG_BLOCK, {signal.SIGINT})
    try:
        yield
    finally:
        signal.pthread_sigmask(signal.SIG_SETMASK, before)


@contextlib.contextmanager
def handled(on_signal: Callable[[], None]) -> Iterator[None]:
    """Call a function at each of the signals; it may raise `KeyboardInterrupt`."""
    # only the main thread gets signals
    if threading.current_thread() is not threading.main_thread():
        yield
        return

    global _depth
    if not _depth:
        _received.clear()

    outside = _imports(sys._getframe())  # a program may run while its own module is imported

    def handle(number: int, frame: FrameType | None) -> None:
        times = _postponed.pop(number, 0)
        again = bool(_received) and not times
        if not times:
            _received.append(number)
        if again and number != signal.SIGINT:
            return
        try:
            on_signal()
        except KeyboardInterrupt:
            if _imports(frame) == outside and (_is_own(frame) or times > _MOST_TIMES):
                raise
            _postpone(number, times + 1)

    # a program in the background, or under nohup, may have been started to ignore one
    heard = {number: signal.getsignal(number) for number in SIGNALS}
    heard = {number: old for number, old in heard.items() if old not in (signal.SIG_IGN, None)}
    for number in heard:
        signal.signal(number, handle)
    _depth += 1
    try:
        yield
    finally:
        _depth -= 1
        for number, old in heard.items():
            signal.signal(number, old)
        if not _depth and _postponed:
            _postponed.clear()
            if not isinstance(sys.exception(), Exception):
                raise KeyboardInterrupt


def exit_code() -> int:
    """The exit code of a run that a signal ended: 128 plus the number of the signal."""
    return 128 + _received[0] if _received else EXIT_INTERRUPTED


def sentence() -> str:
    """`interrupted`, and the signal if it was not Ctrl-C."""
    if not _received or _received[0] == signal.SIGINT:
        return "interrupted"
    return f"interrupted by {signal.Signals(_received[0]).name}"


def _imports(frame: FrameType | None) -> int:
    """The number of import frames around a frame."""
    count = 0
    while frame is not None:
        count += frame.f_code.co_filename.startswith(_IMPORT)
        frame = frame.f_back
    return count


def _is_own(frame: FrameType | None) -> bool:
    """Whether a frame runs code of KBForge or of a program that uses it, not of a library."""
    if frame is None:
        return False
    if str(frame.f_globals.get("__name__")).startswith("kbforge"):
        return True
    file = frame.f_code.co_filename
    installed = "site-packages" in file or "dist-packages" in file
    return not installed and not file.startswith(("<", _STANDARD_LIBRARY))


def _postpone(number: int, times: int) -> None:
    """Send a signal to the main thread after a short delay."""
    _postponed[number] = times

    def send() -> None:
        time.sleep(_AGAIN)
        if number not in _postponed:
            return
        if hasattr(signal, "pthread_kill"):
            signal.pthread_kill(cast(int, threading.main_thread().ident), number)
        else:
            signal.raise_signal(number)

    # threading.Thread takes locks that the interrupted code may hold
    _thread.start_new_thread(send, ())
