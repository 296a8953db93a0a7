"""What fragments state, counted: each different list of values is normalised once."""

from __future__ import annotations

from collections import Counter
from collections.abc import Container, Sequence
from itertools import chain

from kbforge.contracts.fragment import Fragment
from kbforge_plugins.models.attributes.kinds import stated


def counts_stated(
    fragments: Sequence[Fragment], attributes: Container[str] = ()
) -> dict[str, Counter[str]]:
    """By attribute, how many fragments state each value as of `stated`, "" for blank ones.

    Args:
        fragments: to count.
        attributes: those to count; none counts all.

    """
    raw: dict[str, dict[tuple[str, ...], int]] = {}
    for fragment in fragments:
        for attribute, values in fragment.properties.items():
            held = raw.get(attribute)
            if held is None:
                held = raw[attribute] = {}
            held[values] = held.get(values, 0) + 1
    counts: dict[str, Counter[str]] = {}
    for attribute, held in raw.items():
        if attributes and attribute not in attributes:
            continue
        counter = counts[attribute] = Counter()
        for values, n in held.items():
            counter[stated(values)] += n
    return counts


def counts_of(fragments: Sequence[Fragment]) -> dict[str, Counter[str]]:
    """By attribute, how many fragments state each value; blank ones are missing."""
    counts = counts_stated(fragments)
    for counter in counts.values():
        del counter[""]
    return {attribute: counter for attribute, counter in counts.items() if counter}


class Contents:
    """The different things that fragments state; what two state word for word is one of them.

    Args:
        fragments: to be told apart.

    Attributes:
        fragments: how many they are.
        different: how many different things they state.

    """

    def __init__(self, fragments: Sequence[Fragment]) -> None:
        numbers: dict[tuple[str, str], int] = {}
        of_raw: dict[str, dict[tuple[str, ...], int]] = {}
        found: set[tuple[int, ...]] = set()
        for fragment in fragments:
            said = []
            for attribute, values in fragment.properties.items():
                known = of_raw.get(attribute)
                if known is None:
                    known = of_raw[attribute] = {}
                number = known.get(values)
                if number is None:
                    number = numbers.setdefault((attribute, stated(values)), len(numbers))
                    known[values] = number
                said.append(number)
            said.sort()
            found.add(tuple(said))
        self._numbers, self._found = numbers, found
        self.fragments, self.different = len(fragments), len(found)

    def counts(self) -> dict[str, dict[str, int]]:
        """By attribute, how many of the different things state each value; without blank ones."""
        often = Counter(chain.from_iterable(self._found))
        out: dict[str, dict[str, int]] = {}
        for (attribute, value), number in self._numbers.items():
            if value:
                out.setdefault(attribute, {})[value] = often[number]
        return out
