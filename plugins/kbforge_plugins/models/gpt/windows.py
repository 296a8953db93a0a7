"""Windows: how sequences are read that are longer than the model's context.

The first window holds `context` tokens. Each further one begins half a context before the first
token not yet scored, or up to a quarter earlier where the last fragment of that quarter begins. So
every token is scored once, given half a context or more of what precedes it.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

import numpy as np

from kbforge.grammar.token_table import TokenTable


@dataclass(frozen=True, slots=True)
class Window:
    """A stretch of a sequence that the model reads by itself.

    Attributes:
        sequence: number of the sequence.
        tokens: what the model reads after the token that begins every sequence.
        states: of the grammar, before each of them.
        first: the first of them that is scored here.
        ends: where its passages end: after each fragment, before `first`, after the last token.
        keys: what is read up to each end.

    """

    sequence: int
    tokens: Sequence[int]
    states: Sequence[int]
    first: int
    ends: Sequence[int]
    keys: Sequence[bytes]


def windows_of(
    sequence: int, tokens: Sequence[int], table: TokenTable, context: int
) -> Iterator[Window]:
    """The windows of a sequence; one if it fits into the context."""
    states = table.states(tokens)
    fragments = 1 + np.flatnonzero(
        table.may_end[states, np.array(tokens, dtype=np.int64)]
    )  # where one ends, one begins
    begin = done = 0
    while done < len(tokens):
        end = min(begin + context, len(tokens))
        inside = fragments[(fragments > begin) & (fragments < end)].tolist()
        ends = [at - begin for at in sorted({*inside, done, end} - {begin})]
        # the state says what may come, so the same tokens after another one are another text
        content = np.array([states[begin], *tokens[begin:end]], dtype=np.uint16).tobytes()
        yield Window(
            sequence,
            tokens[begin:end],
            states[begin:end].tolist(),
            done - begin,
            ends,
            [content[: 2 * (1 + at)] for at in ends],
        )
        done = end
        begin = end - context // 2
        earlier = int(np.searchsorted(fragments, begin, side="right")) - 1
        # not much earlier, so that a good part of each window is new
        if earlier >= 0 and fragments[earlier] > end - 0.75 * context:
            begin = int(fragments[earlier])
