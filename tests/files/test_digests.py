"""The set of digests against Python's own set."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from kbforge.files.digests import DigestSet


@given(st.lists(st.binary(max_size=3)))
def test_like_a_set(members):
    seen, expected = DigestSet(), set()
    for member in members:
        assert seen.add(member) == (member not in expected)
        expected.add(member)
    assert len(seen) == len(expected)


def test_nothing_is_forgotten_while_it_grows():
    seen = DigestSet()
    members = [str(i).encode() for i in range(30_000)]
    assert all(seen.add(member) for member in members)
    assert not any(seen.add(member) for member in members)
    assert len(seen) == 30_000
