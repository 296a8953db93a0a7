"""`kbforge bench` as users run it, and as crashes interrupt it."""

from __future__ import annotations

import json
import signal
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

import pytest

from tests.bench.toys import install_failing
from tests.program import Run
from tests.registry.distributions import kbforge

ROOT = Path(__file__).parents[2]
# three clusterers, two orders of 60 points: a second of work
SMALL = ("gauss", "--quick", "--set", "suite.points=60", "--shuffles", "2", "--methods")
METHODS = "greedy,smc,split smc"


def rows(folder: Path, name: str = "results.jsonl") -> list[dict[str, Any]]:
    return [json.loads(line) for line in (folder / name).read_text().splitlines()]


def timeless(folder: Path) -> tuple[list[Any], list[Any]]:
    """Rows and trace without what the clock says."""
    return tuple(  # type: ignore[return-value]
        [{k: v for k, v in row.items() if "seconds" not in k} for row in rows(folder, name)]
        for name in ("results.jsonl", "trace.jsonl")
    )


def test_a_bench_from_end_to_end_and_again(program: Run, tmp_path: Path) -> None:
    folder = tmp_path / "bench"
    ran = program("bench", *SMALL, METHODS, "-o", folder, "--json", "--format", "parquet")
    assert ran.code == 0, ran.err
    summary = ran.json
    assert summary["finished_before"] == 0
    assert summary["runs"] == len(rows(folder)) > 6
    assert [line["method"] for line in summary["table"]] == ["Greedy", "SMC", "Split SMC"]
    assert all(line["runs"] == 2 for line in summary["table"])
    assert len(summary["expectations"]) == 3
    report = (folder / "report.md").read_text()
    assert "| Split SMC (P=100) | 2 |" in report
    for kind in ("runtime", "particles", "observations", "subproblems", "surrogate"):
        picture = f"gauss-{kind}.png"
        assert picture in summary["figures"]
        assert f"({picture})" in report
        assert (folder / picture).read_bytes().startswith(b"\x89PNG")
    assert (folder / "results.parquet").is_file()
    before = (folder / "results.jsonl").read_bytes()
    again = program("bench", *SMALL, METHODS, "-o", folder, "--json", "--no-figures")
    assert again.json == summary | {"finished_before": summary["runs"], "figures": []}
    assert (folder / "results.jsonl").read_bytes() == before


def test_a_killed_bench_goes_on_where_it_was(program: Run, tmp_path: Path) -> None:
    whole, killed = tmp_path / "whole", tmp_path / "killed"
    job = ("bench", *SMALL, METHODS, "--no-figures")
    assert program(*job, "-o", whole).code == 0
    command = [sys.executable, "-m", "kbforge.cli.main", *job, "-o", str(killed)]
    with subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE) as bench:
        results = killed / "results.jsonl"
        deadline = time.monotonic() + 300
        while not (results.is_file() and results.read_bytes().count(b"\n") >= 3):
            assert bench.poll() is None, bench.communicate()
            assert time.monotonic() < deadline
            time.sleep(0.002)
        bench.send_signal(signal.SIGKILL)
        bench.communicate()
    early = results.read_bytes()
    early = early[: early.rfind(b"\n") + 1]
    assert 3 <= early.count(b"\n") < len(rows(whole))
    shown = program(*job, "-o", killed, "--json", "--report-only").json
    assert shown["runs"] == shown["finished_before"] == early.count(b"\n")
    assert shown["notes"] == [
        f"{len(rows(whole)) - shown['runs']} of {len(rows(whole))} runs are not done yet",
        *shown["notes"][1:],
    ]
    assert any("planned orders of" in note for note in shown["notes"][1:])
    assert "not done yet" in (killed / "report.md").read_text()
    ran = program(*job, "-o", killed, "--json")
    assert ran.code == 0, ran.err
    assert ran.json["finished_before"] == early.count(b"\n")
    assert results.read_bytes().startswith(early)
    assert timeless(killed) == timeless(whole)


def test_a_failed_run_is_told_ends_no_other_and_is_tried_again(tmp_path: Path) -> None:
    ready = tmp_path / "ready"
    failing = f"if not os.path.exists({str(ready)!r}): raise ZeroDivisionError('no [b]such[/b]')"
    install_failing(tmp_path / "path", failing)
    job = ("bench", "toys", "--no-figures", "-o", str(tmp_path / "b"))
    ran = kbforge(*job, path=tmp_path / "path", cwd=ROOT)
    sentence = "Failing on toy, order 0, and 1 other run failed: ZeroDivisionError: no [b]such[/b]"
    assert ran.code == 1
    assert ran.err.splitlines() == [
        f"note: {sentence}",
        "note: toy: 0 of 2 planned orders of Failing",
        f"2 runs; 2 failed, the same command tries again; wrote {tmp_path / 'b'}/report.md",
    ]
    assert f"- {sentence}" in (tmp_path / "b" / "report.md").read_text()
    assert [row["method"] for row in rows(tmp_path / "b")] == ["Greedy", "Greedy"]
    ready.touch()
    again = kbforge(*job, "--json", path=tmp_path / "path", cwd=ROOT)
    assert again.code == 0, again.err
    summary = json.loads(again.out)
    assert (summary["runs"], summary["finished_before"], summary["failed"]) == (4, 2, [])
    ready.unlink()
    # nothing runs, so nothing fails
    assert kbforge(*job, path=tmp_path / "path", cwd=ROOT).code == 0


def test_expectations_that_fail_are_an_exit_code_with_check(
    program: Run, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    from kbforge.bench.summary import Verdict, verdicts

    def hopeless(*arguments: Any) -> list[Verdict]:
        return [Verdict(v.expectation, False, v.sentence) for v in verdicts(*arguments)]

    job = ("bench", *SMALL, "greedy", "--no-sweeps", "--no-figures", "-o", tmp_path / "b")
    # greedy alone: nothing to compare it with, so nothing fails
    assert program(*job, "--check").code == 0
    monkeypatch.setattr("kbforge.bench.laboratory.verdicts", hopeless)
    assert program(*job).code == 0
    ran = program(*job, "--check")
    assert ran.code == 1
    assert b"FAILED" in ran.out


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        (("no-such",), 'there is no suite "no-such"; available: circles, gauss'),
        (("gauss", "--methods", "magic"), 'no method "magic"'),
        (("gauss", "--tasks", "text"), 'no task "text" in this suite; tasks: gauss'),
        (("gauss", "--set", "suite.pionts=3"), 'no option "pionts"'),
        (("gauss", "--set", "suite.points=0"), "points must be positive"),
        (("gauss", "--seconds", "0"), "--seconds"),
        (("gauss", "--quick", "--no-figures", "-o", "{file}"), "cannot write"),
        (("gauss", "--quick", "--report-only", "-o", "{file}-no"), "holds no run of this bench"),
    ],
)
def test_wrong_usage_is_one_sentence(
    program: Run, tmp_path: Path, arguments: tuple[str, ...], said: str
) -> None:
    (tmp_path / "file").write_text("")
    ran = program("bench", *(a.replace("{file}", str(tmp_path / "file")) for a in arguments))
    assert ran.code != 0
    assert not (tmp_path / "file-no").exists()
    lines = [line for line in ran.err.splitlines() if not line.startswith("note: ")]
    assert len(lines) == 1
    assert said in lines[0]


def test_without_matplotlib_the_extra_is_named_before_any_work(
    program: Run, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setitem(sys.modules, "matplotlib", None)
    ran = program("bench", *SMALL, METHODS, "-o", tmp_path / "b")
    assert ran.code == 2
    assert "pip install 'kbforge[bench]'" in ran.err
    assert not (tmp_path / "b").exists()
