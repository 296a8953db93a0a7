"""Whatever the OpenAPI document allows and forbids is answered as it says, and never with a 5xx."""

from __future__ import annotations

import contextlib
import itertools
import shutil
import threading
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis.errors import Unsatisfiable

from kbforge_serve.app import application
from kbforge_serve.server import Server, address_of, listen
from kbforge_serve.service import Service

schemathesis = pytest.importorskip("schemathesis", reason="needs schemathesis")

CHECKS = (
    "not_a_server_error",
    "status_code_conformance",
    "content_type_conformance",
    "response_schema_conformance",
)


@pytest.fixture(scope="module")
def document(made_store: Path, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Any]:
    """The document of a server in which nothing waits for runs."""
    path = Path(shutil.copy(made_store, tmp_path_factory.mktemp("document") / "kb.sqlite"))
    service = Service(str(path))
    service.feed.stop()
    with listen("127.0.0.1", 0) as listening:
        server = Server(application(service))
        thread = threading.Thread(target=server.run, args=([listening],))
        thread.start()
        yield schemathesis.openapi.from_url(f"{address_of(listening)}api/openapi.json")
        server.stop()
        thread.join()


@pytest.mark.slow
def test_answers_conform_to_the_document(document: Any) -> None:
    checks = schemathesis.checks.CHECKS.get_by_names([*CHECKS])
    operations = [found.ok() for found in document.get_all_operations()]
    assert len(operations) > 15
    for operation, mode in itertools.product(operations, schemathesis.GenerationMode):

        @settings(max_examples=5, suppress_health_check=[*HealthCheck], deadline=None)
        @given(case=operation.as_strategy(generation_mode=mode))
        def check(case: Any) -> None:
            case.call_and_validate(checks=checks)

        with contextlib.suppress(Unsatisfiable):  # some operations take nothing
            check()
