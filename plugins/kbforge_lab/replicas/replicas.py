"""Replicas: groupings that are drawn fragment by fragment, and their importance weights.

| symbol | meaning |
|---|---|
| R | how many replicas there are |
| x | the next fragment |
| C | a cluster that a replica holds |
| q(C) | |C| exp(L(C + x) - L(C)), for a new one alpha exp(L({x})): the place's weight |
| g | the sum of q over a replica's clusters and the new one: the predictive of x |
| w | a replica's importance weight, the product of its g |

Each replica draws x's place with probability q / g, and w becomes w g. The factor that the prior
shares, 1 / (alpha + t - 1), is left out. Where the effective sample size, 1 / sum of w^2 for
normalised w, is below a share of R, the weights vary too much: R replicas are drawn by their
weights, with replacement, and have equal weights from there on.

Sources: MacEachern, Clyde and Liu (1999), "Sequential importance sampling for nonparametric Bayes
models"; the paper on sequential clustering by sampling importance resampling, sections 2 and 3.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from kbforge.contracts import FloatArray, IntArray
from kbforge.numerics.arrays import capacity_for, grown

_FEW = 8


class Replicas:
    """R replicas. A replica's clusters have places 0, 1, ... in the order in which they came.

    Args:
        n_fragments: how many there will be.
        replicas: R.
        log_alpha: of the prior.
        rng: of all draws.

    Attributes:
        placed: how many fragments have been.
        n_slots: how many slots are numbered.
        log_weights: log w of each replica, up to a constant, shape [R].
        log_target: of each, the unnormalised log posterior of its grouping, nats, shape [R].

    """

    def __init__(
        self, n_fragments: int, replicas: int, log_alpha: float, rng: np.random.Generator
    ) -> None:
        self._log_alpha, self._rng = log_alpha, rng
        self._slots = np.full((replicas, _FEW), -1, dtype=np.int64)  # by replica and place
        self._count = np.zeros(replicas, dtype=np.int64)
        self._place = np.zeros((replicas, n_fragments), dtype=np.int32)  # of each fragment
        self._log_size = np.full(_FEW, -np.inf)  # by slot; -inf if no replica holds it
        self._size = np.zeros(_FEW, dtype=np.int64)
        self._holders = np.zeros(_FEW, dtype=np.int64)
        self._free: list[int] = []
        self.placed = self.n_slots = 0
        self.log_weights = np.zeros(replicas)
        self.log_target = np.zeros(replicas)

    @property
    def held(self) -> IntArray:
        """The slots of the clusters that are held, ascending."""
        return np.flatnonzero(self._holders[: self.n_slots])

    def draw(self, predictive: FloatArray, alone: float) -> tuple[IntArray, IntArray, IntArray]:
        """Have every replica draw the next fragment's place.

        Args:
            predictive: L(C + x) - L(C) by slot, nats, shape [n_slots]; of held ones not NaN.
            alone: L({x}), nats.

        Returns:
            The parents of the clusters made (-1 is none), their slots, and the slots of those that
            no replica holds any more.

        Raises:
            ValueError: no replica has a possible place; nothing has changed.

        """
        n, width = len(self._count), int(self._count.max(initial=0))
        each = np.arange(n)
        value = np.full(self.n_slots + 1, -np.inf)  # the last of no slot
        held = self.held
        value[held] = self._log_size[held] + predictive[held]
        values = np.empty((n, width + 1))
        values[:, :width] = value[self._slots[:, :width]]
        values[:, width] = self._log_alpha + alone
        top = values.max(axis=1)
        possible = top > -np.inf  # the others weigh nothing from now on, wherever they put it
        mass = np.exp(values - np.where(possible, top, 0.0)[:, None])
        mass[~possible, width] = 1.0
        cumulative = mass.cumsum(axis=1)
        total = cumulative[:, -1]
        log_weights = self.log_weights + top + np.log(total)
        if log_weights.max() == -np.inf:
            raise ValueError("the fragment has no finite assignment")
        self.log_weights = log_weights
        chosen = (cumulative <= (self._rng.random(n) * total)[:, None]).sum(axis=1)
        chosen = np.minimum(chosen, width)
        self.log_target += values[each, chosen]
        opens = chosen == width
        place = np.where(opens, self._count, chosen)
        if int(place.max()) >= self._slots.shape[1]:
            wider = np.full((n, 2 * self._slots.shape[1]), -1, dtype=np.int64)
            wider[:, : self._slots.shape[1]] = self._slots
            self._slots = wider
        parent = self._slots[each, place] + 1
        moved = np.bincount(parent, minlength=self.n_slots + 1)
        grown_from = np.flatnonzero(moved)
        parents, moved = grown_from - 1, moved[grown_from]
        children = self._numbered(parents)
        child_of = np.empty(int(grown_from[-1]) + 1, dtype=np.int64)
        child_of[grown_from] = children
        self._slots[each, place] = child_of[parent]
        self._place[:, self.placed] = place
        self._count += opens
        self.placed += 1
        self._holders[children] = moved
        joined = parents >= 0
        self._holders[parents[joined]] -= moved[joined]
        return parents, children, self._dropped(parents[joined])

    def effective(self) -> float:
        """The effective sample size, from 1 to R."""
        return float(1 / np.square(self.weights()).sum())

    def weights(self) -> FloatArray:
        """Normalised w, shape [R]."""
        share = np.exp(self.log_weights - self.log_weights.max())
        return np.asarray(share / share.sum())

    def resample(self) -> IntArray:
        """Draw R replicas by their weights; the slots that none of them holds."""
        counts = self._rng.multinomial(len(self._count), self.weights())
        kept = np.repeat(np.arange(len(counts)), counts)
        before = self.held
        self._slots, self._count = self._slots[kept], self._count[kept]
        self._place, self.log_target = self._place[kept], self.log_target[kept]
        self.log_weights = np.zeros(len(kept))
        holds = self._slots[self._slots >= 0]
        self._holders[: self.n_slots] = np.bincount(holds, minlength=self.n_slots)
        return self._dropped(before)

    def groupings(self) -> NDArray[np.int32]:
        """Each replica's grouping: the first fragment of every one's cluster, shape [R, placed]."""
        place = self._place[:, : self.placed]
        each = np.arange(len(place))
        first = np.zeros((len(place), int(self._count.max(initial=0))), dtype=np.int32)
        for fragment in reversed(range(self.placed)):
            first[each, place[:, fragment]] = fragment
        return np.take_along_axis(first, place, axis=1)

    def _numbered(self, parents: IntArray) -> IntArray:
        """Slots for the clusters that grew of these, -1 being none; shape [len(parents)]."""
        found = np.array(
            [self._free.pop() if self._free else self._next() for _ in parents], dtype=np.int64
        )
        self._size[found] = np.where(parents >= 0, self._size[parents], 0) + 1
        self._log_size[found] = np.log(self._size[found])
        return found

    def _next(self) -> int:
        self.n_slots += 1
        if self.n_slots > len(self._size):
            capacity = capacity_for(self.n_slots, len(self._size))
            self._log_size = grown(self._log_size, capacity)
            self._size = grown(self._size, capacity)
            self._holders = grown(self._holders, capacity)
        return self.n_slots - 1

    def _dropped(self, slots: IntArray) -> IntArray:
        """Those of them that nobody holds, which are free to be taken again."""
        dropped: IntArray = slots[self._holders[slots] == 0]
        self._free += dropped.tolist()
        return dropped
