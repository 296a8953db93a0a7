"""Ctrl-C that waits for a good moment.

In the middle of a training step, weights, optimiser and counters disagree; what is saved then would
not be a run's state.
"""

from __future__ import annotations

import contextlib
import signal
import threading
from collections.abc import Callable, Iterator
from typing import Any


@contextlib.contextmanager
def deferred_interrupts() -> Iterator[Callable[[], bool]]:
    """Hold Ctrl-C back to the end of the block; pressed twice, it does not wait.

    Yields:
        whether it was pressed.

    Raises:
        KeyboardInterrupt: at the end, if it was.

    """
    previous = signal.getsignal(signal.SIGINT)
    # only the main thread gets signals, and a program in the background may ignore this one
    if threading.current_thread() is not threading.main_thread() or not callable(previous):
        yield lambda: False
        return
    pressed = False

    def press(*_: Any) -> None:
        nonlocal pressed
        if pressed:
            raise KeyboardInterrupt
        pressed = True

    signal.signal(signal.SIGINT, press)
    try:
        yield lambda: pressed
    finally:
        signal.signal(signal.SIGINT, previous)
    if pressed:
        raise KeyboardInterrupt
