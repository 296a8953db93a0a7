"""A command that is killed at any boundary of a transaction, and given again, does what it does.

Compared are all tables, row for row, without times (`tests.store.dump`).
"""

from __future__ import annotations

import contextlib
import os
import sqlite3
from collections.abc import Callable, Sequence
from pathlib import Path

import pytest

from kbforge.contracts import Fragment
from kbforge.errors import UsageError
from kbforge.fit.choices import RunOptions
from kbforge.jobs.decide import decide, decisions_of, undo
from kbforge.jobs.refit import refit, revisit
from kbforge.jobs.remove import erase, remove
from kbforge.jobs.report import status_of
from kbforge.jobs.update import add_fragments
from kbforge.jobs.views import entities_of
from kbforge.store.database import Database
from kbforge.store.pages import kept_from_bytes
from kbforge.store.store import Store
from tests.jobs.killing import dies_at
from tests.people import people
from tests.store.copies import require_honest_copy, require_whole_copy
from tests.store.dump import dump

pytestmark = pytest.mark.skipif(not hasattr(os, "fork"), reason="processes are forked")

PEOPLE = people(30, 4)
FIRST = {"name": ("zyxwv secretname",), "born": ("1955-05-05",)}
SECOND = {"name": ("zyxwv secretnom",), "town": ("hiddentown",)}
GONE = [
    Fragment("id-verysecret", FIRST, source="vault"),
    Fragment('id "zweitgeheim\n', SECOND, source="vault"),
]
IDS = [fragment.id for fragment in GONE]
SECRETS = [b"verysecret", b"secretn", b"hiddentown", b"zweitgeheim", b"vault"]
CHOICES = RunOptions(likelihood="attributes", alpha=20.0)
Verb = Callable[[str], object]


@pytest.fixture(scope="module")
def base(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A store with four decisions: two of them about what is to go, and the last one last."""
    path = tmp_path_factory.mktemp("killed") / "base.sqlite"
    filled(path)
    return path


@pytest.fixture
def path(base: Path, tmp_path: Path) -> Path:
    """A copy of it."""
    copy(base, tmp_path / "kb.sqlite")
    return tmp_path / "kb.sqlite"


def filled(path: Path) -> None:
    """Make the store of `base`."""
    add_fragments(str(path), [*PEOPLE[:60], *GONE], CHOICES)
    a, b, c = (entity.fragments[0] for entity in list(entities_of(str(path)))[:3])
    decide(str(path), decisions_of([("same", IDS[0], IDS[1])]))
    decide(str(path), decisions_of([("different", a, IDS[0]), ("same", a, b)]))
    add_fragments(str(path), PEOPLE[60:64], RunOptions())
    decide(str(path), decisions_of([("different", a, c)]))


def some(path: str) -> list[tuple[str, str, str]]:
    a, b, c, d, e, f = sorted(x.id for x in PEOPLE[:60])[10:40:5]
    return [("different", a, b), ("different", c, d), ("different", e, f)]


VERBS: dict[str, Verb] = {
    "create": lambda path: add_fragments(path, PEOPLE, CHOICES),
    "update": lambda path: add_fragments(path, PEOPLE, RunOptions()),
    "remove": lambda path: remove(path, [x.id for x in PEOPLE[:7]]),
    "secure": lambda path: erase(path, [], "vault"),
    "secure all": lambda path: erase(path, [*(x.id for x in PEOPLE[:64]), *IDS]),
    "decide": lambda path: decide(path, decisions_of(some(path))),
    "undo exactly": lambda path: undo(path, 4),
    "undo": lambda path: undo(path, 1),
    "refit": refit,
    "revisit": revisit,
}


def give(name: str, path: str) -> None:
    VERBS[name](path)


def killed_and_repeated(base: Path, folder: Path, name: str) -> tuple[Path, list[Path]]:
    """The store after a verb, and those after it was killed at each boundary and given again."""
    whole = folder / "whole.sqlite"
    copy(base, whole)
    give(name, str(whole))
    others: list[Path] = []
    while True:
        other = folder / f"killed-{len(others) + 1}.sqlite"
        copy(base, other)
        if not dies_at(len(others) + 1, give, name, str(other)):
            require_whole_copy(whole)
            return whole, others
        require_honest_copy(other)
        if name != "revisit" or dump(other) != dump(whole):  # to revisit again is another revisit
            give(name, str(other))
            require_whole_copy(other)
        others.append(other)


def copy(base: Path, to: Path) -> None:
    """Page for page, with what is in the log."""
    if base.exists():
        with (
            contextlib.closing(sqlite3.connect(base)) as read,
            contextlib.closing(sqlite3.connect(to)) as written,
        ):
            read.backup(written)


@pytest.mark.slow
@pytest.mark.parametrize("name", [name for name in VERBS if name != "create"])
def test_a_killed_command_given_again_ends_the_same(name: str, base: Path, tmp_path: Path) -> None:
    whole, others = killed_and_repeated(base, tmp_path, name)
    assert len(others) >= 2
    wanted = dump(whole)
    for other in others:
        assert dump(other) == wanted, other.name
        if name.startswith("secure"):
            assert left_of(other, SECRETS) == []
    if name != "revisit":  # to revisit again is another revisit
        VERBS[name](str(whole))
        assert dump(whole) == wanted


@pytest.mark.slow
def test_a_killed_creation_given_again_ends_the_same(tmp_path: Path) -> None:
    whole, others = killed_and_repeated(tmp_path / "nothing.sqlite", tmp_path, "create")
    assert len(others) >= 4
    for other in others:
        assert dump(other) == dump(whole), other.name
    add_fragments(str(others[0]), PEOPLE, RunOptions())
    assert dump(others[0]) == dump(whole)


def left_of(store: Path, secrets: Sequence[bytes]) -> list[tuple[str, bytes]]:
    """Where secrets still are, in bytes of files or in what models keep."""
    found = [
        (file.name, secret)
        for file in store.parent.glob(f"{store.name}*")
        for secret in secrets
        if secret in file.read_bytes()
    ]
    with Database(str(store)) as database:
        rows = database.connection.execute("SELECT content FROM kept").fetchall()
    kept = [kept_from_bytes(content) for (content,) in rows]
    plain = [one.values.__repr__().encode() for one in kept]
    arrays = [a.tobytes() for one in kept for a in one.arrays.values()]
    found += [("kept", s) for s in secrets if any(s in told for told in (*plain, *arrays))]
    return found


@pytest.mark.slow
@pytest.mark.parametrize("boundary", [5, 6, 8, 9])
def test_another_command_finishes_an_erasure_first(boundary: int, path: Path) -> None:
    assert dies_at(boundary, give, "secure", str(path))
    pending = boundary > 5  # the removal was committed
    assert status_of(str(path)).erasing == len(IDS) * pending
    assert left_of(path, SECRETS)
    add_fragments(str(path), PEOPLE, RunOptions())
    assert status_of(str(path)).erasing == 0
    assert bool(left_of(path, SECRETS)) is not pending
    erase(str(path), IDS) if not pending else None
    assert left_of(path, SECRETS) == []


def test_what_was_removed_before_can_be_erased(path: Path) -> None:
    remove(str(path), IDS)
    assert left_of(path, SECRETS)
    assert erase(str(path), IDS).told == {"removed": 0, "already": False}
    assert left_of(path, SECRETS) == []
    assert erase(str(path), IDS).told == {"removed": 0, "already": True}
    decide(str(path), decisions_of([("different", PEOPLE[0].id, PEOPLE[9].id)]))
    with pytest.raises(UsageError, match="has no fragment"):
        erase(str(path), IDS)


def test_decisions_about_others_stay(path: Path) -> None:
    with Database(str(path)) as database:
        before = Store(database).decisions()
    erase(str(path), IDS)
    with Database(str(path)) as database:
        store = Store(database)
        assert [one.number for one in store.decisions()] == [3, 4]
        assert store.decisions() == before[2:]
        assert store.pages.totals.constraints.decisions == tuple(x.decision for x in before[2:])


def test_a_reader_of_the_old_state_keeps_the_erasure_pending(
    path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("kbforge.store.database._PATIENCE", 0.1)
    with Database(str(path)) as reader, reader.snapshot():
        Store(reader).fragment(IDS[0])
        with pytest.raises(Exception, match="another program is reading it"):
            erase(str(path), IDS)
        Store(reader).fragment(IDS[0])
        assert status_of(str(path)).erasing == 2
    erase(str(path), IDS)
    assert left_of(path, SECRETS) == []
