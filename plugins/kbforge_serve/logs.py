"""Structured logs: a line of JSON on standard error for each answer and each write.

    {"time": "2026-03-01T09:30:00.123+00:00", "store": "kb", "who": "ada", "method": "GET",
     "route": "/entity/{id}", "status": 200, "ms": 12.3}

A write has `write` (the type of its result) or `error`, and `run`, instead of a route. No line has
what records state, or tokens.
"""

from __future__ import annotations

import logging
from concurrent.futures import Future
from datetime import UTC, datetime
from typing import Any

import orjson
from starlette.types import Scope

from kbforge.store.audit import signer

_LOG = logging.getLogger(__name__)


def begin() -> None:
    """Log from now on."""
    _LOG.addHandler(logging.StreamHandler())
    _LOG.setLevel(logging.INFO)
    _LOG.propagate = False


def route_of(scope: Scope) -> str:
    """The route of a request; those that no route has count together."""
    return getattr(scope.get("route"), "path", "other")


def answered(store: str | None, scope: Scope, status: int, seconds: float) -> None:
    """Log the answer to a request; `store` is None if it is of no store."""
    sender = scope.get("sender")
    who = None if sender is None else sender.name or signer()
    request = {"method": scope["method"], "route": route_of(scope), "status": status}
    _log({"store": store, "who": who, **request}, seconds)


def written(store: str, who: str, result: Future[Any], seconds: float) -> None:
    """Log a write by the type of its result or of its error."""
    error = result.exception()
    done = {"error": type(error).__name__} if error else {"write": type(result.result()).__name__}
    run = None if error else getattr(result.result(), "run", None)
    _log({"store": store, "who": who, **done, "run": run}, seconds)


def _log(said: dict[str, Any], seconds: float) -> None:
    if _LOG.isEnabledFor(logging.INFO):
        time = datetime.now(UTC).isoformat(timespec="milliseconds")
        line = {"time": time, **said, "ms": round(1000 * seconds, 1)}
        _LOG.info("%s", orjson.dumps(line).decode())
