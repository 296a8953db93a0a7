"""The budget of seconds of a batch run, and the progress that it reports on the way."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator

from kbforge.contracts import OnStep, Progress
from kbforge.errors import UsageError

_SECONDS_BETWEEN_REPORTS = 0.1
_SETS_A_STEP = 64


class OutOfTime(Exception):
    """The budget is spent."""


class Watch:
    """Looks at the clock between the small steps of a run.

    Args:
        budget: seconds (of a monotonic clock) from now on that the run may take, those that
            `on_step` takes not counted; None for any number. A run that ends by it depends on
            the machine and on what else that does.
        on_step: is told of every round, and of progress within long ones.

    """

    def __init__(self, budget: float | None, on_step: OnStep | None) -> None:
        self._on_step = on_step
        self._reported = time.monotonic()
        self._deadline = float("inf") if budget is None else self._reported + budget

    def step(self, progress: Callable[[], Progress]) -> None:
        """After a step within a round.

        Raises:
            OutOfTime: the budget is spent.
            Interrupted: `on_step` has had enough.

        """
        self._look(progress, _SECONDS_BETWEEN_REPORTS)

    def round(self, progress: Callable[[], Progress]) -> None:
        """After a round: reported always, and otherwise as `step`."""
        self._look(progress, 0.0)

    def _look(self, progress: Callable[[], Progress], apart: float) -> None:
        now = time.monotonic()
        if self._on_step is not None and now - self._reported >= apart:
            self._on_step(progress())
            self._reported = time.monotonic()
            self._deadline += self._reported - now
            now = self._reported
        if now >= self._deadline:
            raise OutOfTime


def stretches(count: int) -> Iterator[range]:
    """The numbers 0..count-1, few enough at a time to score a set for each between two looks."""
    for begin in range(0, count, _SETS_A_STEP):
        yield range(begin, min(begin + _SETS_A_STEP, count))


def require_positive(**options: float | None) -> None:
    """Refuse options that are not above 0; None is no limit.

    Raises:
        UsageError: the first that is not.

    """
    for name, value in options.items():
        if value is not None and not value > 0:
            raise UsageError(f"{name}: expected a number above 0, got {value}")
