"""What fragments say as numbers, and the covariates of claims: by hand, and what is not read."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

from kbforge.contracts import Fragment
from kbforge.evaluation.reliability import ReportedEntities, ReportedPairs
from kbforge.fit.covariates import OF_ENTITIES, entity_columns, log_odds
from kbforge.fit.description import NONE, describe

PEOPLE = [
    ("Ada Lovelace", {"born": "1815", "city": "london"}),
    ("ada  lovelace", {"born": "1815"}),
    ("Ada Lovelace", {"born": "1900", "city": "paris"}),
    ("Ada Lovelacy", {"born": "1815", "city": "london"}),
    ("Charles Babbage", {"born": "1791", "city": "london"}),
    ("Έλλη", {}),
]


def people(order=None):
    held = [
        Fragment(f"f{k}", {"name": (name,), **{key: (v,) for key, v in values.items()}}, label="x")
        for k, (name, values) in enumerate(PEOPLE)
    ]
    return held if order is None else [held[k] for k in order]


def entities_of(*clusters, probability=None):
    k = len(clusters)
    said = np.full(k, 0.5) if probability is None else np.array(probability)
    sizes = np.array([float(len(cluster)) for cluster in clusters])
    return ReportedEntities(tuple(clusters), said, sizes, np.arange(k))


def pairs_of(*pairs):
    first, second = (np.array(column) for column in zip(*pairs, strict=True))
    k = len(pairs)
    return ReportedPairs(first, second, np.full(k, 0.5), np.full(k, 2.0), np.arange(k))


def test_names_and_values_are_numbered():
    said = describe(people())
    assert said.name.tolist() == [0, 0, 0, 1, 2, 3]
    assert said.named.tolist() == [3, 1, 1, 1]
    assert said.values.shape == (6, 2)
    assert said.stated[0].tolist() == [3, 3]
    assert said.stated[1].tolist() == [3, 0]
    assert said.attributes.tolist() == [3, 2, 3, 3, 3, 1]
    assert said.foreign.tolist() == [0, 0, 0, 1]
    links = dict(zip(zip(said.alike.first, said.alike.second, strict=True), said.alike.strength,
                     strict=True))  # fmt: skip
    assert links.keys() == {(0, 1), (1, 0)}
    assert 0.2 < links[0, 1] < 1
    assert links[0, 1] == links[1, 0]


def test_names_in_parts_are_joined():
    said = describe(
        [Fragment("a", {"first_name": ("Ada",), "surname": ("L",), "surname2": ("M",)})]
    )
    assert len(said.named) == 1
    assert said.words.tolist() == [2]
    assert said.values.shape == (1, 1)


def test_entities_by_hand():
    found = entity_columns(describe(people()), entities_of((0, 1), (2,), (3,), (4,), (5,)))
    assert tuple(found) == OF_ENTITIES
    at = {name: column.tolist() for name, column in found.items()}
    assert at["fragments"] == pytest.approx([np.log(2), 0, 0, 0, 0])
    assert at["borne_elsewhere"] == pytest.approx(np.log1p([1, 2, 0, 0, 0]))
    assert at["kept"] == pytest.approx([2 / 3, 1 / 3, 1, 1, 1])
    assert at["nearest"][:2] == [1, 1]
    assert 0.2 < at["nearest"][2] < 1
    assert at["nearest"][3:] == [0, 0]
    assert at["agree"][0] == 1  # born alone is stated twice
    assert at["compared"] == [1, 0, 0, 0, 0]
    # the neighbours: of (0, 1) it is 2, which differs in both; of 3 it is (0, 1)
    assert at["neighbour_agrees"][:3] == [0, 0, 2]
    assert at["neighbour_differs"][:3] == [2, 2, 0]
    assert np.isnan(at["neighbour_agrees"][3])


def test_ids_labels_sources_and_the_order_are_not_read():
    clusters = [(0, 1), (2,), (3,), (4,), (5,)]
    before = entity_columns(describe(people()), entities_of(*clusters))
    order = [3, 0, 5, 2, 4, 1]
    other = [replace(f, id=f"z{k}", label=None, source="s") for k, f in enumerate(people(order))]
    moved = [tuple(sorted(order.index(k) for k in cluster)) for cluster in clusters]
    after = entity_columns(describe(other), entities_of(*moved))
    for name, column in before.items():
        assert after[name].tolist() == pytest.approx(column.tolist(), nan_ok=True), name


@pytest.mark.parametrize(
    "fragments",
    [
        [Fragment("v", {}, vector=(1.0,)), Fragment("w", {"a": ("b",)})],
        [Fragment(str(k), {"name": ("same",)}) for k in range(5000)],
        [Fragment(str(k), {"name": (" ",)}) for k in range(3)],
        [Fragment("l", {"name": ("x" * 60_000,), "t": ("y" * 9,)}), Fragment("m", {"t": ("z",)})],
        [Fragment(str(k), {f"a{j}": ("v",) for j in range(k)} | {"n": ("v",)}) for k in range(40)],
    ],
)  # fmt: skip
def test_odd_files_have_covariates(fragments):
    said = describe(fragments)
    n = len(fragments)
    entities = entities_of(*((k,) for k in range(n)))
    rows = np.column_stack(list(entity_columns(said, entities).values()))
    assert rows.shape == (n, len(OF_ENTITIES))
    assert not np.isinf(rows).any()
    assert (said.name >= NONE).all()


def test_log_odds_are_bounded():
    assert log_odds(np.array([0.0, 0.5, 1.0])) == pytest.approx([-np.log(999), 0, np.log(999)])
