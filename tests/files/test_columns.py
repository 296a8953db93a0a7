"""Columns of fragments say what the fragments say."""

from itertools import pairwise

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from kbforge.contracts import Fragment
from kbforge.files.columns import Statements, statements_of

TEXTS = st.text(min_size=1, max_size=3, alphabet="ab é")
PROPERTIES = st.dictionaries(TEXTS, st.lists(TEXTS, min_size=1, max_size=3).map(tuple), max_size=4)


def stated(found: Statements) -> list[list[tuple[str, str]]]:
    """The statements of each fragment as texts."""
    pairs = [
        (found.attributes[a], found.texts[a][v])
        for a, v in zip(found.attribute.tolist(), found.value.tolist(), strict=True)
    ]
    ends = found.starts.tolist()
    return [pairs[a:b] for a, b in pairwise(ends)]


@given(st.lists(PROPERTIES, max_size=6))
def test_statements_are_those_of_the_fragments_in_order(properties):
    fragments = [Fragment(f"{n}", one) for n, one in enumerate(properties)]
    found = statements_of(fragments)
    expected = [[(a, v) for a, values in one.items() for v in values] for one in properties]
    assert stated(found) == expected
    assert (found.starts.dtype, found.attribute.dtype, found.value.dtype) == (
        *(np.int64, np.int32, np.int32),
    )


def test_values_are_numbered_by_attribute_in_order_of_their_first_statement():
    found = statements_of(
        [
            Fragment("1", {"name": ("Ann", "Anna"), "town": ("Brno",)}),
            Fragment("2", {"town": ("Wien", "Ann", "Wien")}),
            Fragment("3", {}),
        ]
    )
    assert found.attributes == ["name", "town"]
    assert [list(texts) for texts in found.texts] == [["Ann", "Anna"], ["Brno", "Wien", "Ann"]]
    assert found.starts.tolist() == [0, 3, 6, 6]
    assert found.attribute.tolist() == [0, 0, 1, 1, 1, 1]
    assert found.value.tolist() == [0, 1, 0, 1, 2, 1]
