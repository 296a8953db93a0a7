"""Fits ensembles of decision trees by gradient boosting, with LightGBM (extra `train`).

What is fitted needs no LightGBM: `kbforge.models.trees` applies it.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from kbforge.errors import UsageError
from kbforge.models.trees import Trees
from kbforge.registry import install_command

if TYPE_CHECKING:
    import lightgbm

_COMMON: dict[str, Any] = {
    "num_threads": 1,
    "deterministic": True,
    "force_col_wise": True,
    "verbosity": -1,
}


def fit_trees(
    features: Sequence[str],
    rows: NDArray[np.floating[Any]],
    targets: NDArray[np.floating[Any]],
    parameters: dict[str, Any],
    rounds: int,
    weights: NDArray[np.floating[Any]] | None = None,
    start: NDArray[np.floating[Any]] | None = None,
) -> Trees:
    """Fit LightGBM's ensemble and convert it to one that needs no LightGBM; deterministic.

    `rows` [N, F] may hold NaN for missing values; `targets` and `weights` are [N], as are the sums
    to start from, which are not part of the ensemble.
    """
    try:
        import lightgbm
    except ImportError:
        raise UsageError(
            f"training trees needs LightGBM, which is not installed: {install_command('train')}"
        ) from None
    # LightGBM takes no names with spaces or JSON's signs, so columns have numbers there
    names = [f"c{number}" for number in range(len(features))]
    data = lightgbm.Dataset(rows, targets, weight=weights, init_score=start, feature_name=names)
    booster = lightgbm.train({**_COMMON, **parameters}, data, num_boost_round=rounds)
    return trees_of(booster, features)


def trees_of(booster: lightgbm.Booster, features: Sequence[str]) -> Trees:
    """The ensemble of a booster."""
    nodes: list[tuple[int, float, int, int, int]] = []
    leaves: list[float] = []

    def held(node: dict[str, Any]) -> int:
        """The number under which a node and all below it are held."""
        if "leaf_value" in node:
            leaves.append(float(node["leaf_value"]))
            return -len(leaves)
        missing = node["missing_type"]
        if node["decision_type"] != "<=" or missing == "Zero":
            raise ValueError(f"a node of type {node['decision_type']}, missing {missing}")
        # without missing values in training LightGBM reads NaN as zero
        threshold = float(node["threshold"])
        left = bool(node["default_left"]) if missing == "NaN" else threshold >= 0
        number = len(nodes)
        nodes.append((0, 0.0, 0, 0, 0))
        children = held(node["left_child"]), held(node["right_child"])
        nodes[number] = (int(node["split_feature"]), threshold, int(left), *children)
        return number

    roots = [held(tree["tree_structure"]) for tree in booster.dump_model()["tree_info"]]
    columns = list(zip(*nodes, strict=True)) or [()] * 5
    return Trees(
        tuple(features),
        np.array(columns[0], np.int32),
        np.array(columns[1], np.float64),
        np.array(columns[2], np.uint8),
        np.array(columns[3], np.int32),
        np.array(columns[4], np.int32),
        np.array(leaves, np.float64),
        np.array(roots, np.int32),
        np.zeros(1),
    )


def averaged(ensembles: Sequence[Trees]) -> Trees:
    """The ensemble whose sum is the mean of the sums of these; they read the same features."""
    return summed(ensembles, len(ensembles))


def summed(ensembles: Sequence[Trees], over: int = 1) -> Trees:
    """The ensemble whose sum is that of these, divided by a number; they read the same features."""

    def moved(numbers: NDArray[np.int32], nodes: int, leaves: int) -> NDArray[np.int32]:
        """Numbers of nodes and leaves (-1 - leaf) behind so many others."""
        return np.where(numbers < 0, numbers - leaves, numbers + nodes).astype(np.int32)

    nodes = np.cumsum([0, *(len(one.feature) for one in ensembles)]).tolist()
    leaves = np.cumsum([0, *(len(one.leaves) for one in ensembles)]).tolist()
    left, right, roots = (
        np.concatenate(
            [moved(getattr(one, name), nodes[k], leaves[k]) for k, one in enumerate(ensembles)]
        )
        for name in ("left", "right", "roots")
    )
    return Trees(
        ensembles[0].features,
        np.concatenate([one.feature for one in ensembles]),
        np.concatenate([one.threshold for one in ensembles]),
        np.concatenate([one.missing_left for one in ensembles]),
        left,
        right,
        np.concatenate([one.leaves for one in ensembles]) / over,
        roots,
        np.sum([one.offset for one in ensembles], axis=0) / over,
    )
