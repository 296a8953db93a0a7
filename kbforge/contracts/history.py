"""History: what a stored knowledge base remembers beside its entities."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from enum import StrEnum
from typing import Any

from kbforge.contracts.constraints import Decision


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
class Decided:
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
