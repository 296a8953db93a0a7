"""The suite `circles`: points on overlapping circles (split-SMC paper, 4.1, A.3, D.2).

The target is a diffusion model of sets of points, a black box, and a Gaussian proposes for it.
Points and model are not the paper's, so log posteriors are of something else; the F1 must be
reached. A fragment costs the model a tenth of a second or two, so the quick plan is of 3 circles
with P = 10: split SMC must find no less probable a grouping than SMC there.

The distribution of a cluster is `kbforge_lab.circles`.

The suite has 15 centres in [-5, 5]^2, radius .6 and 10 to 29 points a circle, evenly: 292 points on
average, 306 in the paper's draw. The ranges are those of the published code.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from functools import partial

import numpy as np

from kbforge.contracts.fragment import Fragment
from kbforge.contracts.likelihood import FloatArray
from kbforge.errors import UsageError
from kbforge_lab.circles import Circles
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
