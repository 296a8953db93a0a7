"""Databases for tests: a PostgreSQL server of their own, and files of DuckDB and SQLite."""

from __future__ import annotations

import contextlib
import os
import shutil
import sqlite3
import subprocess
import tempfile
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

_DEBIAN = Path("/usr/lib/postgresql")
PASSWORD = "open-sesame"


def _program(name: str) -> str | None:
    there = sorted(_DEBIAN.glob(f"*/bin/{name}"))
    return shutil.which(name) or (str(there[-1]) if there else None)


@contextlib.contextmanager
def server() -> Iterator[str]:
    """The address of a server that ends with the block; the test is skipped without PostgreSQL."""
    initdb, postgres = _program("initdb"), _program("postgres")
    if initdb is None or postgres is None:
        pytest.skip("PostgreSQL is not installed (apt-get install postgresql)")
    # as root it does not start, and a socket's path has at most 107 bytes
    as_root: dict[str, Any] = {}
    with tempfile.TemporaryDirectory(prefix="kb-", dir="/tmp", ignore_cleanup_errors=True) as home:
        if os.geteuid() == 0:
            import pwd  # not on Windows

            nobody = pwd.getpwnam("nobody")
            os.chown(home, nobody.pw_uid, nobody.pw_gid)
            as_root = {"user": nobody.pw_uid, "group": nobody.pw_gid, "extra_groups": []}
        data = f"{home}/data"
        made = [initdb, "-D", data, "-A", "trust", "-U", "kb", "-E", "UTF8", "--locale=C", "-N"]
        subprocess.run(made, check=True, stdout=subprocess.DEVNULL, cwd=home, **as_root)
        settings = ["-c", "listen_addresses=", "-c", "fsync=off", "-k", home]
        with open(f"{home}/log", "wb") as log:
            running = subprocess.Popen(
                [postgres, "-D", data, *settings], stdout=log, stderr=log, cwd=home, **as_root
            )
        try:
            address = f"postgresql://kb:{PASSWORD}@/postgres?host={home}"
            _wait_for(address, running, Path(home, "log"))
            yield address
        finally:
            running.terminate()
            running.wait()


def _wait_for(address: str, running: subprocess.Popen[bytes], log: Path) -> None:
    while running.poll() is None:
        with contextlib.suppress(Exception):
            statement(address, "SELECT 1")
            return
    raise AssertionError(log.read_text())


def statement(address: str, *texts: str) -> list[tuple[Any, ...]]:
    """Run statements, and keep what they did; the rows of the last one."""
    scheme, _, file = address.partition(":///")
    if scheme == "sqlite":
        with contextlib.closing(sqlite3.connect(file)) as connection, connection:
            for text in texts:
                rows = connection.execute(text).fetchall()
        return rows
    if scheme == "duckdb":
        import duckdb

        with duckdb.connect(file) as connection:
            for text in texts:
                rows = connection.execute(text).fetchall()
        return rows
    from adbc_driver_postgresql import dbapi

    with dbapi.connect(address) as connection, connection.cursor() as cursor:
        for text in texts:
            cursor.execute(text)
        rows = cursor.fetchall() if cursor.description else []
        connection.commit()
    return rows
