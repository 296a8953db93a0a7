"""A flipped bit is noticed: every verb says what it says of the whole store, or one sentence.

Here a few flips meet all verbs; `make soak` (KBFORGE_SOAK=1) has 200 of them, and 300 in a store of
more than 16 MB, which is not examined when it is opened: one half anywhere, the other half in pages
of indexes and in pages that lead to others.
"""

from __future__ import annotations

import contextlib
import os
import random
import sqlite3
from collections import Counter
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from kbforge.contracts import Fragment
from kbforge.errors import KBForgeError, StoreError
from kbforge.files.fragments import write_fragments
from kbforge.fit.choices import RunOptions
from kbforge.jobs.confidence import complete_confidence
from kbforge.jobs.decide import decide, decisions_of
from kbforge.jobs.remove import remove
from kbforge.jobs.update import add_fragments
from kbforge.jobs.views import entities_of
from kbforge.store.audit import record
from kbforge.store.database import SMALL, Database
from kbforge.store.pages import page_from_bytes, page_to_bytes
from kbforge.store.store import Store
from kbforge.store.tables import COLUMNS, change_rows, insert_rows, rows_of, write_rows
from tests.people import people
from tests.program import Run
from tests.store.copies import enlarge
from tests.store.fixtures.version_2 import NAMES, stored
from tests.store.verbs import READING, VERBS, answer, ending, fresh

SOAK = bool(os.environ.get("KBFORGE_SOAK"))
FLIPS = 100 if SOAK else 3
"""Of each store."""
LARGE_FLIPS = 300 if SOAK else 40
"""Of a large one."""


@pytest.fixture
def path(tmp_path: Path) -> Path:
    """A store of version 2."""
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


LARGE = {
    **READING,
    "show --ambiguous": "show STORE --ambiguous --top 3",
    "show --id of a former entity": "show STORE --id {former}",
    "changes since the beginning": "changes STORE --since 0 --json",
    "changes up to a run": "changes STORE --since 2 --to 4",
}
"""What is asked of a large store."""


@pytest.fixture(scope="module")
def large(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A store that counts as large; each table and index has pages that lead to others."""
    path = tmp_path_factory.mktemp("large") / "made.sqlite"
    rng = random.Random(1)
    # what is in metadata takes room, and nobody clusters it
    size = 9_000 if SOAK else 90
    some = [
        replace(x, metadata={"note": rng.randbytes(rng.randrange(size)).hex()})
        for x in people(1_300 if SOAK else 40, 5)
    ]
    add_fragments(
        str(path), some[: len(some) // 2], RunOptions(likelihood="attributes", alpha=50.0)
    )
    add_fragments(str(path), some, RunOptions())
    first = [entity.fragments[0] for entity in entities_of(str(path))][:4]
    decide(str(path), decisions_of([("same", *first[:2]), ("different", *first[2:])]))
    a, b, *_ = [x for x in entities_of(str(path)) if len(x.fragments) > 2][-1].fragments
    decide(str(path), decisions_of([("different", a, b)]))
    remove(str(path), [some[7].id, some[9].id])
    large = path.with_name("large.sqlite")
    with contextlib.closing(sqlite3.connect(path)) as rows:
        # trees of small pages are deep; and a flip in a free page changes nothing
        rows.execute(f"PRAGMA page_size = {4096 if SOAK else 512}")
        rows.execute(f"VACUUM INTO '{large}'")
    with contextlib.closing(sqlite3.connect(large)) as rows:
        rows.execute("PRAGMA journal_mode = WAL")
    assert large.stat().st_size > SMALL or not SOAK
    return large


def asked_of(path: Path) -> dict[str, str]:
    """The commands, with what there is to ask about."""
    with Database(str(path)) as database:
        rows = database.connection
        (former,) = rows.execute("SELECT id FROM redirect WHERE targets <> '[]'").fetchone()
        ids = [id for (id,) in rows.execute("SELECT id FROM fragment ORDER BY number LIMIT 40, 2")]
        entity, _ = Store(database).entity_of(20)
    names = {"a": ids[0], "b": ids[1], "entity": entity, "former": former}
    return {verb: command.format(**names) for verb, command in LARGE.items()}


def flips_of(path: Path, count: int, seed: int) -> list[int]:
    """Bits of a store: of any page, and of headers and pages that lead somewhere."""
    content, rng = path.read_bytes(), random.Random(seed)
    size = int.from_bytes(content[16:18])
    kinds = {at: content[100 if at == 0 else at] for at in range(0, len(content), size)}
    # inner pages of tables and indexes, and pages of indexes
    leading = [at for at, kind in kinds.items() if at == 0 or kind in (2, 5, 10)]
    bits = []
    for number in range(count):
        at = rng.choice(leading) if number % 2 else rng.choice(list(kinds))
        bits.append(8 * at + rng.randrange(8 * rng.choice((64, size))))
    return bits


@pytest.mark.slow
def test_a_flipped_bit_in_a_large_store_changes_no_answer(
    large: Path, tmp_path: Path, program: Run
) -> None:
    store, gold = tmp_path / "kb.sqlite", tmp_path / "gold.jsonl"
    places = {"STORE": store, "GOLD": gold}
    with Database(str(large)) as database:
        write_fragments(Store(database).fragments(), gold)
    asked = asked_of(large)
    bits = flips_of(large, LARGE_FLIPS, 2)
    if not SOAK:
        enlarge(large)  # by free pages, where a flip would change nothing
    fresh(large, store)
    expected = {verb: answer(program, command, places) for verb, command in asked.items()}
    assert [verb for verb, (code, _) in expected.items() if code] == []
    noticed = Counter[str]()
    for bit in bits:
        fresh(large, store)
        flip(store, bit)
        for verb, command in asked.items():
            code, said = answer(program, command, places)
            if code == 0:
                assert said == expected[verb][1], (verb, bit)
                continue
            noticed[verb] += 1
            if verb != "check":
                assert str(said).startswith("kbforge: "), (verb, bit, said)
                assert str(said).count("\n") == 1, (verb, bit, said)
    assert noticed["check"] > LARGE_FLIPS / 2
    of_few_pages = {"status", "decide --list", "changes", "changes up to a run"}
    assert asked.keys() - noticed.keys() <= of_few_pages


@pytest.mark.parametrize("table", [table for table in COLUMNS if table != "erased"])
def test_a_changed_row_is_noticed_by_whoever_reads_it(table: str, path: Path) -> None:
    if table != "stale":  # this store of version 2 has no confidence yet
        complete_confidence(str(path))
    with Database(str(path), write=True) as database:
        if table == "mention":  # nor mentions
            insert_rows(database.connection, table, [(1, b"")])
        if table == "audit":  # nor an audit
            database.transaction(lambda rows: record(rows, 1, "cluster", ""))
        column = COLUMNS[table][-1] if table != "stale" else "checksum"
        database.connection.execute(f"UPDATE {table} SET {column} = '1'")
    with pytest.raises(KBForgeError, match=rf"damaged: the row .* of {table} is damaged"):
        Database(str(path))


@pytest.mark.parametrize("table", ["fragment", "page", "entity", "kept", "run"])
def test_a_missing_row_is_noticed(table: str, path: Path) -> None:
    with Database(str(path), write=True) as database:
        key = COLUMNS[table][0]
        least = f"SELECT min({key}) FROM {table}"
        database.connection.execute(f"DELETE FROM {table} WHERE {key} = ({least})")
    with pytest.raises(KBForgeError, match=r"damaged: .*kbforge check"):
        Database(str(path))


def test_a_large_store_is_verified_where_it_is_read(path: Path, program: Run) -> None:
    enlarge(path)
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
        f"the row {number} of fragment is damaged" for number in (3, 6)
    ]
    plain = program("check", path)
    assert plain.code == 1
    assert b"is damaged: restore it from a copy" in plain.out


def test_rows_are_changed_with_their_checksum(path: Path) -> None:
    with Database(str(path), write=True) as database:
        database.transaction(lambda rows: change_rows(rows, "run", {1: {"about": "å \n"}}))
    Database(str(path)).close()


def _with_page(path: Path, **changes: list[int]) -> None:
    """Change the arrays of one of the store's pages, with a right checksum."""
    with Database(str(path), write=True) as database:
        rows = rows_of(database.connection, "page", "name", list(range(9)))
        pages = [(page_from_bytes(name, content), first) for name, first, content in rows]
        page, first = next(one for one in pages if len(one[0].members) > 1)
        arrays = {name: np.array(new, getattr(page, name).dtype) for name, new in changes.items()}
        row = {page.name: (first, page_to_bytes(replace(page, **arrays)))}
        database.transaction(lambda rows: write_rows(rows, "page", row))


@pytest.mark.parametrize(
    "changes",
    [
        {"cells": [1 << 40]},
        {"cells": [-1]},
        {"cells": []},
        {"rows": [0], "cells": []},
        {"rows": [], "cells": [], "weights": []},
        {"weights": []},
        {"lengths": [1]},
        {"members": [0, 0]},
        {"members": [0, 8]},
        {"members": [0, 1 << 40]},
    ],
    ids=str,
)
def test_a_page_that_contradicts_itself_is_damage(
    tmp_path: Path, changes: dict[str, list[int]]
) -> None:
    path = tmp_path / "kb.sqlite"
    twice = [Fragment(str(at), {"name": (f"Ann {at // 2}",)}) for at in range(10)]
    add_fragments(str(path), twice, RunOptions(likelihood="attributes", alpha=1.0))
    assert [len(entity.fragments) for entity in entities_of(str(path))] == [2] * 5
    _with_page(path, **changes)
    with pytest.raises(StoreError, match="is damaged: "):
        list(entities_of(str(path)))
