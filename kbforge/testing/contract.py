"""What all contracts share, and the laws of commands and executors, as tests."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from collections.abc import Iterator, Mapping, Sequence
from typing import Any, ClassVar

import pytest

from kbforge import registry
from kbforge.contracts.executor import Crew, WorkerLost


class Contract:
    """The tests of one kind; subclass it once for every plugin, or for every set of options.

    Attributes:
        kind: the plugin's kind, set by the kind's contract.
        name: the plugin's name; it is found through its entry point, as users find it.
        options: the options to construct it with.

    """

    kind: ClassVar[str]
    name: ClassVar[str]
    options: ClassVar[Mapping[str, object]] = {}

    def make(self) -> Any:
        """A new instance of the plugin; override it to test a class that is not installed."""
        return registry.create(self.kind, self.name, self.options)


_HEAVY = ("torch", "datasets", "pyarrow", "numpy", "scipy", "tokenizers")


class CommandContract(Contract):
    """A verb answers `--help`, documents itself, and is light to import."""

    kind: ClassVar[str] = "commands"

    def make(self) -> Any:
        """The verb's Typer app."""
        return registry.load(self.kind, self.name)

    def test_help_is_light_and_says_what_the_verb_does(self) -> None:
        """The help page of the program imports every verb, so none may import what is heavy."""
        program = (
            "import sys; from kbforge.cli.main import app\n"
            f"try: app([{self.name!r}, '--help'], prog_name='kbforge')\n"
            "except SystemExit as end: assert not end.code, end.code\n"
            f"print('HEAVY:', [m for m in {_HEAVY} if m in sys.modules])"
        )
        plain = {"NO_COLOR": "1", "TERM": "dumb", "COLUMNS": "100"}
        done = subprocess.run(
            [sys.executable, "-c", program],
            env=os.environ | plain,
            capture_output=True,
            text=True,
            timeout=120,
            check=False,
        )
        assert done.returncode == 0, done.stderr
        *page, heavy = done.stdout.splitlines()
        assert heavy == "HEAVY: []"
        assert any(f"kbforge {self.name}" in line for line in page)

    def test_is_documented(self) -> None:
        import typer

        command: Any = typer.main.get_command(self.make())
        for sub in [command, *getattr(command, "commands", {}).values()]:
            assert sub.help, f"{sub.name} has no docstring"
            undocumented = [
                p.name
                for p in sub.params
                if not getattr(p, "help", "") and not getattr(p, "hidden", False)
            ]
            assert undocumented == [], f"{sub.name}: parameters without help"


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
