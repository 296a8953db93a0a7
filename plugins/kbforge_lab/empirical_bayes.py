"""The calibrator `empirical-bayes`: the alpha that makes the data most probable.

The evidence of alpha sums over all partitions z, and keeps the prior's normaliser:

    log p(x | alpha) = logsumexp over z of [sum over C in z of (log alpha + lgamma(|C|) + L(C))]
                       + lgamma(alpha) - lgamma(alpha + n)

A run at alpha_0 represents a product of its subproblems' particles. Dropping every other partition
bounds the evidence from below. Alpha enters a partition only through its number of clusters K, so
the bound of one run is known at every alpha, not only at its own:

    b(alpha) = log_posterior - sum over s of w_s*
               + sum over s of logsumexp over i of [w_si + K_si (log alpha - log alpha_0)]
               + lgamma(alpha) - lgamma(alpha + n)

(s runs over subproblems, i over particles, and w_s* is the weight of the heaviest particle: the
first two terms are the log of the mass that the particles hold). The envelope, the largest bound of
the runs so far, is maximised; a run at its maximum adds a bound; and so on until the maximum stays.
This ascends the best bound known, needs few runs, and starts from a grid, so that no fixed point of
cluster-then-refit can trap it.

Bias. The bound is tight where the posterior is concentrated and loose where it is diffuse, so it
leans away from diffuse alphas, by less the more particles are kept. It is a bound under greedy
resampling with weights equal to the posterior (the defaults); otherwise it is an estimate. More
serious is what any empirical Bayes shares: L must be normalised and the data must look like a
Dirichlet process. A likelihood that is too sharp (a language model on short names) gives too large
an alpha, and then labels are needed to calibrate.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

import numpy as np
from scipy.optimize import minimize_scalar
from scipy.special import gammaln

from kbforge.contracts import (
    CalibrationResult,
    Calibrator,
    Clusterer,
    FloatArray,
    Fragment,
    ModelSpec,
    Posterior,
    Search,
)
from kbforge.errors import KBForgeError, UsageError
from kbforge_plugins.calibrators import Runs

_SCAN_STEP = 0.05  # nats of log alpha between the points of a scan of the envelope


class EmpiricalBayes(Calibrator):
    """Maximise a lower bound of the log evidence. Objective: nats. Labels are not read.

    Args:
        grid: runs spread evenly over log alpha before the ascent.
        rounds: the most runs of the ascent.
        tolerance: the ascent ends when log alpha moves less than this many nats.

    """

    def __init__(self, grid: int = 6, rounds: int = 10, tolerance: float = 0.02) -> None:
        if grid < 1 or rounds < 0 or not tolerance > 0:
            raise UsageError(
                "calibrator empirical-bayes: expected grid >= 1, rounds >= 0 and tolerance > 0"
            )
        self.grid, self.rounds, self.tolerance = grid, rounds, tolerance

    def calibrate(
        self,
        fragments: Sequence[Fragment],
        spec: ModelSpec,
        clusterer: Clusterer,
        search: Search,
        rng: np.random.Generator,
        on_evaluation: Callable[[float, float], None] | None = None,
    ) -> CalibrationResult:
        """Choose alpha; every clustering uses the same random numbers."""
        if not fragments:
            raise KBForgeError("calibrator empirical-bayes: there are no fragments")
        runs = Runs(fragments, spec, clusterer, rng)
        bounds: list[EvidenceBound] = []

        def run_at(log_alpha: float) -> None:
            bounds.append(EvidenceBound(runs.cluster(log_alpha), log_alpha))
            if on_evaluation is not None:
                on_evaluation(float(np.exp(log_alpha)), bounds[-1](log_alpha))

        # the centres of equal parts: runs at the very edges are the slowest and tell least
        edges = np.linspace(search.low, search.high, self.grid + 1)
        for log_alpha in (edges[:-1] + edges[1:]) / 2:
            run_at(float(log_alpha))
        best = _maximum(bounds, search)
        for _ in range(self.rounds):
            run_at(best)
            previous, best = best, _maximum(bounds, search)
            if abs(best - previous) < self.tolerance:
                break
        curve = {bound.log_alpha: _envelope(bounds, bound.log_alpha) for bound in bounds}
        if best not in curve:
            curve[best] = _envelope(bounds, best)
            if on_evaluation is not None:
                on_evaluation(float(np.exp(best)), curve[best])
        near = 2 * self.tolerance
        return CalibrationResult(
            alpha=float(np.exp(best)),
            objective=curve[best],
            at_edge="low" if best - search.low < near else "high" * (search.high - best < near),
            curve=tuple((float(np.exp(a)), curve[a]) for a in sorted(curve)),
        )


class EvidenceBound:
    """b(alpha) of one run: a lower bound of the log evidence, at any log alpha."""

    def __init__(self, posterior: Posterior, log_alpha: float) -> None:
        self.log_alpha = log_alpha
        self._n = posterior.n_fragments
        # a subproblem with one particle (most are such) has weight 0 and needs no sum
        several = [s.particles for s in posterior.subproblems if len(s.particles) > 1]
        self._mass = posterior.log_posterior - sum(ps[0].log_weight for ps in several)
        self._fixed_clusters = sum(
            len(s.particles[0].clusters) for s in posterior.subproblems if len(s.particles) == 1
        )
        self._weights = np.array([p.log_weight for particles in several for p in particles])
        self._clusters = np.array(
            [len(p.clusters) for particles in several for p in particles], dtype=np.float64
        )
        self._starts = np.cumsum([0, *map(len, several)])[:-1]

    def __call__(self, log_alpha: float) -> float:
        """The bound, in nats."""
        step = log_alpha - self.log_alpha
        out = self._mass + self._fixed_clusters * step + log_rising(log_alpha, self._n)
        if self._weights.size:
            shifted: FloatArray = self._weights + self._clusters * step
            out += float(np.logaddexp.reduceat(shifted, self._starts).sum())
        return float(out)


def log_rising(log_alpha: float, n: int) -> float:
    """lgamma(alpha) - lgamma(alpha + n), the log of the prior's normaliser, in nats.

    At large alpha the difference of two huge numbers is replaced by the sum that it stands for.
    """
    alpha = float(np.exp(log_alpha))
    if alpha < 1e6:
        return float(gammaln(alpha) - gammaln(alpha + n))
    return float(-n * log_alpha - np.log1p(np.arange(n) / alpha).sum())


def _envelope(bounds: Sequence[EvidenceBound], log_alpha: float) -> float:
    return max(bound(log_alpha) for bound in bounds)


def _maximum(bounds: Sequence[EvidenceBound], search: Search) -> float:
    """Where the envelope is largest: the best point of a scan, refined between its neighbours."""
    points = [*np.arange(search.low, search.high, _SCAN_STEP).tolist(), search.high]
    best = max(points, key=lambda log_alpha: _envelope(bounds, log_alpha))
    refined = minimize_scalar(
        lambda log_alpha: -_envelope(bounds, log_alpha),
        bounds=(max(search.low, best - _SCAN_STEP), min(search.high, best + _SCAN_STEP)),
        method="bounded",
    )
    # a bounded search never returns its ends
    return float(best if _envelope(bounds, best) >= -refined.fun else refined.x)
