"""Links of a store: those of a file with the same entities, whatever comes, goes and changes."""

from __future__ import annotations

import tempfile
from collections.abc import Iterator
from dataclasses import replace
from itertools import pairwise
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from kbforge.contracts import Entity, Fragment
from kbforge.errors import StoreError, UsageError
from kbforge.fit.choices import RunOptions
from kbforge.jobs.cluster import cluster
from kbforge.jobs.refit import refit
from kbforge.jobs.remove import erase, remove
from kbforge.jobs.update import add_fragments
from kbforge.jobs.views import entities_of as entities_of_file
from kbforge.jobs.views import store_view, view_of
from kbforge.kb import relations
from kbforge.kb.edges import edges_of
from kbforge.store import mentions, store
from kbforge.store.changes import changes
from kbforge.store.database import Database
from kbforge.store.mentions import Referrer
from kbforge.store.store import Store
from kbforge.store.tables import write_rows
from kbforge.texts import digest_of
from tests.profile import examples

NAMES = ("Paris", "PARIS", "Ada Lovelace", "Alan Turing", "Łódź", "Lodz University", "1990")
OPTIONS = RunOptions(likelihood="names", alpha=1.0, refers="place,knows")

values = st.lists(st.sampled_from(NAMES), max_size=3)
properties = st.fixed_dictionaries(
    {"about": st.just(["x"])},
    optional={"name": values, "first_name": values, "place": values, "knows": values},
)
sources = st.sampled_from([None, "a", "b", "c", "d"])


@st.composite
def files(draw: st.DrawFn) -> list[Fragment]:
    """Fragments that name each other, some in one text."""
    stated = draw(st.lists(st.tuples(properties, sources), min_size=1, max_size=20))
    return [
        Fragment(
            f"f{number}",
            {name: tuple(texts) for name, texts in properties.items() if texts},
            source=source,
        )
        for number, (properties, source) in enumerate(stated)
    ]


@pytest.fixture(autouse=True)
def small_bounds() -> Iterator[None]:
    """Few fragments are many: several parts are read, and some sources are files, not texts."""
    with pytest.MonkeyPatch.context() as patch:
        for module in (relations, mentions):
            patch.setattr(module, "LARGEST_UNIT", 4)
        patch.setattr(relations, "_MOST_CANDIDATES", 2)
        patch.setattr(store, "_AT_ONCE", 2)
        patch.setattr(mentions, "_FIRST_AT_ONCE", 1)
        patch.setattr(mentions, "_MOST_KEPT", 5)
        yield


def lines_of(path: str) -> bytes:
    return b"".join(lines for _, lines in view_of(path).lines())


def stating(fragments: list[Fragment], *attributes: str) -> bool:
    return any(name in x.properties for x in fragments for name in attributes)


@given(files())
@examples(60)
def test_a_store_has_the_links_of_a_file(fragments: list[Fragment]) -> None:
    with tempfile.TemporaryDirectory() as folder:
        file, path = str(Path(folder, "kb.jsonl")), str(Path(folder, "kb.sqlite"))
        declared = [name for name in ("place", "knows") if stating(fragments, name)]
        options = RunOptions(
            likelihood="names", alpha=1.0, refers=",".join(declared) if declared else "none"
        )
        cluster(fragments, options).write(file)
        add_fragments(path, fragments, options)
        assert lines_of(path) == Path(file).read_bytes()
        require_both_ways(path)


def require_both_ways(path: str) -> None:
    """Whoever means an entity is found from there, at once or one by one."""
    with Database(path) as database:
        view = store_view(Store(database))
        entities = list(view.entities())
        expected: dict[str, list[tuple[str, str, float]]] = {one.id: [] for one in entities}
        for edge in (edge for entity in entities for edge in edges_of(entity)):
            expected[edge.tail].append((edge.head, edge.relation, edge.probability))
        for entity in entities:
            found, end = view.stating(entity)
            assert end is None
            assert sorted(found) == sorted(expected[entity.id])
            paged: list[Referrer] = []
            begin: int | None = 0
            while begin is not None:
                some, begin = view.stating(entity, begin, 1)
                assert len({one.entity for one in some}) <= 1
                paged += some
            assert paged == found


def person(id: str, name: str, **more: str) -> Fragment:
    return Fragment(id, {"name": (name,), **{key: (value,) for key, value in more.items()}})


VISITS = [person("p", "Paris"), person("v", "Vera Novak", place="Paris"), person("o", "Oslo")]


@pytest.fixture
def path(tmp_path: Path) -> str:
    """A store in which Vera's place is Paris."""
    path = str(tmp_path / "kb.sqlite")
    add_fragments(path, VISITS, OPTIONS_OF_VISITS)
    return path


OPTIONS_OF_VISITS = RunOptions(likelihood="names", alpha=1.0, refers="place")


def entities(path: str) -> dict[str, Entity]:
    return {entity.name: entity for entity in view_of(path).entities()}


def place_of_vera(path: str) -> str | None:
    found = entities(path)
    (value,) = found["Vera Novak"].properties["place"]
    return next((name for name, one in found.items() if one.id == value.entity), None)


def rows(path: str) -> dict[int, list[int]]:
    with Database(path) as database:
        found = database.connection.execute("SELECT key, content FROM mention").fetchall()
    return {key: np.frombuffer(content, "<i8")[::2].tolist() for key, content in found}


def test_what_goes_takes_its_mentions(path: str) -> None:
    assert place_of_vera(path) == "Paris"
    keys = [digest_of(text) for text in ("\0paris", "place\0paris", "\0oslo", "\0vera novak")]
    assert rows(path) == dict(zip(keys, ([0], [1], [2], [1]), strict=True))
    remove(path, ["p"])
    assert place_of_vera(path) is None
    assert rows(path) == {key: held for key, held in rows(path).items() if held != [0]}
    add_fragments(path, [person("p", "Paris")], RunOptions())
    assert place_of_vera(path) == "Paris"


def test_nothing_is_left_of_what_is_erased(path: str) -> None:
    erase(path, ["v"])
    assert sorted(rows(path)) == sorted(digest_of(text) for text in ("\0paris", "\0oslo"))
    for text in ("place\0paris", "\0vera novak"):
        assert digest_of(text).to_bytes(8, "big") not in Path(path).read_bytes()


def test_a_changed_fragment_refers_to_what_it_says_now(path: str) -> None:
    changed = [person("v", "Vera Novak", place="Oslo")]
    add_fragments(path, changed, RunOptions(), on_duplicate="replace")
    assert place_of_vera(path) == "Oslo"


def test_a_store_finds_what_refers_when_it_learns_again(tmp_path: Path) -> None:
    path = str(tmp_path / "kb.sqlite")
    add_fragments(path, VISITS[:1], RunOptions(likelihood="names", alpha=1.0))
    towns = ("Town a", "Town b", "Town c", "Town a")
    more = [person(one, one, near=other) for one, other in pairwise(towns)]
    add_fragments(path, more, RunOptions())
    assert not rows(path)
    refit(path)
    found = entities(path)
    assert found["Town a"].properties["near"][0].entity == found["Town b"].id


def test_a_missing_mention_and_one_too_many_are_noticed(path: str) -> None:
    key = digest_of("place\0paris")
    with Database(path, write=True) as database:
        database.connection.execute("DELETE FROM mention WHERE key = ?", (key,))
    with pytest.raises(StoreError, match="mention"):
        remove(path, ["v"])
    with Database(path, write=True) as database:
        write_rows(database.connection, "mention", {key: (np.array([7, -1]).tobytes(),)})
        assert database.examined()[1] == ["mention has fragment number 7, which does not exist"]


def test_an_attribute_that_no_fragment_has_is_refused(tmp_path: Path) -> None:
    with pytest.raises(UsageError, match="--refers"):
        add_fragments(str(tmp_path / "kb.sqlite"), VISITS, RunOptions(refers="plase"))


def test_the_feed_tells_whose_links_another_entity_has_rewired(path: str) -> None:
    add_fragments(path, [person("k", "Kim Lee", place="Rome")], RunOptions())
    with Database(path) as database:
        run = Store(database).position
    add_fragments(path, [person("r", "Rome"), person("x", "Xenia")], RunOptions())
    found = entities(path)
    with Database(path) as database:
        told = {one.entity: one.relinked for one in changes(Store(database), run)}
    assert told == {found["Rome"].id: (found["Kim Lee"].id,), found["Xenia"].id: ()}
    with Database(path) as database:
        assert not any(one.relinked for one in changes(Store(database), 0))


def test_values_of_later_fragments_are_judged_by_what_a_store_learned(tmp_path: Path) -> None:
    path, options = str(tmp_path / "kb.sqlite"), RunOptions(likelihood="names", alpha=1.0)
    towns = ("Leeds", "Leeds", "Ledes", "York", "York", "York")
    people = [
        person(f"{k} {n}", f"Person {k}", town=town)
        for k in range(9)
        for n, town in enumerate(towns[k % 4 : k % 4 + 3])
    ]
    add_fragments(path, people, options)
    before = {name: one.properties for name, one in entities(path).items()}
    assert any(value.confidence for of in before.values() for value in of["town"])
    new = [person(f"new {town}", "New Person", town=town) for town in ("Leeds", "Lxedz")]
    add_fragments(path, new, RunOptions())
    after = {name: one.properties for name, one in entities(path).items()}
    sure = {value.value: value.confidence or 0.0 for value in after.pop("New Person")["town"]}
    # by these two statements alone, they would be as probable
    assert sure["Leeds"] > 2 * sure["Lxedz"] > 0
    assert after == before
    with Database(path, write=True) as database:  # as a version before wrote it
        database.connection.execute("DELETE FROM meta WHERE name = 'facts'")
    assert entities(path)["New Person"].properties["town"][0].confidence is None
    refit(path)
    assert entities(path)["New Person"].properties["town"][0].confidence is not None
    again = refit(path)
    assert again.told["already"]


def test_a_source_of_all_fragments_is_no_text(tmp_path: Path) -> None:
    """It names no less than the file: links are as probable as without it, here and in a store."""
    names = ("Paris", "Paris", "Ann", "Rome")
    plain = [Fragment(f"f{k}", {"name": (name,)}) for k, name in enumerate(names)]
    plain.append(Fragment("f4", {"name": ("Bo Lee",), "place": ("Paris",)}))
    alike = [replace(one, source="places.csv") for one in plain]
    mixed = [*alike[:-1], replace(alike[-1], source="people.csv")]
    options = RunOptions(likelihood="names", alpha=1.0, refers="place")
    sure = []
    for number, fragments in enumerate((plain, alike, mixed)):
        file, path = tmp_path / f"{number}.jsonl", str(tmp_path / f"{number}.sqlite")
        cluster(fragments, options).write(file)
        add_fragments(path, fragments, options)
        assert lines_of(path) == file.read_bytes()
        (value,) = (v for e in entities_of_file(str(file)) for v in e.properties.get("place", ()))
        sure.append(value.meanings[0].probability)
    assert sure[0] == sure[1] == sure[2]
    near = cluster(
        [replace(one, source="notes") for one in (plain[0], plain[-1])] + plain[1:4], options
    )
    (value,) = (v for e in near.entities for v in e.properties.get("place", ()))
    assert value.meanings[0].probability > sure[0]  # a text of two fragments
