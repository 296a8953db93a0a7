"""Imports: the records of a file that people or programs send become fragments of the store.

The records are read once to count those that the store has already, and to refuse columns that no
attribute of the store explains. Some of the others are added in a rehearsal, which tells what would
become of them. Then all of them are added, as many at a time as the writer groups; and what an
import added can be removed again.
"""

from __future__ import annotations

import asyncio
import shutil
import tempfile
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from dataclasses import asdict
from functools import partial
from itertools import islice
from pathlib import Path
from random import Random
from typing import IO, TYPE_CHECKING, Annotated, Any, Literal

import orjson
from fastapi import APIRouter, Form, Query, Request
from fastapi.responses import RedirectResponse, Response
from starlette.concurrency import run_in_threadpool
from starlette.datastructures import UploadFile

from kbforge.contracts import Fragment
from kbforge.contracts.entity import Natural
from kbforge.errors import (
    KBForgeError,
    StrangeAttributesError,
    UsageError,
    listed,
    option,
    quoted,
)
from kbforge.files.columns import in_metadata
from kbforge.jobs.link import columns_of
from kbforge.jobs.models import attributes_of
from kbforge.jobs.update import known_in, take_in
from kbforge.store.audit import signed
from kbforge.store.writing import FILLS
from kbforge_serve.answers import Answer, EntityReference, Facts, plain
from kbforge_serve.facts import holding
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
_OF_RUN = 20  # times as many records after which a run ends, and the session forgets them
_MOST_DOUBTS = 20
_DOUBTFUL = 0.7  # confidence below which an entity is doubtful
_PATIENCE = 5.0  # seconds in which most files are read
UNSAID = " "
"""The attribute of a column whose meaning nobody has said."""


class Doubt(Answer, frozen=True):
    """A record, and an entity that may be wrong with it."""

    fragment: str
    entity: EntityReference


class Imported(Answer, frozen=True):
    """What the records of a file are to a store, and what became of them.

    `counts` has what is more than 0: `records`; `set_aside`, the bad ones, with some `reasons`;
    `known` ones, which the store has; `differing` ones, whose ids it has with other content;
    `tried` ones, which a rehearsal added: they `joined` entities of the store, `opened` so many new
    entities, and make some `doubtful`, of which `doubts` has the least sure; and how many were
    `added`, `replaced` or `removed`. `runs` are the last one before an import, and its last one.
    """

    counts: dict[str, Natural]
    reasons: list[str]
    doubts: list[Doubt]
    runs: tuple[Natural, Natural] | None


class Imports:
    """Reads files into the store of a service."""

    def __init__(self, readers: Readers, writer: Writer) -> None:
        self._readers, self._writer = readers, writer

    def rehearse(self, file: SentFile, meaning: Meaning) -> Imported:
        """What an import would do.

        Raises a KBForgeError if the file cannot be read, or has columns without a meaning.
        """
        counts, reasons, new = self._surveyed(file, meaning)
        trying = partial(self._tried, new, counts)
        doubts = self._writer.perform(trying, rehearse=True).result()
        return Imported(+counts, reasons, doubts, None)

    def take(self, file: SentFile, meaning: Meaning) -> Imported:
        """Add the records; errors as of `rehearse`, and `Writer.perform`. It can be repeated."""
        self._surveyed(file, meaning)
        counts, reasons = Counter[str](), list[str]()
        about, before = f"import of {file.name}", self._end_run()
        with signed(None, about), open(f"{file.path}.added", "ab") as ids:
            for n, (new, differing) in enumerate(self._sorted(file, meaning, counts, reasons), 1):
                if given := [*new, *differing] if meaning.replaces else new:
                    adding = partial(_added, given, meaning.replaces, about)
                    added, replaced = self._writer.perform(adding).result()
                    counts.update(added=added, replaced=replaced)
                    ids.writelines(orjson.dumps(x.id) + b"\n" for x in new)
                if n % _OF_RUN == 0:
                    self._end_run()
        run = self._end_run()
        return Imported(+counts, reasons, [], (before, run) if run > before else None)

    def _end_run(self) -> int:
        """End the writer's run of additions; returns the number of the last run."""

        def last(turn: Turn) -> int:
            found = turn.store.last_run
            return 0 if found is None else found.number

        return self._writer.perform(last, rehearse=True).result()  # which begins with that

    def remove(self, file: SentFile) -> Imported:
        """Remove what imports of a file have added; fragments that they replaced stay."""
        added, counts = Path(f"{file.path}.added"), Counter[str]()
        with signed(None, f"import of {file.name}"):
            lines = map(orjson.loads, added.read_bytes().splitlines())
            for ids in iter(lambda: list(islice(lines, _AT_ONCE * _OF_RUN)), []):
                counts["removed"] += self._writer.remove(ids).result().removed
        added.unlink()
        return Imported(+counts, [], [], None)

    def facts(self, file: SentFile) -> Facts:
        """A file, what its columns may mean, and what became of it.

        Raises what is no KBForgeError.
        """
        with self._readers.store() as store:
            attributes = sorted(attributes_of(store) or store.attributes)
            attributes += [store.time] if store.time else []
        meaning = file.meaning
        if meaning is None:
            meaning = Meaning(file.suggested(attributes), file.likely_id)
        job = file.job if file.job is not None and file.job.done() else None
        error = job.exception() if job else None
        if error is not None and not isinstance(error, KBForgeError):
            raise error
        return {
            "key": file.key,
            "name": file.name,
            "columns": file.columns,
            "attributes": attributes,
            "meaning": asdict(meaning),
            "has_ids": file.has_fragments,
            "doing": file.doing,
            "busy": file.job is not job,
            "done": file.done,
            "error": None if error is None else sentence_of(error, self._readers.path),
            "result": plain(job.result()) if job and error is None else None,
        }

    def _sorted(
        self, file: SentFile, meaning: Meaning, counts: Counter[str], reasons: list[str]
    ) -> Iterator[tuple[list[Fragment], list[Fragment]]]:
        """The records that are new, and those that differ from a stored one, some at a time."""
        records = file.records(meaning, counts, reasons)
        for some in iter(lambda: list(islice(records, _AT_ONCE)), []):
            with self._readers.store() as store:
                given = in_metadata(some, store.time)
                known = known_in(store, given, "replace")
            differing = [x for x in given if known.get(x.id) is False]
            counts["records"] += len(given)
            counts["differing"] += len(differing)
            counts["known"] += len(known) - len(differing)
            yield [x for x in given if x.id not in known], differing

    def _surveyed(
        self, file: SentFile, meaning: Meaning
    ) -> tuple[Counter[str], list[str], list[Fragment]]:
        """The counts of all records, reasons of bad ones, and a sample of the new ones."""
        counts, reasons, strange = Counter[str](), list[str](), dict[str, None]()
        sample, rng, n = list[Fragment](), Random(0), 0
        with self._readers.store() as store:
            has = attributes_of(store)
        meant = has.union(meaning.renamed.values())
        for new, differing in self._sorted(file, meaning, counts, reasons):
            for one in (*new, *differing):
                strange |= dict.fromkeys(name for name in one.properties if name not in meant)
            for one in new:
                n += 1
                if len(sample) < MOST_TRIED:
                    sample.append(one)
                elif (place := rng.randrange(n)) < MOST_TRIED:
                    sample[place] = one
        if has and strange:
            for column in strange:
                file.columns.setdefault(column, [])
            raise StrangeAttributesError(
                f"{quoted(file.name)}: expected a meaning for every column, got none for "
                f"{listed(list(strange), 12)}; {option('map', 'COLUMN=ATTRIBUTE')} gives one, or "
                f"makes a new attribute, and {option('map', 'COLUMN=')} leaves the column out"
            )
        return counts, reasons, sample

    def _tried(self, new: list[Fragment], counts: Counter[str], turn: Turn) -> list[Doubt]:
        """Add records, and count what becomes of them; returns the least sure ones."""
        if not new:
            return []
        held = turn.opened(FILLS, ABOUT)
        steps = list(take_in(held, new, ()))
        held.commit(finished=True)
        found = holding(self._readers, turn.store, [step.fragment for step in steps])
        own = Counter(one.id for one in found.values())
        homes = [(x, found[step.fragment]) for x, step in zip(new, steps, strict=True)]
        doubts = [Doubt(x.id, one) for x, one in homes if (one.confidence or 0) < _DOUBTFUL]
        counts["tried"], counts["doubtful"] = len(new), len(doubts)
        counts["joined"] = sum(one.size > own[one.id] for _, one in homes)
        counts["opened"] = len({one.id for _, one in homes if one.size == own[one.id]})
        return sorted(doubts, key=lambda one: one.entity.confidence or 0)[:_MOST_DOUBTS]


def _added(given: list[Fragment], replaces: bool, about: str, turn: Turn) -> tuple[int, int]:
    """Add records; returns how many, and how many of them replaced others."""
    known = known_in(turn.store, given, "replace")
    new = [x for x in given if x.id not in known or (replaces and not known[x.id])]
    if new:
        held = turn.opened(FILLS, about)
        for _ in take_in(held, new, known):
            pass
        held.commit(told=False)
    return len(new), sum(x.id in known for x in new)


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
            file = await run_in_threadpool(_kept, service, sent.filename, sent.file)
        return RedirectResponse(f"/import/{file.key}", 303)

    async def act(
        key: str,
        act: Annotated[Literal["rehearse", "take", "remove"], Form()],
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
        await asyncio.wait([_started(service, file, act)], timeout=_PATIENCE)
        return RedirectResponse(f"/import/{key}", 303)

    pages.add("/import", "import.html", lambda: {"key": None})
    pages.add("/import/{key}", "import.html", shown, lambda _: {"unsaid": UNSAID})
    pages.router.add_api_route("/import", send, methods=["POST"])
    pages.router.add_api_route("/import/{key}", act, methods=["POST"])


def _kept(service: Service, name: str, content: IO[bytes]) -> SentFile:
    """A file that was sent; a KBForgeError if it cannot be read."""
    file = service.uploads.make(name)
    try:
        with open(file.path, "wb") as out:
            shutil.copyfileobj(content, out)
        file.look()
    except KBForgeError:
        service.uploads.forget(file)
        raise
    return file


def _started(service: Service, file: SentFile, act: str) -> asyncio.Future[Imported]:
    """Begin to do something with a file."""
    imports, meaning = service.imports, file.meaning
    if meaning is None:
        raise UsageError("expected what the columns mean, got nothing")
    acts = {
        "rehearse": partial(imports.rehearse, file, meaning),
        "take": partial(imports.take, file, meaning),
        "remove": partial(imports.remove, file),
    }
    future = asyncio.wrap_future(service.uploads.start(file, act, acts[act]))
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
            file = await run_in_threadpool(_kept, service, name, content)
        column = file.likely_id if id is None else id
        file.meaning = Meaning(renamed, column, source, on_duplicate == "replace")
        done = await _started(service, file, "rehearse" if rehearse else "take")
        service.uploads.forget(file)
        return json_of(done)


_BODY = {"requestBody": {"required": True, "content": {"application/octet-stream": {}}}}
