"""Equal sets give equal text, the text parses back exactly, and nothing else parses."""

import math

import pytest
from hypothesis import given
from hypothesis import strategies as st

from kbforge.contracts import Fragment
from kbforge.contracts.serializer import (
    CanonicalJson,
    FlatJson,
    content_key,
    sorted_properties,
)
from tests.profile import examples

TEXT = st.text(st.characters(exclude_categories=["Cs"], exclude_characters="\0"), min_size=1)
VALUES = st.lists(TEXT, min_size=1, max_size=4)
PROPERTIES = st.dictionaries(TEXT, VALUES.map(tuple), max_size=4)
# few letters, so that repeated values and fragments do occur
CLOSE = st.dictionaries(
    st.sampled_from(["a", "b"]), st.lists(st.sampled_from("xyz"), min_size=1).map(tuple)
)
SETS = st.lists(PROPERTIES | CLOSE, max_size=6)
VECTORS = st.none() | st.lists(st.sampled_from([0.0, -0.0, 1.0, 5e-324]), min_size=1).map(tuple)

NOT_FLAT = (
    "the object at character 0: expected attributes with values, all of them non-empty strings"
)


serialize, parse = CanonicalJson().serialize, CanonicalJson().parse


def fragments(sets):
    return [Fragment(str(i), properties) for i, properties in enumerate(sets)]


def form(properties):
    return frozenset((key, frozenset(values)) for key, values in properties.items())


@given(SETS)
def test_text_parses_back_to_the_canonical_form(sets):
    text = serialize(fragments(sets))
    assert "\n" not in text
    found = [tuple(one.items()) for one in parse(text)]
    assert sorted(found) == sorted(map(sorted_properties, sets))


@given(SETS, st.randoms(use_true_random=False))
def test_equal_sets_serialize_equally(sets, rng):
    shuffled = []
    for properties in rng.sample(sets, len(sets)):
        keys = rng.sample(sorted(properties), len(properties))
        shuffled.append(
            {
                key: tuple(rng.sample(properties[key], len(properties[key]))) + properties[key][:1]
                for key in keys
            }
        )
    assert serialize(fragments(shuffled)) == serialize(fragments(sets))


@given(SETS, SETS)
def test_different_multisets_serialize_differently(one, other):
    def multiset(sets):
        return sorted(map(form, sets), key=lambda f: sorted((k, sorted(v)) for k, v in f))

    same = multiset(one) == multiset(other)
    assert (serialize(fragments(one)) == serialize(fragments(other))) == same


@pytest.mark.parametrize("form_of", [CanonicalJson(), FlatJson()])
@given(text=st.text('{}[]",:ab\\ \n', max_size=30), sets=SETS, is_text=st.booleans())
@examples(200)
def test_what_parses_is_what_serialize_writes(form_of, text, sets, is_text):
    given_text = text if is_text else form_of.serialize(fragments(sets))
    try:
        found = form_of.parse(given_text)
    except ValueError:
        assert is_text
        return
    assert form_of.serialize(fragments(map(dict, found))) == given_text


@given(SETS)
def test_both_forms_say_the_same(sets):
    flat = FlatJson()
    found = flat.parse(flat.serialize(fragments(sets)))
    assert serialize(fragments(map(dict, found))) == serialize(fragments(sets))


def test_the_text_of_a_small_set():
    one = Fragment("1", {"name": ("Ada Lovelace", "Ada L.", "Ada L."), "born": ("1952",)})
    two = Fragment("2", {"name": ('say "é"\\\n\x1f\x7f',)})
    assert serialize([two, one, two]) == (
        '{"born":["1952"],"name":["Ada L.","Ada Lovelace"]}'
        '{"name":["say \\"é\\"\\\\\\n\\u001f\x7f"]}'
        '{"name":["say \\"é\\"\\\\\\n\\u001f\x7f"]}'
    )
    assert FlatJson().serialize([two, one]) == (
        '{"born":"1952","name":"Ada L.","name":"Ada Lovelace"}'
        '{"name":"say \\"é\\"\\\\\\n\\u001f\x7f"}'
    )
    assert FlatJson().parse(FlatJson().serialize([one])) == [
        {"born": ("1952",), "name": ("Ada L.", "Ada Lovelace")}
    ]
    assert serialize([]) == ""
    assert list(parse("")) == []


def test_order_is_by_code_point_not_utf16():
    assert serialize([Fragment("1", {"a": ("\U00010000", "\uffff")})]) == (
        '{"a":["\uffff","\U00010000"]}'
    )


@pytest.mark.parametrize(
    "text",
    [
        '{"a":["x"]} ',
        '{"a": ["x"]}',
        '[{"a":["x"]}]',
        '{"a":["x"]},{"a":["y"]}',
        '{"a":["x"],}',
        '{"a":["y","x"]}',
        '{"a":["x","x"]}',
        '{"b":["x"],"a":["x"]}',
        '{"a":["x"],"a":["y"]}',
        '{"b":["x"]}{"a":["x"]}',
        '{"a":["\\u0041"]}',
        '{"a":["\\/"]}',
        '{"a":["\\ud800"]}',
        '{"a":"x"}',
        '{"a":[1]}',
        '{"a":[["x"]]}',
        '{"a":[]}',
        '{"a":[""]}',
        '{"":["x"]}',
        '{"a":{}}',
        '{"a":["x"]',
        '{"a":["x',
        '"a"',
        "1" * 5_000,
        "[" * 100_000,
        "{" * 100_000,
        '{"a":' * 50_000,
    ],
)
def test_other_text_is_refused(text):
    with pytest.raises(ValueError, match=r"character|order"):
        CanonicalJson().parse(text)


@pytest.mark.parametrize(
    ("text", "sentence"),
    [
        (
            '{"a":"x"} ',
            "not a JSON object at character 9: Expecting value: line 1 column 10 (char 9)",
        ),
        ('"a"', "expected a JSON object at character 0"),
        ('{"a":"x"}[["a","x"]]', "expected a JSON object at character 9"),
        ('{"a": "x"}', 'not in canonical form at character 5: expected "x"}, got  "x"}'),
        ('{"a":"\\u0041"}', 'not in canonical form at character 6: expected A"}, got \\u0041"}'),
        (
            '{"a":"x"}{"b":"x","a":"x"}',
            'not in canonical form at character 11: expected a":"x","b":"x"}, got b":"x","a":"x"}',
        ),
        (
            '{"a":"x","a":"x"}',
            'not in canonical form at character 8: expected }, got ,"a":"x"}',
        ),
        ('{"b":"x"}{"a":"x"}', "the fragments are not in canonical order"),
        *((text, NOT_FLAT) for text in ('{"a":["x"]}', '{"a":1}', '{"a":{}}', '{"a":{"b":"c"}}')),
        *((text, NOT_FLAT) for text in ('{"a":""}', '{"":"x"}')),
        ('{"a":"\\ud800"}', "the object at character 0: a lone surrogate"),
    ],
)
def test_other_flat_text_is_refused_with_a_sentence(text, sentence):
    with pytest.raises(ValueError) as error:
        FlatJson().parse(text)
    assert str(error.value) == sentence


@given(CLOSE, VECTORS, CLOSE, VECTORS)
def test_content_keys_are_equal_exactly_when_content_is(one, vector, other, other_vector):
    same = form(one) == form(other) and vector == other_vector
    a = content_key(Fragment("1", one, vector, "label", "source", {"page": 1}))
    b = content_key(Fragment("2", other, other_vector))
    assert (a == b) == same


def test_content_keys_tell_neighbouring_numbers_apart():
    keys = {content_key(Fragment("1", {}, (x,))) for x in (1.0, math.nextafter(1.0, 2), -1.0)}
    assert len(keys) == 3
    assert content_key(Fragment("1", {}, (-0.0,))) == content_key(Fragment("1", {}, (0.0,)))
    assert content_key(Fragment("1", {}, (0.0,))) != content_key(Fragment("1", {}, (0.0, 0.0)))
