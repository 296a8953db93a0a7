"""Serializers: write a set of fragments as text that a model reads.

Laws, tested for every member by `kbforge.testing.SerializerContract`:

1. Equal sets serialize equally, whatever the order of fragments, attributes and values.
2. `parse(serialize(x)) == canonical(x)`.
3. Text is UTF-8 on one line.

Grammars: which texts a language model may assign probability to.

A grammar is a file of rules (`kbforge.grammar.rules` gives the notation) over literals and quoted
strings, and the name of the serializer whose texts it describes. It must be regular: what is
compiled from it is a finite table. A plugin is a function without arguments that returns one.

Laws, tested for every member by `kbforge.testing.GrammarContract`:

1. The text of every set of fragments that have properties is accepted, and its tokens give the
   text back.
2. Wherever a text can go on, at least two tokens are legal.
3. Whatever is sampled from legal tokens, until a text may end, is accepted and is well-formed
   UTF-8.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Protocol, TypeAlias

from kbforge.contracts.fragment import Fragment

Canonical: TypeAlias = tuple[tuple[tuple[str, tuple[str, ...]], ...], ...]
"""A set in canonical form: sorted fragments of (attribute, sorted distinct values)."""


class Serializer(Protocol):
    """Text from a set of fragments, and back."""

    def serialize(self, fragments: Sequence[Fragment]) -> str:
        """The canonical text of a set."""
        ...

    def parse(self, text: str) -> Sequence[Mapping[str, tuple[str, ...]]]:
        """The properties of each fragment, in canonical order.

        Raises:
            ValueError: the text is not canonical.

        """
        ...


@dataclass(frozen=True, slots=True)
class Grammar:
    """A grammar file and what it is for.

    Attributes:
        name: as it is registered.
        version: 1 or more, raised whenever the rules change meaning; a model's bundle names it.
        serializer: the registered serializer whose texts the rules describe.
        rules: content of the grammar file.

    """

    name: str
    version: int
    serializer: str
    rules: str
