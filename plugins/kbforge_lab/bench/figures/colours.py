"""One colour for each method, the same in every figure and suite."""

from __future__ import annotations

from collections.abc import Sequence

from kbforge.pictures.canvas import PALETTE
from kbforge_lab.contracts.suite import Method

# one colour each, in whatever table they are; the suites' names
_METHODS = (
    "Agglomerative",
    "Agglomerative (batch 100)",
    "Gibbs",
    "Greedy",
    "Metropolis",
    "SMC",
    "Split SMC",
)


def colours_of(table: Sequence[Method]) -> dict[str, str]:
    """A colour a method, by name: the suites' methods keep theirs from suite to suite.

    Others share those that are left, first of all those that no suite's method has.
    """
    names = {method.name for method in table}
    colours = {name: PALETTE[i] for i, name in enumerate(_METHODS) if name in names}
    left = [colour for colour in reversed(PALETTE) if colour not in colours.values()]
    others = sorted(names.difference(_METHODS))
    return colours | {name: left[i % len(left)] for i, name in enumerate(others)}
