"""Runs in processes: the same outcomes, and failures that say which run."""

from __future__ import annotations

import multiprocessing
import os
import re
import signal
from dataclasses import replace
from pathlib import Path

import pytest

from kbforge_lab.bench.perform import Outcome, perform
from kbforge_lab.bench.runs import Run
from kbforge_lab.bench.workers import Failure, perform_all
from kbforge_lab.contracts.suite import Method
from tests.lab.bench.toys import FAILING, GREEDY, SPLIT, die, install_failing, run, task

RUNS = [run(method, shuffle) for shuffle in range(3) for method in (GREEDY, SPLIT)]


def finished(runs: list[Run], workers: int) -> list[Outcome]:
    outcomes = list(perform_all(runs, workers))
    assert not [outcome for outcome in outcomes if isinstance(outcome, Failure)]
    return outcomes  # type: ignore[return-value]


def timeless(outcome):  # type: ignore[no-untyped-def]
    trace = [replace(row, seconds=0.0) for row in outcome.trace]
    return replace(outcome.row, seconds=0.0, cpu_seconds=0.0), trace


@pytest.mark.parametrize("workers", [1, 2])
def test_processes_find_what_this_one_finds(workers: int) -> None:
    found = {outcome.row.key: timeless(outcome) for outcome in finished(RUNS, workers)}
    assert found == {job.key: timeless(perform(job)) for job in RUNS}


def test_one_worker_keeps_the_order() -> None:
    assert [o.row.key for o in finished(RUNS, 1)] == [job.key for job in RUNS]


@pytest.mark.parametrize(("whole_ways", "processes"), [(True, 3), (False, 1)])
def test_a_whole_way_to_a_grouping_has_a_process_of_its_own(
    whole_ways: bool, processes: int
) -> None:
    method = Method("exact name", baseline="exact name") if whole_ways else GREEDY
    changes = {"likelihood": None, "alpha": None} if whole_ways else {}
    seen: set[int | None] = set()
    for outcome in perform_all([run(method, shuffle, **changes) for shuffle in range(4)], 1):
        assert isinstance(outcome, Outcome)
        seen |= {child.pid for child in multiprocessing.active_children()}
    assert len(seen) == processes


def test_nothing_to_do_starts_no_process() -> None:
    assert list(perform_all([], 4)) == []


def test_a_run_that_fails_is_named_and_hurts_no_other() -> None:
    bare = replace(run().task.fragments[0], vector=None, properties={"name": ("x",)})
    bad = run(fragments=(bare, *run().task.fragments[1:]), shuffle=2)
    first, failure, last = perform_all([run(), bad, run(shuffle=1)], 1)
    assert isinstance(failure, Failure)
    assert failure.run.called == "Split SMC (P=10) on toy, order 2"
    assert "p0" in failure.why
    assert isinstance(first, Outcome)
    assert isinstance(last, Outcome)
    assert (first.row.key, last.row.key) == (run().key, run(shuffle=1).key)


@pytest.mark.parametrize(
    ("how", "said"),
    [
        ("raise ValueError('wrong\\nshape')", r"ValueError: wrong\\nshape$"),
        ("raise KeyError", "KeyError$"),
        ("raise MemoryError", "out of memory$"),
        ("raise SystemExit(3)", "SystemExit: 3$"),
        ("os._exit(3)", "its process ended with exit code 3$"),
        ("os.kill(os.getpid(), 9)", r"its process ended with exit code -9 \(out of memory\?\)$"),
    ],
)
def test_whatever_a_plugin_does_is_one_sentence(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, how: str, said: str
) -> None:
    install_failing(tmp_path, how)
    monkeypatch.syspath_prepend(str(tmp_path))
    failure, other = perform_all([run(FAILING), run()], 1)
    assert isinstance(failure, Failure)
    assert re.match(said, failure.why)
    assert isinstance(other, Outcome)


def test_a_process_that_dies_before_it_takes_its_run_is_a_failure(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr("kbforge_lab.bench.workers._serve", die)
    # more than a pipe takes in without a reader
    large = run(GREEDY, fragments=task(10_000).fragments)
    failures = [o for o in perform_all([large, large], 1) if isinstance(o, Failure)]
    assert [f.why for f in failures] == ["its process ended with exit code 3"] * 2


def test_a_process_that_dies_is_a_failure_and_another_takes_its_place() -> None:
    runs = [run(SPLIT, shuffle) for shuffle in range(12)]
    outcomes = perform_all(runs, 2)
    found = [next(outcomes)]
    children = multiprocessing.active_children()
    assert len(children) == 2
    for child in children:
        assert child.pid is not None
        os.kill(child.pid, signal.SIGKILL)
    found += outcomes
    failures = [outcome for outcome in found if isinstance(outcome, Failure)]
    assert [f.why for f in failures] == ["its process ended with exit code -9 (out of memory?)"] * 2
    keys = [(o.run if isinstance(o, Failure) else o.row).key for o in found]
    assert sorted(keys) == sorted(job.key for job in runs)
    assert multiprocessing.active_children() == []


def test_an_end_before_the_end_stops_the_processes() -> None:
    outcomes = perform_all(RUNS, 2)
    next(outcomes)
    outcomes.close()
    assert multiprocessing.active_children() == []
