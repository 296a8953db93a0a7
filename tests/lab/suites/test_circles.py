"""The circles: their law, the seed, and the suite with the surrogate in the model's place."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
from scipy import stats

from kbforge.errors import UsageError
from kbforge_lab.suites.circle_mixture import draw_clusters, fragments_of
from kbforge_lab.suites.circles import SURROGATE, CirclesSuite
from tests.program import Run

LEVEL = 0.001


def test_circles_are_as_the_paper_draws_them() -> None:
    clusters = draw_clusters(4000, np.random.default_rng(1))
    sizes = np.array([len(points) for points in clusters])
    assert set(sizes.tolist()) == set(range(10, 30))
    assert stats.chisquare(np.bincount(sizes)[10:]).pvalue > LEVEL
    # the centre and radius of the circle through the first three points
    a, b, c = (np.array([points[i] for points in clusters]) for i in range(3))
    sides = 2 * np.stack([b - a, c - a], axis=1)
    squares = [np.square(p).sum(axis=1) for p in (a, b, c)]
    centres = np.linalg.solve(sides, np.stack([s - squares[0] for s in squares[1:]], 1)[..., None])
    for points, centre in zip(clusters, centres[..., 0], strict=True):
        assert np.linalg.norm(points - centre, axis=1) == pytest.approx(0.6, abs=1e-4)
    for coordinate in centres[..., 0].T:
        assert stats.kstest(coordinate, "uniform", (-5, 10)).pvalue > LEVEL


def test_fragments_are_the_points_shuffled() -> None:
    rng = np.random.default_rng(2)
    clusters = draw_clusters(6, rng)
    fragments = fragments_of(clusters, rng)
    for k, points in enumerate(clusters):
        own = [f.vector for f in fragments if f.label == f"circle-{k}"]
        assert sorted(own) == sorted(map(tuple, points.tolist()))  # type: ignore[type-var]
    labels = [fragment.label for fragment in fragments]
    assert labels != sorted(labels)  # type: ignore[type-var]
    assert [fragment.id for fragment in fragments] == [f"point-{i}" for i in range(len(labels))]


def test_the_seed_draws_the_points_and_the_default_as_many_as_the_paper() -> None:
    plan = CirclesSuite().plan()
    assert len(plan.tasks[0].fragments) == 306
    assert len({fragment.label for fragment in plan.tasks[0].fragments}) == 15
    assert CirclesSuite(seed=1).plan().tasks == CirclesSuite(seed=1).plan().tasks
    assert CirclesSuite(seed=1).plan().tasks != CirclesSuite(seed=2).plan().tasks
    assert len({f.label for f in CirclesSuite(circles=3).plan().tasks[0].fragments}) == 3
    with pytest.raises(UsageError, match="at least 1 circle"):
        CirclesSuite(circles=0)
    with pytest.raises(UsageError, match="seed must be at least 0"):
        CirclesSuite(seed=-1)


def test_the_surrogate_proposes_for_all_but_the_greedy_clusterer() -> None:
    plan = CirclesSuite().plan()
    (task,) = plan.tasks
    assert task.likelihood.name == "diffusion"
    assert (task.surrogate.name, task.surrogate.options) == ("gaussian", SURROGATE)  # type: ignore[union-attr]
    asked = {method.name for method in plan.methods if method.surrogate}
    assert asked == {"SMC", "Split SMC", "Metropolis"}
    limits = {m.max_evals for m in plan.sweeps if m.particles == 50 and m.surrogate}
    assert limits == {0, 1, 3, 10, 30, 100, 300}
    assert any(m.particles == 50 and not m.surrogate for m in plan.sweeps)


def test_offline_methods_have_three_orders_of_ten_minutes() -> None:
    methods = CirclesSuite(sweeps=7).plan().methods
    offline = {m.name: m for m in methods if m.clusterer in ("gibbs", "metropolis")}
    assert [m.options for m in offline.values()] == [{"sweeps": 7}] * 2
    assert {(m.shuffles, m.seconds) for m in methods[:3]} == {(None, None)}
    assert {(m.shuffles, m.seconds) for m in methods[3:]} == {(3, 600.0)}


def test_the_bench_of_circles_from_end_to_end(program: Run, tmp_path: Path) -> None:
    job = ["lab", "bench", "circles", "--quick", "--shuffles", 1, "-o", tmp_path, "--json"]
    ran = program(*job, "--set", "suite.likelihood=gaussian", "--set", "suite.circles=4")
    assert ran.code == 0, ran.err
    assert [line["method"] for line in ran.json["table"]] == ["Greedy", "SMC", "Split SMC"]
    kinds = ("runtime", "particles", "observations", "subproblems", "surrogate")
    assert ran.json["figures"] == [f"circles-{kind}.png" for kind in kinds]
    bounds = [e["sentence"] for e in ran.json["expectations"]]
    assert "the bound, 0.8000" in bounds[0]
    assert "that of SMC, " in bounds[1]
    assert all(e["held"] is not None for e in ran.json["expectations"])


def test_the_quick_plan_is_small_and_the_whole_one_has_the_papers_margins() -> None:
    whole, quick = (CirclesSuite().plan(quick) for quick in (False, True))
    # its points are some of the whole plan's
    points = [
        {(fragment.vector, fragment.label) for fragment in plan.tasks[0].fragments}
        for plan in (whole, quick)
    ]
    assert points[1] < points[0]
    assert {label for _, label in points[1]} == {"circle-0", "circle-1", "circle-2"}
    assert max(m.particles or 1 for m in (*quick.methods, *quick.sweeps)) == 10
    assert quick.shuffles == 2
    assert [wanted.slack for wanted in whole.expectations] == [0.0, -0.05]
    # fewer circles than the quick plan has stay as many
    few = CirclesSuite(circles=2)
    assert few.plan(quick=True).tasks == few.plan().tasks
