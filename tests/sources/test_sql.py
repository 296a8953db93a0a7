"""The source sql, and tables written to databases: types, streams, refusals, and no password."""

from __future__ import annotations

import pytest

from tests.databases import PASSWORD, statement

pytest.importorskip("pyarrow")

PEOPLE = (
    "CREATE TABLE people (id BIGINT, name TEXT, size DOUBLE PRECISION, ok BOOLEAN, changed BIGINT)",
    "INSERT INTO people VALUES (7, 'Ada Byron', 1.5, TRUE, 1), (8, 'O''Neil', NULL, FALSE, 2), "
    "(9, ' ', 0.1, NULL, NULL)",
)
ALL = "SELECT * FROM people"


def properties(ran):
    return {line["id"]: line["properties"] for line in ran.lines}


def test_rows_are_fragments(program, database):
    statement(database, *PEOPLE)
    ran = program("load", database, "--query", f"{ALL} ORDER BY id; ")
    truth, lie = ("1", "0") if database.startswith("sqlite") else ("true", "false")
    assert properties(ran) == {
        "7": {"name": ["Ada Byron"], "size": ["1.5"], "ok": [truth], "changed": ["1"]},
        "8": {"name": ["O'Neil"], "ok": [lie], "changed": ["2"]},
        "9": {"size": ["0.1"]},
    }
    assert {line["source"] for line in ran.lines} == {
        "postgres/people" if database.startswith("p") else "crm.db/people"
    }
    assert 'people: 3 rows, 5 columns; ids from the column "id"' in ran.err


def test_columns_read_at_once_are_those_read_row_by_row(program, database, tmp_path):
    statement(database, *PEOPLE)
    load = ("load", database, "--query", ALL, "-o", tmp_path / "rows.jsonl")
    program(*load)
    clustered = tmp_path / "kb.jsonl"
    program("cluster", database, "--query", ALL, "--likelihood", "names", "-o", clustered)
    other = tmp_path / "other.jsonl"
    program("cluster", tmp_path / "rows.jsonl", "--likelihood", "names", "-o", other)
    assert clustered.read_bytes() == other.read_bytes()


POSTGRESQL = {
    "numeric(8,2) '12.50'": ["12.50"],
    "real '0.1'": ["0.1"],
    "smallint '3'": ["3"],
    "date '2020-01-02'": ["2020-01-02"],
    "timestamp '2020-01-02 03:04:05.5'": ["2020-01-02T03:04:05.500000"],
    "timestamptz '2020-01-02 03:04:05+02'": ["2020-01-02T01:04:05+00:00"],
    "time '03:04'": ["03:04:00"],
    "text[] '{a,b,NULL}'": ["a", "b"],
    "numeric[] '{1.5,2}'": ["1.5", "2"],
    "jsonb '{\"a\": 1}'": ['{"a": 1}'],
    "uuid 'a0eebc99-9c0b-4ef8-bb6d-6bb9bd380a11'": ["a0eebc99-9c0b-4ef8-bb6d-6bb9bd380a11"],
    "interval '1 day'": ["1 day"],
    "inet '10.0.0.1/8'": ["10.0.0.1/8"],
    "float8 'NaN'": None,
    "text NULL": None,
}


def test_types_of_postgresql(program, postgresql):
    cells = ", ".join(
        f"CAST({cell.partition(' ')[2]} AS {cell.partition(' ')[0]}) AS c{n}"
        for n, cell in enumerate(POSTGRESQL)
    )
    ran = program("load", postgresql, "--query", f"SELECT 1 AS id, 'x' AS name, {cells}")
    found = properties(ran)["1"]
    assert {cell: found.get(f"c{n}") for n, cell in enumerate(POSTGRESQL)} == POSTGRESQL


@pytest.mark.parametrize(
    "query", ["SELECT 1 AS id, 'x'::bytea AS photo", "SELECT 1 AS id, ARRAY['x'::bytea] AS photo"]
)
def test_bytes_are_refused(program, postgresql, query):
    program("load", postgresql, "--query", query).require_refusal('the column "photo" has bytes')


def test_bytes_of_sqlite_are_refused(program, tmp_path):
    address = f"sqlite:///{tmp_path / 'a.db'}"
    statement(address, "CREATE TABLE t (id, photo)", "INSERT INTO t VALUES (1, x'00')")
    program("load", address, "--query", "SELECT * FROM t").require_refusal("has bytes")


def test_a_value_of_sqlite_is_the_same_text_whatever_is_beside_it(program, tmp_path):
    address = f"sqlite:///{tmp_path / 'a.db'}"
    statement(address, "CREATE TABLE t (id, a)", "INSERT INTO t VALUES (1, 2), (2, 2.5), (3, 'x')")
    ran = program("load", address, "--query", "SELECT * FROM t")
    assert [x["a"] for x in properties(ran).values()] == [["2"], ["2.5"], ["x"]]
    one = program("load", address, "--query", "SELECT * FROM t WHERE id = 1")
    assert properties(one)["1"] == {"a": ["2"]}


def test_since_leaves_out_smaller_watermarks_and_keeps_rows_without(program, database):
    statement(database, *PEOPLE)
    mark = ("--set", "source.watermark=changed", "--set", "source.since=2")
    found = properties(program("load", database, "--query", ALL, *mark))
    assert set(found) == {"8", "9"}
    assert not any("changed" in x for x in found.values())


@pytest.mark.parametrize(
    ("given", "sentence"),
    [
        (["postgresql://kb:{p}/x@host/db", "--query", "x"], "expected postgresql://USER@HOST"),
        (
            ["postgresql://kb:{p}@127.0.0.1:1/db", "--query", "x"],
            "postgresql://kb@127.0.0.1:1/db: ",
        ),
        (["postgresql://kb@127.0.0.1:1/db?password={p}&x=1", "--query", "x"], "/db: "),
        (["postgresql://kb:{p}@127.0.0.1:1/db"], "a database needs a query"),
        (
            ["postgresql://kb:{p}@127.0.0.1:1/db", "--set", "source.since=1", "--query", "x"],
            "requires --set source.watermark",
        ),
        (["sqlite://x", "--query", "x"], "expected sqlite:///FILE"),
        (["sqlite:///nosuch/x.db", "--query", "x"], "unable to open"),
        (["duckdb:///nosuch/x.db", "--query", "x"], "nosuch/x.db"),
        (["mysql://kb:{p}@host/db", "--query", "x"], "mysql://"),
    ],
)
def test_what_cannot_be_read_is_one_sentence_without_the_password(program, given, sentence):
    for verb in ("load", "cluster"):
        ran = program(verb, *(word.format(p=PASSWORD) for word in given))
        ran.require_refusal(sentence)
        assert PASSWORD not in ran.err


@pytest.mark.parametrize(
    "query", ["SELEC 1", "SELECT 1/0 AS id, 'x' AS name FROM people", "SELECT nosuch FROM people"]
)
def test_errors_of_postgresql_are_one_sentence(program, postgresql, query):
    statement(postgresql, "DROP TABLE IF EXISTS people", *PEOPLE)
    ran = program("load", postgresql, "--query", query)
    ran.require_refusal("postgresql://kb@/postgres: ")
    assert PASSWORD not in ran.err


# --- writing --------------------------------------------------------------------------------------


@pytest.fixture
def kb(program, tmp_path):
    rows = "id,name,Name,town\n1,Ada Byron,x,Paris\n2,Ada Byron,y,Paris\n3,Bo O'Neil,z,\n"
    (tmp_path / "people.csv").write_text(rows)
    program(
        "cluster", tmp_path / "people.csv", "--likelihood", "names", "-o", tmp_path / "kb.jsonl"
    )
    return tmp_path / "kb.jsonl"


@pytest.mark.parametrize("name", ["wide", "members", "csv", "relations", "contradictions", "pairs"])
def test_a_table_has_the_rows_of_the_csv_file(program, database, kb, tmp_path, name):
    import csv

    program("export", kb, "--format", name, "--to", database, "--table", "out")
    program("export", kb, "--format", name, "--to", database, "--table", "out")
    program(
        "export",
        kb,
        "--format",
        name,
        "-o",
        tmp_path / "out.csv",
        "--set",
        "exporter.guard_formulas=false",
    )
    with open(tmp_path / "out.csv") as file:
        _, *expected = csv.reader(file)
    rows = statement(database, "SELECT * FROM out")
    assert [["" if c is None else str(c) for c in row] for row in rows] == expected


def test_numbers_are_numbers_and_names_differ_by_more_than_case(program, database, kb):
    program("export", kb, "--to", database, "--table", 'odd "name')
    (row,) = statement(database, 'SELECT max(fragments), max(confidence) FROM "odd ""name"')
    assert row[0] == 2
    assert isinstance(row[1], float)
    assert statement(database, 'SELECT "Name~2", town FROM "odd ""name" WHERE fragments = 2')


def test_a_table_of_somebody_else_is_refused_unless_replaced(program, database, kb):
    statement(database, *PEOPLE)
    ran = program("export", kb, "--to", database, "--table", "people")
    ran.require_refusal('the table "people" is not of this format')
    assert statement(database, "SELECT count(*) FROM people") == [(3,)]
    program("export", kb, "--to", database, "--table", "people", "--replace")
    assert statement(database, "SELECT max(fragments) FROM people") == [(2,)]


def test_a_table_keeps_its_views_when_it_is_written_again(program, postgresql, kb):
    statement(postgresql, "DROP TABLE IF EXISTS golden CASCADE")
    export = ("export", kb, "--to", postgresql, "--table", "public.golden")
    program(*export)
    statement(postgresql, "CREATE VIEW seen AS SELECT entity_name FROM golden")
    program(*export)
    assert len(statement(postgresql, "SELECT * FROM seen")) == 2


def test_an_export_that_fails_leaves_the_old_table(program, database, kb, tmp_path):
    export = ("--to", database, "--table", "out", "--format", "members")
    program("export", kb, *export)
    damaged = tmp_path / "damaged.jsonl"
    damaged.write_bytes(kb.read_bytes() + b'{"id": 5}\n')
    ran = program("export", damaged, *export)
    assert ran.code == 1
    assert len(ran.err.splitlines()) == 1
    assert statement(database, "SELECT count(*) FROM out") == [(3,)]


def test_a_store_is_not_a_target_of_itself(program, kb, tmp_path):
    store = tmp_path / "kb.sqlite"
    program("cluster", tmp_path / "people.csv", "--likelihood", "names", "--into", store)
    program("export", store, "--to", f"sqlite:///{store}", "--table", "x").require_refusal("input")


def test_a_database_needs_a_table_and_a_table_a_database(program, kb):
    program("export", kb, "--to", "sqlite:///x.db").require_refusal("the name of a table")
    program("export", kb, "-o", "x.csv", "--table", "x").require_refusal("the address")
