"""What all indexes share: checked options, likeness, and one entity of many equal fragments."""

from __future__ import annotations

from typing import Any

import pytest

from kbforge import registry
from kbforge.contracts import CandidateIndex, Fragment
from kbforge.errors import UsageError
from kbforge_plugins.indexes.recall import recall_of


def make(name: str, **options: object) -> CandidateIndex:
    index: CandidateIndex = registry.create("indexes", name, options)
    return index


BAD: list[tuple[str, dict[str, Any], str]] = [
    ("binary-hash", {"rows": 0}, "rows: expected 1 to 16, got 0"),
    ("binary-hash", {"part": 0.0}, "part: expected above 0 to 1, got 0.0"),
    ("binary-hash", {"part": 1.5}, "part: expected above 0 to 1, got 1.5"),
    ("minhash", {"shared": 0}, "shared: expected at least 1, got 0"),
    ("minhash", {"seed": -1}, "seed: expected at least 0, got -1"),
    ("minhash", {"single": -1}, "single: expected at least 0, got -1"),
    ("minhash", {"rows": 0}, "rows: expected 1 to 16, got 0"),
    ("minhash", {"bands": 513}, "bands: expected 1 to 512, got 513"),
    ("minhash", {"order": 9}, "order: expected 1 to 8, got 9"),
    ("ngrams", {"families": 0}, "families: expected at least 1, got 0"),
    ("ngrams", {"compared": -1}, "compared: expected at least 0, got -1"),
    ("ngrams", {"order": 1}, "order: expected 2 to 8, got 1"),
    ("ngrams", {"order": 9}, "order: expected 2 to 8, got 9"),
    ("projection", {"families": 0}, "families: expected at least 1, got 0"),
    ("projection", {"compared": -1}, "compared: expected at least 0, got -1"),
    (
        "projection",
        {"tables": 6},
        "tables: expected 1 to 512, a multiple of 4 unless by angles, got 6",
    ),
    ("projection", {"rows": 25}, "rows: expected 0 to 24, got 25"),
]


@pytest.mark.parametrize(("name", "options", "sentence"), BAD)
def test_bad_options(name: str, options: dict[str, Any], sentence: str) -> None:
    with pytest.raises(UsageError) as error:
        make(name, **options)
    assert str(error.value) == f"index {name}: {sentence}"


@pytest.mark.parametrize(
    ("name", "one", "other", "alike"),
    [
        ("binary-hash", {"part": 0.3}, {"part": 0.3, "compared": 0}, True),
        ("binary-hash", {"part": 0.3}, {"part": 0.4}, False),
        ("binary-hash", {"rows": 8}, {"rows": 9}, False),
        ("minhash", {"seed": 1}, {"seed": 1, "compared": 0}, True),
        ("minhash", {"seed": 1}, {"seed": 2}, False),
        ("minhash", {"single": 1}, {"single": 2}, False),
        ("ngrams", {"compared": 0, "families": 9}, {}, True),
        ("ngrams", {"order": 4}, {}, False),
        ("ngrams", {"attributes": ("name",)}, {}, False),
        ("projection", {"seed": 1}, {"seed": 1, "families": 9}, True),
        ("projection", {"seed": 1}, {"seed": 2}, False),
    ],
)
def test_indexes_are_alike_by_the_options_that_keys_depend_on(
    name: str, one: dict[str, Any], other: dict[str, Any], alike: bool
) -> None:
    assert make(name, **one).like(make(name, **other)) is alike


@pytest.mark.parametrize(
    ("name", "options"), [("minhash", {"bands": 4}), ("ngrams", {}), ("projection", {"tables": 4})]
)
def test_equal_fragments_lead_to_their_one_entity(name: str, options: dict[str, Any]) -> None:
    said = {"name": ("Ann Lee",)}
    same = [Fragment(str(i), said, (1.0, 2.0), label="x") for i in range(10_000)]
    index = make(name, **options)
    index.fit(same)
    found = recall_of(index, same)
    assert (found.recall, found.entities) == (1.0, 1)
    assert found.candidates <= 1
