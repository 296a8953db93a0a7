"""A vocabulary of pieces, and random legal tokens."""

from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

from kbforge_lm.grammar.tokens import Codec

_WORDS = ("name", "colour", "Ada", "Love", "lace", " L", "ovel", "é", "北京", "\U0001f9ed", "19")
PIECES = (
    *(bytes([byte]) for byte in range(256)),
    *(word.encode() for word in _WORDS),
    *(f" {word}".encode() for word in _WORDS),
    # byte-level BPE cuts characters, too
    b" \xe5\x8c",
    b"\x97\xe4\xba",
    b"a\xf0\x9f",
)
"""A vocabulary for tests: every byte, some words, some that begin or end inside a character."""

_NUMBERS = {piece: number for number, piece in enumerate(PIECES)}
_LONGEST = max(map(len, PIECES))
_MOST_TOKENS = 2_000


def longest_pieces(content: str) -> list[int]:
    """The numbers of `PIECES` that make up a text, each the longest that fits."""
    rest, out = content.encode(), []
    while rest:
        piece = next(rest[:n] for n in range(_LONGEST, 0, -1) if rest[:n] in _NUMBERS)
        out.append(_NUMBERS[piece])
        rest = rest[len(piece) :]
    return out


def reachable(next_state: NDArray[np.int16], first: int) -> list[int]:
    """The states that legal tokens lead to from the first one."""
    found, todo = {first}, [first]
    while todo:
        for target in np.unique(next_state[todo.pop()]).tolist():
            if target >= 0 and target not in found:
                found.add(target)
                todo.append(target)
    return sorted(found)


def sample(codec: Codec, rng: np.random.Generator) -> Sequence[int]:
    """Random legal tokens up to a place where the text may end.

    Strings close as soon as they can, half of the time: they are as long as names, not as books.
    """
    table, state, tokens = codec.table, codec.table.first_state, list[int]()
    while True:
        legal = np.flatnonzero(table.legal[state])
        symbols = legal[legal < table.first_piece]
        token = int(rng.choice(symbols if len(symbols) and rng.random() < 0.5 else legal))
        tokens.append(token)
        may_end, state = table.may_end[state, token], int(table.next_state[state, token])
        ends = not table.legal[state].any() or rng.random() < 0.5 or len(tokens) > _MOST_TOKENS
        if may_end and ends:
            return tokens
