"""Text of sets to tokens and back: symbols of the grammar, byte-level BPE inside its strings.

Any Unicode text has tokens (all 256 bytes are pieces) and equal texts have equal tokens, so a
model's score is a function of the text. Values are read with a space before them; see
`kbforge.grammar.interior` for the reason.
"""

from __future__ import annotations

import json
from collections.abc import Sequence
from typing import Any

from tokenizers import Regex, Tokenizer, decoders, models, pre_tokenizers

from kbforge import registry
from kbforge.contracts import Fragment, Grammar, Serializer
from kbforge.errors import ModelError, quoted
from kbforge.grammar.codec import Codec

_REMEMBERED = 1 << 17  # values whose pieces are kept, because names recur
# a word with the space before it, digits in pairs at most, other signs one by one with their space:
# dates and numbers share pieces, and names keep theirs whatever stands next to them
_WORDS = Regex(r" ?\p{L}[\p{L}\p{M}']*| ?\p{N}{1,2}| ?[^\s\p{L}\p{N}]|\s+(?!\S)|\s+")


def pieces_of(bpe: Tokenizer) -> list[bytes]:
    """The bytes of each piece, by its number.

    Raises:
        ModelError: the pieces are not byte-level, or not numbered from 0.

    """
    byte_of = _bytes_of_characters()
    vocabulary = sorted(bpe.get_vocab().items(), key=lambda item: item[1])
    if [number for _, number in vocabulary] != list(range(len(vocabulary))):
        raise ModelError("the tokenizer's pieces are not numbered from 0 without gaps")
    for piece, _ in vocabulary:
        if not piece or not all(character in byte_of for character in piece):
            raise ModelError(f'the tokenizer is not byte-level: it has the piece "{quoted(piece)}"')
    return [bytes(byte_of[character] for character in piece) for piece, _ in vocabulary]


class SetTokenizer:
    """Tokens of sets of fragments under a grammar.

    Attributes:
        grammar: which texts there are.
        bpe: the pieces of their strings.
        table: legal tokens.

    """

    def __init__(self, grammar: Grammar, bpe: Tokenizer) -> None:
        self.grammar = grammar
        self.bpe = bpe
        self._codec = Codec(grammar, pieces_of(bpe), self._split)
        self.table = self._codec.table
        self._serializer: Serializer = registry.create("serializers", grammar.serializer)
        self._known: dict[str, list[int]] = {}

    @classmethod
    def from_bytes(cls, grammar: Grammar, content: bytes) -> SetTokenizer:
        """Load what `to_bytes` gave.

        Raises:
            ModelError: it is anything else than a tokenizer as `untrained` sets it up.

        """
        try:
            bpe = Tokenizer.from_buffer(content)
        except (ValueError, TypeError) as error:
            raise ModelError(f"not a tokenizer: {quoted(str(error), 200)}") from error
        _check(bpe)
        return cls(grammar, bpe)

    def to_bytes(self) -> bytes:
        """The pieces, as the tokenizers library writes them."""
        text: str = self.bpe.to_str()
        return text.encode()

    def text(self, fragments: Sequence[Fragment]) -> str:
        """The canonical text of a set."""
        return self._serializer.serialize(fragments)

    def encode(self, text: str) -> list[int]:
        """The tokens of a text.

        Raises:
            GrammarError: the text is not one of the grammar's.

        """
        return self._codec.encode(text)

    def decode(self, tokens: Sequence[int]) -> str:
        """The text of tokens; `encode` gives the tokens back if they are a text's.

        Raises:
            GrammarError: a token is illegal, or no text ends after the last one.

        """
        return self._codec.decode(tokens)

    def _split(self, content: str) -> list[int]:
        found = self._known.get(content)
        if found is None:
            if len(self._known) >= _REMEMBERED:
                self._known.clear()
            found = self._known[content] = self.bpe.encode(content).ids
        return found


def untrained() -> Tokenizer:
    """Byte-level BPE without a piece yet: how values are cut into words, and bytes written."""
    bpe = Tokenizer(models.BPE())
    bpe.pre_tokenizer = pre_tokenizers.Sequence(
        [
            pre_tokenizers.Split(_WORDS, "isolated"),
            pre_tokenizers.ByteLevel(add_prefix_space=False, use_regex=False),
        ]
    )
    bpe.decoder = decoders.ByteLevel()
    return bpe


def _check(bpe: Tokenizer) -> None:
    """Everything but the pieces must be as `untrained` has it: no unknowns, nothing random."""
    found, expected = _settings(bpe), _settings(untrained())
    for name in sorted(found.keys() | expected.keys()):
        if found.get(name) != expected.get(name):
            raise ModelError(
                f"the tokenizer's {quoted(name)}: "
                f"expected {quoted(json.dumps(expected.get(name)))}, "
                f"got {quoted(json.dumps(found.get(name)))}"
            )
    missing = 256 - sum(len(piece) == 1 for piece in pieces_of(bpe))
    if missing:
        raise ModelError(f"the tokenizer lacks pieces for {missing} of the 256 bytes")


def _settings(bpe: Tokenizer) -> dict[str, object]:
    """All that a tokenizer is made of but its pieces and merges."""
    settings: dict[str, Any] = json.loads(bpe.to_str())
    model: dict[str, Any] = settings.pop("model")
    return settings | {f"model.{k}": v for k, v in model.items() if k not in ("vocab", "merges")}


def _bytes_of_characters() -> dict[str, int]:
    """The printable characters that byte-level BPE writes bytes as (the GPT-2 table)."""
    printable = [*range(0x21, 0x7F), *range(0xA1, 0xAD), *range(0xAE, 0x100)]
    table = {chr(byte): byte for byte in printable}
    others = (byte for byte in range(256) if byte not in set(printable))
    return table | {chr(256 + number): byte for number, byte in enumerate(others)}
