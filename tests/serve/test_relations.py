"""Pages of entities that name each other: links, contradictions, times and paths."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path
from typing import Any

import pytest
from mcp import Client
from starlette.testclient import TestClient

from kbforge.contracts import Entity, Fragment, Value
from kbforge.store import connections
from kbforge.store.store import StoreView
from kbforge_serve import facts
from kbforge_serve.app import application
from kbforge_serve.mcp import _shortened, server
from kbforge_serve.service import Service
from kbforge_serve.timeline import timeline
from tests.serve.linked import HOSTILE, make_linked

PAGE = {"accept": "text/html"}


@pytest.fixture(scope="module")
def base(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The store."""
    return make_linked(tmp_path_factory.mktemp("linked") / "kb.sqlite")


@pytest.fixture(scope="module")
def client(base: Path) -> Iterator[TestClient]:
    """A client of the application over the store."""
    with TestClient(application(Service(str(base))), "http://localhost") as made:
        yield made


def home(client: TestClient, fragment: str) -> str:
    """The entity of a fragment."""
    found: str = client.get("/fragment.json", params={"id": fragment}).json()["entity"]["id"]
    return found


def test_a_value_that_names_an_entity_leads_to_it(client: TestClient) -> None:
    hydro = home(client, "hydro 1")
    (value,) = client.get(f"/entity/{home(client, 'bo')}.json").json()["properties"]["employer"]
    assert [one["entity"]["name"] for one in value["meanings"]] == ["Norsk Hydro"]
    page = client.get(f"/entity/{home(client, 'bo')}", headers=PAGE).text
    assert f'<a href="/entity/{hydro}"><bdi>NORSK HYDRO</bdi></a>' in page
    assert "<small>→ <bdi>Norsk Hydro</bdi></small>" in page


def test_a_value_that_may_name_two_entities_names_both(client: TestClient) -> None:
    (value,) = client.get(f"/entity/{home(client, 'ada')}.json").json()["properties"]["employer"]
    one, other = (meant["entity"]["id"] for meant in value["meanings"])
    assert {one, other} == {home(client, "acme 1"), home(client, "acme 3")}
    page = client.get(f"/entity/{home(client, 'ada')}", headers=PAGE).text
    first, second = (f"{meant['probability'] * 100:.0f} %" for meant in value["meanings"])
    links = [f'<a href="/entity/{id}"><bdi>Acme</bdi></a>' for id in (one, other)]
    sure = f'<small class="sure">{first}</small>'
    assert f"{links[0]} {sure} <small>or perhaps {links[1]} {second}" in page


def test_an_entity_says_who_states_it(client: TestClient, monkeypatch: pytest.MonkeyPatch) -> None:
    hydro = home(client, "hydro 1")
    stating = {
        home(client, "bo"),
        home(client, "eli 1"),
        *(home(client, f"p{k}") for k in range(30)),
    }
    found = client.get(f"/entity/{hydro}.json").json()["stated_as"]
    assert (found["counts"], found["next"]) == ({"employer": 32}, None)
    named = [one["entity"]["id"] for one in found["by"]]
    assert len({*named}) == len(named) == 12
    assert {*named} < stating
    page = client.get(f"/entity/{hydro}", headers=PAGE).text
    assert "<dt>as “<bdi>employer</bdi>” by 32</dt>" in page
    assert "and 20 more" in page
    monkeypatch.setattr(facts, "MOST_STATING", 10)
    page = client.get(f"/entity/{hydro}", headers=PAGE).text
    assert "by 10 or more</dt>" in page
    listed, address = [], f"/stated/{hydro}"
    while address:
        path, _, query = address.partition("?")
        found = client.get(f"{path}.json?{query}").json()
        listed += [one["entity"]["id"] for one in found["by"]]
        page = client.get(address, headers=PAGE).text
        assert page.count('<tr><td class="name">') == len(found["by"]) <= 10
        address = page.partition('rel="next" href="')[2].partition('"')[0]
    assert len(listed) == 32
    assert {*listed} == stating
    assert "No entity here" in client.get(f"/stated/{home(client, 'p3')}", headers=PAGE).text
    for wrong in ("/stated/nobody", f"/stated/{hydro}?from=-1", f"/stated/{hydro}?from={2**63}"):
        assert client.get(wrong).status_code in (404, 422)


def test_the_api_says_who_states_an_entity_and_how_two_are_connected(
    client: TestClient, base: Path
) -> None:
    hydro, bo, ada = (home(client, one) for one in ("hydro 1", "bo", "ada"))
    told = client.get(f"/api/entities/{hydro}/stated").json()
    assert (told["counts"], told["next"], len(told["by"])) == ({"employer": 32}, None, 32)
    ends = {"first": ada, "second": hydro}
    found = client.get("/api/path", params=ends).json()
    (path,) = found["paths"]
    assert [one["id"] for one in path["entities"]] == [ada, bo, hydro]
    relations = [(step["relation"], step["fragments"]) for (step,) in path["steps"]]
    assert relations == [("knows", ["ada"]), ("employer", ["bo"])]
    for first, second in (("Ada Berg", "norsk hydro"), ("ada", "hydro 1"), ("ADA BERG", hydro)):
        params = {"first": first, "second": second}
        assert client.get("/api/path", params=params).json() == found, "by name and fragment"
    several = client.get("/api/path", params={"first": ada, "second": "Acme"})
    assert several.status_code == 400
    for acme in (home(client, "acme 1"), home(client, "acme 2")):
        assert '2 entities are called "Acme"; give the id of one: ' in several.json()["error"]
        assert acme in several.text
    for wrong, status in (
        ("entities/nobody/stated", 404),
        (f"entities/{hydro}/stated?from=-1", 422),
        (f"path?first={hydro}&second=nobody", 404),
        (f"path?first={hydro}", 422),
    ):
        assert client.get(f"/api/{wrong}").status_code == status, wrong

    async def asked() -> list[Any]:
        named = {"first": "Ada Berg", "second": "Norsk Hydro"}
        calls = (("stated_by", {"id": hydro}), ("find_path", ends), ("find_path", named))
        with closing(Service(str(base))) as service:
            async with Client(server(service)) as tools:
                return [(await tools.call_tool(*call)).structured_content for call in calls]

    assert asyncio.run(asked()) == [_shortened(one) for one in (told, found, found)]


def test_hostile_values_are_shown_as_text(client: TestClient) -> None:
    page = client.get(f"/entity/{home(client, 'cy')}", headers=PAGE).text
    assert f'<a href="/entity/{home(client, "hydro 2")}"><bdi>&lt;/bdi&gt;' in page
    assert "<script>alert" not in page


def test_sources_that_contradict_each_other_are_listed(client: TestClient) -> None:
    flo = home(client, "flo 1")
    found = client.get(f"/entity/{flo}.json").json()
    (oslo, spelling, bergen) = found["contradictions"]["town"]
    assert [*found["contradictions"]] == ["town"]
    assert (oslo["value"], oslo["taken"], oslo["sources"]) == ("Oslo", True, {"crm": 1, "till": 1})
    assert (spelling["value"], spelling["taken"]) == ("OSLO", False)
    assert (bergen["value"], bergen["taken"], bergen["sources"]) == ("Bergen", False, {HOSTILE: 1})
    assert oslo["confidence"] == spelling["confidence"] > 0.5 > bergen["confidence"]
    assert oslo["confidence"] + bergen["confidence"] <= 1
    page = client.get(f"/entity/{flo}", headers=PAGE).text
    assert '<bdi>Oslo</bdi> <b class="mark">taken</b>' in page
    assert "<bdi>OSLO</bdi> <small>another spelling</small>" in page
    assert "<script>alert" not in page
    later = client.get(f"/entity/{home(client, 'eli 1')}.json").json()
    assert later["contradictions"] == {}, "what no longer holds contradicts nothing"


def test_values_in_question_say_who_states_them_and_which_is_taken(
    client: TestClient, monkeypatch: pytest.MonkeyPatch
) -> None:
    texts, sure = ("Oslo", HOSTILE, "Bergen"), (0.25, 0.7, 0.05)
    fragments = [
        Fragment(f"f{k}", {"town": (texts[k % 3],)}, source=("crm", "till", None)[k % 3])
        for k in range(5)
    ]
    values = tuple(
        Value(text, tuple(f.id for f in fragments if text in f.properties["town"]), sure[at])
        for at, text in enumerate(texts)
    )
    plain = Value("plain", ("f0",))
    ids = tuple(f.id for f in fragments)
    entity = Entity(home(client, "ada"), "Ada", {"town": values, "name": (plain,)}, ids, 0.9, 0)
    monkeypatch.setattr(facts, "_block", lambda *_: ([entity], entity))
    monkeypatch.setattr(StoreView, "fragments", lambda *_: fragments)
    found = client.get(f"/entity/{home(client, 'ada')}.json").json()
    assert [[*claim.values()] for claim in found["contradictions"]["town"]] == [
        [HOSTILE, 0.7, True, 2, {"till": 2}, 1, None, "f1"],
        ["Oslo", 0.25, False, 2, {"crm": 2}, 1, None, "f0"],
        ["Bergen", 0.05, False, 1, {"": 1}, 1, None, "f2"],
    ]
    assert [*found["contradictions"]] == ["town"]
    page = client.get(f"/entity/{home(client, 'ada')}", headers=PAGE).text
    section = page[page.index("<h2>Contradictions</h2>") : page.index("<h2>Fragments</h2>")]
    assert section.count(">taken</b>") == section.count("<span><bdi>&lt;/bdi&gt;") == 1
    assert "&lt;/script&gt;</bdi> <b" in section, "the mark is beside the value"
    assert "2 statements: <bdi>till</bdi> × 2" in section
    assert "1 statement: no source" in section


def test_what_a_page_leaves_out_is_counted_of_all(
    client: TestClient, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Also of what the answer leaves out: it has the first 20 sources and 100 values."""
    fragments = [Fragment(f"f{k}", {"town": ("Oslo",)}, source=f"s{k}") for k in range(30)]
    ids = tuple(f.id for f in fragments)
    values = [Value("Oslo", ids, 0.9), *(Value(f"v{k}", ("f0",), 0.0) for k in range(149))]
    entity = Entity(home(client, "ada"), "Ada", {"town": tuple(values)}, ids, 0.9, 0)
    monkeypatch.setattr(facts, "_block", lambda *_: ([entity], entity))
    monkeypatch.setattr(StoreView, "fragments", lambda *_: fragments)
    page = client.get(f"/entity/{home(client, 'ada')}", headers=PAGE).text
    section = page[page.index("<h2>Contradictions</h2>") : page.index("<h2>Fragments</h2>")]
    shown = section.count("<li")
    assert f"And {150 - shown} more values." in section
    (first, *_) = section.split("</li>")
    assert f"and {30 - first.count('<bdi>s')} more" in first


def connected(client: TestClient, first: str, second: str) -> tuple[dict, str]:
    """What the page of a path says, as JSON and as HTML."""
    asked = {"first": first, "second": second}
    page = client.get("/path", params=asked, headers=PAGE)
    assert page.status_code == 200
    return client.get("/path.json", params=asked).json(), page.text


def test_a_path_says_who_states_each_step(client: TestClient) -> None:
    found, page = connected(client, "Ada Berg", "norsk hydro")
    (path,) = found["result"]["paths"]
    assert [one["name"] for one in path["entities"]] == ["Ada Berg", "Bo Dahl", "Norsk Hydro"]
    told = [(s["relation"], s["spellings"], s["fragments"]) for (s,) in path["steps"]]
    assert told == [("knows", ["Bo Dahl"], ["ada"]), ("employer", ["NORSK HYDRO"], ["bo"])]
    assert "2 steps" in page
    assert f"{path['probability'] * 100:.0f} %." in page
    for fragment in ("ada", "bo"):
        assert f'stated by <a class="code" href="/fragment?id={fragment}">' in page
    back, _ = connected(client, found["second"]["entity"]["id"], "ada")
    (other,) = back["result"]["paths"]
    assert other["entities"] == path["entities"][::-1]
    assert other["steps"] == path["steps"][::-1]


def test_a_path_asks_which_of_two_namesakes_is_meant(client: TestClient) -> None:
    found, page = connected(client, "Acme", "ada")
    assert found["result"] is None
    namesakes = {home(client, "acme 1"), home(client, "acme 3")}
    assert namesakes <= {one["id"] for one in found["first"]["similar"]}
    (link,) = [part.split('"')[0] for part in page.split('href="') if f"={min(namesakes)}&" in part]
    chosen = client.get(link.replace("&amp;", "&"), headers=PAGE).text
    assert "Probability that every step is right" in chosen or "No path connects" in chosen


@pytest.mark.parametrize(
    ("first", "second", "said"),
    [
        ("", "", "A step is a value"),
        ("Ada Berg", "", "A step is a value"),
        ("Ada Berg", "ada", "Both are"),
        ("Ada Berg", "cy eide", "No path connects"),
        ("Ada Berg", "cy", "No path connects"),
        ("Ada Berg", "Eide", "Which <bdi>Eide</bdi>?"),
        ("Ada Berg", "zzzz", "No entity is called so."),
        ("acme 1", "cy", "No path connects"),
        (HOSTILE, "cy", "1 step<"),
        ("\0", "%00", "No entity is called so."),
    ],
)
def test_a_path_says_what_is_missing(
    client: TestClient, first: str, second: str, said: str
) -> None:
    _, page = connected(client, first, second)
    assert said in page
    assert "<script>alert" not in page


def test_a_path_that_is_looked_for_in_part_says_so(
    client: TestClient, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(connections, "_MOST_READ", 1)
    found, page = connected(client, "ada", "cy")
    assert not found["result"]["complete"]
    assert "as far as was looked" in page


def test_a_timeline_says_when_values_held(client: TestClient) -> None:
    eli = home(client, "eli 1")
    page = client.get(f"/entity/{eli}", headers=PAGE).text
    section = page[page.index("<h2>Timeline</h2>") : page.index("<h2>Fragments</h2>")]
    acme, hydro = section.index("<bdi>Acme</bdi>"), section.index("<bdi>Norsk Hydro</bdi></a>")
    assert acme < hydro < section.index("<bdi>Eli Foss</bdi>"), "what changed comes first"
    assert (
        "stated <bdi>2001 to 2004-03, until 2010-05, then Norsk Hydro</bdi>" in section[acme:hydro]
    )
    assert 'class="end"' in section[acme:hydro]
    assert "until" not in section[hydro:].replace("until a later", "")
    assert "Timeline" not in client.get(f"/entity/{home(client, 'ada')}", headers=PAGE).text


@pytest.mark.parametrize(
    ("at", "employer"),
    [("2002", "Acme"), ("2009-12", "Acme"), ("2011", "Norsk Hydro"), ("1999", 0)],
)
def test_an_entity_is_shown_as_it_was(client: TestClient, at: str, employer: str) -> None:
    eli = home(client, "eli 1")
    found = client.get(f"/entity/{eli}.json?at={at}").json()
    assert client.get(f"/api/entities/{eli}", params={"at": at}).json() == found
    values = found["properties"]["employer"]
    assert [v["value"] for v in values if v["holds"]] == ([employer] if employer else [])
    page = client.get(f"/entity/{eli}?at={at}", headers=PAGE).text
    table = page[page.index(f"<h2>Values that held in <bdi>{at}") : page.index("<h2>Timeline")]
    assert [name for name in ("Acme", "Norsk Hydro") if name in table] == (
        [employer] if employer else []
    )
    assert page.count('<b class="mark">held</b>') == (2 if employer else 0)
    assert page.count('<line class="at"') == (3 if employer else 0), "it is in the drawing"
    assert f'value="{at}"' in page


@pytest.mark.parametrize("at", ["soon", "2019-13", HOSTILE])
def test_what_is_no_time_is_refused(client: TestClient, at: str) -> None:
    refused = client.get(f"/entity/{home(client, 'eli 1')}", params={"at": at}, headers=PAGE)
    assert refused.status_code == 400
    assert "expected a time such as 2019" in refused.text
    assert "<script>alert" not in refused.text


VALUE = {"value": "x", "held": []}


def test_bars_are_within_the_drawing() -> None:
    def value(*stated: str, until: str | None = None) -> dict:
        return {"value": "x", "held": [{"stated": stated, "until": until}]}

    assert timeline({"a": [VALUE]}, "") is None
    whole = {
        "one": [value("0001", "9999")],
        "b": [
            value("2000-06", "2020"),
            VALUE,
            value("1900", "1950", until="2000-06"),
            value("1950-01-01", "1950-01-01T10:00Z", until="1950-01-01T10:00Z"),
            {"value": "y", "held": [{"stated": ["2001"], "until": "2003"}, {"stated": ["2010"]}]},
        ],
    }
    for properties in (whole, {"b": whole["b"]}, {"one": [value("2019-03-01", "2019-03-01")]}):
        for at in ("", "1999", "3000-01-01"):
            found = timeline(properties, at)
            bars = [bar for _, row in found["rows"] for one in row for bar in one["bars"]]
            for bar in bars:
                assert 0 <= bar["start"] < bar["start"] + bar["width"] <= bar["end"] <= 100.01
            for _, row in found["rows"]:
                starts = [one["bars"][0]["start"] for one in row]
                assert starts == sorted(starts)
            assert found["at"] is None or 0 <= found["at"] <= 100
            assert 2 <= len(found["ticks"]) <= 5
            assert all(0 <= place <= 100 for place, _, _ in found["ticks"])
    (_, (old, _, _, again)), *_ = timeline({"b": whole["b"]}, "1999")["rows"]
    (bar,) = old["bars"]
    assert bar["ends"], "it held until the other"
    assert bar["end"] > bar["start"] + bar["width"]
    one, other = again["bars"]
    assert (one["ends"], other["ends"]) == (True, False), "it returned"
    assert one["end"] < other["start"]
