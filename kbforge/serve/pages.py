"""Pages for people: each is a template of the object that its address with `.json` behind it gives.

A page works without scripts. Nothing in it has a style attribute or an inline script, so that the
Content-Security-Policy forbids both; text from data passes the filter `text` of
`kbforge.kb.components`, and no value becomes an address.
"""

from __future__ import annotations

import functools
import hashlib
import inspect
import math
from collections.abc import Callable
from importlib import resources
from pathlib import Path
from typing import Annotated, Any, TypeAlias

from fastapi import APIRouter, Path as InPath, Query, Request
from fastapi.responses import HTMLResponse, RedirectResponse, Response

from kbforge.errors import quoted
from kbforge.kb.components import environment
from kbforge.serve import facts
from kbforge.serve.service import Service
from kbforge.version import __version__
from kbforge.words import counted

Facts: TypeAlias = dict[str, Any]
View: TypeAlias = Callable[[Facts], Facts]
"""What a template needs beside the facts: names, orders, coordinates."""

_WAYS = (("/", "Home"), ("/review", "Review"), ("/runs", "Runs"), ("/quality", "Quality"))
_MOST_ATTRIBUTES = 10  # columns of a table of fragments
_MOST_LISTED = 12  # entities of a list at home
_MOST_RUNS = 5  # at home
_MOST_VALUES = 12  # of an attribute
_MOST_RESULTS = 20
_SCALE = 240.0  # of the graph, from its facts' unit to the drawing's
_MARGIN = 70.0
_MOST_RADIUS = 36.0
_STATIC = {
    "app.js": ("kbforge.serve", "static/app.js", "text/javascript"),
    "icon.svg": ("kbforge.serve", "static/icon.svg", "image/svg+xml"),
    "pages.css": ("kbforge.serve", "static/pages.css", "text/css"),
    "style.css": ("kbforge.kb", "style.css", "text/css"),
    "table.js": ("kbforge.kb", "table.js", "text/javascript"),
}

Name: TypeAlias = Annotated[str, Query(min_length=1, max_length=4_096)]
Text: TypeAlias = Annotated[str, Query(max_length=400)]


class Pages:
    """The pages of one store: a router, the templates, and the methods that give the facts."""

    def __init__(self, service: Service) -> None:
        self._service = service
        self.router = APIRouter(include_in_schema=False)
        self._templates = environment("kbforge.serve")
        self._files = {
            name: resources.files(package).joinpath(path).read_bytes()
            for name, (package, path, _) in _STATIC.items()
        }
        version = hashlib.sha256(b"".join(self._files.values())).hexdigest()[:12]
        self._templates.filters["static"] = lambda name: f"/static/{name}?{version}"
        self._templates.globals |= {
            "store": Path(service.readers.path).name,
            "version": __version__,
            "ways": _WAYS,
        }
        for name in _STATIC:
            self.router.add_api_route(f"/static/{name}", functools.partial(self._static, name))
        self.add("/", "home.html", self._home, _home_view)
        self.add("/entity/{id}", "entity.html", self._entity, _entity_view)
        self.add("/fragment", "fragment.html", self._fragment)
        self.add("/why", "why.html", self._why, _why_view)
        self.add("/compare", "compare.html", self._compare)
        self.add("/subproblem/{name}", "subproblem.html", self._subproblem, _subproblem_view)
        self.add("/neighbourhood/{id}", "neighbourhood.html", self._neighbourhood, _neighbourhood_view)

    def add(self, path: str, template: str, asked: Callable[..., Facts], view: View = dict) -> None:
        """Add a page, and its JSON; the parameters of `asked` are those of the address."""

        @functools.wraps(asked)
        def page(request: Request, **given: Any) -> Response:
            found = asked(**given)
            return self.page(request, template, found, way=path, **view(found), asked=given.get("q", ""))

        # FastAPI reads the parameters off the signature
        own = inspect.signature(asked)
        first = inspect.Parameter("request", inspect.Parameter.KEYWORD_ONLY, annotation=Request)
        page.__signature__ = own.replace(parameters=[*own.parameters.values(), first])
        self.router.add_api_route(f"{path}.json", asked)  # first, since a name may end so
        self.router.add_api_route(path, page, response_class=HTMLResponse)

    def page(self, request: Request, template: str, found: Facts, status: int = 200, **more: Any) -> HTMLResponse:
        """A page of what was found, with a link to the same as JSON."""
        url = request.url
        json = f"{url.path}.json" + (f"?{url.query}" if url.query else "")
        shown = self._templates.get_template(template).render(facts=found, json=json, here=url.path, **more)
        return HTMLResponse(shown, status)

    def _static(self, name: str) -> Response:
        kept = {"Cache-Control": "public, max-age=31536000, immutable"}
        return Response(self._files[name], media_type=_STATIC[name][2], headers=kept)

    def _home(self) -> Facts:
        readers = self._service.readers
        return facts.status(readers) | {
            "largest": facts.listing(readers, "largest", _MOST_LISTED)["entities"],
            "least_sure": facts.listing(readers, "least_sure", _MOST_LISTED)["entities"],
        }

    def _entity(self, id: str, first: Annotated[int, Query(ge=0)] = 0) -> Facts:
        return facts.entity(self._service.readers, id, first)

    def _fragment(self, id: Name) -> Facts:
        readers = self._service.readers
        return facts.fragment(readers, id) | {"similar": facts.similar(readers, id)["similar"]}

    def _why(self, fragment: Name) -> Facts:
        return facts.why(self._service.readers, fragment)

    def _compare(self, first: Name, second: Name) -> Facts:
        return facts.compare(self._service.readers, first, second)

    def _subproblem(self, name: int) -> Facts:
        return facts.subproblem(self._service.readers, name)

    def _neighbourhood(self, id: str) -> Facts:
        return facts.neighbourhood(self._service.readers, id)


def _home_view(found: Facts) -> Facts:
    numbers = ("entities", "fragments", "subproblems", "decisions")
    return {
        "tiles": [
            *((f"{found[name]:,}", name) for name in numbers),
            (f"{len(found['runs']):,}", "runs"),
            (f"{found['drift']:.2f}", "drift"),
        ],
        "lists": [
            ("Least sure", "A review asks about their fragments.", found["least_sure"]),
            ("Largest", "The entities with most fragments.", found["largest"]),
        ],
        "runs": found["runs"][: -_MOST_RUNS - 1 : -1],
    }


def _entity_view(found: Facts) -> Facts:
    own = [one["fragment"] for one in found["fragments"]]
    return {
        "attributes": list(found["properties"])[:_MOST_ATTRIBUTES],
        "most_values": _MOST_VALUES,
        "names": {one["id"]: (one["properties"].get("name") or [None])[0] for one in own},
        "own": {one["id"] for one in own},
    }


def _why_view(found: Facts) -> Facts:
    return {"own": next(one["entity"]["id"] for one in found["reasons"] if one["own"])}


def _subproblem_view(found: Facts) -> Facts:
    ids = found["fragments"]
    return {
        "names": {
            id: label.removesuffix(f" ({quoted(id)})")
            for id, label in zip(ids, found["labels"], strict=True)
        },
        "listed": [
            one | {"groups": [[ids[place] for place in group] for group in one["groups"]]}
            for one in found["groupings"]
        ],
    }


def _neighbourhood_view(found: Facts) -> Facts:
    """Circles in a box, lines between them, and the entities that the lines connect."""
    nodes = [
        node
        | {
            "x": round(_SCALE * node["x"], 1),
            "y": round(_SCALE * node["y"], 1),
            "r": round(min(8 + 4 * math.log2(node["size"]), _MOST_RADIUS), 1),
        }
        for node in found["nodes"]
    ]
    by_id = {node["id"]: node for node in nodes}
    edges = [
        edge | {"first": by_id[edge["first"]], "second": by_id[edge["second"]]}
        for edge in found["edges"]
    ]
    left, right = (f(node["x"] for node in nodes) for f in (min, max))
    top, bottom = (f(node["y"] for node in nodes) for f in (min, max))
    box = (left - _MARGIN, top - _MARGIN, right - left + 2 * _MARGIN, bottom - top + 2 * _MARGIN)
    return {
        "centre": nodes[0],
        "nodes": nodes,
        "edges": edges,
        "box": " ".join(f"{number:.0f}" for number in box),
    }
