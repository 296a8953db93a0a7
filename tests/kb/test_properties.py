"""Names, values and vectors of entities."""

from __future__ import annotations

import pytest

from kbforge.contracts import Fragment
from kbforge.kb.properties import collect, mean_vector, name_of


def named(*properties):
    return name_of(collect([Fragment(str(i), p) for i, p in enumerate(properties)]))


@pytest.mark.parametrize(
    ("properties", "name"),
    [
        ([{"name": ("A",)}, {"name": ("B",)}, {"name": ("B",)}], "B"),
        ([{"name": ("A. L.",)}, {"name": ("The longer",)}], "The longer"),
        ([{"name": ("b",)}, {"name": ("a",)}], "a"),
        ([{"name": ("Twice", "Twice")}, {"name": ("Thrice!",)}], "Thrice!"),
        ([{"title": ("T",), "born": ("1900",)}, {"born": ("1901", "1900")}], "1900"),
        ([{}], None),
    ],
    ids=["most frequent", "longest", "code point", "a repeat counts once", "first attribute", "-"],
)
def test_names(properties, name):
    assert named(*properties) == name


def test_values_are_ordered_by_count_then_code_point():
    found = collect(
        [Fragment("1", {"b": ("z", "é"), "a": ("q",)}), Fragment("2", {"b": ("é", "a")})]
    )
    assert list(found) == ["a", "b"]
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
