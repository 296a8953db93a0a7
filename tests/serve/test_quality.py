"""What a server says of runs and quality: pages, their JSON, and the answers that take long."""

from __future__ import annotations

import threading
import time
from pathlib import Path
from typing import Any

import orjson
import pytest
from starlette.testclient import TestClient

from kbforge.contracts import Fragment
from kbforge.errors import BusyError, KBForgeError, UsageError
from kbforge.evaluation.scores import score_entities
from kbforge.jobs.decide import decide, decisions_of
from kbforge.jobs.remove import remove
from kbforge.jobs.report import report
from kbforge.jobs.views import entities_of
from kbforge.store.store import Store
from kbforge_serve.background import Computations, state_of
from kbforge_serve.service import Service

PAGE = {"accept": "text/html"}


def state(path: Path) -> dict[str, set[str]]:
    """The entities of a store."""
    return {entity.id: {*entity.fragments} for entity in entities_of(str(path))}


def ready(client: TestClient, address: str, kind: str = "") -> Any:
    """The JSON of a page, once what takes long is there."""
    for _ in range(100):
        found = client.get(address).json()
        if (found[kind] if kind else found)["state"] != "under way":
            return found
        time.sleep(0.05)
    raise AssertionError("it never ends")


def test_quality_says_what_the_report_says(client: TestClient, store: Path) -> None:
    found, facts = ready(client, "/quality.json", "gold"), report(str(store), labels=True).facts
    assert (found["entities"], found["fragments"]) == (facts.entities, facts.fragments)
    assert found["stated"] == pytest.approx(facts.stated)
    assert found["calibrated"] == facts.calibrated
    assert [(one["size"], one["entities"]) for one in found["sizes"]] == list(facts.sizes)
    assert [one["entities"] for one in found["confidence"]] == [
        share.entities for share in facts.confidences
    ]
    assert [(b["entities"], round(b["right"] * b["entities"])) for b in found["gold"]["bands"]] == [
        (share.known, share.right) for share in facts.confidences if share.known
    ]


def test_scores_are_those_of_evaluate(
    client: TestClient, store: Path, people_of_store: list[Fragment]
) -> None:
    gold = ready(client, "/quality.json", "gold")["gold"]
    expected = score_entities(entities_of(str(store)), people_of_store).scores
    assert gold["scores"] == pytest.approx(expected.to_json())
    assert gold["state"] == "ready"
    page = client.get("/quality", headers=PAGE).text
    assert f"{expected.bcubed_f1_item_mean:.4f}" in page


def test_a_file_of_gold_counts_instead_of_labels(
    store: Path, people_of_store: list[Fragment], tmp_path: Path
) -> None:
    some = people_of_store[:50]
    gold = tmp_path / "gold.jsonl"
    gold.write_bytes(b"\n".join(orjson.dumps(one.to_json()) for one in some))
    service = Service(str(store), str(gold))
    try:
        found = service.quality.facts()["gold"]
        while found["state"] == "under way":
            found = service.quality.facts()["gold"]
    finally:
        service.close()
    expected = score_entities(entities_of(str(store)), some, partial=True).scores
    assert found["scores"] == pytest.approx(expected.to_json())
    assert (found["file"], found["labelled"]) == ("gold.jsonl", 50)
    assert found["unlabelled"] == len(people_of_store) - 50


def test_a_file_of_gold_without_labels_is_refused(
    store: Path, people_of_store: list[Fragment], tmp_path: Path
) -> None:
    gold = tmp_path / "gold.jsonl"
    plain = people_of_store[0].to_json()
    plain.pop("label")
    gold.write_bytes(orjson.dumps(plain))
    with pytest.raises(UsageError, match="has a label"):
        Service(str(store), str(gold))


def test_runs_show_what_changed_between_any_two(client: TestClient, store: Path) -> None:
    states = [{}, state(store)]
    apart = sorted(next(ids for ids in states[1].values() if len(ids) > 2))
    decide(str(store), decisions_of([("different", apart[0], apart[1])]))
    states.append(state(store))
    others = [ids for ids in states[2].values() if not ids & {*apart}]
    first, second = (min(ids) for ids in others[:2])
    decide(str(store), decisions_of([("same", first, second)]))
    states.append(state(store))
    gone = max(others[2])
    remove(str(store), [gone])
    found = ready(client, "/runs.json")
    assert (found["from"], found["to"], found["count"]) == (3, 4, 4)
    assert [run["verb"] for run in found["runs"]] == ["remove", "decide", "decide", "cluster"]
    parted = ready(client, "/runs.json?from=1&to=2")["change"]
    assert parted["entities"] == [len(states[1]), len(states[2])]
    assert parted["unchanged"] == sum(states[2].get(e) == ids for e, ids in states[1].items())
    (one,) = parted["regroupings"]
    assert one["kind"] in ("parted", "moved")
    shown = {f["id"] for side in ("before", "after") for e in one[side] for f in e["fragments"]}
    assert {apart[0], apart[1]} <= shown
    assert "moves" in {f["state"] for e in one["after"] for f in e["fragments"]}
    merged = ready(client, "/runs.json?from=3&to=2")["change"]["kinds"]
    assert set(merged) & {"merged", "moved"}
    page = client.get("/runs?from=3&to=4", headers=PAGE)
    assert page.status_code == 200
    assert "removed</small>" in page.text


@pytest.mark.parametrize("address", ["/runs?from=99", "/runs?to=-1", "/runs?from=x"])
def test_what_is_no_run_is_an_error_page(client: TestClient, address: str) -> None:
    page = client.get(address, headers=PAGE)
    assert page.status_code in (404, 422)
    assert '<p role="alert">' in page.text


def test_the_first_run_is_compared_with_nothing(client: TestClient, store: Path) -> None:
    found = ready(client, "/runs.json")
    assert found["change"]["kinds"] == {
        "created": {"count": len(state(store)), "fragments": found["runs"][0]["added"]}
    }
    assert found["change"]["unchanged"] == 0


def test_an_answer_that_takes_long_is_under_way(service: Service) -> None:
    """The page does not wait for it, and has the former one until it is there."""
    computations, go = Computations(service.readers), threading.Event()

    def slow(store: Store) -> int:
        assert go.wait(30)
        return store.n_fragments

    assert computations.get("n", (1,), slow, patience=0.01) == (None, False)
    go.set()
    known, current = computations.get("n", (1,), slow, patience=30)
    assert current
    go.clear()
    assert computations.get("n", (2,), slow, patience=0.01) == (known, False)
    assert computations.get("n", (1,), slow) == (known, True)
    go.set()
    assert computations.get("n", (2,), slow, patience=30) == (known, True)


def test_what_cannot_be_computed_is_said_to_everyone_who_asks(service: Service) -> None:
    computations = Computations(service.readers)

    def broken(_: Store) -> None:
        raise KBForgeError("the store is damaged")

    for _ in range(2):
        with pytest.raises(KBForgeError, match="the store is damaged"):
            computations.get("n", (), broken, patience=30)


def test_not_everything_is_computed_at_once(service: Service) -> None:
    computations, go = Computations(service.readers), threading.Event()
    for number in range(8):
        computations.get(number, (), lambda _: go.wait(30), patience=0)
    with pytest.raises(BusyError):
        computations.get(8, (), lambda _: go.wait(30), patience=0)
    go.set()


def test_each_change_of_a_store_is_another_state(service: Service, store: Path) -> None:
    def now() -> object:
        with service.readers.store() as opened:
            return state_of(opened)

    before = now()
    assert now() == before
    remove(str(store), [min(next(iter(state(store).values())))])
    assert now() != before
