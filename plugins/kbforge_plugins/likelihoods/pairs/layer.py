"""The layer that answers teach: a correction of the trees' log odds, for one file.

The trees were trained on other files. On unfamiliar data all their log odds may be too high or too
low, or a feature may mean more or less than elsewhere. A dozen answers about pairs show this. With
o the trees' log odds of a pair and z its standardised features,

    o' = o + t_0 + t_1 clip(o, -6, 6) / 3 + sum over k of t_k z_k

The weights t maximise the posterior of a logistic regression with offset o, by Newton's method with
bounded steps (McCullagh and Nelder 1989, 4.4): an answer that a pair is one entity with probability
y contributes y log sigmoid(o') + (1 - y) log sigmoid(-o'). The prior is Gaussian with mean 0, so
the layer changes nothing before the first answer; its standard deviation is 2 for t_0, .7 for t_1
and .3 for the others. Features are standardised among the uncertain pairs of the file, and bounded.

*Check.* Each answer is also predicted by a layer that the others teach, approximately, by one step
of Newton's method from the mode (Pregibon 1981):

    o'_(i) = o'_i - (y_i - p_i) h_i / (1 - p_i (1 - p_i) h_i),  h_i = x_i' H^-1 x_i

with x the inputs of the layer and H the Hessian at the mode. If these predictions have a larger log
loss than the trees' own, the layer is discarded.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import TypeAlias

import numpy as np
from numpy.typing import NDArray
from scipy.special import expit

from kbforge.contracts import FloatArray
from kbforge.fit.description import Lesson
from kbforge_plugins.likelihoods.pairs.bags import Part, PartReader
from kbforge_plugins.likelihoods.pairs.file import FEATURES

TAUGHT_FEATURES = (
    *("name equal", "name trigrams cosine", "name words cosine", "name sorted ratio"),
    *("name covered least", "all words cosine", "evidence", "evidence against most"),
    *("rarity of equal", "codes shared", "codes unmatched most", "figures unmatched most"),
    *("odds", "odds against", "letters rank most", "words rank most"),
)
"""Features that answers may weigh anew; a model need not have all of them."""
COLUMNS = tuple(FEATURES.index(name) for name in TAUGHT_FEATURES if name in FEATURES)
"""Those of `TAUGHT_FEATURES` that the model has, by their columns in `FEATURES`."""

WEIGHTS = 2 + len(COLUMNS)
MOST_WEIGHT = 100.0
"""Bound of a weight on either side of 0."""
TaughtFeatures: TypeAlias = NDArray[np.float32]
"""The `COLUMNS` of pairs, shape [pairs, K]."""

_UNCERTAIN, _FEW = 4.0, 50
"""Pairs within so many nats of even odds are uncertain; all count if there are fewer than so
many."""
_MOST_ODDS, _UNIT = 6.0, 3.0
_MOST_DEVIATIONS = 3.0
_SPREAD = np.array([2.0, 0.7, *(0.3 for _ in COLUMNS)])
_STEPS, _LONGEST, _CONVERGED = 50, 1.0, 1e-9
_DIGITS = 4
"""Decimals of a weight: a layer is the same after its weights were written down."""


@dataclass(frozen=True, eq=False)
class Layer:
    """Weights t [2 + K], and mean and standard deviation of K features among uncertain pairs."""

    weights: FloatArray
    mean: FloatArray
    deviation: FloatArray

    @classmethod
    def of_file(
        cls, plain: FloatArray, features: TaughtFeatures, weights: Sequence[float]
    ) -> Layer:
        """The layer for a file with these pairs: log odds [pairs] and features [pairs, K].

        Weights that are not given are 0.
        """
        near = np.abs(plain) < _UNCERTAIN
        known = np.nan_to_num(features[near] if near.sum() >= _FEW else features).astype(np.float64)
        if not len(known):
            known = np.zeros((1, len(COLUMNS)))
        told = np.zeros(WEIGHTS)
        told[: len(weights)] = weights
        return cls(told, known.mean(axis=0), known.std(axis=0) + 1e-6)

    def inputs(self, plain: FloatArray, features: TaughtFeatures) -> FloatArray:
        """What the weights multiply, shape [pairs, 2 + K]."""
        z = (np.nan_to_num(features) - self.mean) / self.deviation
        out = np.empty((len(plain), WEIGHTS))
        out[:, 0] = 1.0
        out[:, 1] = np.clip(plain, -_MOST_ODDS, _MOST_ODDS) / _UNIT
        out[:, 2:] = np.clip(z, -_MOST_DEVIATIONS, _MOST_DEVIATIONS)
        return out

    def odds(self, plain: FloatArray, features: TaughtFeatures) -> FloatArray:
        """The log odds o' of pairs, [pairs], from those of the trees and `COLUMNS` [pairs, K]."""
        return np.asarray(plain + self.inputs(plain, features) @ self.weights)

    def taught(
        self, plain: FloatArray, features: TaughtFeatures, same: FloatArray
    ) -> tuple[Layer, Lesson]:
        """The layer with the weights that answers teach, and what they teach.

        Args:
            plain: the trees' log odds of the answered pairs, [answers].
            features: their `COLUMNS`, [answers, K].
            same: the probability that each pair is one entity, by its answer, [answers].

        """
        x = self.inputs(plain, features)
        weights, hessian = _mode(x, plain, same)
        before, after = _loss(plain, same), _loss_without_each(x, plain, same, weights, hessian)
        told = np.round(weights, _DIGITS) if after <= before else np.zeros(WEIGHTS)
        return replace(self, weights=told), Lesson(len(same), before, after)

    def dump(self) -> Part:
        return {"weights": self.weights, "mean": self.mean, "deviation": self.deviation}

    @classmethod
    def load(cls, kept: PartReader) -> Layer:
        k = len(COLUMNS)
        weights = kept.array("weights", np.float64, WEIGHTS, low=-MOST_WEIGHT, high=MOST_WEIGHT)
        mean, deviation = (
            kept.array(name, np.float64, k, low=low)
            for name, low in (("mean", -np.inf), ("deviation", 1e-6))
        )
        return cls(weights, mean, deviation)


def _mode(x: FloatArray, plain: FloatArray, same: FloatArray) -> tuple[FloatArray, FloatArray]:
    """The most probable weights, and the Hessian there."""
    precision = _SPREAD**-2
    weights = np.zeros(WEIGHTS)
    for _ in range(_STEPS):
        p = expit(plain + x @ weights)
        hessian = (x.T * (p * (1 - p))) @ x + np.diag(precision)
        step = np.linalg.solve(hessian, x.T @ (same - p) - precision * weights)
        weights += np.clip(step, -_LONGEST, _LONGEST)
        if np.abs(step).max() < _CONVERGED:
            break
    return weights, hessian


def _loss_without_each(
    x: FloatArray, plain: FloatArray, same: FloatArray, weights: FloatArray, hessian: FloatArray
) -> float:
    """The mean log loss of each answer by the layer that the others teach, in nats."""
    odds = plain + x @ weights
    p = expit(odds)
    leverage = np.einsum("ij,ij->i", x, np.linalg.solve(hessian, x.T).T)
    return _loss(odds - (same - p) * leverage / (1 - p * (1 - p) * leverage), same)


def _loss(odds: FloatArray, same: FloatArray) -> float:
    return float((np.logaddexp(0, odds) - same * odds).mean()) if len(same) else 0.0
