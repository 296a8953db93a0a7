"""What docs/serving.md says: its programs run and print what it shows, and its session is real."""

from __future__ import annotations

import contextlib
import csv
import io
import json
import re
import threading
from collections.abc import Iterator
from pathlib import Path

import httpx
import pytest

import kbforge
from kbforge_serve.app import application
from kbforge_serve.server import Server, address_of, listen
from kbforge_serve.service import Service
from tests.registry.distributions import python
from tests.test_docs import ROOT, blocks

PAGE = (ROOT / "docs" / "serving.md").read_text(encoding="utf-8")


@pytest.fixture
def people_address(tmp_path: Path) -> Iterator[str]:
    """The address of a server over the table of people."""
    store = tmp_path / "kb.sqlite"
    table = (ROOT / "examples" / "people" / "people.csv").read_text(encoding="utf-8")
    kbforge.update(store, list(csv.DictReader(io.StringIO(table))), id="id")
    with listen("127.0.0.1", 0) as listening:
        server = Server(application(Service(str(store))))
        thread = threading.Thread(target=server.run, args=([listening],))
        thread.start()
        yield address_of(listening).rstrip("/")
        server.stop()
        thread.join()


def test_the_programs_of_the_page_print_what_it_shows(people_address: str) -> None:
    parts = re.findall(r"^```(python|text)\n(.*?)^```$", PAGE, re.MULTILINE | re.DOTALL)
    names: dict[str, object] = {}
    printed = ""
    for language, part in parts:
        if language == "python":
            out = io.StringIO()
            with contextlib.redirect_stdout(out):
                exec(part.replace("http://127.0.0.1:8000", people_address), names)
            printed = out.getvalue()
        elif not part.startswith("> "):  # the session of the MCP
            assert printed == part


def test_every_address_of_the_page_answers(people_address: str) -> None:
    with httpx.Client(base_url=people_address, timeout=60) as client:
        listed = client.get("/api/entities").json()["entities"]
        first, second = (client.get(f"/api/entities/{one['id']}").json() for one in listed[:2])
        given = {
            "ID": first["id"],
            "NAME": str(first["subproblem"]),
            "q=": "q=penhalow",
            "fragment=": f"fragment={first['fragments'][0]['fragment']['id']}",
            "?id=": f"?id={first['fragments'][0]['fragment']['id']}",
            "first=": f"first={first['id']}",
            "second=": f"second={second['id']}",
            "from=": "from=0",
            "to=": "to=1",
            "since=": "since=0",
            "order=": "order=least_sure",
            "cursor=": "cursor=0",
            "limit=": "limit=5",
            "format=": "format=csv",
        }
        rows = re.findall(r"^\| (`(?:GET )?/.*?)\|", PAGE, re.MULTILINE)
        addresses = [one for row in rows for one in re.findall(r"`(?:GET )?(/[^`]*)`", row)]
        assert len(addresses) > 20
        for address in addresses:
            if address == "/api/changes/stream":  # it has no end
                continue
            asked = re.sub("|".join(map(re.escape, given)), lambda m: given[m[0]], address)
            assert client.get(asked).status_code == 200, asked
            if not asked.startswith("/api"):
                path, _, query = asked.partition("?")
                assert isinstance(client.get(f"{path}.json?{query}").json(), dict), asked


def test_what_a_client_of_the_mcp_reads_is_json() -> None:
    for block in blocks(PAGE, "json"):
        (server,) = json.loads(block)["mcpServers"].values()
        assert server["args"][0] == "mcp"


@pytest.mark.slow
def test_the_session_of_the_page_is_fresh() -> None:
    pytest.importorskip("mcp", reason="needs the extra mcp")
    checked = python(str(ROOT / "docs" / "generate_mcp.py"), "--check")
    assert checked.code == 0, checked.err
