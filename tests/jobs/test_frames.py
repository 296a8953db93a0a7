"""Tables in and out: every library of data frames gives what the same table gives as CSV."""

from __future__ import annotations

import csv
import datetime
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

import kbforge
from kbforge import (
    Entity,
    Fragment,
    KBForgeError,
    cluster,
    link,
    load,
    members,
    open_session,
    pairs,
    update,
    wide,
)
from kbforge.contracts import Meaning, Value
from kbforge.errors import BadRecord, UsageError
from kbforge.files.arrow import ArrowTable

pd = pytest.importorskip("pandas")
pl = pytest.importorskip("polars")
pa = pytest.importorskip("pyarrow")
duckdb = pytest.importorskip("duckdb")

PEOPLE = Path(__file__).parents[2] / "examples" / "people" / "people.csv"
COLUMNS = ("key", "name", "born", "age", "height", "alive", "note")
ROWS: list[tuple[Any, ...]] = [
    (1, "Ada Lovelace", datetime.date(1815, 12, 10), 36, 1.65, False, None),
    (2, "Lovelace, Ada", datetime.date(1815, 12, 10), 36, 1.5, False, 'Zoë\'s, "friend"\n2nd'),
    (3, "Bo Ek", None, 7, 1.25, True, "n/a"),
    (4, "Bo Ek", datetime.date(1999, 1, 1), 7, 0.1, True, " = "),
]
DICTS = [dict(zip(COLUMNS, row, strict=True)) for row in ROWS]


def as_pandas() -> Any:
    frame = pd.DataFrame(DICTS)
    frame["born"] = pd.to_datetime(frame["born"])  # pandas has no dates
    return frame


def as_pandas_rows() -> Any:
    """With a column that Arrow cannot hold, so that the frame is read row by row."""
    frame = as_pandas()
    frame["age"] = pd.Series([36, "36", 7, np.int64(7)], dtype=object)
    return frame


def as_duckdb() -> Any:
    table = pa.Table.from_pylist(DICTS)
    return duckdb.connect().from_arrow(table)


FRAMES: dict[str, Callable[[], Any]] = {
    "pandas": as_pandas,
    "pandas, mixed": as_pandas_rows,
    "polars": lambda: pl.DataFrame(DICTS),
    "pyarrow": lambda: pa.Table.from_pylist(DICTS),
    "batches": lambda: pa.Table.from_pylist(DICTS).to_reader(max_chunksize=2),
    "categories": lambda: pl.DataFrame(DICTS).with_columns(pl.col("name").cast(pl.Categorical)),
    "single precision": lambda: pl.DataFrame(DICTS).with_columns(pl.col("height").cast(pl.Float32)),
    "duckdb": as_duckdb,
    "dictionaries": lambda: DICTS,
    "a generator": lambda: iter(DICTS),
}


@pytest.fixture(scope="module")
def from_csv(tmp_path_factory: pytest.TempPathFactory) -> bytes:
    folder = tmp_path_factory.mktemp("csv")
    pl.DataFrame(DICTS).write_csv(folder / "table.csv")
    out = folder / "kb.jsonl"
    cluster(load(folder / "table.csv", id="key", map=["note=remark"]), alpha=1).write(out)
    return out.read_bytes()


@pytest.mark.parametrize("library", FRAMES)
def test_a_frame_gives_the_bytes_of_the_same_table_as_csv(
    library: str, from_csv: bytes, tmp_path: Path
) -> None:
    kb = cluster(FRAMES[library](), id="key", map={"note": "remark"}, alpha=1)
    kb.write(tmp_path / "kb.jsonl")
    assert (tmp_path / "kb.jsonl").read_bytes() == from_csv
    assert "2nd" in from_csv.decode()
    assert "n/a" not in from_csv.decode()


TEXTS = st.one_of(st.none(), st.text(st.characters(exclude_categories=["Cs", "Cc"]), max_size=8))


@given(st.lists(st.tuples(TEXTS, st.one_of(st.none(), st.integers(-9, 9))), min_size=1, max_size=8))
def test_frames_of_any_texts_are_read_alike(rows: list[tuple[Any, ...]]) -> None:
    table = [{"name": "x", "a": a, "b": b} for a, b in rows]
    kinds = pa.schema([("name", pa.string()), ("a", pa.string()), ("b", pa.int64())])
    arrow = pa.Table.from_pylist(table, kinds)
    taken = [
        open_fragments(given)
        for given in (
            table,
            arrow,
            pl.DataFrame(arrow),
            arrow.to_pandas(types_mapper=pd.ArrowDtype),
        )
    ]
    assert all(one == taken[0] for one in taken)


def open_fragments(table: Any) -> list[Fragment]:
    from kbforge.jobs.tables import fragments_from

    return fragments_from(table, {}, "test").fragments


def test_list_columns_vectors_labels_and_missing_cells() -> None:
    table = pa.table(
        {
            "key": ["a", "b"],
            "who": ["w", None],
            "names": [["Ada", "A. L.", None], []],
            "at": pa.array([[0.5, 1.0], [2.0, 3.0]], pa.list_(pa.float64(), 2)),
            "x": [None, float("nan")],
        }
    )
    kb = cluster(table, id="key", label="who", vector=["at"], likelihood="gaussian", alpha=1)
    first, second = kb.fragments
    assert first == Fragment("a", {"names": ("Ada", "A. L.")}, (0.5, 1.0), "w", None, {"row": 1})
    assert (second.properties, second.label, second.vector) == ({}, None, (2.0, 3.0))


def test_a_moment_keeps_its_time_and_numpy_and_pandas_cells_are_plain() -> None:
    moment = datetime.datetime(2020, 1, 2, 3, 4, 5)
    cells = {"a": moment, "b": pd.NaT, "c": pd.NA, "d": np.float64(0.5), "e": np.array(["x", "y"])}
    (one,) = open_fragments([cells])
    assert one.properties == {"a": ("2020-01-02T03:04:05",), "d": ("0.5",), "e": ("x", "y")}
    assert open_fragments(pa.table({"a": [moment]}))[0].properties == {"a": one.properties["a"]}


def test_pandas_without_pyarrow(monkeypatch: pytest.MonkeyPatch) -> None:
    frame = as_pandas().set_index("key")
    whole = cluster(frame, id="key", alpha=1)
    for name in [name for name in sys.modules if name.split(".")[0] == "pyarrow"]:
        monkeypatch.setitem(sys.modules, name, None)
    monkeypatch.setitem(sys.modules, "pyarrow", None)
    assert cluster(frame, id="key", alpha=1).entities == whole.entities
    assert whole.members().to_pandas().shape == (4, 5)


BAD: list[tuple[Any, str]] = [
    (pa.table({"a": [{"x": 1}]}), "table:1: a: expected text, a number, a date"),
    (pa.table({"a": [b"x"]}), "table:1: a: expected text"),
    (
        pa.table({"a": pa.array([0, 253402300800000], pa.timestamp("ms"))}),
        "table:2: a: expected a date from year 1 to 9999",
    ),
    ([{"a": "x"}, 3], "table:2: expected a dictionary, got 3"),
    ([{3: "x"}], "table: expected text as the name of a column, got 3"),
    ({"a": ["x"]}, "cluster: expected fragments, a data frame, a list of dictionaries or a path"),
    (3, "cluster: expected fragments, a data frame, a list of dictionaries or a path, got 3"),
]


@pytest.mark.parametrize(("table", "message"), BAD)
def test_a_bad_table_gives_one_sentence(table: Any, message: str) -> None:
    with pytest.raises(KBForgeError) as caught:
        cluster(table)
    assert str(caught.value).startswith(message)
    assert "\n" not in str(caught.value)


def test_a_blank_row_is_left_out_and_a_repeated_column_is_numbered() -> None:
    blank = pa.table({"a": ["x", None]})
    assert len(cluster(blank).fragments) == 1
    twice = cluster(pa.table([["x"], ["y"]], names=["a", "a"]))
    assert sorted(twice.fragments[0].properties.values()) == [("x",), ("y",)]
    assert len(twice.fragments[0].properties) == 2


def test_columns_that_are_missing_and_columns_of_fragments() -> None:
    with pytest.raises(BadRecord, match='expected a column "key", got the columns name'):
        cluster([{"name": "x"}], id="key")
    with pytest.raises(KBForgeError, match="cluster: id: only tables have columns"):
        cluster([Fragment("a", {"name": ("x",)})], id="id")
    with pytest.raises(KBForgeError, match='expected a unique id, got "a" again'):
        cluster([{"id": "a", "name": "x"}] * 2, id="id")


class Broken:
    """A table whose library fails."""

    def __arrow_c_stream__(self, requested_schema: object = None) -> object:
        raise RuntimeError("no\nmore")


def test_a_library_that_fails_gives_one_sentence() -> None:
    with pytest.raises(KBForgeError, match=r"^table: cannot read the table: .*no"):
        cluster(Broken())


@pytest.fixture(scope="module")
def kb() -> kbforge.KnowledgeBase:
    return cluster(pd.read_csv(PEOPLE), id="id")


def test_members_join_the_table_they_come_from(kb: kbforge.KnowledgeBase) -> None:
    frame = pd.read_csv(PEOPLE)
    joined = frame.merge(kb.members().to_pandas(), on="id")
    assert len(joined) == len(frame) == len(kb.members())
    assert set(joined["entity_id"]) == {entity.id for entity in kb.entities}
    both = pl.read_csv(PEOPLE).join(kb.members().to_polars(), on="id")
    assert both["confidence"].to_list() == joined["confidence"].to_list()
    found = kb.members()
    assert len(found) == 20
    assert duckdb.sql("select count(*) from frame join found using (id)").fetchall() == [(20,)]


@pytest.mark.parametrize("name", ["members", "wide", "pairs"])
def test_tables_have_the_cells_of_the_export(
    kb: kbforge.KnowledgeBase, name: str, tmp_path: Path
) -> None:
    kb.write(tmp_path / "kb.jsonl")
    policy = "most-stated" if name == "wide" else None
    kbforge.export(kb.entities, tmp_path / "t.csv", name, policy=policy, guard_formulas=False)
    with (tmp_path / "t.csv").open(encoding="utf-8", newline="") as file:
        written = list(csv.DictReader(file))
    table: ArrowTable = getattr(kb, name)()
    assert table.columns == list(written[0])
    texts = [{k: "" if v is None else str(v) for k, v in row.items()} for row in table.to_pylist()]
    assert texts == written
    of_file: ArrowTable = getattr(kbforge, name)(tmp_path / "kb.jsonl")
    assert of_file.columns == table.columns
    assert len(of_file) == len(table) > 5


def test_relations_are_a_table_of_a_file(tmp_path: Path) -> None:
    stated = Value("UL", ("f",), meanings=(Meaning("lodz", 0.75),))
    ada = Entity("ada", "Ada", {"employer": (stated,)}, ("f",), 1.0, 0)
    lodz = Entity("lodz", "Lodz", {}, ("g",), 1.0, 0)
    (tmp_path / "kb.jsonl").write_bytes(ada.to_line() + lodz.to_line())
    (row,) = kbforge.relations(tmp_path / "kb.jsonl").to_pylist()
    assert row == {
        "head_id": "ada",
        "head": "Ada",
        "relation": "employer",
        "tail_id": "lodz",
        "tail": "Lodz",
        "probability": 0.75,
        "statements": 1,
        "fragments": "f",
        "values": "UL",
    }


def test_relations_of_a_run_that_names_no_entity(kb: kbforge.KnowledgeBase) -> None:
    assert len(kb.relations()) == 0
    assert kb.relations().columns[:3] == ["head_id", "head", "relation"]


def test_columns_have_the_types_of_numbers(kb: kbforge.KnowledgeBase) -> None:
    few = cluster([{"name": "x"}])
    types = pl.DataFrame(few.pairs()).schema
    assert len(few.pairs()) == 0
    assert dict(types) == {
        **dict.fromkeys(("left", "right", "entity_id"), pl.String),
        **dict.fromkeys(("probability", "rest"), pl.Float64),
    }
    assert pl.DataFrame(kb.members()).schema["id"] == pl.Int64
    assert pl.DataFrame(few.members()).schema["id"] == pl.String
    assert pa.table(kb.wide()).schema.field("fragments").type == pa.int64()
    with pytest.raises(KBForgeError, match="threshold"):
        kb.pairs(1)


def test_linked_tables_have_names_and_share_ids() -> None:
    a = pl.DataFrame({"id": [1, 2], "name": ["Ada Lovelace", "Bo Ek"]})
    b = pd.DataFrame({"key": [1, 2], "called": ["Ada Lovelace", "Cyd Orr"]})
    named = link({"left": a, "right": b}, id=["id", "key"], map={"called": "name"})
    again = link(a, b, names=("left", "right"), id=["id", "key"], map=["called=name"])
    assert named.entities == again.entities
    assert {fragment.id for fragment in named.fragments} == {
        *("left:1", "left:2", "right:1", "right:2")
    }
    assert {fragment.source for fragment in named.fragments} == {"left", "right"}
    with pytest.raises(KBForgeError, match='no table has a column "x"'):
        link(a, b, id="x")
    with pytest.raises(KBForgeError, match="expected two or more tables"):
        link({"left": a})
    with pytest.raises(KBForgeError, match="link: id: expected text, got 3"):
        link(a, b, id=3)  # type: ignore[arg-type]


def test_a_store_takes_tables_and_gives_members(tmp_path: Path) -> None:
    store, frame = tmp_path / "kb.sqlite", pl.read_csv(PEOPLE)
    assert update(store, frame[:14], id="id").added == 14
    assert update(store, frame, id="id").added == 6
    assert sorted(row["id"] for row in members(store).to_pylist()) == sorted(map(str, range(1, 21)))
    assert len(wide(store)) == len({row["entity_id"] for row in members(store).to_pylist()})
    assert len(pairs(store, 0.9)) < len(pairs(store, 0.1))
    live = open_session(frame, id="id")
    assert live.fragments == []


COLUMNS = {
    "pandas": lambda: pd.Series(["Ann Lee", "Bo"], name="name"),
    "pandas, mixed": lambda: pd.Series(["Ann Lee", 1]),
    "polars": lambda: pl.Series("name", ["Ann Lee", "Bo"]),
    "pyarrow": lambda: pa.chunked_array([["Ann Lee"], ["Bo"]]),
}


@pytest.mark.parametrize("library", COLUMNS)
def test_a_column_without_a_table_is_one_sentence(library: str) -> None:
    column = COLUMNS[library]()
    with pytest.raises(UsageError, match=r"^table: expected a data frame, got one column, of "):
        cluster(column)
    assert cluster(pl.DataFrame({"name": ["Ann Lee", "Bo"]}), likelihood="names", alpha=1).entities


@pytest.mark.parametrize("function", ["method", "function"])
def test_a_wrong_policy_is_told_in_words_of_python(
    kb: kbforge.KnowledgeBase, tmp_path: Path, function: str
) -> None:
    kb.write(tmp_path / "kb.jsonl")
    with pytest.raises(UsageError, match=r'^expected a policy \(all, .*\) or a file.* got "most"'):
        kb.wide("most") if function == "method" else wide(tmp_path / "kb.jsonl", "most")


def test_a_missing_library_is_one_sentence(
    kb: kbforge.KnowledgeBase, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setitem(sys.modules, "polars", None)
    with pytest.raises(KBForgeError, match=r"^polars is not installed; pip install polars$"):
        kb.members().to_polars()


@pytest.fixture
def hostile() -> kbforge.KnowledgeBase:
    script = "<script>alert(1)</script>\x1b[31m"
    return cluster([{"name": script, script[:9]: "b" * 5000}, {"name": "Bo"}], alpha=1)


def test_what_a_notebook_shows_is_escaped_and_short(hostile: kbforge.KnowledgeBase) -> None:
    shown = [hostile, *hostile.entities, hostile.members(), hostile.wide()]
    for page in (one._repr_html_() for one in shown):
        assert "<script" not in page
        assert "\x1b" not in page
        assert "color" not in page  # the theme of the notebook has the colours
        assert len(page) < 3_000
    assert all(len(repr(one)) < 200 and "\x1b" not in repr(one) for one in shown)
    assert len(repr(hostile.posterior)) < 200


def test_a_large_result_is_short(kb: kbforge.KnowledgeBase) -> None:
    many = cluster([{"name": f"name{n}", "town": "x"} for n in range(300)], likelihood="names")
    assert "and 290 entities more" in many._repr_html_()
    assert "300 rows, 10 shown" in many.members()._repr_html_()
    assert repr(kb).startswith("KnowledgeBase(20 fragments, 8 entities, likelihood pairs, ")
    explained = kbforge.contracts.Explanation(0.5, {"<b>": -0.25})._repr_html_()
    assert "&lt;b&gt;" in explained
    assert "+0.25" in explained
