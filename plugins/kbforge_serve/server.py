"""Runs a web application until a signal ends it.

A client could occupy all connections, so their number is bounded, below the number of files that
the process may open. So is the time a client may take to send the headers of a request, to send its
body, and to receive the answer. If there is one connection too many, the one whose client has taken
longest is closed; those that never got an answer are closed first. So a client that sends and reads
promptly is always served. The log repeats each message at most once a minute.
"""

from __future__ import annotations

import asyncio
import contextlib
import logging
import math
import socket
from collections.abc import Callable, Iterator

import h11
import orjson
import uvicorn
from starlette.types import ASGIApp
from uvicorn.protocols.http.h11_impl import H11Protocol
from uvicorn.server import ServerState

from kbforge import interrupts
from kbforge.errors import KBForgeError, quoted
from kbforge.files.io import reason_of

_GRACE = 10  # seconds that requests under way have to end
_WAITING = 1024  # connections that nobody has accepted yet
_ACCEPTED = 16  # of them, accepted in one go
_MOST_OPEN = 512  # connections
_OVER = 3 * _ACCEPTED  # more than that, for a moment: until it is clear which one ends
_HEADERS = 1 << 16  # bytes of the headers of a request
_QUIET = 60.0  # seconds between two lines of the log that say the same
_MOST_KINDS = 100  # of lines that are remembered
_FULL = orjson.dumps({"ok": False, "error": "too many connections at once", "status": 503})
_LOG = logging.getLogger(__name__)


def listen(host: str, port: int) -> socket.socket:
    """A socket at an address; port 0 chooses a free one.

    Raises:
        KBForgeError: the address is not this machine's, or is in use.

    """
    family = socket.AF_INET6 if ":" in host else socket.AF_INET
    try:
        listening = socket.create_server((host, port), family=family, backlog=_WAITING)
        # connections inherit it: asyncio sets it only for sockets that it opened itself, and
        # without it the second part of an answer waits 40 ms for the receipt of the first
        listening.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        return listening
    except (OSError, UnicodeError) as error:
        reason = reason_of(error) if isinstance(error, OSError) else "no such address"
        raise KBForgeError(
            f"cannot listen on {quoted(host)} port {port}: {reason}; --port 0 selects a free one"
        ) from None


def address_of(listening: socket.socket) -> str:
    """The address that a browser opens."""
    host, port = listening.getsockname()[:2]
    if host in ("0.0.0.0", "::"):
        host = socket.gethostname()
    return f"http://{f'[{host}]' if ':' in host else host}:{port}/"


def _most_open() -> int:
    """The maximum number of connections that leaves the server enough files of its own."""
    try:
        import resource
    except ImportError:  # Windows, where sockets are no files
        return _MOST_OPEN
    files, _ = resource.getrlimit(resource.RLIMIT_NOFILE)
    return _MOST_OPEN if files < 0 else min(_MOST_OPEN, max(files - 128, files // 4))


class _Quiet(logging.Filter):
    """Passes each log message once a minute, with the number left out in between."""

    def __init__(self) -> None:
        super().__init__()
        self._said: dict[str, tuple[float, int]] = {}  # when, and how many were left out since

    def filter(self, record: logging.LogRecord) -> bool:
        kind = str(record.msg).partition("\n")[0]
        if record.exc_info:
            kind += repr(record.exc_info[0])
        when, left_out = self._said.get(kind, (-math.inf, 0))
        if record.created - when < _QUIET:
            self._said[kind] = when, left_out + 1
            return False
        if len(self._said) > _MOST_KINDS:
            self._said.clear()
        self._said[kind] = record.created, 0
        if left_out:
            record.msg = f"{record.msg} ({left_out:,} lines like this were left out before it)"
        return True


class _Connections(ServerState):
    """The connections of a server.

    Attributes:
        most: the maximum number open.
        headers: maximum seconds in which a client sends the headers of a request, from the end of
            an answer, or the beginning.
        body: in which it sends its body; the guard refuses a slow one before.
        taking: in which it takes nothing of an answer.
        waiting: those that wait for a client that has had no answer yet, the longest first,
            with the timer that ends each.
        served: those that wait for a client that has had an answer, in the same form.
        quiet: the time until which the log does not repeat that there are too many.

    """

    headers, body, taking = 10.0, 70.0, 60.0

    def __init__(self) -> None:
        super().__init__()
        self.most, self.quiet = _most_open(), 0.0
        self.waiting: dict[_Connection, asyncio.TimerHandle] = {}
        self.served: dict[_Connection, asyncio.TimerHandle] = {}


class _Connection(H11Protocol):
    """A connection that ends if its client is too slow, or the slowest when there are too many."""

    server_state: _Connections
    _turn: tuple[object, ...] = ()
    _answered = False

    def connection_made(self, transport: asyncio.Transport) -> None:  # type: ignore[override]
        super().connection_made(transport)
        self._follow()
        over = len(self.connections) - self.server_state.most
        if over > 0:
            self._warn()
        n_waiting = len(self.server_state.waiting) + len(self.server_state.served)
        if over > min(_OVER, n_waiting - 1):  # all others are being answered
            head = f"connection: close\r\nretry-after: 1\r\ncontent-length: {len(_FULL)}"
            kind = "content-type: application/json"
            transport.write(f"HTTP/1.1 503 \r\n{kind}\r\n{head}\r\n\r\n".encode() + _FULL)
            self._go_on()
            self.connections.discard(self)
            transport.close()
        elif over > 0:
            # what lies in the sockets is read before: whoever has sent a request is not slow
            self.loop.call_soon(self.loop.call_soon, self._make_room)

    def _make_room(self) -> None:
        """End the connection that has waited longest for its client, if there are too many."""
        waiting = self.server_state.waiting or self.server_state.served
        if len(self.connections) > self.server_state.most and waiting:
            next(iter(waiting)).end()

    def data_received(self, data: bytes) -> None:
        super().data_received(data)
        self._follow()

    def on_response_complete(self) -> None:
        super().on_response_complete()
        self._answered = True
        self._follow()

    def pause_writing(self) -> None:
        super().pause_writing()
        self._follow()

    def resume_writing(self) -> None:
        super().resume_writing()
        self._follow()

    def connection_lost(self, exc: Exception | None) -> None:
        super().connection_lost(exc)
        self._go_on()

    def end(self) -> None:
        """Close at once, without sending or receiving the rest."""
        self._go_on()
        self.connections.discard(self)
        self.transport.abort()

    def _warn(self) -> None:
        """Log that there are too many connections; the standard log would cost more than all
        else."""
        if self.loop.time() > self.server_state.quiet:
            self.server_state.quiet = self.loop.time() + _QUIET
            _LOG.warning(
                "more than %d connections at once; those that wait longest for a client are closed",
                self.server_state.most,
            )

    def _follow(self) -> None:
        """Record whether the server waits for the client, and for how long it may."""
        if self.transport.is_closing() or self.flow.write_paused:
            seconds: float | None = self.server_state.taking
        else:
            state = self.server_state
            of = {h11.IDLE: state.headers, h11.SEND_BODY: state.body}
            seconds = of.get(self.conn.their_state)
        turn = (self.cycle, self.conn.their_state, seconds)
        if turn == self._turn:
            return
        self._turn = turn
        self._go_on()
        if seconds is not None:
            state = self.server_state
            (state.served if self._answered else state.waiting)[self] = self.loop.call_later(
                seconds, self.end
            )

    def _go_on(self) -> None:
        """Record that the server does not wait for the client."""
        for waiting in (self.server_state.waiting, self.server_state.served):
            if timer := waiting.pop(self, None):
                timer.cancel()


class Server(uvicorn.Server):
    """One server. Signals end it after the current requests; a second Ctrl-C ends it now.

    `on_stop` is called at the first signal, to end requests that wait for events.
    """

    def __init__(self, app: ASGIApp, on_stop: Callable[[], None] = lambda: None) -> None:
        super().__init__(
            uvicorn.Config(
                app,
                loop="asyncio",
                http=_Connection,
                ws="none",
                lifespan="on",
                log_level="warning",
                access_log=False,
                proxy_headers=False,
                server_header=False,
                timeout_graceful_shutdown=_GRACE,
                h11_max_incomplete_event_size=_HEADERS,
                backlog=_ACCEPTED,
            )
        )
        self.server_state = _Connections()
        self._on_stop = on_stop

    async def startup(self, sockets: list[socket.socket] | None = None) -> None:
        """Begin; more connections may wait than are accepted in one go."""
        await super().startup(sockets)
        for listening in sockets or ():
            listening.listen(_WAITING)

    def stop(self) -> None:
        """End soon or, the second time, at once."""
        self.force_exit = self.should_exit
        self.should_exit = True
        self._on_stop()

    @contextlib.contextmanager
    def capture_signals(self) -> Iterator[None]:
        """Stop at a signal, like all verbs; meanwhile the log says each thing once a minute."""
        quietly, logs = _Quiet(), [logging.getLogger(name) for name in ("uvicorn.error", "asyncio")]
        for log in logs:
            log.addFilter(quietly)
        try:
            with interrupts.handled(self.stop):
                yield
        finally:
            for log in logs:
                log.removeFilter(quietly)


def serve(
    app: ASGIApp, listening: socket.socket, on_stop: Callable[[], None] = lambda: None
) -> None:
    """Serve until a signal comes.

    Raises:
        KeyboardInterrupt: the signal, after everything is closed.

    """
    Server(app, on_stop).run(sockets=[listening])
    raise KeyboardInterrupt
