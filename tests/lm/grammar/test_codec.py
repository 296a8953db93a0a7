"""Tokens of texts: round trips, samples that parse as JSON, refusals."""

import itertools
import json
import random
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from kbforge import registry
from kbforge.contracts import Fragment
from kbforge.errors import GrammarError
from kbforge_grammars import Grammar
from kbforge_grammars import grammar as grammar_called
from kbforge_lm.grammar.tokens import ILLEGAL, OPEN, WHOLE, Codec, string_state
from tests.lm.grammar.decoding import decoded
from tests.lm.grammar.pieces import PIECES, longest_pieces, sample
from tests.lm.grammar.slow import is_beginning, is_whole

NAMES = ["canonical-json", "flat-json"]
CODECS = {name: Codec(grammar_called(name), PIECES, longest_pieces) for name in NAMES}
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
def test_tokens_of_sets_give_their_text_back(name, sets):
    fragments = [
        Fragment(str(i), {key: tuple(values) for key, values in one.items()})
        for i, one in enumerate(sets)
    ]
    text = registry.create("serializers", name).serialize(fragments)
    assert decoded(CODECS[name], CODECS[name].encode(text)) == text


@pytest.mark.parametrize("name", NAMES)
def test_whatever_is_sampled_parses_as_json(name):
    rng = np.random.default_rng(21)
    codec, lengths = CODECS[name], []
    for _ in range(400):
        text = decoded(codec, sample(codec, rng))
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
        assert decoded(codec, codec.encode(text)) == text
    assert min(lengths) == 1
    assert max(lengths) > 3


def cut_tokens() -> list[tuple[list[int], bool]]:
    """Every beginning of a text's tokens and whether a text ends there."""
    codec = CODECS["canonical-json"]
    tokens = codec.encode('{"name":["Ada","北"]}{"a":["b"]}')
    ends = {i + 1 for i, token in enumerate(tokens) if token == codec.table.symbols['"]}']}
    return [(tokens[:end], end in ends) for end in range(len(tokens) + 1)]


@pytest.mark.parametrize(("tokens", "whole"), cut_tokens())
def test_tokens_end_where_a_text_may_end(tokens, whole):
    codec = CODECS["canonical-json"]
    states = codec.table.states(tokens)
    assert whole == bool(tokens and codec.table.may_end[states[-1], tokens[-1]])
    if whole:
        assert codec.encode(decoded(codec, tokens)) == tokens


def test_illegal_tokens_have_no_states():
    codec = CODECS["flat-json"]
    tokens = codec.encode('{"a":"b"}')
    for position in range(len(tokens)):
        for wrong in (0, -1, codec.table.n_tokens, codec.table.symbols['"}']):
            if tokens[position] == wrong:
                continue
            spoiled = [*tokens[:position], wrong, *tokens[position + 1 :]]
            with pytest.raises(GrammarError, match=rf"^token {wrong} at position {position} is"):
                codec.table.states(spoiled)


def test_a_grammar_may_accept_the_empty_text():
    rules = 'records = (STRING ";")*'
    codec = Codec(Grammar("maybe", 1, rules), PIECES, longest_pieces)
    assert codec.encode("") == []
    assert decoded(codec, []) == ""
    assert decoded(codec, codec.encode('"x";"Ada";')) == '"x";"Ada";'


def test_a_grammar_that_cannot_be_compiled_names_itself():
    with pytest.raises(GrammarError) as error:
        Codec(Grammar("mine", 1, "a = b"), PIECES, longest_pieces)
    expected = 'grammar mine:1: expected STRING or the name of a rule, got "b"'
    assert str(error.value) == expected


# What the inside of a string takes is a space and what Python's strict UTF-8 decoder takes.


# the bytes at which RFC 3629's rules change, and their neighbours
EDGES = (
    *(0x00, 0x20, 0x7F, 0x80, 0x81, 0x8F, 0x90, 0x9F, 0xA0, 0xBF, 0xC0, 0xC1, 0xC2),
    *(0xDF, 0xE0, 0xE1, 0xEC, 0xED, 0xEE, 0xEF, 0xF0, 0xF1, 0xF3, 0xF4, 0xF5, 0xFF),
)


def check(content: bytes) -> None:
    state = string_state(OPEN, content)
    assert (state != ILLEGAL) == is_beginning(content), content
    assert (state == WHOLE) == is_whole(content), content


def test_all_strings_of_up_to_two_bytes():
    for length in range(3):
        for content in itertools.product(range(256), repeat=length):
            check(b" " + bytes(content))


def test_all_strings_of_up_to_four_bytes_at_the_edges():
    for content in itertools.product(EDGES, repeat=3):
        check(b" " + bytes(content))
    continuations = [byte for byte in EDGES if 0x80 <= byte <= 0xBF]
    for lead in range(0xE0, 0x100):
        for rest in itertools.product(continuations, repeat=3):
            check(b" " + bytes([lead, *rest]))
            check(b" x" + bytes([lead, *rest[:2]]))


def test_the_first_byte_is_a_space():
    for byte in range(256):
        check(bytes([byte]))
        check(bytes([byte]) + b"x")


@given(st.binary(max_size=12) | st.text().map(str.encode))
def test_random_bytes(content):
    check(b" " + content)


def test_a_cut_anywhere_makes_no_difference():
    rng = random.Random(3)
    content = " é北\U0001f9edx\0\uffff".encode()
    for _ in range(50):
        cut = rng.randint(0, len(content))
        state = string_state(string_state(OPEN, content[:cut]), content[cut:])
        assert state == string_state(OPEN, content) == WHOLE
