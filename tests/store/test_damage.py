"""A flipped bit is noticed: every verb says what it says of the whole store, or one sentence.

Here a few flips meet all verbs; `make soak` (KBFORGE_SOAK=1) has 200 of them.
"""

from __future__ import annotations

import os
import random
from pathlib import Path

import pytest

from kbforge.errors import KBForgeError
from kbforge.jobs.confidence import complete_confidence
from kbforge.store.database import Database
from kbforge.store.tables import COLUMNS, change_rows
from tests.program import Run
from tests.store.fixtures.version_1 import NAMES, stored
from tests.store.verbs import VERBS, ending, fresh

FLIPS = 100 if os.environ.get("KBFORGE_SOAK") else 3
"""Of each store."""


@pytest.fixture
def path(tmp_path: Path) -> Path:
    """A store of version 1."""
    return stored("records", tmp_path / "records.sqlite")


def flip(store: Path, bit: int) -> None:
    content = bytearray(store.read_bytes())
    content[bit // 8] ^= 1 << bit % 8
    store.write_bytes(content)


@pytest.mark.slow
@pytest.mark.parametrize("name", NAMES)
def test_a_flipped_bit_changes_no_answer(name: str, tmp_path: Path, program: Run) -> None:
    whole, store = tmp_path / "whole", tmp_path / f"{name}.sqlite"
    complete_confidence(str(stored(name, whole)))
    with Database(str(whole), write=True) as database:
        database.compact()  # a flip in a free page changes nothing
    rng = random.Random(name)
    bits = [rng.randrange(8 * whole.stat().st_size) for _ in range(FLIPS)]
    noticed = 0
    for verb in VERBS:
        fresh(whole, store)
        expected = ending(program, verb, store)
        assert expected[0] == 0, (verb, expected)
        for bit in bits:
            fresh(whole, store)
            flip(store, bit)
            code, said = ending(program, verb, store)
            if code == 0:
                assert (code, said) == expected, (verb, bit)
                continue
            assert code == 1, (verb, bit, said)
            if verb != "check":
                assert isinstance(said, str)
                assert said.startswith("kbforge: ")
                assert said.count("\n") == 1, (verb, bit, said)
            noticed += 1
    assert noticed >= len(VERBS)


@pytest.mark.parametrize("table", [table for table in COLUMNS if table != "erased"])
def test_a_changed_row_is_noticed_by_whoever_reads_it(table: str, path: Path) -> None:
    if table != "stale":  # a store of version 1 has no confidence yet
        complete_confidence(str(path))
    with Database(str(path), write=True) as database:
        column = COLUMNS[table][-1] if table != "stale" else "checksum"
        database.connection.execute(f"UPDATE {table} SET {column} = '1'")
    with pytest.raises(KBForgeError, match=rf"damaged: the row .* of {table} is not"):
        Database(str(path))


@pytest.mark.parametrize("table", ["fragment", "page", "entity", "kept", "run"])
def test_a_missing_row_is_noticed(table: str, path: Path) -> None:
    with Database(str(path), write=True) as database:
        key = COLUMNS[table][0]
        least = f"SELECT min({key}) FROM {table}"
        database.connection.execute(f"DELETE FROM {table} WHERE {key} = ({least})")
    with pytest.raises(KBForgeError, match=r"damaged: .*kbforge check"):
        Database(str(path))


def test_a_large_store_is_verified_where_it_is_read(
    path: Path, program: Run, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("kbforge.store.database.SMALL", 0)
    with Database(str(path), write=True) as database:
        database.connection.execute("UPDATE fragment SET line = replace(line, 'Bria', 'Bris')")
    for verb in ("export", "show --fragment", "refit", "check"):
        assert ending(program, verb, path)[0] == 1, verb
    assert ending(program, "decide --list", path)[0] == 0


def test_check_names_every_damaged_row(path: Path, program: Run) -> None:
    whole = program("check", path, "--json")
    assert whole.json["whole"]
    assert whole.json["rows"]["fragment"] == 30
    with Database(str(path), write=True) as database:
        database.connection.execute("UPDATE fragment SET place = 99 WHERE number IN (3, 6)")
    ran = program("check", path, "--json")
    assert ran.code == 1
    assert ran.json["rows"]["fragment"] == 28
    assert [sentence for sentence in ran.json["damage"] if "fragment" in sentence] == [
        f"the row {number} of fragment is not as it was written" for number in (3, 6)
    ]
    plain = program("check", path)
    assert plain.code == 1
    assert b"is damaged: restore it from a copy" in plain.out


def test_rows_are_changed_with_their_checksum(path: Path) -> None:
    with Database(str(path), write=True) as database:
        database.transaction(lambda rows: change_rows(rows, "run", {1: {"about": "å \n"}}))
    Database(str(path)).close()
