"""The suite `circles`: points on overlapping circles (split-SMC paper, 4.1, A.3, D.2).

The target is a diffusion model of sets of points, a black box, and a Gaussian proposes for it.
Points and model are not the paper's, so log posteriors are of something else; the F1 must be
reached. A fragment costs the model a tenth of a second or two, so the quick plan is of 3 circles
with P = 10: split SMC must find no less probable a grouping than SMC there.

    c ~ Uniform([-reach, reach]^2)            centre
    a_i ~ Uniform([0, 2 pi))                  angle of point i
    x_i = c + radius (cos a_i, sin a_i)       point, i = 1..n

Given c the points are independent: L({x_1..x_n}) = log E_c[prod_i p(x_i | c)]. Points on a rim have
no density in the plane, so they are blurred by Gaussian noise of standard deviation s; with I_0 the
modified Bessel function,

    p(x | c) = exp(-(d^2 + radius^2) / (2 s^2)) I_0(d radius / s^2) / (2 pi s^2),  d = |x - c|

The suite has 15 centres in [-5, 5]^2, radius .6 and 10 to 29 points a circle, evenly: 292 points on
average, 306 in the paper's draw. The ranges are those of the published code.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import partial

import numpy as np
from scipy.special import i0e, logsumexp

from kbforge.contracts.fragment import Fragment
from kbforge.contracts.likelihood import FloatArray
from kbforge.errors import UsageError
from kbforge_lab.suites.data import GREEDY, offline, smc, split_smc
from kbforge_lab.suites.plan import (
    Expectation,
    Method,
    Model,
    PaperFigures,
    Suite,
    SuitePlan,
    Task,
)

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


CIRCLES = 15
SIZES = (10, 29)  # both included
SHAPE = Circles(radius=0.6, reach=5.0)


def draw_clusters(circles: int, rng: np.random.Generator) -> list[FloatArray]:
    """The points of each circle, shape [n, 2] each."""
    if circles < 1:
        raise UsageError(f"circles: expected at least 1 circle, got {circles}")
    sizes = rng.integers(SIZES[0], SIZES[1] + 1, size=circles)
    centres = SHAPE.centres(circles, rng)
    return [SHAPE.points(centres[k : k + 1], int(n), rng)[0] for k, n in enumerate(sizes)]


def fragments_of(clusters: Sequence[FloatArray], rng: np.random.Generator) -> list[Fragment]:
    """The points as labelled fragments in random order, `point-0` first."""
    labelled = [(tuple(x), k) for k, points in enumerate(clusters) for x in points.tolist()]
    return [
        Fragment(f"point-{i}", {}, vector=labelled[j][0], label=f"circle-{labelled[j][1]}")
        for i, j in enumerate(rng.permutation(len(labelled)).tolist())
    ]


_TASK = "circles"
_ALPHA = 1.0
_DEFAULT = "diffusion"
# the paper's Gaussian, fitted by evidence to 1,000 simulated circles; one number a dimension
SURROGATE = {
    "a": (1400.0, 1700.0),
    "b": (270.0, 300.0),
    "mu": (-0.096, -0.032),
    "lam": (0.021, 0.020),
}
# the first seed that draws as many points as the paper has, 306
_SEED = 158
# table 1 of the paper; its MCMC is the Metropolis sampler here
_PUBLISHED = {
    "Greedy": PaperFigures(None, (0.46, 0.06), 1.4),
    "SMC": PaperFigures(None, (0.73, 0.04), 1.6),
    "Split SMC": PaperFigures(None, (0.82, 0.05), 5.1),
    "Metropolis": PaperFigures(None, (0.81, 0.02), 54.7),
    "Agglomerative": PaperFigures(None, (0.73, 0.04), 54.7),
}
_F1, _F1_AHEAD = 0.80, 0.05
_ABLATION_PARTICLES = 50
_QUICK_CIRCLES, _QUICK_PARTICLES = 3, 10
_OFFLINE_SHUFFLES, _OFFLINE_SECONDS = 3, 600.0

_smc, _split = partial(smc, surrogate=True), partial(split_smc, surrogate=True)


class CirclesSuite(Suite):
    """15 circles that overlap, some 300 points on their rims. Task: circles. Methods: Greedy, SMC,
    Split SMC, Gibbs, Metropolis, Agglomerative, Agglomerative (batch 100). Quick: 3 of the circles,
    the first three methods, P of 10 at most, two orders.

    Args:
        likelihood: likelihood to cluster with: a plugin's name or a model folder.
        seed: random seed of the points.
        circles: number of circles; --quick takes at most 3.
        sweeps: maximum sweeps of a sampler, on any machine; `none` leaves this to its patience and
            the time budget.

    """

    def __init__(
        self,
        likelihood: str = _DEFAULT,
        seed: int = _SEED,
        circles: int = CIRCLES,
        sweeps: int | None = None,
    ) -> None:
        if seed < 0:
            raise UsageError(f"suite circles: seed must be at least 0, got {seed}")
        self._likelihood = likelihood
        self._seed = seed
        self._circles = circles
        self._fragments = _drawn(circles, seed)
        self._offline = tuple(
            replace(method, shuffles=_OFFLINE_SHUFFLES, seconds=_OFFLINE_SECONDS)
            for method in offline(sweeps)
        )

    def plan(self, quick: bool = False) -> SuitePlan:
        if quick:
            return self._quick()
        task = self._task(self._fragments)
        sweep = (
            *(make(p) for make in (_smc, _split) for p in (1, 3, 10, 30, 300, 1000)),
            *_ablation((0, 1, 3, 10, 30, 100, 300, None), _ABLATION_PARTICLES),
        )
        return SuitePlan(
            tasks=(task,),
            methods=(GREEDY, _smc(100), _split(100), *self._offline),
            sweeps=tuple(replace(method, shuffles=3) for method in sweep),
            shuffles=30,
            seconds=1000.0,
            expectations=_as_published(),
            published={(_TASK, name): figures for name, figures in _PUBLISHED.items()},
        )

    def _quick(self) -> SuitePlan:
        task = self._task(_drawn(self._circles, self._seed, _QUICK_CIRCLES))
        sweep = (_smc(3), _split(3), *_ablation((0, 3), _QUICK_PARTICLES))
        return SuitePlan(
            tasks=(task,),
            methods=(GREEDY, _smc(_QUICK_PARTICLES), _split(_QUICK_PARTICLES)),
            sweeps=tuple(replace(method, shuffles=1) for method in sweep),
            shuffles=2,
            seconds=300.0,  # of a processor a run takes about ten
            expectations=(
                Expectation(_TASK, "Split SMC", "f1", _F1),
                Expectation(_TASK, "Split SMC", "log_posterior", no_worse_than=("SMC",)),
            ),
        )

    def _task(self, fragments: tuple[Fragment, ...]) -> Task:
        return Task(_TASK, fragments, self._target(), _ALPHA, Model("gaussian", SURROGATE))

    def _target(self) -> Model:
        # the Gaussian in the model's place knows what the surrogate knows
        options = SURROGATE if self._likelihood == "gaussian" else {}
        return Model(self._likelihood, options)


def _drawn(circles: int, seed: int, kept: int | None = None) -> tuple[Fragment, ...]:
    """The points of the first circles of a draw; None keeps all."""
    rng = np.random.default_rng(seed)
    return tuple(fragments_of(draw_clusters(circles, rng)[:kept], rng))


def _ablation(limits: tuple[int | None, ...], particles: int) -> tuple[Method, ...]:
    """Greedy, SMC and split SMC with at most M evaluations a step; None asks no surrogate."""
    plain = (GREEDY, _smc(particles), _split(particles))
    return tuple(
        replace(method, surrogate=limit is not None, max_evals=limit)
        for limit in limits
        for method in plain
        if limit is not None or method != GREEDY
    )


def _as_published() -> tuple[Expectation, ...]:
    """The paper's margins of split SMC."""
    return (
        Expectation(_TASK, "Split SMC", "f1", _F1),
        Expectation(_TASK, "Split SMC", "f1", no_worse_than=("SMC",), slack=-_F1_AHEAD),
    )
