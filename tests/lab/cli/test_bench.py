"""`kbforge lab bench` as users run it, and as crashes interrupt it."""

import contextlib
import json
import os
import re
import shlex
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any, cast

import pytest

from kbforge import __version__
from kbforge.registry import install_command
from tests.lab.bench.toys import PROGRAM, install_failing
from tests.people import write_people
from tests.registry.distributions import Result, python, within

ROOT = Path(__file__).parents[3]
LINUX = pytest.mark.skipif(sys.platform != "linux", reason="reads /proc")
# three clusterers, two orders of 60 points: a second of work
SMALL = ("gauss", "--quick", "--set", "suite.points=60", "--shuffles", "2", "--methods")
METHODS = "greedy,smc,split smc"
PLAIN = ("--no-sweeps", "--no-figures")
TOYS = ("lab", "bench", "toys", "--no-figures", "-o")


def toys(folder: Path, *arguments: str) -> Result:
    """The program with the suite of toys and the plugins that a folder has."""
    return python("-m", PROGRAM, *arguments, path=folder / "path", cwd=ROOT)


def rows(folder: Path, name: str = "results.jsonl") -> list[dict[str, Any]]:
    return [json.loads(line) for line in (folder / name).read_text().splitlines()]


def timeless(folder: Path) -> tuple[list[Any], list[Any]]:
    """Rows and trace without what the clock says."""
    return tuple(  # type: ignore[return-value]
        [{k: v for k, v in row.items() if "seconds" not in k} for row in rows(folder, name)]
        for name in ("results.jsonl", "trace.jsonl")
    )


def test_a_bench_from_end_to_end_and_again(program, tmp_path):
    folder = tmp_path / "bench"
    ran = program("lab", "bench", *SMALL, METHODS, "-o", folder, "--json", "--format", "parquet")
    assert ran.code == 0, ran.err
    summary = ran.json
    assert summary["finished_before"] == 0
    assert summary["runs"] == len(rows(folder)) > 6
    assert [line["method"] for line in summary["table"]] == ["Greedy", "SMC", "Split SMC"]
    assert all(line["runs"] == 2 for line in summary["table"])
    assert len(summary["expectations"]) == 3
    report = (folder / "report.md").read_text()
    assert "| Split SMC (P=100) | 2 |" in report
    for kind in ("particles", "observations", "surrogate"):
        picture = f"gauss-{kind}.png"
        assert picture in summary["figures"]
        assert f"({picture})" in report
        assert (folder / picture).read_bytes().startswith(b"\x89PNG")
    assert (folder / "results.parquet").is_file()
    before = (folder / "results.jsonl").read_bytes()
    again = program("lab", "bench", *SMALL, METHODS, "-o", folder, "--json", "--no-figures")
    assert again.json == summary | {"finished_before": summary["runs"], "figures": []}
    assert (folder / "results.jsonl").read_bytes() == before


def test_progress_names_the_setting_of_a_run(program, tmp_path, monkeypatch):
    monkeypatch.setattr("kbforge.cli.console.EVERY", -1.0)
    job = ("gauss", "--quick", "--set", "suite.points=20", "--shuffles", "1", "--no-figures")
    ran = program("lab", "bench", *job, "--methods", "split-smc", "-o", tmp_path)
    assert ran.code == 0, ran.err
    said = re.findall(r"^bench gauss: \d+/6, last (Split SMC .*): log", ran.err, re.MULTILINE)
    settings = ["P=100", "P=3", "P=10", "P=30", "P=30, M=1", "P=30, M=10"]
    assert said == [f"Split SMC ({setting}) on gauss, order 0" for setting in settings]


def test_one_run_is_one_run(program, tmp_path):
    job = ("lab", "bench", *SMALL, "greedy", *PLAIN, "--shuffles", "1")
    first, again = (program(*job, "-o", tmp_path).err.splitlines()[-1] for _ in range(2))
    assert first == f"1 run; wrote {tmp_path}/report.md"
    assert again == f"1 run, 1 finished before; wrote {tmp_path}/report.md"


def test_the_report_says_how_it_was_made_and_the_command_repeats_it(program, tmp_path):
    folder = tmp_path / "a folder"
    job = (*SMALL, METHODS, *PLAIN, "--seconds", "2.5", "--seed", "3")
    assert program("lab", "bench", *job, "--tasks", "gauss", "-o", folder).code == 0
    report = (folder / "report.md").read_text()
    how, line = report.split("\n\n")[1:3]
    plan = "the quick plan, with points = 60, at most 2.5 seconds a run:"
    assert how == f"KBForge {__version__}, {plan}"
    name, *command = shlex.split(line)
    assert name == "kbforge"
    again = program(*command, "--no-figures", "--json").json
    assert again["finished_before"] == again["runs"] == 6
    assert (folder / "report.md").read_text() == report


def test_names_from_plugins_are_no_markup(tmp_path):
    install_failing(tmp_path / "path", "pass")
    module = tmp_path / "path" / "stranger.py"
    renamed = "replace(FAILING, name='[red]Mine[/]')"
    source = module.read_text().replace("GREEDY, FAILING)", f"GREEDY, {renamed})")
    module.write_text(f"from dataclasses import replace\n{source}")
    ran = toys(tmp_path, *TOYS, str(tmp_path / "b"))
    assert ran.code == 0, ran.err
    assert "[red]Mine[/]" in ran.out


@pytest.mark.parametrize(
    ("body", "cell", "meaning"),
    [
        ("given = (given[0][:7], *given[1:])", "2 saw a part, 7 of 40", "before it saw all"),
        (
            "from dataclasses import replace; from kbforge.contracts import Ending\n"
            "        return replace(super().cluster(*given), ended=Ending.BUDGET)",
            "2 cut short",
            "the run saw all fragments",
        ),
    ],
)
def test_table_and_report_say_how_runs_ended(tmp_path, body, cell, meaning):
    install_failing(tmp_path / "path", body)
    ran = toys(tmp_path, *TOYS, str(tmp_path / "b"))
    assert ran.code == 0, ran.err
    report = (tmp_path / "b" / "report.md").read_text()
    assert re.search(r"^toy +Greedy +2 ", ran.out, re.MULTILINE)
    assert re.search(r"^toy +Failing +2\* ", ran.out, re.MULTILINE)
    assert f"\n* toy, Failing: of 2 runs {cell}\n" in ran.out
    assert f"| Failing | 2 ({cell}) |" in report
    assert "| Greedy | 2 |" in report
    assert meaning in ran.out
    assert meaning in report


def test_a_task_that_cannot_name_a_file_is_refused(tmp_path):
    people = tmp_path / "my people.jsonl"
    people.write_text('{"id": "a", "properties": {"name": ["x"]}, "label": "1"}\n')
    ran = within("lab", "bench", "text", "--set", f"suite.data={people}", "-o", str(tmp_path / "b"))
    assert ran.code == 1
    assert ran.err == (
        "kbforge: suite text: expected a task with a name of at most 100 letters, digits and "
        '_ . + -, which file names are made of, got "my people"\n'
    )
    assert not (tmp_path / "b").exists()


def test_another_seed_is_another_bench_in_the_same_folder(program, tmp_path):
    job = ("lab", "bench", *SMALL, "greedy", *PLAIN, "-o", tmp_path, "--json")
    first, moved, again = (program(*job, "--seed", seed) for seed in (0, 7, 7))
    assert [ran.json["finished_before"] for ran in (first, moved, again)] == [0, 0, 2]
    assert [row["seed"] for row in rows(tmp_path)] == [0, 0, 7, 7]
    assert moved.json["table"] == again.json["table"]
    scores = [[line["log_posterior"] for line in ran.json["table"]] for ran in (first, moved)]
    assert scores[0] != scores[1]


@contextlib.contextmanager
def started(
    *arguments: str, module: str = "kbforge.cli.main", **environment: str
) -> Iterator[subprocess.Popen[bytes]]:
    """The program in a process group of its own, as a terminal has it."""
    with subprocess.Popen(
        [sys.executable, "-m", module, *arguments],
        env=os.environ | environment,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        start_new_session=True,
    ) as process:
        yield process


def wait_for(bench: subprocess.Popen[bytes], happened: Callable[[], bool]) -> None:
    deadline = time.monotonic() + 300
    while not happened():
        assert bench.poll() is None, bench.communicate()
        assert time.monotonic() < deadline
        time.sleep(0.002)


@contextlib.contextmanager
def held(tmp_path: Path) -> Iterator[subprocess.Popen[bytes]]:
    """The bench of the toys with two of its four runs kept, and two that wait in their workers.

    When the block is left, a run waits no longer.
    """
    hold, results = tmp_path / "hold", tmp_path / "b" / "results.jsonl"
    hold.touch()
    waiting = f"import time\n        while os.path.exists({str(hold)!r}): time.sleep(0.01)"
    install_failing(tmp_path / "path", waiting)
    path = f"{tmp_path / 'path'}{os.pathsep}{ROOT}"
    with started(
        *TOYS, str(tmp_path / "b"), "--workers", "2", module=PROGRAM, PYTHONPATH=path
    ) as bench:
        try:
            wait_for(bench, lambda: results.is_file() and results.read_bytes().count(b"\n") == 2)
            yield bench
        finally:
            hold.unlink()


def test_ctrl_c_says_what_is_kept_and_the_same_command_goes_on(tmp_path):
    folder = tmp_path / "b"
    with held(tmp_path) as bench:
        # a terminal sends it to all processes of the group
        os.killpg(bench.pid, signal.SIGINT)
        out, err = bench.communicate()
    # a slow one says how far it is, too
    *progress, last = err.decode().splitlines()
    assert [line for line in progress if not line.startswith("bench toys: ")] == []
    assert last == (
        f"kbforge: interrupted: 2 of 4 runs kept in {folder}; the same command goes on from them"
    )
    assert (bench.returncode, out) == (130, b"")
    assert not (folder / "report.md").exists()
    ran = toys(tmp_path, *TOYS, str(folder), "--json")
    summary = json.loads(ran.out)
    assert (summary["finished_before"], summary["runs"]) == (2, 4)


@LINUX
def test_a_worker_is_deaf_to_ctrl_c_from_its_first_moment(tmp_path):
    job = ("lab", "bench", *SMALL, METHODS, "--no-figures", "-o", str(tmp_path / "b"))
    with started(*job) as bench:
        wait_for(bench, lambda: bool(workers_of(bench.pid)))
        (worker,) = workers_of(bench.pid)
        status = (worker / "status").read_text()
        bench.send_signal(signal.SIGINT)
        bench.communicate()
    masks = re.findall(r"^Sig(?:Blk|Ign):\s*(\w+)$", status, re.MULTILINE)
    assert any(int(mask, 16) >> (signal.SIGINT - 1) & 1 for mask in masks), status
    assert bench.returncode == 130


@LINUX
@pytest.mark.parametrize("end", [signal.SIGTERM, signal.SIGKILL])
def test_a_killed_bench_leaves_no_run_behind(tmp_path, end):
    begun = tmp_path / "begun"
    endless = f"import time; open({str(begun)!r}, 'w').close(); time.sleep(3600)"
    install_failing(tmp_path / "path", endless)
    job = (*TOYS, str(tmp_path / "b"), "--methods", "failing")
    path = f"{tmp_path / 'path'}{os.pathsep}{ROOT}"
    with started(*job, module=PROGRAM, PYTHONPATH=path) as bench:
        wait_for(bench, begun.exists)
        (worker,) = workers_of(bench.pid)
        second = toys(tmp_path, *job)
        assert (second.code, second.out) == (1, "")
        assert second.err == (
            f"kbforge: {tmp_path / 'b'} is in use: another bench is writing to it; "
            "wait for it, or give another --output\n"
        )
        bench.send_signal(end)
        bench.wait()
    deadline = time.monotonic() + 300
    while _command(worker):
        assert time.monotonic() < deadline
        time.sleep(0.01)


def workers_of(bench: int) -> list[Path]:
    """The folders under /proc of the bench's worker processes."""
    found = Path(f"/proc/{bench}/task/{bench}/children").read_text().split()
    children = [Path("/proc") / number for number in found]
    return [child for child in children if b"spawn_main" in _command(child)]


def _command(process: Path) -> bytes:
    try:
        return (process / "cmdline").read_bytes()
    except OSError:  # it is over
        return b""


def test_a_killed_bench_goes_on_where_it_was(tmp_path):
    whole, killed = tmp_path / "whole", tmp_path / "b"
    results = killed / "results.jsonl"
    with held(tmp_path) as bench:
        bench.send_signal(signal.SIGKILL)
        bench.communicate()
    early = results.read_bytes()

    def again(folder: Path, *arguments: str) -> dict[str, Any]:
        ran = toys(tmp_path, *TOYS, str(folder), *arguments, "--json")
        assert ran.code == 0, ran.err
        return cast(dict[str, Any], json.loads(ran.out))

    shown = again(killed, "--report-only")
    assert (shown["runs"], shown["finished_before"]) == (2, 2)
    assert shown["notes"][0] == "2 of 4 runs not done yet"
    assert any("planned orders of" in note for note in shown["notes"][1:])
    assert "not done yet" in (killed / "report.md").read_text()
    assert again(killed)["finished_before"] == 2
    assert results.read_bytes().startswith(early)
    assert again(whole)["finished_before"] == 0
    # two workers finish in another order than one
    assert [sorted(part, key=str) for part in timeless(killed)] == [
        sorted(part, key=str) for part in timeless(whole)
    ]


def test_a_failed_run_is_told_ends_no_other_and_is_tried_again(tmp_path):
    ready = tmp_path / "ready"
    failing = f"if not os.path.exists({str(ready)!r}): raise ZeroDivisionError('no [b]such[/b]')"
    install_failing(tmp_path / "path", failing)
    job = (*TOYS, str(tmp_path / "b"))
    ran = toys(tmp_path, *job)
    sentence = "Failing on toy, order 0, and 1 other run failed: ZeroDivisionError: no [b]such[/b]"
    assert ran.code == 1
    # a busy machine takes long enough for a line of progress
    assert [line for line in ran.err.splitlines() if not line.startswith("bench toys:")] == [
        f"note: {sentence}",
        "note: toy: 0 of 2 planned orders of Failing",
        f"2 runs; 2 failed, the same command tries again; wrote {tmp_path / 'b'}/report.md",
    ]
    assert f"- {sentence}" in (tmp_path / "b" / "report.md").read_text()
    assert [row["method"] for row in rows(tmp_path / "b")] == ["Greedy", "Greedy"]
    ready.touch()
    again = toys(tmp_path, *job, "--json")
    assert again.code == 0, again.err
    summary = json.loads(again.out)
    assert (summary["runs"], summary["finished_before"], summary["failed"]) == (4, 2, [])
    ready.unlink()
    # nothing runs, so nothing fails
    assert toys(tmp_path, *job).code == 0


def test_expectations_that_fail_are_an_exit_code_with_check(program, tmp_path):
    job = ("lab", "bench", *SMALL, METHODS, *PLAIN, "-o", tmp_path / "b")
    assert program(*job, "--check").code == 0
    install_failing(tmp_path / "path", "pass")
    module = tmp_path / "path" / "stranger.py"
    wanted = "expectations=(Expectation('toy', 'Greedy', 'f1', 2.0),), methods=(GREEDY,"
    source = module.read_text().replace("methods=(GREEDY,", wanted)
    module.write_text(f"from kbforge_lab.suites.plan import Expectation\n{source}")
    hopeless = (*TOYS, str(tmp_path / "c"))
    assert toys(tmp_path, *hopeless).code == 0
    ran = toys(tmp_path, *hopeless, "--check", "--json")
    assert (ran.code, json.loads(ran.out)["holds"]) == (1, False)
    ran = toys(tmp_path, *hopeless, "--check")
    assert ran.code == 1
    assert "FAILED" in ran.out


def test_expectations_that_could_not_be_tested_do_not_pass_a_check(program, tmp_path):
    # greedy alone: nothing to compare it with, so nothing fails and nothing holds
    job = ("lab", "bench", *SMALL, "greedy", *PLAIN, "-o", tmp_path / "b")
    ran = program(*job, "--json")
    assert (ran.code, ran.json["holds"]) == (0, None)
    ran = program(*job, "--check")
    assert ran.code == 1
    assert b"not tested: gauss: log posterior of SMC: it did not run\n" in ran.out
    last = ran.err.splitlines()[-1]
    assert last.startswith("kbforge: --check: not tested: gauss: log posterior of SMC: it did not")
    assert "; gauss: F1 of Split SMC: it did not run" in last


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        (("no-such",), 'there is no suite "no-such"; available: accuracy, circles, documents, '),
        (("gauss", "--methods", "magic"), 'no method "magic"'),
        (("gauss", "--tasks", "text"), 'no task "text" in this suite; tasks: gauss'),
        (("gauss", "--set", "suite.pionts=3"), 'no option "pionts"'),
        (("gauss", "--set", "suite.points=0"), "points must be positive"),
        (("gauss", "--seconds", "0"), "--seconds"),
        (("gauss", "--quick", "--no-figures", "-o", "{file}"), "cannot write"),
        (("gauss", "--quick", "--report-only", "-o", "{file}-no"), "holds no run of this bench"),
    ],
)
def test_wrong_usage_is_one_sentence(program, tmp_path, arguments, said):
    (tmp_path / "file").write_text("")
    ran = program("lab", "bench", *(a.replace("{file}", str(tmp_path / "file")) for a in arguments))
    assert ran.code != 0
    assert not (tmp_path / "file-no").exists()
    lines = [line for line in ran.err.splitlines() if not line.startswith("note: ")]
    assert len(lines) == 1
    assert said in lines[0]


def test_without_matplotlib_the_extra_is_named_before_any_work(program, tmp_path, monkeypatch):
    monkeypatch.setitem(sys.modules, "matplotlib", None)
    ran = program("lab", "bench", *SMALL, METHODS, "-o", tmp_path / "b")
    assert ran.code == 2
    assert f"{install_command('bench')}; or leave them out with --no-figures\n" in ran.err
    assert not (tmp_path / "b").exists()


def test_accuracy_from_end_to_end_and_on_after_a_part(program, tmp_path, monkeypatch):
    monkeypatch.delenv("KBFORGE_DATA", raising=False)
    monkeypatch.setenv("COLUMNS", "40")  # cuts no figure short
    quick = ("accuracy", "--quick", "--set", "suite.likelihoods=bigram")
    job = ("lab", "bench", *quick, "-o", tmp_path)
    methods = ("--methods", "exact name,tf-idf,default,ceiling")
    part = program(*job, *methods, "--tasks", "invented-records")
    assert part.code == 0, part.err
    shown = part.out.decode()
    head = r"^set +family .* exact name +TF-IDF +default +above the better"
    assert len(re.findall(head, shown, re.MULTILINE)) == 2
    assert re.search(r"^all sets +pairs +0\.\d{3} .* 0 of 1$", shown, re.MULTILINE)
    assert re.search(r"^invented-records +66 +30 +0\.853 .* \+0\.\d{3} ", shown, re.MULTILINE)
    for measure in ("F1", "pairwise F1"):
        assert f"held: invented-records: {measure} of default is" in shown
    whole = program(*job, "--json")
    assert whole.code == 0, whole.err
    assert (whole.json["finished_before"], whole.json["runs"]) == (4, 14)
    assert whole.json["figures"] == []
    assert {line["task"] for line in whole.json["table"]} == {"invented-records", "invented-names"}
    report = (tmp_path / "report.md").read_text()
    head = "| entities | all apart | exact name | TF-IDF | default | above the better | bigram |"
    assert report.count(head) == 2
    assert "## What the models had seen\n\n- The default's models were trained on no set" in report
    for method in ("default", "bigram"):
        assert f"\n## {method}\n" in report
    assert "| all sets | pairs |" in report
    table = (tmp_path / "table.csv").read_text().splitlines()
    assert len(table) == 1 + 14
    assert table[0].startswith("set,family,standing,method,")


# `kbforge lab bench scale` as users run it.


LITTLE = ("--likelihood", "attributes", "--sizes", "20,40,80")


def test_a_plan_from_a_file_for_people_and_programs(program, tmp_path):
    file, page = write_people(tmp_path / "people.jsonl"), tmp_path / "plan.md"
    ran = program("lab", "bench", "scale", file, *LITTLE, "--draw", "random", "-o", page, "--json")
    assert ran.code == 0, ran.err
    found = ran.json
    assert [one["fragments"] for one in found["sizes"]] == [20, 40, 80]
    assert [one["fragments"] for one in found["plans"]] == [10**7, 10**8, 10**9]
    for one in found["plans"]:
        assert one["seconds"]["low"] <= one["seconds"]["value"] <= one["seconds"]["high"]
    assert found["draw"] == "random fragments"
    assert "1,000,000,000" in page.read_text()
    assert str(file) in page.read_text()


def test_a_plan_without_a_file_is_printed(program):
    ran = program("lab", "bench", "scale", *LITTLE)
    assert ran.code == 0, ran.err
    assert "made-up people" in ran.out.decode()
    assert any(line.startswith("10,000,000") for line in ran.out.decode().splitlines())


def test_what_cannot_be_measured_is_said_before_anything_runs(program, tmp_path):
    file = write_people(tmp_path / "people.jsonl")
    for arguments, sentence in (
        (("--sizes", "1,two"), "expected whole numbers separated by commas, got 1,two"),
        (("--sizes", "10,20"), "expected three or more"),
        (("-o", file), "people.jsonl"),
    ):
        ran = program("lab", "bench", "scale", file, *arguments)
        assert ran.code != 0
        assert sentence in ran.err
    assert program("lab", "bench", "scale", "-").code != 0
