"""Files with one JSON value a line."""

import json
from collections.abc import Iterable
from pathlib import Path
from typing import Any


def write_lines(path: Path | str, values: Iterable[Any]) -> Path:
    path = Path(path)
    path.write_text("".join(json.dumps(value) + "\n" for value in values))
    return path


def read_lines(path: Path | str) -> list[Any]:
    return [json.loads(line) for line in Path(path).read_text().splitlines()]


def groups_in(kb: Path | str) -> list[list[str]]:
    """The ids of the fragments of each entity, all in order."""
    return sorted(sorted(entity["fragments"]) for entity in read_lines(kb))


def members_of(kb: Path | str) -> list[str]:
    """The ids of all fragments, in order: each once, if each is in exactly one entity."""
    return sorted(id for group in groups_in(kb) for id in group)
