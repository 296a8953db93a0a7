"""Repeated runs of a query into a store: only the rows that have changed since the last one.

A store keeps, for each query, the greatest watermark that there was before its last complete run
read the rows. The next run reads the rows from that watermark on. Those that the store has already
are skipped by their ids, and others replace what has their ids; so a run that was killed, or reads
rows twice, leads to the same store as an undisturbed one.
"""

from __future__ import annotations

import hashlib
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import orjson

from kbforge.contracts import Fragment
from kbforge.errors import without_password
from kbforge.files.columns import ids_of, sources_of
from kbforge.files.databases import connected
from kbforge.jobs.opening import locked
from kbforge.jobs.remove import remove
from kbforge.store.database import Database, is_store
from kbforge.store.store import Store
from kbforge.store.tables import write_rows

_WATERMARKS = "watermarks"
_MOST = 100  # queries that a store remembers


@dataclass(frozen=True, slots=True)
class Feed:
    """A query that fills a store: its place there, where it begins, and how far it reaches."""

    key: str
    since: str | None
    reached: str | None

    @classmethod
    def into(cls, path: str, address: str, options: Mapping[str, object]) -> Feed:
        """The feed of a database's rows, with the options of the source, into a store.

        Raises a KBForgeError if the database cannot answer.
        """
        told = [without_password(address), sorted((name, str(v)) for name, v in options.items())]
        key = hashlib.sha256(orjson.dumps(told)).hexdigest()
        held: dict[str, str] = {}
        if is_store(path):
            with Database(path) as database:
                held = Store(database).fact(_WATERMARKS, {})
        with connected(address) as source:
            reached = source.reached(str(options["query"]), str(options["watermark"]))
        return cls(key, held.get(key), reached)

    def finish(self, path: str) -> None:
        """Have the next run begin where this one was complete."""
        with locked(path) as store:
            held: dict[str, str] = store.fact(_WATERMARKS, {})
            if self.reached is None or held.get(self.key) == self.reached:
                return
            held = dict(list({**held, self.key: self.reached}.items())[-_MOST:])
            row = (orjson.dumps(held),)
            store.database.transaction(lambda rows: write_rows(rows, "meta", {_WATERMARKS: row}))


def remove_missing(path: str, fragments: Sequence[Fragment]) -> int:
    """Remove what a store has from the sources of some fragments, and they have not; how many."""
    ids = set(ids_of(fragments))
    with locked(path) as store:
        held = [id for source in sources_of(fragments)[1] for id in store.of_source(source)]
    gone = [id for id in held if id not in ids]
    if gone:
        remove(path, gone)
    return len(gone)
