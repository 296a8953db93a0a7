"""The table of legal tokens: a grammar's skeleton, the inside of its strings, and BPE pieces.

A state is a node of the skeleton, and inside a string also how far its value has come. The masks of
a whole batch are look-ups: `next_state[states] >= 0`. What is forced has no token at all (see
`skeleton`), so wherever a text can go on there is a choice.

Tokens are numbered: 0 begins every sequence (it is never predicted and serves as padding), then the
symbols, then the pieces.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from kbforge.errors import GrammarError
from kbforge.grammar import interior
from kbforge.grammar.skeleton import Skeleton

START = 0


@dataclass(frozen=True, eq=False)
class TokenTable:
    """Legal tokens and next states.

    Attributes:
        next_state: [states, tokens] int16, -1 where a token is illegal.
        may_end: [states, tokens] bool, whether a text may end after the token.
        symbols: token of each symbol.
        first_piece: token of piece 0.
        first_state: the state in which a text begins.

    """

    next_state: NDArray[np.int16]
    may_end: NDArray[np.bool_]
    symbols: dict[str, int]
    first_piece: int
    first_state: int

    @property
    def n_tokens(self) -> int:
        """V, the size of the vocabulary."""
        return int(self.next_state.shape[1])

    @property
    def legal(self) -> NDArray[np.bool_]:
        """The mask of each state, [states, tokens]."""
        return self.next_state >= 0

    def states(self, tokens: Sequence[int]) -> NDArray[np.int16]:
        """The state before each token, [len(tokens)].

        Raises:
            GrammarError: a token is illegal, with its position.

        """
        out = np.empty(len(tokens), dtype=np.int16)
        state, rows, n_tokens = self.first_state, self.next_state, self.n_tokens
        for position, token in enumerate(tokens):
            out[position] = state
            state = rows[state, token] if 0 <= token < n_tokens else -1
            if state < 0:
                raise GrammarError(f"token {token} at position {position} is illegal")
        return out


def compile_table(skeleton: Skeleton, pieces: Sequence[bytes]) -> TokenTable:
    """The table of a grammar and a vocabulary.

    Args:
        skeleton: of the grammar.
        pieces: the bytes of each BPE piece; none is empty.

    """
    symbols = {symbol: token for token, symbol in enumerate(skeleton.symbols, start=START + 1)}
    first_piece = START + 1 + len(symbols)
    first_state, n_states = [], 0
    for node in skeleton.nodes:
        first_state.append(n_states)
        n_states += interior.STATES if node.in_string else 1
    next_state = np.full((n_states, first_piece + len(pieces)), -1, dtype=np.int16)
    may_end = np.zeros(next_state.shape, dtype=np.bool_)
    inside = _inside(pieces)
    for first, node in zip(first_state, skeleton.nodes, strict=True):
        closing = first
        if node.in_string:
            rows = slice(first, first + interior.STATES)
            next_state[rows, first_piece:] = np.where(inside < 0, -1, inside + first)
            closing += interior.WHOLE
        for edge in node.edges:
            next_state[closing, symbols[edge.symbol]] = first_state[edge.target]
            may_end[closing, symbols[edge.symbol]] = edge.may_end
    return TokenTable(next_state, may_end, symbols, first_piece, first_state[0])


def _inside(pieces: Sequence[bytes]) -> NDArray[np.int16]:
    """The state inside a string after each piece, [interior.STATES, pieces], or ILLEGAL."""
    rows = [[interior.step(state, piece) for piece in pieces] for state in range(interior.STATES)]
    return np.array(rows, dtype=np.int16).reshape(interior.STATES, len(pieces))
