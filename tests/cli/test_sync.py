"""A pipeline from a database into a store and back: every row once, whenever it is killed."""

from __future__ import annotations

import os
import random
import signal
import subprocess
import sys
import time

import orjson
import pytest

from tests.databases import PASSWORD, statement

pytest.importorskip("pyarrow")

KILLS = int(os.environ.get("KBFORGE_KILLS", "10"))  # of the test that is marked slow
QUERY = "SELECT id, name, town, changed FROM people"
PIPELINE = """
[[step]]
verb = "cluster"
args = ["{address}"]
[step.options]
query = "{query}"
likelihood = "names"
into = "kb.sqlite"
set = ["source.watermark=changed"]

[[step]]
verb = "export"
args = ["kb.sqlite"]
[step.options]
to = "{address}"
table = "members"
format = "members"
"""
FIRST = ("Ada", "Bolo", "Cyd", "Dov", "Eve", "Flo", "Gus", "Hal")
LAST = ("Byron", "Quist", "Marsh", "Olsen", "Tarn")


@pytest.fixture
def pipeline(tmp_path, database):
    statement(
        database,
        "CREATE TABLE people (id BIGINT PRIMARY KEY, name TEXT, town TEXT, changed BIGINT)",
    )
    path = tmp_path / "sync.toml"
    path.write_text(PIPELINE.format(address=database, query=QUERY))
    return path


def insert(database, rows, changed):
    values = ", ".join(
        f"({n}, '{FIRST[n % 8]} {LAST[n // 8 % 5]}', 'town {n % 3}', {changed + n})" for n in rows
    )
    statement(database, f"INSERT INTO people VALUES {values}")


def stored(program, store):
    """The name of each fragment by id, if each is in one entity."""
    found = {}
    for line in program("export", store).lines:
        for value in line["properties"]["name"]:
            for id in value["fragments"]:
                assert id not in found
                found[id] = value["value"]
    return found


def truth(database):
    return {str(id): name for id, name in statement(database, "SELECT id, name FROM people")}


def exported(database):
    return sorted(statement(database, "SELECT id, entity_name FROM members"))


def test_only_changed_rows_are_read_and_each_is_there_once(program, pipeline, database):
    store = pipeline.parent / "kb.sqlite"
    insert(database, range(20), 1)
    program("run", pipeline)
    assert stored(program, store) == truth(database)
    insert(database, range(20, 25), 3)
    statement(database, "UPDATE people SET name = 'Zoe New', changed = 99 WHERE id = 7")
    ran = program("run", pipeline)
    assert "people: 7 rows" in ran.err  # the last one again, five that are new, and one changed
    assert "[1] cluster: runs, because it reads a database" in ran.err
    assert stored(program, store) == truth(database)
    assert [id for id, _ in exported(database)] == sorted(truth(database))


def test_a_run_without_changes_writes_nothing(program, pipeline, database):
    insert(database, range(20), 1)
    program("run", pipeline)
    before = (pipeline.parent / "kb.sqlite").read_bytes()
    ran = program("run", pipeline, "--json")
    assert [step["status"] for step in ran.json["steps"]] == ["ran", "skipped"]
    assert (pipeline.parent / "kb.sqlite").read_bytes() == before


def test_another_query_is_read_from_its_beginning(program, pipeline, database):
    insert(database, range(20), 1)
    program("run", pipeline)
    pipeline.write_text(pipeline.read_text().replace("town, changed", "changed"))
    assert "people: 20 rows" in program("run", pipeline).err
    entities = program("export", pipeline.parent / "kb.sqlite").lines
    assert not any("town" in entity["properties"] for entity in entities)


def test_deleted_rows_are_removed_on_request(program, pipeline, database):
    store = pipeline.parent / "kb.sqlite"
    insert(database, range(20), 1)
    program("run", pipeline)
    statement(database, "DELETE FROM people WHERE id IN (3, 4)")
    program("run", pipeline)
    assert len(stored(program, store)) == 20
    pipeline.write_text(
        pipeline.read_text().replace(
            "watermark=changed", 'watermark=changed", "store.remove-missing=true'
        )
    )
    assert "removed 2 fragments that the table has no longer" in program("run", pipeline).err
    assert stored(program, store) == truth(database)


def test_no_file_has_the_password(program, pipeline, database):
    insert(database, range(20), 1)
    ran = program("run", pipeline)
    assert PASSWORD not in ran.err
    files = [file for file in pipeline.parent.rglob("*") if file.is_file() and file != pipeline]
    assert files
    assert [file.name for file in files if PASSWORD.encode() in file.read_bytes()] == []


def test_options_of_a_repeated_run_need_a_store(program, pipeline, database):
    insert(database, range(20), 1)
    given = ("cluster", database, "--query", QUERY, "--set", "store.remove-missing=true")
    program(*given).require_refusal("--set store.remove-missing requires --into")
    limited = (*given, "--limit", 5, "--into", pipeline.parent / "kb.sqlite")
    program(*limited).require_refusal("needs the whole table")


@pytest.mark.slow
@pytest.mark.parametrize("database", ["postgresql"], indirect=True)
def test_killed_runs_end_where_an_undisturbed_one_does(program, pipeline, database):
    """States of a table, each with some killed runs and a complete one, and without the killed."""
    rng = random.Random(0)
    calm = pipeline.parent / "calm"
    calm.mkdir()
    (calm / "sync.toml").write_text(pipeline.read_text().replace('"members"', '"calm"', 1))
    killed = state = 0
    longest = 8.0
    while killed < KILLS:
        state += 1
        first = 100_000 * state  # of the watermarks, which only grow
        insert(database, range(200 * (state - 1), 200 * state), first)
        if state > 1:
            chosen = ", ".join(str(rng.randrange(200 * (state - 1))) for _ in range(20))
            statement(
                database,
                f"UPDATE people SET name = name || ' {LAST[state % 5]}', changed = {first} "
                f"WHERE id IN ({chosen})",
            )
        for _ in range(5):
            killed += dies(pipeline, rng.uniform(0.2, longest))
        begun = time.monotonic()
        program("run", pipeline)
        longest = min(longest, time.monotonic() - begun + 2)
        program("run", calm / "sync.toml")
        assert stored(program, pipeline.parent / "kb.sqlite") == truth(database)
        assert exported(database) == sorted(statement(database, "SELECT id, entity_name FROM calm"))
        assert entities(program, pipeline.parent) == entities(program, calm)


def entities(program, folder):
    lines = program("export", folder / "kb.sqlite").out.splitlines()
    return [orjson.loads(line) for line in lines]


def dies(pipeline, after):
    """Whether a run that gets a SIGKILL after so many seconds had not ended before."""
    running = subprocess.Popen(
        [sys.executable, "-m", "kbforge", "run", pipeline],
        stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL,
        cwd=pipeline.parent,
    )
    try:
        assert running.wait(after) == 0
    except subprocess.TimeoutExpired:
        running.send_signal(signal.SIGKILL)
        running.wait()
        return True
    return False
