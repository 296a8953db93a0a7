"""The peak of memory is that of the process, where the system says so."""

from __future__ import annotations

from pathlib import Path

import pytest

from kbforge_lab.bench import costs


def test_a_peak_grows_with_what_is_held_and_stays() -> None:
    before = costs.peak_mib()
    if before is None:
        pytest.skip("this system does not say")
    held = bytearray(b"x") * (int(before + 64) << 20)
    high = costs.peak_mib()
    assert high is not None
    assert high >= before + 50
    del held
    assert costs.peak_mib() == pytest.approx(high, abs=1.0)


def test_a_system_that_says_nothing_is_no_error(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(costs, "_STATUS", tmp_path / "none")
    assert costs.peak_mib() is None
    assert costs.resident_mib() is None
    (tmp_path / "none").write_text("VmRSS: 512 kB\n")
    assert costs.peak_mib() is None
    assert costs.resident_mib() == 0.5
    (tmp_path / "none").write_text("Name: x\nVmHWM:\t  2048 kB\n")
    assert costs.peak_mib() == 2.0
