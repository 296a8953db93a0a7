"""Points on a circle whose centre is unknown, as clusters (split-SMC paper, section 4.1).

    c ~ Uniform([-reach, reach]^2)            centre
    a_i ~ Uniform([0, 2 pi))                  angle of point i
    x_i = c + radius (cos a_i, sin a_i)       point, i = 1..n

Given c the points are independent: L({x_1..x_n}) = log E_c[prod_i p(x_i | c)]. Points on a rim have
no density in the plane, so they are blurred by Gaussian noise of standard deviation s; with I_0 the
modified Bessel function,

    p(x | c) = exp(-(d^2 + radius^2) / (2 s^2)) I_0(d radius / s^2) / (2 pi s^2),  d = |x - c|
"""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np
from scipy.special import i0e, logsumexp

from kbforge.contracts.likelihood import FloatArray
from kbforge.errors import UsageError

# nats below the best centre, so that all others together are less than a float can tell
_NEGLIGIBLE = 60.0


@dataclass(frozen=True, slots=True)
class Circles:
    """The distribution of one cluster of n points."""

    radius: float = 0.6
    reach: float = 5.0  # centres are uniform in [-reach, reach]^2, > 0
    noise: float = 0.0  # s >= 0, standard deviation of a point about its place on the rim

    def __post_init__(self) -> None:
        for name in ("radius", "reach"):
            if not 0 < getattr(self, name) < math.inf:
                raise UsageError(f"circles: {name} must be positive, got {getattr(self, name)}")
        if not 0 <= self.noise < math.inf:
            raise UsageError(f"circles: noise must be at least 0, got {self.noise}")

    def centres(self, k: int, rng: np.random.Generator) -> FloatArray:
        """Centres of k circles, shape [k, 2]."""
        return rng.uniform(-self.reach, self.reach, (k, 2))

    def points(self, centres: FloatArray, n: int, rng: np.random.Generator) -> FloatArray:
        """n points of each of k circles, shape [k, n, 2]."""
        angles = rng.uniform(0.0, 2 * math.pi, (len(centres), n))
        rim = self.radius * np.stack([np.cos(angles), np.sin(angles)], axis=-1)
        blur = self.noise * rng.normal(size=rim.shape)
        return np.asarray(centres[:, None, :] + rim + blur)

    def log_evidence(self, points: FloatArray, cells: int = 400) -> float:
        """The exact L of one cluster [n, 2], by the midpoint rule over centres, in nats."""
        if self.noise == 0:
            raise UsageError("circles: points without noise have no density")
        near = self.radius + 8 * self.noise
        sides, steps = [], []
        for x in points[0].tolist():
            low, high = max(x - near, -self.reach), min(x + near, self.reach)
            if low >= high:
                return -math.inf
            steps.append((high - low) / cells)
            sides.append(low + steps[-1] * (np.arange(cells) + 0.5))
        centres = np.stack(np.meshgrid(*sides, indexing="ij"), axis=-1).reshape(-1, 1, 2)
        total = self._log_likelihoods(points, centres)
        area = math.log(steps[0]) + math.log(steps[1]) - 2 * math.log(2 * self.reach)
        return float(logsumexp(total)) + area

    def _log_likelihoods(self, points: FloatArray, centres: FloatArray) -> FloatArray:
        """log p(x_1..x_n | c) of the centres [k, 1, 2] that matter, in no more than k places.

        A centre is given up when the remaining points cannot bring it to within `_NEGLIGIBLE` of
        another.
        """
        rim = np.linspace(0.0, self.radius + 8 * self.noise, 1_001)
        highest = self._log_density(rim[:, None] * [1.0, 0.0], np.zeros((1, 1, 2))).max()
        total, known = np.zeros(len(centres)), -math.inf
        for left, point in zip(range(len(points) - 1, -1, -1), points, strict=True):
            total = total + self._log_density(point[None], centres)[:, 0]
            known = max(known, self._log_density(points, centres[total.argmax()][None]).sum())
            matters = total + left * highest > known - _NEGLIGIBLE
            total, centres = total[matters], centres[matters]
        return total

    def _log_density(self, points: FloatArray, centres: FloatArray) -> FloatArray:
        """log p(x | c) of points [n, 2] and centres [k, 1, 2], shape [k, n]."""
        distance = np.sqrt(((points - centres) ** 2).sum(axis=-1))
        variance = self.noise**2
        # i0e carries exp(-d radius / s^2), which completes the square
        bessel = np.log(i0e(distance * self.radius / variance))
        apart = (distance - self.radius) ** 2 / (2 * variance)
        return np.asarray(bessel - apart - math.log(2 * math.pi * variance))
