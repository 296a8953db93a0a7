"""Small labelled data sets included in KBForge, for a first try.

    import kbforge

    fragments = kbforge.datasets.people()
    kb = kbforge.cluster(fragments)

Each is a list of fragments with gold labels, which clustering never reads and `kbforge.evaluate`
compares with. `card` describes a set and how it was made. All of them were invented for KBForge and
have its licence, Apache-2.0. The files are in `examples`; a wheel has copies of them beside this
module.
"""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

from kbforge.contracts import Fragment
from kbforge.errors import UsageError, quoted
from kbforge.jobs.api import load

__all__ = ["card", "customers", "mentions", "people"]

_HERE = Path(__file__).parent
# set -> (its file, its card) in `examples`
_EXAMPLES = {
    "people": ("people/people.csv", "people/README.md"),
    "mentions": ("quickstart/fragments.jsonl", "quickstart/README.md"),
    "customers": ("crm/customers.csv", "crm/README.md"),
}
# who is in which rows of people.csv
_PEOPLE = {
    "walter penhallow": range(1, 5),
    "jane austen": range(5, 8),
    "mary shelley": range(8, 11),
    "john smith of london": range(11, 12),
    "john smith of york": range(12, 15),
    "isaac newton": range(15, 18),
    "edmond halley": range(18, 20),
    "robert hooke": range(20, 21),
}


def people() -> list[Fragment]:
    """20 records of 8 people: names, dates and places with typos and gaps."""
    labels = {str(row): person for person, rows in _PEOPLE.items() for row in rows}
    fragments = load(_file("people", 0), id="id")
    return [replace(fragment, label=labels[fragment.id]) for fragment in fragments]


def mentions() -> list[Fragment]:
    """499 mentions of 120 people, places and organisations in a newspaper's archive."""
    return load(_file("mentions", 0))


def customers() -> list[Fragment]:
    """1,553 rows about 615 people, as entered in five systems of a company."""
    return load(_file("customers", 0), label="person")


def card(name: str) -> str:
    """The card of a data set, Markdown; a UsageError if there is no set of that name."""
    if name not in _EXAMPLES:
        raise UsageError(f'expected one of {", ".join(_EXAMPLES)}, got "{quoted(name)}"')
    return _file(name, 1).read_text(encoding="utf-8")


def _file(name: str, which: int) -> Path:
    """The file of a set (0) or its card (1), in a wheel or in the repository."""
    example = _EXAMPLES[name][which]
    copied = _HERE / f"{name}{Path(example).suffix}"
    return copied if copied.is_file() else _HERE.parents[1] / "examples" / example
