"""Work on many files at once, in processes of their own."""

from __future__ import annotations

import os
from collections import deque
from collections.abc import Callable, Iterable, Iterator
from concurrent.futures import Future, ProcessPoolExecutor
from multiprocessing import get_context
from typing import TypeVar

from kbforge.kernel.binding import WORKERS, workers

Task = TypeVar("Task")
Result = TypeVar("Result")


def in_processes(work: Callable[[Task], Result], tasks: Iterable[Task]) -> Iterator[Result]:
    """The results of all tasks, in their order; a process has one thread."""
    context, held = get_context("spawn"), deque[Future[Result]]()
    with ProcessPoolExecutor(workers(), context, initializer=_of_one_thread) as pool:
        for task in tasks:
            held.append(pool.submit(work, task))
            if len(held) > _AHEAD * workers():
                yield held.popleft().result()
        while held:
            yield held.popleft().result()


_AHEAD = 3  # tasks that wait, for each process


def _of_one_thread() -> None:
    os.environ[WORKERS] = "1"
