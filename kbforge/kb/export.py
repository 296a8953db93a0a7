"""A knowledge base handed to an exporter, and how many entities it took."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from kbforge.contracts import Entity, Exporter, Fragment, View


def export(view: View, exporter: Exporter, target: str) -> int:
    """Write what a view shows to `target` ("-" is standard output); how many entities there were.

    Raises:
        KBForgeError: the target cannot be written, or an entity cannot be read; in either case
            nothing appears under the name.

    """
    counted = _Counted(view)
    exporter.export(counted, target)
    return counted.count


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
