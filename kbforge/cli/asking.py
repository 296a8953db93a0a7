"""Asking about pairs of fragments: a person at a terminal, or a program line by line."""

from __future__ import annotations

import sys
from collections.abc import Sequence
from typing import TYPE_CHECKING, Literal, TypeAlias

from kbforge import interrupts
from kbforge.cli import console
from kbforge.errors import BadRecord, quoted

if TYPE_CHECKING:
    from rich.table import Table
    from rich.text import Text

    from kbforge.contracts import Fragment
    from kbforge.jobs.label import Labelling, Question

Said: TypeAlias = bool | Literal["undo", "quit"] | None
"""One entity or not, None for not known, or what to do instead."""

_KEYS: dict[str, Said] = {"y": True, "n": False, "s": None, "u": "undo", "q": "quit"}
_MOST_ROWS = 24
_MOST_VALUES = 6
_MOST_CHARACTERS = 200


def at_terminal(labelling: Labelling, count: int) -> None:
    """Show pairs and read what a person types.

    Args:
        labelling: asks, and keeps the answers.
        count: most questions.

    Raises:
        OutputError: an answer cannot be written.

    """
    done = 0
    while done < count and (question := labelling.question()) is not None:
        screen = console.stdout()
        screen.print()
        screen.print(_table(question))
        said = _typed(f"{done + 1} of {count}: one entity? [y]es [n]o [s]kip [u]ndo [q]uit: ")
        if said == "quit":
            return
        done = _heed(labelling, question, said, done)


def by_lines(labelling: Labelling, count: int) -> None:
    """Write each question as a JSON line, and read each answer as one.

    Args:
        labelling: asks, and keeps the answers.
        count: most questions.

    Raises:
        BadRecord: a line that is no answer.
        OutputError: an answer cannot be written.

    """
    from kbforge.files.io import called, lines_of

    said_lines = lines_of(sys.stdin.buffer, called("-"))
    done = 0
    while done < count and (question := labelling.question()) is not None:
        console.print_json({"question": question.to_json()})
        sys.stdout.flush()
        number, line = next(said_lines, (0, None))
        said = "quit" if line is None else _read(line, f"{called('-')}:{number}")
        if said == "quit":
            return
        done = _heed(labelling, question, said, done)


def _heed(labelling: Labelling, question: Question, said: Said, done: int) -> int:
    """Do what was said; returns how many questions are done by then."""
    # an answer that was given is kept whole
    with interrupts.deferred():
        if said == "undo":
            return done - 1 if labelling.undo() else done
        assert said != "quit"
        labelling.answer(question, said)
        return done + 1


def _typed(prompt: str) -> Said:
    while True:
        sys.stdout.write(prompt)
        sys.stdout.flush()
        line = sys.stdin.readline()
        if not line:
            return "quit"
        key = line.strip().lower()[:1]
        if key in _KEYS:
            return _KEYS[key]
        console.note(f'expected y, n, s, u or q, got "{quoted(line.strip())}"')


def _read(line: bytes, where: str) -> Said:
    """What a line says."""
    from kbforge.files.answers import record_of, same_of
    from kbforge.files.jsonl import parse_json, shown

    value = parse_json(line, where)
    if not isinstance(value, dict) or len(value) != 1:
        raise BadRecord(where, 'an object with "same", "undo" or "quit"', shown(value))
    record = record_of(value, where).only("same", "undo", "quit")
    word: Literal["undo", "quit"]
    for word in ("undo", "quit"):
        if word in record:
            if record.get(word, bool, "true") is not True:
                raise record.wrong(word, "true", "false")
            return word
    return same_of(record)


def _table(question: Question) -> Table:
    """Both fragments beside each other; what only one of them says stands out."""
    from rich.table import Table
    from rich.text import Text

    a, b = question.a, question.b
    table = Table(box=None, padding=(0, 2, 0, 0))
    for title in ("", "", quoted(a.id, 40), quoted(b.id, 40)):
        table.add_column(Text(title), overflow="fold")
    attributes = sorted({**a.properties, **b.properties}, key=lambda name: (name != "name", name))
    for attribute in attributes[:_MOST_ROWS]:
        one, other = (x.properties.get(attribute, ()) for x in (a, b))
        sign = " " if not (one and other) else "=" if set(one) == set(other) else "≠"
        row = (_values(one, other), _values(other, one))
        table.add_row(Text(quoted(attribute, 40), style="dim"), sign, *row)
    if len(attributes) > _MOST_ROWS:
        table.add_row(f"… and {len(attributes) - _MOST_ROWS:,} more", "", "", "")
    for what, shown in (("vector", _vectors(a, b)), ("source", (a.source, b.source))):
        if any(shown):
            table.add_row(Text(what, style="dim"), "", *(Text(quoted(s or "", 60)) for s in shown))
    return table


def _values(own: Sequence[str], others: Sequence[str]) -> Text:
    from rich.text import Text

    shown = [
        Text(quoted(value, _MOST_CHARACTERS), style="" if value in others else "bold yellow")
        for value in own[:_MOST_VALUES]
    ]
    if len(own) > _MOST_VALUES:
        shown.append(Text(f"… and {len(own) - _MOST_VALUES:,} more"))
    return Text("\n").join(shown)


def _vectors(*fragments: Fragment) -> list[str]:
    return [" ".join(f"{x:.4g}" for x in (f.vector or ())[:8]) for f in fragments]
