"""A shift of what is reported: how answers about a file correct a confidence map made from others.

The map gives a claim the probability c; with offset o the claim has logit c + o. The offset is
nothing beforehand, o ~ N(0, S^2): with few answers the map stays as it is.

An answer that contradicts a cluster says that it is not exactly an entity, unless the person erred
(with probability e). One that agrees says less: only a share h of the clusters that are wrong are
found out by the pair that was asked about. So

    P(contradiction) = e + (1 - 2 e) h (1 - sigmoid(logit c + o)),   logit h ~ N(0, 1)

and o is its posterior mean, on a grid of o and h.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from scipy.special import expit, logit

from kbforge.contracts import FloatArray
from kbforge.fit.belief import ERROR
from kbforge.fit.votes import BoolArray

_SPREAD = 1.0  # S, nats
_GRID = 61
_WIDEST = 3.0  # standard deviations
_LEAST = 1e-3  # no map is surer than that


@dataclass(frozen=True, slots=True)
class Shift:
    """What is added to the log odds of claims.

    Attributes:
        offset: nats.

    """

    offset: float = 0.0

    def apply(self, probability: FloatArray) -> FloatArray:
        """The shifted probabilities, same shape; 0 and 1 stay what they are."""
        if not self.offset:
            return probability
        return np.asarray(expit(logit(probability) + self.offset), np.float64)


def shift_of(probability: FloatArray, contradicted: BoolArray) -> Shift:
    """The shift of claims that were put to the test.

    Args:
        probability: of each claim by the map, shape [claims].
        contradicted: whether an answer contradicts it, shape [claims].

    """
    if not len(probability):
        return Shift()
    z = np.linspace(-_WIDEST, _WIDEST, _GRID)
    offsets = (_SPREAD * z)[:, None, None]
    found = expit(z)[None, :, None]
    right = expit(logit(np.clip(probability, _LEAST, 1 - _LEAST)) + offsets)  # [o, 1, claims]
    said = ERROR + (1 - 2 * ERROR) * found * (1 - right)  # [o, h, claims]
    weight = np.log(np.where(contradicted, said, 1 - said)).sum(axis=2)
    weight = weight - (z[:, None] ** 2 + z[None, :] ** 2) / 2
    mass = np.exp(weight - weight.max())
    return Shift(float((mass.sum(axis=1) * _SPREAD * z).sum() / mass.sum()))
