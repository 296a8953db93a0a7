"""Tokens of texts: round trips, samples that parse as JSON, refusals."""

from __future__ import annotations

import json
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from kbforge import registry
from kbforge.contracts import Fragment, Grammar
from kbforge.errors import GrammarError
from kbforge.grammar.codec import Codec
from kbforge.testing.grammar import PIECES, longest_pieces, sample

NAMES = ["canonical-json", "flat-json"]
CODECS = {name: Codec(registry.create("grammars", name), PIECES, longest_pieces) for name in NAMES}
VALUE = st.text(st.characters(exclude_categories=["Cs"]), min_size=1, max_size=8)
SETS = st.lists(
    st.dictionaries(VALUE, st.lists(VALUE, min_size=1, max_size=3), min_size=1, max_size=3),
    min_size=1,
    max_size=3,
)


def objects(text: str) -> list[Any]:
    """The JSON objects of a text, one after another."""
    found, at = [], 0
    while at < len(text):
        value, at = json.JSONDecoder(object_pairs_hook=list).raw_decode(text, at)
        found.append(value)
    return found


@pytest.mark.parametrize("name", NAMES)
@given(SETS)
def test_tokens_of_sets_give_their_text_back(name: str, sets: list[dict[str, list[str]]]) -> None:
    fragments = [
        Fragment(str(i), {key: tuple(values) for key, values in one.items()})
        for i, one in enumerate(sets)
    ]
    text = registry.create("serializers", name).serialize(fragments)
    assert CODECS[name].decode(CODECS[name].encode(text)) == text


@pytest.mark.parametrize("name", NAMES)
def test_whatever_is_sampled_parses_as_json(name: str) -> None:
    rng = np.random.default_rng(21)
    codec, lengths = CODECS[name], []
    for _ in range(400):
        text = codec.decode(sample(codec, rng))
        assert text.encode("utf-8", "strict").decode() == text
        found = objects(text)
        lengths.append(len(found))
        for pairs in found:
            assert pairs
            for attribute, values in pairs:
                values = values if name == "canonical-json" else [values]
                assert isinstance(values, list)
                assert values
                assert all(isinstance(word, str) and word for word in (attribute, *values))
        assert codec.decode(codec.encode(text)) == text
    assert min(lengths) == 1
    assert max(lengths) > 3


def cut_tokens() -> list[tuple[list[int], bool]]:
    """Every beginning of a text's tokens and whether a text ends there."""
    codec = CODECS["canonical-json"]
    tokens = codec.encode('{"name":["Ada","北"]}{"a":["b"]}')
    ends = {i + 1 for i, token in enumerate(tokens) if token == codec.table.symbols['"]}']}
    return [(tokens[:end], end in ends) for end in range(len(tokens) + 1)]


@pytest.mark.parametrize(("tokens", "whole"), cut_tokens())
def test_tokens_are_decoded_only_up_to_an_end(tokens: list[int], whole: bool) -> None:
    codec = CODECS["canonical-json"]
    if whole:
        assert codec.encode(codec.decode(tokens)) == tokens
        return
    with pytest.raises(GrammarError) as error:
        codec.decode(tokens)
    assert str(error.value) == f"no text ends after these {len(tokens)} tokens"


def test_illegal_tokens_are_not_decoded() -> None:
    codec = CODECS["flat-json"]
    tokens = codec.encode('{"a":"b"}')
    for position in range(len(tokens)):
        for wrong in (0, -1, codec.table.n_tokens, codec.table.symbols['"}']):
            if tokens[position] == wrong:
                continue
            spoiled = [*tokens[:position], wrong, *tokens[position + 1 :]]
            with pytest.raises(GrammarError, match=rf"^token {wrong} at position {position} is"):
                codec.decode(spoiled)


def test_a_grammar_may_accept_the_empty_text() -> None:
    rules = 'records = (STRING ";")*'
    codec = Codec(Grammar("maybe", 1, "canonical-json", rules), PIECES, longest_pieces)
    assert codec.encode("") == []
    assert codec.decode([]) == ""
    assert codec.decode(codec.encode('"x";"Ada";')) == '"x";"Ada";'


def test_a_grammar_that_cannot_be_compiled_names_itself() -> None:
    with pytest.raises(GrammarError) as error:
        Codec(Grammar("mine", 1, "canonical-json", "a = b"), PIECES, longest_pieces)
    expected = 'grammar mine:1: expected STRING or the name of a rule, got "b"'
    assert str(error.value) == expected
