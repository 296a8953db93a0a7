"""The reader that stands for neo4j-admin can refuse."""

from __future__ import annotations

import pytest

from tests.exporters import neo4j_import


@pytest.mark.parametrize("header", ["a:text", ":ID(Per son)", "a[]", ":string[]", "a:ID:ID", "{a}"])
def test_headers_that_are_none(header):
    with pytest.raises(AssertionError):
        neo4j_import.fields([(header, True)])


@pytest.mark.parametrize("header", ["a", "a:string[]", ":ID", "id:ID(Person)", ":IGNORE", "a:long"])
def test_headers_that_are(header):
    assert neo4j_import.fields([(header, True)])


def test_files_that_do_not_hold_together(tmp_path):
    (tmp_path / "a.csv").write_text('":ID(A)",":LABEL"\n"1","A"\n')
    rows = tmp_path / "b.csv"
    rows.write_text('":START_ID(A)",":END_ID(A)",":TYPE"\n"1","1","x"\n')
    assert neo4j_import.read(tmp_path)[1] == [("1", "1", "x")]
    for wrong in ('"1","2","x"', '"1","1",', '"1","1"', '"1","1","x" '):
        rows.write_text(f'":START_ID(A)",":END_ID(A)",":TYPE"\n{wrong}\n')
        with pytest.raises((AssertionError, KeyError)):
            neo4j_import.read(tmp_path)
    rows.write_text('":ID(A)",":LABEL"\n"1","A"\n')
    with pytest.raises(AssertionError):
        neo4j_import.read(tmp_path)
