"""All that a store says, as sorted lines: two stores that say the same have equal lines.

Left out is what does not belong to the content: how long runs lasted, when and who, whether
there is a log, and families of clusters that are no more, which a key forgets when it is next
followed.
"""

from __future__ import annotations

import sqlite3
from pathlib import Path

from kbforge.store.pages import numbers_from_bytes, page_from_bytes

_TABLES = {
    "meta": "name, value",
    "kept": "digest, content",
    "fragment": "number, id, place, subproblem, source, line",
    "page": "name, first, content",
    "mention": "key, content",
    "entity": "id, subproblem, members",
    "redirect": "id, targets",
    "image": "run, entity, fragments",
    "run": "number, verb, about, finished, added, removed, entities",
    "decision": "number, same, first, second, run, undone",
    "audit": "number, verb, run, decision",
    "erased": "decision, name, key, content",
}


def dump(path: Path | str) -> list[str]:
    """The lines of a store."""
    rows = sqlite3.connect(f"file:{path}?mode=ro", uri=True)
    try:
        there = {name for (name,) in rows.execute("SELECT name FROM sqlite_master")}
        lines = [
            f"{table} {row!r}"
            for table, columns in _TABLES.items()
            if table in there  # an older store lacks some
            for row in rows.execute(f"SELECT {columns} FROM {table}")
            if table != "meta" or row[0] not in ("log", "audit")
        ]
        return sorted(lines + _led(rows))
    finally:
        rows.close()


def _led(rows: sqlite3.Connection) -> list[str]:
    live = set()
    for name, content in rows.execute("SELECT name, content FROM page"):
        page = page_from_bytes(name, content)
        starts = page.lengths.cumsum() - page.lengths
        live |= {*page.members[starts].tolist()}
    lines = []
    for key, closed, families in rows.execute("SELECT key, closed, families FROM led"):
        postings = [family for family in numbers_from_bytes(families).tolist() if family in live]
        if postings or closed:
            lines.append(f"led {key} {closed} {postings}")
    return lines
