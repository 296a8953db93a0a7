"""Clusters split and merged as wholes, which a scan of one reference at a time hardly ever does.

Two references are drawn. If they sit together, their cluster S is to be split into S1, S2; if not,
theirs are to be merged. Values are integrated out of the choice, then drawn anew for what changed:

    split's ratio = alpha G(n1) G(n2) / G(n)  m(S1) m(S2) / m(S)  s(new) / s(old)  1 / q(S1, S2)

with G the gamma function, m(S) the evidence of a set, s the separation of the values, and q the
probability of proposing that split; a merge's is its inverse. New values are drawn as if nothing
separated them, so that s alone is left of them; it is 1 in conjugate models.

Proposals are made of a *launch state*: a mixture of two, fitted to S by expectation-maximisation
from the two references on, which depends on S and on the two alone and so is the same both ways.
Given it, the references choose their sides independently, all at once; q is the product of their
choices.

Sources: Jain and Neal (2007), "Splitting and merging components of a nonconjugate Dirichlet process
mixture model", for launch states; Chang and Fisher (2013), "Parallel sampling of DP mixture models
using sub-cluster splits", for assigning all at once given two values and their weights.
"""

from __future__ import annotations

from typing import Protocol

import numpy as np
from numpy.typing import NDArray
from scipy.special import expit, gammaln, log_expit

from kbforge.contracts import FloatArray, IntArray
from kbforge_lab.scdp.seating import Seats

_STEPS = 5
"""Of expectation-maximisation before a launch."""


class Family(Protocol):
    """How sets of references (rows 0, 1, ...) fit to values; sets are weights, shape [m, rows]."""

    def fit(self, values: FloatArray) -> FloatArray:
        """log density of each row under each value, shapes [m, F], to [rows, m]."""
        ...

    def evidence(self, member: FloatArray) -> FloatArray:
        """log m(S) of each set, nats, shape [m]."""
        ...

    def centres(self, member: FloatArray) -> FloatArray:
        """A likely value of each set, shape [m, F]."""
        ...

    def draw_for(self, member: FloatArray, rng: np.random.Generator) -> FloatArray:
        """A value of each set's posterior under the base density, shape [m, F]."""
        ...

    def log_separation(self, values: FloatArray, held: FloatArray) -> FloatArray:
        """log s of new values beside those that are held; [m, F] and [K, F], to [m]."""
        ...


def split_merge(
    seats: Seats, family: Family, alpha: float, proposals: int, rng: np.random.Generator
) -> Seats:
    """Seats after some proposals; clusters with references that do not move are left alone."""
    rows = len(seats.of)
    for _ in range(proposals if rows > 1 else 0):
        first, second = rng.choice(rows, 2, replace=False).tolist()
        if seats.fixed[seats.of[[first, second]]].any():
            continue
        seats = _Pair(seats, family, alpha, first, second).proposed(rng)
    return seats


class _Pair:
    """Two references, and the union of their clusters."""

    def __init__(self, seats: Seats, family: Family, alpha: float, first: int, second: int) -> None:
        self._seats, self._family, self._alpha = seats, family, alpha
        self._first, self._second = first, second
        one, other = seats.of[first], seats.of[second]
        self._split = bool(one != other)
        self._inside = (seats.of == one) | (seats.of == other)
        self._away = np.unique([one, other])

    def proposed(self, rng: np.random.Generator) -> Seats:
        """The seats with the two split or merged, or as they were."""
        threshold = -rng.standard_exponential()
        if self._split:
            side = self._seats.of == self._seats.of[self._second]
            new = self._with(self._inside[None].astype(np.float64), rng)
            ratio = self._gained(new) - self._log_ratio(side)
            if ratio > threshold:  # or not even a q of 1 would have it accepted
                ratio += self._log_taken(self._launch(), side)
        else:
            odds = self._launch()
            side = self._inside & (rng.random(len(odds)) < expit(odds))
            new = self._with(self._sides(side), rng)
            ratio = self._gained(new) + self._log_ratio(side) - self._log_taken(odds, side)
        return new if ratio > threshold else self._seats

    def _launch(self) -> FloatArray:
        """Log odds of the second side, shape [rows]; the two references' own are infinite."""
        member = np.zeros((2, len(self._inside)))
        member[0, self._first] = member[1, self._second] = 1.0
        odds = np.zeros(len(self._inside))
        for _ in range(_STEPS):
            fits = self._family.fit(self._family.centres(member))
            share = member.sum(axis=1)
            odds = fits[:, 1] - fits[:, 0] + np.log(share[1] / share[0])
            odds[self._first], odds[self._second] = -np.inf, np.inf
            member = self._sides(expit(odds))
        return odds

    def _sides(self, second: FloatArray | NDArray[np.bool_]) -> FloatArray:
        """Both sides as sets, of weights of the second; shape [2, rows]."""
        return np.where(self._inside, np.stack([1.0 - second, 1.0 * second]), 0.0)

    def _log_taken(self, odds: FloatArray, side: NDArray[np.bool_]) -> float:
        """log q."""
        return float(log_expit(np.where(side, odds, -odds))[self._inside].sum())

    def _log_ratio(self, side: NDArray[np.bool_]) -> float:
        """log of prior and evidence of the split to those of the union."""
        sides = self._sides(side)
        n_1, n_2 = sides.sum(axis=1)
        prior = np.log(self._alpha) + gammaln(n_1) + gammaln(n_2) - gammaln(n_1 + n_2)
        one, other, both = self._family.evidence(np.stack([*sides, self._inside.astype(float)]))
        return float(prior + one + other - both)

    def _with(self, sets: FloatArray, rng: np.random.Generator) -> Seats:
        """Seats with these sets for the clusters of the two, their values drawn anew."""
        old = self._seats
        kept = np.delete(np.arange(len(old.values)), self._away)
        number = np.full(len(old.values), -1)
        number[kept] = np.arange(len(kept))
        of: IntArray = np.where(self._inside, len(kept) + sets.argmax(axis=0), number[old.of])
        new = np.zeros(len(sets), dtype=np.int64)
        return Seats(
            of,
            np.concatenate([old.fixed[kept], new]),
            np.concatenate([old.joinable[kept], new == 0]),
            np.concatenate([old.values[kept], self._family.draw_for(sets, rng)]),
        )

    def _gained(self, new: Seats) -> float:
        """log s of the new values less that of the old ones."""
        kept = len(self._seats.values) - len(self._away)
        held = new.values[:kept]
        return self._beside(new.values[kept:], held) - self._beside(
            self._seats.values[self._away], held
        )

    def _beside(self, values: FloatArray, held: FloatArray) -> float:
        total = 0.0
        for value in values:
            total += float(self._family.log_separation(value[None], held)[0])
            held = np.concatenate([held, value[None]])
        return total
