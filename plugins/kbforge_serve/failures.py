"""Errors as answers: a sentence and a status, as JSON for programs or a page for users.

{"ok": false, "error": "the knowledge base has no fragment \\"x\\"", "status": 404}
"""

from __future__ import annotations

import os
import re
from collections.abc import Mapping, Sequence
from typing import Any

from starlette.requests import HTTPConnection
from starlette.responses import JSONResponse, Response

from kbforge.errors import (
    BadRecord,
    BusyError,
    ContradictionError,
    DuplicateError,
    GrammarError,
    KBForgeError,
    LikelihoodError,
    NotFoundError,
    OutputError,
    PluginError,
    StoreError,
    StrangeAttributesError,
    UsageError,
    escaped,
)
from kbforge_serve.frame import page

_STATUS: tuple[tuple[type[KBForgeError], int], ...] = (
    (NotFoundError, 404),
    (ContradictionError, 409),
    (DuplicateError, 409),
    (BusyError, 503),
    (OutputError, 503),
    (StoreError, 503),
    (BadRecord, 400),
    (StrangeAttributesError, 422),
    (UsageError, 400),
    (PluginError, 400),  # there is none of this name, or its extra is not installed
    (LikelihoodError, 422),
    (GrammarError, 422),
)
_PROGRAMS = ("/api", "/reconcile")
_RETRY = "5"  # seconds after which the disk may have room, or the file may be there again
_FOLDERS = re.compile(r'(?<![\w"/:])/(?:[^\s"/]+/)+')
"""An absolute path; quoted ids may look like one."""
UNEXPECTED = "the server met an error that it did not expect; its log has the details"


def sentence_of(error: KBForgeError, store: str) -> str:
    """The error message for a client, with file names without folders."""
    folder = escaped(os.path.join(os.path.dirname(store), ""))
    said = str(error).replace(folder, "") if os.path.isabs(folder) else str(error)
    return _FOLDERS.sub("", said)


def mistake_in(sent: Sequence[Any]) -> str:
    """What is wrong with what was sent, by the first of pydantic's errors."""
    where, said = ".".join(map(str, sent[0]["loc"])), sent[0]["msg"]
    return f"{where}: {said[:1].lower()}{said[1:]}"


def as_parameter(name: str, value: object) -> str:
    """The spelling of parameters in messages of a server: `on_duplicate replace`."""
    written = name.replace("-", "_")
    return f"{written} {value}" if value != "" else written


def answer_to(asked: HTTPConnection, error: KBForgeError, store: str) -> Response:
    """The answer to a request that raised an error."""
    status = status_of(error)
    headers = {}
    if status == 503:
        headers["Retry-After"] = str(error.seconds) if isinstance(error, BusyError) else _RETRY
    return failure(asked, status, sentence_of(error, store), headers)


def status_of(error: KBForgeError) -> int:
    """The status that identifies the kind of error to a program."""
    return next((status for kind, status in _STATUS if isinstance(error, kind)), 500)


def failure(
    asked: HTTPConnection, status: int, sentence: str, headers: Mapping[str, str] | None = None
) -> Response:
    """An answer that is an error."""
    given = dict(headers or {})
    if not wants_page(asked):
        content = {"ok": False, "error": sentence, "status": status}
        return JSONResponse(content, status, given)
    shown = page(asked, "error.html", status=status, error=sentence[:1].upper() + sentence[1:])
    shown.headers.update(given)
    return shown


def wants_page(asked: HTTPConnection) -> bool:
    """Whether the request comes from a browser asking for a page."""
    path = asked.scope["path"]
    if path.endswith(".json") or any(path == p or path.startswith(f"{p}/") for p in _PROGRAMS):
        return False
    return "text/html" in asked.headers.get("accept", "")
