"""Search against what fragments say, and the index: derived, kept up to date, made again."""

from __future__ import annotations

import os
import shutil
import sqlite3
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from kbforge.contracts import Fragment
from kbforge.errors import UsageError
from kbforge.fit.choices import RunOptions
from kbforge.jobs.remove import erase, remove
from kbforge.jobs.update import add_fragments
from kbforge.store.database import remove_index
from kbforge_serve import facts
from kbforge_serve.readers import Readers
from kbforge_serve.search import MOST_RESULTS, Search
from kbforge_serve.words import words_of
from tests.serve.said import Said

NAMES = {
    "a": "Ann Marlow",
    "b": "Иван Петров",
    "c": "北京大学",
    "d": "Zoë O'Brien-Müller",
    "e": 'x" OR name : (NOT *) ^"',
    "f": "<script>alert(1)</script>",
    "g": "Ann Marlowe",
}


@pytest.fixture
def search(store: Path):
    made = Readers(str(store))
    held = Said(Search(made))
    yield held
    held.close()
    made.close()


def _add(store: Path, *fragments: Fragment) -> None:
    add_fragments(str(store), fragments, RunOptions())


def _named(id: str, name: str, **others: str) -> Fragment:
    return Fragment(id, {"name": (name,), **{key: (value,) for key, value in others.items()}})


def _names(search: Search, text: str) -> list[str]:
    return [found["name"] for found in search.find(text)["results"]]


def test_every_fragment_is_found_by_its_whole_name(search, people_of_store):
    with search._readers.store() as store:
        holders = {
            f.id: store.entity_of(store.pages.numbers([f.id])[f.id])[0] for f in people_of_store
        }
    for fragment in people_of_store:
        if fragment.names:
            found = search.find(fragment.names[0], limit=MOST_RESULTS)["results"]
            assert holders[fragment.id] in [one["id"] for one in found]


def test_a_result_says_what_was_found_and_what_the_entity_says(search, people_of_store):
    fragment = next(f for f in people_of_store if len(f.properties) == 3)
    (first, *_) = search.find(fragment.names[0])["results"]
    assert first["matched"] == {"attribute": "name", "value": fragment.names[0]}
    assert set(first["values"]) <= {"name", "born", "town"}
    entity = facts.entity(search._of._readers, first["id"])
    assert first["values"] == {
        name: values[0].value for name, values in entity.properties.items()
    }, "the entity's best values, not those of the fragment"
    assert first["size"] >= 1
    assert 0 <= first["confidence"] <= 1


def test_a_word_is_found_as_it_is_typed(search, people_of_store):
    first, last = people_of_store[0].names[0].split()
    for typed in (last, last[:4], f"{first} {last[:3]}", last.upper(), f"  {last} "):
        assert any(last in one["matched"]["value"] for one in search.find(typed)["results"])


def test_a_typing_error_leads_to_similar_names(search, people_of_store):
    found = 0
    for name in [f.names[0] for f in people_of_store if f.names][:40]:
        wrong = name[:-3] + name[-2] + name[-3] + name[-1:]
        results = search.find(wrong)["results"]
        found += any(name == one["matched"]["value"] for one in results if one["matched"])
    assert found >= 30


@pytest.mark.parametrize(
    ("text", "id"),
    [
        ("ivan pet", "b"),
        ("Петров", "b"),
        ("北京", "c"),
        ("大学", "c"),
        ("bei jing", "c"),
        ("zoe obrien", None),
        ("ZOE MULLER", "d"),
        ("o'brien", "d"),
        ('x" OR name', "e"),
        ("<script>", "f"),
        ("marlowe ann", "g"),
        ("b", "b"),
    ],
)
def test_names_of_all_scripts_are_found(search, store, text, id):
    _add(store, *(_named(key, name) for key, name in NAMES.items()))
    found = _names(search, text)
    assert (NAMES[id] in found) if id else (NAMES["d"] not in found)


def test_an_entity_is_found_by_its_id_and_by_its_beginning(search, people_of_store):
    with search._readers.store() as store:
        number = store.pages.numbers([people_of_store[5].id])[people_of_store[5].id]
        entity, _ = store.entity_of(number)
    for text in (entity, entity[:7], people_of_store[5].id):
        assert entity in [one["id"] for one in search.find(text)["results"]]


def test_pages_have_each_entity_once(search):
    seen: list[str] = []
    cursor = None
    while True:
        page = search.find("19", limit=3, cursor=cursor)
        seen += [one["id"] for one in page["results"]]
        cursor = page["next"]
        if cursor is None:
            break
        assert len(page["results"]) == 3
    assert len(seen) == len(set(seen)) > 3


@given(text=st.text(max_size=60))
def test_no_text_is_refused(small, text):
    small.find(text)


@pytest.fixture(scope="module")
def small(made_store, tmp_path_factory):
    path = shutil.copy(made_store, tmp_path_factory.mktemp("search") / "kb.sqlite")
    made = Readers(str(path))
    held = Said(Search(made))
    yield held
    held.close()
    made.close()


@pytest.mark.parametrize(
    ("asked", "said"),
    [
        ({"text": "x" * 1001}, "at most 1,000 characters"),
        ({"text": "x", "limit": 0}, "from 1 to 100"),
        ({"text": "x", "limit": 101}, "from 1 to 100"),
        ({"text": "x", "cursor": "-1"}, 'the value of "next"'),
        ({"text": "x", "cursor": "²"}, 'the value of "next"'),
        ({"text": "x", "cursor": "9" * 30}, 'the value of "next"'),
    ],
)
def test_what_cannot_be_searched_is_a_sentence(search, asked, said):
    with pytest.raises(UsageError, match=said):
        search.find(**asked)


def test_what_others_write_is_found_and_what_they_remove_is_not(search, store):
    assert _names(search, "Quilliam Vex") == []
    _add(store, _named("new", "Quilliam Vex"))
    assert _names(search, "Quilliam Vex") == ["Quilliam Vex"]
    remove(str(store), ["new"])
    assert _names(search, "Quilliam Vex") == []


def test_an_erasure_leaves_no_word_of_what_it_erased(store):
    _add(store, _named("secret", "Xanthippe Zebedee"))
    readers = Readers(str(store))
    search = Said(Search(readers))
    assert _names(search, "Xanthippe") == ["Xanthippe Zebedee"]
    kept = [entity["name"] for entity in search.find("a")["results"]]
    search.close()
    readers.close()
    assert b"xanthippe" in Path(f"{store}-search").read_bytes()
    erase(str(store), ["secret"])
    assert not list(store.parent.glob("*-search*"))
    readers = Readers(str(store))
    search = Said(Search(readers))
    assert _names(search, "Xanthippe") == []
    assert _names(search, "a") == kept
    assert b"xanthippe" not in Path(f"{store}-search").read_bytes()
    search.close()
    readers.close()


def test_a_server_that_goes_on_forgets_what_is_erased(search, store):
    _add(store, _named("secret", "Xanthippe Zebedee"))
    assert _names(search, "Xanthippe") == ["Xanthippe Zebedee"]
    erase(str(store), ["secret"])
    assert _names(search, "Xanthippe") == []
    for asked in ("words WHERE words MATCH 'xanthippe'", "terms WHERE word = 'xanthippe'"):
        with search.words._lent() as index:
            assert index.execute(f"SELECT count(*) FROM {asked}").fetchone() == (0,)
    assert len(_names(search, "a")) > 3


def _cut(path: Path) -> None:
    path.write_bytes(path.read_bytes()[:8192])


def _flip(path: Path) -> None:
    content = bytearray(path.read_bytes())
    content[4096:8192] = os.urandom(4096)
    path.write_bytes(content)


def _no_database(path: Path) -> None:
    path.write_bytes(b"something else " * 500)


def _other_tables(path: Path) -> None:
    with sqlite3.connect(path) as index:
        index.execute("CREATE TRIGGER t AFTER INSERT ON state BEGIN DELETE FROM state; END")
    index.close()


def _of_another_store(path: Path) -> None:
    with sqlite3.connect(path) as index:
        index.execute("UPDATE state SET began = 1")
    index.close()


def _half_made(path: Path) -> None:
    path.unlink()
    sqlite3.connect(path).execute("CREATE TABLE state (x)").close()


@pytest.mark.parametrize(
    "harm", [_cut, _flip, _no_database, _other_tables, _of_another_store, _half_made, Path.unlink]
)
def test_an_index_that_is_no_good_is_made_again(store, people_of_store, harm):
    def found() -> list[str]:
        readers = Readers(str(store))
        search = Said(Search(readers))
        names = [_names(search, text) for text in ("a", people_of_store[0].names[0], "19")]
        search.close()
        readers.close()
        return names

    whole = found()
    index = Path(f"{store}-search")
    assert index.exists()
    harm(index)
    assert found() == whole
    assert index.exists()


def test_an_index_damaged_while_it_is_used_is_left_for_another(search, store, people_of_store):
    name = people_of_store[0].names[0]
    whole = _names(search, name)
    with search.words._lent() as index:
        index.execute("PRAGMA wal_checkpoint(TRUNCATE)")
        index.execute("PRAGMA cache_size = 0")
    index = Path(f"{store}-search")
    with index.open("r+b") as file:
        file.write(b"\xff" * index.stat().st_size)
    for _ in range(3):
        _names(search, name)
        if search.words._behind is not None:
            search.words._behind.join()
    assert _names(search, name) == whole


@pytest.mark.filterwarnings("error::pytest.PytestUnhandledThreadExceptionWarning")
def test_an_index_that_is_removed_while_a_thread_fills_it_is_made_elsewhere(search, store):
    whole = _names(search, "a")
    while search.words._idle:  # others have them
        search.words._idle.pop()[1].close()
    remove_index(str(store))  # as an erasure does
    search.words._index_behind()
    search.words._behind.join()
    for _ in range(3):
        _names(search, "a")
        search.words._behind.join()
    assert _names(search, "a") == whole
    assert not Path(f"{store}-search").exists()


def test_who_may_read_a_store_may_read_its_index(store):
    for mode in (0o600, 0o640):
        store.chmod(mode)
        remove_index(str(store))
        readers = Readers(str(store))
        search = Said(Search(readers))
        search.prepare()
        assert Path(f"{store}-search").stat().st_mode & 0o777 == mode
        search.close()
        readers.close()


def test_where_no_file_can_be_written_the_index_is_temporary(search, store, people_of_store):
    Path(f"{store}-search").mkdir()
    name = people_of_store[0].names[0]
    assert name in [one["matched"]["value"] for one in search.find(name)["results"]]
    folder = Path(search.words._path).parent
    assert folder != store.parent
    search.close()
    assert not folder.exists()


def test_a_huge_value_is_found_by_its_beginning(search, store):
    _add(store, _named("huge", "Behemoth " + "x" * 60_000 + " Leviathan"))
    (found,) = search.find("behemoth")["results"]
    assert len(found["matched"]["value"]) <= 200
    assert len(found["values"]["name"]) <= 200
    assert search.find("leviathan")["results"] == []


@given(st.text())
def test_words_are_letters_and_digits(text):
    assert all(
        word.isascii() and word.isalnum() and word == word.lower() for word in words_of(text)
    )
