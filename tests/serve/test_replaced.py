"""A served file that is deleted, restored or replaced: who reads and writes it follows."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import httpx
import pytest
from starlette.testclient import TestClient

from kbforge.fit.choices import RunOptions
from kbforge.jobs.update import add_fragments
from kbforge.store.database import Database, log_of
from kbforge.store.store import Store
from kbforge_serve import facts
from kbforge_serve import listing as listings
from kbforge_serve.app import application
from kbforge_serve.readers import Readers
from kbforge_serve.service import Service
from tests.people import people
from tests.serve.conftest import PEOPLE, running
from tests.store.copies import copied, require_whole_copy
from tests.store.dump import dump

OTHERS = people(30, 77)
NEW = [{"id": f"new-{n}", "properties": {"name": [f"Olga Newman {n}"]}} for n in range(60)]
READS = (
    "/api/status",
    "/api/entities",
    "/api/runs",
    "/api/changes?since=0",
    "/api/changes?since=1&wait=0.01",
    "/api/search?q=ann",
    "/api/decisions",
    "/api/review",
    "/api/export?format=members",
    "/api/match",
    "/runs",
    "/quality",
    "/",
)


@pytest.fixture(scope="session")
def made_other(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A smaller store of other people."""
    path = tmp_path_factory.mktemp("other") / "other.sqlite"
    renamed = [type(x)(f"other-{x.id}", x.properties) for x in OTHERS]
    add_fragments(str(path), renamed, RunOptions(likelihood="attributes", alpha=10.0))
    return path


@pytest.fixture
def other(made_other: Path, tmp_path: Path) -> Path:
    """A copy of it, on the disk of the store that is served."""
    return Path(shutil.copy(made_other, tmp_path / "other.sqlite"))


def moved(file: Path, store: Path) -> None:
    file.replace(store)


def moved_after_a_deletion(file: Path, store: Path) -> None:
    store.unlink()
    file.replace(store)


def copied_over(file: Path, store: Path) -> None:
    copied(file, store)


WAYS = [moved, moved_after_a_deletion, copied_over]


def ask(client: TestClient | httpx.Client, path: str) -> httpx.Response:
    if path == "/api/match":
        return client.post(path, json={"properties": {"name": ["ann"]}})
    return client.get(path)


def read_all(client: TestClient) -> dict[str, httpx.Response]:
    """What all that reads answers, once nothing is busy."""
    out = {}
    for path in READS:
        until = time.monotonic() + 30
        while (answer := ask(client, path)).status_code == 503 and time.monotonic() < until:
            time.sleep(0.05)
        assert answer.status_code == 200, (path, answer.text)
        out[path] = answer
    return out


def added(client: TestClient, fragments: list[dict[str, Any]]) -> dict[str, Any]:
    until = time.monotonic() + 30
    while True:
        answer = client.post("/api/fragments", json=fragments)
        if answer.status_code != 503 or time.monotonic() > until:
            assert answer.status_code == 200, answer.text
            found: dict[str, Any] = answer.json()
            return found
        time.sleep(0.05)


def ids(path: Path) -> set[str]:
    with Database(str(path)) as database:
        return {fragment.id for fragment in Store(database).fragments()}


@contextmanager
def served(store: Path, helpers: int = 0, idle: float = 1.0) -> Iterator[TestClient]:
    service = Service(str(store), helpers=helpers)
    service.writer.idle = idle
    app = application(service)
    with TestClient(app, "http://localhost", raise_server_exceptions=False) as made:
        yield made


def at_rest(store: Path) -> None:
    """Wait until a server has nothing to write."""
    until = time.monotonic() + 30
    while log_of(str(store)).stat().st_size:
        assert time.monotonic() < until
        time.sleep(0.02)


@pytest.mark.slow
@pytest.mark.parametrize(
    ("way", "helpers"), [*((way, 0) for way in WAYS), *((way, 1) for way in WAYS[::2])]
)
def test_another_store_in_its_place_is_read_and_written(
    way: Callable[[Path, Path], None], helpers: int, store: Path, other: Path, tmp_path: Path
) -> None:
    wanted = Path(shutil.copy(other, tmp_path / "wanted.sqlite"))
    with served(store, helpers) as client:
        read_all(client)
        added(client, NEW[:3])
        at_rest(store)
        read_all(client)
        way(other, store)
        answers = read_all(client)
        assert added(client, NEW[3:6])["fragments"] == len(OTHERS) + 3
        assert answers["/api/status"].json()["fragments"] == len(OTHERS)
        mixed = {x.id for x in PEOPLE}
        for answer in answers.values():
            assert not [id for id in mixed if f'"{id}"' in answer.text]
        found = client.get("/api/search", params={"q": "Olga Newman 4"}).json()["results"]
        assert found[0]["values"]["name"] == "Olga Newman 4"
        read_all(client)
    with served(wanted) as client:
        added(client, NEW[3:6])
    require_whole_copy(store)
    assert dump(store) == dump(wanted)


def test_what_was_acknowledged_stays_in_the_file_that_was_moved_away(
    store: Path, other: Path, tmp_path: Path
) -> None:
    away = tmp_path / "away.sqlite"
    with served(store, idle=1e6) as client:
        added(client, NEW[:3])
        assert log_of(str(store)).stat().st_size
        store.rename(away)
        other.rename(store)
        added(client, NEW[3:6])
        read_all(client)
    news = [{one["id"] for one in NEW[at : at + 3]} for at in (0, 3)]
    assert ids(away) == {x.id for x in PEOPLE} | news[0]
    assert ids(store) == {f"other-{x.id}" for x in OTHERS} | news[1]
    for path in (away, store):
        with Database(str(path)) as database:
            assert database.examined()[1] == []
            assert database.lacking is None


def test_what_was_read_of_a_file_that_all_had_lent_is_forgotten(store: Path, other: Path) -> None:
    readers = Readers(str(store))
    with readers.store():
        readers.remember((None, b"1"), "Ann Lee")
        other.rename(store)
    with readers.store() as now:
        assert now.n_fragments == len(OTHERS)
        assert readers.file == 1
        assert not readers.names
    readers.close()


def test_a_cache_of_names_that_is_emptied_meanwhile_is_no_error(
    store: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Another thread empties it after one has seen which names are lacking."""
    readers = Readers(str(store))
    wanted = listings.listing(readers)
    asked, emptied = facts.rows_of, list[dict[Any, str]]()

    def late(rows: Any, table: str, *given: Any) -> Any:
        if table == "fragment" and readers.names:
            emptied.append(readers.names)
            readers.names = {}
        return asked(rows, table, *given)

    monkeypatch.setattr(facts, "rows_of", late)
    assert listings.listing(readers) == wanted
    assert len(emptied) == 1
    assert listings.listing(readers) == wanted
    readers.close()


def test_a_deleted_store_is_503_until_it_is_restored(store: Path, tmp_path: Path) -> None:
    with served(store) as client:
        added(client, NEW[:1])
        at_rest(store)
        kept = copied(store, tmp_path / "kept.sqlite")
        store.unlink()
        for path in READS:
            answer = ask(client, path)
            assert answer.status_code == 503, (path, answer.text)
            assert "Retry-After" in answer.headers
            assert str(tmp_path) not in answer.text
        assert client.post("/api/fragments", json=NEW[1:2]).status_code == 503
        assert not store.exists()
        kept.rename(store)
        read_all(client)
        assert added(client, NEW[1:2])["fragments"] == len(PEOPLE) + 2
    require_whole_copy(store)


@pytest.mark.slow
@pytest.mark.parametrize("way", WAYS)
def test_an_older_copy_is_searched_without_what_came_later(
    way: Callable[[Path, Path], None], store: Path, tmp_path: Path
) -> None:
    kept = copied(store, tmp_path / "kept.sqlite")
    late = [{"id": f"late-{n}", "properties": {"name": [f"Zacharias {n}"]}} for n in range(4)]
    with served(store) as client:
        search = lambda words: client.get("/api/search", params={"q": words}).json()  # noqa: E731
        added(client, NEW[:8])
        assert search("Olga Newman 7")["results"]
        at_rest(store)
        way(kept, store)
        read_all(client)
        added(client, late)
        assert "zacharias 3" in str(search("Zacharias 3")["results"][0]).lower()
        assert "newman" not in str(search("Olga Newman 7")).lower()


@pytest.mark.slow
def test_who_follows_hears_that_an_older_copy_is_there(store: Path, tmp_path: Path) -> None:
    kept = copied(store, tmp_path / "kept.sqlite")
    service = Service(str(store))
    with (
        running(application(service), service.feed.stop) as address,
        httpx.Client(base_url=address, timeout=30) as client,
    ):
        client.post("/api/fragments", json=NEW[:1]).raise_for_status()
        while client.get("/api/changes", params={"since": 1}).json()["last"] < 2:
            time.sleep(0.02)
        polled = list[httpx.Response]()

        def poll() -> None:
            polled.append(httpx.get(f"{address}api/changes?since=2&wait=60", timeout=90))

        waiting = threading.Thread(target=poll)
        with client.stream("GET", "/api/changes/stream", params={"since": 2}) as stream:
            lines = stream.iter_lines()
            assert next(lines) == ": changes follow"
            waiting.start()
            time.sleep(0.5)
            kept.rename(store)
            assert [line for line in lines if line.strip(":")] == []
        waiting.join(20)
        assert not waiting.is_alive()
        assert polled[0].status_code == 400
        assert "expected the number of a run from 0 to 1, got 2" in polled[0].json()["error"]


@pytest.mark.slow
def test_nobody_is_answered_500_while_files_come_and_go(
    store: Path, made_other: Path, tmp_path: Path
) -> None:
    copies = [Path(shutil.copy(store, tmp_path / "mine.sqlite")), made_other]
    theirs = ({x.id for x in PEOPLE}, {f"other-{x.id}" for x in OTHERS})
    stop, wrong, seen = threading.Event(), list[str](), set[int]()

    def read(at: int) -> None:
        while not stop.is_set():
            path = READS[at % len(READS)]
            answer = ask(client, path)
            seen.add(answer.status_code)
            if answer.status_code not in (200, 400, 503):
                wrong.append(f"{path}: {answer.status_code} {answer.text[:300]}")
            if path == "/api/export?format=members" and answer.status_code == 200:
                told = {line.split(",")[0].strip('"') for line in answer.text.splitlines()}
                if all(told & one for one in theirs):
                    wrong.append("an export of two stores")
            at += 1

    def write() -> None:
        at = 0
        while not stop.is_set():
            answer = client.post("/api/fragments", json=NEW[at % 60 : at % 60 + 1])
            seen.add(answer.status_code)
            if answer.status_code not in (200, 422, 503):
                wrong.append(f"adding: {answer.status_code} {answer.text[:300]}")
            at += 1

    with served(store, idle=0.05) as client:
        client.get("/api/search?q=ann")
        threads = [threading.Thread(target=read, args=(n,)) for n in (0, 5)]
        threads.append(threading.Thread(target=write))
        for thread in threads:
            thread.start()
        for number in range(16):
            coming = Path(shutil.copy(copies[number % 2], tmp_path / "coming.sqlite"))
            if number % 4 == 3:
                store.unlink()
                time.sleep(0.05)
            coming.replace(store)
            time.sleep(0.1)
        stop.set()
        for thread in threads:
            thread.join()
        assert wrong == []
        added(client, NEW)
    assert 200 in seen
    require_whole_copy(store)
    with Database(str(store)) as database:
        assert database.examined()[1] == []
    assert ids(store) == theirs[1] | {str(one["id"]) for one in NEW}


@pytest.mark.slow
def test_a_command_that_begins_after_a_replacement_is_not_misled(store: Path, other: Path) -> None:
    with served(store) as client:
        read_all(client)
        other.rename(store)
        time.sleep(2.5)  # the server looks every second, whether anybody asks or not
        ran = subprocess.run(
            [sys.executable, "-m", "kbforge", "check", str(store)], capture_output=True, text=True
        )
        assert "is intact" in ran.stdout, ran.stdout + ran.stderr
    assert os.path.exists(store)
