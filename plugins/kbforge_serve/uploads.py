"""Files that were sent: kept for an hour, their columns found, and their records read.

A file lies in a temporary folder, under its own name, which becomes the source of its fragments.
"""

from __future__ import annotations

import os
import re
import secrets
import shutil
import tempfile
import threading
from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import ExitStack
from contextvars import copy_context
from dataclasses import dataclass, field, replace
from difflib import get_close_matches
from itertools import islice
from pathlib import Path
from typing import IO, Any

from kbforge import registry
from kbforge.contracts import Fragment
from kbforge.errors import BadRecord, BusyError, KBForgeError, NotFoundError, UsageError, quoted
from kbforge.files.fragments import read, read_json_lines, source_of
from kbforge.files.io import sweep, temporary_folder
from kbforge.files.kinds import KINDS, kind_of
from kbforge.jobs.link import Columns
from kbforge.jobs.tables import pairs_of

MOST_RECORDS = 1_000_000
MOST_COLUMNS = 200
_MOST_KEPT = 8
_LONGEST_KEPT = 3_600.0  # seconds
_SAMPLE = 200  # records whose columns are known before all are read
_SHOWN = 3  # values of a column
_MOST_REASONS = 5
_CLOSE = 0.8  # of the similarity of names, from 0 to 1
_FORMATS = {
    **dict.fromkeys(("fragments", "objects"), "jsonl"),
    **dict.fromkeys(("table", "utf-16", "utf-16-le", "utf-16-be"), "csv"),
    "spreadsheet": "xlsx",
}
_IDS = ("id", "_id")
_BY_NAME = ("text", "binary", "empty", "zip")  # kinds of files whose names say what they are
_ORIGIN = "the source of a record"  # an attribute, for a moment


@dataclass(frozen=True, slots=True)
class Meaning:
    """What the columns of a file mean: attributes of other names, "" for none; and two columns.

    `replaces`: records replace stored ones with their ids and other content.
    """

    renamed: Mapping[str, str] = field(default_factory=dict)
    id: str = ""
    source: str = ""
    replaces: bool = False


@dataclass(eq=False)
class SentFile:
    """A file: its format, its columns with some values, and what is being done with it."""

    key: str
    path: str
    format: str = ""
    has_fragments: bool = False  # whether its records have ids and properties of their own
    columns: dict[str, list[str]] = field(default_factory=dict)
    meaning: Meaning | None = None
    doing: str = ""
    job: Future[Any] | None = None  # the last one
    counts: Counter[str] = field(default_factory=Counter)  # of records, in the last job
    reasons: list[str] = field(default_factory=list)  # why some of them are bad
    closing: bool = False

    @property
    def name(self) -> str:
        """Its name, without a folder."""
        return os.path.basename(self.path)

    def look(self) -> None:
        """Find the format, and the columns of the first records.

        Raises a KBForgeError if it cannot be read, or has too many of them.
        """
        kind, name = kind_of(self.path), quoted(self.name)
        named = registry.plugin_of("sources", self.path) if kind in _BY_NAME else None
        self.format = _FORMATS.get(kind) or named or ""
        if self.format not in _FORMATS.values():
            expected = "CSV, TSV, a spreadsheet (xlsx) or JSON lines"
            raise UsageError(f"{name}: expected {expected}, got {KINDS[kind].said(self.name)}")
        self.has_fragments = kind == "fragments"
        for said in islice(self._first(), _SAMPLE):
            for column, value in said.items():
                shown = self.columns.setdefault(column, [])
                if len(shown) < _SHOWN:
                    shown.append(quoted(value, 200))
        if not 0 < len(self.columns) <= MOST_COLUMNS:
            got = f"{len(self.columns):,}" if self.columns else "no record that can be read"
            raise UsageError(f"{name}: expected from 1 to {MOST_COLUMNS} columns, got {got}")

    def _first(self) -> Iterator[Mapping[str, object]]:
        """What records state; those that cannot be read are left out, and counted later."""
        if self.format == "jsonl":
            for _, _, value in read_json_lines(self.path, lambda *_: None):
                if isinstance(value, dict):
                    yield value.get("properties", {}) if self.has_fragments else value
            return
        for one in read(source_of(self.format, {"id": None}), [self.path], lambda *_: None):
            yield {name: "; ".join(values) for name, values in one.properties.items()}

    def guess(self, attributes: Sequence[str]) -> Meaning:
        """The attributes that columns seem to be, of some, and the column called id."""
        known = {_plain(one): one for one in attributes}
        named = {one: get_close_matches(_plain(one), known, 1, _CLOSE) for one in self.columns}
        found = {one: known[close[0]] for one, close in named.items() if close}
        found |= {one: one for one in attributes if one in self.columns}
        return Meaning(found, next((one for one in self.columns if one.lower() in _IDS), ""))

    def records(self) -> Iterator[Fragment]:
        """Its records as fragments; bad ones are counted as `set_aside`.

        Raises a KBForgeError if it cannot be read as a whole.
        """

        def aside(error: BadRecord, raw: bytes) -> None:
            self.counts["set_aside"] += 1
            if len(self.reasons) < _MOST_REASONS:
                self.reasons.append(str(error).replace(self.path, self.name))

        meaning = self.meaning or Meaning()
        renamed = {one: one for one in self.columns if one not in (meaning.id, meaning.source)}
        renamed |= meaning.renamed
        if meaning.source:
            renamed[meaning.source] = _ORIGIN
        columns = Columns((), None, renamed)
        options = {} if self.has_fragments else {"id": meaning.id or None, "map": pairs_of(renamed)}
        self.counts.clear()
        self.reasons.clear()
        for one in read(source_of(self.format, options), [self.path], aside):
            self.counts["records"] += 1
            if self.closing:
                raise BusyError("the server is stopping; try again when it has started")
            if self.counts["records"] > MOST_RECORDS:
                raise UsageError(f"expected at most {MOST_RECORDS:,} records; split the file")
            try:
                yield _with_source(columns.applied(one) if self.has_fragments else one)
            except BadRecord as error:
                aside(error, b"")


def _plain(name: str) -> str:
    """A name as others may write it."""
    return re.sub(r"[\W_]+", " ", name).strip().casefold()


def _with_source(one: Fragment) -> Fragment:
    """A record with the source that a column of it states."""
    left = dict(one.properties)
    origin = left.pop(_ORIGIN, None)
    return one if origin is None else replace(one, properties=left, source=origin[0])


class Uploads:
    """The files that were sent to a server; it works on one at a time."""

    def __init__(self) -> None:
        self._folders = ExitStack()
        self._folder: Path | None = None
        self._files: dict[str, SentFile] = {}
        self._worker = ThreadPoolExecutor(1, "import")

    def make(self, name: str, content: IO[bytes]) -> SentFile:
        """A file of about this name; a BusyError if others are there and in work.

        Raises a KBForgeError if it cannot be read.
        """
        if self._folder is None:
            temporary = Path(tempfile.gettempdir())
            sweep(temporary)
            self._folder = self._folders.enter_context(temporary_folder(temporary))
        while len(self._files) >= _MOST_KEPT:
            idle = (one for one in self._files.values() if one.job is None or one.job.done())
            if (oldest := next(idle, None)) is None:
                raise BusyError("too many files are being read; try again", 30)
            self.forget(oldest)
        key = secrets.token_urlsafe(12)
        plain = re.sub(r"[^\w .,()+-]+", "_", re.split(r"[/\\]", name)[-1])[-100:].strip(" .-")
        path = self._folder / key / (plain or "file")
        path.parent.mkdir(mode=0o700)
        path.touch(0o600)
        with path.open("wb") as out:
            shutil.copyfileobj(content, out)
        made = self._files[key] = SentFile(key, str(path))
        timer = threading.Timer(_LONGEST_KEPT, self.forget, [made])
        timer.daemon = True
        timer.start()
        try:
            made.look()
        except KBForgeError:
            self.forget(made)
            raise
        return made

    def get(self, key: str) -> SentFile:
        """A file by its key; a NotFoundError if it is no longer there."""
        if key not in self._files:
            raise NotFoundError("this file is not here any more; send it again")
        return self._files[key]

    def start(self, file: SentFile, doing: str, job: Callable[[], Any]) -> Future[Any]:
        """Do something with a file, when nothing is done with others."""
        if file.job is not None and not file.job.done():
            raise BusyError("this file is being read already; wait for it", 5)
        file.doing = doing
        file.job = self._worker.submit(copy_context().run, job)
        return file.job

    def forget(self, file: SentFile) -> None:
        """Delete a file; what is being done with it ends."""
        file.closing = True
        self._files.pop(file.key, None)
        shutil.rmtree(os.path.dirname(file.path), ignore_errors=True)

    def close(self) -> None:
        """Delete all files."""
        for one in list(self._files.values()):
            self.forget(one)
        self._worker.shutdown(cancel_futures=True)
        self._folders.close()
