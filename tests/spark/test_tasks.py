"""What workers compute, held against the kernel's own; without Spark."""

from __future__ import annotations

from dataclasses import replace
from functools import partial

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from kbforge.clustering.rounds import Agglomeration, Done, DoubtRules
from kbforge.contracts import ModelSpec
from kbforge.errors import LikelihoodError
from kbforge.indexes.selective import by_content
from kbforge.kernel.binding import address, kernel_library
from tests.clustering.test_exactness import attributes, records
from tests.clustering.test_rounds import OneKey
from tests.profile import examples

pa = pytest.importorskip("pyarrow")

from kbforge_spark.tasks import Blocking, SentTable, nearest  # noqa: E402

WORDS = ["red", "pen", "book", "x1", "wrt-54g"]


def begun(seed: int, n: int) -> Agglomeration:
    rng = np.random.default_rng(seed)
    items = [
        replace(item, properties={**item.properties, "title": (" ".join(rng.choice(WORDS, 5)),)})
        for item in records(rng, n)
    ]
    spec = replace(ModelSpec(attributes(items), alpha=2.0), index=OneKey())
    return Agglomeration(items, spec, DoubtRules(), by_content(items))


@given(st.integers(0, 1_000), st.integers(2, 30))
@examples(25)
def test_a_sent_table_has_the_ratios_of_the_first_one(seed: int, n: int) -> None:
    run = begun(seed, n)
    units = run.units()
    assert units.table is not None
    one, other = np.triu_indices(len(units.sizes), 1)
    ratios = SentTable(units.table).ratios(units.starts, units.written, one, other)
    expected, table = np.empty(1), run._table
    for k, (a, b) in enumerate(zip(one.tolist(), other.tolist(), strict=True)):
        second = np.array([b])
        told = address(second), address(expected)
        kernel_library().kb_merge_ratios(table.handle, a, 1, *told)
        assert ratios[k] == expected[0]


def test_damaged_clusters_are_refused() -> None:
    units = begun(1, 12).units()
    assert units.table is not None
    table, one, other = SentTable(units.table), np.array([0]), np.array([1])
    damaged = [[-1], [1, 0], [1, 99, 0], [1, 0, 1 << 30], [2, 1, 0, 0, 0], [0, 0], [-5], []]
    for said in damaged:
        written = np.array([0, *said], np.int32)
        with pytest.raises(LikelihoodError):
            table.ratios(np.array([0, 1, len(written)]), written, one, other)
    table.ratios(units.starts, units.written, one, other)  # it holds nothing from before


@pytest.mark.parametrize(
    "changed",
    [
        {"merges": [[1, 99, 0]]},
        {"merges": [[1, 1, 0]]},
        {"merges": [[1, 0, 0], [1, 0, 0]]},
        {"merges": [[1, 0, 0]], "edges": [[1, 2, 5]]},
        {"edges": [[-1, 2, 5]]},
        {"rivals": [[0, 1 << 30, 5]]},
        {"compared": [[0, -2]]},
    ],
)
def test_impossible_rounds_are_refused(changed: dict[str, list[list[int]]]) -> None:
    none = np.zeros((0, 3), np.int32)
    done = Done(none, none, none, none[:, :2], 0)
    run = begun(1, 12)
    with pytest.raises(ValueError, match="other fragments"):
        run.resume(done._replace(**{name: np.array(rows) for name, rows in changed.items()}))


@given(
    st.lists(
        st.tuples(st.integers(0, 9), st.lists(st.integers(0, 9), max_size=40)),
        max_size=8,
        unique_by=lambda row: row[0],
    ),
    st.integers(1, 4),
    st.integers(1, 5),
)
@examples(100)
def test_the_nearest_are_those_that_share_most_keys(
    near: list[tuple[int, list[int]]], shared: int, top: int
) -> None:
    expected = []
    for unit, others in near:
        counts = {other: others.count(other) for other in {*others} - {unit}}
        least = min(shared, max(counts.values(), default=1))
        ranked = sorted((-n, other) for other, n in counts.items() if n >= least)[:top]
        expected += [(min(unit, other), max(unit, other)) for _, other in ranked]
    batch = pa.record_batch(
        {
            "unit": pa.array([unit for unit, _ in near], pa.int32()),
            "near": pa.array([others for _, others in near], pa.list_(pa.int32())),
        }
    )
    (found,) = partial(nearest, Blocking(60, shared, top))(iter([batch]))
    pairs = zip(*(column.to_pylist() for column in found.columns), strict=True)
    assert sorted(pairs) == sorted(expected)
