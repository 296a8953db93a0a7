"""Texts of values and symbols, and of tokens: what reading and encoding are compared with."""

from collections.abc import Iterable, Iterator, Sequence

import orjson

from kbforge_lm.grammar.skeleton import Edge, Skeleton
from kbforge_lm.grammar.tokens import Codec
from tests.lm.grammar.pieces import PIECES


def written(skeleton: Skeleton, parts: Iterable[str | Edge]) -> str:
    """The text of values and symbols; `Skeleton.read` gives them back."""
    out, implied = [], skeleton.implied
    for part in parts:
        is_symbol = isinstance(part, Edge)
        out += implied, part.symbol if is_symbol else orjson.dumps(part)[1:-1].decode()
        implied = part.implied if is_symbol else ""
    return "".join(out)


def decoded(codec: Codec, tokens: Sequence[int], pieces: Sequence[bytes] = PIECES) -> str:
    """The text of legal tokens; a GrammarError if one is illegal, an AssertionError if no text ends
    there."""
    codec.table.states(tokens)
    return written(codec.skeleton, _parts(codec, tokens, pieces))


def _parts(codec: Codec, tokens: Sequence[int], pieces: Sequence[bytes]) -> Iterator[str | Edge]:
    symbols, first_piece = codec.table.symbols, codec.table.first_piece
    edges = [{symbols[e.symbol]: e for e in node.edges} for node in codec.skeleton.nodes]
    node, may_end, content = 0, codec.skeleton.may_be_empty, b""
    for token in tokens:
        if token >= first_piece:
            content += pieces[token - first_piece]
            may_end = False
            continue
        if content:
            yield content[1:].decode()
            content = b""
        edge = edges[node][token]
        yield edge
        node, may_end = edge.target, edge.may_end
    assert may_end, f"no text ends after these {len(tokens)} tokens"
