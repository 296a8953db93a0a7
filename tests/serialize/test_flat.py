"""Flat JSON, and the sentences for texts that are not canonical, which both serializers share."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from kbforge.contracts import Fragment
from kbforge.serialize import CanonicalJson, FlatJson

TEXT = st.text(st.characters(exclude_categories=["Cs"]), min_size=1, max_size=6)
SETS = st.lists(
    st.dictionaries(TEXT, st.lists(TEXT, min_size=1, max_size=3).map(tuple), max_size=3), max_size=4
)
NOT_FLAT = (
    "the object at character 0: expected attributes with values, all of them non-empty strings"
)


def fragments(sets: list[dict[str, tuple[str, ...]]]) -> list[Fragment]:
    return [Fragment(str(i), properties) for i, properties in enumerate(sets)]


def test_the_text_of_a_small_set() -> None:
    one = Fragment("1", {"name": ("Ada Lovelace", "Ada L.", "Ada L."), "born": ("1952",)})
    two = Fragment("2", {"name": ('say "é"\\\n\x1f\x7f',)})
    text = FlatJson().serialize([two, one])
    assert text == (
        '{"born":"1952","name":"Ada L.","name":"Ada Lovelace"}'
        '{"name":"say \\"é\\"\\\\\\n\\u001f\x7f"}'
    )
    assert FlatJson().parse(text)[0] == {"born": ("1952",), "name": ("Ada L.", "Ada Lovelace")}


@given(SETS)
def test_both_forms_say_the_same(sets: list[dict[str, tuple[str, ...]]]) -> None:
    flat, canonical = FlatJson(), CanonicalJson()
    found = flat.parse(flat.serialize(fragments(sets)))
    assert canonical.serialize(fragments(list(map(dict, found)))) == canonical.serialize(
        fragments(sets)
    )


@given(
    st.text('{}":,ab\\ \n[]', max_size=30) | SETS.map(lambda s: FlatJson().serialize(fragments(s)))
)
def test_what_parses_is_what_serialize_writes(text: str) -> None:
    try:
        sets = FlatJson().parse(text)
    except ValueError:
        return
    assert FlatJson().serialize(fragments(list(map(dict, sets)))) == text


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
def test_other_text_is_refused_with_a_sentence(text: str, sentence: str) -> None:
    with pytest.raises(ValueError) as error:
        FlatJson().parse(text)
    assert str(error.value) == sentence
