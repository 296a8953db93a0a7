"""Texts of a grammar to tokens and back: symbols between strings, pieces inside them."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence

from kbforge.contracts import Grammar
from kbforge.errors import GrammarError
from kbforge.grammar.skeleton import Edge, compile_skeleton
from kbforge.grammar.token_table import compile_table


class Codec:
    """The tokens of a grammar's texts.

    Args:
        grammar: which texts there are.
        pieces: the bytes of each piece.
        split: the numbers of the pieces of a string's content (a value after a space); their
            bytes, joined, are its UTF-8.

    Attributes:
        table: legal tokens.

    Raises:
        GrammarError: the grammar's rules cannot be compiled.

    """

    def __init__(
        self, grammar: Grammar, pieces: Sequence[bytes], split: Callable[[str], Sequence[int]]
    ) -> None:
        self._skeleton = compile_skeleton(grammar.rules, f"grammar {grammar.name}")
        self.table = compile_table(self._skeleton, pieces)
        self._pieces = pieces
        self._split = split
        symbols = self.table.symbols
        self._edges = [{symbols[e.symbol]: e for e in node.edges} for node in self._skeleton.nodes]

    def encode(self, text: str) -> list[int]:
        """The tokens of a text.

        Raises:
            GrammarError: the text is not one of the grammar's.

        """
        tokens: list[int] = []
        symbols, first_piece = self.table.symbols, self.table.first_piece
        for part in self._skeleton.read(text):
            if isinstance(part, Edge):
                tokens.append(symbols[part.symbol])
            else:
                tokens.extend([first_piece + piece for piece in self._split(f" {part}")])
        return tokens

    def decode(self, tokens: Sequence[int]) -> str:
        """The text of tokens; `encode` gives the tokens back if they are a text's.

        Raises:
            GrammarError: a token is illegal, or no text ends after the last one.

        """
        self.table.states(tokens)
        return self._skeleton.write(self._parts(tokens))

    def _parts(self, tokens: Sequence[int]) -> Iterator[str | Edge]:
        """The values and symbols of legal tokens."""
        node, may_end, content = 0, self._skeleton.may_be_empty, b""
        for token in tokens:
            if token >= self.table.first_piece:
                content += self._pieces[token - self.table.first_piece]
                may_end = False
                continue
            if content:
                yield content[1:].decode()
                content = b""
            edge = self._edges[node][token]
            yield edge
            node, may_end = edge.target, edge.may_end
        if not may_end:
            raise GrammarError(f"no text ends after these {len(tokens)} tokens")
