"""The decisions of a store, with who made each, when and why."""

from __future__ import annotations

from kbforge.contracts.entity import Natural
from kbforge.jobs.decide import signed_decisions
from kbforge_serve.answers import Answer
from kbforge_serve.readers import Readers


class MadeDecision(Answer, frozen=True):
    """A decision, in force or undone, and the runs that made and undid it."""

    number: Natural
    same: bool
    first: str
    second: str
    run: Natural
    undone: Natural | None
    by: str | None  # None: it is older than the audit
    at: float | None  # seconds since 1970, UTC
    note: str
    asserts: str | None  # in words, if it asserts a value and was not erased


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
        found = list[MadeDecision]()
        for one, who, _, when, why, asserts in reversed(signed_decisions(store)):
            if (
                (before is not None and one.number >= before)
                or (by and who != by)
                or (in_force and one.undone is not None)
            ):
                continue
            if len(found) == most:
                return Decisions(found, found[-1].number)
            pair = one.number, one.same, one.first, one.second, one.run, one.undone
            found.append(MadeDecision(*pair, who, when, why, asserts))
        return Decisions(found, None)
