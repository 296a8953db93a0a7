"""One scan over the references: each leaves its cluster and joins or opens one.

It serves both Dirichlet processes, whose clusters have explicit values: publications have means and
types have precisions. A reference r of cluster value v has log density fit(r, v); n_v others sit
there. It chooses

    an existing cluster   with weight  n_v exp(fit(r, v))
    each of M auxiliaries with weight  alpha / M  m(r) s(v)

where the auxiliaries' values are drawn from G0(v) exp(fit(r, v)) / m(r), m(r) being the integral
over the base density G0, and s(v) <= 1 is what separation gives to a new value. If the reference
was alone, its value is one of the auxiliaries. This is Neal's Algorithm 8 with auxiliaries that are
drawn where the reference is likely instead of from G0, and weighed by G0 / their density. Without
separation the auxiliaries weigh alpha m(r) together: his Algorithm 2.

Choices are made by the Gumbel trick. s(v) <= 1 bounds the auxiliaries' scores, so they need not be
drawn where even the bound loses, which is almost everywhere.

Source: Neal (1998), "Markov chain sampling methods for Dirichlet process mixture models".

Clusters split and merged as wholes, which a scan of one reference at a time hardly ever does.

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

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray
from scipy.special import expit, gammaln, log_expit

from kbforge.contracts import FloatArray, IntArray
from kbforge_lab.scdp.gaussian import Opening

_ROOM = 16


@dataclass
class Seats:
    """Clusters of one Dirichlet process."""

    of: IntArray  # the cluster of each row of the scan, [rows]
    fixed: IntArray  # how many others each cluster has that do not move, [K]
    joinable: NDArray[np.bool_]  # whether rows may choose it, [K]
    values: FloatArray  # [K, F]


class Scan:
    """One scan of all rows, in a random order."""

    def __init__(
        self,
        seats: Seats,
        opening: Opening,
        alpha: float,
        auxiliaries: int,
        rng: np.random.Generator,
    ) -> None:
        self._opening, self._auxiliaries, self._rng = opening, auxiliaries, rng
        self._of = seats.of.copy()
        rows, width, room = len(self._of), len(seats.values), _ROOM
        self._fixed = np.concatenate([seats.fixed, np.zeros(room, dtype=np.int64)])
        self._joinable = np.concatenate([seats.joinable, np.ones(room, dtype=bool)])
        self._values = np.concatenate([seats.values, np.zeros((room, seats.values.shape[1]))])
        self._counts = self._fixed + np.bincount(self._of, minlength=width + room)
        self._fits = np.concatenate([opening.fit(seats.values), np.zeros((rows, room))], axis=1)
        self._noise = rng.gumbel(size=self._fits.shape)
        self._auxiliary_noise = rng.gumbel(size=(rows, auxiliaries))
        self._base = np.log(alpha / auxiliaries) + opening.log_marginal
        with np.errstate(divide="ignore"):
            self._log = np.log(np.arange(self._counts.sum() + 1))
        self._log_counts = np.where(self._joinable, self._log[self._counts], -np.inf)
        self._free: list[int] = [*range(width + room - 1, width - 1, -1)]
        self._free += np.flatnonzero(self._counts[:width] == 0).tolist()

    def run(self) -> Seats:
        """The seats afterwards; clusters that nobody holds are gone, others keep their order."""
        bounds = self._base + self._auxiliary_noise.max(axis=1)
        for row in self._rng.permutation(len(self._of)).tolist():
            left = self._leave(row)
            scores = self._fits[row] + self._noise[row]
            scores += self._log_counts
            best = int(scores.argmax())
            if scores[best] < bounds[row]:
                best = self._consider(row, left, best, float(scores[best]))
            self._take(row, best)
        held = np.flatnonzero(self._counts > 0)
        number = np.zeros(len(self._counts), dtype=np.int64)
        number[held] = np.arange(len(held))
        return Seats(number[self._of], self._fixed[held], self._joinable[held], self._values[held])

    def _leave(self, row: int) -> int | None:
        """Take a row out of its cluster; the cluster, if it was alone there."""
        seat = int(self._of[row])
        self._counts[seat] -= 1
        self._log_counts[seat] = self._log[self._counts[seat]]
        if self._counts[seat]:
            return None
        self._free.append(seat)
        return seat

    def _take(self, row: int, seat: int) -> None:
        self._of[row] = seat
        self._counts[seat] += 1
        self._log_counts[seat] = self._log[self._counts[seat]]

    def _consider(self, row: int, left: int | None, best: int, score: float) -> int:
        """The row's cluster, when its auxiliaries are looked at beside the best existing one."""
        values = self._opening.draw(row, self._auxiliaries, self._rng)
        if left is not None:
            values[0] = self._values[left]
        terms = self._opening.log_separation(values, self._values[self._counts > 0])
        scores = self._base[row] + terms + self._auxiliary_noise[row]
        chosen = int(scores.argmax())
        if scores[chosen] <= score:
            return best
        if left is not None and chosen == 0:
            self._free.remove(left)
            return left
        return self._open(values[chosen])

    def _open(self, value: FloatArray) -> int:
        """A cluster of this value, nobody in it yet."""
        if not self._free:
            self._widen()
        seat = self._free.pop()
        self._values[seat] = value
        self._joinable[seat] = True
        self._fits[:, seat] = self._opening.fit(value[None])[:, 0]
        self._noise[:, seat] = self._rng.gumbel(size=len(self._of))
        return seat

    def _widen(self) -> None:
        width = len(self._counts)
        self._fixed = np.concatenate([self._fixed, np.zeros(width, dtype=np.int64)])
        self._joinable = np.concatenate([self._joinable, np.ones(width, dtype=bool)])
        self._values = np.concatenate([self._values, np.zeros_like(self._values)])
        self._counts = np.concatenate([self._counts, np.zeros(width, dtype=np.int64)])
        self._log_counts = np.concatenate([self._log_counts, np.full(width, -np.inf)])
        self._fits = np.concatenate([self._fits, np.zeros_like(self._fits)], axis=1)
        self._noise = np.concatenate([self._noise, np.zeros_like(self._noise)], axis=1)
        self._free += range(2 * width - 1, width - 1, -1)


_STEPS = 5
"""Of expectation-maximisation before a launch."""


def split_merge(
    seats: Seats, family: Opening, alpha: float, proposals: int, rng: np.random.Generator
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

    def __init__(
        self, seats: Seats, family: Opening, alpha: float, first: int, second: int
    ) -> None:
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
