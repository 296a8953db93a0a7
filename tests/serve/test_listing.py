"""The list of entities: every filter gives what reading all entities gives, a page at a time."""

from __future__ import annotations

import random
import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import orjson
import pytest
from starlette.testclient import TestClient

from kbforge.contracts import Fragment
from kbforge.errors import UsageError
from kbforge.fit.choices import RunOptions
from kbforge.jobs.decide import decide, decisions_of
from kbforge.jobs.update import add_fragments
from kbforge.jobs.views import entities_of
from kbforge_serve import facts
from kbforge_serve import listing as module
from kbforge_serve.export import TABLES
from kbforge_serve.listing import Condition, Filter, listing
from kbforge_serve.service import Service
from kbforge_serve.words import words_of
from tests.people import people

TOWNS = ("York", "Bad Säckingen", "l'Île", "?")


@pytest.fixture(scope="module")
def base(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A store in two runs, from two sources, with a decision."""
    path = tmp_path_factory.mktemp("listed") / "kb.sqlite"
    rng = random.Random(4)

    def somewhere(x: Fragment) -> Fragment:
        said = dict(x.properties)
        if rng.random() < 0.5:
            said["lives in"] = (rng.choice(TOWNS),)
        return Fragment(x.id, said, source=rng.choice(["a.csv", "b.csv"]))

    fragments = [somewhere(x) for x in people(40, 3)]
    options = RunOptions(likelihood="pairs")
    add_fragments(str(path), fragments[:90], options)
    add_fragments(str(path), fragments[90:], options)
    decide(str(path), decisions_of([("different", fragments[0].id, fragments[50].id)]))
    return path


@pytest.fixture
def service(path: str) -> Iterator[Service]:
    made = Service(path)
    yield made
    made.close()


class Oracle:
    """All entities with their fragments, and which of them a filter selects."""

    def __init__(self, service: Service, path: str) -> None:
        self.entities = {one.id: one for one in entities_of(path)}
        with service.readers.store() as store:
            self.fragments = {x.id: x for x in store.fragments()}
            decisions = store.decisions()
            rows = store.database.connection.execute("SELECT entity, run FROM image").fetchall()
        self.decided = {id for one in decisions for id in (one.first, one.second)}
        self.changed = rows
        told = {id: facts.entity(service.readers, id) for id in self.entities}
        self.contradicting = {id for id, one in told.items() if one.contradictions}
        assert 0 < len(self.contradicting) < len(self.entities)

    def selects(self, id: str, wanted: Filter) -> bool:
        one = self.entities[id]
        own = [self.fragments[fragment] for fragment in one.fragments]
        confidence = one.confidence or 0.0
        texts = [" ".join(v for vs in x.properties.values() for v in vs) for x in own]
        return (
            wanted.least_size <= len(own) <= (wanted.most_size or len(own))
            and wanted.least_confidence <= confidence <= wanted.most_confidence
            and all(one.holds(own) for one in wanted.where)
            and any({*words_of(wanted.text)} <= {*words_of(text)} for text in texts)
            and (not wanted.source or any(x.source == wanted.source for x in own))
            and (not wanted.contradicts or id in self.contradicting)
            and (not wanted.decided or any(x.id in self.decided for x in own))
            and (
                wanted.since is None
                or any(id == entity and run > wanted.since for entity, run in self.changed)
            )
        )


def pages_of(service: Service, wanted: Filter, order: Any, most: int) -> tuple[list[Any], Any]:
    """All pages together, and the first one."""
    found, after, first = [], None, None
    while True:
        page = listing(service.readers, wanted, order, most, after, words=service.search.words)
        first = first or page
        found += page.entities
        if page.after is None:
            return found, first
        after = page.after


def filters() -> Iterator[Filter]:
    rng = random.Random(7)
    values = [f"lives in={town}" for town in TOWNS]
    conditions = [Condition.read(one) for one in (*values, "lives in", "!lives in", "born", "x=1")]
    for _ in range(60):
        yield Filter(
            text=rng.choice(["", "", "", "york", "19", "bad sackingen"]),
            where=tuple(rng.sample(conditions, rng.choice([0, 0, 1, 1, 2]))),
            source=rng.choice(["", "", "a.csv", "nowhere"]),
            least_size=rng.choice([1, 1, 2, 4]),
            most_size=rng.choice([None, None, 3]),
            least_confidence=rng.choice([0.0, 0.0, 0.7]),
            most_confidence=rng.choice([1.0, 1.0, 0.9]),
            since=rng.choice([None, None, None, 0, 1, 2]),
            decided=rng.random() < 0.1,
            contradicts=rng.random() < 0.2,
        )


@pytest.mark.parametrize("few", [4_000, 3, 0])  # which of the two ways is taken
@pytest.mark.parametrize("order", ["largest", "least_sure"])
def test_a_filter_selects_what_reading_all_selects(
    service: Service, path: str, order: Any, few: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(module, "_FEW", few)
    oracle = Oracle(service, path)
    some = 0
    for wanted in filters():
        found, first = pages_of(service, wanted, order, 7)
        ids = [one.id for one in found]
        assert {*ids} == {id for id in oracle.entities if oracle.selects(id, wanted)}, wanted
        assert len({*ids}) == len(ids)
        keys = [(-one.size,) if order == "largest" else (one.confidence,) for one in found]
        assert keys == sorted(keys)
        if first.exact:
            assert first.count == len(ids), wanted
        some += bool(ids)
    assert some > 20


def test_what_changed_last_comes_first(service: Service, path: str) -> None:
    new = [Fragment(f"new {x.id}", x.properties) for x in people(5, 3)]
    add_fragments(path, new, RunOptions(likelihood="pairs"))
    oracle = Oracle(service, path)
    last = dict(sorted(oracle.changed, key=lambda row: row[1]))
    assert len({*last.values()}) > 1
    for wanted in filters():
        found, first = pages_of(service, wanted, "changed", 7)
        ids = [one.id for one in found]
        expected = {id for id in oracle.entities if id in last and oracle.selects(id, wanted)}
        assert {*ids} == expected, wanted
        assert first.count == len(ids) == len(expected)
        runs = [-last[id] for id in ids]
        assert runs == sorted(runs)


def test_a_page_that_has_read_enough_says_so(
    service: Service, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(module, "_MOST_READ", 10)
    monkeypatch.setattr(module, "_AT_ONCE", 4)
    wanted = Filter(where=(Condition.read("lives in"),))
    page = listing(service.readers, wanted, most=50)
    assert page.after is not None
    assert not page.exact
    every, _ = pages_of(service, wanted, "largest", 50)
    monkeypatch.undo()
    assert every == listing(service.readers, wanted, most=50).entities


def test_all_are_counted_exactly(service: Service, path: str) -> None:
    page = listing(service.readers, most=5)
    assert (page.count, page.exact, len(page.entities)) == (len([*entities_of(path)]), True, 5)


def test_many_are_not_counted_but_estimated(
    service: Service, monkeypatch: pytest.MonkeyPatch
) -> None:
    wanted = [
        Filter(least_size=2),
        Filter(most_size=1),
        Filter(most_confidence=0.9),
        Filter(most_size=3, least_confidence=0.7, most_confidence=0.95),
    ]
    exactly = [listing(service.readers, one, most=5).count for one in wanted]
    monkeypatch.setattr(module, "_COUNTED", 0)
    for one, count in zip(wanted, exactly, strict=True):
        page = listing(service.readers, one, most=1)
        assert (page.count, page.exact) == (count, False)  # the parts are the whole store
    monkeypatch.setattr(module, "_PARTS", 3)
    monkeypatch.setattr(module, "_PART", 20)
    estimates = [listing(service.readers, one, most=1).count for one in wanted]
    assert estimates != exactly
    assert estimates == pytest.approx(exactly, rel=0.5)


def test_columns_have_the_best_values(service: Service, path: str) -> None:
    page = listing(service.readers, columns=["lives in", "nothing"], most=200)
    best = {
        one.id: one.properties["lives in"][0].value
        for one in entities_of(path)
        if "lives in" in one.properties
    }
    assert {one.id: one.values["lives in"] for one in page.entities if one.values} == best


@pytest.mark.parametrize("text", ["", "=x", "!", "!a=b", " = "])
def test_a_condition_that_is_none_is_refused(text: str) -> None:
    with pytest.raises(UsageError, match=r"expected town=York, town or !town"):
        Condition.read(text)


@pytest.mark.parametrize("after", ["", "x", "[]", "[1,2]", '["a",1,2]', "{}", "[1,2,3,4]"])
def test_an_after_that_is_none_is_refused(service: Service, after: str) -> None:
    with pytest.raises(UsageError, match="expected what `after` said"):
        listing(service.readers, after=after)
    with pytest.raises(UsageError, match="expected the order"):
        listing(service.readers, order="by heart")  # type: ignore[arg-type]


def test_the_page_keeps_its_filter(client: TestClient) -> None:
    empty = "text=&where=&least_size=&most_size=&least_confidence=&most_confidence=&source=&since="
    form = "where=born&columns=born&columns=&order=least_sure&least_size=2"
    assert client.get(f"/entities?{empty}&columns=&order=largest").status_code == 200
    page = client.get(f"/entities?{form}").text
    assert 'name="where" value="born"' in page
    assert 'name="columns" value="born"' in page
    assert 'name="least_size" value="2"' in page
    assert '<option value="least_sure" selected>' in page
    told = client.get("/api/entities?where=born&least_size=2&limit=5&columns=born").json()
    assert told["count"] >= len(told["entities"]) == 5
    assert all(one["values"]["born"] for one in told["entities"])
    after = client.get("/api/entities", params={"limit": 5, "after": told["after"]}).json()
    assert {one["id"] for one in after["entities"]}.isdisjoint(
        one["id"] for one in told["entities"]
    )
    assert client.get("/entities?where=%3D").status_code == 400
    assert "No entity meets all of it" in client.get("/entities?where=nothing").text


@pytest.mark.parametrize("few", [4_000, 0])
def test_what_is_listed_is_exported(
    client: TestClient, few: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(module, "_FEW", few)
    for filtered in (
        {"least_size": 2},
        {"where": ["!nothing", "born"], "order": "least_sure"},
        {"text": "york", "order": "least_sure"},
        {"decided": True},
        {"contradicts": True},
        {"where": "nothing"},
    ):
        listed = client.get("/api/entities", params={**filtered, "limit": 100}).json()
        lines = client.get("/api/export", params={**filtered, "format": "jsonl"}).text.splitlines()
        assert [orjson.loads(line)["id"] for line in lines] == [
            one["id"] for one in listed["entities"]
        ]
        rows = client.get("/api/export", params={**filtered, "format": "wide"}).text.splitlines()
        assert len(rows) == len(lines) + 1


def test_the_page_exports_what_it_lists(client: TestClient) -> None:
    page = client.get("/entities?where=born&where=&least_size=2&order=least_sure").text
    form = page.partition('action="/api/export"')[2].partition("</form>")[0]
    fields = re.findall(r'name="(\w+)" value="([^"]*)"', form)
    assert fields == [("where", "born"), ("least_size", "2"), ("order", "least_sure")]
    for format_name in TABLES:
        assert f"<option>{format_name}</option>" in form
        given = client.get("/api/export", params=[*fields, ("format", format_name)])
        assert given.status_code == 200, given.text
        assert given.content
