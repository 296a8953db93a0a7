"""Asking about pairs of fragments: a person at a terminal, or a program line by line."""

from __future__ import annotations

import sys
from collections.abc import Callable, Mapping, Sequence
from typing import TYPE_CHECKING, Any, Literal, Protocol, TypeAlias, TypeVar

from kbforge import interrupts
from kbforge.cli import console
from kbforge.errors import BadRecord, ContradictionError, LikelihoodError, quoted
from kbforge.words import counted, percent

if TYPE_CHECKING:
    from rich.console import RenderableType
    from rich.table import Table
    from rich.text import Text

    from kbforge.contracts import Explanation, Fragment
    from kbforge.fit.review import Evidence

Said: TypeAlias = bool | Literal["undo", "quit"] | None
"""One entity or not, None for not known, or what to do instead."""

_KEYS: dict[str, Said] = {
    "y": True,
    "n": False,
    "s": None,
    "?": None,
    "u": "undo",
    "q": "quit",
}
_MOST_ROWS = 24
_MOST_VALUES = 6
_MOST_CHARACTERS = 200
# of evidence, which shows many fragments
_SHOWN_ATTRIBUTES = 12
_SHOWN_VALUES = 3
_SHOWN_CHARACTERS = 60


class Question(Protocol):
    """A pair to ask about."""

    def to_json(self) -> Mapping[str, Any]:
        """The question as one JSON object."""
        ...


Q = TypeVar("Q", bound=Question)


class Asks(Protocol[Q]):
    """What has questions, and keeps the answers."""

    def question(self) -> Q | None:
        """What to ask next; None if nothing is left to ask."""
        ...

    def answer(self, question: Q, same: bool | None, /) -> None:
        """Keep an answer; None says that nobody knows.

        Raises:
            OutputError: it cannot be written; nothing has changed then.
            ContradictionError: it cannot hold together with others; the question is passed over.
            LikelihoodError: no grouping that satisfies it is possible; likewise.

        """
        ...

    def undo(self) -> bool:
        """Take back the last answer; whether there was one."""
        ...


def at_terminal(asks: Asks[Q], count: int, show: Callable[[Q], RenderableType]) -> None:
    """Show pairs and read what a person types.

    Args:
        asks: has the questions, and keeps the answers.
        count: most questions.
        show: what a question looks like.

    Raises:
        OutputError: an answer cannot be written.

    """
    done = 0
    while done < count and (question := asks.question()) is not None:
        screen = console.stdout()
        screen.print()
        screen.print(show(question))
        said = _typed(f"{done + 1} of {count}: one entity? [y]es [n]o [s]kip [u]ndo [q]uit: ")
        if said == "quit":
            return
        try:
            done = _heed(asks, question, said, done)
        except (ContradictionError, LikelihoodError) as error:
            console.note(f"not kept: {error}")


def by_lines(asks: Asks[Q], count: int) -> None:
    """Write each question as a JSON line, and read each answer as one.

    An answer that cannot hold is not kept, and a line says why.

    Args:
        asks: has the questions, and keeps the answers.
        count: most questions.

    Raises:
        BadRecord: a line that is no answer.
        OutputError: an answer cannot be written.

    """
    from kbforge.files.io import called, lines_of

    said_lines = lines_of(sys.stdin.buffer, called("-"))
    done = 0
    while done < count and (question := asks.question()) is not None:
        console.print_json({"question": question.to_json()})
        sys.stdout.flush()
        number, line = next(said_lines, (0, None))
        said = "quit" if line is None else _read(line, f"{called('-')}:{number}")
        if said == "quit":
            return
        try:
            done = _heed(asks, question, said, done)
        except (ContradictionError, LikelihoodError) as error:
            console.print_json({"refused": str(error)})


def _heed(asks: Asks[Q], question: Q, said: Said, done: int) -> int:
    """Do what was said; returns how many questions are done by then."""
    # an answer that was given is kept whole
    with interrupts.deferred():
        if said == "undo":
            return done - 1 if asks.undo() else done
        assert said != "quit"
        asks.answer(question, said)
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
    from kbforge.files.fragments import parse_json, shown

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


def side_by_side(a: Fragment, b: Fragment) -> Table:
    """Both fragments beside each other; what only one of them says stands out."""
    from rich.table import Table
    from rich.text import Text

    from kbforge.kb.properties import merged_order

    table = Table(box=None, padding=(0, 2, 0, 0))
    for title in ("", "", quoted(a.id, 40), quoted(b.id, 40)):
        table.add_column(Text(title), overflow="fold")
    order = merged_order((tuple(a.properties), tuple(b.properties)))
    attributes = sorted(order, key=lambda name: name != "name")
    for attribute in attributes[:_MOST_ROWS]:
        one, other = (x.properties.get(attribute, ()) for x in (a, b))
        sign = " " if not (one and other) else "=" if set(one) == set(other) else "≠"
        row = (_values(one, other), _values(other, one))
        table.add_row(Text(quoted(attribute, 40), style="dim"), sign, *row)
    if len(attributes) > _MOST_ROWS:
        table.add_row(f"… and {len(attributes) - _MOST_ROWS:,} more", "", "", "")
    for what, shown in (("vector", _vectors(a, b)), ("source", (a.place, b.place))):
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


def show_evidence(evidence: Evidence) -> RenderableType:
    """Both fragments beside each other, their clusters, and what each attribute says."""
    from rich.console import Group
    from rich.text import Text

    question = evidence.question
    state = "together" if question.joined else "apart"
    # the colour is of nobody: what is believed is not what is so
    head = (
        f"now {state}; one entity with probability {percent(question.believed)}"
        f" (reported {percent(question.reported)});"
        f" the answer is expected to set {question.value:.2g} fragments right"
    )
    parts: list[RenderableType] = [
        Text(head, style="dim"),
        Text(),
        side_by_side(evidence.first.fragment, evidence.second.fragment),
        Text(),
        *_company(evidence),
    ]
    if evidence.explanation is not None:
        others = "the first one"
        if evidence.compared > 1:
            others = f"the {evidence.compared:,} of the first one"
        unit = "nats" if evidence.probability else "score"
        why = Text(f"what speaks for the second one's being with {others}, {unit}:", style="dim")
        parts += [Text(), why, _reasons(evidence.explanation)]
    return Group(*parts)


def _company(evidence: Evidence) -> list[RenderableType]:
    """The other fragments of their clusters."""
    from rich.text import Text

    sides = [evidence.first] if evidence.question.joined else [evidence.first, evidence.second]
    lines: list[RenderableType] = []
    for side in sides:
        whose = "both are" if evidence.question.joined else f"{quoted(side.fragment.id, 40)} is"
        besides = side.size - 1 - evidence.question.joined
        if not besides:
            lines.append(Text(f"{whose} with no other", style="dim"))
            continue
        lines.append(Text(f"{whose} with {counted(besides, 'other')}:", style="dim"))
        lines += [Text(f"  {_line(other)}") for other in side.others]
        if besides > len(side.others):
            lines.append(Text(f"  … and {besides - len(side.others):,} more", style="dim"))
    return lines


def _line(fragment: Fragment) -> str:
    """A fragment on one line, its name first."""
    attributes = sorted(fragment.properties, key=lambda name: name != "name")
    shown = [
        "/".join(quoted(value, _SHOWN_CHARACTERS) for value in values[:_SHOWN_VALUES])
        for values in (fragment.properties[name] for name in attributes[:_SHOWN_ATTRIBUTES])
    ]
    return f"{', '.join(shown) or 'a vector'} ({quoted(fragment.id, 40)})"


def _reasons(explanation: Explanation) -> Table:
    """What each attribute contributes, the largest contributions first."""
    from rich.table import Table
    from rich.text import Text

    table = Table(box=None, padding=(0, 2, 0, 2), show_header=False)
    table.add_column()
    table.add_column(justify="right")
    said = sorted(explanation.attributes.items(), key=lambda item: (-abs(item[1]), item[0]))
    for attribute, nats in said[:_SHOWN_ATTRIBUTES]:
        table.add_row(Text(quoted(attribute, 40)), _signed(nats))
    rest = sum(nats for _, nats in said[_SHOWN_ATTRIBUTES:])
    if len(said) > _SHOWN_ATTRIBUTES:
        table.add_row(Text(f"… {len(said) - _SHOWN_ATTRIBUTES:,} more"), _signed(rest))
    table.add_row(Text("prior", style="dim"), _signed(explanation.prior))
    table.add_row(Text("total", style="bold"), Text(_signed(explanation.total), style="bold"))
    return table


def _signed(nats: float) -> str:
    return f"{nats:+.2f}"
