"""How a server ends, and what clients that are slow or gone do to it."""

from __future__ import annotations

import asyncio
import contextlib
import os
import re
import shutil
import signal
import socket
import subprocess
import time
from collections.abc import Iterator
from pathlib import Path
from urllib.parse import urlsplit

import httpx
import pytest

from kbforge.store.database import Database
from kbforge.store.store import Store
from kbforge_serve.app import application
from kbforge_serve.service import Service
from tests.cli.driving import PROGRAM
from tests.serve.conftest import running

NEW = {"id": "new", "properties": {"name": ["Olga Newman"]}}
SECONDS = 120.0
"""Until something is given up; a busy machine takes its time."""


@contextlib.contextmanager
def served(store: Path) -> Iterator[tuple[subprocess.Popen[bytes], str]]:
    """The real program, and the address that it prints."""
    command = [*PROGRAM, "serve", str(store), "--port", "0"]
    environment = {k: v for k, v in os.environ.items() if k != "KBFORGE_TOKEN"}
    with subprocess.Popen(command, stderr=subprocess.PIPE, env=environment) as process:
        try:
            assert process.stderr is not None
            line = process.stderr.readline().decode()
            found = re.search(r"http://127\.0\.0\.1:\d+/", line)
            assert found, line
            yield process, found[0]
        finally:
            process.kill()


@pytest.mark.slow
@pytest.mark.parametrize(
    ("number", "code", "sentence"),
    [
        (signal.SIGINT, 130, b"kbforge: interrupted\n"),
        (signal.SIGTERM, 143, b"kbforge: interrupted by SIGTERM\n"),
    ],
)
def test_a_signal_ends_the_server_when_its_requests_have_ended(
    store: Path, number: int, code: int, sentence: bytes
) -> None:
    with served(store) as (process, address), httpx.Client(timeout=SECONDS) as client:
        client.post(f"{address}api/fragments", json=NEW).raise_for_status()
        with client.stream("GET", f"{address}api/changes/stream") as stream:
            lines = stream.iter_lines()
            assert next(lines).startswith(":")
            process.send_signal(number)
            for _ in lines:  # to its end, and not to an error
                pass
        assert process.stderr is not None
        assert process.stderr.read() == sentence
        assert process.wait(SECONDS) == code
    assert not Path(f"{store}-wal").exists()
    copy = shutil.copy(store, store.with_name("copy.sqlite"))
    with Database(copy) as database:
        kept = Store(database)
        assert kept.fragment("new") is not None
        assert kept.runs()[-1].finished


@pytest.mark.slow
def test_a_server_that_is_killed_leaves_no_process_and_no_word(store: Path) -> None:
    with served(store) as (process, _):
        process.kill()
        assert process.stderr is not None
        # it ends when the last of its processes has ended
        assert process.stderr.read() == b""


def test_who_waits_for_a_run_is_answered_when_the_server_ends(service: Service) -> None:
    async def stop_while_waiting() -> None:
        waiting = asyncio.create_task(service.feed.wait(since=99, seconds=10 * SECONDS))
        await asyncio.sleep(0.01)
        assert not waiting.done()
        service.feed.stop()
        await waiting

    asyncio.run(stop_while_waiting())


def connected(address: str) -> socket.socket:
    place = urlsplit(address)
    assert place.hostname is not None
    assert place.port is not None
    return socket.create_connection((place.hostname, place.port), timeout=SECONDS)


def test_slow_clients_keep_nobody_waiting(service: Service) -> None:
    app = application(service)
    app.silence = 0.5
    head = b"POST /api/fragments HTTP/1.1\r\nHost: localhost\r\nContent-Length: 100\r\n"
    with contextlib.ExitStack() as stack:
        address = stack.enter_context(running(app, service.feed.stop))
        half = [stack.enter_context(connected(address)) for _ in range(40)]
        for one in half:
            one.sendall(head)  # the headers never end
        slow = [stack.enter_context(connected(address)) for _ in range(40)]
        for one in slow:
            one.sendall(head + b"\r\n{")
        assert httpx.get(f"{address}api/status", timeout=SECONDS).status_code == 200
        for one in slow:
            assert one.recv(1000).startswith(b"HTTP/1.1 408 ")
            assert b"close" in one.recv(1000) or one.recv(1) == b""


def test_clients_that_leave_take_nothing_along(address: str) -> None:
    with httpx.Client(timeout=SECONDS) as client:
        for path in ("api/changes/stream", "api/export", "api/changes?since=1&wait=60"):
            for _ in range(8):
                with connected(address) as gone:
                    gone.sendall(f"GET /{path} HTTP/1.1\r\nHost: localhost\r\n\r\n".encode())
        until = time.monotonic() + SECONDS
        while client.get(f"{address}api/export").status_code == 503:
            assert time.monotonic() < until
        assert client.get(f"{address}api/status").status_code == 200


@pytest.mark.parametrize(
    "sent",
    [
        b"GET / HTTP/1.1\r\nHost: localhost\r\nHost: evil.example\r\n\r\n",
        b"GET http://evil.example/ HTTP/1.1\r\nHost: evil.example\r\n\r\n",
        b"GET / HTTP/1.1\r\n\r\n",
        b"GET / HTTP/1.1\r\nHost: localhost\r\nX: " + b"x" * (1 << 17) + b"\r\n\r\n",
        b"POST /api/fragments HTTP/1.1\r\nHost: localhost\r\nContent-Length: 5\r\n"
        b"Transfer-Encoding: chunked\r\n\r\n0\r\n\r\n",
        b"\x16\x03\x01\x02\x00\x01\x00\x01\xfc\x03\x03",
    ],
)
def test_malformed_requests_are_refused(address: str, sent: bytes) -> None:
    with connected(address) as one:
        with contextlib.suppress(OSError):
            one.sendall(sent)
            one.shutdown(socket.SHUT_WR)
        answer = b""
        with contextlib.suppress(ConnectionResetError):
            answer = one.recv(1 << 16)
    assert answer == b"" or answer.split(b" ")[1] in (b"400", b"421", b"431"), answer
    assert httpx.get(f"{address}api/status", timeout=SECONDS).status_code == 200
