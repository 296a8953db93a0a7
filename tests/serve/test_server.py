"""The sockets of a server."""

from __future__ import annotations

import socket

from kbforge.serve.server import listen


def test_answers_do_not_wait_for_receipts() -> None:
    """Nagle's algorithm would hold back the second part of each answer for 40 ms."""
    with (
        listen("127.0.0.1", 0) as listening,
        socket.create_connection(listening.getsockname()),
        listening.accept()[0] as accepted,
    ):
        assert accepted.getsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY)
