"""Workers: runs in processes of their own, a fixed number at a time.

A worker is a fresh interpreter at the other end of a pipe: it takes one run after another, and it
ends when the pipe does, so that none outlives a bench that is killed.
"""

from __future__ import annotations

import contextlib
import multiprocessing
import os
import signal
from collections.abc import Iterator, Sequence
from multiprocessing.connection import Connection, wait
from typing import TYPE_CHECKING

from kbforge.errors import KBForgeError, quoted

if TYPE_CHECKING:
    from multiprocessing.context import SpawnProcess

    from kbforge.bench.perform import Outcome
    from kbforge.bench.runs import Run

_SHOWN = 400  # characters of what a plugin says of its failure


def perform_all(runs: Sequence[Run], workers: int) -> Iterator[Outcome]:
    """The outcomes as they come; with one worker, in the order of the runs.

    Raises:
        KBForgeError: a run failed, or its process died; the sentence names the run.

    """
    waiting = list(reversed(runs))
    crew = [_Worker() for _ in range(min(workers, len(runs)))]
    try:
        for worker in crew:
            worker.begin(waiting.pop())
        busy = {worker.pipe: worker for worker in crew}
        while busy:
            for pipe in wait(list(busy)):
                worker = busy[pipe]  # type: ignore[index]  # only pipes were waited for
                outcome = worker.finish()
                if waiting:
                    worker.begin(waiting.pop())
                else:
                    del busy[worker.pipe]
                yield outcome
    finally:
        for worker in crew:
            worker.end()


class _Worker:
    """The near end of a worker process."""

    def __init__(self) -> None:
        context = multiprocessing.get_context("spawn")
        self.pipe, far = context.Pipe()
        self._process: SpawnProcess = context.Process(target=_serve, args=(far,), daemon=True)
        self._process.start()
        # only the worker holds that end now, so that its death is the end of the pipe
        far.close()
        self._run: Run | None = None

    def begin(self, run: Run) -> None:
        """Hand over a run; that the process is dead is what `finish` finds out."""
        self._run = run
        with contextlib.suppress(OSError):
            self.pipe.send(run)

    def finish(self) -> Outcome:
        """The outcome of the run begun last."""
        assert self._run is not None
        try:
            outcome: Outcome | str = self.pipe.recv()
        except (EOFError, OSError):
            self._process.join()
            code = self._process.exitcode
            # the system kills who takes too much
            why = " (out of memory?)" if code == -signal.SIGKILL else ""
            raise KBForgeError(
                f"{self._run.called}: its process ended with exit code {code}{why}; "
                "the finished runs are kept, the same command goes on from them"
            ) from None
        if isinstance(outcome, str):
            raise KBForgeError(f"{self._run.called}: {outcome}")
        return outcome

    def end(self) -> None:
        """Stop it, in the middle of a run if need be."""
        self.pipe.close()
        self._process.terminate()
        self._process.join()


def _serve(pipe: Connection) -> None:
    """The far end: one run after another until the pipe closes."""
    # Ctrl-C reaches the whole process group; the parent decides what it means
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    # before NumPy is imported: runs side by side must not fight for the cores
    os.environ.setdefault("OMP_NUM_THREADS", "1")
    with contextlib.suppress(EOFError, OSError):  # the bench has ended, or was killed
        while True:
            pipe.send(_outcome(pipe))


def _outcome(pipe: Connection) -> Outcome | str:
    """What comes of the next run, or a sentence on why nothing does."""
    try:
        run: Run = pipe.recv()
    except (EOFError, OSError):
        raise
    except Exception as error:  # what a plugin's own objects make of being unpacked
        return _sentence(error)
    try:
        from kbforge.bench.perform import perform

        return perform(run)
    except (Exception, SystemExit) as error:  # a stranger's plugin may raise anything
        return _sentence(error)


def _sentence(error: BaseException) -> str:
    if isinstance(error, KBForgeError):
        return str(error)
    if isinstance(error, MemoryError):
        return "out of memory"
    return quoted(f"{type(error).__name__}: {error}".removesuffix(": "), _SHOWN)
