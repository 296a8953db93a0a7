"""The small sets that ship."""

from __future__ import annotations

import pytest

import kbforge
from kbforge import datasets
from kbforge.errors import UsageError
from tests.packaging.test_metadata import PROJECT, ROOT

NAMES = ("people", "mentions", "customers")


@pytest.mark.parametrize(
    ("name", "fragments", "entities"),
    [("people", 20, 8), ("mentions", 499, 120), ("customers", 1553, 615)],
)
def test_every_fragment_has_a_label_and_the_card_says_how_many(
    name: str, fragments: int, entities: int
) -> None:
    made = getattr(kbforge.datasets, name)()
    assert len(made) == fragments
    assert len({fragment.label for fragment in made}) == entities
    assert None not in {fragment.label for fragment in made}
    assert all("person" not in fragment.properties for fragment in made)
    card = datasets.card(name)
    assert card.startswith("# ")
    assert f"{fragments:,}" in card
    assert str(entities) in card
    assert "Licence: Apache-2.0" in card


def test_the_first_command_clusters_people_and_finds_most() -> None:
    fragments = kbforge.datasets.people()
    kb = kbforge.cluster(fragments)
    assert kbforge.evaluate(kb.entities, fragments).scores.bcubed_f1_item_mean > 0.8


def test_an_unknown_card_is_a_sentence() -> None:
    with pytest.raises(UsageError, match="expected one of people, mentions, customers"):
        datasets.card("nothing")


def test_a_wheel_has_every_file_of_a_set_and_they_are_small() -> None:
    copies = PROJECT["tool"]["hatch"]["build"]["targets"]["wheel"]["force-include"]
    wanted = {example for pair in datasets._EXAMPLES.values() for example in pair}
    assert {source.removeprefix("examples/") for source in copies} == wanted
    for name, pair in datasets._EXAMPLES.items():
        for example in pair:
            copied = f"kbforge/datasets/{name}.{example.rpartition('.')[2]}"
            assert copies[f"examples/{example}"] == copied
    assert sum((ROOT / source).stat().st_size for source in copies) < 300_000
