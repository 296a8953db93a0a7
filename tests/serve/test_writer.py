"""The writer of a server: what it acknowledges is there, as the command line would have it."""

from __future__ import annotations

import itertools
import shutil
import threading
import time
from collections.abc import Callable, Iterator
from concurrent.futures import Future
from dataclasses import replace
from multiprocessing.connection import Connection
from pathlib import Path
from typing import Any

import pytest

from kbforge.contracts import Fragment
from kbforge.errors import BusyError, ContradictionError, DuplicateError, OutputError, UsageError
from kbforge.fit.choices import RunOptions
from kbforge.jobs.decide import decide, decisions_of, undo, whole_entities
from kbforge.jobs.opening import opened
from kbforge.jobs.refit import refit
from kbforge.jobs.remove import erase, remove
from kbforge.jobs.update import add_fragments, take_in
from kbforge.jobs.views import entities_of
from kbforge.store.audit import audit_of, signed
from kbforge.store.database import Database
from kbforge.store.store import Store
from kbforge.store.writing import FILLS
from kbforge_serve import writer as writing
from kbforge_serve.answers import Facts, plain
from kbforge_serve.writer import Writer
from tests.jobs.killing import PROCESSES
from tests.people import people
from tests.store.copies import require_whole_copy
from tests.store.dump import dump

PEOPLE = people(120, 8)
FIRST, MORE = PEOPLE[:80], PEOPLE[80:]
A, B, C, D = (x.id for x in FIRST[:40:10])


@pytest.fixture(scope="module")
def base(tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("store") / "kb.sqlite"
    add_fragments(str(path), FIRST, RunOptions(likelihood="attributes", alpha=30.0))
    return path


@pytest.fixture
def writer(path: str) -> Iterator[Writer]:
    made = Writer(path)
    yield made
    made.close()


def content(path: str) -> list[str]:
    """All rows but those of runs, which say what they were about."""
    return [line for line in dump(path) if not line.startswith("run ")]


def ids(path: str) -> set[str]:
    with Database(path) as database:
        return {fragment.id for fragment in Store(database).fragments()}


def done(future: Future[Any]) -> Facts:
    return plain(future.result(30))


def test_a_group_is_of_one_name(path: str) -> None:
    served = Writer(path)
    futures = list[Future[Any]]()
    with Database(path, write=True):  # so that all of them wait
        for by, one in zip(itertools.cycle(["ada", "ada", "bob"]), MORE[:9], strict=False):
            with signed(by):
                futures.append(served.add([one]))
    runs = [done(one)["run"] for one in futures]
    served.close()
    assert runs == [2, 2, 3, 4, 4, 5, 6, 6, 7]
    with Database(path) as database:
        lines = [(line.run, line.by) for line in audit_of(database.connection, since=1)]
    assert lines == [(run, ["bob", "ada"][run % 2 == 0]) for run in range(2, 8)]


def test_another_name_continues_a_killed_run(path: str) -> None:
    """The run has a line for each."""
    for by, one in zip("aab", MORE, strict=False):
        with signed(by), opened(path, FILLS, "") as held:
            for _ in take_in(held, [one], {}):
                pass
            held.commit()
    with Database(path) as database:
        lines = [(line.run, line.by) for line in audit_of(database.connection, since=1)]
    assert lines == [(2, "a"), (2, "b")]


def test_a_store_is_written_as_by_the_command_line(base: Path, path: str, tmp_path: Path) -> None:
    other = str(shutil.copy(base, tmp_path / "other.sqlite"))
    changed = [replace(x, properties={**x.properties, "town": ("Gdynia",)}) for x in FIRST[5:8]]
    served = Writer(path)
    for at in range(0, len(MORE), 9):
        assert done(served.add(MORE[at : at + 9]))["added"] == len(MORE[at : at + 9])
    assert done(served.honour(True, A, B))["decision"] == 1
    assert done(served.honour(False, A, C))["decision"] == 2
    undone = done(served.undo(1))
    assert (undone["run"], undone["exact"], undone["already"]) == (5, False, False)
    assert done(served.add(changed, "replace"))["replaced"] == 3
    served.close()

    add_fragments(other, MORE, RunOptions())
    decide(other, decisions_of([("same", A, B)]), ties=whole_entities)
    decide(other, decisions_of([("different", A, C)]))
    undo(other, 1)
    add_fragments(other, changed, RunOptions(), "replace")
    assert content(path) == content(other)


def test_times_go_into_metadata(tmp_path: Path) -> None:
    path = str(tmp_path / "dated.sqlite")
    dated = [replace(x, properties={**x.properties, "seen": ("2019",)}) for x in PEOPLE]
    add_fragments(path, dated[:80], RunOptions(likelihood="attributes", alpha=30.0, time="seen"))
    writer = Writer(path)
    try:
        assert done(writer.add(dated[70:90]))["added"] == 10
        assert done(writer.add(dated[70:90]))["skipped"] == 20
    finally:
        writer.close()
    values = [v for e in entities_of(path) for of in e.properties.values() for v in of]
    assert {value.first for value in values} == {"2019"}


def test_what_is_there_is_passed_over(writer: Writer) -> None:
    first = done(writer.add(MORE[:10]))
    again = done(writer.add(MORE[:20]))
    assert (first["added"], first["skipped"], first["fragments"]) == (10, 0, 90)
    assert (again["added"], again["skipped"], again["fragments"]) == (10, 10, 100)
    assert done(writer.add(MORE[:20]))["added"] == 0
    assert done(writer.honour(True, A, B))["already"] is False
    assert done(writer.honour(True, B, A))["already"] is True
    assert done(writer.undo(1))["already"] is False
    assert done(writer.undo(1))["already"] is True


@pytest.mark.slow
def test_a_plain_copy_is_whole_while_nothing_waits_and_at_the_end(path: str) -> None:
    log = Path(f"{path}-wal")
    with Database(path) as reader:  # as those of a server, it stays open
        served = Writer(path)
        done(served.add(MORE[:10]))
        done(served.honour(True, A, B))
        until = time.monotonic() + 30
        while log.stat().st_size and time.monotonic() < until:
            time.sleep(0.05)
        require_whole_copy(path)
        with reader.snapshot():
            reader.connection.execute("SELECT count(*) FROM fragment").fetchone()
            done(served.add(MORE[10:20]))
            served.close()
            assert log.stat().st_size
    require_whole_copy(path)
    assert {x.id for x in MORE[:20]} <= ids(path)


def test_a_refused_request_takes_no_other_with_it(
    path: str, writer: Writer, monkeypatch: pytest.MonkeyPatch
) -> None:
    other = Fragment(FIRST[0].id, {"name": ("somebody else",)})
    monkeypatch.setattr(writing, "take_in", _failing_at(MORE[12].id, take_in))
    with Database(path, write=True):
        futures = [
            writer.add([MORE[0]]),
            writer.add(MORE[1:5]),
            writer.add([MORE[5], other]),
            writer.add(MORE[10:15]),
            writer.add(MORE[20:25]),
        ]
    with pytest.raises(DuplicateError, match="with other content"):
        done(futures[2])
    with pytest.raises(RuntimeError, match="no score"):
        done(futures[3])
    added = [*MORE[:5], *MORE[20:25]]
    assert [done(futures[k])["added"] for k in (0, 1, 4)] == [1, 4, 5]
    assert ids(path) == {x.id for x in [*FIRST, *added]}


def _failing_at(id: str, act: object) -> object:
    def fails(held: object, new: list[Fragment], known: object) -> Iterator[object]:
        for x, info in zip(new, act(held, new, known), strict=True):  # type: ignore[operator]
            if x.id == id:
                raise RuntimeError("no score")
            yield info

    return fails


def test_requests_with_a_fault_are_sentences(writer: Writer) -> None:
    with pytest.raises(UsageError, match='two fragments have the id "x"'):
        writer.add([Fragment("x", {"name": ("A",)}), Fragment("x", {"name": ("B",)})])
    with pytest.raises(UsageError, match="expected two fragments"):
        writer.honour(True, A, A)
    with pytest.raises(UsageError, match='has no fragment "nobody"'):
        done(writer.honour(True, A, "nobody"))
    with pytest.raises(UsageError, match="there is no decision 7"):
        done(writer.undo(7))
    done(writer.honour(True, A, B))
    with pytest.raises(ContradictionError):
        done(writer.honour(False, A, B))
    assert done(writer.add(MORE))["added"] == len(MORE)


def test_what_is_removed_is_gone_and_what_is_erased_leaves_no_trace(
    path: str, base: Path, tmp_path: Path, writer: Writer
) -> None:
    other = str(shutil.copy(base, tmp_path / "other.sqlite"))
    done(writer.honour(False, A, C))
    said = done(writer.remove([A, B]))
    assert (said["removed"], said["already"], said["fragments"]) == (2, False, len(FIRST) - 2)
    assert done(writer.remove([B]))["already"]
    with pytest.raises(UsageError, match='has no fragment "nobody"'):
        done(writer.remove([C, "nobody"]))
    decide(other, decisions_of([("different", A, C)]))
    remove(other, [A, B])
    assert content(path) == content(other)

    secret = f'"{D}"'.encode()
    assert secret in Path(path).read_bytes() + Path(f"{path}-wal").read_bytes()
    assert done(writer.remove([D, A], secure=True))["removed"] == 1
    assert done(writer.add(MORE))["added"] == len(MORE)
    assert ids(path) == {x.id for x in PEOPLE} - {A, B, D}
    writer.close()
    assert secret not in Path(path).read_bytes()
    with Database(path) as opened:
        assert Store(opened).decisions() == []
        assert opened.examined()[1] == []


@pytest.mark.slow
def test_the_command_line_writes_beside_it(path: str, writer: Writer) -> None:
    done(writer.add(MORE[:10]))
    add_fragments(path, MORE[10:20], RunOptions())
    done(writer.add(MORE[20:30]))
    decide(path, decisions_of([("same", A, B)]))
    refit(path)
    done(writer.add(MORE[30:]))
    erase(path, [MORE[0].id])
    assert done(writer.honour(False, C, D))["decision"] == 2
    assert ids(path) == {x.id for x in PEOPLE if x != MORE[0]}
    with Database(path) as opened:
        assert opened.examined()[1] == []
    writer.patience = 0.2
    with Database(path, write=True):
        with pytest.raises(BusyError, match="another kbforge command is writing to it"):
            done(writer.add(MORE[:1]))
        writer.patience = 30.0
        waits = writer.add(MORE[:1])
    assert done(waits)["added"] == 1


def test_a_store_that_was_removed_is_not_written(path: str, writer: Writer) -> None:
    done(writer.add(MORE[:1]))
    Path(path).rename(f"{path}.old")
    with pytest.raises(OutputError, match="was removed"):
        done(writer.add(MORE[1:2]))
    assert not Path(path).exists()
    Path(f"{path}.old").rename(path)
    assert done(writer.add(MORE[1:2]))["fragments"] == len(FIRST) + 2


def test_too_much_is_refused_and_what_waits_is_written_at_the_end(path: str) -> None:
    served, waiting = Writer(path), list[Future[Any]]()
    with Database(path, write=True):
        with pytest.raises(BusyError, match="too much waits") as refused:
            waiting.extend(served.add([x]) for x in itertools.cycle(MORE))
        assert refused.value.seconds >= 1
        assert 0 <= len(waiting) - writing.MOST_WAITING <= len(MORE)  # a group has left
    served.close()
    with pytest.raises(BusyError, match="is stopping"):
        served.add(MORE[-1:])
    added = min(len(waiting), len(MORE))
    assert sum(done(one)["added"] for one in waiting) == added
    with Database(path) as opened:
        store = Store(opened)
        assert store.n_fragments == len(FIRST) + added
        assert all(run.finished for run in store.runs())
        assert not store.has_stale


def test_a_run_ends_after_enough_fragments(path: str) -> None:
    writer = Writer(path, run_fragments=10)
    for at in range(0, 40, 4):
        done(writer.add(MORE[at : at + 4]))
    writer.close()
    with Database(path) as opened:
        runs = Store(opened).runs()
    assert [run.added for run in runs] == [len(FIRST), 12, 12, 12, 4]
    assert all(run.finished for run in runs)


@pytest.mark.slow
def test_a_request_that_was_given_up_is_not_written(path: str, writer: Writer) -> None:
    with Database(path, write=True):
        first = writer.add(MORE[:1])
        while not first.running():
            pass
        second, third = writer.add(MORE[1:2]), writer.add(MORE[2:3])
        assert second.cancel()
    assert done(third)["fragments"] == len(FIRST) + 2


BATCHES = [MORE[at : at + 3] for at in range(0, len(MORE), 3)]


def _add_batches(path: str, acknowledge: Callable[[int], object]) -> None:
    served = Writer(path, idle=1e6, run_seconds=1e6)  # runs do not end by the clock
    for batch in BATCHES:
        acknowledge(done(served.add(batch))["added"])
    served.close()


def _child(path: str, acknowledged: Connection) -> None:
    _add_batches(path, acknowledged.send)


@pytest.mark.slow
def test_what_was_acknowledged_outlives_a_kill(base: Path, path: str, tmp_path: Path) -> None:
    whole = str(shutil.copy(base, tmp_path / "whole.sqlite"))
    _add_batches(whole, lambda _: None)
    for acknowledged in (2, 9, len(BATCHES)):
        here, there = PROCESSES.Pipe()
        child = PROCESSES.Process(target=_child, args=(path, there))
        child.start()
        for _ in range(acknowledged):
            here.recv()
        if acknowledged < len(BATCHES):
            child.kill()
        child.join()
        assert {x.id for batch in BATCHES[:acknowledged] for x in batch} <= ids(path)
    assert dump(path) == dump(whole)


def test_commands_have_their_turn_while_fragments_come(path: str, writer: Writer) -> None:
    stop = threading.Event()

    def send() -> None:
        while not stop.is_set():
            for x in MORE[:20]:
                done(writer.add([x]))

    sender = threading.Thread(target=send)
    sender.start()
    try:
        for pair in ((A, B), (A, C), (A, D)):
            decide(path, decisions_of([("different", *pair)]))
    finally:
        stop.set()
        sender.join()
    with Database(path) as opened:
        assert [one.decision.second for one in Store(opened).decisions()] == [B, C, D]


@pytest.mark.slow
def test_confidence_is_told_when_nothing_waits(base: Path, path: str, tmp_path: Path) -> None:
    other = str(shutil.copy(base, tmp_path / "other.sqlite"))
    served = Writer(path, idle=0.05, told_at_once=1)
    done(served.add(MORE))
    done(served.honour(False, A, B))
    with Database(path) as opened:
        until = time.monotonic() + 30
        while Store(opened).has_stale and time.monotonic() < until:
            time.sleep(0.02)
        assert not Store(opened).has_stale
    served.close()
    add_fragments(other, MORE, RunOptions())
    decide(other, decisions_of([("different", A, B)]))
    assert sure(path) == sure(other)


def sure(path: str) -> dict[str, float]:
    return {entity.id: entity.confidence for entity in entities_of(path)}
