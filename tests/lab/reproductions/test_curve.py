"""The curve beside Splink: runs are kept, not repeated, and end where a program fails."""

import sys
from argparse import Namespace
from pathlib import Path

import pytest

from tests.scripts import script

curve = script("curve")


def row(size: int, program: str, wall: float, *f1: tuple[float, float]) -> dict:
    scores = {str(k): list(one) for k, one in enumerate(f1)}
    return {"size": size, "program": program, "wall": wall, "cpu": 1, "mib": 2000, "f1": scores}


def test_the_table_has_medians_and_the_threshold_with_the_best_f1():
    rows = [
        *(row(10_000, curve.OURS, wall, (0.94, 0.9)) for wall in (9.0, 2.0, 3.0)),
        row(10_000, curve.THEIRS, 4.0, (0.8, 0.85), (0.9, 0.7)),
        {"size": 30_000, "program": curve.THEIRS, "failed": "more than 5 s"},
    ]
    assert curve.shown(rows).splitlines()[2:] == [
        "| 10,000 | 3.0 (1.0) | 2,000 | .940 / .900 | 4.0 (1.0) | 2,000 | .900 / .700 |",
        "| 30,000 | - |  |  | more than 5 s |  |  |",
    ]


def test_a_run_is_not_repeated_and_a_failure_ends_a_curve(tmp_path: Path, monkeypatch):
    ran: list[tuple[str, int]] = []

    def run(program, files, splink, most):
        size = len(files.lines.read_text().splitlines())
        ran.append((program, size))
        failed = program == curve.THEIRS and size == 20
        return {"failed": "exit code 1"} if failed else {"wall": 1.0, "cpu": 1.0, "mib": 1.0}

    pytest.importorskip("pyarrow")
    monkeypatch.setattr(curve, "run", run)
    monkeypatch.setattr(curve, "scores", lambda program, files: {"": (1.0, 1.0)})
    given = Namespace(
        results=tmp_path / "runs.jsonl", repeats=2, folder=tmp_path, seed=0, splink="", seconds=9.0
    )
    for size in (10, 20, 10, 20, 30):
        curve.measure(size, given)
    both = [(curve.OURS, 10), (curve.THEIRS, 10)]
    assert ran[:4] == both * 2
    assert ran[4:7] == [(curve.OURS, 20), (curve.THEIRS, 20), (curve.OURS, 20)]
    assert ran[7:] == [(curve.OURS, 30)] * 2
    assert [path.name for path in tmp_path.iterdir()] == ["runs.jsonl"]


@pytest.mark.parametrize(
    ("program", "reason"),
    [
        ("import sys; print('not so', file=sys.stderr); sys.exit(3)", "exit code 3: not so"),
        ("import time; time.sleep(100)", "more than 0.5 s"),
    ],
)
def test_a_program_that_fails_or_takes_too_long_says_so(
    program: str, reason: str, tmp_path: Path, monkeypatch
):
    files = curve.Files(*(tmp_path / name for name in "abc"), tmp_path)
    (tmp_path / "side.py").write_text(program)
    monkeypatch.setattr(curve, "SIDE", tmp_path / "side.py")
    most = 0.5 if "sleep" in program else 100.0
    assert curve.run(curve.THEIRS, files, sys.executable, most) == {"failed": reason}
