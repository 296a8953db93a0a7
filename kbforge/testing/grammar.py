"""The laws of `kbforge.contracts.serializer`, as tests."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, ClassVar

import numpy as np
from numpy.typing import NDArray

from kbforge import registry
from kbforge.contracts import Fragment, Grammar
from kbforge.grammar.tokens import Codec
from kbforge.testing import examples
from kbforge.testing.contract import Contract

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

_SAMPLES = 300
_MOST_TOKENS = 2_000


class GrammarContract(Contract):
    """What the serializer writes is accepted, and so is whatever legal tokens spell."""

    kind: ClassVar[str] = "grammars"

    def sets(self) -> list[list[Fragment]]:
        """Sets of fragments that the grammar's serializer can write, hostile text among them."""
        people = examples.fragments()
        hostile = [
            Fragment(f"h{i}", {value: (value, "plain"), "name": (value,)})
            for i, value in enumerate(examples.HOSTILE_VALUES)
        ]
        return [people[:1], people, [people[0], people[0]], hostile]

    def codec(self) -> Codec:
        """Tokens of the grammar's texts, with `PIECES` inside their strings."""
        return Codec(self.make(), PIECES, longest_pieces)

    def test_it_says_what_it_is(self) -> None:
        grammar = self.make()
        assert isinstance(grammar, Grammar)
        assert grammar.version >= 1
        if hasattr(self, "name"):
            assert grammar.name == self.name
        assert grammar.serializer in registry.names("serializers")

    def test_texts_are_accepted_and_tokens_give_them_back(self) -> None:
        codec = self.codec()
        serializer: Any = registry.create("serializers", self.make().serializer)
        for items in self.sets():
            text = serializer.serialize(items)
            tokens = codec.encode(text)
            assert codec.decode(tokens) == text
            last = codec.table.states(tokens)[-1]
            assert codec.table.may_end[last, tokens[-1]]

    def test_wherever_a_text_can_go_on_there_is_a_choice(self) -> None:
        table = self.codec().table
        for state in reachable(table.next_state, table.first_state):
            assert table.legal[state].sum() != 1, f"one token alone is legal in state {state}"
            assert table.legal[state].any() or table.may_end[table.next_state == state].all()

    def test_what_legal_tokens_spell_is_accepted(self) -> None:
        codec, rng = self.codec(), np.random.default_rng(12)
        texts = [codec.decode(sample(codec, rng)) for _ in range(_SAMPLES)]
        for text in texts:
            assert text.encode().decode() == text
            # the tokens may be others: pieces can be joined in several ways
            assert codec.decode(codec.encode(text)) == text
        assert len(set(texts)) > 1


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
