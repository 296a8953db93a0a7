"""Streams an export: an exporter writes into a pipe that the answer reads.

Memory is bounded by the exporter's, which is one entity. A slow exporter or client keeps a snapshot
of the store open, so only a few exports may run at once.
"""

from __future__ import annotations

import os
import threading
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass

from kbforge import registry
from kbforge.contracts import Entity, Exporter, Fragment, View
from kbforge.errors import BusyError, UsageError, quoted
from kbforge.kb.view import RULES, GoldenView, Policy
from kbforge.store.store import Store, StoreView
from kbforge_serve.listing import Filter, Order, selected_firsts
from kbforge_serve.readers import Readers
from kbforge_serve.words import WordIndex

MEDIA = {
    "jsonl": "application/x-ndjson",
    "csv": "text/csv; charset=utf-8",
    "wide": "text/csv; charset=utf-8",
    "members": "text/csv; charset=utf-8",
    "pairs": "text/csv; charset=utf-8",
    "ftm": "application/x-ndjson",
    "jsonld": "application/ld+json",
    "kblam": "application/json",
    "nquads": "application/n-quads",
    "parquet": "application/vnd.apache.parquet",
    "xlsx": "application/vnd.openxmlformats-officedocument.spreadsheetml.sheet",
}
"""The formats with a single file, and their media types."""
MOST_AT_ONCE = 4
TABLES = ("csv", "wide", "members", "xlsx", "parquet", "jsonl")
"""The formats that the list offers."""
_CHUNK = 1 << 16  # bytes
_BUSY = 30  # seconds after which an export may have ended

_running = threading.BoundedSemaphore(MOST_AT_ONCE)


@dataclass(eq=False)
class _Listed(View):
    """The entities of a store that a filter selects, in the order of the list."""

    knows_fragments = True

    whole: StoreView
    store: Store
    wanted: Filter
    order: Order
    words: WordIndex | None

    def entities(self) -> Iterator[Entity]:
        for firsts in selected_firsts(self.store, self.wanted, self.order, self.words):
            yield from self.whole.of_firsts(firsts)

    def fragments(self, entity: Entity) -> Sequence[Fragment]:
        return self.whole.fragments(entity)


def export(
    readers: Readers,
    format_name: str,
    policy: str | None = None,
    wanted: Filter = Filter(),
    order: Order = "largest",
    words: WordIndex | None = None,
) -> Iterator[bytes]:
    """The bytes of an export; after the first chunk only an error can follow.

    `policy` is a rule for golden records, None for all values. `wanted` selects entities as the
    list does, and `words` is as there; without a filter the order is that of the store.

    Raises:
        UsageError: there is no such format or rule.
        PluginError: its extra is not installed.
        BusyError: too many exports are running.
        KBForgeError: the exporter or the store failed.

    """
    if format_name not in MEDIA:
        raise UsageError(f"format: expected one of {', '.join(MEDIA)}, got {quoted(format_name)}")
    if policy is not None and policy not in RULES:
        raise UsageError(f"policy: expected one of {', '.join(RULES)}, got {quoted(policy)}")
    exporter = registry.create("exporters", format_name, {})
    if not _running.acquire(blocking=False):
        raise BusyError("too many exports at once; try again", _BUSY)

    def view_of(store: Store) -> View:
        whole = readers.view_of(store, by_name=False)
        view: View = whole
        if wanted != Filter():
            view = _Listed(whole, store, wanted, order, words)
        return view if policy is None else GoldenView(view, Policy(policy))

    written = _written(readers, exporter, view_of)
    first = next(written, b"")
    return _joined(first, written)


def name_of(format_name: str) -> str:
    """The file name of an export."""
    endings = {"wide": "csv", "members": "csv", "pairs": "csv", "nquads": "nq", "ftm": "jsonl"}
    return f"kb.{endings.get(format_name, format_name)}"


def _joined(first: bytes, rest: Iterator[bytes]) -> Iterator[bytes]:
    yield first  # to close this closes the rest
    yield from rest


def _written(
    readers: Readers, exporter: Exporter, view_of: Callable[[Store], View]
) -> Iterator[bytes]:
    """The exporter's output, from a thread; its error is raised at the end."""
    out, into = os.pipe()
    failed: list[BaseException] = []

    def write() -> None:
        try:
            with readers.store() as store:
                exporter.export(view_of(store), f"/dev/fd/{into}")
        except BrokenPipeError:  # the client has gone
            pass
        except BaseException as error:
            failed.append(error)
        finally:
            os.close(into)
            _running.release()

    threading.Thread(target=write, name="export", daemon=True).start()
    try:
        while chunk := os.read(out, _CHUNK):
            yield chunk
    finally:
        os.close(out)
    if failed:
        raise failed[0]
