"""The laws of the grammars that ship, and that broken ones are caught."""

import numpy as np
import pytest

from kbforge import registry
from kbforge.contracts import Serializer
from kbforge.errors import GrammarError
from kbforge.testing import examples
from kbforge_grammars import VERSIONS, Grammar, grammar
from kbforge_lm.grammar.tokens import Codec
from tests.lm.grammar.decoding import decoded
from tests.lm.grammar.pieces import PIECES, longest_pieces, reachable, sample

_SAMPLES = 300


def codec_of(one: Grammar) -> Codec:
    """Tokens of the grammar's texts, with `PIECES` inside their strings."""
    return Codec(one, PIECES, longest_pieces)


def check_texts(one: Grammar) -> None:
    """What the serializer writes is accepted, and its tokens give it back."""
    codec, people = codec_of(one), examples.fragments()
    serializer: Serializer = registry.create("serializers", one.name)
    for items in (people[:1], people, [people[0], people[0]], examples.hostile()):
        text = serializer.serialize(items)
        tokens = codec.encode(text)
        assert decoded(codec, tokens) == text
        last = codec.table.states(tokens)[-1]
        assert codec.table.may_end[last, tokens[-1]]


def check_choices(one: Grammar) -> None:
    """Wherever a text can go on there is a choice."""
    table = codec_of(one).table
    for state in reachable(table.next_state, table.first_state):
        assert table.legal[state].sum() != 1, f"one token alone is legal in state {state}"
        assert table.legal[state].any() or table.may_end[table.next_state == state].all()


def check_samples(one: Grammar) -> None:
    """What legal tokens spell is accepted."""
    codec, rng = codec_of(one), np.random.default_rng(12)
    texts = [decoded(codec, sample(codec, rng)) for _ in range(_SAMPLES)]
    for text in texts:
        assert text.encode().decode() == text
        # the tokens may be others: pieces can be joined in several ways
        assert decoded(codec, codec.encode(text)) == text
    assert len(set(texts)) > 1


@pytest.mark.parametrize("check", [check_texts, check_choices, check_samples])
@pytest.mark.parametrize("name", VERSIONS)
def test_the_grammars_that_ship_keep_the_laws(name, check):
    assert grammar(name).name == name
    check(grammar(name))


def flat(sets: str) -> Grammar:
    pair = 'pair = STRING ":" STRING\nobject = "{" pair ("," pair)* "}"'
    return Grammar("flat-json", 1, f"set = {sets}\n{pair}")


@pytest.mark.parametrize(
    ("check", "sets"),
    [
        (check_choices, 'object ";"?'),
        (check_texts, "object"),
        (check_texts, 'object "," '),
        (check_samples, '(object "\ud800"?)+'),
    ],
)
def test_a_broken_grammar_is_caught(check, sets):
    with pytest.raises((AssertionError, GrammarError, UnicodeError)):
        check(flat(sets))


def test_another_name_is_refused():
    with pytest.raises(GrammarError, match='there is no grammar "xml", expected one of canonical'):
        grammar("xml")
