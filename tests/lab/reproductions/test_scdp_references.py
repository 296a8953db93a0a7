"""The reference matching experiment: nobody learns from an entity that is to be found."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.scripts import script

references = script("scdp_references")


@pytest.mark.data
@pytest.mark.parametrize("name", references.SETS)
def test_labelled_entities_are_others_than_those_to_be_grouped(data_dir: Path, name: str) -> None:
    for split in references.SPLITS[name]():
        known, new = ({f.label for f in part} for part in (split.train, split.test))
        assert len(known) >= 50
        assert not known & new
        assert not {f.id for f in split.train} & {f.id for f in split.test}


@pytest.mark.data
def test_every_reference_of_an_author_is_in_one_test_set(data_dir: Path) -> None:
    splits = list(references.of_cora())
    assert [len(split.test) for split in splits] == [756, 529, 594]
    assert len({f.id for split in splits for f in split.test}) == 1879
    authors = [{f.label for f in split.test} for split in splits]
    for name, labels in zip(("utgoff", "fahlman", "kibler"), authors, strict=True):
        assert any(label.startswith(name) for label in labels)
