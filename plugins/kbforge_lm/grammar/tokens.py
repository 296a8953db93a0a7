"""Texts of a grammar as tokens: the table of legal tokens, and encoding.

A state is a node of the skeleton and, inside a string, also the progress of its value. The masks of
a batch are look-ups: `next_state[states] >= 0`. Implied characters have no token (see `skeleton`).

Token 0 begins every sequence (it is never predicted and serves as padding). Then come the symbols,
then the pieces: byte-level BPE pieces of a string's value after a space. Because of the space, a
word is the same piece at the beginning of a value as inside it ("Merkel", "Angela Merkel").
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from kbforge.errors import GrammarError
from kbforge_grammars import Grammar
from kbforge_lm.grammar.skeleton import Edge, Skeleton, compile_skeleton

# the states inside a string: OPEN, where a space must follow; EMPTY, behind it; WHOLE, where the
# string can close; the rest inside a character of several bytes (RFC 3629: no surrogates, no
# overlong forms)
OPEN, EMPTY, WHOLE, ONE, TWO, THREE, AFTER_E0, AFTER_ED, AFTER_F0, AFTER_F4 = range(10)
STATES = 10
ILLEGAL = -1

# (first byte, last byte, next state)
_CHARACTER = (
    (0x00, 0x7F, WHOLE),
    (0xC2, 0xDF, ONE),
    (0xE0, 0xE0, AFTER_E0),
    (0xE1, 0xEC, TWO),
    (0xED, 0xED, AFTER_ED),
    (0xEE, 0xEF, TWO),
    (0xF0, 0xF0, AFTER_F0),
    (0xF1, 0xF3, THREE),
    (0xF4, 0xF4, AFTER_F4),
)
_EDGES = {
    OPEN: ((0x20, 0x20, EMPTY),),
    EMPTY: _CHARACTER,
    WHOLE: _CHARACTER,
    ONE: ((0x80, 0xBF, WHOLE),),
    TWO: ((0x80, 0xBF, ONE),),
    THREE: ((0x80, 0xBF, TWO),),
    AFTER_E0: ((0xA0, 0xBF, ONE),),
    AFTER_ED: ((0x80, 0x9F, ONE),),
    AFTER_F0: ((0x90, 0xBF, TWO),),
    AFTER_F4: ((0x80, 0x8F, TWO),),
}


def string_state(state: int, piece: Iterable[int]) -> int:
    """The state after the bytes of a piece, or ILLEGAL."""
    for byte in piece:
        state = _AFTER[state][byte]
        if state == ILLEGAL:
            break
    return state


def _row(edges: Iterable[tuple[int, int, int]]) -> list[int]:
    row = [ILLEGAL] * 256
    for first, last, target in edges:
        row[first : last + 1] = [target] * (last + 1 - first)
    return row


_AFTER = [_row(_EDGES[state]) for state in range(STATES)]


START = 0


@dataclass(frozen=True, eq=False)
class TokenTable:
    """Legal tokens and next states."""

    next_state: NDArray[np.int16]  # [states, tokens], -1 where a token is illegal
    may_end: NDArray[np.bool_]  # [states, tokens], of the text after the token
    symbols: dict[str, int]
    first_piece: int  # token of piece 0
    first_state: int  # in which a text begins

    @property
    def n_tokens(self) -> int:
        """V, the size of the vocabulary."""
        return int(self.next_state.shape[1])

    @property
    def legal(self) -> NDArray[np.bool_]:
        """The mask of each state, [states, tokens]."""
        return self.next_state >= 0

    def states(self, tokens: Sequence[int]) -> NDArray[np.int16]:
        """The state before each token, [len(tokens)]; GrammarError: an illegal token's position."""
        out = np.empty(len(tokens), dtype=np.int16)
        state, rows, n_tokens = self.first_state, self.next_state, self.n_tokens
        for position, token in enumerate(tokens):
            out[position] = state
            state = rows[state, token] if 0 <= token < n_tokens else -1
            if state < 0:
                raise GrammarError(f"token {token} at position {position} is illegal")
        return out


def compile_table(skeleton: Skeleton, pieces: Sequence[bytes]) -> TokenTable:
    """The table of a grammar's skeleton and the bytes of each BPE piece; none is empty."""
    symbols = {symbol: token for token, symbol in enumerate(skeleton.symbols, start=START + 1)}
    first_piece = START + 1 + len(symbols)
    first_state, n_states = [], 0
    for node in skeleton.nodes:
        first_state.append(n_states)
        n_states += STATES if node.in_string else 1
    next_state = np.full((n_states, first_piece + len(pieces)), -1, dtype=np.int16)
    may_end = np.zeros(next_state.shape, dtype=np.bool_)
    inside = _inside(pieces)
    for first, node in zip(first_state, skeleton.nodes, strict=True):
        closing = first
        if node.in_string:
            rows = slice(first, first + STATES)
            next_state[rows, first_piece:] = np.where(inside < 0, -1, inside + first)
            closing += WHOLE
        for edge in node.edges:
            next_state[closing, symbols[edge.symbol]] = first_state[edge.target]
            may_end[closing, symbols[edge.symbol]] = edge.may_end
    return TokenTable(next_state, may_end, symbols, first_piece, first_state[0])


def _inside(pieces: Sequence[bytes]) -> NDArray[np.int16]:
    """The state inside a string after each piece, [STATES, pieces], or ILLEGAL."""
    rows = [[string_state(state, piece) for piece in pieces] for state in range(STATES)]
    return np.array(rows, dtype=np.int16).reshape(STATES, len(pieces))


class Codec:
    """The tokens of a grammar's texts, from the bytes of each piece.

    `split` returns the pieces of a string's content (a value after a space); their bytes, joined,
    are its UTF-8.
    """

    def __init__(
        self, grammar: Grammar, pieces: Sequence[bytes], split: Callable[[str], Sequence[int]]
    ) -> None:
        self.skeleton = compile_skeleton(grammar.rules, f"grammar {grammar.name}")
        self.table = compile_table(self.skeleton, pieces)
        self._split = split

    def encode(self, text: str) -> list[int]:
        """The tokens of a text; GrammarError if it is not one of the grammar's."""
        tokens: list[int] = []
        symbols, first_piece = self.table.symbols, self.table.first_piece
        for part in self.skeleton.read(text):
            if isinstance(part, Edge):
                tokens.append(symbols[part.symbol])
            else:
                tokens.extend([first_piece + piece for piece in self._split(f" {part}")])
        return tokens
