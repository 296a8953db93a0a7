"""A knowledge base handed to an exporter, and how many entities it took."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from kbforge import registry
from kbforge.contracts import Entity, Exporter, Fragment, View
from kbforge.errors import UsageError, quoted


def export(view: View, exporter: Exporter, target: str) -> int:
    """Write what a view shows to `target` ("-" is standard output); how many entities there were.

    Raises:
        KBForgeError: the target cannot be written, or an entity cannot be read; in either case
            nothing appears under the name.

    """
    counted = _Counted(view)
    exporter.export(counted, target)
    return counted.count


JSON_LINES = "jsonl"
_OF_STORES = (".sqlite", ".sqlite3", ".db")


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
