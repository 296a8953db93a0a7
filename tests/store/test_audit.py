"""Who wrote what: each run, decision and undo has a line, and an altered line is found."""

from __future__ import annotations

import sqlite3
from pathlib import Path
from typing import Any

import orjson
import pytest

from kbforge.errors import UsageError
from kbforge.jobs.decide import decide, decisions_of, undo
from kbforge.jobs.remove import erase, remove
from kbforge.store.audit import AS, audit_of, made_by, signed
from kbforge.store.database import Database
from kbforge.store.tables import change_rows, checksum, insert_rows
from tests.program import Run
from tests.store.fixtures.version_2 import fragments, stored

IDS = [str(one["id"]) for one in fragments("records")]


@pytest.fixture
def store(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> str:
    """A store of an earlier version, with a decision by Ada and a removal by Bob."""
    monkeypatch.setenv(AS, "cron")
    path = str(stored("records", tmp_path / "records.sqlite"))
    with signed("ada", "same phone"):
        decide(path, decisions_of([("different", IDS[4], IDS[9])]))
    with signed("bob"):
        remove(path, [IDS[20]])
    return path


def lines(path: str) -> list[Any]:
    with Database(path) as database, database.snapshot():
        return list(audit_of(database.connection))


def test_a_line_says_who_and_why(store: str) -> None:
    number = lines(store)[0].decision
    undo(store, number)
    said = [(one.number, one.by, one.verb, one.decision, one.note) for one in lines(store)]
    assert said == [
        (1, "ada", "decide", number, "same phone"),
        (2, "bob", "remove", None, ""),
        (3, "cron", "undo", number, ""),
    ]
    words = lines(store)[0].said
    assert (words["same"], words["a"], words["b"]) == (False, IDS[4], IDS[9])
    with Database(store) as database, database.snapshot():
        assert made_by(database.connection)[number].by == "ada"


def test_an_exact_undo_keeps_the_lines(tmp_path: Path) -> None:
    path = str(stored("records", tmp_path / "records.sqlite"))
    with signed("ada"):
        (number,) = decide(path, decisions_of([("different", IDS[4], IDS[9])])).told["decisions"]
        assert undo(path, number).told["exact"]
    assert [(one.verb, one.decision) for one in lines(path)] == [
        ("decide", number),
        ("undo", number),
    ]


def test_a_repeated_command_adds_no_line(store: str) -> None:
    before = lines(store)
    decide(store, decisions_of([("different", IDS[9], IDS[4])]))
    remove(store, [IDS[20]])
    assert lines(store) == before


def _rewritten(rows: sqlite3.Connection, number: int, **values: object) -> None:
    """Change a line with a right checksum, as a program does that knows the format."""
    change_rows(rows, "audit", {number: values})


@pytest.mark.parametrize(
    ("changed", "found"),
    [
        ({"author": "bob"}, "line 1 of audit, or one before, was changed"),
        ({"at": 1.0}, "line 1 of audit, or one before, was changed"),
        ({"said": b'{"same":true}'}, "what line 1 of audit says was changed"),
        ({"digest": "0" * 64}, "line 1 of audit"),
        ({"chain": "0" * 64}, "line 1 of audit"),
    ],
)
def test_an_altered_line_is_found(store: str, changed: dict[str, object], found: str) -> None:
    with Database(store, write=True) as database:
        database.transaction(lambda rows: _rewritten(rows, 1, **changed))
    with Database(store, verify=False) as database:
        assert any(found in sentence for sentence in database.examined()[1])


@pytest.mark.parametrize("number", [1, 2])
def test_a_missing_line_is_found(store: str, number: int, program: Run) -> None:
    with Database(store, write=True) as database:
        database.connection.execute("DELETE FROM audit WHERE number = ?", (number,))
    ran = program("check", store)
    assert ran.code == 1
    assert "audit" in ran.out.decode()


def test_an_added_line_is_found(store: str) -> None:
    with sqlite3.connect(store) as rows:
        (*row, _) = rows.execute("SELECT * FROM audit WHERE number = 2").fetchone()
        row[0] = 3
        assert checksum(tuple(row))
        insert_rows(rows, "audit", [tuple(row)])
    rows.close()
    with Database(store, verify=False) as database:
        assert any("line 3 of audit" in sentence for sentence in database.examined()[1])


def test_an_erasure_empties_what_was_said_and_keeps_the_chain(store: str) -> None:
    with signed("ada", f"the owner of {IDS[4]} asked"):
        decide(store, decisions_of([("different", IDS[6], IDS[9])]))
    erase(store, [IDS[4]])
    found = lines(store)
    assert [one.verb for one in found] == ["decide", "remove", "decide", "remove --secure"]
    assert [one.said is None for one in found] == [True, True, True, False]
    with Database(store, verify=False) as database:
        assert database.examined()[1] == []
    assert IDS[4].encode() not in Path(store).read_bytes()


def test_a_name_and_a_note_are_bounded() -> None:
    for by, note in ((" ", None), ("x" * 201, None), ("x", "y" * 2001)):
        with pytest.raises(UsageError), signed(by, note):
            pass


def test_the_verbs_sign_and_export(store: str, program: Run, tmp_path: Path) -> None:
    pair = "different", IDS[6], IDS[9]
    assert program("decide", store, *pair, "--as", "eva", "--note", "x").code == 0
    rows = program("decide", store, "--list", "--json").json["decisions"]
    assert (rows[-1]["by"], rows[-1]["note"], rows[-1]["program"]) == ("eva", "x", False)
    out = tmp_path / "audit.jsonl"
    assert program("changes", store, "--audit", "-o", out).code == 0
    written = [orjson.loads(line) for line in out.read_bytes().splitlines()]
    assert [one["by"] for one in written] == ["ada", "bob", "eva"]
    assert program("changes", store, "--audit", "--since", written[1]["run"]).out.count(b"\n") == 1
