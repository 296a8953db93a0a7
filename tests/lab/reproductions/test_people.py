"""Made-up people: the same for a seed, labelled, with errors, and in an order without pattern."""

import csv
from collections import Counter
from pathlib import Path

import numpy as np
import orjson
import pytest

from kbforge.files.fragments import read_fragments
from tests.scripts import script

made = script("people")


def labels(records: int, seed: int = 0) -> list[str]:
    return [label for chunk in made.people(records, seed) for label in chunk["label"]]


@pytest.mark.parametrize("records", [1, 2, 3, 100, 4_097, 30_000])
def test_every_record_has_its_place_in_the_random_order(records):
    order = made.shuffled(np.arange(records), records, made.Draws(0))
    assert sorted(order.tolist()) == list(range(records))
    assert records < 100 or np.mean(np.abs(np.diff(order)) < records / 10) < 0.3


@pytest.mark.parametrize("records", [1, 2, 50, 20_000])
def test_people_have_so_many_records_as_the_law_says(records):
    sizes = Counter(Counter(labels(records)).values())
    assert [sizes[size] for size in range(1, made.MOST_RECORDS + 1)] == made.sizes(records).tolist()


def test_few_people_have_many_records():
    law = made.sizes(100_000)
    assert (np.diff(law) < 0).all()
    assert law[0] / law[3] == pytest.approx(4**made.SIZE_LAW, rel=0.01)


def test_a_seed_always_makes_the_same_records_however_they_are_cut(monkeypatch, tmp_path):
    made.write(700, [tmp_path / "a.csv"], seed=1)
    monkeypatch.setattr(made, "CHUNK", 64)
    made.write(700, [tmp_path / "b.csv"], seed=1)
    made.write(700, [tmp_path / "c.csv"], seed=2)
    a, b, c = ((tmp_path / f"{name}.csv").read_bytes() for name in "abc")
    assert a == b != c


def test_all_formats_have_the_same_records(tmp_path: Path):
    parquet = pytest.importorskip("pyarrow.parquet")
    made.write(300, [tmp_path / f"people.{end}" for end in ("jsonl", "csv", "parquet")])
    with (tmp_path / "people.csv").open(newline="") as file:
        rows = [
            {name: value or None for name, value in row.items()} for row in csv.DictReader(file)
        ]
    assert parquet.read_table(tmp_path / "people.parquet").to_pylist() == rows
    fragments = list(read_fragments(str(tmp_path / "people.jsonl")))
    assert len(fragments) == 300
    for fragment, row in zip(fragments, rows, strict=True):
        said = {name: fragment.properties.get(name, (None,))[0] for name in made.ATTRIBUTES}
        assert {"id": fragment.id, "label": fragment.label, **said} == row


def test_records_of_a_person_differ_and_those_of_strangers_differ_more():
    chunk = next(made.people(5_000))
    rows = list(zip(*(chunk[name] for name in ("label", *made.ATTRIBUTES)), strict=True))
    by_person: dict[str, list[tuple[str | None, ...]]] = {}
    for label, *values in rows:
        by_person.setdefault(label, []).append(tuple(values))
    first, second = zip(*(own[:2] for own in by_person.values() if len(own) > 1), strict=True)
    others = first[1:] + first[:1]

    def agree(some: tuple, more: tuple) -> list[float]:
        pairs = [list(zip(a, b, strict=True)) for a, b in zip(some, more, strict=True)]
        return [np.mean([a == b for a, b in at if a and b]) for at in zip(*pairs, strict=True)]

    assert all(0.4 < share < 0.98 for share in agree(first, second))
    assert all(share < 0.05 for share in agree(first, others))
    for column, name in enumerate(made.ATTRIBUTES, 1):
        gaps = np.mean([row[column] is None for row in rows])
        assert gaps == pytest.approx(made.GAPS[name], abs=0.02)


def test_frequent_names_are_frequent_by_a_power_law():
    counts = Counter(name for chunk in made.people(40_000) for name in chunk["surname"] if name)
    (_, first), *_, (_, hundredth) = counts.most_common(100)
    offset = made.OFFSETS["surname"]
    # people differ in how many records they have
    assert first / hundredth == pytest.approx((99.5 + offset) / (0.5 + offset), rel=0.3)


@pytest.mark.parametrize("how", [0.0, 0.5, 0.7, 0.9])
def test_a_slip_changes_one_character_or_two_neighbours(how):
    for where in (0.0, 0.5, 0.99):
        text = made.slip("1985-03-05", where, how, 0.55)
        assert abs(len(text) - 10) <= 1
        assert sum((Counter("1985-03-05") - Counter(text)).values()) <= 1


def test_lines_are_fragments_with_a_name(tmp_path: Path):
    made.write(2_000, [tmp_path / "people.jsonl"])
    for line in (tmp_path / "people.jsonl").read_bytes().splitlines():
        assert {"given_name", "surname"} & set(orjson.loads(line)["properties"])
