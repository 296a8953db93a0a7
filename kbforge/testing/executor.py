"""The laws of `kbforge.contracts.executor`, as tests."""

from __future__ import annotations

import os
import signal
from collections.abc import Iterator, Sequence
from typing import Any, ClassVar

import pytest

from kbforge.contracts.executor import Crew, WorkerLost
from kbforge.testing.contract import Contract


class RecordingWorker:
    """A worker that remembers what it was told, and hands it on."""

    def __init__(self) -> None:
        self.told: list[str] = []

    def do(self, order: str, parcels: Sequence[Any]) -> tuple[Any, Any]:
        """Refuses "bad", and says with "who" which process it is in."""
        if order == "bad":
            raise ValueError("this is bad")
        if order == "who":
            return os.getpid(), None
        self.told += [*(f"<{parcel}>" for parcel in parcels), order]
        return list(self.told), order


class ExecutorContract(Contract):
    """Workers that live elsewhere, on this machine."""

    kind: ClassVar[str] = "executors"

    @pytest.fixture
    def crew(self) -> Iterator[Crew]:
        """Two workers."""
        made: Crew = self.make().start(RecordingWorker, 2)
        yield made
        made.close()

    def test_orders_are_carried_out_in_order_elsewhere(self, crew: Crew) -> None:
        sent = [crew.send(0, str(i)) for i in range(20)]
        assert [crew.wait(one)[0][-1] for one in sent] == [str(i) for i in range(20)]
        assert crew.wait(crew.send(0, "all"))[0] == [*map(str, range(20)), "all"]
        assert crew.wait(crew.send(1, "none"))[0] == ["none"]
        processes = {crew.wait(crew.send(worker, "who"))[0] for worker in range(len(crew))}
        assert len(processes) == len(crew) == 2
        assert os.getpid() not in processes

    def test_a_parcel_goes_from_worker_to_worker(self, crew: Crew) -> None:
        first = crew.send(0, "a")
        second = crew.send(1, "b", [first, "as it is"])
        assert crew.wait(second) == (["<a>", "<as it is>", "b"], "b")
        assert crew.wait(first) == (["a"], "a")
        assert crew.wait(crew.send(0, "c", [second]))[0] == ["a", "<b>", "c"]

    def test_what_a_worker_raises_is_raised_again(self, crew: Crew) -> None:
        bad = crew.send(0, "bad")
        after = crew.send(1, "after", [bad])
        with pytest.raises(ValueError, match="this is bad"):
            crew.wait(bad)
        with pytest.raises(WorkerLost):
            crew.wait(after)
        assert crew.lost() == []
        assert crew.wait(crew.send(1, "on"))[0] == ["on"]

    def test_a_lost_worker_is_replaced(self, crew: Crew) -> None:
        crew.wait(crew.send(0, "before"))
        os.kill(crew.wait(crew.send(0, "who"))[0], signal.SIGKILL)
        with pytest.raises(WorkerLost):
            crew.wait(crew.send(0, "lost"))
        assert crew.lost() == [0]
        with pytest.raises(WorkerLost):
            crew.wait(crew.send(1, "waits", [crew.send(0, "lost, too")]))
        assert crew.wait(crew.send(1, "goes on"))[0] == ["goes on"]
        crew.replace(0)
        assert crew.lost() == []
        assert crew.wait(crew.send(0, "anew"))[0] == ["anew"]
