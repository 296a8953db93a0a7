"""Exact names: group fragments whose first names are equal, and no others.

It is what anyone would try first by hand, so every default is measured against it.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from kbforge.contracts import Fragment

_LONGEST = 4_096


def exact_name(fragment: Fragment) -> str:
    """The first name with folded case and single spaces; "" if the fragment has none.

    Where there is no attribute `name`, the attributes whose names contain "name" make one together
    (first_name, surname), in the order of the fragment; the last resort is all that it states.
    """
    names = fragment.names
    if names:
        return _folded(names[0])
    properties = fragment.properties
    parts = [values[0] for key, values in properties.items() if "name" in key.casefold()]
    if parts:
        return _folded(" ".join(parts))
    stated = (f"{key}: {values[0]}" for key, values in sorted(properties.items()))
    return _folded("; ".join(stated))


def exact_names(fragments: Iterable[Fragment]) -> set[str]:
    """The different exact names of some fragments."""
    known: set[tuple[str, ...]] = set()
    found = set()
    for fragment in fragments:
        names = fragment.names
        if not names:
            found.add(exact_name(fragment))
        elif names not in known:
            known.add(names)
            found.add(_folded(names[0]))
    return found


def exact_groups(fragments: Sequence[Fragment]) -> list[int]:
    """By fragment, the first fragment with the same exact name; one without any is by itself."""
    first: dict[str, int] = {}
    return [
        first.setdefault(name, i) if (name := exact_name(fragment)) else i
        for i, fragment in enumerate(fragments)
    ]


def _folded(text: str) -> str:
    return " ".join(text[:_LONGEST].casefold().split())
