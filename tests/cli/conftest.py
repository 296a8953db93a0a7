"""A small knowledge base and its fragments as files."""

from __future__ import annotations

import math

import orjson
import pytest

from kbforge.contracts import Fragment, Particle, Posterior, Subproblem
from tests.assembled import assemble

FRAGMENTS = [
    Fragment("r1", {"name": ("Ada Lovelace",)}, label="Q1", source="census"),
    Fragment("r2", {"name": ("Ada",), "born": ("1815",)}, label="Q1"),
    Fragment("r3", {"name": ("Ada",)}, label="Q2"),
    Fragment("r4", {"name": ("Zoë",)}, label="Q3"),
]


def lines(values):
    return b"".join(orjson.dumps(value.to_json()) + b"\n" for value in values)


@pytest.fixture
def files(tmp_path, monkeypatch):
    """kb.jsonl and gold.jsonl in the working directory; r3 is with r1 and r2 at .75."""
    monkeypatch.chdir(tmp_path)
    block = Subproblem(
        (0, 1, 2),
        (Particle(math.log(0.75), ((0, 1, 2),)), Particle(math.log(0.25), ((0, 1), (2,)))),
    )
    other = Subproblem((3,), (Particle(0.0, ((3,),)),))
    entities = list(assemble(FRAGMENTS, Posterior((block, other), 0.0, 4, 0)))
    (tmp_path / "kb.jsonl").write_bytes(lines(entities))
    (tmp_path / "gold.jsonl").write_bytes(lines(FRAGMENTS))
    return entities
