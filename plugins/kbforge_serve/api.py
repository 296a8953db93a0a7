"""The API under /api: the facts of the pages as JSON, and all writing requests.

The OpenAPI document is /api/openapi.json. Everything that an answer reports as written is on disk.
Adding fragments is idempotent by id, so a request whose answer was lost can be repeated; if too
much is waiting, the answer is 503 with `Retry-After`.
"""

from __future__ import annotations

import asyncio
import io
from collections.abc import Sequence
from concurrent.futures import Future
from typing import Annotated, Any, Literal, TypeAlias

from fastapi import APIRouter, Depends, Path, Query, Request
from fastapi.responses import Response, StreamingResponse
from starlette.concurrency import run_in_threadpool
from starlette.types import Receive, Scope, Send

from kbforge.contracts import Fragment, Run
from kbforge.contracts.entity import Natural
from kbforge.contracts.fragment import MAX_ID_CHARACTERS, Shared
from kbforge.errors import UsageError
from kbforge.files.fragments import parse_json
from kbforge.files.io import lines_of
from kbforge.jobs.explain import Comparison
from kbforge.jobs.link import renamed
from kbforge.jobs.match import Match
from kbforge.store.audit import MOST_NAME, AuditLine, signed
from kbforge.store.changes import Changes
from kbforge.texts import LARGEST
from kbforge_serve import acts, export, facts, feed, imports, reasons, rules, schemas
from kbforge_serve.answers import Answer, EntityReference, schema_of
from kbforge_serve.decisions import Decisions, decisions_of
from kbforge_serve.frame import json_of
from kbforge_serve.listing import After, Columns, Listing, Order, Wanted, listing
from kbforge_serve.paths import Paths, paths_of
from kbforge_serve.questions import Answered, NextQuestion, TakenBack
from kbforge_serve.search import SearchResults
from kbforge_serve.service import Service
from kbforge_serve.writer import Added, Decided, Removed, Undone

MOST_ADDED = 10_000
"""Fragments of one request."""
_MOST_LISTED = 100
_MOST_REMOVED = 1_000  # fragments of one request
_LINES = ("application/x-ndjson", "application/ndjson", "application/jsonl", "application/x-jsonl")

FragmentId: TypeAlias = Annotated[
    str, Query(min_length=1, max_length=MAX_ID_CHARACTERS, description="Id of a fragment.")
]
Called: TypeAlias = Annotated[
    str, Query(min_length=1, max_length=MAX_ID_CHARACTERS, description="Id, fragment or name.")
]
EntityId: TypeAlias = Annotated[
    str, Query(min_length=1, max_length=MAX_ID_CHARACTERS, description="Id of an entity.")
]
Number: TypeAlias = Annotated[int, Path(ge=0, le=LARGEST)]
Before: TypeAlias = Annotated[
    int | None, Query(ge=0, le=LARGEST, description="List those with smaller numbers.")
]
By: TypeAlias = Annotated[str, Query(max_length=MOST_NAME, description="Only by this name.")]
RunNumber: TypeAlias = Annotated[int, Query(ge=0, le=LARGEST, description="Number of a run.")]


Renamed: TypeAlias = Annotated[
    Sequence[str], Query(alias="map", description="`COLUMN=ATTRIBUTE`: an attribute's new name.")
]
Limit: TypeAlias = Annotated[int, Query(ge=1, le=_MOST_LISTED)]


_FAILS: dict[int | str, dict[str, Any]] = {
    "4XX": {
        "model": schemas.Failure,
        "description": "The request cannot be honoured as it is.",
    },
    503: {"model": schemas.Failure, "description": "Try again after `Retry-After` seconds."},
}


async def _raw(request: Request) -> bytes:
    return await request.body()


Body: TypeAlias = Annotated[bytes, Depends(_raw)]


def _body(content: dict[str, Any]) -> dict[str, Any]:
    """The document's description of a body that is checked by hand."""
    told = {media: {"schema": schema} for media, schema in content.items()}
    return {"requestBody": {"required": True, "content": told}}


_COMPONENTS: dict[str, Any] = {}
"""The document's descriptions of the objects in answers, by name."""


def _says(answer: Any) -> dict[str, Any]:
    """The document's description of a route: its answer, and its errors."""
    schema = schema_of(answer, _COMPONENTS)
    return {
        "responses": {
            200: {"content": {"application/json": {"schema": schema}}},
            **_FAILS,
        },
    }


def complete(document: dict[str, Any]) -> dict[str, Any]:
    """The OpenAPI document with the objects that routes answer with."""
    document["components"]["schemas"].update(_COMPONENTS)
    return document


def router(service: Service) -> APIRouter:
    """The routes of the API."""
    routes = APIRouter(prefix="/api")
    reads = (_lists, _entities, _fragments, _export, _reasons)
    for add in (*reads, _adding, _decisions, _review, _history, _following):
        add(routes, service)
    acts.add(routes, service, _says)
    imports.add(routes, service, _says)
    rules.add(routes, service, _says)
    return routes


# --- what reads -----------------------------------------------------------------------------------


def _lists(routes: APIRouter, service: Service) -> None:
    readers = service.readers

    @routes.get("/status", summary="The store at a glance", **_says(facts.ServedStatus))
    def status() -> Response:
        return json_of(facts.status(readers))

    @routes.get("/search", summary="Search entities", **_says(SearchResults))
    def search(
        q: Annotated[str, Query(max_length=1_000, description="Words, the last one begun.")],
        limit: Limit = 20,
        cursor: Annotated[str | None, Query(description="What `next` said.")] = None,
    ) -> Response:
        """Find entities by the values and ids of their fragments; typos are tolerated."""
        return json_of(service.search.find(q, limit, cursor))

    @routes.get("/entities", summary="List entities", **_says(Listing))
    def listed(
        wanted: Wanted,
        order: Order = "largest",
        limit: Limit = 50,
        after: After = None,
        columns: Columns = (),
    ) -> Response:
        """List the entities that meet all conditions, the largest or the least sure first.

        `count` is exact or, if `exact` is false, an estimate; `after` requests the next page.
        """
        return json_of(listing(readers, wanted, order, limit, after, columns, service.search.words))


def _entities(routes: APIRouter, service: Service) -> None:
    readers = service.readers

    @routes.get(
        "/entities/{id}",
        summary="Get an entity",
        **_says(facts.EntityDetails | facts.FormerEntity),
    )
    def entity(
        id: Annotated[str, Path(max_length=MAX_ID_CHARACTERS)],
        first: Annotated[
            int, Query(ge=0, le=LARGEST, description="Place of the first fragment to give.")
        ] = 0,
        at: Annotated[
            str, Query(max_length=40, description="A time; `holds` says which values held then.")
        ] = "",
    ) -> Response:
        """Get an entity with its values, fragments, alternatives and history.

        For a former entity, get those that have its fragments now.
        """
        return json_of(facts.entity(readers, id, first, at))

    @routes.get(
        "/entities/{id}/stated",
        summary="Who names an entity",
        **_says(facts.StatedEntity | facts.FormerEntity),
    )
    def stated(
        id: Annotated[str, Path(max_length=MAX_ID_CHARACTERS)],
        begin: Annotated[
            int, Query(alias="from", ge=0, le=LARGEST, description="What `next` said.")
        ] = 0,
    ) -> Response:
        """List the entities whose values name an entity, by attribute, with the probability."""
        return json_of(facts.stated(readers, id, begin))

    @routes.get("/path", summary="How two entities are connected", **_says(Paths))
    def path(first: Called, second: Called) -> Response:
        """Find the shortest paths between two entities along the values that name entities."""
        return json_of(paths_of(readers, service.search, first, second))


def _fragments(routes: APIRouter, service: Service) -> None:
    readers = service.readers

    @routes.get("/fragment", summary="Get a fragment", **_says(facts.FoundFragment))
    def fragment(id: FragmentId) -> Response:
        """Get a fragment and its entity. Ids of fragments may have any characters."""
        return json_of(facts.fragment(readers, id))

    @routes.get("/similar", summary="Similar fragments", **_says(facts.SimilarFragments))
    def similar(fragment: FragmentId) -> Response:
        """List the fragments that may be the same entity as a fragment, with the probability."""
        return json_of(facts.similar(readers, fragment))

    @routes.get("/subproblems/{name}", summary="Get a subproblem", **_says(facts.SubproblemDetails))
    def subproblem(name: Number) -> Response:
        """Get a block of fragments that are clustered together, with its competing groupings."""
        return json_of(facts.subproblem(readers, name))


def _export(routes: APIRouter, service: Service) -> None:
    readers = service.readers

    @routes.get(
        "/export",
        summary="Export the knowledge base",
        response_class=StreamingResponse,
        responses={
            200: {"content": {media: {} for media in sorted({*export.MEDIA.values()})}},
            **_FAILS,
        },
    )
    def exported(
        wanted: Wanted,
        order: Order = "largest",
        format: Annotated[str, Query(json_schema_extra={"enum": [*export.MEDIA]})] = "jsonl",
        policy: Annotated[
            str | None,
            Query(description="Golden records: fused, most-stated, longest, latest or all."),
        ] = None,
    ) -> Response:
        """Stream all entities, or those that meet all conditions, in a format of `kbforge export`;
        the stream shows one state of the store."""
        chunks = export.export(readers, format, policy, wanted, order, service.search.words)
        name = f'attachment; filename="{export.name_of(format)}"'
        headers = {"Content-Disposition": name}
        return StreamingResponse(chunks, media_type=export.MEDIA[format], headers=headers)


def _reasons(routes: APIRouter, service: Service) -> None:
    readers = service.readers

    @routes.get("/why", summary="Why a fragment is in its entity", **_says(reasons.Why))
    def why(
        fragment: FragmentId, rivals: Annotated[int, Query(ge=0, le=_MOST_LISTED)] = 5
    ) -> Response:
        """Explain the contribution of each attribute for a fragment in its entity, and in
        rivals."""
        return json_of(reasons.why(readers, fragment, rivals))

    @routes.get("/compare", summary="Why not one entity", **_says(Comparison[EntityReference]))
    def compare(first: EntityId, second: EntityId) -> Response:
        """Explain the contribution of each attribute to merging two entities."""
        return json_of(reasons.compare(readers, first, second))

    @routes.post(
        "/match",
        summary="Match a fragment without keeping it",
        openapi_extra=_body({"application/json": schemas.GivenQuery.model_json_schema()}),
        **_says(Match[EntityReference]),
    )
    def match(body: Body, most: Limit = 10) -> Response:
        """Find the entities that a fragment would join if it were added now."""
        value = parse_json(body, "the body")
        if isinstance(value, dict) and value.get("id") is None:
            value = {**value, "id": "?"}
        return json_of(reasons.match(readers, Fragment.from_json(value, "the body"), most))


# --- what writes ----------------------------------------------------------------------------------


def fragments_of(body: bytes, media: str) -> list[Fragment]:
    """The fragments of a body: one, an array, or JSON lines; a bad one refuses the whole body.

    Raises:
        BadRecord: one is not a fragment.
        UsageError: there are none, or too many.

    """
    shared = Shared()
    if media.partition(";")[0].strip().lower() in _LINES:
        lines = [(f"line {n}", line) for n, line in lines_of(io.BytesIO(body), "the body")]
        values = [(where, parse_json(line, where)) for where, line in lines]
    else:
        value = parse_json(body, "the body")
        many = value if isinstance(value, list) else [value]
        values = [(f"fragment {n}", one) for n, one in enumerate(many, 1)]
    if not 1 <= len(values) <= MOST_ADDED:
        raise UsageError(f"expected from 1 to {MOST_ADDED:,} fragments, got {len(values):,}")
    return [Fragment.from_json(one, where, shared) for where, one in values]


def _adding(routes: APIRouter, service: Service) -> None:
    one = schemas.GivenFragment.model_json_schema()
    several = {"type": "array", "items": one, "minItems": 1, "maxItems": MOST_ADDED}
    lines = {"type": "string", "description": "One fragment a line."}

    @routes.post(
        "/fragments",
        summary="Add fragments",
        openapi_extra=_body({"application/json": {"oneOf": [one, several]}, _LINES[0]: lines}),
        **_says(Added),
    )
    async def add(
        request: Request,
        on_duplicate: Literal["error", "replace"] = "error",
        attributes: Renamed = (),
    ) -> Response:
        """Add one fragment, an array of them, or JSON lines: all of them or none.

        Fragments already in the store are skipped. `on_duplicate` says what to do with a stored id
        and different content. Fragments most of whose values are in attributes that the store does
        not have are refused; `map`, once per attribute, renames one (`Nombre=name`), leaves it out
        (`Nombre=`) or adds it as a new one (`Nombre=Nombre`).
        """
        body, media = await request.body(), request.headers.get("content-type", "")

        def submitted() -> Future[Added]:
            given, named = renamed(fragments_of(body, media), attributes, strict=False)
            return service.writer.add(given, on_duplicate, named)

        # it may wait for long, and then without a thread
        return json_of(await asyncio.wrap_future(await run_in_threadpool(submitted)))

    @routes.delete("/fragments", summary="Remove fragments", **_says(Removed))
    async def remove(
        ids: Annotated[list[FragmentId], Query(alias="id", min_length=1, max_length=_MOST_REMOVED)],
        secure: Annotated[bool, Query(description="Erase their content from the file.")] = False,
    ) -> Response:
        """Remove fragments, all or none; those removed earlier are passed over."""
        return json_of(await asyncio.wrap_future(service.writer.remove(ids, secure)))


def _decisions(routes: APIRouter, service: Service) -> None:
    writer = service.writer

    @routes.post("/decisions", summary="Decide about two fragments", **_says(Decided))
    async def decide(said: schemas.GivenDecision) -> Response:
        """Decide that two fragments are the same entity, or are not, in every later grouping.

        A decision in force is not repeated; one that contradicts others is refused.
        """
        with signed(None, said.note):
            future = writer.honour(said.same, said.first, said.second)
        return json_of(await asyncio.wrap_future(future))

    @routes.post("/decisions/{number}/undo", summary="Undo a decision", **_says(Undone))
    async def undo(number: Number) -> Response:
        """Withdraw a decision; a withdrawn decision stays so."""
        return json_of(await asyncio.wrap_future(writer.undo(number)))

    @routes.get("/decisions", summary="List decisions", **_says(Decisions))
    def decisions(
        before: Before = None, limit: Limit = _MOST_LISTED, by: By = "", in_force: bool = False
    ) -> Response:
        """List the decisions with who made each, the latest first, including withdrawn ones."""
        return json_of(decisions_of(service.readers, before, limit, by, in_force))


def _review(routes: APIRouter, service: Service) -> None:
    questions = service.questions

    @routes.get("/review", summary="The next question", **_says(NextQuestion))
    def question() -> Response:
        """Get the question with the largest expected correction, with its evidence."""
        return json_of(questions.next())

    @routes.post("/review", summary="Answer a question", **_says(Answered))
    def answer(said: schemas.GivenAnswer) -> Response:
        """Decide whether the two fragments of a question are one entity, skip it, or say that you
        cannot tell: then nobody is asked again until the decision is undone."""
        pair = said.first, said.second
        with signed(None, said.note):
            return json_of(questions.answer(*pair, said.same, said.cannot_tell))

    @routes.post("/review/undo", summary="Undo an answer", **_says(TakenBack))
    def take_back() -> Response:
        """Undo the last answer given to this server, and ask again."""
        return json_of(questions.undo())


# --- what happened --------------------------------------------------------------------------------


def _history(routes: APIRouter, service: Service) -> None:
    readers = service.readers

    @routes.get("/runs", summary="List runs", **_says(Runs))
    def runs(before: Before = None, limit: Limit = _MOST_LISTED) -> Response:
        """List what wrote to the store, the latest first."""
        with readers.store() as store:
            found = store.last_runs(limit, before)
        return json_of(Runs(found, _next(found, limit)))

    @routes.get("/audit", summary="Who wrote what", **_says(Audit))
    def audit(before: Before = None, limit: Limit = _MOST_LISTED) -> Response:
        """List runs, decisions and undos with who made them and why, the latest first.

        `chain` binds a line to the one before it. `said` is null if it was erased.
        """
        with readers.store() as store:
            found = store.last_lines(limit, before)
        return json_of(Audit(found, _next(found, limit)))


def _following(routes: APIRouter, service: Service) -> None:
    readers, follow = service.readers, service.feed

    @routes.get("/changes", summary="What changed since a run", **_says(Changes))
    async def changes(
        since: RunNumber,
        to: Annotated[
            int | None, Query(ge=0, le=LARGEST, description="Number of a later run.")
        ] = None,
        after: Annotated[str, Query(description="What `after` said.")] = "",
        limit: Annotated[int, Query(ge=1, le=feed.MOST_CHANGES)] = 1_000,
        wait: Annotated[
            float, Query(ge=0, le=feed.LONGEST, description="Seconds to wait for a run.")
        ] = 0.0,
    ) -> Response:
        """List the entities that changed since a run ended, by id.

        With `wait`, an answer without changes comes only after this many seconds (long poll).
        """
        if wait and to is None:
            await follow.wait(since, wait)
        return json_of(await run_in_threadpool(feed.changed, readers, since, to, limit, after))

    @routes.get(
        "/changes/stream",
        summary="Follow changes",
        response_class=StreamingResponse,
        responses={
            200: {
                "content": {"text/event-stream": {}},
                "description": "Server-sent events `changes`, each as GET /api/changes answers.",
            },
            **_FAILS,
        },
    )
    async def stream(
        request: Request,
        since: Annotated[
            int | None, Query(ge=0, le=LARGEST, description="Number of a run; default: the last.")
        ] = None,
    ) -> Response:
        """Follow the changes of runs; a client that reconnects continues with `Last-Event-ID`."""
        last = request.headers.get("last-event-id", "")
        begin = int(last) if last.isascii() and last.isdecimal() and len(last) < 19 else since
        if begin is not None:  # it is refused here if there is no such run
            await run_in_threadpool(feed.changed, readers, begin, begin)
        return _Events(follow, begin)


class Runs(Answer, frozen=True):
    """Some runs, the latest first; `next` requests the earlier ones."""

    runs: list[Run]
    next: Natural | None


class Audit(Answer, frozen=True):
    """Some lines of the audit, the latest first; `next` requests the earlier ones."""

    lines: list[AuditLine]
    next: Natural | None


class _Events(StreamingResponse):
    """Server-sent events, which occupy a place until the client disconnects."""

    def __init__(self, follow: feed.Feed, since: int | None) -> None:
        super().__init__(follow.events(since), media_type="text/event-stream")
        self._follow = follow

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        with self._follow.place():
            await super().__call__(scope, receive, send)


def _next(found: Sequence[Run | AuditLine], limit: int) -> int | None:
    """The number before which to continue, if there may be more."""
    return found[-1].number if len(found) == limit and found[-1].number > 1 else None
