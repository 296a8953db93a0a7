"""Tables beyond their contract: columns, cells of several values, and formulas."""

import csv
import io

import pytest

from kbforge.contracts import Entity, Fragment, Value
from kbforge.errors import KBForgeError
from kbforge.kb.view import EntitiesView
from kbforge_plugins.exporters.tables import (
    ENTITY_COLUMNS,
    VALUE_COLUMNS,
    ContradictionsExporter,
    CsvExporter,
    MembersExporter,
    WideExporter,
    safe,
)
from tests.exporters.exporting import exported, records, rows


def table(entities, **options):
    return records(CsvExporter(**options), entities)


def named(text):
    """An entity that has one text for everything."""
    return Entity(text, text, {text: (Value(text, (text,)),)}, (text,), 0.5, 0)


def test_one_row_a_value():
    ada = Entity(
        "e-1",
        "Ada",
        {"name": (Value("Ada", ("a|1", "b\\")), Value("A.", ("c",)))},
        ("a|1", "b\\", "c"),
        0.75,
        3,
        vector=(0.5, -2.0),
        reported=0.5,
    )
    values = [
        ["name", "Ada", "2", "a\\|1|b\\\\"],
        ["name", "A.", "1", "c"],
        ["", "0.5 -2.0", "3", "a\\|1|b\\\\|c"],
    ]
    assert rows(CsvExporter(), [ada]) == [
        list(VALUE_COLUMNS),
        *(["e-1", "Ada", *value, "0.75", "3", "0.5"] for value in values),
    ]


def test_contradictions_are_listed_with_who_states_them():
    towns = (Value("York", ("a", "b"), 0.3), Value("Leeds", ("c",), 0.6), Value("n/a", ("d",), 0.0))
    stated = {"name": (Value("Ann", ("a",)),), "town": towns}
    ann = Entity("e-1", "Ann", stated, ("a", "b", "c", "d"), 1.0, 0)
    other = Entity("e-2", "Bo", {"town": (Value("York", ("x",)),)}, ("x",), 1.0, 0)
    found = records(ContradictionsExporter(), [ann, other])
    assert [(row["value"], row["confidence"], row["fragments"]) for row in found] == [
        ("Leeds", "0.6", "c"),
        ("York", "0.3", "a|b"),
        ("n/a", "0.0", "d"),
    ]
    assert {row["attribute"] for row in found} == {"town"}
    assert {row["sources"] for row in found} == {""}
    sources = {"a": "till", "b": "web", "c": "till", "d": None, "x": None}
    known = [Fragment(id, {"town": ("York",)}, source=of) for id, of in sources.items()]
    _, *lines = ContradictionsExporter().rows(EntitiesView(lambda: iter([ann]), known))
    assert [line[-2:] for line in lines] == [("till", None), ("till|web", None), ("", None)]


def test_an_entity_without_properties_is_not_lost():
    (row,) = table([Entity("e-1", "p", {}, ("p",), 1.0, 0)])
    assert (row["entity_id"], row["attribute"], row["value"]) == ("e-1", "", "")
    assert row["reported"] == ""


def test_the_separator_is_an_option():
    (row,) = table([Entity("e", "p", {}, ("p", "q|r", "s;t"), 1.0, 0)], separator=";")
    assert row["fragments"] == "p;q|r;s\\;t"
    (_, row) = wide([ADA], separator=";")
    assert row[-2] == "A.;Ada;Al|ce"


@pytest.mark.parametrize(("value", "guarded"), [("=1+1", "'=1+1"), ("+49 174 5", "+49 174 5")])
def test_formulas_are_guarded_and_numbers_are_not(value, guarded):
    (row,) = table([named(value)])
    cells = [row[c] for c in ("entity_id", "name", "attribute", "value", "fragments")]
    assert cells == [guarded] * 5
    (row,) = table([named(value)], guard_formulas=False)
    assert row["value"] == value


def test_the_header_stands_alone_when_there_are_no_entities():
    assert exported(CsvExporter(), []).decode() == '"' + '","'.join(VALUE_COLUMNS) + '"\r\n'


# The CSV that every exporter of tables writes: quotes, and what is a formula.


ALL = pytest.mark.parametrize("exporter", [CsvExporter, MembersExporter, WideExporter])


@pytest.mark.parametrize(
    "formula",
    [
        "=1+1", "@SUM(A1)", "+1-1", "-cmd' /C calc'!A0", "\t=1", "\r=1", "  =1",
        "＝1+1", "＋1-1", "－1+1", "＠SUM(A1)", " ＝1",
        "+49-174-123", "+49 174 A1", "+A1", "-", "+", "+ 49", "-2+3",
        '+49 174 =HYPERLINK("x")', "+49 174\n=1", "+1 (=1) 2",
    ],
)  # fmt: skip
def test_formulas_are_guarded(formula):
    assert safe(formula) == f"'{formula}"


@pytest.mark.parametrize(
    "value",
    [
        "-5", "-3.5", "+3.25e-4", "1,000", "-1.234,50", "+49174123456",
        "+49 174 123", "+49 174 123-45", "+1 (310) 246 1501", "+1 (310) 246-1501", "+44 (0)20 7946",
        "a=1", "'quoted'", "", "x@y.z",
    ],
)  # fmt: skip
def test_numbers_and_phone_numbers_are_not(value):
    assert safe(value) == value


@ALL
def test_every_cell_stands_in_quotes(exporter):
    hostile = 'a;b\t"c"\n＝d'
    text = exported(exporter(), [named(hostile)]).decode()
    # what is left without the quoted cells is commas and line ends
    cells = [cell for row in csv.reader(io.StringIO(text, newline="")) for cell in row]
    for cell in cells:
        text = text.replace('"{}"'.format(cell.replace('"', '""')), "", 1)
    assert set(text) == {",", "\r", "\n"}
    assert hostile in cells


@ALL
def test_formulas_are_guarded_everywhere_or_nowhere(exporter):
    evil = "=1+1"
    for options, unlike in (({}, evil), ({"guard_formulas": False}, f"'{evil}")):
        cells = [c for row in rows(exporter(**options), [named(evil)]) for c in row]
        assert unlike not in cells
        assert cells.count(evil) + cells.count(f"'{evil}") >= 3


# One row per entity: its values joined, and columns that are named alike.


def entity(number, properties, **fields):
    values = {
        key: tuple(Value(v, tuple(f"f{i}" for i in range(n))) for v, n in held)
        for key, held in properties.items()
    }
    return Entity(f"e{number}", f"N{number}", values, ("f0", "f1", "f2"), 0.75, 0, **fields)


def wide(entities, **options):
    return rows(WideExporter(**options), entities)


ADA = entity(
    1,
    {"name": [("A.", 1), ("Ada", 2), ("Al|ce", 1)], "born": [("1815", 1)]},
    reported=0.5,
)
BOB = entity(2, {"town": [("Rome", 1)], "name": [("Bob", 3)]})


def test_one_row_an_entity_and_a_column_an_attribute():
    assert wide([ADA, BOB]) == [
        [*ENTITY_COLUMNS, "town", "name", "born"],
        ["e1", "N1", "0.75", "0.5", "3", "", "A.|Ada|Al\\|ce", "1815"],
        ["e2", "N2", "0.75", "", "3", "Rome", "Bob", ""],
    ]


def test_attributes_named_like_a_column():
    odd = entity(1, {"confidence": [("high", 1)], "vector": [("v", 1)]}, vector=(0.5, -2.0))
    header, row = wide([odd])
    assert header[5:] == ["confidence~2", "vector", "vector~2"]
    assert row[5:] == ["high", "v", "0.5 -2.0"]


def test_a_guarded_attribute_may_look_like_another():
    header, row = wide([entity(1, {"=x": [("a", 1)], "'=x": [("b", 1)]})])
    assert dict(zip(header[5:], row[5:], strict=True)) == {"'=x": "a", "'=x~2": "b"}


def test_no_entities_and_entities_without_properties():
    assert wide([]) == [list(ENTITY_COLUMNS)]
    assert wide([entity(1, {})])[1] == ["e1", "N1", "0.75", "", "3"]


def test_the_order_of_entities_does_not_move_columns():
    assert wide([ADA, BOB])[0] == wide([BOB, ADA])[0]


def test_more_attributes_than_a_spreadsheet_has_columns():
    many = entity(1, {f"a{i}": [("x", 1)] for i in range(16_380)})
    with pytest.raises(KBForgeError, match="at most 16,384 columns"):
        wide([many])
