"""The decisions of a store, with who made each, when and why."""

from __future__ import annotations

from collections.abc import Sequence

from kbforge.contracts.entity import Natural
from kbforge.jobs.decide import SignedDecision, signed_decisions
from kbforge.store.store import Store
from kbforge_serve.answers import Answer
from kbforge_serve.readers import Readers

MOST_ABOUT = 20
"""Maximum number of decisions about an entity in one answer."""


class MadeDecision(Answer, frozen=True):
    """A decision, in force or undone, and the runs that made and undid it."""

    number: Natural
    same: bool | None  # None: somebody could not tell
    first: str
    second: str
    run: Natural
    undone: Natural | None
    by: str | None  # None: it is older than the audit
    at: float | None  # seconds since 1970, UTC
    note: str
    asserts: str | None  # in words, if it asserts a value and was not erased
    verb: str  # of the run that made it, "" if it is older than the audit


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
        for one in reversed(signed_decisions(store)):
            if (
                (before is not None and one.number >= before)
                or (by and one.by != by)
                or (in_force and one.undone is not None)
            ):
                continue
            if len(found) == most:
                return Decisions(found, found[-1].number)
            found.append(_made(one))
        return Decisions(found, None)


def decisions_about(store: Store, fragments: Sequence[str]) -> list[MadeDecision]:
    """The last decisions that name one of some fragments, the latest first."""
    return [_made(one) for one in signed_decisions(store, fragments)[: -MOST_ABOUT - 1 : -1]]


def _made(one: SignedDecision) -> MadeDecision:
    decided = one.number, one.same, one.a, one.b, one.run, one.undone
    return MadeDecision(*decided, one.by, one.at, one.note, one.asserts, one.verb)
