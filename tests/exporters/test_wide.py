"""One row an entity: its values joined, and columns that are named alike."""

from __future__ import annotations

import csv
import io

import pytest

from kbforge.contracts import Entity, Value
from kbforge.errors import KBForgeError, UsageError
from kbforge_plugins.exporters.tables import ENTITY_COLUMNS, WideExporter
from tests.exporters.exporting import exported


def entity(number, properties, **fields):
    values = {
        key: tuple(Value(v, tuple(f"f{i}" for i in range(n))) for v, n in held)
        for key, held in properties.items()
    }
    return Entity(f"e{number}", f"N{number}", values, ("f0", "f1", "f2"), 0.75, 0, **fields)


def table(entities, **options):
    written = exported(WideExporter(**options), entities).decode()
    return list(csv.reader(io.StringIO(written, newline="")))


ADA = entity(
    1,
    {"name": [("A.", 1), ("Ada", 2), ("Al|ce", 1)], "born": [("1815", 1)]},
    reported=0.5,
)
BOB = entity(2, {"town": [("Rome", 1)], "name": [("Bob", 3)]})


def test_one_row_an_entity_and_a_column_an_attribute():
    assert table([ADA, BOB]) == [
        [*ENTITY_COLUMNS, "town", "name", "born"],
        ["e1", "N1", "0.75", "0.5", "3", "", "A.|Ada|Al\\|ce", "1815"],
        ["e2", "N2", "0.75", "", "3", "Rome", "Bob", ""],
    ]


def test_the_separator_is_an_option():
    (_, row) = table([ADA], separator=";")
    assert row[-2] == "A.;Ada;Al|ce"


def test_attributes_named_like_a_column():
    odd = entity(1, {"confidence": [("high", 1)], "vector": [("v", 1)]}, vector=(0.5, -2.0))
    header, row = table([odd])
    assert header[5:] == ["confidence~2", "vector", "vector~2"]
    assert row[5:] == ["high", "v", "0.5 -2.0"]


def test_a_guarded_attribute_may_look_like_another():
    header, row = table([entity(1, {"=x": [("a", 1)], "'=x": [("b", 1)]})])
    assert dict(zip(header[5:], row[5:], strict=True)) == {"'=x": "a", "'=x~2": "b"}


def test_no_entities_and_entities_without_properties():
    assert table([]) == [list(ENTITY_COLUMNS)]
    assert table([entity(1, {})])[1] == ["e1", "N1", "0.75", "", "3"]


def test_the_order_of_entities_does_not_move_columns():
    assert table([ADA, BOB])[0] == table([BOB, ADA])[0]


def test_more_attributes_than_a_spreadsheet_has_columns():
    many = entity(1, {f"a{i}": [("x", 1)] for i in range(16_380)})
    with pytest.raises(KBForgeError, match="at most 16,384 columns"):
        table([many])


def test_impossible_separators_are_refused():
    with pytest.raises(UsageError, match="exporter wide: separator must be one character"):
        WideExporter(separator="")
