"""What a question of `kbforge review` looks like: both sides, whom they are with, and why."""

from __future__ import annotations

from typing import TYPE_CHECKING

from kbforge.errors import quoted
from kbforge.words import counted, percent

if TYPE_CHECKING:
    from rich.console import RenderableType
    from rich.table import Table

    from kbforge.contracts import Explanation, Fragment
    from kbforge.fit.review import Evidence

_MOST_ATTRIBUTES = 12
_MOST_VALUES = 3
_MOST_CHARACTERS = 60


def show(evidence: Evidence) -> RenderableType:
    """Both fragments beside each other, their clusters, and what each attribute says."""
    from rich.console import Group
    from rich.text import Text

    from kbforge.cli.asking import side_by_side

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
    """Whom the two are with."""
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
        lines += [Text(f"  {_told(other)}") for other in side.others]
        if besides > len(side.others):
            lines.append(Text(f"  … and {besides - len(side.others):,} more", style="dim"))
    return lines


def _told(fragment: Fragment) -> str:
    """A fragment on one line, its name first."""
    attributes = sorted(fragment.properties, key=lambda name: name != "name")
    shown = [
        "/".join(quoted(value, _MOST_CHARACTERS) for value in values[:_MOST_VALUES])
        for values in (fragment.properties[name] for name in attributes[:_MOST_ATTRIBUTES])
    ]
    return f"{', '.join(shown) or 'a vector'} ({quoted(fragment.id, 40)})"


def _reasons(explanation: Explanation) -> Table:
    """The nats of each attribute, the ones that say most first."""
    from rich.table import Table
    from rich.text import Text

    table = Table(box=None, padding=(0, 2, 0, 2), show_header=False)
    table.add_column()
    table.add_column(justify="right")
    said = sorted(explanation.attributes.items(), key=lambda item: (-abs(item[1]), item[0]))
    for attribute, nats in said[:_MOST_ATTRIBUTES]:
        table.add_row(Text(quoted(attribute, 40)), _signed(nats))
    rest = sum(nats for _, nats in said[_MOST_ATTRIBUTES:])
    if len(said) > _MOST_ATTRIBUTES:
        table.add_row(Text(f"… {len(said) - _MOST_ATTRIBUTES:,} more"), _signed(rest))
    table.add_row(Text("prior", style="dim"), _signed(explanation.prior))
    table.add_row(Text("total", style="bold"), Text(_signed(explanation.total), style="bold"))
    return table


def _signed(nats: float) -> str:
    return f"{nats:+.2f}"
