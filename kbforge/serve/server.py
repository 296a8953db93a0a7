"""Runs an application on a socket until a signal ends it."""

from __future__ import annotations

import contextlib
import socket
from collections.abc import Callable, Iterator

import uvicorn
from starlette.types import ASGIApp

from kbforge import interrupts
from kbforge.errors import KBForgeError, quoted
from kbforge.files.io import reason_of

_GRACE = 10  # seconds that requests under way have to end
_WAITING = 128  # connections that nobody has accepted yet
_HEADERS = 1 << 16  # bytes of the headers of a request


def listen(host: str, port: int) -> socket.socket:
    """A socket at an address; port 0 takes any that is free.

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
            f"cannot listen on {quoted(host)} port {port}: {reason}; --port 0 takes any free port"
        ) from None


def address_of(listening: socket.socket) -> str:
    """The address that a browser opens."""
    host, port = listening.getsockname()[:2]
    if host in ("0.0.0.0", "::"):
        host = socket.gethostname()
    return f"http://{f'[{host}]' if ':' in host else host}:{port}/"


class Server(uvicorn.Server):
    """One server. Signals end it when the requests under way have ended; a second Ctrl-C now.

    `on_stop` is called at the first signal, so that requests that wait for something end.
    """

    def __init__(self, app: ASGIApp, on_stop: Callable[[], None] = lambda: None) -> None:
        super().__init__(
            uvicorn.Config(
                app,
                http="h11",
                ws="none",
                lifespan="on",
                log_level="warning",
                access_log=False,
                proxy_headers=False,
                server_header=False,
                timeout_graceful_shutdown=_GRACE,
                h11_max_incomplete_event_size=_HEADERS,
            )
        )
        self._on_stop = on_stop

    def stop(self) -> None:
        """End soon; the second time, at once."""
        self.force_exit = self.should_exit
        self.should_exit = True
        self._on_stop()

    @contextlib.contextmanager
    def capture_signals(self) -> Iterator[None]:
        """Stop at a signal, as all verbs do."""
        with interrupts.handled(self.stop):
            yield


def serve(
    app: ASGIApp, listening: socket.socket, on_stop: Callable[[], None] = lambda: None
) -> None:
    """Serve until a signal comes.

    Raises:
        KeyboardInterrupt: the signal, when all is closed.

    """
    Server(app, on_stop).run(sockets=[listening])
    raise KeyboardInterrupt
