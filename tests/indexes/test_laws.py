"""Indexes keep their laws, and what breaks one is caught."""

from __future__ import annotations

import itertools
from collections.abc import Callable
from typing import Any, ClassVar

import pytest

from kbforge.contracts import CandidateIndex, Fragment
from tests.contracts.conftest import Plugins
from tests.indexes.laws import IndexLaws, plugin, pytest_generate_tests

__all__ = ["plugin", "pytest_generate_tests"]


class TestIndexes(IndexLaws):
    plugins: ClassVar[Plugins] = [
        "selective",
        ("selective", {"rules": ("name+colour",), "common": 1}),
        "ngrams",
        ("ngrams", {"attributes": ("name",), "order": 4, "common": 1, "rarest": 5}),
        "projection",
        ("projection", {"angles": True, "tables": 10, "rows": 3}),
    ]


class Keys(CandidateIndex):
    """An index by the words of the name, spoiled by what `spoil` makes of the numbers."""

    families, shared = 8, 1

    def __init__(self, spoil: Callable[[Fragment, list[int]], list[int]]) -> None:
        self._spoil = spoil

    def keys(self, fragment: Fragment) -> list[int]:
        words = dict.fromkeys(fragment.names[0].lower().split())
        return self._spoil(fragment, [int.from_bytes(word.encode()) for word in words])


class TestWords(IndexLaws):
    def make(self) -> Any:
        return Keys(lambda _, keys: keys)


def as_asked() -> Callable[[Fragment, list[int]], list[int]]:
    """A key of one's own for all but the first five questions."""
    asked = itertools.count()
    return lambda fragment, keys: keys if next(asked) < 5 else [*keys, 10**9 + next(asked)]


CLOSED = Keys(lambda _, keys: keys)
CLOSED.families = 0


class Remembers(Keys):
    """Words for the first five questions only."""

    def __init__(self) -> None:
        asked = itertools.count()
        super().__init__(lambda _, keys: keys if next(asked) < 5 else [])


BROKEN: list[tuple[str, Any]] = [
    ("test_distinct_whole_numbers", Keys(lambda _, keys: keys * 2)),
    ("test_distinct_whole_numbers", Keys(lambda _, keys: [k + 0.5 for k in keys])),  # type: ignore[misc]
    ("test_its_bounds_leave_something_to_compare", CLOSED),
    ("test_some_fragments_share_a_key_and_some_do_not", Keys(lambda *_: [1])),
    ("test_some_fragments_share_a_key_and_some_do_not", Keys(lambda *_: [])),
    ("test_deterministic", Keys(as_asked())),
    ("test_who_was_asked_about_first_does_not_count", Remembers),
    ("test_labels_and_ids_are_not_read", Keys(lambda x, k: [*k, hash(x.id)])),
    ("test_labels_and_ids_are_not_read", Keys(lambda x, k: k[: 2 * bool(x.label)])),
    ("test_fragments_that_it_has_not_seen_have_keys_too", Keys(lambda *_: [])),
]


@pytest.mark.parametrize(("law", "index"), BROKEN, ids=[law for law, _ in BROKEN])
def test_a_broken_index_is_caught(law: str, index: Any) -> None:
    class Broken(IndexLaws):
        def make(self) -> Any:
            return index() if isinstance(index, type) else index

    with pytest.raises(AssertionError):
        getattr(Broken(), law)()
