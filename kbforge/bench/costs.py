"""What a run costs: seconds on the wall, seconds of the processor, memory."""

from __future__ import annotations

import contextlib
import re
import time
from dataclasses import dataclass
from pathlib import Path

_PROCESS = Path("/proc/self")
_FORGET = "5"  # sets the peak to what is resident now (man 5 proc, clear_refs)
_PEAK = re.compile(r"^VmHWM:\s*(\d+) kB$", re.MULTILINE)


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


def forget_peak() -> None:
    """Let `peak_mib` begin anew; where the system cannot, the peak is that of the whole process."""
    with contextlib.suppress(OSError):
        (_PROCESS / "clear_refs").write_text(_FORGET)


def peak_mib() -> float | None:
    """The most memory of this process since `forget_peak`, None where the system does not say."""
    try:
        found = _PEAK.search((_PROCESS / "status").read_text())
    except OSError:
        return None
    return int(found[1]) / 1024 if found else None
