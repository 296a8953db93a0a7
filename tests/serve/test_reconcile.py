"""The reconciliation service: its answers against the 0.2 schemas, and against what is right.

The group's own schemas and examples are read from the folder that KBFORGE_RECONCILIATION_SPECS
names: a copy of the repository reconciliation-api/specs. Without it, the shapes are checked here.
"""

from __future__ import annotations

import json
import os
from functools import cache
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from starlette.testclient import TestClient

from kbforge.contracts import Fragment
from kbforge.fit.choices import RunOptions
from kbforge.jobs.update import add_fragments
from kbforge_serve.app import application
from kbforge_serve.reconcile import BATCH, CERTAIN
from kbforge_serve.security import Access
from kbforge_serve.service import Service
from kbforge_serve.tokens import Token

SPECS = os.environ.get("KBFORGE_RECONCILIATION_SPECS")
KINDS = {
    "data-extension-property-proposal": "data-extension-property-proposal",
    "data-extension-query": "data-extension-query",
    "data-extension-response": "data-extension-response",
    "manifest": "manifest",
    "reconciliation-query-batch": "reconciliation-query-batch",
    "reconciliation-result-batch": "reconciliation-result-batch",
    "suggest-entities-response": "suggest-entities-response",
    "suggest-properties-response": "suggest-properties-response",
    "suggest-types-response": "suggest-types-response",
}
"""By folder of examples, the schema."""
_SWAGGER = "http://swagger.io/v2/schema.json"


@cache
def _validator(kind: str) -> Any:
    jsonschema = pytest.importorskip("jsonschema")
    referencing = pytest.importorskip("referencing")
    folder = Path(SPECS or "") / "0.2" / "schemas"
    resources = []
    for path in folder.glob("*.json"):
        content = json.loads(path.read_text())
        resource = referencing.jsonschema.DRAFT7.create_resource(content)
        resources.append((content.get("$id", path.name), resource))
        resources.append(
            (f"https://reconciliation-api.github.io/specs/0.2/schemas/{path.name}", resource)
        )
        if path.name == "openapi.json":
            resources.append((_SWAGGER, referencing.jsonschema.DRAFT4.create_resource(content)))
    registry = referencing.Registry().with_resources(resources)
    schema = json.loads((folder / f"{kind}.json").read_text())
    return jsonschema.Draft7Validator(schema, registry=registry)


def _check(kind: str, answer: Any) -> None:
    """Require an answer to be as the group's schema says, where there is a copy of it."""
    if SPECS:
        _validator(kind).validate(answer)


def _examples() -> list[Any]:
    if not SPECS:
        return []
    root = Path(SPECS) / "0.2" / "examples"
    return [
        pytest.param(KINDS[folder.name], path, says, id=f"{folder.name}-{path.stem}")
        for folder in sorted(root.iterdir())
        if folder.name in KINDS
        for says in ("valid", "invalid")
        for path in sorted((folder / says).glob("*.json"))
    ]


needs_specs = pytest.mark.skipif(not SPECS, reason="KBFORGE_RECONCILIATION_SPECS is not set")


@needs_specs
@pytest.mark.parametrize(("kind", "path", "says"), _examples())
def test_the_schemas_tell_their_examples_apart(kind, path, says):
    assert _validator(kind).is_valid(json.loads(path.read_text())) is (says == "valid")


@needs_specs
@pytest.mark.parametrize(
    ("kind", "path", "says"),
    [
        one
        for one in _examples()
        if one.values[0] in ("reconciliation-query-batch", "data-extension-query")
    ],
)
def test_the_service_takes_valid_questions_and_refuses_others(client, kind, path, says):
    field = "queries" if kind == "reconciliation-query-batch" else "extend"
    answer = client.post("/reconcile", data={field: path.read_text()})
    assert answer.status_code == (200 if says == "valid" else 400), answer.text
    if says == "valid":
        _check(
            kind.replace("query-batch", "result-batch").replace("query", "response"), answer.json()
        )


def ask(client: TestClient, **queries: Any) -> Any:
    """The answers to queries, sent as OpenRefine sends them."""
    answer = client.post(
        "/reconcile",
        data={"queries": json.dumps(queries)},
        headers={"Origin": "http://127.0.0.1:3333", "Sec-Fetch-Site": "cross-site"},
    )
    assert answer.status_code == 200, answer.text
    assert answer.headers["access-control-allow-origin"] == "http://127.0.0.1:3333"
    _check("reconciliation-result-batch", answer.json())
    return {key: of["result"] for key, of in answer.json().items()}


@pytest.fixture
def whole(people_of_store: list[Fragment]) -> Fragment:
    """A fragment with all attributes."""
    return next(f for f in people_of_store if len(f.properties) == 3)


def _holder(client: TestClient, fragment: Fragment) -> str:
    found = client.get("/fragment.json", params={"id": fragment.id}).json()
    return found["entity"]["id"]


def test_the_manifest_names_all_services(client):
    answer = client.get("/reconcile")
    manifest = answer.json()
    _check("manifest", manifest)
    assert manifest["versions"] == ["0.2"]
    assert manifest["batchSize"] == BATCH
    assert "{{id}}" in manifest["view"]["url"]
    assert "{{id}}" in manifest["preview"]["url"]
    assert set(manifest["suggest"]) == {"entity", "property", "type"}


def test_every_address_of_the_manifest_answers(client, whole):
    manifest = client.get("/reconcile").json()
    entity = _holder(client, whole)
    for service in manifest["suggest"].values():
        address = service["service_url"] + service["service_path"]
        assert client.get(address, params={"prefix": "a"}).status_code == 200
    proposed = manifest["extend"]["propose_properties"]
    assert client.get(proposed["service_url"] + proposed["service_path"]).status_code == 200
    for kind in ("view", "preview"):
        address = manifest[kind]["url"].replace("{{id}}", entity)
        assert client.get(address).status_code == 200, address


def test_a_name_with_its_other_values_is_matched(client, whole):
    query = {
        "query": whole.names[0],
        "properties": [
            {"pid": name, "v": list(values)}
            for name, values in whole.properties.items()
            if name != "name"
        ],
    }
    (first, *_) = ask(client, q0=query)["q0"]
    assert first["id"] == _holder(client, whole)
    assert first["score"] > 90
    features = {one["id"]: one["value"] for one in first["features"]}
    assert first["match"] is (features["probability"] >= CERTAIN)
    assert {"prior", "attribute:name", "attribute:born", "attribute:town"} <= features.keys()
    # more evidence is a higher score
    (less, *_) = ask(client, q0={"query": whole.names[0]})["q0"]
    assert less["score"] <= first["score"]


def test_scores_are_probabilities_and_only_the_first_is_a_match(client, people_of_store):
    for fragment in people_of_store[:20]:
        if not fragment.names:
            continue
        found = ask(client, q0={"query": fragment.names[0], "limit": 50})["q0"]
        assert sum(one["score"] for one in found) <= 100 + 1e-9
        assert [one["score"] for one in found] == sorted(
            (one["score"] for one in found), reverse=True
        )
        assert not any(one["match"] for one in found[1:])
        assert len({one["id"] for one in found}) == len(found)


def test_an_unknown_name_has_no_match(client):
    found = ask(client, q0={"query": "Zyzzyva Quetzalcoatl"})["q0"]
    assert not any(one["match"] for one in found)


def test_the_id_of_an_entity_is_that_entity(client, whole):
    entity = _holder(client, whole)
    (only,) = ask(client, q0={"query": entity})["q0"]
    assert (only["id"], only["score"], only["match"]) == (entity, 100.0, True)


def test_a_batch_has_an_answer_for_each_key_and_limits_hold(client, people_of_store):
    names = [f.names[0] for f in people_of_store if f.names][:5]
    found = ask(client, **{f"k {n}": {"query": name, "limit": 2} for n, name in enumerate(names)})
    assert list(found) == [f"k {n}" for n in range(5)]
    assert all(len(one) <= 2 for one in found.values())


@pytest.mark.parametrize(
    ("given", "some"),
    [
        ({"type": "entity", "type_strict": "all"}, True),
        ({"type": ["entity", "Q5"], "type_strict": "any"}, True),
        ({"type": ["entity", "Q5"], "type_strict": "all"}, False),
        ({"type": "Q5", "type_strict": "any"}, False),
        ({"type": "Q5", "type_strict": "should"}, True),
        ({"type": "Q5"}, True),
    ],
)
def test_types_that_entities_cannot_have_find_nothing(client, whole, given, some):
    assert bool(ask(client, q0={"query": whole.names[0], **given})["q0"]) is some


@pytest.mark.parametrize(
    "value", ["Lublin", ["a", "b"], 1971, 3.5, True, {"id": "x"}, [{"id": "x", "name": "y"}, 2]]
)
def test_values_of_all_kinds_are_taken(client, value):
    properties = [{"pid": "town", "v": value}, {"pid": "no such", "v": value}]
    ask(client, q0={"query": "x", "properties": properties}, q1={"properties": properties})


@pytest.mark.parametrize(
    "queries",
    [
        "",
        "no json",
        "[]",
        "{",
        '{"q0": {}}',
        '{"q0": {"query": ""}}',
        '{"q0": {"properties": []}}',
        '{"q0": {"query": "x", "limit": 0}}',
        '{"q0": {"query": "x", "limit": "many"}}',
        '{"q0": {"query": "x", "strange": 1}}',
        '{"q0": {"query": "x", "type_strict": "perhaps"}}',
        '{"q0": {"properties": [{"pid": "town"}]}}',
        '{"q0": {"query": "x\\u0000y"}}',
        '{"q0": {"query": "' + "x" * 2000 + '"}}',
        "[" * 20_000,
        '{"q0": {"query": "x", "properties": ' + "[" * 20_000,
    ],
)
def test_a_question_that_is_none_is_a_sentence(client, queries):
    for answer in (
        client.post("/reconcile", data={"queries": queries}),
        client.post("/reconcile", data={"extend": queries}),
    ):
        assert answer.status_code == 400
        assert answer.json()["error"]
        assert "Traceback" not in answer.text


def test_a_query_that_is_none_fails_alone(client, whole):
    good = {"query": whole.names[0]}
    bad = [{"query": ""}, {}, "x", {**good, "limit": "many"}, {"properties": [{"pid": "town"}]}]
    queries = {"q0": good, **{f"bad{n}": one for n, one in enumerate(bad)}, "q1": good}
    answer = client.post("/reconcile", data={"queries": json.dumps(queries)})
    assert answer.status_code == 200
    _check("reconciliation-result-batch", answer.json())
    answers = answer.json()
    assert list(answers) == list(queries)
    assert answers["q0"] == answers["q1"]
    assert answers["q0"]["result"]
    for n in range(len(bad)):
        failed = answers[f"bad{n}"]
        assert failed["result"] == []
        assert f'query "bad{n}"' in failed["error"]
        assert "expected" in failed["error"]
        assert not set("`$") & set(failed["error"])
    assert "expected a string of 1 to 1,000 characters" in answers["bad0"]["error"]


def test_a_batch_that_is_too_large_is_refused(client):
    queries = {f"q{n}": {"query": "x"} for n in range(BATCH + 1)}
    answer = client.post("/reconcile", data={"queries": json.dumps(queries)})
    assert answer.status_code == 413


@given(
    st.dictionaries(
        st.text(max_size=5),
        st.recursive(
            st.none()
            | st.booleans()
            | st.floats(allow_nan=False, allow_infinity=False)
            | st.text(max_size=8),
            lambda inner: (
                st.lists(inner, max_size=3)
                | st.dictionaries(
                    st.sampled_from(
                        ["query", "type", "limit", "properties", "pid", "v", "type_strict", "id"]
                    ),
                    inner,
                    max_size=4,
                )
            ),
            max_leaves=12,
        ),
        max_size=3,
    )
)
def test_no_question_is_an_error_of_the_server(shared, asked):
    for field in ("queries", "extend"):
        answer = shared.post("/reconcile", data={field: json.dumps(asked)})
        assert answer.status_code in (200, 400)


@pytest.fixture(scope="module")
def shared(made_store):
    app = application(Service(str(made_store)))
    with TestClient(app, "http://localhost", raise_server_exceptions=False) as made:
        yield made


def test_queries_can_be_in_the_address(client, whole):
    queries = json.dumps({"q0": {"query": whole.names[0]}})
    by_get = client.get("/reconcile", params={"queries": queries}).json()
    for path in ("/reconcile", "/reconcile/"):
        answer = client.post(path, data={"queries": queries}, follow_redirects=False)
        assert answer.json() == by_get


def test_suggestions_begin_as_typed(client, whole):
    entity = _holder(client, whole)
    for prefix in (whole.names[0][:4], whole.names[0], entity, entity[:8]):
        answer = client.get("/reconcile/suggest/entity", params={"prefix": prefix}).json()
        _check("suggest-entities-response", answer)
        assert entity in [one["id"] for one in answer["result"]], prefix
    answer = client.get("/reconcile/suggest/property", params={"prefix": "bo"}).json()
    _check("suggest-properties-response", answer)
    assert answer == {"result": [{"id": "born", "name": "born"}]}
    answer = client.get("/reconcile/suggest/type", params={"prefix": "ent"}).json()
    _check("suggest-types-response", answer)
    assert answer == {"result": [{"id": "entity", "name": "Entity"}]}


def test_a_cursor_skips_suggestions(client):
    first = client.get("/reconcile/suggest/entity", params={"prefix": "a"}).json()["result"]
    rest = client.get("/reconcile/suggest/entity", params={"prefix": "a", "cursor": 1}).json()[
        "result"
    ]
    assert rest[: len(first) - 1] == first[1:]
    assert (
        client.get("/reconcile/suggest/entity", params={"prefix": "a", "cursor": "x"}).status_code
        == 422
    )


def test_an_extension_has_golden_values(client):
    """The default is that of an export of golden records; all others follow."""
    lines = client.get("/api/export?format=jsonl&policy=fused").text.splitlines()
    records = [json.loads(line) for line in lines]
    entities = {one["id"]: one for one in records}
    asked = {"ids": [*entities], "properties": [{"id": name} for name in ("born", "town")]}
    rows = client.post("/reconcile", data={"extend": json.dumps(asked)}).json()["rows"]
    assert rows.keys() == entities.keys()
    for id, row in rows.items():
        stated = entities[id]["properties"]
        golden = {name: [{"str": v["value"]} for v in of] for name, of in stated.items()}
        assert row == {name: golden.get(name, [{}]) for name in row}
    whole = client.get("/api/export?format=jsonl").text.splitlines()
    first = {one["id"]: one["properties"] for one in map(json.loads, whole)}
    assert any(
        row[name] not in ([{}], [{"str": first[id][name][0]["value"]}])
        for id, row in rows.items()
        for name in row
        if name in first[id]
    )


def test_an_extension_has_all_values_by_count(client, whole):
    entity = _holder(client, whole)
    facts = client.get(f"/entity/{entity}.json").json()
    born = {"id": "born", "settings": {"limit": 0}}
    asked = {"ids": [entity, "nobody"], "properties": [born, {"id": "no such"}]}
    for answer in (
        client.post("/reconcile", data={"extend": json.dumps(asked)}).json(),
        client.get("/reconcile", params={"extend": json.dumps(asked)}).json(),
    ):
        _check("data-extension-response", answer)
        assert answer["meta"] == [
            {"id": "born", "name": "born"},
            {"id": "no such", "name": "no such"},
        ]
        born = [{"str": one["value"]} for one in facts["properties"]["born"]]
        assert answer["rows"] == {
            entity: {"born": born, "no such": [{}]},
            "nobody": {"born": [{}], "no such": [{}]},
        }


def test_an_extension_keeps_to_its_limit(client, whole):
    entity = _holder(client, whole)
    for limit, status in ((1, 200), ("1", 200), (0, 200), (None, 200), ("all", 400)):
        asked = {"ids": [entity], "properties": [{"id": "name", "settings": {"limit": limit}}]}
        answer = client.post("/reconcile", data={"extend": json.dumps(asked)})
        assert answer.status_code == status
        if limit in (1, "1"):
            assert len(answer.json()["rows"][entity]["name"]) == 1


def test_attributes_are_proposed(client):
    answer = client.get("/reconcile/properties", params={"type": "entity", "limit": 2}).json()
    _check("data-extension-property-proposal", answer)
    assert answer["type"] == "entity"
    assert answer["properties"][0]["id"] == "name"
    assert len(answer["properties"]) == 2


def test_a_preview_may_be_framed_and_nothing_else(client, whole):
    entity = _holder(client, whole)
    preview = client.get("/reconcile/preview", params={"id": entity})
    allowed = preview.headers["content-security-policy"].partition("frame-ancestors ")[2]
    assert "http://127.0.0.1:*" in allowed
    assert "*" not in allowed.split()
    assert "script-src" not in preview.headers["content-security-policy"]
    assert (
        "frame-ancestors 'none'"
        in client.get(f"/entity/{entity}").headers["content-security-policy"]
    )
    assert client.get("/reconcile/preview", params={"id": "nobody"}).status_code == 404


def test_a_preview_shows_hostile_values_as_text(store):
    said = "<script>alert(1)</script><img src=x onerror=alert(1)>\"'‮"
    add_fragments(str(store), [Fragment("evil", {"name": (said,), "town": (said,)})], RunOptions())
    with TestClient(application(Service(str(store))), "http://localhost") as client:
        entity = _holder(client, Fragment("evil", {}))
        page = client.get("/reconcile/preview", params={"id": entity}).text
    assert "<script" not in page
    assert "<img" not in page
    assert "‮" not in page


def test_former_entities_lead_on(client, store, people_of_store):
    first, second = people_of_store[0], people_of_store[1]
    former = _holder(client, second)
    if former == _holder(client, first):
        pytest.skip("they are one entity")
    from kbforge.contracts import Decision
    from kbforge.jobs.decide import decide

    decide(str(store), [Decision(True, first.id, second.id)])
    now = _holder(client, first)
    gone = former if former != now else None
    if gone is None:
        pytest.skip("its id was kept")
    asked = {"ids": [gone], "properties": [{"id": "name"}]}
    answer = client.post("/reconcile", data={"extend": json.dumps(asked)}).json()
    assert answer["rows"][gone]["name"] != [{}]
    assert client.get("/reconcile/preview", params={"id": gone}).status_code == 200


def test_pages_of_other_origins_may_ask_here_alone(store):
    site = "https://example.org"
    origin = {"Origin": site, "Sec-Fetch-Site": "cross-site"}
    app = application(Service(str(store)), Access(origins=(site,)))
    with TestClient(app, "http://localhost") as client:
        preflight = client.options(
            "/reconcile", headers={**origin, "Access-Control-Request-Method": "POST"}
        )
        assert preflight.status_code == 204
        assert preflight.headers["access-control-allow-origin"] == origin["Origin"]
        assert "access-control-allow-credentials" not in preflight.headers
        for path in ("/", "/api/status", "/search?q=a", "/reconcilex"):
            answer = client.get(path, headers=origin)
            assert "access-control-allow-origin" not in answer.headers
        assert client.post("/reconcilex", headers=origin).status_code == 403


def test_a_token_is_needed_here_too(store):
    app = application(Service(str(store)), Access("0.0.0.0", [Token("t" * 20)]))
    with TestClient(app, "http://kb.example.org") as client:
        refused = client.get("/reconcile", headers={"Origin": "http://127.0.0.1:3333"})
        assert refused.status_code == 401
        assert refused.headers["access-control-allow-origin"] == "http://127.0.0.1:3333"
        assert client.options("/reconcile").status_code == 204
        told = client.get("/reconcile", headers={"Authorization": f"Bearer {'t' * 20}"})
        assert told.json()["view"]["url"] == "http://kb.example.org/entity/{{id}}"


FIRSTS = ("Greta", "Gruffudd", "Gwenllian", "Rhian", "Owain", "Carys", "Idris")
LASTS = ("Mbarekwa", "Pryce", "Llewellyn", "Okafor", "Davies", "Grenta", "Morgan")


@pytest.mark.parametrize("parted", [False, True])
def test_entities_of_a_first_name_come_before_others(tmp_path, parted):
    pairs = [(first, last) for first in FIRSTS for last in LASTS]
    born = [f"19{40 + n % 50}-0{1 + n % 9}-1{n % 10}" for n in range(len(pairs))]
    names = [
        {"first_name": (first,), "surname": (last,)} if parted else {"name": (f"{first} {last}",)}
        for first, last in pairs
    ]
    named = [Fragment(f"{n}", {**name, "born": (born[n],)}) for n, name in enumerate(names)]
    path = tmp_path / "named.sqlite"
    add_fragments(str(path), named, RunOptions(likelihood="pairs"))
    with TestClient(application(Service(str(path))), "http://localhost") as client:
        asked = {first: {"query": first, "limit": 12} for first in FIRSTS}
        answers = client.post("/reconcile", data={"queries": json.dumps(asked)}).json()
    for first, answer in answers.items():
        bears = [first in one["name"].split() for one in answer["result"]]
        assert sum(bears) == len(LASTS), (first, answer["result"])
        assert bears == sorted(bears, reverse=True), (first, answer["result"])
