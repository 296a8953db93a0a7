"""Rules by the API and on their page: what is shown before is what happens."""

from __future__ import annotations

import shutil
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from starlette.testclient import TestClient

from kbforge.contracts.clusterer import RuleSet
from kbforge.contracts.fragment import comparable
from kbforge.fit.choices import RunOptions
from kbforge.jobs.update import add_fragments
from kbforge.jobs.views import entities_of
from kbforge_serve.app import application
from kbforge_serve.rules import Governed, RulesInForce
from kbforge_serve.service import Service
from tests.jobs.test_rules import check, concerned, restorable, stating
from tests.people import people
from tests.serve.test_api import required
from tests.store.dump import dump

PEOPLE = stating(people(60, 2))
RULES = {"never": ["vat id"], "always": ["passport"]}


@pytest.fixture(scope="module")
def base(tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("store") / "kb.sqlite"
    add_fragments(str(path), PEOPLE[:-5], RunOptions(likelihood="attributes", alpha=30.0))
    return path


@pytest.fixture
def path(base: Path, tmp_path: Path) -> str:
    return str(shutil.copy(base, tmp_path / "kb.sqlite"))


@pytest.fixture
def client(path: str) -> Iterator[TestClient]:
    with TestClient(application(Service(path)), "http://localhost") as made:
        yield made


def post(client: TestClient, rehearse: bool = False, **given: Any) -> Any:
    sent = client.post(f"/api/rules?rehearse={str(rehearse).lower()}", json=given)
    assert sent.status_code == 200, sent.text
    return required(Governed, sent.content)


def test_rules_are_tried_taken_honoured_and_withdrawn(client: TestClient, path: str) -> None:
    before = dump(path)
    would = post(client, True, **RULES)
    assert dump(path) == before
    did = post(client, **RULES, note="by law")
    assert would["effect"]["n_before"] == did["effect"]["n_before"] > 0
    assert did["about"] == "never if vat id differs, always if passport is equal"
    found = required(RulesInForce, client.get("/api/rules").content)
    assert (found["never"], found["always"]) == (["vat id"], ["passport"])
    assert [one["note"] for one in found["changes"]] == ["by law"]
    lines = [x.to_json() for x in PEOPLE[-5:]]
    assert client.post("/api/fragments", json=lines).status_code == 200
    check(entities_of(path), PEOPLE)
    # a person's decision wins, and is possible after rules have changed
    a, b = PEOPLE[1].id, PEOPLE[3].id
    said = client.post("/api/decisions", json={"same": True, "first": a, "second": b})
    assert said.status_code == 200, said.text
    assert post(client, never=["vat id"])["effect"]["run"] is not None
    assert post(client)["about"] == "no rules"
    assert post(client)["effect"]["run"] is None


def test_what_no_fragment_has_is_refused(client: TestClient, path: str) -> None:
    before = dump(path)
    sent = client.post("/api/rules", json={"never": ["colour"]})
    assert sent.status_code in (400, 422)
    assert 'no fragment has "colour"' in sent.json()["error"]
    assert client.post("/api/rules", json={"never": [""]}).status_code == 422
    page = client.post("/rules", data={"never": "<b>"}, headers={"Origin": "http://localhost"})
    assert "no fragment has" in page.text
    assert "<b>&" not in page.text
    assert dump(path) == before


def test_the_page_shows_the_effect_before(client: TestClient, path: str) -> None:
    assert "No rules are in force" in client.get("/rules").text
    before, own = dump(path), {"Origin": "http://localhost"}
    page = client.post("/rules", data=RULES, headers=own).text
    assert "nothing changed yet" in page
    assert "Take these rules" in page
    assert dump(path) == before
    page = client.post("/rules", data={**RULES, "take": "true", "note": "law"}, headers=own).text
    assert "Try without" in page
    assert "Take these rules" not in page
    check(entities_of(path), PEOPLE[:-5])
    while (told := client.get("/rules.json").json())["counts"] is None:
        pass
    assert told["never"] == ["vat id"]
    assert told["counts"] == concerned(RuleSet(("vat id",), ("passport",)), PEOPLE[:-5])
    page = client.get("/rules").text
    assert all(f'<td class="count" data-n="{one["values"]}">' in page for one in told["counts"])
    assert "Counting" not in page


def test_the_last_change_is_undone_on_the_page(client: TestClient, path: str) -> None:
    before, own = restorable(path), {"Origin": "http://localhost"}
    undoes = f'<input type="hidden" name="take" value="true">{"<button>Undo</button>"}'
    page = client.post("/rules", data={**RULES, "take": "true"}, headers=own).text
    assert page.count(undoes) == 2  # beside the effect, and in the list of changes
    assert client.get("/rules").text.count(undoes) == 1
    page = client.post("/rules", data={"take": "true"}, headers=own).text
    assert "exactly as before" in page
    assert "Undo" not in page
    assert restorable(path) == before
    # what was written since is not undone with it
    post(client, **RULES)
    found = required(RulesInForce, client.get("/api/rules").content)
    assert found["former"] == {"never": [], "always": [], "run": 4}
    assert client.post("/api/fragments", json=[PEOPLE[-1].to_json()]).status_code == 200
    found = required(RulesInForce, client.get("/api/rules").content)
    assert found["former"] is None
    assert "Undo" not in client.get("/rules").text
    page = client.post("/rules", data={}, headers=own).text
    assert "need not be grouped as it was" in page
    assert "nothing changed yet" in page
    done = post(client)
    assert not done["exact"]
    assert "need not be grouped as it was" in done["notes"][-1]
    check(entities_of(path), [])


def test_a_reason_names_the_rules_that_fire(client: TestClient) -> None:
    post(client, **RULES)
    stated = {x.id: x.properties for x in PEOPLE[:-5]}
    apart, merged = 0, 0
    for id, own in stated.items():
        why = client.get("/api/why", params={"fragment": id, "rivals": 3}).json()
        for place, told in zip([why["own"], *why["rivals"]], why["rules"], strict=True):
            members = client.get(f"/api/entities/{place['entity']['id']}").json()["fragments"]
            others = [stated[one["fragment"]["id"]] for one in members]
            for said in told:
                kind, value = said.partition(":")[0], said.rpartition('"')[0].rpartition('"')[2]
                if kind == "never if vat id differs":
                    assert any(value in comparable(one.get("vat id", ())) for one in others)
                    assert place is not why["own"]
                    pair = {"first": why["own"]["entity"]["id"], "second": place["entity"]["id"]}
                    assert any(
                        one.startswith(kind)
                        for one in client.get("/api/compare", params=pair).json()["rules"]
                    )
                    apart += 1
                else:
                    assert kind == "always if passport is equal"
                    assert value in comparable(own["passport"])
                    merged += place is why["own"]  # elsewhere a "never" wins over it
    assert apart
    assert merged
    page = client.get("/why", params={"fragment": next(iter(stated))})
    assert page.status_code == 200
