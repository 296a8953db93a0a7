"""The statements of fragments as columns of numbers: which values each states of which attributes.

Learning, keys and encoding need every value once, and of a fragment only the numbers of its values.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from kbforge.contracts import Fragment, IntArray


class Statements(NamedTuple):
    """What fragments state, in the order in which they state it.

    Attributes and, within each attribute, values are numbered in the order of their first
    statement. A fragment that gives several values of an attribute has one statement for each; a
    value that it repeats is stated as often.

    Attributes:
        attributes: their names, by number.
        texts: of each attribute the texts of its values, by number.
        starts: where the statements of each fragment begin, shape [fragments + 1].
        attribute: number of the attribute of each statement, int32.
        value: number of the value among those of the attribute, int32.

    """

    attributes: list[str]
    texts: list[Sequence[str]]
    starts: IntArray
    attribute: NDArray[np.int32]
    value: NDArray[np.int32]


def statements_of(fragments: Sequence[Fragment]) -> Statements:
    """The statements of fragments."""
    numbers: dict[str, int] = {}
    known: list[dict[str, int]] = []  # the numbers of values, by attribute
    ends, attribute, value = [0], [], []
    for fragment in fragments:
        for name, values in fragment.properties.items():
            number = numbers.setdefault(name, len(numbers))
            if number == len(known):
                known.append({})
            of_values = known[number]
            for text in values:
                attribute.append(number)
                value.append(of_values.setdefault(text, len(of_values)))
        ends.append(len(value))
    return Statements(
        list(numbers),
        [list(of_values) for of_values in known],
        np.array(ends, dtype=np.int64),
        np.array(attribute, dtype=np.int32),
        np.array(value, dtype=np.int32),
    )
