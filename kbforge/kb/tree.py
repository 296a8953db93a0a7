"""The tree of a posterior similarity: which fragments come together first, and where to cut it.

Hierarchical clustering begins with every fragment alone and joins the two nearest clusters, again
and again. The distance of two fragments is d_ij = 1 - p_ij, the posterior probability that
they are two entities. That of two clusters is the smallest of their fragments' (`single`), the
largest (`complete`) or the mean (`average`). A cut of the tree is a grouping.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

import numpy as np
from scipy.cluster.hierarchy import linkage
from scipy.spatial.distance import squareform

from kbforge.contracts import FloatArray, IntArray
from kbforge.kb.pairs import DIGITS

LINKAGES = ("single", "complete", "average")


def tree_of(together: FloatArray, kind: str) -> FloatArray:
    """The joins of n fragments, nearest first, as `scipy.cluster.hierarchy` has them, [n - 1, 4].

    Args:
        together: the posterior similarity, shape [n, n].
        kind: one of `LINKAGES`.

    """
    if len(together) < 2:
        return np.zeros((0, 4))
    apart = np.round(1 - np.minimum(together, together.T), DIGITS)
    np.fill_diagonal(apart, 0.0)
    joins: FloatArray = linkage(squareform(apart, checks=False), kind)
    return joins


def cut(joins: FloatArray, n_joins: int) -> IntArray:
    """The grouping after so many joins, labels 0, 1, ... by smallest fragment, shape [n]."""
    n = len(joins) + 1
    parent = np.arange(n + n_joins)
    for made, (one, other) in enumerate(joins[:n_joins, :2].astype(np.int64).tolist()):
        parent[[one, other]] = n + made
    for node in reversed(range(len(parent))):
        parent[node] = parent[parent[node]]
    _, first, label = np.unique(parent[:n], return_index=True, return_inverse=True)
    return np.argsort(np.argsort(first))[label.reshape(-1)]


def best_cut(joins: FloatArray, loss: Callable[[IntArray], float]) -> IntArray:
    """The cut that loses least, of equals the one of most clusters, shape [n]."""
    cuts = [cut(joins, made) for made in range(len(joins) + 1)]
    return min(cuts, key=lambda labels: round(loss(labels), DIGITS))


def cuts_for(trees: Sequence[FloatArray], clusters: int) -> list[int]:
    """How many joins of each of several trees to make, so that so many clusters are left in all.

    The nearest joins of all trees are made, so that no two clusters that stay apart are nearer than
    two that are joined within a tree.

    Args:
        trees: of parts that no join connects.
        clusters: from the number of trees to the number of fragments; beyond these, the nearer one.

    """
    heights = np.concatenate([np.zeros(0), *(joins[:, 2] for joins in trees)])
    owners = np.repeat(np.arange(len(trees)), [len(joins) for joins in trees])
    wanted = min(max(len(heights) + len(trees) - clusters, 0), len(heights))
    made = owners[np.argsort(heights, kind="stable")[:wanted]]
    counts: list[int] = np.bincount(made, minlength=len(trees)).tolist()
    return counts
