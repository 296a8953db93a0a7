"""Spreadsheets in: types, sheets, and files that mean harm."""

import datetime
import io
import zipfile

import pytest
from openpyxl import Workbook, load_workbook

from kbforge import load
from kbforge.errors import BadRecord, KBForgeError

DAY, MOMENT = datetime.datetime(1815, 12, 10), datetime.datetime(2024, 2, 3, 4, 5, 6)
TYPED = {
    "id": 7,
    "zip": "00123",
    "born": datetime.date(1915, 12, 10),
    "seen": datetime.datetime(2024, 2, 3, 4, 5, 6),
    "hour": datetime.time(8, 30),
    "whole": 5.0,
    "share": 0.25,
    "ok": True,
    "error": "#DIV/0!",
    "none": None,
    "text": " Zoë _x000B_ ",
}


def book(tmp_path, sheets, filename="in.xlsx"):
    made = Workbook()
    made.remove(made.active)
    for name, rows in sheets.items():
        sheet = made.create_sheet(name)
        for row in rows:
            sheet.append(row)
    path = tmp_path / filename
    made.save(path)
    return path


SHEET = "xl/worksheets/sheet1.xml"


def replaced(path, part, change):
    """Change the content of one part of a spreadsheet."""
    packed = io.BytesIO()
    with zipfile.ZipFile(path) as old, zipfile.ZipFile(packed, "w", zipfile.ZIP_DEFLATED) as new:
        for name in old.namelist():
            content = old.read(name)
            new.writestr(name, change(content) if name == part else content)
    path.write_bytes(packed.getvalue())


def test_cells_have_types(program, tmp_path):
    path = book(tmp_path, {"People": [list(TYPED), list(TYPED.values())]})
    (one,) = load(path, id="id")
    assert one.id == "7"
    assert one.properties == {
        "zip": ("00123",),
        "born": ("1915-12-10",),
        "seen": ("2024-02-03T04:05:06",),
        "hour": ("08:30:00",),
        "whole": ("5",),
        "share": ("0.25",),
        "ok": ("true",),
        "text": ("Zoë",),
    }
    assert (one.source, one.place) == ("in.xlsx", "in.xlsx:2")
    ran = program("load", path, "--id", "id", "-o", tmp_path / "f.jsonl")
    assert ran.err.splitlines()[1:] == [
        "  errors of a spreadsheet read as missing: 1",
        f'{path}: sheet "People", 1 row, 11 columns; ids from the column "id"',
    ]


def test_formulas_are_what_they_gave(tmp_path):
    path = book(tmp_path, {"A": [["name", "sum"], ["Ann", "=1+1"]]})
    for empty in (b"<v></v>", b"<v/>", b"<v />"):
        replaced(path, SHEET, lambda old, empty=empty: old.replace(empty, b"<v>2</v>"))
    assert load(path)[0].properties == {"name": ("Ann",), "sum": ("2",)}


def test_a_sheet_by_name(program, tmp_path):
    path = book(
        tmp_path,
        {"Notes": [["text"], ["x"]], "Members": [[], ["name", "town"], [], ["Ann", None], ["Bo"]]},
    )
    first = program("load", path)
    assert b'"text":["x"]' in first.out
    assert (
        'sheet "Notes" of 2 (--set source.sheet=NAME selects another), 1 row, 1 column' in first.err
    )
    found = load(path, sheet="Members")
    assert [(x.names, x.place) for x in found] == [
        (("Ann",), "in.xlsx/Members:4"),
        (("Bo",), "in.xlsx/Members:5"),
    ]
    with pytest.raises(BadRecord, match='expected a sheet "Orders", got the sheets Notes, Members'):
        load(path, sheet="Orders")


@pytest.mark.parametrize(
    ("rows", "sentence"),
    [
        ([], "expected a header row, got an empty sheet"),
        ([["name"]], "expected rows below the header, got none"),
    ],
)
def test_tables_that_are_none(program, tmp_path, rows, sentence):
    ran = program("load", book(tmp_path, {"A": rows}), "-o", tmp_path / "f.jsonl")
    assert ran.code == 1
    assert sentence in ran.err
    assert ran.err.count("\n") == 1


BOMB = (
    '<?xml version="1.0"?><!DOCTYPE a [<!ENTITY a "aaaaaaaaaa"><!ENTITY b "&a;&a;&a;&a;&a;">]>'
    '<worksheet xmlns="http://schemas.openxmlformats.org/spreadsheetml/2006/main"><sheetData><row><c><v>&b;</v></c></row></sheetData>'
    "</worksheet>"
)


@pytest.mark.parametrize("part", [SHEET, "xl/workbook.xml", "xl/styles.xml"])
def test_entities_are_refused(program, tmp_path, part):
    path = book(tmp_path, {"A": [["name"], ["Ann"]]})
    replaced(path, part, lambda _: BOMB)
    ran = program("load", path)
    assert ran.code == 1
    assert "EntitiesForbidden" in ran.err
    assert ran.err.count("\n") == 1


def test_what_it_unpacks_to_is_bounded(program, tmp_path):
    path = book(tmp_path, {"A": [["name"], ["Ann"]]})
    replaced(path, "xl/styles.xml", lambda _: b" " * (65 << 20))
    ran = program("load", path)
    assert ran.code == 1
    assert "expected a spreadsheet with at most 16 MiB of XML at once, got more" in ran.err


def test_rows_far_away_end(program, tmp_path):
    """A row number of any size must not be counted up to."""
    path = book(tmp_path, {"A": [["name"], ["Ann"]]})
    replaced(path, SHEET, lambda old: old.replace(b'<row r="2"', b'<row r="999999999999"'))
    ran = program("load", path)
    assert ran.code == 1
    assert (
        "expected row numbers that grow to at most 1,048,576, got 999999999999 after 1" in ran.err
    )


def test_without_the_extra(monkeypatch):
    monkeypatch.setitem(__import__("sys").modules, "openpyxl", None)
    for what in (lambda: load("x.xlsx"), lambda: __import__("kbforge").export([], "x.xlsx")):
        with pytest.raises(KBForgeError, match=r": pip install .*\[excel\]'$"):
            what()


def test_there_and_back(program, tmp_path):
    """What an export writes is text: nothing in it is a formula, and load reads it unchanged."""
    values = ["=1+1", "+49-174", "@x", "-2", "#N/A!", "a\x0bb", "_x0041_", "00123", "ok"]
    (tmp_path / "in.csv").write_text(
        "id,town\n" + "".join(f'{k},"{value}"\n' for k, value in enumerate(values)), newline=""
    )
    load_ = program("load", tmp_path / "in.csv", "--id", "id", "-o", tmp_path / "f.jsonl")
    assert load_.code == 0, load_.err
    options = ("--likelihood", "attributes", "--alpha", "1000000", "--link", "source")
    made = program("cluster", tmp_path / "f.jsonl", *options, "-o", tmp_path / "kb.jsonl")
    assert made.code == 0, made.err
    ran = program(
        *("export", tmp_path / "kb.jsonl", "--fragments", tmp_path / "f.jsonl"),
        *("-o", tmp_path / "kb.xlsx"),
    )
    assert ran.code == 0, ran.err
    cells = [cell for row in load_workbook(tmp_path / "kb.xlsx")["entities"] for cell in row]
    assert {cell.data_type for cell in cells if isinstance(cell.value, str)} == {"s"}
    assert {c.value for c in cells if c.quotePrefix} >= {"=1+1", "+49-174", "@x"}
    back = load(tmp_path / "kb.xlsx", id="entity_id")
    assert {value for x in back for value in x.properties["town"]} == set(values)
    pieces = load(tmp_path / "kb.xlsx", id="fragment", sheet="fragments")
    assert {(x.id, x.properties["source"], x.properties["row"]) for x in pieces} == {
        (str(k), ("in.csv",), (str(k + 2),)) for k in range(len(values))
    }
