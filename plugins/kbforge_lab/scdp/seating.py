"""One scan over the clusters of references: each leaves its own and chooses one, or opens one.

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
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Protocol

import numpy as np
from numpy.typing import NDArray

from kbforge.contracts import FloatArray, IntArray

_ROOM = 16


class Opening(Protocol):
    """How the references of a scan (rows 0, 1, ...) fit to values."""

    @property
    def log_marginal(self) -> FloatArray:
        """log m(r), nats, shape [rows]."""
        ...

    def fit(self, values: FloatArray) -> FloatArray:
        """log density of each row under each value, shapes [m, F], to [rows, m]."""
        ...

    def draw(self, row: int, count: int, rng: np.random.Generator) -> FloatArray:
        """Values of a row's posterior under the base density, shape [count, F]."""
        ...

    def log_separation(self, values: FloatArray, held: FloatArray) -> FloatArray:
        """log s of new values beside those that are held; [m, F] and [K, F], to [m]."""
        ...


@dataclass
class Seats:
    """Clusters of one Dirichlet process.

    Attributes:
        of: the cluster of each row of the scan, shape [rows].
        fixed: how many others each cluster has that do not move, shape [K].
        joinable: whether rows may choose it, shape [K].
        values: shape [K, F].

    """

    of: IntArray
    fixed: IntArray
    joinable: NDArray[np.bool_]
    values: FloatArray


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
