"""The API: its answers are what its document says, and what it writes is in the store."""

from __future__ import annotations

import contextlib
import itertools
import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import msgspec
import orjson
import pytest
from starlette.testclient import TestClient

from kbforge.contracts import Fragment
from kbforge.errors import BusyError, NotFoundError
from kbforge.files.fragments import to_line
from kbforge.jobs.explain import Comparison
from kbforge.jobs.match import Match
from kbforge.kb.view import RULES
from kbforge.store.changes import Changes
from kbforge.store.database import Database
from kbforge.store.store import Store
from kbforge_serve import api, export, facts, feed, reasons, schemas
from kbforge_serve.answers import EntityReference, as_json
from kbforge_serve.api import fragments_of
from kbforge_serve.app import application
from kbforge_serve.decisions import Decisions
from kbforge_serve.listing import Listing
from kbforge_serve.questions import Answered, NextQuestion, TakenBack
from kbforge_serve.search import SearchResults
from kbforge_serve.security import Access
from kbforge_serve.service import Service
from kbforge_serve.tokens import Token
from kbforge_serve.writer import Added, Decided, Undone
from tests.program import Run

NEW: dict[str, Any] = {"id": "new/1?&#", "properties": {"name": ["Olga Newman"]}}


def required(model: Any, content: bytes) -> Any:
    """An answer, if it has the keys and values of its type, and no others."""
    answer = orjson.loads(content)
    assert orjson.loads(as_json(msgspec.json.decode(content, type=model))) == answer
    return answer


def said(client: TestClient, path: str, model: Any, **asked: Any) -> Any:
    """An answer, which has the keys and values of its model."""
    answer = client.get(path, **asked)
    assert answer.status_code == 200, answer.text
    return required(model, answer.content)


def posted(client: TestClient, path: str, model: Any, **sent: Any) -> Any:
    answer = client.post(path, **sent)
    assert answer.status_code == 200, answer.text
    return required(model, answer.content)


def in_store(store: Path, id: str) -> Fragment | None:
    with Database(str(store)) as database, contextlib.suppress(NotFoundError):
        return Store(database).fragment(id)[1]
    return None


# --- what reads -----------------------------------------------------------------------------------


def test_the_answers_are_what_the_document_says(
    client: TestClient, people_of_store: list[Fragment]
) -> None:
    some = people_of_store[0].id
    status = said(client, "/api/status", facts.ServedStatus)
    assert status["fragments"] == len(people_of_store)
    listed = said(client, "/api/entities?order=least_sure&limit=5", Listing)
    assert len(listed["entities"]) == 5
    for one in listed["entities"]:
        entity = said(client, f"/api/entities/{one['id']}", facts.EntityDetails)
        assert one.pop("values") == {}
        assert one.items() <= entity.items()
    found = said(client, "/api/fragment", facts.FoundFragment, params={"id": some})
    assert found["fragment"]["id"] == some
    assert "label" not in found["fragment"]
    similar = said(client, "/api/similar", facts.SimilarFragments, params={"fragment": some})
    assert similar["entity"] == found["entity"]
    block = said(client, f"/api/subproblems/{found['subproblem']}", facts.SubproblemDetails)
    assert some in block["fragments"]
    name = people_of_store[0].names[0]
    results = said(client, "/api/search", SearchResults, params={"q": name})
    assert found["entity"]["id"] in [one["id"] for one in results["results"]]
    runs = said(client, "/api/runs", api.Runs)
    assert runs == {"runs": status["runs"], "next": None}


@pytest.mark.parametrize(
    ("path", "status"),
    [
        ("/api/entities/0123", 404),
        ("/api/fragment?id=nobody", 404),
        ("/api/similar?fragment=nobody", 404),
        ("/api/subproblems/999999", 404),
        ("/api/subproblems/9223372036854775807", 404),
        ("/api/subproblems/99999999999999999999", 422),
        ("/api/subproblems/x", 422),
        ("/api/fragment", 422),
        ("/api/fragment?id=", 422),
        ("/api/entities?order=best", 422),
        ("/api/search?q=x&cursor=x", 400),
        ("/api/changes?since=99", 400),
        ("/api/changes?since=1&to=0", 400),
        ("/api/changes/stream?since=99", 400),
        ("/api/export?format=neo4j", 400),
        ("/api/export?policy=/etc/passwd", 400),
        ("/api/nowhere", 404),
    ],
)
def test_what_cannot_be_answered_is_said(client: TestClient, path: str, status: int) -> None:
    answer = client.get(path)
    assert answer.status_code == status
    failure = schemas.Failure.model_validate_json(answer.content, strict=True)
    assert failure.status == status
    assert failure.error
    assert "\n" not in failure.error


def test_another_method_is_refused(client: TestClient) -> None:
    assert client.delete("/api/status").json()["status"] == 405


def test_the_reasons_are_what_the_document_says(
    client: TestClient, people_of_store: list[Fragment]
) -> None:
    some = people_of_store[0]
    why = said(client, "/api/why", reasons.Why, params={"fragment": some.id})
    assert why["fragment"]["id"] == some.id
    sent = {"properties": {name: list(values) for name, values in some.properties.items()}}
    match = posted(client, "/api/match?most=3", Match[EntityReference], json=sent)
    assert match["candidates"][0]["entity"] == why["own"]["entity"]
    one, two = client.get("/api/entities?limit=2").json()["entities"]
    assert one.pop("values") == two.pop("values") == {}
    asked = {"first": one["id"], "second": two["id"]}
    compared = said(client, "/api/compare", Comparison[EntityReference], params=asked)
    assert (compared["first"], compared["second"]) == (one, two)
    assert client.get("/api/compare", params={**asked, "second": one["id"]}).status_code == 400
    assert client.get("/api/why?fragment=nobody").status_code == 404
    for body in (b"", b"[]", b'{"properties": {}}', b'{"properties": {"name": "x"}}'):
        assert client.post("/api/match", content=body).status_code == 400


# --- adding fragments -----------------------------------------------------------------------------


def test_records_of_strange_columns_are_refused_until_map_names_them(
    client: TestClient, store: Path
) -> None:
    many = [{"id": f"s{n}", "properties": {"Nombre": [f"Juan {n}"]}} for n in range(3)]
    refused = client.post("/api/fragments", json=many)
    assert refused.status_code == 422
    said = schemas.Failure.model_validate_json(refused.content, strict=True).error
    assert said.startswith("most values of the new records, 3 of 3, are of attributes that the ")
    assert said.endswith("; map COLUMN=COLUMN adds a new one")
    assert in_store(store, "s0") is None
    other = client.post("/api/fragments", params={"map": "Calle=town"}, json=many)
    assert other.status_code == 422
    as_name = {"params": {"map": "Nombre=name"}, "json": many[:1]}
    assert posted(client, "/api/fragments", Added, **as_name)["added"] == 1
    assert in_store(store, "s0") == Fragment("s0", {"name": ("Juan 0",)})
    taken = {"params": {"map": "Nombre=Nombre"}, "json": many[1:]}
    assert posted(client, "/api/fragments", Added, **taken)["added"] == 2
    assert in_store(store, "s1") == Fragment("s1", {"Nombre": ("Juan 1",)})


def test_one_fragment_is_added_and_stays(client: TestClient, store: Path) -> None:
    added = posted(client, "/api/fragments", Added, json=NEW)
    assert (added["added"], added["skipped"]) == (1, 0)
    found = in_store(store, str(NEW["id"]))
    assert found is not None
    assert found.to_json() == NEW
    again = posted(client, "/api/fragments", Added, json=NEW)
    assert (again["added"], again["skipped"]) == (0, 1)
    assert again["fragments"] == added["fragments"]
    read = said(client, "/api/fragment", facts.FoundFragment, params={"id": NEW["id"]})
    assert read["fragment"] == NEW


def test_json_lines_are_added(client: TestClient) -> None:
    some = [{"id": f"new-{n}", "properties": {"name": [f"Olga {n}"]}} for n in range(20)]
    body = b"\r\n\n".join(orjson.dumps(one) for one in some)
    headers = {"content-type": "application/x-ndjson; charset=utf-8"}
    added = posted(client, "/api/fragments", Added, content=body, headers=headers)
    assert added["added"] == 20
    added = posted(client, "/api/fragments", Added, json=some)
    assert added["skipped"] == 20


def test_a_body_is_added_whole_or_not_at_all(client: TestClient, store: Path) -> None:
    lines = orjson.dumps(NEW) + b'\n{"id": "bad"}\n'
    headers = {"content-type": "application/x-ndjson"}
    refused = client.post("/api/fragments", content=lines, headers=headers)
    assert refused.status_code == 400
    assert refused.json()["error"].startswith("line 2")
    assert in_store(store, str(NEW["id"])) is None


def test_other_content_under_an_id_is_refused_or_replaces(client: TestClient) -> None:
    posted(client, "/api/fragments", Added, json=NEW)
    other = {**NEW, "properties": {"name": ["Olga Neumann"]}}
    refused = client.post("/api/fragments", json=other)
    assert refused.status_code == 409
    added = posted(client, "/api/fragments?on_duplicate=replace", Added, json=other)
    assert added["replaced"] == 1


@pytest.mark.parametrize(
    "body",
    [
        *(b"", b"[]", b"{", b"null", b"1", b'"x"', b"[[]]", b"\xff", b"{}"),
        b'{"id": "a\\u0000", "properties": {"x": ["y"]}}',
        b'{"id": "\\ud800", "properties": {"x": ["y"]}}',
        b'{"id": "a", "id": "b", "properties": {"x": ["y"]}}',
        b'{"id": "a", "properties": {"x": ["y"]}, "entity": 1}',
        b'{"id": "a", "vector": [1e999]}',
        b"[" * 5000,
    ],
)
def test_what_is_no_fragment_is_refused(client: TestClient, body: bytes) -> None:
    for media in ("application/json", "application/x-ndjson"):
        headers = {"content-type": media}
        refused = client.post("/api/fragments", content=body, headers=headers)
        assert refused.status_code == 400, refused.text
        assert "\n" not in refused.json()["error"]


def test_a_batch_is_bounded() -> None:
    line = to_line(Fragment("a", {"name": ("b",)}))
    assert len(fragments_of(line * 10_000, "application/x-ndjson")) == 10_000
    with pytest.raises(Exception, match="from 1 to 10,000"):
        fragments_of(line * 10_001, "application/x-ndjson")


def test_when_too_much_waits_a_client_comes_again_later(store: Path) -> None:
    service = Service(str(store))
    with (
        TestClient(application(service), "http://localhost") as client,
        Database(str(store), write=True),
    ):
        one = Fragment("one", {"name": ("Olga Newman",)})
        first = service.writer.add([one])
        while not first.running():  # it waits for the lock now
            pass
        with pytest.raises(BusyError):
            list(map(service.writer.add, itertools.repeat([one])))
        decision = {"same": True, "first": "a", "second": "b"}
        for path, sent in (("fragments", NEW), ("decisions", decision)):
            refused = client.post(f"/api/{path}", json=sent)
            assert refused.status_code == 503
            assert int(refused.headers["retry-after"]) >= 1
            schemas.Failure.model_validate_json(refused.content, strict=True)


def test_followers_are_bounded(service: Service) -> None:
    client = TestClient(application(service), "http://localhost")
    with contextlib.ExitStack() as places:
        for _ in range(feed.MOST_FOLLOWING):
            places.enter_context(service.feed.place())
        for path in ("/api/changes?since=1&wait=60", "/api/changes/stream"):
            refused = client.get(path)
            assert refused.status_code == 503
            assert int(refused.headers["retry-after"]) > 0


# --- decisions and reviews ------------------------------------------------------------------------


def two_of_one(client: TestClient) -> tuple[str, str]:
    """Two fragments of the largest entity."""
    (largest,) = client.get("/api/entities?limit=1").json()["entities"]
    held = client.get(f"/api/entities/{largest['id']}").json()["fragments"]
    return held[0]["fragment"]["id"], held[1]["fragment"]["id"]


def test_a_decision_holds_until_it_is_taken_back(client: TestClient) -> None:
    first, second = two_of_one(client)
    before = said(client, "/api/similar", facts.SimilarFragments, params={"fragment": first})
    sent = {"same": False, "first": first, "second": second}
    decided = posted(client, "/api/decisions", Decided, json=sent)
    assert (decided["decision"], decided["already"]) == (1, False)
    assert posted(client, "/api/decisions", Decided, json=sent)["already"]
    homes = [
        said(client, "/api/fragment", facts.FoundFragment, params={"id": id})["entity"]["id"]
        for id in (first, second)
    ]
    assert homes[0] != homes[1]

    contradicts = client.post("/api/decisions", json={**sent, "same": True})
    assert contradicts.status_code == 409
    assert "decision 1" in contradicts.json()["error"]

    listed = said(client, "/api/decisions", Decisions)["decisions"]
    assert [one["number"] for one in listed] == [1]
    undone = posted(client, "/api/decisions/1/undo", Undone)
    assert (undone["exact"], undone["already"]) == (True, False)
    assert posted(client, "/api/decisions/1/undo", Undone)["already"]
    after = said(client, "/api/similar", facts.SimilarFragments, params={"fragment": first})
    assert after == before


@pytest.mark.parametrize(
    ("sent", "status"),
    [
        ({"same": True, "first": "nobody", "second": "nobody else"}, 404),
        ({"same": True, "first": "x", "second": "x"}, 400),
        ({"same": "yes", "first": "x", "second": "y"}, 422),
        ({"same": 1, "first": "x", "second": "y"}, 422),
        ({"same": True, "first": "x"}, 422),
        ({"same": True, "first": "x", "second": "y", "third": "z"}, 422),
        ([], 422),
    ],
)
def test_what_is_no_decision_is_refused(client: TestClient, sent: object, status: int) -> None:
    refused = client.post("/api/decisions", json=sent)
    assert refused.status_code == status, refused.text
    schemas.Failure.model_validate_json(refused.content, strict=True)


def test_there_is_no_such_decision(client: TestClient) -> None:
    for number in (0, 7, 2**63 - 1):
        assert client.post(f"/api/decisions/{number}/undo").status_code == 404


def test_fragments_are_removed_and_erased(client: TestClient, store: Path) -> None:
    secret = "Wolfeschlegelsteinhausen"
    given = [{"id": f"new{at}", "properties": {"name": [secret]}} for at in range(3)]
    assert client.post("/api/fragments", json=given).json()["added"] == 3
    assert client.get("/api/search", params={"q": secret}).json()["results"]
    gone = client.delete("/api/fragments", params={"id": ["new0", "new1"]}).json()
    assert (gone["removed"], gone["already"]) == (2, False)
    assert client.get("/api/fragment?id=new0").status_code == 404
    again = client.delete("/api/fragments?id=new0").json()
    assert (again["removed"], again["already"]) == (0, True)
    there = client.delete("/api/fragments?id=new2&id=never")
    assert there.status_code == 404
    assert client.get("/api/fragment?id=new2").status_code == 200
    ids = {"id": [one["id"] for one in given], "secure": True}
    assert client.delete("/api/fragments", params=ids).json()["removed"] == 1
    assert not client.get("/api/search", params={"q": secret}).json()["results"]
    for path in store.parent.glob("kb.sqlite*"):
        assert secret.lower().encode() not in path.read_bytes().lower(), path


@pytest.mark.parametrize("asked", ["", "?id=", "?id=" + "&id=".join("x" * 1001), "?secure=true"])
def test_removing_needs_ids(client: TestClient, asked: str) -> None:
    assert client.delete(f"/api/fragments{asked}").status_code == 422


def test_a_review_asks_hears_and_takes_back(client: TestClient) -> None:
    asked = said(client, "/api/review", NextQuestion)["question"]
    assert asked is not None
    sent = {"first": asked["first"], "second": asked["second"], "same": True}
    answered = posted(client, "/api/review", Answered, json=sent)
    assert answered["decision"] == 1
    back = posted(client, "/api/review/undo", TakenBack)
    assert back["undone"]["decision"] == 1
    again = said(client, "/api/review", NextQuestion)["question"]
    assert {again["first"], again["second"]} == {asked["first"], asked["second"]}
    skipped = posted(client, "/api/review", Answered, json={**sent, "same": None})
    assert skipped["decision"] is None
    assert posted(client, "/api/review/undo", TakenBack)["undone"]["same"] is None
    nothing = {"undone": None, "effect": None}
    assert posted(client, "/api/review/undo", TakenBack) == nothing


# --- exports --------------------------------------------------------------------------------------


def test_what_was_just_added_is_exported(client: TestClient) -> None:
    """Its confidence is not in the tables yet."""
    new = {"id": "new", "properties": {"name": ["Somebody New"]}}
    assert client.post("/api/fragments", json=new).status_code == 200
    rows = client.get("/api/export", params={"format": "members"}).text
    assert '"new"' in rows


@pytest.mark.parametrize("format_name", [name for name in export.MEDIA if name != "ftm"])
def test_an_export_streams_what_the_command_writes(
    client: TestClient, program: Run, store: Path, tmp_path: Path, format_name: str
) -> None:
    streamed = client.get("/api/export", params={"format": format_name})
    assert streamed.status_code == 200
    assert streamed.headers["content-type"] == export.MEDIA[format_name]
    file = tmp_path / export.name_of(format_name)
    program("export", store, "--format", format_name, "-o", file)
    if format_name in ("xlsx", "parquet"):  # these have the time in them
        assert streamed.content[:4] == file.read_bytes()[:4]
    else:
        assert streamed.content == file.read_bytes()


def test_golden_records_are_streamed(client: TestClient) -> None:
    for rule in RULES:
        golden = client.get("/api/export", params={"policy": rule})
        assert golden.status_code == 200
        assert golden.content.count(b"\n") == client.get("/api/status").json()["entities"]


def test_exports_are_few_at_once(client: TestClient, service: Service) -> None:
    held = [export.export(service.readers, "jsonl") for _ in range(export.MOST_AT_ONCE - 1)]
    streams: list[Iterator[bytes]] = [*held]
    try:
        for stream in streams:
            assert next(stream)
    finally:
        for stream in streams:
            stream.close()  # type: ignore[attr-defined]
    assert client.get("/api/export").status_code == 200


def test_an_export_whose_extra_is_missing_is_refused(
    client: TestClient, monkeypatch: pytest.MonkeyPatch
) -> None:
    from kbforge import registry

    monkeypatch.setattr(registry, "glance", lambda _: ("needs extra", "xlsx needs an extra"))
    refused = client.get("/api/export?format=xlsx")
    assert (refused.status_code, refused.json()["error"]) == (400, "xlsx needs an extra")


def test_an_export_that_fails_says_why(client: TestClient) -> None:
    long = Fragment("long", {"name": ("Olga " + "x" * 40_000,)})
    assert client.post("/api/fragments", content=to_line(long)).status_code == 200
    failed = client.get("/api/export?format=xlsx")
    assert failed.status_code == 500
    assert "cell" in failed.json()["error"]


# --- the change feed ------------------------------------------------------------------------------


def test_a_run_that_is_not_there_is_refused_by_the_name_of_the_parameter(
    client: TestClient,
) -> None:
    for asked, name in (("since=9", "since"), ("since=1&to=9", "to")):
        refused = client.get(f"/api/changes?{asked}")
        assert refused.status_code == 400
        assert refused.json()["error"].startswith(f"{name}: expected the number of a run")


def test_changes_follow_from_run_to_run(client: TestClient) -> None:
    every = said(client, "/api/changes?since=0", Changes)
    entities = client.get("/api/status").json()["entities"]
    assert len(every["changes"]) == entities
    assert (every["from"], every["to"], every["after"]) == (0, 1, None)
    assert said(client, "/api/changes?since=1", Changes)["changes"] == []
    first, second = two_of_one(client)
    sent = {"same": False, "first": first, "second": second}
    run = client.post("/api/decisions", json=sent).json()["run"]
    changed = said(client, "/api/changes?since=1", Changes)
    assert changed["to"] == changed["last"] == run
    assert {one["kind"] for one in changed["changes"]} == {"changed", "created"}


def test_changes_come_in_parts(client: TestClient) -> None:
    whole = client.get("/api/changes?since=0").json()["changes"]
    parts: list[Any] = []
    after: str | None = ""
    while after is not None:
        asked = {"since": 0, "to": 1, "limit": 7, "after": after}
        found = said(client, "/api/changes", Changes, params=asked)
        assert len(found["changes"]) <= 7
        parts += found["changes"]
        after = found["after"]
    assert parts == whole


def test_many_runs_come_in_parts(client: TestClient) -> None:
    for n in range(4):
        new = {"id": f"new-{n}", "properties": {"name": [f"{n} Olga Newman"]}}
        client.post("/api/fragments", json=new)
        first, second = two_of_one(client)
        client.post("/api/decisions", json={"same": False, "first": first, "second": second})
    since, kinds = 1, 0
    last = client.get("/api/changes?since=1").json()["last"]
    while since < last:
        found = said(client, f"/api/changes?since={since}&limit=1", Changes)
        assert found["to"] > since
        kinds += len(found["changes"])
        since = found["to"]
    assert since == last
    assert kinds >= 4


@pytest.mark.slow
def test_a_long_poll_ends_with_the_run(address: str) -> None:
    import threading

    import httpx

    told: list[Any] = []

    def wait() -> None:
        told.append(httpx.get(f"{address}api/changes?since=1&wait=60", timeout=90).json())

    waiting = threading.Thread(target=wait)
    waiting.start()
    httpx.post(f"{address}api/fragments", json=NEW, timeout=60).raise_for_status()
    waiting.join(90)
    assert told[0]["to"] > 1
    assert NEW["id"] in [id for one in told[0]["changes"] for id in one["after"]]
    assert httpx.get(f"{address}api/changes?since={told[0]['to']}&wait=0.1").json()["changes"] == []


def test_a_stream_tells_what_happens_and_goes_on(address: str) -> None:
    import httpx

    def next_event(lines: Iterator[str]) -> tuple[int, Any]:
        id = next(int(line[4:]) for line in lines if line.startswith("id: "))
        data = next(line[6:] for line in lines if line.startswith("data: "))
        return id, json.loads(data)

    path = f"{address}api/changes/stream"
    with httpx.stream("GET", path, timeout=90) as stream:
        assert stream.headers["content-type"].startswith("text/event-stream")
        lines = stream.iter_lines()
        assert next(lines).startswith(":")
        httpx.post(f"{address}api/fragments", json=NEW, timeout=60).raise_for_status()
        run, told = next_event(lines)
        required(Changes, orjson.dumps(told))
        assert NEW["id"] in [id for one in told["changes"] for id in one["after"]]
    with httpx.stream("GET", path, headers={"last-event-id": "1"}, timeout=90) as stream:
        assert next_event(stream.iter_lines()) == (run, told)


def test_what_waits_ends_with_the_server(address: str, service: Service) -> None:
    """The fixture stops the server while a stream is open, and joins its thread."""
    import httpx

    stream = httpx.Client().stream("GET", f"{address}api/changes/stream")
    assert stream.__enter__().status_code == 200


def test_the_document_describes_every_route(client: TestClient) -> None:
    document = client.get("/api/openapi.json").json()
    assert "idempotent" in document["info"]["description"]
    assert all(path.startswith("/api/") for path in document["paths"])
    for path, methods in document["paths"].items():
        for method, told in methods.items():
            assert told["summary"], (path, method)
            assert "4XX" in told["responses"], (path, method)
    assert {"/api/fragments", "/api/changes/stream", "/api/export"} <= document["paths"].keys()


def test_the_document_says_that_a_token_is_needed(store: Path) -> None:
    access = Access(tokens=[Token("0123456789abcdef")])
    with TestClient(application(Service(str(store)), access), "http://localhost") as client:
        sent = {"authorization": "Bearer 0123456789abcdef"}
        document = client.get("/api/openapi.json", headers=sent).json()
        assert client.get("/api/status", headers=sent).status_code == 200
    (scheme,) = document["components"]["securitySchemes"].values()
    assert (scheme["type"], scheme["scheme"]) == ("http", "bearer")
    assert document["paths"]["/api/status"]["get"]["security"]
