"""The sockets of a server."""

from __future__ import annotations

import socket
from pathlib import Path

import pytest

from kbforge.errors import KBForgeError
from kbforge_serve.server import address_of, listen
from tests.program import Run


def test_answers_do_not_wait_for_receipts() -> None:
    """Nagle's algorithm would hold back the second part of each answer for 40 ms."""
    with (
        listen("127.0.0.1", 0) as listening,
        socket.create_connection(listening.getsockname()),
        listening.accept()[0] as accepted,
    ):
        assert accepted.getsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY)


@pytest.mark.parametrize(
    "host", ["256.256.256.256", "no such host", "203.0.113.7", "x" * 300, "::zz"]
)
def test_an_address_of_another_machine_is_said(host: str) -> None:
    with pytest.raises(KBForgeError, match="cannot listen on"):
        listen(host, 0)


def test_the_address_is_what_a_browser_opens() -> None:
    with listen("127.0.0.1", 0) as listening:
        port = listening.getsockname()[1]
        assert address_of(listening) == f"http://127.0.0.1:{port}/"


def test_the_verb_says_what_it_cannot_serve(program: Run, tmp_path: Path) -> None:
    missing, other = tmp_path / "none.sqlite", tmp_path / "other.sqlite"
    other.write_text("name,town\n")
    program("serve", missing, "--port", 0).require_refusal("cannot read", 1)
    program("serve", other, "--port", 0).require_refusal("expected a store", 1)
