"""View: reading a knowledge base, whether a file or a store holds it.

Exporters, reports and pages read through it and know of no file. It gives entities one at a time,
and of each the fragments as they went in, with source and metadata where those are known.

Laws:

1. Every fragment is in exactly one entity.
2. The fragments of an entity come in the entity's order, one for each of its ids.
3. Memory is bounded by one entity.

Exporters: from a view of a knowledge base to a file format.

One signature for the family:

    export(view, target) -> None

Laws, tested for every member by `kbforge.testing.ExporterContract`:

1. Every entity is written once, in the order of the view. The view is read once.
2. Same view, same bytes.
3. Values are data: whatever they contain is escaped for the format.
4. Memory is bounded by one entity, whatever their number.
5. The target appears when it is whole. A failure leaves what was there before.

`kbforge.files.io.open_output` gives a stream that keeps law 5 and knows standard output;
`kbforge.files.io.open_folder` does it for a format of several files.

Most formats are streaming: they write while they read. One whose first byte needs the last entity
(a header of all attributes) is not, and keeps law 4 by letting the entities wait in a temporary
file.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from enum import StrEnum
from typing import Any, ClassVar, Protocol

from kbforge.contracts.constraints import Decision
from kbforge.contracts.entity import Entity
from kbforge.contracts.fragment import Fragment


class View(Protocol):
    """What can be read of a knowledge base."""

    @property
    def knows_fragments(self) -> bool:
        """Whether fragments are as they went in; if not, they are told from the entity's values.

        A fragment that is told has no source, metadata, vector and label, and its values are each
        there once.
        """
        ...

    def entities(self) -> Iterator[Entity]:
        """The entities, one at a time; ask once, for standard input cannot be read again."""
        ...

    def fragments(self, entity: Entity) -> Sequence[Fragment]:
        """The fragments of one of the entities, in its order.

        Raises:
            KBForgeError: one of them is not where fragments are known from.

        """
        ...


class Exporter(Protocol):
    """A writer of one format. Its options are its constructor's parameters.

    Attributes:
        endings: of files in this format, such as ".csv": `kbforge export -o out.csv` takes the
            exporter that states the ending. Leave out one that another format has first.

    """

    endings: ClassVar[tuple[str, ...]] = ()

    def export(self, view: View, target: str) -> None:
        """Write what the view shows.

        Args:
            view: the knowledge base.
            target: path of a file, or of a folder where the format has several files; "-" is
                standard output.

        Raises:
            OutputError: the target cannot be written.
            UsageError: "-", and the format has several files.

        """
        ...


@dataclass(frozen=True, slots=True)
class Run:
    """One command that wrote.

    Attributes:
        number: from 1 on.
        verb: such as "cluster" or "remove".
        about: what it was given, for people to read.
        finished: false while it goes on, or after it was killed.
        added: fragments.
        removed: fragments.
        entities: how many there were when it ended, or by now.
        seconds: wall time.
        began: seconds since 1970, UTC.

    """

    number: int
    verb: str
    about: str
    finished: bool
    added: int
    removed: int
    entities: int
    seconds: float
    began: float


@dataclass(frozen=True, slots=True)
class DecisionRecord:
    """A decision in force, or one that was undone.

    Attributes:
        number: from 1 on, in the order in which they were made.
        decision: what was decided; its name is "decision NUMBER".
        run: the number of the run that made it.
        undone: the number of the run that undid it, None while it is in force.

    """

    number: int
    decision: Decision
    run: int
    undone: int | None


class Kind(StrEnum):
    """What became of an entity."""

    CREATED = "created"
    """It is new, and its fragments were in no entity, or in one that lives on."""

    CHANGED = "changed"
    """It has fragments that it had not, or lacks some that it had."""

    MERGED = "merged"
    """It is no more: another one has the most of its fragments."""

    SPLIT = "split"
    """It is no more: several have its fragments, and none of them the most."""

    REMOVED = "removed"
    """It is no more: nothing of it is left."""


@dataclass(frozen=True, slots=True)
class Change:
    """How an entity is other than it was.

    Attributes:
        entity: its id.
        kind: what became of it.
        before: ids of its fragments then; none if it is new.
        after: ids of its fragments now; none if it is no more.
        others: ids of entities: of one that merged, the one that has taken it in; of one that
            split, its parts; of one that was created or changed, those that it took from, and
            which are no more or lost fragments to it.

    """

    entity: str
    kind: Kind
    before: tuple[str, ...]
    after: tuple[str, ...]
    others: tuple[str, ...]

    def to_json(self) -> Mapping[str, Any]:
        """The JSON object of this change."""
        return {
            "entity": self.entity,
            "kind": str(self.kind),
            "before": list(self.before),
            "after": list(self.after),
            "others": list(self.others),
        }
