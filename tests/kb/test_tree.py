"""Trees of similarities, and their cuts."""

from __future__ import annotations

from functools import partial

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy.cluster.hierarchy import fcluster

from kbforge.kb.consensus import LOSSES
from kbforge.kb.tree import LINKAGES, best_cut, cut, cuts_for, tree_of


def similar(seed: int, n: int) -> np.ndarray:
    """A posterior similarity: of some groupings at random."""
    rng = np.random.default_rng(seed)
    out = np.zeros((n, n))
    for weight in rng.dirichlet(np.ones(5)):
        labels = rng.integers(0, max(n // 2, 1), n)
        out += weight * (labels[:, None] == labels[None, :])
    return out


@given(seed=st.integers(0, 1000), n=st.integers(1, 12), kind=st.sampled_from(LINKAGES))
def test_cuts_are_those_of_scipy(seed: int, n: int, kind: str) -> None:
    joins = tree_of(similar(seed, n), kind)
    for made in range(n):
        labels = cut(joins, made)
        assert labels.max() + 1 == n - made
        assert [labels.tolist().index(k) for k in range(n - made)] == sorted(
            labels.tolist().index(k) for k in range(n - made)
        )
        if n > 1 and (made == 0 or made == n - 1 or joins[made - 1, 2] < joins[made, 2]):
            wanted = fcluster(joins, n - made, "maxclust") if made else np.arange(n)
            same, other = labels[:, None] == labels, wanted[:, None] == wanted
            assert (same == other).all()


@given(seed=st.integers(0, 1000), n=st.integers(1, 9), kind=st.sampled_from(LINKAGES))
def test_no_other_cut_loses_less(seed: int, n: int, kind: str) -> None:
    together = similar(seed, n)
    joins = tree_of(together, kind)
    for loss in LOSSES.values():
        of_these = partial(loss, together)
        found = of_these(best_cut(joins, of_these))
        assert all(found <= of_these(cut(joins, made)) + 1e-8 for made in range(n))


@given(sizes=st.lists(st.integers(1, 6), min_size=1, max_size=4), wanted=st.integers(0, 30))
def test_so_many_clusters_of_several_trees(sizes: list[int], wanted: int) -> None:
    trees = [tree_of(similar(k, n), "average") for k, n in enumerate(sizes)]
    made = cuts_for(trees, wanted)
    left = sum(sizes) - sum(made)
    assert left == min(max(wanted, len(sizes)), sum(sizes))
    joined = [joins[m - 1, 2] for joins, m in zip(trees, made, strict=True) if m]
    apart = [joins[m, 2] for joins, m in zip(trees, made, strict=True) if m < len(joins)]
    assert not joined or not apart or max(joined) <= min(apart)


def test_linkages_differ_where_they_should() -> None:
    chain = np.eye(4)
    for i in range(3):
        chain[i, i + 1] = chain[i + 1, i] = 0.9
    heights = {kind: tree_of(chain, kind)[-1, 2] for kind in LINKAGES}
    assert heights["single"] == pytest.approx(0.1)
    assert heights["complete"] == pytest.approx(1.0)
    assert 0.1 < heights["average"] < 1.0
