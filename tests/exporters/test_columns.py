"""Columns stand in the order of the file, and everything calls an entity by the same name."""

import csv
import io
from itertools import combinations
from pathlib import Path

import orjson
import pytest
from rich.console import Console

import kbforge
from kbforge import registry
from kbforge.contracts import Fragment, View
from kbforge.files.columns import statements_of
from kbforge.fit.choices import RunOptions
from kbforge.jobs.update import add_fragments
from kbforge.jobs.views import view_of
from kbforge.kb.entities import Corpus
from kbforge.kb.report import gather
from kbforge.kb.show import show
from kbforge.kb.view import GoldenView, Policy
from kbforge.store.database import Database
from kbforge.store.store import Store
from kbforge.store.tables import write_rows
from tests.exporters.exporting import exported

COMPANIES = """\
number|name|mobile|phone|town|entered|notes
1|Nvoák Logistik S.A.|0171 1||Łódź|2020|
2|Novák Logistik S.A.||030 2|Łódź|2021|
3|Novák Logistk S.A.|0171 1|||2022|called
4|Zoe Abel|||Ely|2023|
5|ZOE ABEL|0171 9||||called
"""
PEOPLE = """\
number|first_name|surname|town|phone
1||Chudleigh|Ely|
2|Tom|Chudleigh||030 2
3|Thomas|Chudliegh|Ely|
4|Zoe|Abel||030 9
5|Zöe|Abel|Ely|
"""
"""The last entity alone does not show the order of all of its columns."""
SAME = [("same", "0", "1"), ("same", "1", "2"), ("same", "3", "4"), ("different", "0", "3")]


def fragments(table: str) -> list[Fragment]:
    return [
        Fragment(str(at), {a: (cell,) for a, cell in row.items() if cell}, source="table.csv")
        for at, row in enumerate(csv.DictReader(io.StringIO(table), delimiter="|"))
    ]


@pytest.fixture(scope="module", params=[COMPANIES, PEOPLE], ids=["companies", "people"])
def table(request):
    return str(request.param)


@pytest.fixture(scope="module")
def store(table, tmp_path_factory):
    path = str(tmp_path_factory.mktemp("columns") / "kb.sqlite")
    add_fragments(path, fragments(table), RunOptions(likelihood="attributes"))
    kbforge.decide(path, SAME)
    return path


def columns(table: str) -> list[str]:
    return table.partition("\n")[0].split("|")


def golden(view: View) -> list[dict[str, str]]:
    """The golden records, as `wide` writes them."""
    entities = list(GoldenView(view, Policy()).entities())
    text = exported(registry.create("exporters", "wide"), entities).decode()
    return list(csv.DictReader(io.StringIO(text)))


def attributes(view: View) -> list[list[str]]:
    return [list(entity.properties) for entity in view.entities()]


def test_columns_stand_in_the_order_of_the_file(store, table, tmp_path):
    head = columns(table)
    own = [[name for name in head if name in found] for found in attributes(view_of(store))]
    assert attributes(view_of(store)) == own
    assert list(golden(view_of(store))[0])[5:] == head
    file = tmp_path / "kb.jsonl"
    kbforge.export(view_of(store).entities(), file)
    assert list(golden(view_of(str(file)))[0])[5:] == head
    made = kbforge.cluster(fragments(table), likelihood="attributes", estimate="vi")
    assert made.wide().columns[5:] == head
    for entity in made.entities:
        assert list(entity.properties) == [name for name in head if name in entity.properties]


def test_later_columns_stand_behind(store, table, tmp_path):
    path = str(tmp_path / "kb.sqlite")
    Path(path).write_bytes(Path(store).read_bytes())
    more = Fragment("more", {"fax": ("1",), "town": ("Ely",), columns(table)[1]: ("Zoe",)})
    add_fragments(path, [more], RunOptions())
    assert list(golden(view_of(path))[0])[5:] == [*columns(table), "fax"]


def test_a_store_of_a_version_that_did_not_note_columns(store, tmp_path):
    path = str(tmp_path / "kb.sqlite")
    Path(path).write_bytes(Path(store).read_bytes())
    with Database(path, write=True) as database:
        drift = Store(database).fact("drift")
        del drift["columns"]
        database.transaction(
            lambda rows: write_rows(rows, "meta", {"drift": (orjson.dumps(drift),)})
        )
    old, new = (list(view_of(one).entities()) for one in (path, store))
    for one, other in zip(old, new, strict=True):
        assert (one.id, one.name, one.fragments) == (other.id, other.name, other.fragments)
        assert one.properties == other.properties  # in what order is all that may differ
    add_fragments(path, [Fragment("more", {"town": ("Ely",)})], RunOptions())
    assert sum(len(one.fragments) for one in view_of(path).entities()) == 6


def test_a_store_knows_the_words_of_its_file(tmp_path):
    """What two records cannot say others do, until they are erased."""
    path = str(tmp_path / "kb.sqlite")
    names = ["Ruth Maosn", "Ruth Mason", "Ada Mason", "Ruth Cole", "Bo Maosin"]
    held = [Fragment(str(at), {"name": (name,)}) for at, name in enumerate(names)]
    alone = [("different", one, other) for one, other in combinations("1234", 2)]
    add_fragments(path, held, RunOptions(likelihood="names"))
    kbforge.decide(path, [("same", "0", "1"), *alone])
    with Database(path) as database:
        kept, whole = Store(database).corpus, Corpus.of(statements_of(held))
    assert (kept.words.bits == whole.words.bits).all()
    assert next(view_of(path).entities()).name == "Ruth Mason"
    kbforge.remove(path, ["2"], secure=True)
    assert next(view_of(path).entities()).name == "Ruth Maosn"


NAMES = {COMPANIES: ["Novák Logistik S.A.", "Zoe Abel"], PEOPLE: ["Tom Chudleigh", "Zöe Abel"]}


def test_everything_says_the_same_name(store, table, tmp_path):
    view, names = view_of(store), NAMES[table]
    assert [entity.name for entity in view.entities()] == names
    records = golden(view)
    assert [record["entity_name"] for record in records] == names
    named = [name for name in columns(table) if name.endswith("name")]
    assert [" ".join(record[name] for name in named) for record in records] == names
    file = tmp_path / "members.csv"
    kbforge.export(view.entities(), file, format="members")
    members = list(csv.DictReader(file.open(encoding="utf-8")))
    assert list(dict.fromkeys(row["entity_name"] for row in members)) == names
    console = Console(file=io.StringIO(), width=200)
    show(list(view.entities()), {}, console)
    shown = console.file.getvalue().splitlines()  # type: ignore[attr-defined]
    assert [line.rpartition(" (")[0] for line in shown if line and line[0] != " "] == names
    assert sorted(row[0] for row in gather(view, "").listed) == sorted(names)
