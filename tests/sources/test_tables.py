"""What the rows of csv, parquet and hf become."""

import datetime
import decimal
import json

import pyarrow as pa
import pyarrow.feather as feather
import pyarrow.parquet as pq
import pytest

from tests.sources import harness


@pytest.fixture
def csv(written):
    """csv(content, filename, option=value, ...) -> the fragments of a file."""
    return lambda content, filename="in.csv", **options: read(
        "csv", written(content, filename), **options
    )


def read(kind, *files, **options):
    return harness.read(kind, *files, **options)[0]


def test_every_column_is_an_attribute(csv):
    (one, two) = csv("name,born\nAnn,1970\nBo,\n")
    assert one.to_json() == {
        "id": "in-1",
        "properties": {"name": ["Ann"], "born": ["1970"]},
        "source": "in.csv",
        "metadata": {"row": 2},
    }
    assert two.properties == {"name": ("Bo",)}
    assert two.id == "in-2"


def test_id_label_and_vector_are_no_attributes(csv):
    content = "key,gold,x,y,name\nk1,g1,1.5,-2e3,Ann\n"
    (one,) = csv(content, id="key", label="gold", vector="x,y")
    assert (one.id, one.label, one.vector) == ("k1", "g1", (1.5, -2000.0))
    assert one.properties == {"name": ("Ann",)}


def test_vector_alone(csv):
    (one, two) = csv("x,y,label\n1,2,a\n3,4,\n", vector="x,y", label="label")
    assert (one.vector, one.properties, one.label) == ((1.0, 2.0), {}, "a")
    assert two.label is None


ROWS = [
    # columns are renamed, joined and left out
    (
        "first,alias,notes,town\nAnn,Annie,secret,Rome\n",
        {"map": ["first=name", "alias=name", "notes="]},
        {"name": ("Ann", "Annie"), "town": ("Rome",)},
    ),
    # the id may also be an attribute
    (
        "isbn,t\n123,Book\n",
        {"id": "isbn", "name": "t", "map": ["isbn=isbn"]},
        {"isbn": ("123",), "name": ("Book",)},
    ),
    # names of columns may hold equals signs
    ("a=b\nx\n", {"map": ["a=b=name"]}, {"name": ("x",)}),
    # repeats are dropped
    ("name\nAnn; Annie ;;Ann\n", {"separator": ";"}, {"name": ("Ann", "Annie")}),
    *(
        (f"a{mark}b\nx{mark}y\n", {"delimiter": name}, {"a": ("x",), "b": ("y",)})
        for name, mark in (("tab", "\t"), (";", ";"), ("|", "|"))
    ),
    # a delimiter that is given may leave one column
    ("a;b\n1;2\n", {"delimiter": ","}, {"a;b": ("1;2",)}),
    ("\ufeffname\nZoë\n", {}, {"name": ("Zoë",)}),
]


@pytest.mark.parametrize(("content", "options", "properties"), ROWS)
def test_options_say_what_a_column_is(csv, content, options, properties):
    (one,) = csv(content, **options)
    assert one.properties == properties
    assert one.id == ("123" if "id" in options else "in-1")


def test_quotes_line_breaks_and_blank_lines(csv):
    content = 'name,note\r\n"Ann ""A"" Lee","one, two\r\n\r\nthree"\r\n\r\nBo,x\r\n'
    (one, two) = csv(content)
    assert one.properties == {"name": ('Ann "A" Lee',), "note": ("one, two\n\nthree",)}
    assert (two.id, two.place) == ("in-2", "in.csv:6")


@pytest.mark.parametrize("filename", ["in.tsv", "in.tab", "IN.TSV"])
def test_tabs_by_the_ending(csv, filename):
    (one,) = csv("name\ttown\nAnn\tRome, Italy\n", filename=filename)
    assert one.properties == {"name": ("Ann",), "town": ("Rome, Italy",)}


def test_minted_ids_of_files_with_one_stem(tmp_path):
    for folder in ("a", "b"):
        (tmp_path / folder).mkdir()
        (tmp_path / folder / "x.csv").write_text("name\nAnn\n")
    found = read("csv", tmp_path / "a" / "x.csv", tmp_path / "b" / "x.csv")
    assert [f.id for f in found] == ["x-1", "x~2-1"]


TYPED = {
    "text": (["Ann"], ("Ann",)),
    "whole": ([7], ("7",)),
    "real": ([2.5], ("2.5",)),
    "truth": ([True], ("true",)),
    "date": ([datetime.date(1970, 1, 2)], ("1970-01-02",)),
    "moment": ([datetime.datetime(1970, 1, 2, 3, 4)], ("1970-01-02T03:04:00",)),
    "exact": ([decimal.Decimal("1.50")], ("1.50",)),
    "list": ([["a", "b", "a"]], ("a", "b")),
    "numbers": ([[1, 2]], ("1", "2")),
}


@pytest.mark.parametrize("kind", ["parquet", "hf"])
def test_typed_cells(tmp_path, kind):
    file = tmp_path / "in.parquet"
    columns = {name: pa.array(cells) for name, (cells, _) in TYPED.items()}
    columns |= {"null": pa.array([None], pa.string()), "nan": pa.array([float("nan")])}
    pq.write_table(pa.table(columns), file)
    (one,) = read(kind, file)
    assert one.properties == {name: values for name, (_, values) in TYPED.items()}
    assert one.id == "in-1"


@pytest.mark.parametrize("kind", ["parquet", "hf"])
def test_a_list_column_is_a_vector(tmp_path, kind):
    file = tmp_path / "in.parquet"
    pq.write_table(pa.table({"v": [[1.0, 2.0]], "w": [3]}), file)
    (one,) = read(kind, file, vector="v,w")
    assert one.vector == (1.0, 2.0, 3.0)


def test_parquet_batches_are_numbered_on(tmp_path):
    file = tmp_path / "in.parquet"
    pq.write_table(pa.table({"name": [f"n{i}" for i in range(5_000)]}), file, row_group_size=1_500)
    found = read("parquet", file)
    assert [f.id for f in found] == [f"in-{i}" for i in range(1, 5_001)]
    assert [f.names[0] for f in found] == [f"n{i}" for i in range(5_000)]


RECORDS = [{"key": "a", "name": "Ann", "tags": "x|y"}, {"key": "b", "name": "Bo", "tags": "z"}]


TABLE = pa.Table.from_pylist(RECORDS)
AS_CSV = "key,name,tags\na,Ann,x|y\nb,Bo,z\n"


def as_json(path):
    path.write_text("\n".join(map(json.dumps, RECORDS)))


def as_arrow(path):
    with pa.OSFile(str(path), "wb") as file, pa.ipc.new_stream(file, TABLE.schema) as out:
        out.write_table(TABLE)


@pytest.mark.parametrize(
    ("ending", "write"),
    [
        (".json", as_json),
        (".jsonl", as_json),
        (".csv", lambda path: path.write_text(AS_CSV)),
        (".tsv", lambda path: path.write_text(AS_CSV.replace(",", "\t"))),
        (".parquet", lambda path: pq.write_table(TABLE, path)),
        (".arrow", as_arrow),
        (".arrow", lambda path: feather.write_feather(TABLE, path, compression="uncompressed")),
    ],
)
def test_local_files_through_datasets(tmp_path, ending, write):
    file = tmp_path / f"in{ending}"
    write(file)
    one, two = read("hf", file, id="key", separator="|", map=["tags=tag"])
    assert (one.id, one.properties) == ("a", {"name": ("Ann",), "tag": ("x", "y")})
    assert (two.id, two.properties) == ("b", {"name": ("Bo",), "tag": ("z",)})


@pytest.mark.data
def test_the_gaussian_benchmark(data_dir):
    found = read("csv", data_dir / "gauss" / "gauss700.csv", vector="x,y", label="label")
    assert len(found) == 700
    assert len({f.label for f in found}) == 80
    assert found[0].id == "gauss700-1"
    assert found[0].vector == (76.18921661376953, 12.574337005615234)
