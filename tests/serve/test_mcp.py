"""The Model Context Protocol, driven by the SDK's own client."""

from __future__ import annotations

import asyncio
import json
import shutil
import sys
import threading
from collections.abc import Awaitable, Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any, TypeVar

import httpx
import pytest

pytest.importorskip("mcp", reason="needs the extra mcp")

from mcp import Client
from mcp.client.stdio import StdioServerParameters

from kbforge.store.audit import signed
from kbforge_serve.mcp import over_http, server
from kbforge_serve.server import Server, address_of, listen
from kbforge_serve.service import Service
from tests.registry.distributions import python
from tests.serve.conftest import PEOPLE

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


@contextmanager
def over_port(service: Service) -> Iterator[str]:
    """The address of the tools on a port."""
    with listen("127.0.0.1", 0) as listening:
        running = Server(over_http(server(service)))
        thread = threading.Thread(target=running.run, args=([listening],))
        thread.start()
        yield f"{address_of(listening)}mcp"
        running.stop()
        thread.join()


def found(service: Service, name: str, **arguments: object) -> Any:
    """What a tool finds, which is no error; the text of the answer says the same."""
    answer = called(service, name, **arguments)
    (content,) = answer.content
    assert not answer.is_error, content.text
    assert json.loads(content.text) == answer.structured_content
    assert not empty(answer.structured_content)
    return answer.structured_content


def empty(answer: Any) -> bool:
    """Whether a field of an answer says nothing, or a number has many digits."""
    if isinstance(answer, dict):
        return any(value in (None, "", [], {}) or empty(value) for value in answer.values())
    if isinstance(answer, list):
        return any(map(empty, answer))
    return isinstance(answer, float) and answer != round(answer, 4)


def refusal(service: Service, name: str, **arguments: object) -> str:
    """The sentence of a tool that refuses."""
    answer = called(service, name, **arguments)
    (content,) = answer.content
    assert answer.is_error
    assert "\n" not in content.text
    return str(content.text)


def test_tools_that_read_say_so_and_each_has_a_description(service: Service) -> None:
    tools = asked(server(service), lambda client: client.list_tools()).tools
    assert len(tools) == 12
    writing = {tool.name for tool in tools if not tool.annotations.read_only_hint}
    assert writing == {"add_fragments", "decide"}
    assert all(tool.description and tool.title for tool in tools)


@pytest.mark.parametrize(
    ("name", "arguments", "sentence"),
    [
        ("changes", {"since": 7}, "expected the number of a run from 0 to 1, got 7"),
        ("changes", {"since": -1}, "since: input should be greater than or equal to 0"),
        ("changes", {}, "since: field required"),
        ("get_entity", {}, "expected an id or a fragment, and not both"),
        ("get_entity", {"id": "e-0"}, 'the knowledge base never had an entity "e-0"'),
        ("get_entity", {"fragment": "null"}, 'the knowledge base has no fragment "null"'),
        ("why", {"fragment": "nobody"}, 'the knowledge base has no fragment "nobody"'),
        ("match_fragment", {"properties": {}}, "expected at least one property"),
        ("decide", {"verdict": "same", "first": "0-0"}, "expected first and second"),
        ("decide", {"verdict": "undo", "first": "0-0"}, "undo takes the number of a decision"),
        ("decide", {"verdict": "undo", "decision": 4}, "there is no decision 4"),
        ("decide", {"verdict": "perhaps"}, "verdict: input should be 'same', 'different'"),
        ("add_fragments", {"fragments": []}, "fragments: list should have at least 1 item"),
        (
            "add_fragments",
            {"fragments": [{"id": "x", "properties": {"name": []}}]},
            "fragments.0: properties.name: expected at least one value, got an empty list",
        ),
        (
            "add_fragments",
            {"fragments": [{"id": "x", "properties": {"name": "Ann"}}]},
            "fragments.0.properties.name: input should be a valid list",
        ),
    ],
)
def test_errors_are_sentences(
    service: Service, name: str, arguments: dict[str, Any], sentence: str
) -> None:
    assert sentence in refusal(service, name, **arguments)


def test_a_search_finds_names_and_goes_on_at_its_cursor(service: Service) -> None:
    name = next(one.names[0] for one in PEOPLE if one.names)
    (first, *_) = found(service, "search_entities", text=name)["results"]
    assert first["matched"] == {"attribute": "name", "value": name}
    town = PEOPLE[0].properties["town"][0]
    page = found(service, "search_entities", text=town, limit=1)
    more = found(service, "search_entities", text=town, limit=1, cursor=page["next"])
    assert page["results"][0]["id"] != more["results"][0]["id"]


def test_entities_are_listed_by_what_they_state(service: Service) -> None:
    (town,) = PEOPLE[0].properties["town"]
    asked = {"where": [f"town={town}"], "columns": ["town"], "least_size": 2, "limit": 1}
    first = found(service, "list_entities", **asked)
    assert (first["exact"], len(first["entities"])) == (True, 1)
    listed = list(first["entities"])
    while "after" in first:
        first = found(service, "list_entities", **asked, after=first["after"])
        listed += first["entities"]
    assert len({one["id"] for one in listed}) == len(listed) == first["count"] > 1
    for one in listed:
        entity = found(service, "get_entity", id=one["id"])
        assert town in [value["value"] for value in entity["properties"]["town"]]
        assert one["size"] >= 2
    assert "expected town=York" in refusal(service, "list_entities", where=["!town=x"])
    assert "order" in refusal(service, "list_entities", order="best")


def test_the_status_is_that_of_the_api(service: Service) -> None:
    status = found(service, "status")
    assert status["fragments"] == len(PEOPLE)
    assert status["n_runs"] == len(status["runs"]) == 1


def test_an_entity_is_found_by_its_id_and_by_its_fragments(service: Service) -> None:
    entity = found(service, "get_entity", fragment=PEOPLE[0].id)
    assert found(service, "get_entity", id=entity["id"]) == entity
    assert PEOPLE[0].id in {one["fragment"]["id"] for one in entity["fragments"]}
    assert not [one for one in entity["fragments"] if "label" in one["fragment"]]


def test_reasons_are_of_the_entity_or_against_another(service: Service) -> None:
    mine = max(PEOPLE, key=lambda one: sum(other.label == one.label for other in PEOPLE))
    told = found(service, "why", fragment=mine.id)
    entity = found(service, "get_entity", fragment=mine.id)
    assert told["own"]["entity"]["id"] == entity["id"]
    assert told["own"]["explanation"]["attributes"].keys() <= mine.properties.keys()
    other = next(one for one in PEOPLE if one.label != mine.label)
    rival = found(service, "get_entity", fragment=other.id)["id"]
    against = found(service, "why", fragment=mine.id, not_in=rival)
    assert {against["first"]["id"], against["second"]["id"]} == {entity["id"], rival}
    assert against["total"] < 0


def test_a_record_is_matched_and_not_kept(service: Service) -> None:
    mine = max(PEOPLE, key=lambda one: sum(other.label == one.label for other in PEOPLE))
    given = {attribute: list(values) for attribute, values in mine.properties.items()}
    match = found(service, "match_fragment", properties=given, limit=2)
    entity = found(service, "get_entity", fragment=mine.id)["id"]
    assert match["candidates"][0]["entity"]["id"] == entity
    assert match["new"] < 0.5
    assert found(service, "changes", since=1)["next"] == 1


def test_what_is_long_is_cut_and_that_is_said(service: Service) -> None:
    many = [{"id": f"x-{n}", "properties": {"name": ["Ann", "y" * 5000]}} for n in range(60)]
    assert found(service, "add_fragments", fragments=many)["added"] == 60
    change = found(service, "changes", since=1)
    assert change["shortened"]
    for one in change["regroupings"]:
        assert len(one["came"]) <= 50
    entity = found(service, "get_entity", fragment="x-0")
    assert entity["shortened"]
    assert all(len(value["value"]) <= 1001 for value in entity["properties"]["name"])


def test_fragments_come_once_and_changes_name_them(service: Service) -> None:
    new = [{"id": "new", "properties": {"name": ["Ann"]}, "source": "notes"}]
    first = found(service, "add_fragments", fragments=new)
    assert (first["added"], first["skipped"]) == (1, 0)
    again = found(service, "add_fragments", fragments=new)
    assert (again["added"], again["skipped"]) == (0, 1)
    other = [{"id": "new", "properties": {"name": ["Bob"]}}]
    assert "with other content" in refusal(service, "add_fragments", fragments=other)
    assert found(service, "add_fragments", fragments=other, replace=True)["replaced"] == 1
    changed = found(service, "changes", since=1)
    assert changed["to"] == first["run"]
    assert [one["came"] for one in changed["regroupings"]] == [["new"]]
    assert changed["next"] in (1, first["run"])  # the run ends a little later


def test_what_is_added_has_the_name_that_the_command_was_given(service: Service) -> None:
    """As `kbforge mcp --as eve` adds it."""
    with signed("eve"):
        new = [{"id": "new", "properties": {"name": ["Ann"]}}]
        run = found(service, "add_fragments", fragments=new)["run"]
    with service.readers.store() as store:
        assert [(line.run, line.by) for line in store.last_lines(1)] == [(run, "eve")]


def test_records_of_strange_columns_are_refused_until_map_names_them(service: Service) -> None:
    new = [{"id": f"s{n}", "properties": {"Nombre": [f"Juan {n}"]}} for n in range(3)]
    said = refusal(service, "add_fragments", fragments=new)
    assert "of attributes that the store does not have: they have Nombre, it has born" in said
    assert "map COLUMN=COLUMN adds a new one" in said
    assert "--" not in said
    renamed = {"fragments": new[:1], "map": {"Nombre": "name"}}
    assert found(service, "add_fragments", **renamed)["added"] == 1
    taken = {"fragments": new, "map": {"Nombre": "Nombre"}}
    assert "with other content" in refusal(service, "add_fragments", **taken)
    taken["fragments"] = new[1:]
    assert found(service, "add_fragments", **taken)["added"] == 2


def test_a_decision_holds_until_it_is_undone(service: Service) -> None:
    entity = found(service, "get_entity", fragment=PEOPLE[0].id)
    other = next(one.id for one in PEOPLE if one.label != PEOPLE[0].label)
    pair = {"first": PEOPLE[0].id, "second": other}
    made = found(service, "decide", verdict="same", **pair)
    assert made["effect"]["n_moved"]
    joined = found(service, "get_entity", fragment=PEOPLE[0].id)
    assert {PEOPLE[0].id, other} <= {one["fragment"]["id"] for one in joined["fragments"]}
    assert "contradict" in refusal(service, "decide", verdict="different", **pair)
    assert found(service, "decide", verdict="undo", decision=made["decision"])["exact"]
    apart = found(service, "get_entity", fragment=PEOPLE[0].id)
    assert apart["properties"] == entity["properties"]


def test_a_question_is_answered_or_skipped_and_not_asked_again(service: Service) -> None:
    labels = {one.id: one.label for one in PEOPLE}
    pairs = set[tuple[str, str]]()
    for number in range(4):
        question = found(service, "review_next")["question"]
        pair = {"first": question["first"], "second": question["second"]}
        pairs.add((question["first"], question["second"]))
        same = len({labels[id] for id in pair.values()}) == 1
        verdict = "skip" if number == 1 else "same" if same else "different"
        done = found(service, "decide", verdict=verdict, **pair)
        assert ("decision" not in done) == (verdict == "skip")
    assert len(pairs) == 4


async def tour(client: Client) -> list[Any]:
    """What all tools answer, one after another."""
    told: list[Any] = []

    async def call(name: str, **arguments: Any) -> Any:
        answer = await client.call_tool(name, arguments)
        assert not answer.is_error, answer.content
        told.append((name, answer.structured_content))
        return answer.structured_content

    name = next(one.names[0] for one in PEOPLE if one.names)
    entity = (await call("search_entities", text=name))["results"][0]["id"]
    fragment = (await call("get_entity", id=entity))["fragments"][0]["fragment"]
    await call("stated_by", id=entity)
    await call("find_path", first=entity, second=entity)
    await call("why", fragment=fragment["id"])
    await call("match_fragment", properties=fragment["properties"])
    question = (await call("review_next"))["question"]
    pair = {"first": question["first"], "second": question["second"]}
    await call("decide", verdict="different", **pair)
    new = {"id": "new", "properties": fragment["properties"]}
    await call("add_fragments", fragments=[new])
    await call("changes", since=1)
    await call("list_entities", columns=["name"], where=["name"])
    (await call("status")).clear()  # it has times
    for _, answer in told:
        answer.pop("history", None)  # it has times
        answer.pop("next", None)  # a run ends a little later
    return told


@pytest.mark.slow
def test_all_tools_answer_the_same_by_every_way(
    service: Service, made_store: Path, tmp_path: Path
) -> None:
    here = asked(server(service), tour)
    tools = asked(server(service), lambda client: client.list_tools()).tools
    assert {name for name, _ in here} == {tool.name for tool in tools}
    other = shutil.copy(made_store, tmp_path / "other.sqlite")
    command = ["-m", "kbforge", "mcp", str(other)]
    by_command = asked(StdioServerParameters(command=sys.executable, args=command), tour)
    assert by_command == here
    third = Service(str(shutil.copy(made_store, tmp_path / "third.sqlite")))
    with over_port(third) as at:
        assert asked(at, tour) == here
    third.close()


@pytest.mark.parametrize(
    ("headers", "status"),
    [
        ({"Host": "evil.example"}, 421),
        ({"Origin": "https://evil.example"}, 403),
        ({"Sec-Fetch-Site": "cross-site"}, 403),
    ],
)
def test_no_page_of_another_site_reaches_the_tools(
    service: Service, headers: dict[str, str], status: int
) -> None:
    message = {"jsonrpc": "2.0", "id": 1, "method": "tools/list"}
    accept = {"Accept": "application/json, text/event-stream"}
    with over_port(service) as at:
        assert httpx.post(at, json=message, headers=accept | headers).status_code == status


@pytest.mark.slow
def test_the_tools_need_no_other_extra() -> None:
    """Its own has FastAPI, for what pages and tools share, and no client of Prometheus."""
    code = "import sys; sys.modules['prometheus_client'] = None; import kbforge_serve.mcp"
    done = python("-c", f"{code}; import kbforge_serve.server")
    assert done.code == 0, done.err
