"""A file given where another is expected is named as what it is, with the command that takes it."""

import json
import shutil
import sqlite3
import zipfile
from pathlib import Path

import pytest

from kbforge.files.kinds import KINDS, kind_of, kind_of_bytes
from tests.jsonl import write_lines
from tests.people import write_people

ANSWER = {
    "a": "0-0",
    "b": "0-1",
    "same": True,
    "asked": {"number": 1, "how": "audit", "joined": 0.5, "share": 0.5},
    "fragments_sha256": "0" * 64,
}
ENTITY = {
    "id": "e-1",
    "name": "Ann",
    "properties": {"name": [{"value": "Ann", "fragments": ["a"], "count": 1}]},
    "fragments": ["a"],
    "confidence": 1.0,
    "subproblem": 0,
}
CALIBRATION = 'format = 1\nalpha = 1.0\nlog_alpha = 0.0\n[objective]\nname = "x"\nvalue = 1.0\n'


@pytest.fixture
def files(tmp_path, monkeypatch):
    """A file of each kind, named after it."""
    monkeypatch.chdir(tmp_path)
    write_people(tmp_path / "fragments", 8)
    write_lines("entities", [ENTITY])
    write_lines("answers", [ANSWER])
    Path("table").write_text("id,name\n1,Ann\n2,Bob\n")
    Path("calibration").write_text(CALIBRATION)
    Path("confidence").write_text("format = 1\n[clustering]\nalpha = 1.0\n[[pairs]]\nclaims = 1\n")
    Path("pipeline").write_text('[[step]]\nverb = "show"\nargs = ["entities"]\n')
    Path("policy").write_text('default = "longest"\n')
    Path("array").write_text(json.dumps([ENTITY]))
    Path("object").write_text(json.dumps(ENTITY, indent=2))
    Path("objects").write_text('{"name": "Ann", "born": 1960}\n')
    Path("spacy").write_text('{"text": "Ann", "ents": [], "tokens": []}\n')
    Path("triples").write_text('{"head": "Ann", "relation": "met", "tail": "Bob"}\n')
    Path("wikidata").write_text('{"type": "item", "id": "Q1", "labels": {}}\n')
    Path("utf-16-le").write_bytes("id,name\n1,Ann\n".encode("utf-16-le"))
    Path("utf-16").write_bytes("id,name\n1,Ann\n".encode("utf-16"))
    Path("pdf").write_bytes(b"%PDF-1.7\n%\xe2\xe3")
    Path("parquet").write_bytes(b"PAR1" + bytes(40) + b"PAR1")
    with zipfile.ZipFile("spreadsheet", "w") as packed:
        packed.writestr("[Content_Types].xml", "<x/>")
    with sqlite3.connect("store") as database:
        database.execute("PRAGMA application_id = 0x4B424647")
        database.execute("CREATE TABLE x (y)")
    Path("model").mkdir()
    Path("model/manifest.json").write_text("{}")
    return tmp_path


NAMES = [
    *("fragments", "entities", "answers", "table", "calibration", "confidence", "pipeline"),
    *("policy", "array", "object", "objects", "utf-16", "utf-16-le", "pdf", "parquet"),
    *("spreadsheet", "store", "model", "spacy", "triples", "wikidata"),
]


@pytest.mark.parametrize("name", NAMES)
def test_a_file_is_what_it_is_packed_or_not(files, name):
    assert kind_of(name) == name
    if name != "model":
        import gzip

        Path("packed.gz").write_bytes(gzip.compress(Path(name).read_bytes()))
        assert kind_of("packed.gz") == name


READERS = {
    "fragments": "cluster {} -o out.jsonl",
    "entities": "show {}",
    "store": "status {}",
    "policy": "export entities --policy {}",
    "calibration": "cluster fragments --set calibration={} -o out.jsonl",
    "confidence": "cluster fragments --set confidence-map={} -o out.jsonl",
    "answers": "cluster fragments --answers {} -o out.jsonl",
    "pipeline": "run {} --dry-run",
    "table": "load csv {} -o out.jsonl",
    "parquet": "load parquet {} -o out.jsonl",
    "model": "cluster fragments --likelihood ./{} -o out.jsonl",
}
OTHERS = [name for name in NAMES if name not in ("model", "objects")]


@pytest.mark.slow
@pytest.mark.parametrize("reader", READERS)
def test_every_reader_names_every_other_kind(files, program, reader):
    for name in OTHERS:
        if name == reader or {reader, name} == {"entities", "store"}:
            continue
        if reader == "table" and name in ("utf-16", "utf-16-le", "spreadsheet"):
            # it reads the first two, and has its own words for the last
            continue
        if reader in ("table", "parquet") and name == "policy":  # it may be one column of text
            continue
        ran = program(*READERS[reader].format(name).split())
        assert ran.code in (1, 2), name
        kind = KINDS[name]
        assert kind.name in ran.err, (reader, name, ran.err)
        assert kind.use.partition("{")[0] in ran.err, (reader, name, ran.err)
        assert not Path("out.jsonl").exists()


def test_standard_input_is_named_by_its_first_line(files, program):
    for name in ("entities", "table", "array"):
        ran = program("cluster", "-", "-o", "out.jsonl", stdin=Path(name).read_bytes())
        assert ran.code == 1
        assert KINDS[name].name in ran.err


def test_a_later_bad_line_is_told_as_before(files, program):
    with open("fragments", "a") as file:
        file.write("{broken\n")
    ran = program("cluster", "fragments", "-o", "out.jsonl")
    assert ran.code == 1
    assert "invalid JSON at column 2" in ran.err


def test_text_that_is_nothing_known_has_the_parsers_words(program, tmp_path):
    (tmp_path / "x").write_text("{broken\n")
    assert program("show", tmp_path / "x").code == 1
    assert kind_of_bytes(b"hello world\n") == "text"
    assert kind_of_bytes(b"") == "empty"
    assert kind_of_bytes(bytes(range(256))) == "binary"


@pytest.mark.parametrize(
    ("command", "said"),
    [
        ("clustr x", "Did you mean 'cluster'?"),
        ("cluster fragments --link nam", 'no fragment has "nam" (did you mean "name"?)'),
        ("cluster fragments --into s.sqlite --link nope", 'no fragment has "nope"; expected'),
        ("cluster fragments --likelihood atributes", 'did you mean "attributes"'),
        ("cluster fragments --set clusterer=split-scm", 'did you mean "split-smc"'),
        ("cluster fragments --set likelihod.scale=1", 'did you mean "likelihood"'),
        ("cluster fragments --set clusterer.particels=1", 'did you mean "particles"'),
        ("cluster fragments --likelyhood attributes", "--likelihood"),
        ("load cvs table", 'did you mean "csv"'),
        ("export entities --format jsnol", 'did you mean "jsonl"'),
        ("plugins list --kind likelihod", 'did you mean "likelihood"'),
        ("plugins shwo x", "show"),
        ("cluster fragments --gpu", "no usable GPU"),
        ("cluster fragments --gpu --likelihood attributes", "no usable GPU"),
        ("calibrate fragments -o c.toml --gpu", "no usable GPU"),
        ("evaluate fragments --reliability --gpu --likelihood attributes", "no usable GPU"),
        ("train-lm fragments --gpu -o lm", "no usable GPU"),
    ],
)
def test_misspelt_names_and_missing_devices(files, program, command, said, monkeypatch):
    monkeypatch.setenv("CUDA_VISIBLE_DEVICES", "")
    monkeypatch.setenv("COLUMNS", "200")
    shutil.rmtree("model")
    ran = program(*command.split())
    assert ran.code == 2 or "plugin" in ran.err or "there is no" in ran.err
    assert ran.code in (1, 2)
    assert said in ran.err


def test_column_names_that_are_not_utf_8_are_a_sentence(program, tmp_path):
    import pyarrow as pa
    import pyarrow.parquet as pq

    path = tmp_path / "t.parquet"
    pq.write_table(pa.table({"name": ["Ann"], "zzzz": ["x"]}), path, store_schema=False)
    path.write_bytes(path.read_bytes().replace(b"zzzz", b"z\xe9zz"))
    ran = program("load", "parquet", path, "-o", tmp_path / "out.jsonl")
    assert ran.code == 1
    assert "expected column names in UTF-8, got a name with the byte 0xe9" in ran.err
