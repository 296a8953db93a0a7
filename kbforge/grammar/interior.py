"""What may stand in a string: a space, then UTF-8 that is not empty.

The tokens of a string are byte-level BPE pieces of its value with a space before it. The space
makes a word the same piece at the beginning of a value as inside it ("Merkel", "Angela Merkel"),
so that a model can recognise it. The automaton reads bytes; its states are small integers:

    OPEN      nothing read; a space must follow
    EMPTY     the space read; the value is empty so far, the string cannot close
    WHOLE     the value is not empty and ends with a whole character; the string can close
    the rest  inside a character of several bytes (RFC 3629: no surrogates, no overlong forms)
"""

from __future__ import annotations

from collections.abc import Iterable

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


def step(state: int, piece: Iterable[int]) -> int:
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
