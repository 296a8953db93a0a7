"""The Model Context Protocol, driven by the SDK's own client."""

from __future__ import annotations

import asyncio
import sys
import threading
from collections.abc import Awaitable, Callable, Iterator
from pathlib import Path
from typing import Any, TypeVar

import httpx
import pytest

pytest.importorskip("mcp", reason="needs the extra mcp")

from mcp import Client
from mcp.client.stdio import StdioServerParameters

from kbforge.serve.mcp import over_http, server
from kbforge.serve.server import Server, address_of, listen
from kbforge.serve.service import Service

T = TypeVar("T")


def asked(target: Any, ask: Callable[[Client], Awaitable[T]]) -> T:
    """What a client of a server (in this process, of a command or at an address) finds."""

    async def within() -> T:
        async with Client(target) as client:
            return await ask(client)

    return asyncio.run(within())


def called(service: Service, name: str, **arguments: object) -> Any:
    """What a tool answers to a client in this process."""
    return asked(server(service), lambda client: client.call_tool(name, arguments))


@pytest.fixture
def address(service: Service) -> Iterator[str]:
    """The address of the tools on a port."""
    with listen("127.0.0.1", 0) as listening:
        running = Server(over_http(server(service)))
        thread = threading.Thread(target=running.run, args=([listening],))
        thread.start()
        yield f"{address_of(listening)}mcp"
        running.stop()
        thread.join()


def test_errors_are_sentences(service: Service) -> None:
    for arguments, sentence in (
        ({"since": 7}, "expected the number of a run from 0 to 1, got 7"),
        ({"since": -1}, "since: input should be greater than or equal to 0"),
        ({}, "since: field required"),
    ):
        answer = called(service, "changes", **arguments)
        assert answer.is_error
        (content,) = answer.content
        assert content.text.endswith(sentence)


def test_changes_name_the_run_to_ask_with_next(service: Service) -> None:
    found = called(service, "changes", since=0, limit=3).structured_content
    assert len(found["changes"]) == 3
    assert found["run"] == 1
    assert called(service, "changes", since=1).structured_content["changes"] == []


def test_a_command_is_asked_by_standard_input(store: Path) -> None:
    command = StdioServerParameters(
        command=sys.executable, args=["-m", "kbforge", "mcp", str(store)]
    )
    answer = asked(command, lambda client: client.call_tool("changes", {"since": 0}))
    assert answer.structured_content["run"] == 1


def test_a_server_is_asked_by_http(address: str) -> None:
    answer = asked(address, lambda client: client.call_tool("changes", {"since": 0}))
    assert answer.structured_content["run"] == 1


@pytest.mark.parametrize(
    ("headers", "status"),
    [
        ({"Host": "evil.example"}, 421),
        ({"Origin": "https://evil.example"}, 403),
        ({"Sec-Fetch-Site": "cross-site"}, 403),
    ],
)
def test_no_page_of_another_site_reaches_the_tools(
    address: str, headers: dict[str, str], status: int
) -> None:
    message = {"jsonrpc": "2.0", "id": 1, "method": "tools/list"}
    accept = {"Accept": "application/json, text/event-stream"}
    assert httpx.post(address, json=message, headers=accept | headers).status_code == status
