"""Every verb that opens a store, as a command with what it says and leaves."""

from __future__ import annotations

import shutil
from collections.abc import Mapping
from pathlib import Path

import orjson

from tests.program import Run
from tests.store.dump import dump
from tests.store.fixtures.version_2 import fragments

READING = {
    "status": "status STORE --json",
    "check": "check STORE --json",
    "show": "show STORE --top 3",
    "show --id": "show STORE --id {entity}",
    "show --fragment": "show STORE --fragment {a}",
    "export": "export STORE -o -",
    "evaluate": "evaluate STORE GOLD --partial --json",
    "explain": "explain STORE --fragment {a} --json",
    "similarity": "show STORE --similarity {a} {b} --json",
    "changes": "changes STORE --since 3",
    "report": "report STORE -o -",
    "decide --list": "decide STORE --list",
}
WRITING = {
    "cluster": "cluster MORE --into STORE",
    "decide": "decide STORE different {a} {b}",
    "undo": "decide STORE --undo 4",
    "undo earlier": "decide STORE --undo 3",
    "remove": "remove STORE {a}",
    "remove --secure": "remove STORE {a} --secure",
    "refit": "refit STORE",
    "revisit": "refit STORE --search",
    "review": "review STORE --count 1 --json",
}
VERBS = READING | WRITING


def ending(program: Run, verb: str, store: Path) -> tuple[int, object]:
    """How a verb ends: its exit code, and what it says or leaves; of a failure its sentence."""
    told = fragments(store.stem)
    gold, more = store.parent / "gold.jsonl", store.parent / "more.jsonl"
    gold.write_bytes(_lines([{**one, "label": str(one["id"]).split("-")[0]} for one in told]))
    new: dict[str, object] = {"id": "new", "properties": {"name": ["Olga Newman"]}}
    more.write_bytes(_lines([*told[:3], new]))
    names = {"a": told[0]["id"], "b": told[1]["id"], "entity": ENTITY[store.stem]}
    places = {"STORE": store, "GOLD": gold, "MORE": more}
    code, said = answer(program, VERBS[verb].format(**names), places)
    return code, said if code or verb in READING else dump(store)


def answer(program: Run, command: str, places: Mapping[str, Path]) -> tuple[int, bytes | str]:
    """How a command ends whose files have names: its exit code, and what it says."""
    ran = program(*(places.get(word, word) for word in command.split()), stdin=b'{"same": false}\n')
    return (ran.code, ran.err) if ran.code else (0, ran.out)


def _lines(told: list[dict[str, object]]) -> bytes:
    return b"".join(orjson.dumps(one) + b"\n" for one in told)


ENTITY: dict[str, str] = {"records": "e-1f1677f3baa9", "mentions": "e-33665a10dc2b"}
"""An entity of each fixture."""


def fresh(whole: Path, store: Path) -> None:
    """Put a copy of a store there, a new file without the log of what was there before."""
    for ending in ("", "-wal", "-shm"):
        Path(f"{store}{ending}").unlink(missing_ok=True)
    shutil.copy(whole, store)
