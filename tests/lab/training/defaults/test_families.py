"""Resampled files are files of their own: sizes, ids, labels, names first, the same each time."""

from __future__ import annotations

from collections import Counter
from pathlib import Path

import pytest

from kbforge.contracts import Fragment
from kbforge.errors import UsageError
from kbforge.files.fragments import write_fragments
from kbforge_lab.training.defaults.families import (
    FAMILIES,
    Family,
    family_named,
    generated,
    resampled,
)


def _name(entity: int) -> str:
    """Half of the entities share their name with two others; all share a word."""
    return f"Name{entity // 3 if entity < 300 else entity} Common"


@pytest.fixture(scope="module")
def toy(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, Family]:
    """A family of one file: clusters of up to 1000, the label in every id."""
    root = tmp_path_factory.mktemp("data")
    fragments = [
        Fragment(
            f"label{entity}-{member}",
            {
                "city": (f"c{entity % 7}",),
                "name": (f"Name{entity // 3 if entity < 300 else entity} Common",),
            },
            label=f"label{entity}",
            source="where",
        )
        for entity in range(600)
        for member in range(1000 if entity == 0 else entity % 5 + 1)
    ]
    write_fragments(fragments, root / "toy.jsonl")
    return root, Family("toy", ("toy.jsonl",), ships=True)


def test_files_are_small_and_say_nothing_of_their_labels(toy: tuple[Path, Family]) -> None:
    files = list(resampled(*toy, 24, seed=1))
    assert len({file.name for file in files}) == 24
    for file in files:
        assert 150 <= len(file.fragments) <= 600 + 120
        ids = [f.id for f in file.fragments]
        assert len(set(ids)) == len(ids)
        assert not any("label" in fragment_id for fragment_id in ids)
        assert all(f.label and f.source is None for f in file.fragments)
        assert all(next(iter(f.properties)) == "name" for f in file.fragments)
        assert max(Counter(f.label for f in file.fragments).values()) <= 144


def test_files_vary_and_repeat(toy: tuple[Path, Family]) -> None:
    files = list(resampled(*toy, 24, seed=1))
    assert files[:5] == list(resampled(*toy, 5, seed=1))
    assert files[:5] != list(resampled(*toy, 5, seed=2))
    names_only = [all("city" not in f.properties for f in file.fragments) for file in files]
    assert 0 < sum(names_only) < 24
    # shares of fragments whose name another entity bears
    shares = []
    for file in files:
        bearers: dict[str, set[str | None]] = {}
        for f in file.fragments:
            bearers.setdefault(f.names[0], set()).add(f.label)
        shares.append(
            sum(len(bearers[f.names[0]]) > 1 for f in file.fragments) / len(file.fragments)
        )
    assert max(shares) - min(shares) > 0.4


def test_generated_files() -> None:
    files = list(generated(9, seed=5))
    assert files == list(generated(9, seed=5))
    assert {file.name.split("-")[0] for file in files} == {"people", "organisations", "products"}
    for file in files:
        assert file.family == "generated"
        assert len({f.id for f in file.fragments}) == len(file.fragments) >= 150
        assert all(f.names and f.label for f in file.fragments)
    assert list(resampled(Path("nowhere"), family_named("generated"), 9, seed=5)) == files


def test_a_family_without_that_name() -> None:
    assert len({family.name for family in FAMILIES}) == len(FAMILIES)
    with pytest.raises(UsageError, match=r'expected one of febrl, .* got "febr"'):
        family_named("febr")


@pytest.mark.data
@pytest.mark.parametrize("family", FAMILIES, ids=lambda family: family.name)
def test_every_family_can_be_drawn_from(family: Family, data_dir: Path) -> None:
    (file,) = resampled(data_dir, family, 1, seed=0)
    assert len(file.fragments) >= 150
