"""The CSV that every exporter of tables writes: quotes, and what is a formula."""

from __future__ import annotations

import csv
import io

import pytest

from kbforge.contracts import Entity, Value
from kbforge_plugins.exporters.tables import CsvExporter, MembersExporter, WideExporter, safe
from tests.exporters.exporting import exported

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
    entity = Entity(hostile, hostile, {hostile: (Value(hostile, (hostile,)),)}, (hostile,), 0.5, 0)
    text = exported(exporter(), [entity]).decode()
    # what is left without the quoted cells is commas and line ends
    cells = [cell for row in csv.reader(io.StringIO(text, newline="")) for cell in row]
    for cell in cells:
        text = text.replace('"{}"'.format(cell.replace('"', '""')), "", 1)
    assert set(text) == {",", "\r", "\n"}
    assert hostile in cells


@ALL
def test_formulas_are_guarded_everywhere_or_nowhere(exporter):
    evil = "=1+1"
    entity = Entity(evil, evil, {evil: (Value(evil, (evil,)),)}, (evil,), 0.5, 0)
    for options, unlike in (({}, evil), ({"guard_formulas": False}, f"'{evil}")):
        written = exported(exporter(**options), [entity]).decode()
        cells = [c for row in csv.reader(io.StringIO(written)) for c in row]
        assert unlike not in cells
        assert cells.count(evil) + cells.count(f"'{evil}") >= 3
