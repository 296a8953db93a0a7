"""The decisions of a store, with who made each, when and why."""

from __future__ import annotations

from itertools import islice

from kbforge.contracts.entity import Natural
from kbforge.jobs.decide import deciders
from kbforge_serve.answers import Answer
from kbforge_serve.facts import MadeDecision, made_decisions
from kbforge_serve.readers import Readers


class Decisions(Answer, frozen=True):
    """Some decisions, the latest first; `next` requests the earlier ones."""

    decisions: list[MadeDecision]
    next: Natural | None


def decisions_of(
    readers: Readers,
    before: int | None = None,
    most: int = 100,
    by: str = "",
    in_force: bool = False,
) -> Decisions:
    """The latest decisions before a number: of one person or program, or only those in force."""
    with readers.store() as store:
        # the audit may not know what programs decided
        line = "" if by in deciders(store).values() else by
        records, found = store.last_decisions(before, in_force, line), list[MadeDecision]()
        while len(found) <= most and (some := list(islice(records, most + 1))):
            found += [one for one in made_decisions(readers, store, some) if by in ("", one.by)]
        return Decisions(found[:most], found[most - 1].number if len(found) > most else None)
