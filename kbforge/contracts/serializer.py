"""Serializers: write a set of fragments as text that a model reads.

Laws, tested for every member by `kbforge.testing.SerializerContract`:

1. Equal sets serialize equally, whatever the order of fragments, attributes and values.
2. `parse(serialize(x)) == canonical(x)`.
3. Text is UTF-8 on one line.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Mapping, Sequence
from typing import TypeAlias

from kbforge.contracts.fragment import Fragment

Canonical: TypeAlias = tuple[tuple[tuple[str, tuple[str, ...]], ...], ...]
"""A set in canonical form: sorted fragments of (attribute, sorted distinct values)."""


class Serializer(ABC):
    """Text from a set of fragments, and back."""

    @abstractmethod
    def serialize(self, fragments: Sequence[Fragment]) -> str:
        """The canonical text of a set."""

    @abstractmethod
    def parse(self, text: str) -> Sequence[Mapping[str, tuple[str, ...]]]:
        """The properties of each fragment, in canonical order.

        Raises:
            ValueError: the text is not canonical.

        """
