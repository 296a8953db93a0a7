"""Malformed rows and headers for the csv source."""

from __future__ import annotations

import json

import pytest

from tests.sources.harness import check_bad_record, check_refused, ids_in

HEADER = b"id,name,age,x\n"
FIRST, LAST = "a,Änn Çöş,30,1.5\n".encode(), b"c,Cid,50,3\n"
READER = ["csv", "--id", "id", "--vector", "x"]

FIELDS = "expected 4 fields, as the header has, got "
NUMBER = "x: expected a finite number, got "
RECORD = "expected a CSV record, got "
UTF8 = "expected UTF-8 text, got the byte "
TRY = " (if the file comes from a spreadsheet, try --encoding cp1252)"
LARGE = f"{RECORD}a field of more than 131,072 characters (an unclosed quote?)"

ROWS = {
    "too few fields": (b"b,Bo,40", f"{FIELDS}3"),
    "too many fields": (b"b,Bo,40,2,5", f"{FIELDS}5"),
    "one field": (b"b", f"{FIELDS}1"),
    "10,000 fields": (b",".join([b"x"] * 10_000), f"{FIELDS}10000"),
    "other delimiter": (b"b;Bo;40;2", f"{FIELDS}1"),
    "no id": (b",Bo,40,2", "id: expected a string, got nothing"),
    "blank id": (b"  ,Bo,40,2", "id: expected a string, got nothing"),
    "id too long": (b"x" * 5000 + b",Bo,40,2", "id: expected at most 4,096 characters, got 5,000"),
    "id with NUL": (b"b\0,Bo,40,2", r"id: expected text without NUL characters, got b\x00"),
    "NUL": (b"b,B\0o,40,2", r"properties.name: expected text without NUL characters, got B\x00o"),
    "NaN": (b"b,Bo,40,nan", f"{NUMBER}nan"),
    "infinity": (b"b,Bo,40,-inf", f"{NUMBER}-inf"),
    "overflow": (b"b,Bo,40,1e999", f"{NUMBER}1e999"),
    "number a word": (b"b,Bo,40,two", f"{NUMBER}two"),
    "number missing": (b"b,Bo,40,", f"{NUMBER}nothing"),
    "number in Python's way": (b"b,Bo,40,1_0", f"{NUMBER}1_0"),
    "number in hexadecimal": (b"b,Bo,40,0x10", f"{NUMBER}0x10"),
    "decimal comma": (b'b,Bo,40,"1,5"', f"{NUMBER}1,5"),
    "terminal codes": (b"b,Bo,40,\x1b[31m", rf"{NUMBER}\x1b[31m"),
    "unclosed quote": (b'b,"Bo,40,2', f"{RECORD}a quote that is never closed"),
    "text after a quote": (b'b,"Bo"x,40,2', f"{RECORD}',' expected after '\"'"),
    "carriage return": (b"b,B\ro,40,2", f"{RECORD}a carriage return outside quotes"),
    "invalid UTF-8": (b"b,B\xff,40,2", f"{UTF8}0xff at byte 4{TRY}"),
    "Latin-1": (b"b,Bj\xf6rn,40,2", f"{UTF8}0xf6 at byte 5{TRY}"),
    "invalid UTF-8 in the id": (b"\xe9,Bo,40,2", f"{UTF8}0xe9 at byte 1{TRY}"),
    "lone surrogate": (b"b,\xed\xa0\x80,40,2", f"{UTF8}0xed at byte 3{TRY}"),
    "value of 100 kB": (
        b"b," + b"x" * 100_000 + b",40,2",
        "properties.name: expected at most 65,536 characters, got 100,000",
    ),
    "value of 1 MB": (b"b," + b"x" * 1_000_000 + b",40,2", LARGE),
    "quoted value of 1 MB": (b'b,"' + b"x" * 1_000_000 + b'",40,2', LARGE),
    "number of 100 kB": (b"b,Bo,40," + b"9" * 100_000, f"{NUMBER}{'9' * 80}…"),
}

OTHER = (
    " expected text in UTF-8, UTF-16 or a Western encoding, got bytes of another one (--encoding "
    "names it: cp1251, gb18030, shift_jis, ...)"
)
HEADERS = {
    "empty file": (b"", "1: expected a header line, got an empty file"),
    "blank file": (b"\n \n", "1: expected a header line, got an empty file"),
    "repeated column": (
        b"id,name,name,x\na,b,c,1\n",
        '1: expected distinct column names, got "name" 2 times',
    ),
    "column without a name": (
        b"id,,x\na,b,1\n",
        "1: expected a name for every column, got none for column 2",
    ),
    "no vector column": (b"id,name\na,b\n", '1: expected a column "x", got the columns id, name'),
    "no id column": (b"key,x\na,1\n", '1: expected a column "id", got the columns key, x'),
    "no rows": (HEADER, "2: expected rows below the header, got none"),
    "no rows in UTF-16": (
        HEADER.decode().encode("utf-16"),
        "2: expected rows below the header, got none",
    ),
    "binary": (bytes(range(128, 256)), OTHER),
    "Cyrillic": ("id,x\nРоссия,1\nМосква,2\n".encode("cp1251"), OTHER),
    "NULs": (b"\0\xff" * 20, OTHER),
    "a spreadsheet": (
        b"PK\x03\x04" + b"\0" * 30,
        " expected a table as text, got a zip file, such as a spreadsheet (kbforge load xlsx reads "
        "those)",
    ),
    "unclosed quote": (b'id,"x\na,1\n', f"1: {RECORD}a quote that is never closed"),
}


@pytest.mark.parametrize("bad", ROWS)
def test_bad_row(program, tmp_path, bad):
    row, sentence = ROWS[bad]
    file = tmp_path / "in.csv"
    file.write_bytes(HEADER + FIRST + row + b"\n" + LAST)
    check_bad_record(program, READER, file, f"3: {sentence}", ["a", "c"], row)


@pytest.mark.parametrize("bad", HEADERS)
def test_bad_header(program, tmp_path, bad):
    content, sentence = HEADERS[bad]
    file = tmp_path / "in.csv"
    file.write_bytes(content)
    check_refused(program, READER, file, f"{file}:{sentence}")


def test_repeated_id(program, tmp_path):
    file = tmp_path / "in.csv"
    file.write_bytes(HEADER + FIRST + b"a,Amy,1,2\n" + LAST)
    sentence = '3: id: expected a unique id, got "a" again'
    check_bad_record(program, READER, file, sentence, ["a", "c"])


def test_row_without_values(program, tmp_path):
    file = tmp_path / "in.csv"
    file.write_bytes(b"name,age\nAnn,30\n, \nCid,50\n")
    sentence = "3: properties: expected at least one property or a vector, got neither"
    check_bad_record(program, ["csv"], file, sentence, ["in-1", "in-3"], b", ")


def test_10_000_attributes(program, tmp_path):
    file = tmp_path / "in.csv"
    header = ",".join(f"c{i}" for i in range(10_000))
    one, all_ = "x" + "," * 9_999, ",".join(["x"] * 10_000)
    file.write_text(f"{header}\n{one}\n{all_}\n{one}\n")
    sentence = "3: properties: expected at most 1,024 attributes, got 10,000"
    check_bad_record(program, ["csv"], file, sentence, ["in-1", "in-3"], all_.encode())


def test_broken_quote_costs_one_line(program, tmp_path):
    """The quote would swallow all that follows; every line after it is still read."""
    file, output = tmp_path / "in.csv", tmp_path / "out.jsonl"
    rows = [b"%d,Name,40,2\n" % i for i in range(9_000)]
    rows[5] = b'5,"Name,40,2\n'
    file.write_bytes(HEADER + b"".join(rows))
    ran = program("load", *READER, file, "-o", output, "--on-error", "quarantine", "--json")
    assert json.loads(ran.out)["set_aside"] == 1
    assert ids_in(output) == [str(i) for i in range(9_000) if i != 5]


def test_mismatched_quotes_cost_one_line(program, tmp_path):
    file = tmp_path / "in.csv"
    file.write_bytes(HEADER + FIRST + b'b,"Bo,40,2\n' + b'd,"Di",3,4\n' + LAST)
    sentence = f"3: {RECORD}',' expected after '\"'"
    check_bad_record(program, READER, file, sentence, ["a", "d", "c"], b'b,"Bo,40,2')


@pytest.mark.parametrize(
    ("options", "sentence"),
    [
        (["--map", "name"], 'map: expected column=attribute, got "name"'),
        (
            ["--set", "source.delimiter=ab"],
            'delimiter: expected one character or tab, got "ab"',
        ),
        (
            ["--set", "source.colour=red"],
            'source csv has no option "colour"; options: id, label, name, map, vector, '
            "separator, null, prefix, serial_dates, delimiter, encoding",
        ),
        (["--set", "colour=red"], '--set: expected kind.option=value, got "colour=red"'),
        (
            ["--set", "likelihood.a=1"],
            '--set likelihood.a=1: unknown kind "likelihood", expected one of source',
        ),
    ],
)
def test_bad_options(program, tmp_path, options, sentence):
    file = tmp_path / "in.csv"
    file.write_bytes(HEADER + FIRST)
    check_refused(program, ["csv", *options], file, sentence, code=2)
