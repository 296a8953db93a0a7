"""What a monitor reads: whether the server answers, and its figures in Prometheus' text format."""

from __future__ import annotations

from collections.abc import Iterable
from pathlib import Path

from fastapi import APIRouter
from fastapi.responses import Response
from prometheus_client import CONTENT_TYPE_LATEST, CollectorRegistry, Counter, Gauge, Histogram
from prometheus_client.exposition import generate_latest
from prometheus_client.metrics_core import GaugeMetricFamily, Metric
from prometheus_client.registry import Collector
from starlette.types import Scope

from kbforge_serve import facts, logs
from kbforge_serve.frame import json_of
from kbforge_serve.security import HEALTH
from kbforge_serve.service import Service

_SECONDS = (0.005, 0.01, 0.025, 0.05, 0.1, 0.2, 0.5, 1.0, 2.5, 10.0)
_OF_A_STORE = {
    "fragments": "Fragments in the store.",
    "entities": "Entities in the store.",
    "decisions": "Decisions in force.",
    "n_runs": "Runs that wrote to the store.",
    "megabytes": "Size of the store's file, in 10^6 bytes.",
    "drift": "Distance of the fragments added since from those that the models learned from.",
}


class Metrics(Collector):
    """The figures of a served store; those of the store itself are read when they are asked for."""

    def __init__(self, service: Service) -> None:
        self._service = service
        self._registry = made = CollectorRegistry()
        self._requests = Counter(
            "kbforge_requests", "Requests answered.", ("method", "route", "status"), registry=made
        )
        self._seconds = Histogram(
            "kbforge_request_seconds",
            "Time until the answer begins.",
            ("route",),
            buckets=_SECONDS,
            registry=made,
        )
        waiting = Gauge("kbforge_waiting", "Requests that wait to be written.", registry=made)
        waiting.set_function(lambda: service.writer.n_waiting)
        made.register(self)

    def answered(self, scope: Scope, status: int, seconds: float) -> None:
        """Count and log an answer."""
        route = logs.route_of(scope)
        self._requests.labels(scope["method"], route, status).inc()
        self._seconds.labels(route).observe(seconds)
        logs.answered(Path(self._service.readers.path).stem, scope, status, seconds)

    def collect(self) -> Iterable[Metric]:
        """The figures of the store, now."""
        status = facts.status(self._service.readers)
        for name, means in _OF_A_STORE.items():
            called = f"kbforge_store_{name.removeprefix('n_')}"
            yield GaugeMetricFamily(called, means, value=getattr(status, name))

    def describe(self) -> Iterable[Metric]:
        """Nothing, so that registering reads no store."""
        return ()

    def router(self) -> APIRouter:
        """Their addresses."""
        routes = APIRouter(include_in_schema=False)

        @routes.get(HEALTH)
        def health() -> Response:
            with self._service.readers.store():
                return json_of({"ok": True})

        @routes.get("/metrics")
        def metrics() -> Response:
            return Response(generate_latest(self._registry), media_type=CONTENT_TYPE_LATEST)

        return routes
