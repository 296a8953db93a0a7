"""Processes that do slow scoring for a server.

A helper opens the store itself, with its own models, and receives a function's name and arguments.
It ends with the server, even if the server is killed.
"""

from __future__ import annotations

import contextlib
import functools
import multiprocessing
import os
import threading
import traceback
from collections.abc import Callable
from importlib import import_module
from multiprocessing.connection import Connection, wait
from multiprocessing.process import BaseProcess
from queue import SimpleQueue
from typing import Any, TypeVar, cast

from kbforge import interrupts
from kbforge.errors import BusyError, KBForgeError, NotFoundError, StoreError, UsageError
from kbforge_serve.readers import Readers

_Question = TypeVar("_Question", bound=Callable[..., Any])
_ERRORS = (NotFoundError, UsageError, BusyError, StoreError, KBForgeError, RuntimeError)
"""The type under which an error is raised again; the first that fits. The last is for internal
errors."""

_GONE = (EOFError, OSError)
"""Errors raised by the pipe to a process that has ended."""


class Helpers:
    """Some processes over one store; they start at once and load its models.

    Requests and answers go through pipes: the queues of `multiprocessing` have semaphores, which
    outlive a server that is killed.
    """

    def __init__(self, path: str, processes: int) -> None:
        context = multiprocessing.get_context("spawn")
        heard, self._end = context.Pipe(duplex=False)
        self.processes: list[BaseProcess] = []
        self._idle: SimpleQueue[Connection | None] = SimpleQueue()
        self.warm = False  # whether one of them has loaded its models
        with interrupts.not_inherited():
            for _ in range(processes):
                ours, theirs = context.Pipe()
                process = context.Process(target=_help, args=(path, heard, theirs), daemon=True)
                process.start()
                theirs.close()
                self.processes.append(process)
                threading.Thread(target=self._begun, args=(ours,), daemon=True).start()
        heard.close()

    def _begun(self, helper: Connection) -> None:
        """Send requests to a helper once it has loaded its models."""
        with contextlib.suppress(*_GONE):
            helper.recv()
        self.warm = True
        self._idle.put(helper)

    def ask(self, module: str, name: str, *given: Any, **named: Any) -> Any:
        """The function's result for the helper's readers and the arguments.

        Raises:
            KBForgeError: as the function, or its nearest parent class in `_ERRORS`.
            RuntimeError: the function failed; with its traceback.
            EOFError: a helper was killed; there are none from now on.

        """
        helper = self._idle.get()
        try:
            if helper is None:
                raise EOFError
            helper.send((module, name, given, named))
            told, wrong = helper.recv()
        except _GONE as error:
            self._idle.put(None)
            raise EOFError from error
        self._idle.put(helper)
        if wrong is not None:
            kind, sentence = wrong
            raise _ERRORS[kind](sentence)
        return told

    def close(self) -> None:
        """End them at once, whatever they do, because they only read."""
        self._end.close()
        self._idle.put(None)
        for process in self.processes:
            process.join()


def aside(question: _Question) -> _Question:
    """Call a function of readers in a helper, if there are any."""

    @functools.wraps(question)
    def asked(readers: Readers, *given: Any, **named: Any) -> Any:
        if readers.helpers is not None:
            with contextlib.suppress(EOFError):
                name = question.__qualname__
                return readers.helpers.ask(question.__module__, name, *given, **named)
            readers.helpers = None
        return question(readers, *given, **named)

    return cast(_Question, asked)


def _help(path: str, heard: Connection, asked: Connection) -> None:
    """Run a helper until the other end of a pipe is closed."""
    threading.Thread(target=_end_with, args=(heard,), daemon=True).start()
    readers = Readers(path)
    readers.warm()
    asked.send(None)
    while True:
        module, name, given, named = asked.recv()
        try:
            asked.send((getattr(import_module(module), name)(readers, *given, **named), None))
        except KBForgeError as error:
            kind = next(at for at, known in enumerate(_ERRORS) if isinstance(error, known))
            asked.send((None, (kind, str(error))))
        except Exception:
            asked.send((None, (len(_ERRORS) - 1, traceback.format_exc())))


def _end_with(heard: Connection) -> None:
    """End with the server, which has the only other end, even if it is killed."""
    wait([heard])
    os._exit(0)
