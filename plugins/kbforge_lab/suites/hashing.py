"""Suite `hashing`: split-merge samplers on Gaussian mixtures that grow.

The sets S1 to S3 of Luo and Shrivastava (2018), section 4.2, are "10 Gaussians in 25 dimensions",
each with a mean and variances of its own, and 100, 1,000 and 10,000 points. How far apart the means
were is not said: here they are normal with a standard deviation of 3, and variances are inverse
gamma with shape and scale 2. Their large set was KDD Cup 2004's: 145,751 points, 74 dimensions,
2,000 classes; of that shape is the large set here, with 100,000 points drawn likewise.
"""

from __future__ import annotations

import numpy as np

from kbforge.contracts.fragment import Fragment
from kbforge.errors import UsageError
from kbforge_lab.contracts.suite import Method, Model, Plan, Suite, Task
from kbforge_lab.suites.gauss import separate_gaussians

_SPREAD = 3.0  # standard deviation of the means
_MODEL = Model("gaussian", {"a": 2.0, "b": 2.0, "mu": 0.0, "lam": 1 / _SPREAD**2})
_POINTS = {"S1": 100, "S2": 1_000, "S3": 10_000}
_QUICK = ("S1", "S2")
_SHAPE = 10, 25  # clusters, dimensions
_LARGE = 100_000, 2_000, 74
# time alone decides when they stop
_ENDLESS = {"patience": None}
_METHODS = (
    Method("RGSM", "rgsm", _ENDLESS),
    Method("SDDS", "sdds", _ENDLESS),
    Method("LSHSM", "lshsm", _ENDLESS),
    Method("MinSM", "minsm", _ENDLESS),
    Method("MinSM (K=4)", "minsm", {**_ENDLESS, "rows": 4}),
    Method("MinSM and Gibbs", "minsm", {**_ENDLESS, "gibbs": 1}),
    Method("Gibbs", "gibbs", _ENDLESS),
)


class Hashing(Suite):
    """How fast split-merge samplers get to where they end, by hashes and without. Tasks: S1, S2,
    S3. Methods: RGSM, SDDS, LSHSM, MinSM, MinSM (K=4), MinSM and Gibbs, Gibbs. Quick: S1 and S2,
    one order, 5 seconds a run.

    Args:
        full: also the large set of 100,000 points in 74 dimensions and 2,000 clusters.
        spread: standard deviation of the clusters' means, in each dimension, above 0.
        seed: of the points.

    """

    def __init__(self, full: bool = False, spread: float = _SPREAD, seed: int = 0) -> None:
        if seed < 0:
            raise UsageError(f"suite hashing: seed must be at least 0, got {seed}")
        if not spread > 0:
            raise UsageError(f"suite hashing: spread must be above 0, got {spread}")
        self._full, self._spread, self._seed = full, spread, seed

    def plan(self, quick: bool = False) -> Plan:
        names = _QUICK if quick else tuple(_POINTS)
        tasks = [self._task(name, _POINTS[name], *_SHAPE) for name in names]
        if self._full and not quick:
            tasks.append(self._task("large", *_LARGE))
        return Plan(
            tasks=tuple(tasks),
            methods=_METHODS,
            shuffles=1 if quick else 3,
            seconds=5.0 if quick else 120.0,
            reference="MinSM",
            race=True,
        )

    def _task(self, name: str, points: int, clusters: int, dimensions: int) -> Task:
        rng = np.random.default_rng([self._seed, points])
        x, labels = separate_gaussians(points, clusters, dimensions, self._spread, rng)
        fragments = tuple(
            Fragment(f"point-{i}", {}, tuple(row), f"cluster-{k}")
            for i, (row, k) in enumerate(zip(x.tolist(), labels.tolist(), strict=True))
        )
        return Task(name, fragments, _MODEL, alpha=1.0)
