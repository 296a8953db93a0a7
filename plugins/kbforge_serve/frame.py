"""Shared parts of all pages: templates, static files, and their content as JSON.

A page works without scripts. It has no style attributes or inline scripts, so the
Content-Security-Policy forbids both; text from data passes through the filter `text` of
`kbforge.kb.components`, and no value becomes an address.
"""

from __future__ import annotations

import functools
import hashlib
import re
from importlib import resources
from typing import TYPE_CHECKING, Any
from urllib.parse import quote

from fastapi import APIRouter
from starlette.requests import HTTPConnection
from starlette.responses import HTMLResponse, Response

from kbforge.kb.components import environment
from kbforge.store.audit import signer
from kbforge.version import __version__
from kbforge_serve.answers import as_json

if TYPE_CHECKING:
    from jinja2 import Environment

STORES = "/s/"
"""Where a server has several stores; addresses there, and of static files, have no root."""
_OWN_LINK = re.compile(rf'( (?:href|src|action|formaction)=")/(?!{STORES[1:]}|static/)')
_WAYS = (  # of pages, with the key that follows g
    ("/entities", "Entities", "e"),
    ("/review", "Review", "r"),
    ("/decisions", "Decisions", "d"),
    ("/rules", "Rules", "u"),
    ("/import", "Import", "i"),
    ("/runs", "Runs", "c"),
    ("/quality", "Quality", "q"),
    ("/path", "Paths", "p"),
)
_FILES = {
    "app.js": ("kbforge_serve", "static/app.js", "text/javascript"),
    "icon.svg": ("kbforge_serve", "static/icon.svg", "image/svg+xml"),
    "pages.css": ("kbforge_serve", "static/pages.css", "text/css"),
    "style.css": ("kbforge.kb", "style.css", "text/css"),
    "table.js": ("kbforge.kb", "table.js", "text/javascript"),
}


def json_of(answer: Any) -> Response:
    """An answer as JSON; numbers that JSON cannot represent are null."""
    return Response(as_json(answer), media_type="application/json")


def page(
    asked: HTTPConnection, template: str, store: str = "KBForge", status: int = 200, **context: Any
) -> HTMLResponse:
    """A page that answers a request; `context` is its template's input.

    Its links to the store have the root of the request in front. Templates escape quotes in data,
    so only they can write a link.
    """
    scope = asked.scope
    path, query = scope["path"], scope.get("query_string", b"").decode("latin-1")
    shown = _templates().get_template(template)
    root = quote(scope.get("root_path", ""))
    context |= {"here": path, "root": root, "next": quote(path) + (f"?{query}" if query else "")}
    # what answers a form has no address to come back to
    if (sender := scope.get("sender")) is not None and scope["method"] == "GET":
        context |= {"signer": sender.name or signer(), "is_known": sender.secret is not None}
    text = shown.render(store=store, status=status, **context)
    return HTMLResponse(_OWN_LINK.sub(rf"\1{root}/", text) if root else text, status)


def router() -> APIRouter:
    """The files that pages load."""
    made = APIRouter(include_in_schema=False)
    for name in _FILES:
        made.add_api_route(f"/static/{name}", functools.partial(_file, name))
    return made


def _file(name: str) -> Response:
    # the address has a version, so that a browser may keep it for ever
    kept = {"Cache-Control": "public, max-age=31536000, immutable"}
    return Response(_read(name), media_type=_FILES[name][2], headers=kept)


@functools.cache
def _read(name: str) -> bytes:
    package, path, _ = _FILES[name]
    return resources.files(package).joinpath(path).read_bytes()


@functools.cache
def _templates() -> Environment:
    made = environment("kbforge_serve")
    version = hashlib.sha256(b"".join(map(_read, _FILES))).hexdigest()[:12]
    made.filters["static"] = lambda name: f"/static/{name}?{version}"
    made.globals |= {"version": __version__, "ways": _WAYS}
    return made
