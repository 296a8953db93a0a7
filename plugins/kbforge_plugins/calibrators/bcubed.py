"""The calibrator `bcubed`: clusters with each alpha and compares with gold labels.

The objective, mean per-item B-cubed F1, is a step function of log alpha with plateaus. So it is
searched on a grid. Then the intervals on both sides of the best plateau are halved a few times,
which locates a peak (a plateau of one point) and measures a wide plateau. The answer is the middle
of the best plateau, far from both of its steps.

It costs one clustering per evaluation. It fits alpha to this clusterer, and overfits small labelled
sets; the pseudo-likelihood is smoother and needs no clustering.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

import numpy as np

from kbforge.contracts import CalibrationResult, Calibrator, Clusterer, Fragment, ModelSpec, Search
from kbforge.errors import UsageError
from kbforge.evaluation.scores import compare
from kbforge_plugins.calibrators import Runs, labelled_only


class BCubed(Calibrator):
    """Maximise mean per-item B-cubed F1. Objective: F1 between 0 and 1.

    All fragments are clustered; those with a label are compared.

    Args:
        grid: evaluations spread evenly over log alpha.
        rounds: how often the flanks of the best plateau are halved.

    """

    needs_labels = True

    def __init__(self, grid: int = 15, rounds: int = 3) -> None:
        if grid < 2 or rounds < 0:
            raise UsageError("calibrator bcubed: expected grid >= 2 and rounds >= 0")
        self.grid, self.rounds = grid, rounds

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
        labelled_only(fragments, "bcubed")
        gold = [fragment.label for fragment in fragments]
        runs = Runs(fragments, spec, clusterer, rng)

        def f1(log_alpha: float) -> float:
            found = runs.cluster(log_alpha).labels()
            pairs = [(f, g) for f, g in zip(found, gold, strict=True) if g is not None]
            value = compare([f for f, _ in pairs], [g for _, g in pairs]).bcubed_f1_item_mean
            if on_evaluation is not None:
                on_evaluation(float(np.exp(log_alpha)), value)
            return value

        curve = {float(a): f1(float(a)) for a in np.linspace(search.low, search.high, self.grid)}
        for _ in range(self.rounds):
            for log_alpha in _flanks(curve):
                curve[log_alpha] = f1(log_alpha)
        first, last = best_plateau(curve)
        middle = (first + last) / 2
        if middle not in curve:
            curve[middle] = f1(middle)
            if curve[middle] < curve[first]:  # the plateau has a hole there
                best = [a for a in curve if curve[a] == curve[first]]
                middle = min(best, key=lambda a: abs(a - middle))
        return CalibrationResult(
            alpha=float(np.exp(middle)),
            objective=curve[middle],
            at_edge="low" if first == min(curve) else "high" if last == max(curve) else "",
            curve=tuple((float(np.exp(a)), curve[a]) for a in sorted(curve)),
        )


def best_plateau(curve: dict[float, float]) -> tuple[float, float]:
    """First and last point of the widest run of points at the maximum (the first such run)."""
    best, points = max(curve.values()), sorted(curve)
    runs: list[tuple[float, float]] = []
    previous_is_best = False
    for point in points:
        is_best = curve[point] == best
        if is_best:
            runs.append((runs.pop()[0] if previous_is_best else point, point))
        previous_is_best = is_best
    return max(runs, key=lambda run: run[1] - run[0])


def _flanks(curve: dict[float, float]) -> list[float]:
    """Halfway from each end of the best plateau to the next point outside it."""
    first, last = best_plateau(curve)
    below = max((a for a in curve if a < first), default=None)
    above = min((a for a in curve if a > last), default=None)
    flanks = ((first, below), (last, above))
    return [(end + outside) / 2 for end, outside in flanks if outside is not None]
