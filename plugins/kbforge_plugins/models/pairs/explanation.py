"""What each attribute says for a fragment's joining a cluster, in nats.

A tree's sum for a pair is split over the features on its path: each node's feature takes what the
mean of the leaves changes by from the node to the child (Saabas 2014), which adds up exactly.
Features of agreement and of all words are shared out over the attributes that both state, by how
much the nearness of their values tells in this file; all other features speak of the name.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from kbforge.contracts import FloatArray, Fragment
from kbforge.models.trees import Trees
from kbforge_plugins.models.pairs.agreements import AGREEMENT_FEATURES, SOUP_FEATURES
from kbforge_plugins.models.pairs.description import FEATURES, Rows
from kbforge_plugins.models.pairs.live_pairs import counted, gain_of, nats, weight
from kbforge_plugins.models.pairs.odds import MOST, Odds, Row

_SHARED = np.isin(np.array(FEATURES), (*AGREEMENT_FEATURES, *SOUP_FEATURES))
_ZERO = np.zeros(1, dtype=np.int64)


class Explanation:
    """Splits what trees say over attributes.

    Args:
        odds: of pairs.
        trees: that the odds were made with.

    """

    def __init__(self, odds: Odds, trees: Trees) -> None:
        self._odds, self._trees = odds, trees
        self._mean = _means(trees)

    def of(self, fragment: Fragment, cluster: Sequence[Fragment]) -> dict[str, float]:
        """By attribute of the fragment; the sum is L(C + x) - L(C) - L({x}).

        A fragment without attributes has one entry, `name`.
        """
        odds = self._odds
        x = odds.encode(fragment)
        members = counted(map(odds.encode, cluster))
        naming = next(
            (a for a in (*odds.file.naming, *fragment.properties) if a in fragment.properties),
            "name",
        )
        said = dict.fromkeys((naming, *fragment.properties), 0.0)
        here = members.counts.get(x, 0)
        for row, n in sorted(members.counts.items()):
            if row not in odds.near(x):
                continue
            times = 1.0 if row == x else weight(n) / weight(1)
            if row != x:
                times *= (weight(here + 1) - weight(here)) / weight(1)
            for attribute, part in self._of_pair(x, row).items():
                said[attribute if attribute in said else naming] += times * part
        # rows that are no candidates are so by their names
        said[naming] += nats(gain_of(odds, members, x)) - sum(said.values())
        return said

    def _of_pair(self, x: Row, row: Row) -> dict[str, float]:
        """By attribute, "" for the name: its part of the clipped log odds of two rows."""
        odds = self._odds
        (a, i), (b, j) = odds.rows_of(x), odds.rows_of(row)
        features = odds.file.describe(a, _ZERO + i, b, _ZERO + j)[0]
        parts = self._parts(features)
        log_odds = float(parts.sum())
        clipped = min(max(log_odds, -MOST), MOST)
        if log_odds:
            parts *= clipped / log_odds
        shares = self._shares(a, i, b, j)
        shared = float(parts[:-1][_SHARED].sum()) if shares else 0.0
        out = {attribute: shared * share for attribute, share in shares.items()}
        out[""] = clipped - sum(out.values())
        return out

    def _parts(self, features: FloatArray) -> FloatArray:
        """What each feature adds to the trees' sum, and last what all pairs have in common."""
        trees, mean = self._trees, self._mean
        parts = np.zeros(len(features) + 1)
        parts[-1] = trees.offset[0]
        for root in trees.roots.tolist():
            parts[-1] += mean[root] if root >= 0 else trees.leaves[-1 - root]
            node = root
            while node >= 0:
                column = int(trees.feature[node])
                value = features[column]
                left = (
                    trees.missing_left[node] if np.isnan(value) else value <= trees.threshold[node]
                )
                child = int(trees.left[node] if left else trees.right[node])
                parts[column] += (mean[child] if child >= 0 else trees.leaves[-1 - child]) - mean[
                    node
                ]
                node = child
        return parts

    def _shares(self, a: Rows, i: int, b: Rows, j: int) -> dict[str, float]:
        """By attribute that both state: its share of what agreement says."""
        told = {
            name: abs(worth.evidence(a.table.columns[name], i, b.table.columns[name], j))
            for name, worth in self._odds.file.worths.items()
            if a.table.columns[name].value(i) and b.table.columns[name].value(j)
        }
        total = sum(told.values())
        return {name: value / total for name, value in told.items()} if total else {}


def _means(trees: Trees) -> FloatArray:
    """By node, the mean of the means of its children."""
    mean = np.zeros(len(trees.feature))
    for node in range(len(mean) - 1, -1, -1):
        children = (int(trees.left[node]), int(trees.right[node]))
        mean[node] = sum(mean[c] if c >= 0 else trees.leaves[-1 - c] for c in children) / 2
    return mean
