"""Trees that labelled pairs grow on those of the model.

The trees of the model were trained on other files. More trees, boosted on the labelled pairs of
this file with the log odds of the model as the start, are added to them; then a layer corrects
their sum (`layer`). *Check*: the entities are dealt into folds, and each labelled pair is predicted
by trees that saw no pair of its two entities. The number of trees, which may be 0, is the one with
the smallest log loss of these predictions; the layer learns from them, too, because pairs that grew
the trees are no evidence about their errors. Most uncertain pairs are of two entities: a few labels
lower all odds, which gains log loss, and loses the pairs that are one. So there must be some of
either kind, and F1 of the predicted labels must not fall.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy import sparse

from kbforge.contracts import FloatArray, IntArray
from kbforge.models.boosting import fit_trees, summed
from kbforge.models.trees import Trees
from kbforge_plugins.likelihoods.pairs.file import FEATURES

_LEAST = 10
"""Labelled pairs of either kind without which nothing is learned."""
_FOLDS = 4
_ROUNDS = (25, 50, 100, 200)
_PARAMETERS: dict[str, Any] = {
    "objective": "cross_entropy",
    "learning_rate": 0.08,
    "num_leaves": 7,
    "min_data_in_leaf": 10,
    "lambda_l2": 5.0,
    "feature_fraction": 0.4,
    "bagging_fraction": 0.7,
    "bagging_freq": 1,
    "max_bin": 63,
    "seed": 1,
}


def grown(
    trees: Trees,
    plain: FloatArray,
    features: NDArray[np.float32],
    same: FloatArray,
    rows: IntArray,
) -> tuple[Trees, FloatArray]:
    """The trees with those that labelled pairs grow, and each pair's log odds by others' trees.

    Args:
        trees: of the model.
        plain: their log odds of the pairs, [pairs].
        features: `FEATURES` of the pairs, [pairs, F].
        same: the probability that each pair is one entity, by its label, [pairs].
        rows: the two rows of each pair, [pairs, 2].

    """
    folds = _folds(rows, same)
    if not suffice(same) or folds.min() == folds.max():
        return trees, plain
    predicted = _predicted(plain, features, same, folds)
    best = int(np.argmin([loss_of(odds, same) for odds in (plain, *predicted)]))
    if not best or not better(predicted[best - 1], plain, same):
        return trees, plain
    more = fit_trees(FEATURES, features, same, _PARAMETERS, _ROUNDS[best - 1], start=plain)
    return summed([trees, more]), predicted[best - 1]


def loss_of(odds: FloatArray, same: FloatArray) -> float:
    """The mean log loss of log odds of pairs, nats."""
    return float((np.logaddexp(0, odds) - same * odds).mean()) if len(same) else 0.0


def suffice(same: FloatArray) -> bool:
    """Whether there are labels enough to learn from."""
    one = int((same > 0.5).sum())
    return min(one, len(same) - one) >= _LEAST


def better(odds: FloatArray, than: FloatArray, same: FloatArray) -> bool:
    """Whether some log odds predict labels better than others: in log loss, and no worse in F1."""
    return loss_of(odds, same) < loss_of(than, same) and _f1(odds, same) >= _f1(than, same)


def _f1(odds: FloatArray, same: FloatArray) -> float:
    found = odds > 0
    return float(2 * same[found].sum() / max(found.sum() + same.sum(), 1.0))


def _folds(rows: IntArray, same: FloatArray) -> IntArray:
    """The folds of the entities of each pair's two rows, [pairs, 2]; rows that are labelled as one
    entity are in one fold."""
    numbers, place = np.unique(rows, return_inverse=True)
    place = place.reshape(rows.shape)
    one = place[same > 0.5]
    shape = (len(numbers), len(numbers))
    edges = sparse.coo_array((np.ones(len(one), np.int8), tuple(one.T)), shape)
    count, entity = sparse.csgraph.connected_components(edges, directed=False)
    dealt = np.random.default_rng(0).permutation(count) % _FOLDS
    return np.asarray(dealt[entity[place]])


def _predicted(
    plain: FloatArray, features: NDArray[np.float32], same: FloatArray, folds: IntArray
) -> FloatArray:
    """The log odds of each pair by trees of other entities, after so many rounds each,
    [rounds, pairs].

    A pair of two folds has the mean of both predictions.
    """
    total, times = np.zeros((len(_ROUNDS), len(same))), np.zeros(len(same))
    for fold, trees in _without_each(plain, features, same, folds):
        asked = (folds == fold).any(axis=1)
        times[asked] += 1
        for number, rounds in enumerate(_ROUNDS):
            first = replace(trees, roots=trees.roots[:rounds])
            total[number, asked] += first.predict(features[asked])
    return np.asarray(plain + total / np.maximum(times, 1))


def _without_each(
    plain: FloatArray, features: NDArray[np.float32], same: FloatArray, folds: IntArray
) -> Iterator[tuple[int, Trees]]:
    """For each fold, the trees of the pairs that have no entity of it."""
    for fold in np.unique(folds).tolist():
        told = (folds != fold).all(axis=1)
        if not told.any():
            continue
        some = features[told], same[told]
        yield fold, fit_trees(FEATURES, *some, _PARAMETERS, _ROUNDS[-1], start=plain[told])
