"""Whoever follows the change feed of a store has what the store has, also after erasures."""

from __future__ import annotations

import shutil
from pathlib import Path

import pytest

from kbforge.contracts import Kind
from kbforge.fit.authority import Authority
from kbforge.fit.choices import RunOptions
from kbforge.jobs.history import between
from kbforge.jobs.remove import erase, remove
from kbforge.jobs.update import add_fragments
from kbforge.store.changes import changes
from kbforge.store.database import Database
from kbforge.store.store import Store
from tests.following import Content, Follower, Happenings, content, differences, digest, lines_of
from tests.people import people
from tests.program import Run
from tests.store.copies import require_whole_copy

PEOPLE = people(30, 8)
KNOWN = people(10, 8)  # the same people
CHOICES = RunOptions(likelihood="attributes", alpha=10.0)


@pytest.fixture(scope="module")
def bases(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Path]:
    """A store, and one with known entities."""
    folder = tmp_path_factory.mktemp("followed")
    made = {name: folder / f"{name}.sqlite" for name in ("plain", "against")}
    add_fragments(str(made["plain"]), PEOPLE[:30], CHOICES)
    authority = Authority.of_fragments(KNOWN)
    add_fragments(str(made["against"]), PEOPLE[:30], CHOICES, against=authority)
    return made


@pytest.fixture
def path(bases: dict[str, Path], tmp_path: Path) -> str:
    return shutil.copy(bases["plain"], str(tmp_path / "kb.sqlite"))


@pytest.fixture
def against(bases: dict[str, Path], tmp_path: Path) -> str:
    return shutil.copy(bases["against"], str(tmp_path / "kb.sqlite"))


def follow(program: Run, path: str, follower: Follower) -> None:
    """Have it hear what the command line tells."""
    ran = program("changes", path, "--since", follower.at, "--json")
    follower.hear(ran.json, lines_of(path))


def require_equal(program: Run, path: str, followers: list[Follower], after: object) -> None:
    at, wanted = content(path)
    for follower in followers:
        follow(program, path, follower)
        assert follower.at == at
        assert differences(follower.entities, wanted) == [], after


@pytest.mark.parametrize("base", ["plain", "against"])
@pytest.mark.parametrize("events", [12, pytest.param(60, marks=pytest.mark.slow)])
def test_a_follower_equals_the_store_after_each_event(
    base: str, events: int, bases: dict[str, Path], tmp_path: Path, program: Run
) -> None:
    path = shutil.copy(bases[base], str(tmp_path / "kb.sqlite"))
    happening = Happenings(path, PEOPLE, events)
    near, far = Follower(), Follower()
    for number in range(events):
        happened = happening.happen()
        require_whole_copy(path)
        far_too = happening.rng.random() < 0.1 or number == events - 1
        require_equal(program, path, [near, far] if far_too else [near], (number, happened))
    require_equal(program, path, [Follower()], "from the beginning")
    assert len(happening.counts) >= min(events, 9) / 3


def one_entity(path: str, least: int) -> tuple[str, list[str]]:
    """An entity with so many fragments or more, and their ids."""
    found = content(path)[1]
    return next((id, sorted(held)) for id, held in found.items() if len(held) >= least)


def told(path: str, since: int) -> list[tuple[str, Kind, tuple[str, ...], tuple[str, ...]]]:
    with Database(path) as database:
        found = changes(Store(database), since)
        return [(one.entity, one.kind, one.before, one.after) for one in found]


def test_an_erased_entity_is_gone_and_nothing_else_is_told(path: str, program: Run) -> None:
    entity, ids = one_entity(path, 2)
    follower = Follower()
    follow(program, path, follower)
    remove(path, ids[:1])
    erase(path, ids)
    gone = {"entity": entity, "kind": "removed", "before": [], "after": [], "others": []}
    gone |= {"relinked": []}
    for since in (1, 2):
        found = program("changes", path, "--since", since, "--json").json
        assert found["changes"] == [gone]
        assert found["to"] == found["last"] == 3
    require_equal(program, path, [follower], "erase")
    with Database(path) as database:
        history = between(Store(database), 1, 3)
    assert history.kinds == {}
    assert history.entities[0] == history.entities[1]


def test_an_entity_that_lost_an_erased_fragment_has_changed(path: str) -> None:
    entity, ids = one_entity(path, 2)
    erase(path, ids[1:])
    assert told(path, 1) == [(entity, Kind.CHANGED, (ids[0],), (ids[0],))]


def test_new_content_under_an_old_id_is_a_change(path: str, program: Run) -> None:
    follower = Follower()
    follow(program, path, follower)
    one = PEOPLE[0]
    moved = [type(one)(one.id, {**one.properties, "town": ("elsewhere",)})]
    add_fragments(path, moved, RunOptions(), "replace")
    require_equal(program, path, [follower], "replaced")
    late = Follower()
    late.at, late.entities = follower.at, dict(follower.entities)
    remove(path, [one.id])
    add_fragments(path, [one], RunOptions())  # and again, in two runs
    require_equal(program, path, [late], "removed and added")


def test_a_store_that_was_erased_whole_goes_on_counting(path: str, program: Run) -> None:
    follower = Follower()
    follow(program, path, follower)
    ids = [id for held in content(path)[1].values() for id in held]
    erase(path, ids)
    follow(program, path, follower)
    assert (follower.at, follower.entities) == (2, {})
    add_fragments(path, PEOPLE[:20], CHOICES)
    require_equal(program, path, [follower], "filled again")
    assert follower.at == 3
    ran = program("check", path)
    assert b"is intact" in ran.out


def known_entity(path: str) -> tuple[str, Content]:
    """A known entity that has taken in a fragment, and all entities."""
    found = content(path)[1]
    return next(id for id, held in found.items() if id in held and len(held) > 1), found


@pytest.mark.parametrize("secure", [False, True])
def test_the_id_of_an_authority_goes_with_its_fragment(
    against: str, program: Run, secure: bool
) -> None:
    id, before = known_entity(against)
    follower = Follower()
    follow(program, against, follower)
    remove(against, [id])
    assert id not in content(against)[1]
    if secure:
        erase(against, [id])
    now = content(against)[1]
    others = before[id].keys() - {id}
    assert {e for e, held in now.items() if others & held.keys()}.isdisjoint(before)
    (gone,) = [one for one in told(against, 1) if one[0] in (id, digest(id))]
    assert gone == (digest(id) if secure else id, *gone[1:3], ())
    require_equal(program, against, [follower], "removed")


def test_no_byte_of_an_erased_known_entity_is_left(tmp_path: Path) -> None:
    path = str(tmp_path / "kb.sqlite")
    known = [type(x)(f"known-{k}-verysecret", x.properties) for k, x in enumerate(KNOWN[:8])]
    add_fragments(path, PEOPLE[:30], CHOICES, against=Authority.of_fragments(known))
    held = content(path)[1]
    here = [id for x in known if (id := x.id) in held]
    remove(path, here[:1])
    erase(path, here)
    for file in tmp_path.iterdir():
        assert b"verysecret" not in file.read_bytes(), file.name
    assert len(content(path)[1]) > 1
