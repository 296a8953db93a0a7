"""A small store that is served: in this process, and by a real server on a port."""

from __future__ import annotations

import shutil
import threading
from collections.abc import Iterator
from pathlib import Path

import pytest

pytest.importorskip("fastapi", reason="needs the extra serve")
pytest.importorskip("uvicorn", reason="needs the extra serve")

from starlette.testclient import TestClient

from kbforge.contracts import Fragment
from kbforge.fit.choices import Choices
from kbforge.jobs.update import add_fragments
from kbforge.serve.app import application
from kbforge.serve.server import Server, address_of, listen
from kbforge.serve.service import Service
from tests.people import people

PEOPLE = people(40, 3)
"""The fragments of the store: about 120, labelled."""


@pytest.fixture(scope="session")
def made_store(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The store, which nobody writes."""
    path = tmp_path_factory.mktemp("served") / "kb.sqlite"
    add_fragments(str(path), PEOPLE, Choices(likelihood="pairs"))
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


@pytest.fixture
def address(store: Path) -> Iterator[str]:
    """The address of a real server over the copy, such as `http://127.0.0.1:43210/`."""
    service = Service(str(store))
    with listen("127.0.0.1", 0) as listening:
        server = Server(application(service), service.feed.stop)
        thread = threading.Thread(target=server.run, args=([listening],))
        thread.start()
        yield address_of(listening)
        server.stop()
        thread.join()
