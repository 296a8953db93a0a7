"""The laws of candidate indexes, as tests; see `kbforge.contracts.index`."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import Any, ClassVar

import pytest

from kbforge.contracts import CandidateIndex, Fragment
from kbforge.indexes import make_index
from kbforge.testing import examples
from kbforge.testing.contract import Contract
from kbforge.testing.likelihood import not_refused, same, stored
from tests.contracts.conftest import plugin, pytest_generate_tests

__all__ = ["plugin", "pytest_generate_tests"]


class IndexLaws(Contract):
    """Distinct keys of what a fragment says, whoever asks and in whatever order."""

    kind: ClassVar[str] = "indexes"

    def make(self) -> Any:
        return make_index(self.name, self.options)

    def fragments(self) -> Sequence[Fragment]:
        """Fragments of which some share a key and some do not; override for other attributes."""
        return examples.fragments()

    def fitted(self) -> Any:
        """The index, fitted to the fragments if it fits itself."""
        index = self.make()
        index.fit(self.fragments())
        return index

    def test_distinct_whole_numbers(self) -> None:
        index = self.fitted()
        for fragment in self.fragments():
            keys = list(index.keys(fragment))
            assert all(type(key) is int for key in keys)
            assert len(set(keys)) == len(keys)

    def test_its_bounds_leave_something_to_compare(self) -> None:
        index = self.fitted()
        for bound in ("families", "shared"):
            assert getattr(index, bound) >= 1, bound

    def test_some_fragments_share_a_key_and_some_do_not(self) -> None:
        found = _shared(self.fitted(), self.fragments())
        assert any(found.values())
        assert not all(found.values())

    def test_deterministic(self) -> None:
        index = self.fitted()
        first = [list(index.keys(fragment)) for fragment in self.fragments()]
        assert [list(index.keys(fragment)) for fragment in self.fragments()] == first
        other = self.fitted()
        assert [list(other.keys(fragment)) for fragment in self.fragments()] == first

    def test_who_was_asked_about_first_does_not_count(self) -> None:
        """The numbers may be others, but the same pairs share as many of them."""
        items = list(self.fragments())
        assert _shared(self.fitted(), items[::-1]) == _shared(self.fitted(), items)

    def test_labels_and_ids_are_not_read(self) -> None:
        index, items = self.fitted(), self.fragments()
        for fragment, blind in zip(items, examples.without_gold(items), strict=True):
            assert list(index.keys(blind)) == list(index.keys(fragment))
            assert list(index.keys(replace(fragment, id="another"))) == list(index.keys(fragment))

    def test_fragments_that_it_has_not_seen_have_keys_too(self) -> None:
        """Those with the values of one that it was fitted to share a key with that one."""
        *items, last = self.fragments()
        index = self.make()
        index.fit(items)
        for fragment in (last, items[0]):
            again = replace(fragment, id="another")
            assert set(index.keys(again)) & set(index.keys(fragment))

    def test_what_it_learned_is_taken_up(self) -> None:
        """Also for fragments that it was not fitted to; the very numbers."""
        items, index = list(self.fragments()), self.make()
        index.fit(items[:-3])
        before = [list(index.keys(fragment)) for fragment in items]
        found = index.dump()
        if found is None:
            pytest.skip("it does not keep what it learned")
        kept, other = stored(found), self.make()
        other.load(kept)
        assert [list(other.keys(fragment)) for fragment in items[::-1]] == before[::-1]
        assert same(other.dump(), kept)

    def test_nothing_damaged_is_taken_up(self) -> None:
        found = self.fitted().dump()
        if found is None:
            pytest.skip("it does not keep what it learned")
        assert not_refused(lambda kept: self.make().load(kept), found) == []


def _shared(index: CandidateIndex, items: Sequence[Fragment]) -> dict[frozenset[str], int]:
    """How many keys each pair of fragments, by their ids, has in common."""
    keys = {fragment.id: set(index.keys(fragment)) for fragment in items}
    return {
        frozenset((one, two)): len(keys[one] & keys[two])
        for one in keys
        for two in keys
        if one < two
    }
