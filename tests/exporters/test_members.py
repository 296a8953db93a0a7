"""Members: one row a fragment, entity by entity."""

from __future__ import annotations

import csv
import io

from kbforge.contracts import Entity
from kbforge_plugins.exporters.tables import MEMBER_COLUMNS, MembersExporter
from tests.exporters.exporting import exported


def test_one_row_a_fragment():
    ada = Entity("e1", "Ada", {}, ("b", "a"), 0.5, 3, reported=0.75)
    bob = Entity("e2", "Bob", {}, ("c",), 1.0, 4)
    written = exported(MembersExporter(), [ada, bob]).decode()
    assert list(csv.reader(io.StringIO(written, newline=""))) == [
        list(MEMBER_COLUMNS),
        ["b", "e1", "Ada", "0.5", "0.75"],
        ["a", "e1", "Ada", "0.5", "0.75"],
        ["c", "e2", "Bob", "1.0", ""],
    ]
