"""Groupings that a chain starts with: by a word, or from a file of an earlier run."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from kbforge.contracts import Cluster, Fragment
from kbforge.errors import UsageError, quoted
from kbforge.kb.read import read_entities

SINGLETONS = "singletons"
SEQUENTIAL = "sequential"
ONE = "one"


def require_start(start: str, *words: str) -> str:
    """The start itself, which is one of the words or a file that `kbforge cluster` wrote."""
    if start not in words and not Path(start).is_file():
        raise UsageError(
            f"start: expected {', '.join(words)} or a file that kbforge cluster wrote, "
            f'got "{quoted(start, 400)}"'
        )
    return start


def chain_start(start: str, fragments: Sequence[Fragment]) -> list[Cluster] | None:
    """As `groups_from`; None for `sequential`, where the chain itself places the fragments."""
    return None if start == SEQUENTIAL else groups_from(start, fragments)


def groups_from(start: str, fragments: Sequence[Fragment]) -> list[Cluster]:
    """A partition of the fragments, by smallest fragment: `singletons`, `one`, or that of a file.

    Fragments that the file lacks are by themselves, and those that only it has are left out.
    """
    if start == SINGLETONS:
        return [(i,) for i in range(len(fragments))]
    if start == ONE:
        return [tuple(range(len(fragments)))] if fragments else []
    number = {fragment.id: i for i, fragment in enumerate(fragments)}
    found = [
        tuple(sorted(number[name] for name in entity.fragments if name in number))
        for entity in read_entities(start)
    ]
    groups = [group for group in found if group]
    if fragments and not groups:
        raise UsageError(f'start: "{quoted(start, 400)}" has none of the fragments')
    apart = set(range(len(fragments))).difference(*groups)
    return sorted((*groups, *((i,) for i in apart)))
