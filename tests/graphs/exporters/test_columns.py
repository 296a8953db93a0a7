"""Columns of Neo4j's files stand in the order of the table that was read."""

from __future__ import annotations

import csv

import kbforge
from tests.exporters.test_columns import columns, store, table, view_of

__all__ = ["store", "table"]


def test_columns_stand_in_the_order_of_the_file(store, table, tmp_path):
    folder = tmp_path / "neo4j"
    kbforge.export(view_of(store).entities(), folder, format="neo4j")
    for file, skip in (("entities.csv", 5), ("fragments.csv", 3)):
        first = next(csv.reader((folder / file).open(encoding="utf-8")))
        assert [cell.partition(":")[0] for cell in first[skip:-1]] == columns(table)
