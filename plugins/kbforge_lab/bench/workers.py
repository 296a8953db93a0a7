"""Runs a fixed number of processes at a time.

A worker is a fresh interpreter at the other end of a pipe. It takes one run after another; of whole
ways to a grouping only one, so that the measured memory is that run's. It ends when the pipe does,
or in the middle of a run when the bench is killed. Only the bench acts on Ctrl-C.
"""

from __future__ import annotations

import contextlib
import multiprocessing
import os
import signal
import threading
from collections import deque
from collections.abc import Generator, Sequence
from dataclasses import dataclass
from multiprocessing.connection import Connection, wait
from typing import TYPE_CHECKING, Any

from kbforge import interrupts
from kbforge.errors import KBForgeError, quoted

if TYPE_CHECKING:
    from multiprocessing.context import SpawnProcess

    from kbforge_lab.bench.perform import Outcome
    from kbforge_lab.bench.runs import BenchRun

_SHOWN = 400  # characters of what a plugin says of its failure
_SECONDS_TO_DIE = 10.0  # between the end of its pipe and that of a process


@dataclass(frozen=True, slots=True)
class Failure:
    """A run without a result, and one sentence on why."""

    run: BenchRun
    why: str


def perform_all(runs: Sequence[BenchRun], workers: int) -> Generator[Outcome | Failure]:
    """The result of each run as it comes; a run that fails, or whose process dies, hurts no other.

    With one worker, results come in the order of the runs.
    """
    waiting = deque(runs)
    crew = [_Worker() for _ in range(min(workers, len(runs)))]
    busy: dict[Any, _Worker] = {}
    try:
        for worker in crew:
            busy[worker.begin(waiting.popleft())] = worker
        while busy:
            for pipe in wait(list(busy)):
                worker = busy.pop(pipe)
                outcome = worker.finish()
                if waiting:
                    busy[worker.begin(waiting.popleft())] = worker
                yield outcome
    finally:
        for worker in crew:
            worker.end()


class _Worker:
    """The near end of a worker process, which is started when there is a run and no process."""

    def __init__(self) -> None:
        self._process: SpawnProcess | None = None
        self._pipe: Connection
        self._run: BenchRun

    def begin(self, run: BenchRun) -> Connection:
        """Hand over a run; returns the pipe that has something to say when it is over."""
        if self._process is None:
            self._start()
        self._run = run
        # that the process is dead is what `finish` finds out
        with contextlib.suppress(OSError):
            self._pipe.send(run)
        return self._pipe

    def finish(self) -> Outcome | Failure:
        try:
            outcome: Outcome | str = self._pipe.recv()
        except (EOFError, OSError):
            return Failure(self._run, self._death())
        if self._run.task.likelihood is None:
            self.end()  # the next one's memory is to be its own
        return Failure(self._run, outcome) if isinstance(outcome, str) else outcome

    def end(self) -> None:
        """Stop the process, in the middle of a run if need be."""
        if self._process is not None:
            self._pipe.close()
            self._process.terminate()
            self._process.join()
            self._process = None

    def _start(self) -> None:
        context = multiprocessing.get_context("spawn")
        self._pipe, far = context.Pipe()
        process = context.Process(target=_serve, args=(far,), daemon=True)
        try:
            with interrupts.not_inherited():
                process.start()
        except OSError as error:
            reason = (error.strerror or str(error)).lower()
            raise KBForgeError(f"cannot start a process for a run: {reason}") from error
        finally:
            # only the worker holds that end now, so that its death is the end of the pipe
            far.close()
        self._process = process

    def _death(self) -> str:
        assert self._process is not None
        self._process.join(_SECONDS_TO_DIE)
        code = self._process.exitcode
        self.end()
        # the system kills who takes too much
        why = " (out of memory?)" if code == -signal.SIGKILL else ""
        return f"its process ended with exit code {code}{why}"


def _serve(pipe: Connection) -> None:
    """The far end: one run after another until the pipe closes."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    threading.Thread(target=_end_with_the_bench, daemon=True).start()
    # before NumPy is imported: runs side by side must not fight for the cores
    os.environ.setdefault("OMP_NUM_THREADS", "1")
    with contextlib.suppress(EOFError, OSError):  # the bench has ended, or was killed
        while True:
            pipe.send(_outcome(pipe))


def _end_with_the_bench() -> None:
    """A killed bench must not leave a run behind that computes for half an hour."""
    bench = multiprocessing.parent_process()
    assert bench is not None
    wait([bench.sentinel])
    os._exit(1)


def _outcome(pipe: Connection) -> Outcome | str:
    """What comes of the next run, or a sentence on why nothing does."""
    try:
        run: BenchRun = pipe.recv()
    except (EOFError, OSError):
        raise
    except Exception as error:  # what a plugin's own objects make of being unpacked
        return _sentence(error)
    try:
        from kbforge_lab.bench.perform import perform

        return perform(run)
    except (Exception, SystemExit) as error:  # a stranger's plugin may raise anything
        return _sentence(error)


def _sentence(error: BaseException) -> str:
    if isinstance(error, KBForgeError):
        return str(error)
    if isinstance(error, MemoryError):
        return "out of memory"
    return quoted(f"{type(error).__name__}: {error}".removesuffix(": "), _SHOWN)
