"""A grouping to start from: average linkage, cut where it does best on the labelled fragments."""

from __future__ import annotations

import numpy as np
from scipy.cluster.hierarchy import fcluster, linkage
from scipy.spatial.distance import pdist

from kbforge.contracts import FloatArray, IntArray
from kbforge.evaluation.scores import compare
from kbforge_lab.models.supervised.scaling import Scaled

_CUTS = 60


def linked(data: Scaled) -> IntArray:
    """Clusters 0, 1, ... of the new vectors, shape [m].

    Columns count by how much less an entity scatters in them than the entities' means do. The
    height of the cut is the one with the best B-cubed F1 on the labelled vectors, linked likewise.
    """
    weights = 1 / np.sqrt(data.within)
    height = _best_height(data.train * weights, data.labels)
    return _cut(_tree(data.test * weights), height, len(data.test))


def _tree(points: FloatArray) -> FloatArray | None:
    return None if len(points) < 2 else np.asarray(linkage(pdist(points), "average"))


def _cut(tree: FloatArray | None, height: float, n: int) -> IntArray:
    if tree is None:
        return np.zeros(n, dtype=np.int64)
    found = fcluster(tree, height, "distance")
    return np.unique(found, return_inverse=True)[1].astype(np.int64)


def _best_height(points: FloatArray, labels: IntArray) -> float:
    tree = _tree(points)
    if tree is None:
        return 0.0
    heights = np.unique(tree[:, 2])
    # between the joins, not at them: new vectors are joined at other heights
    middles = (heights[:-1] + heights[1:]) / 2 if len(heights) > 1 else heights
    tried = np.unique(middles[np.linspace(0, len(middles) - 1, _CUTS).astype(np.int64)])
    gold = labels.tolist()
    scores = [
        compare(_cut(tree, height, len(gold)).tolist(), gold).bcubed_f1_item_mean
        for height in tried.tolist()
    ]
    return float(tried[int(np.argmax(scores))])
