"""Processes that score for a server: what takes long leaves its threads free for everybody else.

A helper opens the store itself, with models of its own, and gets a function's name and arguments.
It ends with the server, also if that is killed.
"""

from __future__ import annotations

import contextlib
import functools
import multiprocessing
import os
import signal
import threading
from collections.abc import Callable, Iterator
from concurrent.futures import ProcessPoolExecutor
from concurrent.futures.process import BrokenProcessPool
from importlib import import_module
from multiprocessing import resource_tracker
from multiprocessing.connection import Connection, wait
from typing import Any, TypeVar, cast

from kbforge.errors import KBForgeError, NotFoundError, UsageError
from kbforge.serve.readers import Readers

_Question = TypeVar("_Question", bound=Callable[..., Any])
_ERRORS = (NotFoundError, UsageError, KBForgeError)
"""As which an error comes back; the first that fits."""

_readers: Readers | None = None
"""Of a helper."""


class Helpers:
    """Some processes over one store; they begin at once and load its models."""

    def __init__(self, path: str, processes: int) -> None:
        context = multiprocessing.get_context("spawn")
        heard, self._end = context.Pipe(duplex=False)
        self._pool = ProcessPoolExecutor(processes, context, _begin, (path, heard))
        with _deaf():
            self._warming = [self._pool.submit(_warm) for _ in range(processes)]

    @property
    def warm(self) -> bool:
        """Whether one of them has loaded its models."""
        return any(each.done() for each in self._warming)

    def ask(self, module: str, name: str, *given: Any, **named: Any) -> Any:
        """What the function says of the helper's readers and the arguments.

        Raises:
            KBForgeError: as the function, or as its nearest parent of `_ERRORS`.
            BrokenProcessPool: a helper was killed; there are none from now on.

        """
        told, wrong = self._pool.submit(_answer, module, name, given, named).result()
        if wrong is not None:
            kind, sentence = wrong
            raise _ERRORS[kind](sentence)
        return told

    def close(self) -> None:
        """End them at once, whatever they do: they only read."""
        self._end.close()
        self._pool.shutdown(cancel_futures=True)


def aside(question: _Question) -> _Question:
    """Have a helper answer a function of readers where there are any."""

    @functools.wraps(question)
    def asked(readers: Readers, *given: Any, **named: Any) -> Any:
        if readers.helpers is not None:
            with contextlib.suppress(BrokenProcessPool):
                name = question.__qualname__
                return readers.helpers.ask(question.__module__, name, *given, **named)
            readers.helpers = None
        return question(readers, *given, **named)

    return cast(_Question, asked)


@contextlib.contextmanager
def _deaf() -> Iterator[None]:
    """Processes that begin now hear no Ctrl-C, which a terminal sends to all: the server ends them.

    They inherit what this thread blocks; to it the signal comes afterwards.
    """
    if not hasattr(signal, "pthread_sigmask"):
        yield
        return
    resource_tracker.ensure_running()  # as it begins, it lets the signal through again
    before = signal.pthread_sigmask(signal.SIG_BLOCK, {signal.SIGINT})
    try:
        yield
    finally:
        signal.pthread_sigmask(signal.SIG_SETMASK, before)


def _begin(path: str, heard: Connection) -> None:
    """Make this process a helper, until the other end of a pipe is closed."""
    global _readers
    threading.Thread(target=_end_with, args=(heard,), daemon=True).start()
    _readers = Readers(path)


def _end_with(heard: Connection) -> None:
    """End with the server, which has the only other end: also when it is killed."""
    wait([heard])
    os._exit(0)


def _warm() -> None:
    assert _readers is not None, "the pool has begun it"
    _readers.warm()


def _answer(
    module: str, name: str, given: tuple[object, ...], named: dict[str, object]
) -> tuple[object, tuple[int, str] | None]:
    """What a function says, or which error it raised and its sentence."""
    try:
        return getattr(import_module(module), name)(_readers, *given, **named), None
    except KBForgeError as error:
        kind = next(at for at, known in enumerate(_ERRORS) if isinstance(error, known))
        return None, (kind, str(error))
