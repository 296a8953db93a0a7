"""What a question is worth: what its answer is expected to set right, and what it tells.

The question is "are a and b one entity?". For an infallible answerer the answer is a function of
the partition, so what it tells about the partition is the entropy of the answer. Symbols:

| symbol | meaning |
|---|---|
| z_i, w_i | the groupings of a subproblem, and their probabilities |
| c | the point estimate |
| S | the i whose z_i says of a and b what c does not: they contradict the estimate |
| q | believed probability that the truth contradicts the estimate; the particles say w(S) |
| e | how often the answerer errs |
| c' | the heaviest of S: the point estimate once the answer contradicts c |
| L(c, z) | what c loses if z is the truth: the sum over the fragments of 1 - 2 n / (|c| + |z|), |

where |c| and |z| are the sizes of the fragment's clusters and n the size of what they share. That
is the loss in B-cubed F1, counted in fragments. After an answer the session holds the particles
that agree with it, renormalised, and the heaviest is its estimate. An answer that agrees with c
leaves it what it is. So what an answer is expected to take from the loss is

    value = (1 - e) q E[L(c, z) - L(c', z) | S] + e (1 - q) E[L(c, z) - L(c', z) | not S]

The second term is negative: it is the harm of a wrong answer. What the answer tells, in nats, is
the mutual information of the answer and the truth,

    information = H(q (1 - e) + (1 - q) e) - H(e),  H(x) = -x log x - (1 - x) log(1 - x)

Information prefers what is most in doubt, however little depends on it. The value prefers what most
depends on, so that large parts come first. Both count one answer alone, and none that comes after.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from scipy.special import xlog1py, xlogy

from kbforge.contracts import FloatArray, IntArray
from kbforge.fit.parts import Parts
from kbforge.fit.votes import BoolArray

ERROR = 0.02
"""e: how often whoever answers a review errs."""

_CERTAIN = 1e-9


@dataclass(frozen=True, slots=True, eq=False)
class Asked:
    """Pairs that can be asked about, and what depends on them; arrays of shape [pairs].

    Attributes:
        first: a fragment.
        second: another one, in another part.
        reported: the probability that they are one, by the particles, in (0, 1).
        joined: whether the point estimate has them together.
        gained: E[L(c, z) - L(c', z) | S], fragments.
        harmed: E[L(c, z) - L(c', z) | not S], fragments.

    """

    first: IntArray
    second: IntArray
    reported: FloatArray
    joined: BoolArray
    gained: FloatArray
    harmed: FloatArray

    def __len__(self) -> int:
        return len(self.first)

    def where(self, chosen: IntArray) -> Asked:
        """Some of the pairs, by their places."""
        return Asked(
            self.first[chosen],
            self.second[chosen],
            self.reported[chosen],
            self.joined[chosen],
            self.gained[chosen],
            self.harmed[chosen],
        )


def pairs_of(parts: Parts) -> Asked:
    """The pairs of parts on which particles disagree, and what depends on them."""
    one, other = np.triu_indices(len(parts), 1)
    together = parts.rows[one] == parts.rows[other]  # [pairs, particles]
    reported = together @ parts.weights
    open_ones = np.flatnonzero((reported > _CERTAIN) & (reported < 1 - _CERTAIN))
    one, other, together = one[open_ones], other[open_ones], together[open_ones]
    joined = parts.estimate[one] == parts.estimate[other]
    contradicts = together != joined[:, None]
    heaviest = contradicts.argmax(axis=1)  # the first that does
    better = np.zeros(together.shape)
    before = loss(parts, parts.estimate)
    for k in np.unique(heaviest).tolist():
        better[heaviest == k] = before - loss(parts, parts.rows[:, k])
    weighed = better * parts.weights
    mass = contradicts @ parts.weights
    return Asked(
        first=parts.first[one],
        second=parts.first[other],
        reported=reported[open_ones],
        joined=joined,
        gained=(weighed * contradicts).sum(axis=1) / np.maximum(mass, _CERTAIN),
        harmed=(weighed * ~contradicts).sum(axis=1) / np.maximum(1 - mass, _CERTAIN),
    )


def loss(parts: Parts, labels: IntArray) -> FloatArray:
    """L of a grouping of the parts, if each particle is the truth, shape [particles].

    Args:
        parts: their fragments are all that is counted.
        labels: the cluster of each part, shape [parts].

    """
    sizes = parts.sizes.astype(np.float64)
    own = labels[:, None] == labels[None, :]  # [parts, parts]
    own_size = own @ sizes
    total = np.zeros(parts.rows.shape[1])
    for column, truth in enumerate(parts.rows.T):
        true = truth[:, None] == truth[None, :]
        shared = (own & true) @ sizes
        total[column] = (sizes * (1 - 2 * shared / (own_size + true @ sizes))).sum()
    return total


def values(asked: Asked, believed: FloatArray, error: float) -> FloatArray:
    """What answers are expected to set right, in fragments, shape [pairs].

    Args:
        asked: the pairs.
        believed: the probability that they are one, shape [pairs].
        error: e.

    """
    against = np.where(asked.joined, 1 - believed, believed)
    value: FloatArray = (1 - error) * against * asked.gained + error * (1 - against) * asked.harmed
    return value


def information(believed: FloatArray, error: float) -> FloatArray:
    """What answers tell about the partition, in nats, same shape.

    Args:
        believed: the probability of the answer "one entity" by somebody who never errs.
        error: e.

    """
    said = believed * (1 - error) + (1 - believed) * error
    told: FloatArray = _entropy(said) - _entropy(np.array(error))
    return np.maximum(told, 0.0)


def _entropy(p: FloatArray) -> FloatArray:
    out: FloatArray = -xlogy(p, p) - xlog1py(1 - p, -p)
    return out
