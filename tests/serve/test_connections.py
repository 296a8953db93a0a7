"""Connections that keep a server waiting, and who is served beside them."""

from __future__ import annotations

import asyncio
import contextlib
import json
import logging
import select
import socket
import threading
from collections.abc import AsyncIterator, Iterator, Sequence
from pathlib import Path
from urllib.parse import urlsplit

import httpx
import pytest
from starlette.applications import Starlette
from starlette.requests import Request
from starlette.responses import PlainTextResponse, Response, StreamingResponse
from starlette.routing import Route

from kbforge_serve import feed, server
from kbforge_serve.app import application
from kbforge_serve.security import Access, Guard
from kbforge_serve.server import Server
from kbforge_serve.service import Service
from tests.serve.conftest import running

PATIENCE = 30.0  # seconds after which a test fails
HOST = b"Host: localhost\r\n"
HALF = b"GET / HTTP/1.1\r\n" + HOST + b"X-Slow: "
SLOW = b"POST /echo HTTP/1.1\r\n" + HOST + b"Content-Length: 1000\r\n\r\nx"
WAIT = b"GET /wait HTTP/1.1\r\n" + HOST + b"\r\n"
WHOLE = b"GET / HTTP/1.1\r\n" + HOST + b"\r\n"


class Plain:
    """An application that answers at once, when it is told to, or without end."""

    def __init__(self) -> None:
        self.release, self.ended = threading.Event(), threading.Event()
        self.began = threading.Semaphore(0)
        routes = [
            Route("/", self._now),
            Route("/echo", self._echo, methods=["POST"]),
            Route("/wait", self._wait),
            Route("/endless", self._endless),
        ]
        self.app = Guard(Starlette(routes=routes), Access())

    async def _now(self, _: Request) -> Response:
        return PlainTextResponse("now")

    async def _echo(self, request: Request) -> Response:
        return PlainTextResponse(await request.body())

    async def _wait(self, _: Request) -> Response:
        self.began.release()
        while not self.release.is_set():
            await asyncio.sleep(0.01)
        return PlainTextResponse("waited")

    async def _endless(self, _: Request) -> Response:
        async def zeros() -> AsyncIterator[bytes]:
            try:
                while True:
                    yield bytes(1 << 16)
                    await asyncio.sleep(0)
            finally:
                self.ended.set()

        return StreamingResponse(zeros())


@pytest.fixture
def plain() -> Iterator[Plain]:
    made = Plain()
    yield made
    made.release.set()


@contextlib.contextmanager
def connected(address: str, *sent: bytes) -> Iterator[list[socket.socket]]:
    """Connections to a server, each with the first bytes that it sends."""
    with contextlib.ExitStack() as stack:
        made = []
        for first in sent:
            at = (urlsplit(address).hostname, urlsplit(address).port)
            made.append(stack.enter_context(socket.create_connection(at, PATIENCE)))
            made[-1].sendall(first)
        yield made


def rest(connection: socket.socket) -> bytes:
    """All that comes until the server closes."""
    came = b""
    with contextlib.suppress(ConnectionError):
        while part := connection.recv(1 << 16):
            came += part
    return came


def ended(connections: Sequence[socket.socket]) -> Sequence[socket.socket]:
    """Those that the server has closed, or sent something."""
    return select.select(connections, (), (), 0)[0]


def status(connection: socket.socket) -> int:
    """The status of the answer; the rest may be read on."""
    came = b""
    while b"\r\n" not in came:
        part = connection.recv(1 << 16)
        assert part, "the server closed the connection"
        came += part
    return int(came.split()[1])


class Lines(logging.Handler):
    """What the server logs."""

    def __init__(self) -> None:
        super().__init__()
        self.lines: list[str] = []

    def emit(self, record: logging.LogRecord) -> None:
        self.lines.append(record.getMessage())


@pytest.fixture
def logged() -> Iterator[list[str]]:
    """The lines of a server's log."""
    handler, logs = Lines(), [logging.getLogger(name) for name in ("uvicorn.error", "asyncio", "")]
    for log in logs:
        log.addHandler(handler)
    yield handler.lines
    for log in logs:
        log.removeHandler(handler)


# --- time -----------------------------------------------------------------------------------------


@pytest.mark.parametrize("sent", [b"", HALF, WHOLE + HALF, WHOLE + b"\r\n"])
def test_a_client_has_only_so_long_for_its_headers(plain: Plain, sent: bytes) -> None:
    with running(plain.app, headers=0.2) as address, connected(address, sent) as (slow,):
        assert rest(slow).count(b"HTTP/1.1 200") == sent.count(WHOLE)


def test_a_body_that_comes_after_the_answer_holds_no_connection(plain: Plain) -> None:
    sent = b"GET / HTTP/1.1\r\n" + HOST + b"Content-Length: 1000\r\n\r\nx"
    with running(plain.app, body=0.2) as address, connected(address, sent) as (slow,):
        assert status(slow) == 200
        slow.sendall(b"x")
        rest(slow)


def test_a_client_that_takes_nothing_of_its_answer_is_let_go(plain: Plain) -> None:
    sent = b"GET /endless HTTP/1.1\r\n" + HOST + b"\r\n"
    with running(plain.app, taking=0.2) as address, connected(address, sent):
        assert plain.ended.wait(PATIENCE)


def test_who_keeps_to_the_time_is_served(plain: Plain) -> None:
    """A request that the server takes long for is none that a client is slow with."""
    limits = {"headers": 0.2, "body": 0.2, "taking": 0.2}
    with running(plain.app, **limits) as address, connected(address, WAIT) as (patient,):
        with connected(address, HALF) as (slow,):
            rest(slow)
        plain.release.set()
        assert status(patient) == 200


# --- number ---------------------------------------------------------------------------------------


def test_who_asks_is_served_beside_many_who_wait(plain: Plain, logged: list[str]) -> None:
    many = [b"", HALF, SLOW] * 10
    with running(plain.app, most=8) as address, connected(address, WAIT) as (served,):
        assert plain.began.acquire(timeout=PATIENCE)
        with connected(address, *many) as slow:
            for _ in range(20):
                assert httpx.get(address).text == "now"
            assert len(slow) - 7 <= sum(one.recv(1) == b"" for one in ended(slow))
        plain.release.set()
        assert status(served) == 200  # it is older than all of them, but not slow
    assert len(logged) == 1
    assert "more than 8 connections" in logged[0]


def test_where_all_are_being_answered_one_more_is_asked_to_come_again(plain: Plain) -> None:
    with running(plain.app, most=2) as address, connected(address, WAIT, WAIT) as served:
        assert all(plain.began.acquire(timeout=PATIENCE) for _ in served)
        with connected(address, WHOLE) as (refused,):
            head, _, body = rest(refused).partition(b"\r\n\r\n")
        assert head.startswith(b"HTTP/1.1 503")
        assert b"retry-after" in head
        assert json.loads(body)["error"] == "too many connections at once"
        plain.release.set()
        assert [status(one) for one in served] == [200, 200]


@pytest.mark.parametrize(("files", "most"), [(64, 16), (256, 128), (1024, 512), (None, 512)])
def test_connections_are_fewer_than_files_may_be_open(
    plain: Plain, files: int | None, most: int
) -> None:
    resource = pytest.importorskip("resource", reason="there is no such limit")
    before = resource.getrlimit(resource.RLIMIT_NOFILE)
    limit = before[1] if files is None else files
    if before[1] != resource.RLIM_INFINITY and before[1] < max(limit, 1024):
        pytest.skip("so many files may not be open here")
    resource.setrlimit(resource.RLIMIT_NOFILE, (limit, before[1]))
    try:
        assert Server(plain.app).server_state.most == most
    finally:
        resource.setrlimit(resource.RLIMIT_NOFILE, before)


def test_as_many_follow_as_may_however_many_ask_at_once(address: str) -> None:
    most = feed.MOST_FOLLOWING
    follow = b"GET /api/changes/stream?since=1 HTTP/1.1\r\n" + HOST + b"\r\n"
    with connected(address, *[follow] * (most + 50)) as followers:
        answers = [status(one) for one in followers]
        assert sorted(answers) == [200] * most + [503] * 50
    with connected(address, follow) as (next_one,):  # those who have gone leave their places
        assert _in_the_end(address, next_one) == 200


def _in_the_end(address: str, asked: socket.socket) -> int:
    """The status, asked for again while all places are taken."""
    found, tries = status(asked), 0
    while found == 503 and tries < 100:
        tries += 1
        with httpx.stream("GET", f"{address}api/changes/stream?since=1") as again:
            found = again.status_code
    return found


# --- what is no request ---------------------------------------------------------------------------


def test_a_request_of_two_lengths_ends_the_connection(plain: Plain) -> None:
    sent = (
        b"POST /echo HTTP/1.1\r\n" + HOST + b"Content-Length: 5\r\nTransfer-Encoding: chunked\r\n"
        b"\r\n0\r\n\r\n" + WHOLE
    )
    with running(plain.app) as address, connected(address, sent) as (sender,):
        assert rest(sender).startswith(b"HTTP/1.1 400")
        assert b"now" not in rest(sender)


def test_the_log_says_once_what_happens_often(plain: Plain, logged: list[str]) -> None:
    upgrade = b"GET / HTTP/1.1\r\n" + HOST + b"Connection: Upgrade\r\nUpgrade: x\r\n\r\n"
    with running(plain.app) as address:
        with connected(address, *[b"\0\r\n\r\n"] * 40) as broken:
            assert {status(one) for one in broken} == {400}
        with connected(address, *[upgrade] * 40) as others:
            assert {status(one) for one in others} == {200}
    assert len(logged) == len(set(logged)) < 5


def test_the_log_says_how_much_it_left_out() -> None:
    quiet = server._Quiet()

    def passes(created: float, **more: object) -> tuple[bool, str]:
        record = logging.makeLogRecord({"msg": "no %s", "args": ("room",), "created": created})
        record.__dict__.update(more)
        return bool(quiet.filter(record)), record.getMessage()

    assert passes(0.0) == (True, "no room")
    assert [passes(at)[0] for at in (1.0, 2.0, 59.0)] == [False] * 3
    assert passes(2.0, exc_info=(ValueError, ValueError(), None))[0]  # another kind
    assert passes(61.0) == (True, "no room (3 lines like this were left out before it)")
    assert passes(122.0) == (True, "no room")


BROKEN: Sequence[tuple[str, bytes]] = [
    ("POST /api/fragments", b'Content-Type: application/json\r\nContent-Length: 100\r\n\r\n{"id'),
    ("POST /api/match", b"Content-Length: 100\r\n\r\n{"),
    ("POST /api/decisions", b'Content-Type: application/json\r\nContent-Length: 99\r\n\r\n{"sa'),
    ("POST /api/match", b"Transfer-Encoding: chunked\r\n\r\n5\r\n{"),
    (
        "POST /reconcile",
        b"Content-Type: application/x-www-form-urlencoded\r\nContent-Length: 99\r\n\r\nqueries=",
    ),
    (
        "POST /reconcile",
        b"Content-Type: multipart/form-data; boundary=x\r\nContent-Length: 99\r\n\r\n--x\r\n",
    ),
    ("GET /api/changes/stream", b"\r\n"),
    ("GET /api/changes/stream", b"Content-Length: 10\r\n\r\n"),
    ("GET /api/changes?since=1&wait=60", b"\r\n"),
    ("GET /api/export", b"\r\n"),
]


def test_who_breaks_off_leaves_no_traceback(store: Path, logged: list[str]) -> None:
    service = Service(str(store))
    with running(application(service), service.feed.stop) as address:
        for asked, more in BROKEN:
            with connected(address, f"{asked} HTTP/1.1\r\n".encode() + HOST + more):
                httpx.get(f"{address}api/status").raise_for_status()
            httpx.get(f"{address}api/status").raise_for_status()
    assert logged == []


def test_a_body_that_is_late_ends_a_stream_without_a_traceback(
    service: Service, logged: list[str]
) -> None:
    app, sent = application(service), b"GET /api/changes/stream HTTP/1.1\r\n" + HOST
    app.silence = 0.1
    sent += b"Content-Length: 10\r\n\r\n"
    with (
        running(app, service.feed.stop, body=0.5) as address,
        connected(address, sent) as (late,),
    ):
        assert rest(late).startswith(b"HTTP/1.1 200")
    assert logged == []
