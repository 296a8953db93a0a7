"""The soak takes in records by each way, and says what memory grows by."""

from __future__ import annotations

import re
import subprocess
import sys
from pathlib import Path

import pytest

from kbforge.kernel.library import kernel_library

SOAK = Path(__file__).parents[2] / "examples" / "reproductions" / "soak.py"


@pytest.mark.skipif(kernel_library() is None, reason="the engine's way is the kernel's")
@pytest.mark.skipif(sys.platform != "linux", reason="reads /proc")
@pytest.mark.parametrize("way", ["engine", "session"])
def test_rows_of_a_short_soak(way: str) -> None:
    options = ["--way", way, "--minutes", "0.01", "--seconds", "0.2", "--people", "200"]
    done = subprocess.run(
        [sys.executable, str(SOAK), *options], capture_output=True, text=True, check=True
    )
    rows = re.findall(r"^\| [\d.]+ \| ([\d,]+) \| ([\d,.]+) \| -?[\d,]+ \|", done.stdout, re.M)
    assert rows
    taken = [int(records.replace(",", "")) for records, _ in rows]
    assert taken == sorted(taken)
    assert taken[0] >= 2_000
    assert all(float(mib.replace(",", "")) > 20 for _, mib in rows)
