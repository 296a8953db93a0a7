"""Views of a knowledge base in a file or in memory, and their export by a plugin."""

from __future__ import annotations

import sqlite3
from collections.abc import Callable, Iterable, Iterator, Sequence

import orjson

from kbforge import registry
from kbforge.contracts import Entity, Exporter, Fragment, View
from kbforge.errors import KBForgeError, UsageError, quoted
from kbforge.files.fragments import read_fragments, to_line
from kbforge.kb.properties import fragments_of
from kbforge.kb.read import read_entities

JSON_LINES = "jsonl"
_OF_STORES = (".sqlite", ".sqlite3", ".db")


class EntitiesView(View):
    """Entities, and the fragments that they were made of where those are at hand.

    Args:
        entities: gives them from the first on, each time it is called.
        fragments: as they went in, in any order, among others or alone; None tells them from the
            entities' values.

    """

    def __init__(
        self,
        entities: Callable[[], Iterator[Entity]],
        fragments: Iterable[Fragment] | None = None,
    ) -> None:
        self._entities = entities
        self._known = None if fragments is None else _Known(fragments)

    @property
    def knows_fragments(self) -> bool:
        return self._known is not None

    def entities(self) -> Iterator[Entity]:
        return self._entities()

    def fragments(self, entity: Entity) -> Sequence[Fragment]:
        """As `View`.

        Raises:
            UsageError: one of them is not among the fragments given.

        """
        if self._known is None:
            return fragments_of(entity)
        return [self._known.of(fragment) for fragment in entity.fragments]


def file_view(kb: str, fragments: str | None = None) -> EntitiesView:
    """A view of a file of entities.

    Args:
        kb: entities as JSON lines; "-" is standard input.
        fragments: the file that was clustered.

    Raises:
        KBForgeError: the fragments cannot be read.
        UsageError: both are standard input.

    """
    if kb == fragments == "-":
        raise UsageError("only one of KB and --fragments can be standard input")
    given = None if fragments is None else read_fragments(fragments)
    return EntitiesView(lambda: read_entities(kb), given)


class _Known:
    """Fragments by id, in a database without a name: what memory cannot hold is in its file."""

    def __init__(self, fragments: Iterable[Fragment]) -> None:
        self._database = sqlite3.connect("")
        try:
            with self._database as database:
                database.execute("CREATE TABLE fragment (id TEXT PRIMARY KEY, line BLOB)")
                database.executemany(
                    "INSERT INTO fragment VALUES (?, ?)", ((f.id, to_line(f)) for f in fragments)
                )
        except sqlite3.OperationalError as error:
            raise KBForgeError(
                f"cannot put the fragments into a temporary file: {error}"
            ) from error

    def of(self, fragment: str) -> Fragment:
        found = self._database.execute("SELECT line FROM fragment WHERE id = ?", (fragment,))
        row = found.fetchone()
        if row is None:
            raise UsageError(
                f'--fragments lacks the fragment "{quoted(fragment)}" of the knowledge base; give '
                f"the file that was clustered"
            )
        return Fragment.from_json(orjson.loads(row[0]), quoted(fragment))


def export(view: View, exporter: Exporter, target: str) -> int:
    """Write what a view shows to `target` ("-" is standard output); how many entities there were.

    Raises:
        KBForgeError: the target cannot be written, or an entity cannot be read; in either case
            nothing appears under the name.

    """
    counted = _Counted(view)
    exporter.export(counted, target)
    return counted.count


def exporter_for(output: str) -> str:
    """The exporter of an output that nobody named one for: by its ending, else JSON lines.

    Raises:
        UsageError: no exporter states the ending, or the file would be packed as nobody asked.

    """
    if output == "-" or not registry.ending_of(output):
        return JSON_LINES
    if output.lower().endswith((".zst", ".zstd")):
        raise UsageError(
            f"{quoted(output, 400)}: expected an output without compression or with .gz, got zstd"
        )
    return registry.require_plugin_of(
        "exporters", output, "--format NAME takes another (see kbforge plugins list)"
    )


def require_json_lines(output: str, what: str, instead: str, store: str = "") -> None:
    """Refuse a name that promises another format, where only JSON lines are written.

    Args:
        output: the file's name.
        what: is written.
        instead: how to get the other format.
        store: how to get a store, if that is possible.

    Raises:
        UsageError: the ending is another exporter's, or a store's.

    """
    ending = "" if output == "-" else registry.ending_of(output)
    is_store = ending in _OF_STORES
    if is_store or (ending and registry.plugin_of("exporters", output) not in (None, JSON_LINES)):
        raise UsageError(
            f"-o {quoted(output, 400)}: {what} written as JSON lines, got the ending "
            f"{quoted(ending, 40)}; {(store if is_store else '') or instead}"
        )


class _Counted(View):
    """A view that knows how many entities were read of it."""

    def __init__(self, view: View) -> None:
        self._view = view
        self.count = 0

    @property
    def knows_fragments(self) -> bool:
        return self._view.knows_fragments

    def entities(self) -> Iterator[Entity]:
        for entity in self._view.entities():
            self.count += 1
            yield entity

    def fragments(self, entity: Entity) -> Sequence[Fragment]:
        return self._view.fragments(entity)
