"""Cells are the pairs with equal votes, counted for every probe."""

from __future__ import annotations

import numpy as np
import pytest

from kbforge.fit import grouping_queue as votes
from kbforge.fit.grouping_queue import count_votes, votes_on
from tests.fit.worlds import world

RNG = np.random.default_rng(0)


def test_every_joined_pair_is_listed_from_both_ends_with_its_votes() -> None:
    groupings, _ = world(0)
    found = count_votes(groupings, RNG)
    n = groupings.shape[1]
    together = groupings[:, :, None] == groupings[:, None, :]
    first, second = np.nonzero(together.any(axis=0) & ~np.eye(n, dtype=np.bool_))
    listed = sorted(zip(found.probe.tolist(), found.other.tolist(), strict=True))
    assert listed == list(zip(first.tolist(), second.tolist(), strict=True))
    expected = votes_on(groupings, found.probe, found.other)
    assert np.array_equal(found.cells[found.cell], expected)
    assert len(np.unique(found.cells, axis=0)) == len(found.cells)


def test_counts_and_sizes_belong_to_the_probes() -> None:
    groupings, _ = world(1)
    found = count_votes(groupings, RNG)
    probes = np.unique(found.probe)
    assert found.counts.shape == (len(probes), len(found.cells))
    for row, probe in enumerate(probes.tolist()):
        mine = found.cell[found.probe == probe]
        assert np.array_equal(
            found.counts.toarray()[row], np.bincount(mine, minlength=len(found.cells))
        )
        sizes = (groupings == groupings[:, [probe]]).sum(axis=1)
        assert np.array_equal(found.sizes[row], sizes)


def test_more_candidates_than_bits_of_a_word() -> None:
    groupings = np.concatenate([world(seed)[0][:, :90] for seed in range(10)])
    assert len(groupings) > 128
    found = count_votes(groupings, RNG)
    assert np.array_equal(found.cells[found.cell], votes_on(groupings, found.probe, found.other))


def test_alone_everywhere_is_no_probe() -> None:
    found = count_votes(np.array([[0, 0, 1, 2], [0, 1, 2, 3]]), RNG)
    assert np.unique(found.probe).tolist() == [0, 1]
    assert found.share == 0.5


def test_nothing_is_joined() -> None:
    found = count_votes(np.arange(8).reshape(2, 4), RNG)
    assert (len(found.cells), len(found.cell), found.share) == (0, 0, 0.0)


def test_one_huge_cluster_is_listed_in_part(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(votes, "_MOST_PAIRS", 1_000)
    found = count_votes(np.zeros((2, 400), np.int64), np.random.default_rng(0))
    assert len(found.cell) == 3 * 399
    assert found.share == 1.0
