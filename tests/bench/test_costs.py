"""The peak of memory is that of what ran since it was forgotten."""

from __future__ import annotations

from pathlib import Path

import pytest

from kbforge.bench import costs


def test_a_peak_is_of_what_ran_since() -> None:
    costs.forget_peak()
    before = costs.peak_mib()
    if before is None:
        pytest.skip("this system does not say")
    held = bytearray(b"x") * (64 << 20)
    high = costs.peak_mib()
    assert high is not None
    assert high >= before + 50
    del held
    if not (costs._PROCESS / "clear_refs").exists():
        pytest.skip("this system does not forget")
    costs.forget_peak()
    after = costs.peak_mib()
    assert after is not None
    assert after < high - 30


def test_a_system_that_says_nothing_is_no_error(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(costs, "_PROCESS", tmp_path / "none")
    costs.forget_peak()
    assert costs.peak_mib() is None
