"""Which texts a grammar accepts, and that reading and writing them are each other's inverse."""

import json
import re

import pytest
from hypothesis import given
from hypothesis import strategies as st

from kbforge import registry
from kbforge.contracts import Fragment
from kbforge.errors import GrammarError
from kbforge_grammars import grammar as grammar_called
from kbforge_lm.grammar.skeleton import Skeleton, compile_skeleton
from tests.lm.grammar.decoding import written
from tests.lm.grammar.random_grammars import LETTERS, TREES, spoiled, text_of
from tests.lm.grammar.slow import CANONICAL_STRING, EndlessError, SlowTable, Tree, accepts, rules_of
from tests.profile import examples

S = CANONICAL_STRING
LIST = rf"\[{S}(?:,{S})*\]"
REGULAR_EXPRESSION = {
    "canonical-json": re.compile(rf"(?:{{{S}:{LIST}(?:,{S}:{LIST})*}})+"),
    "flat-json": re.compile(rf"(?:{{{S}:{S}(?:,{S}:{S})*}})+"),
}
CODE_POINTS = st.characters(exclude_categories=["Cs"])


def skeleton(name: str) -> Skeleton:
    return compile_skeleton(grammar_called(name).rules, name)


SKELETONS = {name: skeleton(name) for name in REGULAR_EXPRESSION}


def compiled(tree: Tree) -> Skeleton | None:
    """The skeleton of a random grammar, None if it is refused."""
    try:
        return compile_skeleton(rules_of(tree), "random")
    except GrammarError:
        return None


def is_accepted(grammar: Skeleton, text: str) -> bool:
    """Whether a text is read to its end; what is read is written as it was."""
    try:
        parts = list(grammar.read(text))
    except GrammarError:
        return False
    assert written(grammar, parts) == text
    return True


TEXTS = {
    ("canonical-json", True): [
        *('{"a":["x"]}', '{"a":["x","y"]}', '{"a":["x"],"b":["y","z"]}', '{"a":["x"]}{"a":["x"]}'),
        *('{"a":["x"],"b":["y"]}{"c":["z"]}{"d":["w"]}', '{"a b":["x y"," "]}'),
        '{"é":["北京","\U0001f9ed","e\u0301","\u200e\u2028\u0085\x7f"]}',
        *('{"\\"":["\\\\","\\b\\f\\n\\r\\t","\\u0000\\u001f","/"]}', '{"],\\"":["]}{","}"]}'),
        # no order is asked for: the grammar says what is well formed, the serializer what is sorted
        '{"b":["x"],"a":["z","y","y"]}',
    ],
    ("canonical-json", False): [
        *("", "{}", '{"a":[]}', '{"a":[""]}', '{"":["x"]}', '{"a":["x",""]}'),
        # trailing and leading commas
        *('{"a":["x",]}', '{"a":["x"],}', '{,"a":["x"]}', '{"a":[,"x"]}', '{"a":["x",,"y"]}'),
        # separators between objects
        *('{"a":["x"]},{"a":["x"]}', '{"a":["x"]} {"a":["x"]}', '{"a":["x"]}\n{"a":["x"]}'),
        '[{"a":["x"]}]',
        # spaces
        *(' {"a":["x"]}', '{"a":["x"]} ', '{ "a":["x"]}', '{"a" :["x"]}', '{"a": ["x"]}'),
        '{"a":["x", "y"]}',
        # characters that JSON escapes, escapes that it does not need, and no escapes at all
        *('{"a":["\n"]}', '{"a":["x\x00"]}', '{"a":["\x1f"]}', '{"a":["\\u0041"]}'),
        *('{"a":["\\/"]}', '{"a":["\\u000a"]}', '{"a":["\\u001F"]}', '{"a":["\\ud83e\\udded"]}'),
        *('{"a":["\\x41"]}', '{"a":["\\"]}', '{"a":["\\u12"]}'),
        # lone surrogates
        *('{"a":["\\ud800"]}', '{"a":["\\udfff\\ud800"]}', '{"a":["\ud800"]}', '{"a":["x\udfff"]}'),
        '{"a":["\\\ud800"]}',
        # other types
        *('{"a":"x"}', '{"a":[1]}', '{"a":[null]}', '{"a":[["x"]]}', '{"a":[{"b":["x"]}]}'),
        *('{a:["x"]}', "{'a':['x']}", '"a"', "x"),
    ],
    ("flat-json", True): [
        *('{"a":"x"}', '{"a":"x","b":"y"}', '{"a":"x","a":"y"}{"a":"x"}'),
        *('{"a b":" "}{"é":"北京"}{"\\"":"\\\\\\n"}', '{"b":"x","a":"z","a":"y"}'),
    ],
    ("flat-json", False): [
        *("", "{}", '{"a":""}', '{"":"x"}', '{"a":"x",}', '{,"a":"x"}', '{"a":"x"},{"a":"x"}'),
        *('{"a":"x"} {"a":"x"}', '{"a": "x"}', '{"a":"x" }', '{"a":["x"]}', '{"a":[]}', '{"a":1}'),
        *('{"a"}', '{"a":"x":"y"}', '{"a":"\t"}', '{"a":"\\u0041"}', '{"a":"\\ud800"}'),
        '{"a":"\udfff"}',
    ],
}


@pytest.mark.parametrize(
    ("name", "accepted", "text"), [(*key, text) for key, texts in TEXTS.items() for text in texts]
)
def test_the_grammars_that_ship_accept_their_texts_alone(name, accepted, text):
    assert bool(REGULAR_EXPRESSION[name].fullmatch(text)) == accepted
    assert is_accepted(SKELETONS[name], text) == accepted


@pytest.mark.parametrize("name", SKELETONS)
def test_a_text_that_is_cut_is_rejected_unless_an_object_ends_there(name):
    fragments = [
        Fragment("1", {"name": ('A "b" \\', "\n"), "é": ("x",)}),
        Fragment("2", {"a": ("b",)}),
    ]
    text = registry.create("serializers", name).serialize(fragments)
    whole = {end for end in range(len(text) + 1) if is_accepted(SKELETONS[name], text[:end])}
    assert whole == {text.index("}{") + 1, len(text)}


@pytest.mark.parametrize("name", SKELETONS)
@given(st.randoms(use_true_random=False), st.integers(0, 2))
@examples(150)
def test_the_grammars_are_these_regular_expressions(name, rng, times):
    value = ("string",)
    values = value if name == "flat-json" else _bracketed("[", [value], "]")
    pair = ("in turn", [value, ("text", ":"), values])
    tree = ("+", _bracketed("{", [pair], "}"))
    text = text_of(tree, rng)
    assert accepts(tree, text)
    assert is_accepted(SKELETONS[name], text)
    for _ in range(times):
        text = spoiled(text, rng)
    accepted = bool(REGULAR_EXPRESSION[name].fullmatch(text))
    assert is_accepted(SKELETONS[name], text) == accepted == accepts(tree, text)


def _bracketed(begin: str, items: list[tuple[object, ...]], end: str) -> tuple[object, ...]:
    more = ("*", ("in turn", [("text", ","), *items]))
    return ("in turn", [("text", begin), *items, more, ("text", end)])


@given(TREES, st.randoms(use_true_random=False))
@examples(200)
def test_any_grammar_accepts_what_backtracking_accepts(tree, rng):
    grammar = compiled(tree)
    if grammar is None:
        with pytest.raises(GrammarError, match="can repeat for ever"):
            compile_skeleton(rules_of(tree), "random")
        with pytest.raises(EndlessError):
            SlowTable(tree, LETTERS).places()
        return
    assert is_accepted(grammar, "") == accepts(tree, "") == grammar.may_be_empty
    for _ in range(5):
        text = text_of(tree, rng)
        assert is_accepted(grammar, text)
        for _ in range(3):
            text = spoiled(text, rng)
            assert is_accepted(grammar, text) == accepts(tree, text), text


@given(TREES)
@examples(100)
def test_no_symbol_begins_with_another_that_is_legal_there(tree):
    grammar = compiled(tree)
    for node in grammar.nodes if grammar else ():
        symbols = [edge.symbol for edge in node.edges]
        assert all(symbols)
        assert [a for a in symbols for b in symbols if a is not b and b.startswith(a)] == []


@given(st.text(CODE_POINTS, min_size=1, max_size=20))
def test_strings_are_escaped_as_the_serializers_escape_them(value):
    for name, grammar in SKELETONS.items():
        text = registry.create("serializers", name).serialize([Fragment("1", {value: (value,)})])
        parts = list(grammar.read(text))
        assert parts[0] == parts[2] == value
        assert written(grammar, parts) == text
        assert json.loads(text) in ({value: [value]}, {value: value})


def test_every_character_is_escaped_as_the_serializers_escape_it():
    """All Unicode scalars, some thousand at a time."""
    scalars = [chr(c) for c in (*range(0xD800), *range(0xE000, 0x110000))]
    serializer = registry.create("serializers", "flat-json")
    for begin in range(0, len(scalars), 8_192):
        value = "".join(scalars[begin : begin + 8_192])
        text = serializer.serialize([Fragment("1", {"a": (value,)})])
        assert list(SKELETONS["flat-json"].read(text))[2] == value
        assert is_accepted(SKELETONS["flat-json"], text)


SHORTEST = "expected a string with JSON's shortest escapes and no others"


@pytest.mark.parametrize(
    ("text", "sentence"),
    [
        ("", 'character 0: expected {", got the end'),
        ("[", 'character 0: expected {", got ['),
        ('{"', "character 2: expected a string's first character, got the end"),
        ('{"":["x"]}', 'character 2: expected a string\'s first character, got ":["x"]}'),
        ('{"name', "character 6: expected the rest of a string, got the end"),
        ('{"na\nme":["x"]}', 'character 4: expected the rest of a string, got \\nme":["x"]}'),
        ('{"name"', 'character 6: expected ":[", got "'),
        ('{"name":"x"}', 'character 6: expected ":[", got ":"x"}'),
        ('{"a":["x" ]}', 'character 8: expected "," or "]," or "]}, got " ]}'),
        ('{"a":["x"],}', 'character 8: expected "," or "]," or "]}, got "],}'),
        ('{"a":["x"]}x', 'character 11: expected {", got x'),
        ('{"a":["\\u0041"]}', f'character 7: {SHORTEST}, got \\u0041"]}}'),
    ],
)
def test_an_error_says_where_the_text_departs(text, sentence):
    with pytest.raises(GrammarError) as error:
        list(SKELETONS["canonical-json"].read(text))
    assert str(error.value) == sentence


@pytest.mark.parametrize("begin", ['{"a":"', ""])
def test_an_error_quotes_no_more_than_a_line(begin):
    with pytest.raises(GrammarError) as error:
        list(SKELETONS["flat-json"].read(begin + "x" * 100_000))
    assert len(str(error.value)) < 120
