"""Names, values and vectors of entities."""

from __future__ import annotations

import pytest

from kbforge.contracts import Fragment
from kbforge.kb.properties import collect, mean_vector, name_of


def named(*properties):
    return name_of([Fragment(str(i), p) for i, p in enumerate(properties)])


@pytest.mark.parametrize(
    ("properties", "name"),
    [
        ([{"name": ("A",)}, {"name": ("B",)}, {"name": ("B",)}], "B"),
        ([{"name": ("A. L.",)}, {"name": ("The longer",)}], "The longer"),
        ([{"name": ("b",)}, {"name": ("a",)}], "a"),
        ([{"name": ("Twice", "Twice")}, {"name": ("Thrice!",)}], "Thrice!"),
        ([{"title": ("T",), "name": ("N",)}, {"title": ("T",)}], "N"),
        ([{"brand": ("B",), "Title": ("T",), "brand_name": ("B",)}], "T"),
        ([{"first_name": ("A",), "surname": ("L",), "Full Name": ("A. L.",)}], "A. L."),
        ([{"town": ("a",), "type": ("b",)}, {"type": ("b",)}], "a"),
        ([{"type": ("b",)}, {"zone": ("zzz",), "type": ("b",)}], "b"),
        ([{"born": ("1900",)}, {"born": ("1901", "1900")}], "1900"),
        ([{}], None),
        ([], None),
        ([{"name": ("ADA",)}, {"name": ("Ada",)}, {"name": ("Bob Ross",)}], "Ada"),
        ([{"name": ("ADA",)}, {"name": ("ADA",)}, {"name": ("Ada",)}], "ADA"),
        (
            [
                {"name": ("Ada Lovelace",)},
                {"name": ("Adda Lovelacce",)},
                {"name": ("Ada",)},
                {"name": ("Lovelace",)},
            ],
            "Ada Lovelace",
        ),
        (
            [{"name": ("J. Smith",)}, {"name": ("John Smithh",)}, {"name": ("John Smith",)}],
            "John Smith",
        ),
        ([{"name": ("Wrennick, Hamish",)}, {"name": ("Hamish Wrennick",)}], "Hamish Wrennick"),
    ],
    ids=[
        "most frequent",
        "longest",
        "code point",
        "a repeat counts once",
        "name before title",
        "title before what ends in name",
        "a full name is not joined",
        "the first attribute as it stands",
        "of the earliest fragment",
        "each of several values counts",
        "no properties",
        "no fragments",
        "case does not divide a name, and both cases are better than one",
        "the commonest case",
        "words that stand once may be typos, however long",
        "of words that others state the longest",
        "not turned around",
    ],
)
def test_names(properties, name):
    assert named(*properties) == name


@pytest.mark.parametrize(
    ("people", "name"),
    [
        (
            [{"birthplace": "devon", "first_name": "thomas", "surname": "chudleigh"}],
            "thomas chudleigh",
        ),
        ([{"Surname": "chudleigh", "town": "devon", "First name": "thomas"}], "chudleigh thomas"),
        (
            [
                {"first_name": "tom"},
                {"first_name": "tom"},
                {"first_name": "thomas", "surname": "c"},
            ],
            "thomas c",
        ),
        (
            [
                {"first_name": "tom", "surname": "c"},
                {"first_name": "tom", "surname": "c"},
                {"first_name": "tom", "middle_name": "p", "surname": "c"},
            ],
            "tom c",
        ),
        ([{"first_name": "ann", "surname": "x"}, {"first_name": "zoe", "surname": "a"}], "ann x"),
        ([{"first_name": "tom"}, {"surname": "chudleigh"}], "chudleigh"),
        ([{"town": "devon"}, {"town": "devon", "surname": "chudleigh"}], "chudleigh"),
    ],
    ids=[
        "joined",
        "in the order of the record",
        "a single part comes last",
        "the commonest, not the fullest",
        "as one record states them",
        "one part each",
        "from the record that has one",
    ],
)
def test_joined_names(people, name):
    assert named(*({key: (value,) for key, value in p.items()} for p in people)) == name


def test_attributes_in_another_order_name_alike():
    one = {"first_name": ("thomas",), "surname": ("chudleigh",)}
    two = {"born": ("1630",), "first_name": ("tom",), "surname": ("chudleigh",)}
    assert named(one, two, two) == named(two, two, one) == "tom chudleigh"


def test_attributes_keep_the_order_of_the_file():
    """A cell that is empty in the first record does not move its column to the end."""
    rows = [{"surname": "x", "born": "1900"}, {"first_name": "y", "surname": "x"}, {"town": "z"}]
    found = collect([Fragment(str(i), {a: (v,) for a, v in r.items()}) for i, r in enumerate(rows)])
    assert list(found) == ["first_name", "surname", "born", "town"]


def test_values_are_ordered_by_count_then_code_point():
    found = collect(
        [Fragment("1", {"b": ("z", "é"), "a": ("q",)}), Fragment("2", {"b": ("é", "a")})]
    )
    assert list(found) == ["b", "a"]
    assert [(v.value, v.fragments) for v in found["b"]] == [
        ("é", ("1", "2")),
        ("a", ("2",)),
        ("z", ("1",)),
    ]


@pytest.mark.parametrize(
    ("vectors", "mean"),
    [
        ([(1.0, 2.0), (3.0, 6.0)], (2.0, 4.0)),
        ([(1.0,), None], (1.0,)),
        ([(1.0,), (1.0, 2.0)], None),
        ([None], None),
        ([(1.7e308,), (1.7e308,)], (1.7e308,)),
    ],
)
def test_mean_vectors(vectors, mean):
    assert mean_vector([Fragment("x", {}, vector) for vector in vectors]) == mean
