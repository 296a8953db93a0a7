"""Baselines without a model: equal names, and the ceiling.

| baseline | fragments are together if |
|---|---|
| exact name | their first names are the same, case folded; one without a name stands alone |
| ceiling | what they say is labelled alike: all that say exactly the same take the label of most |

The ceiling reads the labels. It is about the best that anything can do that sees what fragments say
and nothing else; where equal fragments are of several entities it is below 1.
"""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Callable, Hashable, Mapping, Sequence

from kbforge.contracts.fragment import Fragment
from kbforge_lab.contracts.suite import Baseline

_PARTS = ("first_name", "surname")


def exact_name(fragments: Sequence[Fragment]) -> list[Hashable]:
    """A label a fragment; records without `name` may have a first name and a surname instead."""
    return [_name(fragment) for fragment in fragments]


def ceiling(fragments: Sequence[Fragment]) -> list[Hashable]:
    """The label that most of those have who say the same; the first of them among as many."""
    said = [_said(fragment) for fragment in fragments]
    labels: dict[Hashable, Counter[str | None]] = defaultdict(Counter)
    for what, fragment in zip(said, fragments, strict=True):
        labels[what][fragment.label] += 1
    best = {what: counts.most_common(1)[0][0] for what, counts in labels.items()}
    return [best[what] for what in said]


BASELINES: Mapping[Baseline, Callable[[Sequence[Fragment]], list[Hashable]]] = {
    "exact name": exact_name,
    "ceiling": ceiling,
}


def _name(fragment: Fragment) -> Hashable:
    if fragment.names:
        return fragment.names[0].casefold()
    parts = tuple(fragment.properties.get(part, ("",))[0].casefold() for part in _PARTS)
    # no name is a tuple of one
    return parts if any(parts) else (fragment.id,)


def _said(fragment: Fragment) -> Hashable:
    return tuple(sorted(fragment.properties.items())), fragment.vector
