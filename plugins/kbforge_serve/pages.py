"""Pages: each renders the object that its `.json` address returns."""

from __future__ import annotations

import functools
import inspect
import math
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Annotated, Any, Literal, TypeAlias
from urllib.parse import urlencode

from fastapi import APIRouter, Depends, Form, Query, Request
from fastapi.responses import HTMLResponse, RedirectResponse, Response

from kbforge.errors import ContradictionError, LikelihoodError, UsageError, quoted
from kbforge.jobs.explain import Comparison
from kbforge.store.audit import MOST_NOTE, signed
from kbforge.texts import LARGEST
from kbforge_serve import acts, export, facts, frame, imports, reasons, rules
from kbforge_serve.answers import EntityReference, Facts, plain
from kbforge_serve.decisions import decisions_of
from kbforge_serve.effects import observed
from kbforge_serve.failures import sentence_of, status_of
from kbforge_serve.listing import ORDERS, After, Columns, Order, Wanted, listing
from kbforge_serve.neighbourhood import neighbourhood
from kbforge_serve.paths import end_of, paths
from kbforge_serve.runs import runs_of
from kbforge_serve.search import parts_of
from kbforge_serve.service import Service
from kbforge_serve.timeline import timeline
from kbforge_serve.writer import removing

View: TypeAlias = Callable[[Facts], Facts]
"""A template's inputs besides the facts: names, orders, coordinates."""

_MOST_ATTRIBUTES = 10  # columns of a table of fragments
_MOST_LISTED = 12  # entities of a list at home
_MOST_ROWS = 50  # of the list of all entities
_MOST_RUNS = 5  # at home
_MOST_PROPERTIES = 60  # attributes whose values are listed
_MOST_VALUES = 12  # of an attribute
_MOST_RESULTS = 20
_DRAWINGS = (("broad", 720, 480, 24), ("narrow", 360, 480, 14))
"""Of a neighbourhood, for a screen and a phone: width, height, characters of a name."""
_BESIDE = 60  # left and right of the circles, for their names
_CHARACTER, _LINE = 8, 16  # room for text there
_LONGEST_ID = 4_096  # characters
_SAME = {"same": True, "different": False}

Name: TypeAlias = Annotated[str, Query(min_length=1, max_length=_LONGEST_ID)]
Text: TypeAlias = Annotated[str, Query(max_length=400)]
Time: TypeAlias = Annotated[str, Query(max_length=40)]
Note: TypeAlias = Annotated[str, Form(max_length=MOST_NOTE)]
Cursor: TypeAlias = Annotated[str | None, Query(max_length=40)]


def _asked(request: Request) -> list[tuple[str, str]]:
    """The parameters of an address that have a value."""
    return [(name, said) for name, said in request.query_params.multi_items() if said]


Asked: TypeAlias = Annotated[list[tuple[str, str]], Depends(_asked)]


def router(service: Service) -> APIRouter:
    """The pages of a store."""
    return Pages(service).router


class Pages:
    """The pages of one store: their addresses, and the methods that return the facts."""

    def __init__(self, service: Service) -> None:
        self._service = service
        self._store = Path(service.readers.path).name
        self.router = APIRouter(include_in_schema=False)
        self.add("/", "home.html", self._home, _home_view)
        self.add("/search", "search.html", self._search, lambda _: {"parts_of": parts_of})
        formats = {"formats": export.TABLES}
        self.add("/entities", "entities.html", self._entities, lambda _: formats)
        self.add("/entity/{id}", "entity.html", self._entity, _entity_view)
        self.add("/stated/{id}", "stated.html", self._stated)
        self.add("/path", "path.html", self._path)
        self.add("/fragment", "fragment.html", self._fragment)
        self.add("/why", "why.html", self._why)
        self.add("/compare", "compare.html", self._compare, lambda _: {"most": _MOST_PROPERTIES})
        block = functools.partial(facts.subproblem, service.readers)
        self.add("/subproblem/{name}", "subproblem.html", block, _subproblem_view)
        self.add("/runs", "runs.html", self._runs)
        self.add("/quality", "quality.html", service.quality.facts, _quality_view)
        near = functools.partial(neighbourhood, service.readers)
        self.add("/neighbourhood/{id}", "neighbourhood.html", near, _neighbours_view)
        self.add("/review", "review.html", service.questions.next, _review_view)
        self.router.add_api_route("/review", self._answer, methods=["POST"])
        self.add("/decisions", "decisions.html", self._decisions)
        self.router.add_api_route("/decisions", self._undo, methods=["POST"])
        imports.add_pages(self, service)
        rules.add_pages(self, service, self._store)
        self.router.add_api_route("/acts", self._act, methods=["POST"])
        self.router.add_api_route("/acts/undo", self._undo_act, methods=["POST"])
        self.router.add_api_route("/remove", self._remove, methods=["POST"])

    def add(self, path: str, template: str, asked: Callable[..., Any], view: View = dict) -> None:
        """Add a page, and its JSON; the parameters of `asked` are those of the address."""

        @functools.wraps(asked)
        def page(request: Request, **given: Any) -> Response:
            found = plain(asked(**given))
            if "now" in found:
                return self._moved(request, path, found)
            return self._page(request, template, found, **view(found))

        @functools.wraps(asked)
        def as_json(**given: Any) -> Response:
            # what FastAPI does to other answers, value by value, takes longer than finding them
            return frame.json_of(asked(**given))

        # FastAPI reads the parameters off the signature
        own = inspect.signature(asked)
        first = inspect.Parameter("request", inspect.Parameter.KEYWORD_ONLY, annotation=Request)
        page.__signature__ = own.replace(parameters=[*own.parameters.values(), first])  # type: ignore[attr-defined]
        # first, since a name may end so
        self.router.add_api_route(f"{path}.json", as_json, response_model=None)
        self.router.add_api_route(path, page, response_class=HTMLResponse, response_model=None)

    def _page(self, request: Request, template: str, found: Facts, **more: Any) -> HTMLResponse:
        """A page of facts, with the address of the same facts as JSON."""
        url = request.url
        json = f"{url.path}.json" + (f"?{url.query}" if url.query else "")
        return frame.page(request, template, self._store, facts=found, json=json, **more)

    def _moved(self, request: Request, path: str, found: Facts) -> Response:
        """Redirect from a former entity to the one that has its fragments, or to a choice of
        several."""
        if len(found["now"]) != 1:
            return self._page(request, "former.html", found)
        (now,) = found["now"]
        return RedirectResponse(path.replace("{id}", now["id"]), 307)

    def _home(self) -> Facts:
        readers = self._service.readers
        return plain(facts.status(readers)) | {
            order: listing(readers, order=order, most=_MOST_LISTED).entities for order in ORDERS[:2]
        }

    def _entities(
        self,
        asked: Asked,
        wanted: Wanted,
        order: Order = "largest",
        after: After = None,
        columns: Columns = (),
    ) -> Facts:
        """A page of the list, and the filter that its form shows."""
        service = self._service
        columns = [column for column in columns if column]
        found = listing(
            service.readers, wanted, order, _MOST_ROWS, after, columns, service.search.words
        )
        asked = [one for one in asked if one[0] != "after"]
        with service.readers.store() as store:
            attributes = list(store.attributes)
        given: Facts = {"where": [], "columns": columns}
        for name, said in asked:
            if name == "where":
                given["where"].append(said)
            elif name != "columns":
                given[name] = said
        shown = {"given": given, "asked": asked, "rest": urlencode(asked)}
        return {**plain(found), **shown, "attributes": attributes}

    def _search(self, q: Text = "", cursor: Cursor = None) -> Facts:
        if not q.strip():
            return {"q": q, "results": [], "next": None}
        return {"q": q, **plain(self._service.search.find(q, _MOST_RESULTS, cursor))}

    def _entity(
        self, id: str, first: Annotated[int, Query(ge=0)] = 0, at: Time = ""
    ) -> facts.EntityDetails | facts.FormerEntity:
        return facts.entity(self._service.readers, id, first, at.strip())

    def _stated(
        self, id: str, begin: Annotated[int, Query(alias="from", ge=0, le=LARGEST)] = 0
    ) -> facts.StatedEntity | facts.FormerEntity:
        return facts.stated(self._service.readers, id, begin)

    def _path(self, first: Text = "", second: Text = "") -> Facts:
        """What two texts mean and, if each is one entity, how these are connected."""
        readers, search = self._service.readers, self._service.search
        one, other = (end_of(readers, search, text) for text in (first, second))
        found = None
        if one.entity is not None and other.entity is not None:
            found = paths(readers, one.entity.id, other.entity.id)
        return {"first": plain(one), "second": plain(other), "result": found and plain(found)}

    def _fragment(self, id: Name) -> Facts:
        readers = self._service.readers
        return plain(facts.fragment(readers, id)) | {"similar": facts.similar(readers, id).similar}

    def _why(self, fragment: Name) -> reasons.Why:
        return reasons.why(self._service.readers, fragment)

    def _compare(self, first: Name, second: Name) -> Comparison[EntityReference]:
        return reasons.compare(self._service.readers, first, second)

    def _runs(
        self,
        first: Annotated[int | None, Query(alias="from")] = None,
        second: Annotated[int | None, Query(alias="to")] = None,
    ) -> Facts:
        return runs_of(self._service.readers, self._service.computations, first, second)

    def _decisions(
        self,
        by: Text = "",
        all: bool = False,
        before: Annotated[int | None, Query(ge=0, le=LARGEST)] = None,
    ) -> Facts:
        found = decisions_of(self._service.readers, before, _MOST_ROWS, by, in_force=not all)
        return {**plain(found), "by": by, "all": all}

    def _undo(
        self, request: Request, number: Annotated[int, Form(ge=0, le=LARGEST)], note: Note = ""
    ) -> Response:
        """Withdraw a decision, and show the page again."""
        with signed(None, note):
            self._service.writer.undo(number).result()
        return RedirectResponse(request.url, 303)

    def _act(
        self, request: Request, given: Annotated[acts.ActForm, Form()], wanted: Wanted
    ) -> Response:
        """Show what an act would do or, if it is confirmed, what it did."""
        service = self._service
        sent = given.model_dump(exclude={"take", "note"}, exclude_defaults=True)
        shown: Facts = {"act": given.act, "sent": sent, "query": request.url.query}
        for name in {"entity", "other"} & sent.keys():
            end = end_of(service.readers, service.search, sent[name])
            if end.entity is None:
                return frame.page(request, "acts.html", self._store, unclear=end, **shown, at=name)
            sent[name] = end.entity.id
        try:
            meant = given.model_copy(update=sent)
            done = plain(acts.acted(service, meant, not given.take, wanted))
        except (UsageError, LikelihoodError) as error:
            said, status = sentence_of(error, service.readers.path), status_of(error)
            return frame.page(request, "acts.html", self._store, status, error=said, **shown)
        return frame.page(request, "acts.html", self._store, done=done, **shown)

    def _undo_act(
        self, request: Request, run: Annotated[int, Form(ge=0, le=LARGEST)], note: Note = ""
    ) -> Response:
        """Withdraw the decisions of a run, and show what that did."""
        done = plain(acts.undone(self._service, run, note=note))
        return frame.page(request, "acts.html", self._store, act="undo", done=done)

    def _remove(
        self,
        request: Request,
        id: Annotated[str, Form(min_length=1, max_length=_LONGEST_ID)],
        take: Annotated[Literal["", "remove", "erase"], Form()] = "",
        note: Note = "",
    ) -> Response:
        """Show what the removal of a fragment takes away or, if it is confirmed, remove it."""
        readers, writer = self._service.readers, self._service.writer
        found = plain(facts.fragment(readers, id))
        with readers.store() as store:
            found["decisions"] = len(store.decisions_about([id]))
        with signed(None, note):
            if take == "erase":  # the file is rewritten, which a reader beside it would prevent
                writer.remove([id], secure=True).result()
                effect = None
            else:
                act = observed(readers, removing([id]))
                effect = plain(writer.perform(act, rehearse=not take).result()[1])
        shown: Facts = {"facts": found, "effect_of_it": effect, "take": take}
        return frame.page(request, "remove.html", self._store, **shown)

    def _answer(
        self,
        request: Request,
        answer: Annotated[Literal["same", "different", "cannot tell", "skip", "undo"], Form()],
        first: Annotated[str, Form(max_length=_LONGEST_ID)] = "",
        second: Annotated[str, Form(max_length=_LONGEST_ID)] = "",
        note: Note = "",
    ) -> Response:
        """Accept an answer; the page shows its effect and the next question."""
        questions = self._service.questions
        shown = _review_view({})
        status = 200
        said = _SAME.get(answer), answer == "cannot tell"
        try:
            with signed(None, note):
                if answer == "undo":
                    shown["done"] = plain(questions.undo())
                else:
                    shown["done"] = plain(questions.answer(first, second, *said))
        except (ContradictionError, LikelihoodError) as error:
            shown["error"] = sentence_of(error, self._service.readers.path)
            status = status_of(error)
        if (done := shown["done"]) is not None:
            shown["said"] = _said(answer, done)
        found = plain(questions.next())
        return self._page(request, "review.html", found, status=status, **shown)


def _home_view(found: Facts) -> Facts:
    numbers = [
        (found["entities"], ("entity", "entities"), "/entities"),
        (found["fragments"], ("fragment", "fragments"), None),
        (found["decisions"], ("decision", "decisions"), "/decisions"),
        (found["n_runs"], ("run", "runs"), "/runs"),
    ]
    return {
        "tiles": [(f"{number:,}", noun[number != 1], way) for number, noun, way in numbers],
        "lists": [
            ("Least sure", "A review asks about their fragments.", found["least_sure"]),
            ("Largest", "The entities with most fragments.", found["largest"]),
        ],
        "runs": found["runs"][: -_MOST_RUNS - 1 : -1],
    }


def _entity_view(found: Facts) -> Facts:
    own = [one["fragment"] for one in found["fragments"]]
    present = {
        "probability": found["reported"],
        "said": "as it is",
        "groups": [[one["id"] for one in own]],
        "sizes": [found["size"]],
    }
    shown = dict(list(found["properties"].items())[:_MOST_PROPERTIES])
    names = {one["id"]: (one["properties"].get("name") or [None])[0] for one in own}
    competing = []
    for one in found["alternatives"]:  # fragments of another entity are shown as that entity
        names |= {other["id"]: other["name"] for other in one["others"]}
        groups = [[*dict.fromkeys(one["homes"].get(f, f) for f in part)] for part in one["groups"]]
        competing.append(one | {"groups": groups, "sizes": [*map(len, groups)]})
    return {
        "timeline": timeline({a: of[:_MOST_VALUES] for a, of in shown.items()}, found["at"]),
        "attributes": list(found["properties"])[:_MOST_ATTRIBUTES],
        "most_properties": _MOST_PROPERTIES,
        "most_values": _MOST_VALUES,
        "names": names,
        "own": {one["id"] for one in own},
        "groupings_kept": [present, *competing],
    }


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


def _quality_view(found: Facts) -> Facts:
    gold = found["gold"]
    return {
        "sizes": [(one["size"], one["entities"]) for one in found["sizes"]],
        "intervals": [
            (f"{one['low'] * 100:.0f} to {one['high'] * 100:.0f} %", one["entities"])
            for one in found["confidence"]
        ],
        "labelled": [(b["stated"], b["right"], b["entities"]) for b in gold.get("bands", ())],
        "answered": [(b["reported"], b["share"], b["count"]) for b in found["answers"]["table"]],
    }


def _neighbours_view(found: Facts) -> Facts:
    """Drawings, each with the places of its circles."""
    drawings = [(kind, *size, _placed(found["nodes"], *size)) for kind, *size in _DRAWINGS]
    by_id = {node["id"]: node for node in found["nodes"]}
    edges = [
        edge
        | {
            "first": by_id[edge["first"]],
            "second": by_id[edge["second"]],
            "kind": next(kind for kind in ("joined", "links", "values", "keys") if edge[kind]),
            "links": [
                (by_id[head], attribute, by_id[tail])
                for head, attribute in edge["links"]
                for tail in {edge["first"], edge["second"]} - {head}
            ],
        }
        for edge in found["edges"]
    ]
    return {"edges": edges, "drawings": drawings}


def _placed(found: Sequence[Facts], width: int, height: int, most: int) -> dict[str, Facts]:
    """Circles by id, with the height of their names, which overlap no others: under the circle, or
    over it, or not at all."""
    nodes = {
        node["id"]: node
        | {
            "at": round(_BESIDE + (width - 2 * _BESIDE) * node["x"]),
            "down": round(height * node["y"]),
            "radius": round(min(5 + 3 * math.log2(node["size"]), 20)),
        }
        for node in found
    }
    taken = list[tuple[int, int, int]]()  # the middle, half the width, and the height
    for node in nodes.values():
        at, half = node["at"], _CHARACTER * min(len(node["name"]), most) // 2
        places = node["down"] + node["radius"] + 13, node["down"] - node["radius"] - 5
        free = (
            place
            for place in places
            if all(abs(at - x) >= half + w or abs(place - y) >= _LINE for x, w, y in taken)
        )
        node["label"] = next(free, None)
        if node["label"] is not None:
            taken.append((at, half, node["label"]))
    return nodes


def _review_view(_: Facts) -> Facts:
    """Whether nothing was answered."""
    return {"done": None, "error": None}


def _said(answer: str, done: Facts) -> str:
    """What an answer did, in words."""
    if answer == "skip":
        return "Skipped for now."
    if answer == "cannot tell":
        return "Nobody will be asked about these two again."
    if answer == "undo":
        return "Undone." if done["undone"] else "There was no answer to undo."
    said = "One entity." if answer == "same" else "Two entities."
    return f"{said} That was decided before." if done["already"] else said
