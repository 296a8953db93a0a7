"""The costs of a run: wall time, CPU time, memory."""

from __future__ import annotations

import re
import time
from dataclasses import dataclass
from pathlib import Path

_STATUS = Path("/proc/self/status")
_PEAK = re.compile(r"^VmHWM:\s*(\d+) kB$", re.MULTILINE)
_RESIDENT = re.compile(r"^VmRSS:\s*(\d+) kB$", re.MULTILINE)


@dataclass(frozen=True, slots=True)
class Clocks:
    """Seconds on the wall and of this process."""

    wall: float = 0.0
    cpu: float = 0.0

    @classmethod
    def now(cls) -> Clocks:
        """What the clocks show."""
        return cls(time.perf_counter(), time.process_time())

    def __add__(self, other: Clocks) -> Clocks:
        return Clocks(self.wall + other.wall, self.cpu + other.cpu)

    def __sub__(self, other: Clocks) -> Clocks:
        return Clocks(self.wall - other.wall, self.cpu - other.cpu)


def peak_mib() -> float | None:
    """The most memory that this process has had, None where the system does not say.

    `getrusage` says so everywhere, but on Linux it counts what the parent had when it began this.
    """
    return _status(_PEAK)


def resident_mib() -> float | None:
    """The memory that this process has now, None where the system does not say."""
    return _status(_RESIDENT)


def _status(figure: re.Pattern[str]) -> float | None:
    try:
        found = figure.search(_STATUS.read_text())
    except OSError:
        return None
    return int(found[1]) / 1024 if found else None
