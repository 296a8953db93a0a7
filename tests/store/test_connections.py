"""Paths in a store, against those in a table of all its edges."""

from __future__ import annotations

import tempfile
from itertools import combinations
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from kbforge.contracts import Fragment
from kbforge.fit.choices import RunOptions
from kbforge.jobs.update import add_fragments
from kbforge.jobs.views import store_view
from kbforge.kb.edges import edge_table
from kbforge.kb.paths import shortest_paths
from kbforge.store import connections
from kbforge.store.connections import StoredConnections
from kbforge.store.database import Database
from kbforge.store.store import Store
from tests.profile import examples

NAMES = [f"Person {letter}" for letter in "abcdefgh"]


def stored(path: str, knows: list[list[int]]) -> list[Fragment]:
    """A store of people, of whom several fragments may state whom they know."""
    fragments = [
        Fragment(
            f"f{k}",
            {"name": (NAMES[k % len(NAMES)],)}
            | ({"knows": tuple(NAMES[other] for other in others)} if others else {}),
            source=f"text {k % 3}",
        )
        for k, others in enumerate(knows)
    ]
    add_fragments(path, fragments, RunOptions(likelihood="names", alpha=1.0, refers="knows"))
    return fragments


@given(st.lists(st.lists(st.integers(0, 7), max_size=2, unique=True), min_size=8, max_size=14))
@examples(30)
def test_paths_are_those_of_all_edges(knows: list[list[int]]) -> None:
    knows[0] = [1]  # the attribute is there
    with tempfile.TemporaryDirectory() as folder, pytest.MonkeyPatch.context() as patch:
        patch.setattr(connections, "_AT_ONCE", 2)
        path = str(Path(folder, "kb.sqlite"))
        stored(path, knows)
        with Database(path) as database:
            view = store_view(Store(database))
            entities = list(view.entities())
            with edge_table(entities) as table:
                for one, other in combinations([entity.id for entity in entities], 2):
                    found = StoredConnections(view)
                    paths = shortest_paths(found, one, other)
                    assert found.complete
                    expected = shortest_paths(table, one, other)
                    assert [(p.entities, p.probability) for p in paths] == [
                        (p.entities, p.probability) for p in expected
                    ]
                    for ours, theirs in zip(paths, expected, strict=True):
                        assert [sorted(map(repr, step)) for step in ours.steps] == [
                            sorted(map(repr, step)) for step in theirs.steps
                        ]


@pytest.mark.parametrize("bound", ["_MOST_READ", "_MOST_STATING"])
def test_it_says_that_it_looked_at_some_only(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, bound: str
) -> None:
    path = str(tmp_path / "kb.sqlite")
    stored(path, [[], [0], [0], [0], [1], [2], [3], [3]])
    monkeypatch.setattr(connections, "_AT_ONCE", 1)
    monkeypatch.setattr(connections, bound, 1)
    with Database(path) as database:
        view = store_view(Store(database))
        ends = [view.with_fragment(fragment).id for fragment in ("f4", "f7")]
        found = StoredConnections(view)
        shortest_paths(found, *ends)
        assert not found.complete
