"""The layer that answers teach: a correction of the trees' log odds, for one file.

The trees were trained on other files. On unfamiliar data all their log odds may be too high or too
low, or a feature may mean more or less than elsewhere. A dozen answers about pairs show this. With
o the trees' log odds of a pair and z its standardised features,

    o' = o + t_0 + t_1 clip(o, -6, 6) / 3 + sum over k of t_k z_k

The weights t are those of `kbforge.fit.questions.update`, with offset o: an answer "same" has
probability e + (1 - 2 e) sigmoid(o'), where e is the probability that it is wrong, so one that all
others contradict counts for little. The prior is Gaussian with mean 0, so the layer changes
nothing before the first answer; its standard deviation is 2 for t_0, .7 for t_1 and .3 for the
others. Features are standardised among the uncertain pairs of the file, and bounded.

*Check.* Each answer is also predicted by a layer that the others teach, approximately, by one step
of Fisher scoring from the mode (as Pregibon 1981):

    o'_(i) = o'_i - s_i h_i / (1 - I_i h_i),  h_i = x_i' V x_i

with x the inputs of the layer, V the covariance of t, and s and I the slope and information of an
answer's log probability. If these predictions have a larger log loss than the trees' own, the layer
is discarded.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import TypeAlias

import numpy as np
from numpy.typing import NDArray

from kbforge.contracts import FloatArray
from kbforge.fit.description import Lesson
from kbforge.fit.questions import Belief, information_of, log_losses, slopes_of, update
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
_LEAST_ERROR = 1e-6
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
        layer, without, said, error = self._fitted(plain, features, same)
        before, after = (float(log_losses(o, said, error).sum()) for o in (plain, without))
        n = max(len(same), 1)
        lesson = Lesson(len(same), before / n, after / n)
        return layer if after <= before else replace(self, weights=np.zeros(WEIGHTS)), lesson

    def fitted(
        self, plain: FloatArray, features: TaughtFeatures, same: FloatArray
    ) -> tuple[Layer, FloatArray]:
        """The layer with the most probable weights, and the log odds of each pair by the layer that
        the other answers teach, as `taught`."""
        return self._fitted(plain, features, same)[:2]

    def _fitted(
        self, plain: FloatArray, features: TaughtFeatures, same: FloatArray
    ) -> tuple[Layer, FloatArray, NDArray[np.bool_], FloatArray]:
        x, said = self.inputs(plain, features), np.asarray(same > 0.5)
        error = np.maximum(np.minimum(same, 1 - same), _LEAST_ERROR)
        belief = update(
            Belief(np.zeros(WEIGHTS), np.diag(_SPREAD**2)), x[:, 1:], said, error, plain
        )
        odds = plain + x @ belief.mean
        spread = np.einsum("ij,ij->i", x @ belief.covariance, x)
        without = odds - slopes_of(odds, said, error) * spread / (
            1 - information_of(odds, error) * spread
        )
        return replace(self, weights=np.round(belief.mean, _DIGITS)), without, said, error

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
