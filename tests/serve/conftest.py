"""A small store that is served: in this process, and by a real server on a port."""

from __future__ import annotations

import contextlib
import shutil
import threading
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

pytest.importorskip("fastapi", reason="needs the extra serve")
pytest.importorskip("uvicorn", reason="needs the extra serve")

from starlette.testclient import TestClient
from starlette.types import ASGIApp

from kbforge.contracts import Fragment
from kbforge.fit.choices import RunOptions
from kbforge.jobs.update import add_fragments
from kbforge_serve.app import application
from kbforge_serve.server import Server, address_of, listen
from kbforge_serve.service import Service
from tests.people import people

PEOPLE = people(40, 3)
"""The fragments of the store: about 120, labelled."""


@pytest.fixture(scope="session")
def made_store(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The store, which nobody writes."""
    path = tmp_path_factory.mktemp("served") / "kb.sqlite"
    add_fragments(str(path), PEOPLE, RunOptions(likelihood="pairs"))
    return path


@pytest.fixture
def store(made_store: Path, tmp_path: Path) -> Path:
    """A copy of it to write to."""
    return Path(shutil.copy(made_store, tmp_path / "kb.sqlite"))


@pytest.fixture
def path(base: Path, tmp_path: Path) -> str:
    """A copy to write to of the store `base`, which a module of tests makes."""
    return str(shutil.copy(base, tmp_path / "kb.sqlite"))


@pytest.fixture
def people_of_store() -> list[Fragment]:
    """The fragments of the store."""
    return PEOPLE


@pytest.fixture
def service(store: Path) -> Iterator[Service]:
    """The copy, as all doors ask it."""
    made = Service(str(store))
    yield made
    made.close()


@pytest.fixture
def client(store: Path) -> Iterator[TestClient]:
    """A client of the application over the copy; no port is opened."""
    app = application(Service(str(store)))
    with TestClient(app, "http://localhost", raise_server_exceptions=False) as made:
        yield made


@contextlib.contextmanager
def running(
    app: ASGIApp, on_stop: Callable[[], None] = lambda: None, **limits: Any
) -> Iterator[str]:
    """A real server of an application; gives its address, such as `http://127.0.0.1:43210/`."""
    with listen("127.0.0.1", 0) as listening:
        server = Server(app, on_stop)
        for name, limit in limits.items():
            setattr(server.server_state, name, limit)
        thread = threading.Thread(target=server.run, args=([listening],))
        thread.start()
        try:
            yield address_of(listening)
        finally:
            server.stop()
            thread.join()


@pytest.fixture
def address(store: Path) -> Iterator[str]:
    """The address of a real server over the copy."""
    service = Service(str(store))
    with running(application(service), service.feed.stop) as found:
        yield found
