"""Groupings by hand: by name, and by the labels as far as what is said tells fragments apart."""

from __future__ import annotations

from pathlib import Path

import pytest

from kbforge.contracts.fragment import Fragment
from kbforge.evaluation.scores import compare
from kbforge.files.fragments import read_fragments
from kbforge_lab.bench.baselines import ceiling, exact_name


def fragment(number: int, label: str = "a", **said: str | tuple[str, ...]) -> Fragment:
    values = {k: (v,) if isinstance(v, str) else v for k, v in said.items()}
    return Fragment(f"f{number}", values, label=label)


def together(labels: list[object]) -> list[list[int]]:
    return [[k for k, one in enumerate(labels) if one == other] for other in dict.fromkeys(labels)]


def test_one_name_whatever_its_case_is_one_entity() -> None:
    held = [
        fragment(0, name="Ada Byrne", born="1901"),
        fragment(1, name="ADA BYRNE"),
        fragment(2, name=("Ada Byrne", "A. Byrne")),
        fragment(3, name=("A. Byrne", "Ada Byrne")),
        fragment(4, born="1901"),
        fragment(5, born="1901"),
    ]
    assert together(exact_name(held)) == [[0, 1, 2], [3], [4], [5]]


def test_records_may_have_their_name_in_two_parts() -> None:
    held = [
        fragment(0, first_name="Ada", surname="Byrne"),
        fragment(1, first_name="ada", surname="byrne", born="1901"),
        fragment(2, surname="Byrne"),
        fragment(3, surname="BYRNE"),
    ]
    assert together(exact_name(held)) == [[0, 1], [2, 3]]


def test_a_name_is_no_id() -> None:
    """A fragment without a name stands alone, also beside one that is called as its id is."""
    held = [fragment(0, name="f1"), fragment(1, born="1901"), fragment(2, first_name="f1")]
    assert together(exact_name(held)) == [[0], [1], [2]]


def test_the_ceiling_gives_equal_fragments_the_label_of_most() -> None:
    held = [
        fragment(0, "a", name="Byrne"),
        fragment(1, "a", name="Byrne"),
        fragment(2, "b", name="Byrne"),
        fragment(3, "b", name="Byrne", born="1901"),
        fragment(4, "a", born="1901", name="Ada"),
        fragment(5, "a", name="Ada", born="1901"),
    ]
    assert ceiling(held) == ["a", "a", "a", "b", "a", "a"]
    apart = [Fragment(f"p{k}", {}, (float(k),), str(k)) for k in range(3)]
    assert ceiling(apart) == ["0", "1", "2"]


@pytest.mark.data
@pytest.mark.parametrize(
    ("file", "names", "best"),
    [
        ("confusable/wd50_dev.jsonl", (0.774, 0.808, 0.724), (0.866, 0.977, 0.896)),
        ("confusable/dwie100_dev.jsonl", (0.848, 0.793, 0.750), (0.977, 0.998, 0.983)),
        ("restaurant/restaurant_864.jsonl", (0.993, 0.965, 0.972), (1.0, 1.0, 1.0)),
    ],
)
def test_they_are_those_that_the_data_come_with(
    data_dir: Path, file: str, names: tuple[float, ...], best: tuple[float, ...]
) -> None:
    held = list(read_fragments(str(data_dir / file)))
    gold = [one.label for one in held]
    for found, known in ((exact_name(held), names), (ceiling(held), best)):
        scores = compare(found, gold)
        ours = (scores.bcubed_precision, scores.bcubed_recall, scores.bcubed_f1_item_mean)
        assert ours == pytest.approx(known, abs=5e-4)
