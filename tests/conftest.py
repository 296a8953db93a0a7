"""Fixtures, marks and profiles that all rooms share."""

import os
import signal
from pathlib import Path

import pytest
from hypothesis import settings

# how long an example takes is the machine's affair
settings.register_profile("full", deadline=None, max_examples=100)
settings.register_profile("fast", deadline=None, max_examples=20)
settings.load_profile("full")

# processes beside each other share the cores; read when torch is first imported
if "PYTEST_XDIST_WORKER" in os.environ:
    os.environ.setdefault("OMP_NUM_THREADS", "1")

# a shell ignores Ctrl-C for what it starts in the background, and so do the programs started there
if signal.getsignal(signal.SIGINT) is signal.SIG_IGN:
    signal.signal(signal.SIGINT, signal.default_int_handler)

# so does nohup with the end of a terminal
if hasattr(signal, "SIGHUP") and signal.getsignal(signal.SIGHUP) is signal.SIG_IGN:
    signal.signal(signal.SIGHUP, signal.SIG_DFL)


# before they are imported: their assertions then say what was compared
pytest.register_assert_rewrite("tests.program", "tests.sources.harness")

from tests.databases import server, statement  # noqa: E402
from tests.program import program  # noqa: E402

__all__ = ["data_dir", "program"]

LAB = Path(__file__).parent / "lab"


@pytest.hookimpl(tryfirst=True)
def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Mark the laboratory's tests, and those of the kits that read large inputs."""
    for item in items:
        if LAB in item.path.parents:
            item.add_marker("lab")
        if item.name.startswith("test_memory_does_not_grow"):
            item.add_marker("slow")


@pytest.fixture(scope="session")
def data_dir():
    """The folder of real data that KBFORGE_DATA names."""
    name = os.environ.get("KBFORGE_DATA")
    if not name:
        pytest.skip("KBFORGE_DATA is not set; it names the folder of real data sets")
    folder = Path(name)
    assert (folder / "SOURCES.md").is_file(), f"KBFORGE_DATA={name} is not a data folder"
    return folder


@pytest.fixture(scope="session")
def postgresql():
    """The address of a PostgreSQL server for all tests; each makes its own tables."""
    with server() as address:
        yield address


@pytest.fixture(params=["postgresql", "duckdb", "sqlite"])
def database(request, tmp_path):
    """The address of an empty database."""
    if request.param != "postgresql":
        pytest.importorskip("duckdb" if request.param == "duckdb" else "pyarrow")
        return f"{request.param}:///{tmp_path / 'crm.db'}"
    pytest.importorskip("adbc_driver_postgresql")
    address = request.getfixturevalue("postgresql")
    statement(address, "DROP SCHEMA public CASCADE", "CREATE SCHEMA public")
    return address
