"""What a monitor reads."""

from __future__ import annotations

from pathlib import Path

from prometheus_client.parser import text_string_to_metric_families
from starlette.testclient import TestClient

from kbforge_serve.app import application
from kbforge_serve.security import Access
from kbforge_serve.service import Service
from kbforge_serve.tokens import Token
from tests.serve.conftest import PEOPLE


def figures(client: TestClient) -> dict[tuple[str, tuple[str, ...]], float]:
    text = client.get("/metrics").text
    return {
        (sample.name, tuple(sample.labels.values())): sample.value
        for family in text_string_to_metric_families(text)
        for sample in family.samples
    }


def test_answers_are_counted_by_route_and_status(client: TestClient) -> None:
    before = figures(client)
    for id in ("e-1", "e-2", "e-3"):
        client.get(f"/api/entities/{id}")
    client.get("/nowhere/at/all")
    after = figures(client)
    name = "kbforge_requests_total"
    assert after[name, ("GET", "/api/entities/{id}", "404")] == 3
    assert after[name, ("GET", "other", "404")] == 1
    metrics = name, ("GET", "/metrics", "200")
    assert after[metrics] == before.get(metrics, 0) + 1
    assert after["kbforge_request_seconds_count", ("/api/entities/{id}",)] == 3


def test_the_figures_of_the_store_are_those_of_its_status(client: TestClient) -> None:
    told, status = figures(client), client.get("/api/status").json()
    assert told["kbforge_store_fragments", ()] == status["fragments"] == len(PEOPLE)
    for name in ("entities", "decisions", "drift", "megabytes"):
        assert told[f"kbforge_store_{name}", ()] == status[name]
    assert told["kbforge_store_runs", ()] == status["n_runs"]
    assert told["kbforge_waiting", ()] == 0


def test_a_health_check_needs_no_token_and_metrics_do(store: Path) -> None:
    access = Access("0.0.0.0", [Token("0123456789abcdef")])
    with TestClient(application(Service(str(store)), access), "http://localhost") as client:
        assert client.get("/healthz").json() == {"ok": True}
        assert client.get("/metrics").status_code == 401
        store.unlink()
        assert client.get("/healthz").status_code == 503
