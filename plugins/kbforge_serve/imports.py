"""Imports: the records of a file that people or programs send become fragments of the store.

The records are read once to count those that the store has already, and to refuse columns that no
attribute of the store explains. Some of the others are added in a rehearsal, which tells what would
become of them and of the entities of the store. Then all of them are added, as many at a time as
the writer groups; and what an import added can be removed again.
"""

from __future__ import annotations

import asyncio
import tempfile
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from dataclasses import asdict
from functools import partial
from itertools import chain, islice
from pathlib import Path
from random import Random
from typing import TYPE_CHECKING, Annotated, Any, Literal, TypeAlias

import orjson
from fastapi import APIRouter, Form, Query, Request
from fastapi.responses import RedirectResponse, Response
from starlette.concurrency import run_in_threadpool
from starlette.datastructures import UploadFile

from kbforge.contracts import Change, Fragment, Kind
from kbforge.contracts.entity import Natural
from kbforge.errors import (
    KBForgeError,
    StrangeAttributesError,
    UsageError,
    listed,
    option,
    quoted,
    spelled,
)
from kbforge.files.columns import in_metadata
from kbforge.jobs.link import columns_of
from kbforge.jobs.models import attributes_of
from kbforge.jobs.update import known_in, take_in
from kbforge.store.audit import signed
from kbforge.store.changes import changes
from kbforge.store.writing import FILLS
from kbforge_serve.answers import Answer, EntityReference, Facts, plain
from kbforge_serve.facts import holding, references
from kbforge_serve.failures import sentence_of
from kbforge_serve.frame import json_of
from kbforge_serve.readers import Readers
from kbforge_serve.uploads import Meaning, SentFile
from kbforge_serve.writer import ABOUT, Turn, Writer

if TYPE_CHECKING:
    from kbforge_serve.pages import Pages
    from kbforge_serve.service import Service

MOST_TRIED = 1_000
"""Records that a rehearsal adds: some seconds, in which others wait to write."""
_AT_ONCE = 1_000  # records
_MOST_REMOVED = 20_000  # fragments, in one run
_MOST_NAMED = 20  # entities
_DOUBTFUL = 0.7  # confidence below which an entity is doubtful
_PATIENCE = 5.0  # seconds in which most files are read
UNSAID = " "
"""The attribute of a column whose meaning nobody has said."""
Act: TypeAlias = Literal["rehearse", "take", "remove"]
Fate: TypeAlias = Literal["grows", "merges", "parts"]
_TOLD = ("key", "name", "columns", "has_fragments", "doing")


class Doubt(Answer, frozen=True):
    """A record, and an entity that may be wrong with it."""

    fragment: str
    entity: EntityReference


class Affected(Answer, frozen=True):
    """An entity of the store as it is, how records change it, and the entities it merges with.

    `fragments` counts those that it has then. If it merges into another or parts, some of its own
    leave it.
    """

    entity: EntityReference
    fate: Fate
    others: list[EntityReference]
    fragments: Natural


class Imported(Answer, frozen=True):
    """What the records of a file are to a store, and what became of them.

    `counts` has what is more than 0: `records`; `set_aside`, the bad ones, with some `reasons`;
    `known` ones, which the store has; `differing` ones, whose ids it has with other content;
    `tried` ones, which a rehearsal added: they `joined` entities of the store, `opened` so many new
    entities, and make some `doubtful`, of which `doubts` has the least sure; the entities of the
    store of which each `grows`, `merges` or `parts`, of which `affected` has some, those that grow
    last; and how many records were `added`, `replaced` or `removed`. `runs` are the last one before
    an import, and its last one.
    """

    counts: dict[str, Natural]
    reasons: list[str]
    doubts: list[Doubt]
    affected: list[Affected]
    runs: tuple[Natural, Natural] | None


class Imports:
    """Reads files into the store of a service."""

    def __init__(self, readers: Readers, writer: Writer) -> None:
        self._readers, self._writer = readers, writer

    def rehearse(self, file: SentFile) -> Imported:
        """What an import would do.

        Raises a KBForgeError if the file cannot be read, or has columns without a meaning.
        """
        trying = partial(self._tried, self._surveyed(file), file.counts)
        found = self._writer.perform(trying, rehearse=True).result()
        return Imported(+file.counts, list(file.reasons), *found, None)

    def take(self, file: SentFile) -> Imported:
        """Add the records; errors as of `rehearse`, and `Writer.perform`. It can be repeated."""
        self._surveyed(file)
        about, before = f"import of {file.name}", self._writer.end_run().result().run
        meant = file.meaning.renamed.values() if file.meaning else ()
        with signed(None, about), open(f"{file.path}.added", "ab") as out:
            for given, new in self._sorted(file):
                done = self._writer.add(given, "replace", meant, about).result()
                file.counts.update(added=done.added, replaced=done.replaced)
                out.writelines(orjson.dumps(id) + b"\n" for id in new)
        run = self._writer.end_run().result().run
        runs = (before, run) if run > before else None
        return Imported(+file.counts, list(file.reasons), [], [], runs)

    def remove(self, file: SentFile) -> Imported:
        """Remove what imports of a file have added; fragments that they replaced stay."""
        added, counts = Path(f"{file.path}.added"), Counter[str]()
        with signed(None, f"import of {file.name}"):
            lines = map(orjson.loads, added.read_bytes().splitlines() if added.exists() else ())
            for ids in iter(lambda: list(islice(lines, _MOST_REMOVED)), []):
                counts["removed"] += self._writer.remove(ids).result().removed
        added.unlink(missing_ok=True)
        return Imported(+counts, [], [], [], None)

    def facts(self, file: SentFile) -> Facts:
        """A file, what its columns may mean, and what became of it."""
        with self._readers.store() as store:
            attributes = sorted(attributes_of(store) or store.attributes)
            attributes += [store.time] if store.time else []
        result, error, busy = None, None, file.job is not None and not file.job.done()
        if file.job is not None and not busy:
            try:
                result = plain(file.job.result())
            except KBForgeError as met:
                error = sentence_of(met, self._readers.path)
        found = {name: getattr(file, name) for name in _TOLD}
        meaning = asdict(file.meaning or file.guess(attributes))
        done = {"busy": busy, "done": file.counts["records"], "error": error, "result": result}
        return {**found, "attributes": attributes, "meaning": meaning, **done}

    def _sorted(self, file: SentFile) -> Iterator[tuple[list[Fragment], list[str]]]:
        """The records to add, some at a time, and the new ids; others are only counted."""
        records, replaces = file.records(), file.meaning is not None and file.meaning.replaces
        for some in iter(lambda: list(islice(records, _AT_ONCE)), []):
            with self._readers.store() as store:
                given = in_metadata(some, store.time)
                same = known_in(store, given, "replace")
            differing = sum(not one for one in same.values())
            file.counts.update(differing=differing, known=len(same) - differing)
            wanted = [x for x in given if x.id not in same or (replaces and not same[x.id])]
            yield wanted, [x.id for x in wanted if x.id not in same]

    def _surveyed(self, file: SentFile) -> list[Fragment]:
        """Count all records; returns a sample of those to add."""
        sample, rng, strange = list[Fragment](), Random(0), dict[str, None]()
        with self._readers.store() as store:
            has = attributes_of(store)
        meant = has.union(file.meaning.renamed.values() if file.meaning else ())
        for n, one in enumerate(chain.from_iterable(given for given, _ in self._sorted(file)), 1):
            strange |= dict.fromkeys(name for name in one.properties if name not in meant)
            if len(sample) < MOST_TRIED:
                sample.append(one)
            elif (place := rng.randrange(n)) < MOST_TRIED:
                sample[place] = one
        if has and strange:
            file.columns |= {one: file.columns.get(one, []) for one in strange}
            raise StrangeAttributesError(
                f"{quoted(file.name)}: expected a meaning for every column, got none for "
                f"{listed(list(strange), 12)}; {option('map', 'COLUMN=ATTRIBUTE')} gives one, or "
                f"makes a new attribute, and {option('map', 'COLUMN=')} leaves the column out"
            )
        return sample

    def _tried(
        self, new: list[Fragment], counts: Counter[str], turn: Turn
    ) -> tuple[list[Doubt], list[Affected]]:
        """Add records, and count what becomes of them, and of entities of the store.

        Returns the least sure records, and some of the entities.
        """
        if not new:
            return [], []
        since, held = turn.store.last_number, turn.opened(FILLS, ABOUT)
        steps = list(take_in(held, new, known_in(turn.store, new, "replace")))
        held.commit(finished=True)
        found = holding(self._readers, turn.store, [step.fragment for step in steps])
        own = Counter(one.id for one in found.values())
        homes = [(x, found[step.fragment]) for x, step in zip(new, steps, strict=True)]
        doubts = [Doubt(x.id, one) for x, one in homes if (one.confidence or 0) < _DOUBTFUL]
        counts["tried"], counts["doubtful"] = len(new), len(doubts)
        counts["joined"] = sum(one.size > own[one.id] for _, one in homes)
        counts["opened"] = len({one.id for _, one in homes if one.size == own[one.id]})
        doubts.sort(key=lambda one: one.entity.confidence or 0)
        fates = [(_fate(one), one) for one in changes(turn.store, since) if one.before]
        counts.update(fate for fate, _ in fates)
        some = sorted(fates, key=lambda one: one[0], reverse=True)[:_MOST_NAMED]
        with self._readers.store() as before:
            named = partial(references, self._readers, before)
            affected = [
                Affected(own, fate, named(x.others[:_MOST_NAMED]), len(x.after))
                for own, (fate, x) in zip(named([x.entity for _, x in some]), some, strict=True)
            ]
        return doubts[:_MOST_NAMED], affected


def _fate(change: Change) -> Fate:
    if change.after and {*change.before} <= {*change.after}:
        return "merges" if change.others else "grows"
    return "merges" if change.kind is Kind.MERGED else "parts"


def _in_fields(name: str, value: object) -> str:
    """The spelling of options in sentences on a page."""
    if name in ("map", "source.map"):
        return 'its field "is"' if value == "COLUMN=ATTRIBUTE" else '"left out" there'
    return "saving it as UTF-8" if name == "source.encoding" else f'the field "{name}"'


# --- pages ----------------------------------------------------------------------------------------


def add_pages(pages: Pages, service: Service) -> None:
    """The pages of a service where files are imported."""
    imports, uploads = service.imports, service.uploads

    def shown(key: str) -> Facts:
        """A file, and what was done with it last."""
        return imports.facts(uploads.get(key))

    async def send(request: Request) -> Response:
        async with request.form(max_files=1, max_fields=1) as form:
            sent = form.get("file")
            if not isinstance(sent, UploadFile) or not sent.filename:
                raise UsageError("expected a file, got none")
            with spelled(_in_fields):
                file = await run_in_threadpool(uploads.make, sent.filename, sent.file)
        return RedirectResponse(f"/import/{file.key}", 303)

    async def act(
        key: str,
        act: Annotated[Act, Form()],
        attribute: Annotated[Sequence[str], Form()] = (),
        id: Annotated[str, Form()] = "",
        source: Annotated[str, Form()] = "",
        replaces: Annotated[bool, Form()] = False,
    ) -> Response:
        file = uploads.get(key)
        if act == "rehearse":
            said = zip(file.columns, attribute, strict=False)
            renamed = {column: one for column, one in said if one != UNSAID}
            file.meaning = Meaning(renamed, id, source, replaces)
        elif file.meaning is None:
            raise UsageError("expected what the columns mean, got nothing")
        with spelled(_in_fields):
            doing = _started(service, file, act)
        await asyncio.wait([doing], timeout=_PATIENCE)
        return RedirectResponse(f"/import/{key}", 303)

    pages.add("/import", "import.html", lambda: {"key": None})
    pages.add("/import/{key}", "import.html", shown, lambda _: {"unsaid": UNSAID})
    pages.router.add_api_route("/import", send, methods=["POST"])
    pages.router.add_api_route("/import/{key}", act, methods=["POST"])


def _started(service: Service, file: SentFile, act: Act) -> asyncio.Future[Imported]:
    """Begin to do something with a file."""
    doing = partial(getattr(service.imports, act), file)
    future = asyncio.wrap_future(service.uploads.start(file, act, doing))
    future.add_done_callback(lambda done: done.exception())  # it is told when somebody looks
    return future


# --- the API --------------------------------------------------------------------------------------


def add(routes: APIRouter, service: Service, says: Callable[[Any], Any]) -> None:
    """The route of the API; `says` describes its answer."""

    @routes.post("/import", summary="Import a file", openapi_extra=_BODY, **says(Imported))
    async def send(
        request: Request,
        name: Annotated[str, Query(max_length=400, description="Its name is their source.")],
        map: Annotated[Sequence[str], Query(description="`COLUMN=ATTRIBUTE`.")] = (),
        id: Annotated[str | None, Query(description="Column; default: one called id.")] = None,
        source: Annotated[str, Query(description="Column; default: the file's name.")] = "",
        on_duplicate: Literal["keep", "replace"] = "keep",
        rehearse: bool = False,
    ) -> Response:
        """Add the records of a table (CSV, TSV, xlsx) or of JSON lines; the body is the file.

        Every column is the attribute of its name, or means what `map` says; others are refused.
        With `rehearse` nothing is written: the answer says what would be new, joined, doubtful.
        Bad records are set aside; those with a stored id and other content are kept out, or replace
        it. A request that failed can be repeated.
        """
        renamed = dict(columns_of((), None, map).renamed or {})
        with tempfile.TemporaryFile() as content:
            async for part in request.stream():
                content.write(part)
            content.seek(0)
            file = await run_in_threadpool(service.uploads.make, name, content)
        column = file.guess(()).id if id is None else id
        file.meaning = Meaning(renamed, column, source, on_duplicate == "replace")
        done = await _started(service, file, "rehearse" if rehearse else "take")
        service.uploads.forget(file)
        return json_of(done)


_BODY = {"requestBody": {"required": True, "content": {"application/octet-stream": {}}}}
