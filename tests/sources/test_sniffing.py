"""What a table is in, found out: delimiter, encoding, and the sentence that says so."""

import contextlib
import gzip
import io
from encodings.aliases import aliases

import pytest
from hypothesis import given
from hypothesis import strategies as st

from kbforge import KBForgeError, load
from kbforge.errors import BadRecord
from kbforge_plugins.sources.csv import encoding_named, guess_delimiter, guess_encoding, sampled
from tests.sources.harness import ADVICE

ROWS = [("id", "name", "town"), ("1", "Zoë Öz", "Köln, am Rhein"), ("2", "Bo | Ray", "A; B")]
MARKS = {",": "comma", "\t": "tab", ";": "semicolon", "|": "pipe"}


def table(mark, rows=ROWS):
    return "".join(
        mark.join(f'"{cell}"' if set(cell) & set(",;|") else cell for cell in row) + "\n"
        for row in rows
    )


def as_read(found):
    return [{k: v[0] for k, v in x.properties.items()} for x in found]


EXPECTED = [dict(zip(ROWS[0], row, strict=True)) for row in ROWS[1:]]


@pytest.mark.parametrize("mark", MARKS)
@pytest.mark.parametrize(
    ("encoding", "said"),
    [
        ("utf-8", "UTF-8"),
        ("utf-8-sig", "UTF-8"),
        ("utf-16", "UTF-16"),
        ("utf-16-le", "UTF-16-LE"),
        ("utf-16-be", "UTF-16-BE"),
        (
            "cp1252",
            "cp1252 (a guess, because it is not UTF-8; --set source.encoding=NAME selects another)",
        ),
        (
            "latin-1",
            "cp1252 (a guess, because it is not UTF-8; --set source.encoding=NAME selects another)",
        ),
    ],
)
def test_delimiter_and_encoding_are_found_out(program, tmp_path, mark, encoding, said):
    content = table(mark).encode(encoding)
    (tmp_path / "in.csv").write_bytes(content)
    assert as_read(load(tmp_path / "in.csv", id=None)) == EXPECTED
    packed = tmp_path / "in.csv.gz"
    packed.write_bytes(gzip.compress(content))
    assert as_read(load(packed, id=None)) == EXPECTED
    for arguments, stdin, name in (
        ((packed,), b"", packed),
        (("csv", "-"), content, "standard input"),
    ):
        ran = program("load", *arguments, "--id", "id", "-o", tmp_path / "f.jsonl", stdin=stdin)
        assert ran.code == 0, ran.err
        assert ran.err.splitlines()[-1] == (
            f'{name}: {MARKS[mark]}-separated, {said}, 2 rows, 3 columns; ids from the column "id"'
        )


@pytest.mark.parametrize(
    ("text", "usual", "mark"),
    [
        ("name\nAnn\n", ",", ","),
        ("name\nAnn, B\n", "\t", "\t"),
        ("last, first;age\nLee, Ann;3\n", ",", ";"),
        ("id;name;price,eur\n1;x;3,5\n", ",", ";"),
        ("id,name|alias\n1,Ann|A\n", ",", ","),
        ("id\tname\n1\tAnn\n", ",", "\t"),
        ("id,name\n1,Ann\n", "\t", ","),
        ("a|b|c\n1|2|3\n4|5|6\n", ",", "|"),
        ('id,name\n1,"never closed\n2,x\n', ",", ","),
        ("", ",", ","),
    ],
)
def test_delimiters(text, usual, mark):
    assert guess_delimiter(text.encode(), "utf-8", usual) == mark


@given(
    st.lists(st.lists(st.text("ab é'.-", min_size=1), min_size=2, max_size=4), min_size=1),
    st.sampled_from(sorted(MARKS)),
)
def test_a_plain_table_is_split_at_its_mark(rows, mark):
    width = len(rows[0])
    text = "".join(mark.join((row * 4)[:width]) + "\n" for row in rows)
    assert guess_delimiter(text.encode(), "utf-8", ",") == mark


@given(st.text(st.characters(exclude_categories=["Cs"], exclude_characters="\0")))
def test_utf_8_is_never_taken_for_another(text):
    assert guess_encoding(f"name\n{text}\n".encode(), "x") == "utf-8"


def test_one_bad_byte_does_not_change_the_encoding(program, tmp_path):
    file = tmp_path / "in.csv"
    file.write_bytes("name\nZoë\nJürgen\n".encode() + b"B\xff\n")
    ran = program("load", file, "-o", tmp_path / "f.jsonl", "--on-error", "quarantine", "--json")
    assert (ran.json["fragments"], ran.json["set_aside"]) == (2, 1)


def test_the_user_knows_better(program, tmp_path):
    file = tmp_path / "in.csv"
    file.write_bytes("name;town\nМарія,x;Київ\n".encode("cp1251"))
    ran = program("load", file, "--encoding", "cp1251", "--delimiter", ";")
    assert ran.code == 0, ran.err
    assert "Марія,x" in ran.out.decode()
    ran = program("load", file, "--encoding", "cp1251", "--delimiter", ",")
    assert ran.code == 1
    assert ran.err == f"kbforge: {file}:2: expected 1 fields, as the header has, got 2; {ADVICE}\n"


WIDE = [f"utf-{bits}{order}" for bits in (16, 32) for order in ("", "-le", "-be")]


@pytest.mark.parametrize("named", [*WIDE, "utf16", "utf_32"])
@pytest.mark.parametrize("text", [*WIDE, "utf-8", "utf-8-sig", "cp1252"])
@pytest.mark.parametrize("source", ["csv", "jsonl", "triples"])
def test_a_named_encoding_that_is_another(tmp_path, named, text, source):
    """UTF-16 and UTF-32 without a mark have no order of bytes: a guess, or a sentence."""
    content = table(",") if source == "csv" else '{"id": "1", "name": "Zoë", "town": "Rome"}\n'
    (tmp_path / "in").write_bytes(content.encode(text))
    options = {"csv": {"id": "id"}, "jsonl": {"id": "id"}, "triples": {"format": "json"}}[source]
    if source == "triples":
        options |= {"head": "id", "relation": "name", "tail": "town"}
    found = None
    with contextlib.suppress(KBForgeError):
        found = load(tmp_path / "in", source=source, encoding=named, **options)
    assert found or encoding_named(named) != text


def test_utf_16_is_read_with_and_without_its_mark(tmp_path):
    for text in ("utf-16", "utf-16-le", "utf-16-be"):
        (tmp_path / "in.csv").write_bytes(table(",").encode(text))
        assert as_read(load(tmp_path / "in.csv", id=None, encoding="utf-16")) == EXPECTED
    (tmp_path / "in.csv").write_bytes(table(",").encode())
    with pytest.raises(BadRecord, match=r"expected text in UTF-16, got UTF-8 \(leave the encoding"):
        load(tmp_path / "in.csv", encoding="utf-16")


def test_every_encoding_of_python_reads_or_says_why_not(tmp_path):
    contents = [b"id,name\n1,Ann\n", bytes(range(256)), b"\xff\xfe\0", b"", b"\xff" * 99]
    for content in contents:
        (tmp_path / "in.csv").write_bytes(content)
        for encoding in sorted({*aliases.values(), "utf-8-sig"}):
            with contextlib.suppress(KBForgeError):
                load(tmp_path / "in.csv", encoding=encoding)


def test_separator_is_for_cells(program, tmp_path):
    file = tmp_path / "in.csv"
    file.write_text("name,town\nAnn,Rome\n")
    ran = program("load", file, "--separator", ",", "-o", tmp_path / "f.jsonl")
    assert "separator splits the text within a cell, delimiter the columns" in ran.err


class Slow(io.RawIOBase):
    """A pipe that gives one byte at a time."""

    def __init__(self, content):
        self.content = io.BytesIO(content)

    def readable(self):
        return True

    def readinto(self, buffer):
        data = self.content.read(1)
        buffer[: len(data)] = data
        return len(data)


def test_a_slow_pipe_is_sampled_like_a_file(monkeypatch):
    content = table(";").encode("utf-16-le") * 3

    class Stdin:
        buffer = io.BufferedReader(Slow(content))

    monkeypatch.setattr("sys.stdin", Stdin)
    with sampled("-") as (sample, stream):
        assert sample == content
        assert stream.read() == content
