"""Records of people with slips of the pen, for the verbs that learn from records."""

from __future__ import annotations

import json
import random
from pathlib import Path

_FIRST = (
    "margaret",
    "bertrand",
    "ines",
    "oskar",
    "yusuf",
    "clara",
    "dmitri",
    "edith",
    "farid",
    "greta",
)
_LAST = (
    "ohlsson",
    "okonkwo",
    "carvalho",
    "lindqvist",
    "demir",
    "novak",
    "petrov",
    "smythe",
    "rahimi",
)
_TOWNS = ("lund", "lyon", "porto", "oslo", "izmir", "brno", "tver", "bath")


def write_people(path: Path, entities: int = 40, seed: int = 1) -> Path:
    """Three to six records of each, with a label; one value in six is missing or has a slip."""
    rng = random.Random(seed)
    lines = []
    for entity in range(entities):
        true = {
            "first name": rng.choice(_FIRST),
            "surname": rng.choice(_LAST) + rng.choice(("", "-berg", "-hall")),
            "born": f"19{rng.randrange(10, 99)}-0{rng.randrange(1, 10)}-{rng.randrange(10, 29)}",
            "town": rng.choice(_TOWNS),
        }
        for copy in range(rng.randrange(3, 7)):
            kept = {
                name: [_seen(value, rng)] for name, value in true.items() if rng.random() > 0.08
            }
            fragment = {"id": f"p{entity}-{copy}", "properties": kept or {"town": [true["town"]]}}
            lines.append(json.dumps(fragment | {"label": f"P{entity}"}))
    rng.shuffle(lines)
    path.write_text("\n".join(lines) + "\n")
    return path


def _seen(value: str, rng: random.Random) -> str:
    if rng.random() > 0.08:
        return value
    at = rng.randrange(len(value))
    return (
        value[:at]
        + rng.choice("0123456789" if value[at].isdigit() else "aeiourst")
        + value[at + 1 :]
    )
