"""Rounds on Spark while its processes are killed."""

from __future__ import annotations

import os
import signal
import threading
import time
from collections.abc import Iterator
from itertools import islice
from pathlib import Path
from typing import Any

import pytest

from tests.people import people
from tests.spark.runs import assert_equal, here_and_there

MASTER = "local-cluster[2,1,1024]"
pytestmark = pytest.mark.slow
_PATIENCE = 120.0  # seconds until a task runs


def executors() -> Iterator[int]:
    """The processes of executors that descend from this one."""
    parent, command = {}, {}
    for folder in Path("/proc").iterdir():
        if folder.name.isdigit():
            try:
                stat = (folder / "stat").read_text()
                command[int(folder.name)] = (folder / "cmdline").read_bytes()
            except OSError:
                continue
            parent[int(folder.name)] = int(stat.rpartition(")")[2].split()[1])
    for process, said in command.items():
        above = process
        while above in parent and above != os.getpid():
            above = parent[above]
        if above == os.getpid() and b"CoarseGrainedExecutorBackend" in said:
            yield process


def kill_one(spark: Any, killed: list[int], stop: threading.Event) -> None:
    """Kill an executor as soon as tasks run."""
    tracker = spark.sparkContext.statusTracker()
    end = time.monotonic() + _PATIENCE
    while not stop.is_set() and time.monotonic() < end:
        stages = map(tracker.getStageInfo, tracker.getActiveStageIds())
        alive = list(executors())
        if alive and any(stage is not None and stage.numActiveTasks for stage in stages):
            os.kill(alive[0], signal.SIGKILL)
            killed.append(alive[0])
            return
        time.sleep(0.002)


@pytest.mark.skipif(not Path("/proc/self/stat").exists(), reason="no /proc")
def test_a_lost_worker_in_each_of_four_stages_changes_nothing(
    spark: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    from kbforge_spark.stages import Stages

    plain, killed = Stages._kept, dict[str, list[int]]()

    def killing(self: Any, frame: Any, name: str) -> Any:
        if name not in ("pairs", "edges", "merges", "clusters") or name in killed:
            return plain(self, frame, name)
        killed[name], stop = [], threading.Event()
        thread = threading.Thread(target=kill_one, args=(spark, killed[name], stop))
        thread.start()
        try:
            return plain(self, frame, name)
        finally:
            stop.set()
            thread.join()

    rounds = Stages.rounds
    monkeypatch.setattr(Stages, "_kept", killing)
    # the driver makes the others
    monkeypatch.setattr(Stages, "rounds", lambda *given: islice(rounds(*given), 1))
    assert_equal(*here_and_there(people(400, seed=2), "attributes"))
    assert [len(some) for some in killed.values()] == [1, 1, 1, 1]
