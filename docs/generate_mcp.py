"""Writes the transcript of docs/serving.md: a client of the MCP calls the tools of a small store.

Calls and answers are real. Numbers are rounded, and long answers end in "…". `--check` only says
whether the page is stale.
"""

from __future__ import annotations

import asyncio
import csv
import json
import sys
import tempfile
import textwrap
from contextlib import closing
from pathlib import Path
from typing import Any

from mcp import Client

import kbforge
from kbforge_serve.mcp import server
from kbforge_serve.service import Service

HERE = Path(__file__).parent
PAGE = HERE / "serving.md"
TABLE = HERE.parent / "examples" / "people" / "people.csv"
BEGIN, END = "<!-- transcript, written by make docs -->\n", "<!-- end of transcript -->\n"
WIDTH = 100
MOST_LINES = 3


def main(check: bool) -> None:
    """Write the page, or end with an error if it is stale."""
    text = PAGE.read_text(encoding="utf-8")
    before, _, rest = text.partition(BEGIN)
    _, _, after = rest.partition(END)
    fresh = f"{before}{BEGIN}```text\n{transcript()}```\n{END}{after}"
    if check and fresh != text:
        sys.exit("docs/serving.md is stale; run make docs and commit it")
    PAGE.write_text(fresh, encoding="utf-8")


def transcript() -> str:
    """All calls with their answers."""
    with tempfile.TemporaryDirectory() as folder:
        store = str(Path(folder) / "kb.sqlite")
        with TABLE.open(encoding="utf-8", newline="") as table:
            kbforge.update(store, list(csv.DictReader(table)), id="id")
        with closing(Service(store)) as service:
            return "\n".join(asyncio.run(conversation(service)))


async def conversation(service: Service) -> list[str]:
    """What a model might ask about somebody called Penhalow."""
    said: list[str] = []
    async with Client(server(service)) as client:

        async def call(name: str, **arguments: Any) -> Any:
            answer = await client.call_tool(name, arguments)
            assert not answer.is_error, answer.content
            said.append(f"> {name} {json.dumps(arguments)}\n{shown(answer.structured_content)}\n")
            return answer.structured_content

        (entity,) = (await call("search_entities", text="penhalow"))["results"]
        await call("get_entity", id=entity["id"])
        await call("why", fragment="3")
        wat = {"first_name": ["wat"], "surname": ["penhalow"]}
        await call("match_fragment", properties=wat, limit=1)
        added = await call("add_fragments", fragments=[{"id": "letter-7", "properties": wat}])
        await ended(client, added["run"])
        await call("changes", since=added["run"] - 1)
        question = (await call("review_next"))["question"]
        pair = {"first": question["first"], "second": question["second"]}
        made = await call("decide", verdict="same", **pair)
        await call("decide", verdict="undo", decision=made["decision"])
    return said


async def ended(client: Client, run: int) -> None:
    """Wait until a run has ended, which it does when nothing more comes for a second."""
    while True:
        answer = await client.call_tool("changes", {"since": run - 1})
        if answer.structured_content and answer.structured_content["next"] == run:
            return
        await asyncio.sleep(0.1)


def shown(answer: Any) -> str:
    """An answer as JSON, in lines, cut where it is long."""
    text = json.dumps(rounded(answer), ensure_ascii=False)
    lines = textwrap.wrap(text, WIDTH, break_long_words=False, break_on_hyphens=False)
    return "\n".join([*lines[:MOST_LINES], "…"] if len(lines) > MOST_LINES else lines)


def rounded(value: Any) -> Any:
    """A JSON value with three digits of each fraction."""
    if isinstance(value, float):
        return round(value, 3)
    if isinstance(value, list):
        return [rounded(item) for item in value]
    if isinstance(value, dict):
        return {key: rounded(item) for key, item in value.items()}
    return value


if __name__ == "__main__":
    main("--check" in sys.argv[1:])
