"""Who wrote what to a store, when and why: the audit, a chain of lines.

Each run, decision and undo adds a line. A line has plain columns and `said`, a JSON object with all
that identifies fragments or that people remarked. `digest` is the SHA-256 of `said`; `chain` is the
SHA-256 of the chain of the line before, the plain columns and the digest. So a changed, missing or
moved line breaks the chain (`broken`), and the fact `END` tells whether the last lines are there.
Somebody who writes the file can compute a whole new chain: keep the last `chain` of an export
elsewhere, and a later export must contain it.

An erasure empties `said` and leaves the digest, so the chain holds. `said` has a random number,
without which its digest would tell whether a guess of an erased text is right.
"""

from __future__ import annotations

import contextlib
import getpass
import hashlib
import os
import secrets
import sqlite3
import time
from collections.abc import Iterator, Sequence
from contextvars import ContextVar
from typing import Any

import msgspec
import orjson

from kbforge.contracts import DecisionRecord
from kbforge.errors import UsageError
from kbforge.store.tables import Row, insert_rows, read_rows, row_of, rows_of, write_rows
from kbforge.texts import LARGEST

AS = "KBFORGE_AS"
"""The variable of the environment with the name of who writes."""
END = "audit"
"""The fact with the number and the chain of the last line."""
MOST_NAME, MOST_NOTE = 200, 2000
"""Maximum number of characters of a name and of a note."""
_FIRST = "0" * 64  # the chain before the first line


class AuditLine(msgspec.Struct, frozen=True):
    """A line of the audit, as it is exported."""

    number: int  # from 1
    at: float  # seconds since 1970, UTC
    by: str  # the name of a person or a program
    verb: str  # of the run
    run: int
    decision: int | None  # that was made or undone
    digest: str
    chain: str
    # of a decision same, a and b, of one that asserts a value also about, of another run about;
    # note; nonce. None if it was erased
    said: dict[str, Any] | None

    @property
    def note(self) -> str:
        """Why, if somebody said so."""
        return "" if self.said is None else str(self.said["note"])


_SIGNED: ContextVar[tuple[str | None, str]] = ContextVar("signed", default=(None, ""))


@contextlib.contextmanager
def signed(by: str | None, note: str | None = None) -> Iterator[None]:
    """Everything written in this context is by this name, for the reason in the note.

    Without a name, it is that of the context around, of the environment (`AS`) or of the user of
    the machine.

    Raises:
        UsageError: the name or the note is too long, or the name is blank.

    """
    if by is not None and not (by := by.strip()):
        raise UsageError("expected a name of who decides, got nothing")
    for text, most, what in ((by, MOST_NAME, "name"), (note, MOST_NOTE, "note")):
        if text is not None and len(text) > most:
            raise UsageError(f"a {what} has at most {most:,} characters, got {len(text):,}")
    outer, why = _SIGNED.get()
    before = _SIGNED.set((by or outer, why if note is None else note))
    try:
        yield
    finally:
        _SIGNED.reset(before)


def signature() -> tuple[str, str]:
    """The name of who writes in this context, and why."""
    return signer(), _SIGNED.get()[1]


def signer() -> str:
    """The name of who writes in this context."""
    if (by := _SIGNED.get()[0]) is not None:
        return by
    with contextlib.suppress(OSError, KeyError, ImportError):  # a user without a name, or none
        return (os.environ.get(AS) or getpass.getuser())[:MOST_NAME]
    return "unknown"


def record(
    rows: sqlite3.Connection,
    run: int,
    verb: str,
    about: str,
    decided: DecisionRecord | None = None,
) -> None:
    """Add a line for a run or for what it decided or undid, within the current transaction."""
    by, note = signature()
    said: dict[str, Any] = {"about": about}
    if decided is not None:
        pair = {"same": decided.same, "a": decided.first, "b": decided.second}
        said = pair | (said if decided.asserts else {})
    content = orjson.dumps({**said, "note": note, "nonce": secrets.token_hex(8)})
    end = row_of(rows, "meta", END)
    number, chain = (0, _FIRST) if end is None else orjson.loads(end[1])
    which = None if decided is None else decided.number
    plain = (number + 1, time.time(), by, verb, run, which)
    digest = hashlib.sha256(content).hexdigest()
    chain = _linked(chain, plain, digest)
    insert_rows(rows, "audit", [(*plain, digest, chain, content)])
    write_rows(rows, "meta", {END: (orjson.dumps([number + 1, chain]),)})


def _linked(before: str, plain: Row, digest: str) -> str:
    return hashlib.sha256(orjson.dumps([before, *plain, digest])).hexdigest()


def audit_of(
    rows: sqlite3.Connection, since: int = 0, to: int | None = None, decisions: bool = False
) -> Iterator[AuditLine]:
    """The lines in order, of the runs after `since` until `to`, or only those of `decisions`."""
    where = "WHERE run > ? AND run <= ?" + " AND decision IS NOT NULL" * decisions
    bounds = since, LARGEST if to is None else to
    yield from map(line_of, read_rows(rows, "audit", f"{where} ORDER BY number", bounds))


def line_of(row: Row) -> AuditLine:
    """A line from its row."""
    number, at, by, verb, run, decision, digest, chain, said = row
    words = orjson.loads(said) if said else None
    return AuditLine(number, at, by, verb, run, decision, digest, chain, words)


def made_by(
    rows: sqlite3.Connection, decisions: Sequence[int] | None = None
) -> dict[int, AuditLine]:
    """By decision the line of who made it, of all or some; those older than the audit have none."""
    made: dict[int, AuditLine] = {}
    if decisions is None:
        found = audit_of(rows, decisions=True)
    else:
        found = map(line_of, sorted(rows_of(rows, "audit", "decision", decisions)))
    for line in found:
        made.setdefault(line.decision or 0, line)
    return made


def broken(lines: Sequence[Row], end: bytes | None) -> Iterator[str]:
    """Sentences about lines that were changed, are missing or were added; `end` is the fact."""
    chain = _FIRST
    for at, (*plain, digest, linked, said) in enumerate(lines, start=1):
        number = plain[0]
        if number != at:
            yield f"audit lacks line {at}"
            return
        if said and hashlib.sha256(said).hexdigest() != digest:
            yield f"what line {number} of audit says was changed"
        if _linked(chain, tuple(plain), digest) != linked:
            yield f"line {number} of audit, or one before, was changed"
            return
        chain = linked
    if (orjson.loads(end) if end else [0, _FIRST]) != [len(lines), chain]:
        yield f"audit does not end with line {len(lines)}, which is its last"
