"""Workers: runs in processes of their own, a fixed number at a time.

A worker is a fresh interpreter at the other end of a pipe: it takes one run after another, and it
ends when the pipe does, so that none outlives a bench that is killed.
"""

from __future__ import annotations

import multiprocessing
import os
import signal
from collections.abc import Iterator, Sequence
from multiprocessing.connection import Connection, wait
from typing import TYPE_CHECKING

from kbforge.errors import KBForgeError

if TYPE_CHECKING:
    from multiprocessing.context import SpawnProcess

    from kbforge.bench.perform import Outcome
    from kbforge.bench.runs import Run


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
        """Hand over a run."""
        self._run = run
        self.pipe.send(run)

    def finish(self) -> Outcome:
        """The outcome of the run begun last."""
        assert self._run is not None
        try:
            outcome: Outcome | str = self.pipe.recv()
        except (EOFError, OSError):
            self._process.join()
            raise KBForgeError(
                f"{self._run.called}: its process ended with exit code {self._process.exitcode} "
                "(out of memory?); the finished runs are kept, the same command goes on from them"
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
    from kbforge.bench.perform import perform

    while True:
        try:
            run: Run = pipe.recv()
        except EOFError:
            return
        try:
            outcome: Outcome | str = perform(run)
        except KBForgeError as error:
            outcome = str(error)
        try:
            pipe.send(outcome)
        except BrokenPipeError:  # the bench was killed
            return
