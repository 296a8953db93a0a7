"""Reconciliation: matches a column of names with a store, for OpenRefine.

The service implements version 0.2 of the Reconciliation Service API (W3C Entity Reconciliation
Community Group) at /reconcile. A query becomes a fragment that is matched but not added:

| of a candidate | is |
|---|---|
| score | the reported probability that the fragment joins the entity, in percent |
| match | whether the calibrated probability of the first is at least `CERTAIN` |
| features | the contribution of each attribute, in nats; the prior; the calibrated probability |

Entities that the search finds follow, those that only it finds with score 0, and then improbable
candidates (`_LIKELY`). The id of an entity as a query is that
entity. Nothing here writes, so pages of this machine may ask, and those of origins that were
allowed (`kbforge_serve.security.Access`).
"""

from __future__ import annotations

import math
import re
from collections.abc import Collection, Mapping, Sequence
from pathlib import Path
from typing import Annotated, Any, Literal, TypeAlias
from urllib.parse import quote

import msgspec
from fastapi import APIRouter, Form, Query, Request
from fastapi.responses import HTMLResponse, JSONResponse, Response
from msgspec import Meta, Struct

from kbforge.contracts import Fragment
from kbforge.errors import BadRecord, LikelihoodError, UsageError, quoted
from kbforge.jobs.match import Candidate
from kbforge.kb.entities import described, naming
from kbforge.kb.view import Policy, golden
from kbforge.store.store import Store
from kbforge.store.tables import row_of
from kbforge.version import __version__
from kbforge_serve import frame, reasons
from kbforge_serve.answers import EntityReference, Facts
from kbforge_serve.facts import references
from kbforge_serve.failures import failure, sentence_of
from kbforge_serve.readers import Readers
from kbforge_serve.security import READ_ONLY, Access
from kbforge_serve.service import Service

CERTAIN = 0.7
"""The minimum calibrated probability of a match. A client accepts matches without asking, so few
may be wrong; examples/reproductions/reconcile.py measures how many are."""
_LIKELY = 0.01
"""The minimum reported probability of candidates before those that the search finds. None is before
them if the query is part of a name: the spelling orders all entities of a first name better."""
BATCH = 50
"""Maximum number of queries in one batch."""
_MOST_CANDIDATES = 50
_CANDIDATES = 10
_MOST_IDS = 500  # entities of one extension
_MOST_PROPERTIES = 50
_MOST_MEMBERS = 500  # fragments of an entity that are read for its values
_FEW_MEMBERS = 20  # for its description
_MOST_VALUES = 100  # of a property
_LONGEST = 200  # characters of a description's value
_DESCRIBED = 3  # values in a description
_SUGGESTED = 20
_TYPE = {"id": "entity", "name": "Entity"}
_SIZE = {"width": 400, "height": 240}
_FRAMED = (
    "default-src 'none'; style-src 'self'; img-src 'self' data:; base-uri 'none'; "
    "form-action 'none'; frame-ancestors "
)
"""The policy of a preview, which other sites' pages embed; their origins follow."""
_SETTINGS = [
    {
        "name": "limit",
        "label": "Limit",
        "type": "number",
        "default": 1,
        "help_text": "Maximum number of values, the golden one first (0 for all)",
    }
]


class _Reference(Struct):
    """A value that is an entity, or a property of an extension with its settings."""

    id: str
    name: str | None = None
    settings: dict[str, Any] = {}


_Value: TypeAlias = str | bool | int | float | _Reference


class _Property(Struct):
    """A value, or several, of an attribute."""

    pid: str
    v: _Value | Annotated[list[_Value], Meta(max_length=100)]


class _Query(Struct, forbid_unknown_fields=True):
    """One query of a batch."""

    query: Annotated[str, Meta(min_length=1, max_length=1000)] | None = None
    type: str | list[str] | None = None
    limit: Annotated[float, Meta(gt=0)] = _CANDIDATES
    properties: Annotated[list[_Property], Meta(max_length=100)] = []
    type_strict: Literal["any", "should", "all"] = "should"

    def __post_init__(self) -> None:
        if self.query is None and not self.properties:
            raise ValueError("a query needs a query string or properties")


class _Extension(Struct):
    """The requested values of some entities."""

    ids: Annotated[list[str], Meta(max_length=_MOST_IDS)]
    properties: Annotated[list[_Reference], Meta(max_length=_MOST_PROPERTIES)]


_BATCHES = msgspec.json.Decoder(dict[str, msgspec.Raw])
_QUERIES = msgspec.json.Decoder(_Query)
_EXTENSIONS = msgspec.json.Decoder(_Extension)
_EXPECTED: Mapping[msgspec.json.Decoder[Any], Mapping[str, str]] = {
    _BATCHES: {"": 'a JSON object such as {"q0": {"query": "a name"}}'},
    _QUERIES: {
        "": "an object with query or properties, and only limit, type and type_strict besides",
        "query": "a string of 1 to 1,000 characters",
        "type": "a string or a list of strings",
        "limit": "a number above 0",
        "properties": "a list of at most 100 objects with pid and v",
        "type_strict": "any, should or all",
    },
    _EXTENSIONS: {
        "": "a JSON object with ids and properties",
        "ids": f"a list of at most {_MOST_IDS} strings",
        "properties": f"a list of at most {_MOST_PROPERTIES} objects with an id",
    },
}
"""What a client must send, by field; "" is the whole."""

Text: TypeAlias = Annotated[str, Query(max_length=400)]
Cursor: TypeAlias = Annotated[int, Query(ge=0, le=100_000)]


def router(service: Service, access: Access) -> APIRouter:
    """The reconciliation service of a store."""
    made = _Reconciliation(service, access)
    routes = APIRouter(prefix=READ_ONLY, include_in_schema=False)
    for end in ("", "/"):  # clients send either, and some follow no redirect of a POST
        routes.add_api_route(end, made.get, methods=["GET"])
        routes.add_api_route(end, made.post, methods=["POST"])
    routes.add_api_route("/suggest/entity", made.entities)
    routes.add_api_route("/suggest/property", made.attributes)
    routes.add_api_route("/suggest/type", made.types)
    routes.add_api_route("/properties", made.proposed)
    routes.add_api_route("/preview", made.preview, response_class=HTMLResponse)
    return routes


class _Reconciliation:
    """The addresses of the service."""

    def __init__(self, service: Service, access: Access) -> None:
        self._service, self._readers = service, service.readers
        self._framed = _FRAMED + access.sites
        self._name = Path(service.readers.path).name

    def get(
        self, request: Request, queries: str | None = None, extend: str | None = None
    ) -> Response:
        """The manifest, or the answers to a query in the address."""
        if queries is None and extend is None:
            return JSONResponse(self._manifest(str(request.base_url).rstrip("/")))
        return self._answer(request, queries, extend)

    def post(
        self,
        request: Request,
        queries: Annotated[str | None, Form()] = None,
        extend: Annotated[str | None, Form()] = None,
    ) -> Response:
        """The answers to a query in a form."""
        if queries is None and extend is None:
            raise UsageError('reconcile: expected the form field "queries" or "extend"')
        return self._answer(request, queries, extend)

    def _answer(self, request: Request, queries: str | None, extend: str | None) -> Response:
        if queries is None:
            return JSONResponse(self._extended(_read(_EXTENSIONS, "extend", extend or "")))
        batch: dict[str, msgspec.Raw] = _read(_BATCHES, "queries", queries)
        if len(batch) > BATCH:
            sentence = f"expected at most {BATCH} queries in a batch, got {len(batch):,}"
            return failure(request, 413, sentence)
        answers = {key: self._result(key, query) for key, query in batch.items()}
        errors = [one["error"] for one in answers.values() if "error" in one]
        if errors and len(errors) == len(answers):
            raise UsageError(errors[0])
        return JSONResponse(answers)

    def _manifest(self, base: str) -> Facts:
        here = f"{base}{READ_ONLY}"
        return {
            "versions": ["0.2"],
            "name": f"{self._name} (KBForge)",
            "identifierSpace": f"{base}/entity/",
            "schemaSpace": "https://schema.org/Thing",
            "serviceVersion": __version__,
            "defaultTypes": [_TYPE],
            "view": {"url": f"{base}/entity/{{{{id}}}}"},
            "preview": {"url": f"{here}/preview?id={{{{id}}}}", **_SIZE},
            "suggest": {
                kind: {"service_url": here, "service_path": f"/suggest/{kind}"}
                for kind in ("entity", "property", "type")
            },
            "extend": {
                "propose_properties": {"service_url": here, "service_path": "/properties"},
                "property_settings": _SETTINGS,
            },
            "batchSize": BATCH,
        }

    # --- queries ---

    def _result(self, key: str, query: msgspec.Raw) -> Facts:
        """The answer to one query of a batch; an error affects only this query."""
        try:
            return {"result": self._candidates(_read(_QUERIES, f'query "{quoted(key)}"', query))}
        except (BadRecord, LikelihoodError, UsageError) as error:
            return {"result": [], "error": sentence_of(error, self._readers.path)}

    def _candidates(self, query: _Query) -> list[Facts]:
        """The candidates for one query, the most probable first."""
        most = min(max(1, int(query.limit)), _MOST_CANDIDATES)
        if not _has_type(query):
            return []
        with self._readers.store() as store:
            if query.query is not None and row_of(store.database.connection, "entity", query.query):
                return self._said(store, {query.query: _CERTAIN})
            attributes = _attributes(store)
        fragment, matched = _fragment(query, attributes), list[Candidate[EntityReference]]()
        if fragment is not None:
            matched = [*reasons.match(self._readers, fragment, most).candidates]
        verdicts = {one.entity.id: _verdict(one, one is matched[0]) for one in matched}
        least = 2.0 if _is_part(query, attributes) else _LIKELY
        first = [one.entity.id for one in matched if one.reported >= least]
        if query.query is not None and len(first) < most:
            found = self._service.search.find(query.query, most).results
            first += [one.id for one in found]
        order = list(dict.fromkeys([*first, *verdicts]))[:most]
        with self._readers.store() as store:
            return self._said(store, {id: verdicts.get(id, _UNSURE) for id in order})

    def _said(self, store: Store, verdicts: Mapping[str, Facts]) -> list[Facts]:
        """Candidates, by entity; former entities are left out."""
        return [
            {**_summary(store, one), "type": [_TYPE], **verdicts[one.id]}
            for one in references(self._readers, store, list(verdicts))
        ]

    # --- suggestions ---

    def entities(self, prefix: Text = "", cursor: Cursor = 0) -> Facts:
        """Entities whose name or id begins with the text."""
        found = self._service.search.find(prefix, _SUGGESTED, str(cursor)).results
        with self._readers.store() as store:
            return {"result": [{**_summary(store, one), "notable": [_TYPE]} for one in found]}

    def attributes(self, prefix: Text = "", cursor: Cursor = 0) -> Facts:
        """Attributes whose name, or a word of it, begins with the text."""
        with self._readers.store() as store:
            named = [{"id": name, "name": name} for name in _attributes(store)]
        return {"result": _beginning(named, prefix)[cursor : cursor + _SUGGESTED]}

    def types(self, prefix: Text = "", cursor: Cursor = 0) -> Facts:
        """The only type."""
        return {"result": _beginning([_TYPE], prefix)[cursor:]}

    # --- what an entity says ---

    def proposed(self, type: Text = "", limit: Annotated[int, Query(ge=1, le=1000)] = 100) -> Facts:
        """The attributes that an extension can request."""
        with self._readers.store() as store:
            names = list(_attributes(store))[:limit]
        return {
            "type": type or _TYPE["id"],
            "limit": limit,
            "properties": [{"id": name, "name": name} for name in names],
        }

    def _extended(self, asked: _Extension) -> Facts:
        """The values of some attributes of some entities, by default the golden ones."""
        with self._readers.store() as store:
            now = {id: _now(store, id) for id in asked.ids}
            found = _golden_first(self._readers, store, {id for id in now.values() if id})
            rows = {}
            for id in now:
                values = found.get(now[id] or "", {})
                rows[id] = {
                    one.id: [{"str": value} for value in values.get(one.id, ())][: _limit(one)]
                    or [{}]
                    for one in asked.properties
                }
        return {"meta": [{"id": one.id, "name": one.id} for one in asked.properties], "rows": rows}

    def preview(self, request: Request, id: Annotated[str, Query(max_length=4096)]) -> Response:
        """A small page about an entity, to be embedded in other sites' pages."""
        with self._readers.store() as store:
            now = _now(store, id) or id
            store.entity(now)
            (reference,) = references(self._readers, store, [now])
            values = {name: of[:_DESCRIBED] for name, of in _values(store, now).items()}
        made = frame.page(
            request,
            "preview.html",
            self._name,
            entity=reference,
            values=values,
            address=f"/entity/{quote(now, safe='')}",
        )
        made.headers["content-security-policy"] = self._framed
        return made


def _read(decoder: msgspec.json.Decoder[Any], what: str, text: str | msgspec.Raw) -> Any:
    try:
        return decoder.decode(text)
    except (msgspec.MsgspecError, UnicodeError, RecursionError) as error:
        found = re.search(r"at `\$\.(\w+)", str(error))
        field = found[1] if found else ""
        where = f"{what}: {field}" if field else what
        raise UsageError(f"reconcile: {where}: expected {_EXPECTED[decoder][field]}") from None


def _has_type(query: _Query) -> bool:
    """Whether entities can have the types that a query requires; there is one type."""
    wanted = [query.type] if isinstance(query.type, str) else query.type or []
    if not wanted or query.type_strict == "should":
        return True
    return (any if query.type_strict == "any" else all)(one == _TYPE["id"] for one in wanted)


_CERTAIN: Facts = {"score": 100.0, "match": True, "features": [{"id": "id", "value": True}]}
_UNSURE: Facts = {"score": 0.0, "match": False, "features": []}


def _verdict(candidate: Candidate[EntityReference], first: bool) -> Facts:
    """A candidate's probability and explanation in this API's terms; one can be the match."""
    features: list[Facts] = [{"id": "probability", "value": candidate.probability}]
    why = candidate.explanation
    if why is not None:
        said = {f"attribute:{name}": value for name, value in why.attributes.items()}
        said = {"prior": why.prior, **said}
        features += [{"id": id, "value": v} for id, v in said.items() if math.isfinite(v)]
    return {
        "score": 100.0 * candidate.reported,
        "match": first and candidate.probability >= CERTAIN,
        "features": features,
    }


def _attributes(store: Store) -> dict[str, None]:
    """The attributes of the store, those that name entities first."""
    attributes = store.attributes
    names = naming(attributes)
    return dict.fromkeys(sorted(attributes, key=lambda attribute: attribute not in names))


def _fragment(query: _Query, attributes: Mapping[str, None]) -> Fragment | None:
    """A query as a fragment; None if the store has none of its attributes."""
    properties = dict[str, list[str]]()
    if query.query is not None:
        names = [a for a in attributes if a in naming(tuple(attributes))] or ["name"]
        parts = _parted(query.query, len(names))
        properties = {name: [part] for name, part in zip(names, parts, strict=False) if part}
    lower = {attribute.casefold(): attribute for attribute in attributes}
    for one in query.properties:
        attribute = lower.get(one.pid.casefold())
        if attribute is not None:
            values = one.v if isinstance(one.v, list) else [one.v]
            stated = [text for value in values if (text := _text(value))]
            if stated:
                properties[attribute] = [*properties.get(attribute, []), *stated]
    if not properties:
        return None
    return Fragment.from_json({"id": "query", "properties": properties}, "a query")


def _is_part(query: _Query, attributes: Mapping[str, None]) -> bool:
    """Whether a query is one word, or fewer than a name has attributes, and nothing else."""
    words = len((query.query or "").split())
    return not query.properties and (words == 1 or words < len(naming(tuple(attributes))))


def _parted(text: str, parts: int) -> list[str]:
    """A name split over several attributes: a word each, and the rest for the last; "B, A" is "A
    B"."""
    if parts == 1:
        return [text]
    last, comma, first = text.partition(",")
    words = [*first.split(), *last.split()] if comma else text.split()
    return [*words[: parts - 1], " ".join(words[parts - 1 :])]


def _text(value: _Value) -> str:
    if isinstance(value, _Reference):
        return value.name or value.id
    if isinstance(value, bool):
        return str(value).lower()
    if isinstance(value, float):
        return f"{value:.15g}"
    return str(value)


def _beginning(named: Sequence[Facts], prefix: str) -> list[Facts]:
    """Those whose name or a word of it begins with a text, ignoring case."""
    wanted = prefix.strip().casefold()
    return [
        one
        for one in named
        if (name := one["name"].casefold()).startswith(wanted) or f" {wanted}" in f" {name}"
    ]


def _limit(asked: _Reference) -> int:
    """The number of values that an extension requests."""
    given = asked.settings.get("limit")
    try:
        limit = 1 if given is None else int(given)
    except (TypeError, ValueError, OverflowError):
        raise UsageError("reconcile: extend: expected a whole number as the limit") from None
    return min(limit, _MOST_VALUES) if limit > 0 else _MOST_VALUES


def _now(store: Store, id: str) -> str | None:
    """The entity with an id, or the first one that has the fragments of a former entity."""
    try:
        return store.now(id)[0]
    except UsageError:
        return None


def _golden_first(
    readers: Readers, store: Store, ids: Collection[str]
) -> dict[str, dict[str, list[str]]]:
    """The values of entities by attribute, that of the policy `fused` first."""
    view = readers.view_of(store)
    few = [id for id in ids if len(store.entity(id)[1]) <= _MOST_MEMBERS]
    found = {id: _values(store, id) for id in ids if id not in few}
    for entity in view.with_ids(few):
        best = golden(entity, Policy(), view.fragments).properties
        found[entity.id] = {
            name: list(dict.fromkeys(one.value for one in (*best[name], *of)))
            for name, of in entity.properties.items()
        }
    return found


def _values(store: Store, id: str, most: int = _MOST_MEMBERS) -> dict[str, list[str]]:
    """The values of an entity's fragments, by attribute, the best value first."""
    now = _now(store, id)
    if now is None:
        return {}
    numbers = store.entity(now)[1][:most]
    fragments = store.pages.fragments(numbers)
    stated = described([fragments[n] for n in numbers], store.corpus).properties
    return {attribute: [one.value for one in values] for attribute, values in stated.items()}


def _summary(store: Store, one: EntityReference) -> Facts:
    """An entity with a few values that distinguish it from others with the same name."""
    values = _values(store, one.id, _FEW_MEMBERS)
    names = naming(tuple(values))
    said = [f"{a}: {of[0][:_LONGEST]}" for a, of in values.items() if a not in names]
    return {"id": one.id, "name": one.name, "description": " · ".join(said[:_DESCRIBED])}
