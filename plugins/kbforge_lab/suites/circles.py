"""Suite `circles`: points on overlapping circles (split-SMC paper, sections 4.1 and A.3).

The target is a diffusion model of sets of points, a black box, and a Gaussian proposes for it. The
points are drawn anew and the model is another one than the paper's, so that its log posteriors are
of something else; its F1 is what must be reached.

The quick plan is of the first 3 circles, two of which overlap by default, P = 10 and two orders
(one for the curves). That is some two minutes of one core: whatever P is, every fragment costs
the model a call of a tenth of a second or two. So few circles leave no room for the paper's
margins; what must hold there is its F1, and that split SMC finds no less probable a grouping than
SMC.
"""

from __future__ import annotations

from dataclasses import replace
from functools import partial

import numpy as np

from kbforge.contracts.fragment import Fragment
from kbforge.errors import UsageError
from kbforge_lab.contracts.suite import Expectation, Method, Model, Plan, Published, Suite, Task
from kbforge_lab.suites.circle_mixture import CIRCLES, draw_clusters, fragments_of
from kbforge_lab.suites.methods import GREEDY, offline, smc, split_smc

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
    "Greedy": Published(None, (0.46, 0.06), 1.4),
    "SMC": Published(None, (0.73, 0.04), 1.6),
    "Split SMC": Published(None, (0.82, 0.05), 5.1),
    "Metropolis": Published(None, (0.81, 0.02), 54.7),
    "Agglomerative": Published(None, (0.73, 0.04), 54.7),
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
        likelihood: the target: a plugin's name or a model folder.
        seed: of the points.
        circles: how many; the quick plan takes at most 3.
        sweeps: most sweeps of a sampler, whatever the machine; `none` leaves it to its patience
            and to the time budget.

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

    def plan(self, quick: bool = False) -> Plan:
        """See `kbforge_lab.contracts.suite`."""
        if quick:
            return self._quick()
        task = self._task(self._fragments)
        sweep = (
            *(make(p) for make in (_smc, _split) for p in (1, 3, 10, 30, 300, 1000)),
            *_ablation((0, 1, 3, 10, 30, 100, 300, None), _ABLATION_PARTICLES),
        )
        return Plan(
            tasks=(task,),
            methods=(GREEDY, _smc(100), _split(100), *self._offline),
            sweeps=tuple(replace(method, shuffles=3) for method in sweep),
            shuffles=30,
            seconds=1000.0,
            expectations=_as_published(),
            published={(_TASK, name): figures for name, figures in _PUBLISHED.items()},
        )

    def _quick(self) -> Plan:
        task = self._task(_drawn(self._circles, self._seed, _QUICK_CIRCLES))
        sweep = (_smc(3), _split(3), *_ablation((0, 3), _QUICK_PARTICLES))
        return Plan(
            tasks=(task,),
            methods=(GREEDY, _smc(_QUICK_PARTICLES), _split(_QUICK_PARTICLES)),
            sweeps=tuple(replace(method, shuffles=1) for method in sweep),
            shuffles=2,
            seconds=300.0,  # of a processor a run takes about ten
            expectations=(
                Expectation(_TASK, "Split SMC", "f1", _F1),
                Expectation(_TASK, "Split SMC", "log_posterior", no_worse_than="SMC"),
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
        Expectation(_TASK, "Split SMC", "f1", no_worse_than="SMC", slack=-_F1_AHEAD),
    )
