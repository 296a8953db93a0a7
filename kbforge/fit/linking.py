"""What `--link` binds: fragments that share a value of it, no two of which are one entity."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Sequence

from kbforge.contracts import Constraints, Fragment
from kbforge.errors import UsageError, quoted
from kbforge.words import counted, did_you_mean, listed

SOURCE = "source"
_MOST_NAMES = 12  # attributes that an error lists


def require_link(fragments: Sequence[Fragment], link: str | None) -> None:
    """Refuse a link to an attribute that no fragment has.

    Raises:
        UsageError: it is none of the attributes there are.

    """
    if link is None or link == SOURCE or not fragments:
        return
    linked = Constraints(link=link)
    if any(map(linked.stated, fragments)):
        return
    names = sorted({attribute for fragment in fragments for attribute in fragment.properties})
    raise UsageError(
        f'--link: no fragment has "{quoted(link)}"{did_you_mean(link, names)}; expected source or '
        f"one of {listed(names, _MOST_NAMES)}"
    )


def link_note(fragments: Iterable[Fragment], link: str) -> str:
    """A sentence on which fragments a link keeps apart.

    Args:
        fragments: to be clustered.
        link: an attribute, or "source".

    """
    linked = Constraints(link=link)
    total = 0
    shared: Counter[str] = Counter()
    of_fragments: list[tuple[str, ...]] = []
    for fragment in fragments:
        total += 1
        values = linked.stated(fragment)
        if values:
            shared.update(values)
            of_fragments.append(values)
    groups = {value: count for value, count in shared.items() if count > 1}
    named = f"--link {quoted(link)}"
    what = "a source" if link == SOURCE else f'a value of "{quoted(link)}"'
    if not groups:
        advice = "; the source of a fragment is the table that it was read from"
        return f"{named} has no effect: no two fragments share {what}" + (
            advice if link == SOURCE else ""
        )
    bound = sum(any(value in groups for value in values) for values in of_fragments)
    if max(groups.values()) == total:
        return f"{named} keeps all {total:,} fragments apart: all share {what}, so none is merged"
    return (
        f"{named} keeps {counted(bound, 'fragment')} apart in {counted(len(groups), 'group')}: no "
        f"entity has two fragments that share {what}"
    )
