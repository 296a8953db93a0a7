from __future__ import annotations

import math

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from kbforge.contracts import Particle, Posterior, Problem, Search, Subproblem
from kbforge.errors import KBForgeError, UsageError
from kbforge.evaluation.scores import compare
from kbforge_plugins.calibrators.bcubed import BCubed, best_plateau
from kbforge_plugins.clusterers.sequential import SplitSmc
from tests.calibrators.toys import Letters, draw, fragments

SEARCH = Search(-6.0, 8.0)


class Threshold:
    """Together below log alpha 1, as labelled up to 3, apart above."""

    def __init__(self, right_from=1.0, right_to=3.0):
        self.right_from, self.right_to = right_from, right_to
        self.seeds = []

    def cluster(self, data, problem, rng, on_step=None):
        self.seeds.append(int(rng.integers(1000)))
        log_alpha, n = math.log(problem.alpha), len(data)
        if log_alpha < self.right_from:
            clusters = (tuple(range(n)),)
        elif log_alpha < self.right_to:
            clusters = tuple(tuple(range(i, i + 3)) for i in range(0, n, 3))
        else:
            clusters = tuple((i,) for i in range(n))
        particle = Particle(0.0, clusters)
        return Posterior((Subproblem(tuple(range(n)), (particle,)),), 0.0, n, 0)


def calibrate(data, clusterer, search=SEARCH, seen=None, **options):
    return BCubed(**options).calibrate(
        data, Problem(Letters(), 1.0), clusterer, search, np.random.default_rng(0), seen
    )


DATA = fragments(["a"] * 9, [f"e{i // 3}" for i in range(9)])


@pytest.mark.parametrize(("low", "high"), [(1.0, 3.0), (-2.3, 5.1), (0.05, 1.15)])
def test_the_middle_of_the_best_plateau_is_chosen(low, high):
    result = calibrate(DATA, Threshold(low, high), rounds=6)
    assert result.objective == 1.0
    assert result.at_edge == ""
    assert math.log(result.alpha) == pytest.approx((low + high) / 2, abs=0.02)


def test_flat_and_edge_plateaus_are_reported():
    assert calibrate(DATA, Threshold(-50.0, 0.0)).at_edge == "low"
    assert calibrate(DATA, Threshold(2.0, 50.0)).at_edge == "high"


def test_no_evaluation_beats_the_answer_and_all_are_announced():
    data = draw(8, 5, seed=3)
    seen = []
    result = calibrate(
        data, SplitSmc(particles=5), seen=lambda a, f: seen.append((a, f)), grid=8, rounds=2
    )
    assert sorted(seen) == list(result.curve)
    assert result.objective == max(value for _, value in result.curve)
    problem = Problem(Letters(), result.alpha)
    found = SplitSmc(particles=5).cluster(data, problem, np.random.default_rng(0)).labels()
    gold = [f.label for f in data]
    assert compare(found, gold).bcubed_f1_item_mean == result.objective


def test_every_run_gets_the_same_random_numbers():
    clusterer = Threshold()
    calibrate(DATA, clusterer)
    assert len(clusterer.seeds) > 10
    assert len(set(clusterer.seeds)) == 1


def test_unlabelled_fragments_are_clustered_but_not_compared():
    with_noise = [*DATA, *fragments(["b"] * 3)]
    assert calibrate(with_noise, Threshold()).objective == 1.0
    with pytest.raises(KBForgeError, match="none of the 3 fragments has a label"):
        calibrate(fragments(["b"] * 3), Threshold())


@given(st.dictionaries(st.integers(-50, 50), st.integers(0, 2), min_size=1, max_size=12))
def test_best_plateau_is_a_widest_run_at_the_maximum(curve):
    first, last = best_plateau(curve)
    best = max(curve.values())
    assert all(curve[a] == best for a in curve if first <= a <= last)
    points = sorted(curve)
    runs = [
        b - a
        for i, a in enumerate(points)
        for b in points[i:]
        if all(curve[p] == best for p in points if a <= p <= b)
    ]
    assert last - first == max(runs)


def test_bad_options():
    with pytest.raises(UsageError, match="grid >= 2"):
        BCubed(grid=1)
