"""Kinds of attributes, features of values, and what counts as the same value."""

import re

import pytest
from hypothesis import given
from hypothesis import strategies as st

from kbforge.testing.examples import HOSTILE_VALUES
from kbforge.texts.kinds import (
    KINDS,
    LONGEST_VALUE,
    feature_names,
    features_of,
    kind_of,
    normalised,
    parse_date,
    stated,
    words_of,
)
from tests.profile import examples


@pytest.mark.parametrize(
    ("raw", "value"),
    [
        ("  Ada   LOVELACE ", "ada lovelace"),
        ("Straße", "strasse"),
        ("\uff21\uff11", "a1"),  # full width
        ("e\u0301", "\u00e9"),
        ("line\nbreak\tand\u3000space", "line break and space"),
        ("北京", "北京"),
        (" \u3000\n", ""),
        ("x" * 1000, "x" * LONGEST_VALUE),
        ("\ufdfa" * 400, None),  # one character that is eighteen
    ],
)
def test_how_values_are_compared(raw, value):
    found = normalised(raw)
    assert len(found) <= LONGEST_VALUE
    assert value is None or found == value


@pytest.mark.parametrize(
    ("values", "value"),
    [
        (("Ann",), "ann"),
        (("Nan", "Annie", "NAN", " "), "annie\nnan"),
        (("a\nb",), "a b"),
        ((" ", "\u3000"), ""),
        ((), ""),
        (tuple(f"{i:05}" for i in range(10_000)), "\n".join(f"{i:05}" for i in range(32))),
    ],
)
def test_what_a_record_states(values, value):
    """In whatever order it states it."""
    assert stated(values) == value
    assert stated(values[::-1]) == value


@pytest.mark.parametrize(
    ("kind", "values"),
    [
        ("date", {f"18{i}-0{i % 9 + 1}-11": 1 for i in range(10, 40)}),
        ("date", {"1 may 1901": 3, "may 2, 1901": 1, "03/05/1901": 1, "1901": 2}),
        ("set", {"ann\nbo": 1, "ann": 8}),
        ("text", {"ann\nbo": 1, "ann": 10}),
        ("category", {"m": 40, "f": 60}),
        ("category", {}),
        ("number", {"1,234": 1, "$5.20": 1, "-17": 1, "33 %": 1}),
        ("code", {"ab1 2cd": 1, "sw1a 1aa": 1, "ec2v": 1, "n1 9gu": 1}),
        ("text", {"ada lovelace": 1, "alan turing": 2}),
        ("text", {"\U0001f9ed": 1, "北京": 1}),
        ("title", {"a study of scarlet and other things": 1, "the sign of the four men": 1}),
    ],
)
def test_kinds_from_values(kind, values):
    assert kind_of(values) == kind
    assert kind_of(dict(reversed(values.items()))) == kind


@pytest.mark.parametrize(
    ("value", "date"),
    [
        ("1856-03-01", ("1856", "03", "01")),
        ("1856-3", ("1856", "03", "")),
        ("1856", ("1856", "", "")),
        ("1856-03-01t10:00", ("1856", "03", "01")),
        ("1/3/1856", ("1856", "03", "01")),
        ("1st march 1856", ("1856", "03", "01")),
        ("mar. 1, 1856", ("1856", "03", "01")),
        ("march 1856", ("1856", "03", "")),
        ("1856-86-01", ("1856", "86", "01")),
        ("first of never", None),
        ("18", None),
        ("", None),
    ],
)
def test_dates(value, date):
    assert parse_date(value) == date


@pytest.mark.parametrize(
    ("kind", "value", "features"),
    [
        (
            "text",
            "ada king",
            {
                "initial": ("a",),
                "prefix": ("ada",),
                "word": ("ada", "king"),
                "words": ("ada king",),
                "word and initial": ("ada k", "king a"),
            },
        ),
        ("text", "ab", {"initial": ("a",), "word": ("ab",)}),
        ("text", "\U0001f9ed", {"initial": ("\U0001f9ed",)}),
        ("title", "on the go", {"word": ("on", "the", "go"), "pair": ("on the", "the go"),
                                "longest": ("the go",)}),
        ("date", "1856-03", {"year and month": ("1856-03",), "year": ("1856",)}),
        ("date", "never", {}),
        ("code", "sw1a 1aa", {"stem": ("sw1a",), "leading": ("sw",)}),
        ("code", "-17", {}),  # what begins with a gap has nothing before it
        ("number", "$1,234.50", {"magnitude": ("12e4",)}),
        ("number", "0.5", {}),
        (
            "email",
            "ann.lee@x.org",
            {"local": ("annlee",), "prefix": ("ann",), "word": ("ann", "lee"),
             "domain": ("x.org",)},
        ),
        ("phone", "2079460018", {"ending": ("460018",), "beginning": ("2079",)}),
        ("phone", "12", {}),
        ("category", "x", {}),
        ("set", "ann lee\nbo", {"member": ("ann lee", "bo"), "word": ("ann", "lee", "bo")}),
    ],
)  # fmt: skip
def test_features(kind, value, features):
    assert features_of(kind, value) == features


@pytest.mark.parametrize(
    ("value", "words"),
    [
        ("anne-marie o'neill_2", ["anne", "marie", "o", "neill_2"]),
        ("राहुल कुमार", ["राहुल", "कुमार"]),
        ("สมชาย ใจดี", ["สมชาย", "ใจดี"]),
        ("q̃uena, zoë", ["q̃uena", "zoë"]),
        ("东京・大阪", ["东京", "大阪"]),
        ("- · -", []),
    ],
)
def test_words_of_any_script(value, words):
    assert words_of(value) == words


@given(st.text(st.characters(exclude_categories=("Mn", "Mc", "Me")), max_size=40))
def test_without_marks_words_are_those_of_regular_expressions(value):
    assert words_of(value) == re.findall(r"\w+", value)


def test_the_order_of_names_does_not_matter_to_all_words():
    assert features_of("text", "king ada")["words"] == features_of("text", "ada king")["words"]


@given(raw=st.text(max_size=60) | st.sampled_from(HOSTILE_VALUES), kind=st.sampled_from(KINDS))
@examples(80)
def test_features_of_anything_are_distinct_and_have_names(raw, kind):
    for name, keys in features_of(kind, normalised(raw)).items():
        assert name in feature_names(kind)
        assert keys
        assert len(set(keys)) == len(keys)


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("value", ["a " * 200, "1," * 200, "1-" * 200, "(" * 400, "\u0e01" * 400])
def test_features_of_the_longest_values_are_few(kind, value):
    assert sum(map(len, features_of(kind, normalised(value)).values())) <= 100


@pytest.mark.parametrize(
    "spellings",
    [
        ("+49 174 1234567", "00491741234567", "+49 (0)174 123-4567", "0049 (174) 1234567"),
        ("1,234.50", "1234.5", "1,234.5", "1234.50"),
        ("12.0", "12", "12.00"),
        ("$1,200", "$1200.00"),
        ("-3.0", "-3"),
        ("Ohlsson, Margarethe", "Margarethe Ohlsson", "OHLSSON,  Margarethe"),
        ("van der Berg, Jan", "Jan van der Berg"),
    ],
)
def test_spellings_of_one_meaning(spellings):
    assert {normalised(spelling) for spelling in spellings} == {normalised(spellings[0])}


@pytest.mark.parametrize(
    "value",
    [
        "1.10",  # a version, and not 1.1
        "10.10",
        "12,5",
        "1,23",
        "1,2345",
        "0012",  # too short for a phone number
        "000123456789",
        "+4917",
        "192.168.0.1",
        "12 main street, london",
        "smith, jones, brown",
        "lee,ann",
        "a/b, c",
        "2.5",
        "0.50",
    ],
)
def test_what_only_looks_like_one_stays(value):
    assert normalised(value) == value


@given(st.text(alphabet="+0123456789 ().,-/$abÉ", max_size=30))
def test_what_is_normalised_stays_as_it_is(value):
    once = normalised(value)
    assert normalised(once) == once
