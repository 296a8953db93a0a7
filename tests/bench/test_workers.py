"""Runs in processes: the same outcomes, and failures that say which run."""

from __future__ import annotations

import multiprocessing
import os
import signal
from dataclasses import replace
from pathlib import Path

import pytest

from kbforge.bench.perform import perform
from kbforge.bench.runs import Run
from kbforge.bench.workers import perform_all
from kbforge.contracts.suite import Method
from kbforge.errors import KBForgeError
from tests.bench.toys import GREEDY, SPLIT, die, run, task
from tests.registry.distributions import Distribution

RUNS = [run(method, shuffle) for shuffle in range(3) for method in (GREEDY, SPLIT)]


def timeless(outcome):  # type: ignore[no-untyped-def]
    trace = [replace(row, seconds=0.0) for row in outcome.trace]
    return replace(outcome.row, seconds=0.0, cpu_seconds=0.0), trace


@pytest.mark.parametrize("workers", [1, 2])
def test_processes_find_what_this_one_finds(workers: int) -> None:
    found = {outcome.row.key: timeless(outcome) for outcome in perform_all(RUNS, workers)}
    assert found == {job.key: timeless(perform(job)) for job in RUNS}


def test_one_worker_keeps_the_order() -> None:
    assert [o.row.key for o in perform_all(RUNS, 1)] == [job.key for job in RUNS]


def test_nothing_to_do_starts_no_process() -> None:
    assert list(perform_all([], 4)) == []


def test_a_run_that_fails_is_named() -> None:
    bare = replace(run().task.fragments[0], vector=None, properties={"name": ("x",)})
    bad = run(fragments=(bare, *run().task.fragments[1:]), shuffle=2)
    with pytest.raises(KBForgeError, match=r"Split SMC \(P=10\) on toy, order 2: .*p0"):
        list(perform_all([run(), bad], 1))


@pytest.mark.parametrize(
    ("how", "said"),
    [
        ("raise ValueError('wrong\\nshape')", r"ValueError: wrong\\nshape$"),
        ("raise KeyError", "KeyError$"),
        ("raise MemoryError", "out of memory$"),
        ("raise SystemExit(3)", "SystemExit: 3$"),
        ("os._exit(3)", r"its process ended with exit code 3;"),
        ("os.kill(os.getpid(), 9)", r"its process ended with exit code -9 \(out of memory\?\);"),
    ],
)
def test_whatever_a_plugin_does_is_one_sentence(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, how: str, said: str
) -> None:
    install_clusterer(tmp_path, how)
    monkeypatch.syspath_prepend(str(tmp_path))
    job = run(Method("Failing", "failing"))
    with pytest.raises(KBForgeError, match=f"^Failing on toy, order 0: {said}"):
        list(perform_all([job], 1))


def install_clusterer(folder: Path, body: str) -> None:
    """A stranger's clusterer, `failing`, that does as told instead of clustering."""
    source = f"import os\nclass Failing:\n    def cluster(self, *given): {body}\n"
    entries = {"kbforge.clusterers": {"failing": "failing:Failing"}}
    Distribution("failing", entry_points=entries, modules={"failing": source}).write(folder)


def test_a_process_that_dies_before_it_takes_its_run_is_an_error(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr("kbforge.bench.workers._serve", die)
    # more than a pipe takes in without a reader
    large = run(GREEDY, fragments=task(10_000).fragments)
    with pytest.raises(KBForgeError, match=r"Greedy on toy, order 0: .* exit code 3;"):
        list(perform_all([large], 1))


def test_a_process_that_dies_is_an_error_and_leaves_no_other() -> None:
    outcomes = perform_all(_endless(), 2)
    next(outcomes)
    children = multiprocessing.active_children()
    assert len(children) == 2
    for child in children:
        assert child.pid is not None
        os.kill(child.pid, signal.SIGKILL)
    with pytest.raises(KBForgeError, match=r"ended with exit code -9 .* goes on from them"):
        list(outcomes)
    assert multiprocessing.active_children() == []


def _endless() -> list[Run]:
    return [run(SPLIT, shuffle) for shuffle in range(200)]


def test_an_end_before_the_end_stops_the_processes() -> None:
    outcomes = perform_all(RUNS, 2)
    next(outcomes)
    outcomes.close()  # type: ignore[attr-defined]
    assert multiprocessing.active_children() == []
