"""Views of a knowledge base that is a file, or entities in memory."""

from __future__ import annotations

import sqlite3
from collections.abc import Callable, Iterable, Iterator, Sequence

import orjson

from kbforge.contracts import Entity, Fragment, View
from kbforge.errors import KBForgeError, UsageError, quoted
from kbforge.files.fragments import read_fragments, to_line
from kbforge.kb.fragments import fragments_of
from kbforge.kb.read import read_entities


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
