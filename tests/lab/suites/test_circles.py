"""The circles: their law, the seed, and the suite with the surrogate in the model's place."""

import csv
import math

import numpy as np
import pytest
from scipy import stats
from scipy.special import i0e, logsumexp
from scipy.stats import multivariate_normal

from kbforge.contracts import FloatArray, IntArray
from kbforge.errors import UsageError
from kbforge_lab.circles import Circles
from kbforge_lab.suites.circles import SURROGATE, CirclesSuite, draw_clusters, fragments_of
from kbforge_lab.suites.gauss import GaussianMixture, stick_breaking

LEVEL = 0.001


def test_circles_are_as_the_paper_draws_them():
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


def test_fragments_are_the_points_shuffled():
    rng = np.random.default_rng(2)
    clusters = draw_clusters(6, rng)
    fragments = fragments_of(clusters, rng)
    for k, points in enumerate(clusters):
        own = [f.vector for f in fragments if f.label == f"circle-{k}"]
        assert sorted(own) == sorted(map(tuple, points.tolist()))  # type: ignore[type-var]
    labels = [fragment.label for fragment in fragments]
    assert labels != sorted(labels)  # type: ignore[type-var]
    assert [fragment.id for fragment in fragments] == [f"point-{i}" for i in range(len(labels))]


def test_the_seed_draws_the_points_and_the_default_as_many_as_the_paper():
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


def test_the_surrogate_proposes_for_all_but_the_greedy_clusterer():
    plan = CirclesSuite().plan()
    (task,) = plan.tasks
    assert task.likelihood.name == "diffusion"
    assert (task.surrogate.name, task.surrogate.options) == ("gaussian", SURROGATE)  # type: ignore[union-attr]
    asked = {method.name for method in plan.methods if method.surrogate}
    assert asked == {"SMC", "Split SMC", "Metropolis"}
    limits = {m.max_evals for m in plan.sweeps if m.particles == 50 and m.surrogate}
    assert limits == {0, 1, 3, 10, 30, 100, 300}
    assert any(m.particles == 50 and not m.surrogate for m in plan.sweeps)


def test_offline_methods_have_three_orders_of_ten_minutes():
    methods = CirclesSuite(sweeps=7).plan().methods
    offline = {m.name: m for m in methods if m.clusterer in ("gibbs", "metropolis")}
    assert [m.options for m in offline.values()] == [{"sweeps": 7}] * 2
    assert {(m.shuffles, m.seconds) for m in methods[:3]} == {(None, None)}
    assert {(m.shuffles, m.seconds) for m in methods[3:]} == {(3, 600.0)}


def test_the_bench_of_circles_from_end_to_end(program, tmp_path):
    job = ["lab", "bench", "circles", "--quick", "--shuffles", 1, "-o", tmp_path, "--json"]
    ran = program(*job, "--set", "suite.likelihood=gaussian", "--set", "suite.circles=4")
    assert ran.code == 0, ran.err
    assert [line["method"] for line in ran.json["table"]] == ["Greedy", "SMC", "Split SMC"]
    kinds = ("particles", "observations", "surrogate")
    assert ran.json["figures"] == [f"circles-{kind}.png" for kind in kinds]
    bounds = [e["sentence"] for e in ran.json["expectations"]]
    assert "the bound, 0.8000" in bounds[0]
    assert "that of SMC, " in bounds[1]
    assert all(e["held"] is not None for e in ran.json["expectations"])


def test_the_quick_plan_is_small_and_the_whole_one_has_the_papers_margins():
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


# Circle clusters: the geometry, and the exact evidence against other ways to the same number.


def test_points_lie_on_the_rim_all_around():
    circles, rng = Circles(), np.random.default_rng(0)
    centres = circles.centres(50, rng)
    assert np.abs(centres).max() <= 5
    assert np.abs(centres).max() > 4
    points = circles.points(centres, 200, rng)
    assert points.shape == (50, 200, 2)
    away = points - centres[:, None]
    np.testing.assert_allclose(np.hypot(away[..., 0], away[..., 1]), 0.6)
    assert np.abs(away.mean(axis=(0, 1))).max() < 0.03


def test_evidence_of_one_point_is_the_density_far_from_the_edge():
    """One point of a circle that may be anywhere is itself uniform, but near the border."""
    circles = Circles(noise=0.05)
    assert circles.log_evidence(np.array([[0.3, -2.0]])) == pytest.approx(-math.log(100), abs=1e-3)
    assert circles.log_evidence(np.array([[9.0, 0.0]])) == -math.inf


def test_evidence_is_what_simulation_estimates():
    """Monte Carlo over centre and angles, the noise's density known."""
    circles, rng = Circles(reach=1.0, noise=0.3), np.random.default_rng(1)
    points = np.array([[0.2, 0.1], [0.5, -0.4], [-0.3, 0.3]])
    rims = Circles(reach=1.0)
    places = rims.points(rims.centres(200_000, rng), len(points), rng)
    density = multivariate_normal.pdf(places - points, cov=0.09 * np.eye(2)).prod(axis=1)
    spread = density.std() / density.mean() / math.sqrt(len(density))
    estimate = math.log(density.mean())
    assert circles.log_evidence(points) == pytest.approx(estimate, abs=4 * spread)


@pytest.mark.parametrize("noise", [0.02, 0.05, 0.4])
def test_evidence_leaves_out_no_centre_that_matters(noise):
    """The plain sum over all centres; also of points that no circle would have."""
    circles, rng = Circles(noise=noise), np.random.default_rng(2)
    sets = [*circles.points(circles.centres(4, rng), 6, rng), rng.normal(size=(5, 2)) / 2]
    for points in (*sets, *(one[:1] for one in sets)):
        near, cells = 0.6 + 8 * noise, 60
        low = np.maximum(points[0] - near, -5)
        high = np.minimum(points[0] + near, 5)
        step = (high - low) / cells
        x, y = (low[axis] + step[axis] * (np.arange(cells) + 0.5) for axis in (0, 1))
        centres = np.stack(np.meshgrid(x, y), axis=-1).reshape(-1, 1, 2)
        d = np.hypot(*np.moveaxis(points - centres, -1, 0))
        logs = -((d - 0.6) ** 2) / (2 * noise**2) + np.log(i0e(d * 0.6 / noise**2))
        logs -= math.log(2 * math.pi * noise**2)
        plain = logsumexp(logs.sum(axis=1)) + math.log(step.prod() / 100)
        assert circles.log_evidence(points, cells=cells) == pytest.approx(plain, abs=1e-9)


@pytest.mark.parametrize("wrong", [{"radius": 0.0}, {"reach": math.inf}, {"noise": -0.1}])
def test_parameters_out_of_range_are_refused(wrong):
    with pytest.raises(UsageError, match="circles: "):
        Circles(**wrong)


def test_without_noise_there_is_no_density():
    with pytest.raises(UsageError, match="no density"):
        Circles().log_evidence(np.zeros((2, 2)))


# The generator against the laws of its distribution; fixed seeds, so nothing here is a gamble.


def near(values: FloatArray, expected: float) -> None:
    """The mean of independent values is the expected one, within four standard errors."""
    error = values.std(ddof=1) / np.sqrt(len(values))
    assert abs(values.mean() - expected) < 4 * error


def test_shares_are_those_of_a_dirichlet_process():
    rng, alpha = np.random.default_rng(1), 5.0
    shares = np.array([stick_breaking(400, alpha, rng) for _ in range(4000)])
    assert shares.sum(axis=1) == pytest.approx(1.0)
    assert (shares > 0).all()
    for k in range(6):
        near(shares[:, k], (alpha / (1 + alpha)) ** k / (1 + alpha))
    # the probability that two points share a cluster
    near(np.square(shares).sum(axis=1), 1 / (1 + alpha))


def test_numbers_of_clusters_are_those_of_ewens():
    mixture = GaussianMixture(points=200, atoms=1000, alpha=5.0)
    rng = np.random.default_rng(2)
    drawn = [mixture.draw(rng).clusters for _ in range(600)]
    occupied = np.array([len(set(clusters.tolist())) for clusters in drawn], dtype=np.float64)
    i = np.arange(200)
    near(occupied, float((5 / (5 + i)).sum()))
    variance = float((5 * i / (5 + i) ** 2).sum())
    near(np.square(occupied - occupied.mean()), variance)
    alone = [np.count_nonzero(np.bincount(clusters) == 1) for clusters in drawn]
    near(np.array(alone, dtype=np.float64), 5 * 200 / (5 + 199))


def test_each_level_has_its_distribution():
    mixture = GaussianMixture(points=20_000, atoms=3000, groups=500, a=3, b=0.7, mu=4, lam=0.01)
    drawn = mixture.draw(np.random.default_rng(3))
    deviations = np.sqrt(drawn.variances)
    assert stats.kstest(drawn.variances.ravel(), "invgamma", (3, 0, 0.7)).pvalue > LEVEL
    assert stats.kstest(drawn.centres.ravel(), "norm", (4, 10)).pvalue > LEVEL
    assert stats.chisquare(np.bincount(drawn.groups, minlength=500)).pvalue > LEVEL
    away = (drawn.means - drawn.centres[drawn.groups]) / (mixture.spread * deviations)
    assert stats.kstest(away.ravel(), "norm").pvalue > LEVEL
    k = drawn.clusters
    noise = (drawn.points - drawn.means[k]) / deviations[k]
    assert stats.kstest(noise.ravel(), "norm").pvalue > LEVEL
    # dimensions are independent
    for pairs in (drawn.variances, drawn.centres, away, noise):
        assert stats.spearmanr(pairs[:, 0], pairs[:, 1]).pvalue > LEVEL


def test_points_are_drawn_by_their_shares():
    mixture = GaussianMixture(points=50_000, atoms=8, alpha=3.0)
    drawn = mixture.draw(np.random.default_rng(4))
    found = np.bincount(drawn.clusters, minlength=8)
    assert stats.chisquare(found, 50_000 * drawn.weights).pvalue > LEVEL


def test_a_seed_is_a_data_set_and_fragments_say_what_was_drawn():
    mixture = GaussianMixture(points=30)
    one, other = (mixture.draw(np.random.default_rng(5)) for _ in range(2))
    fragments = one.fragments()
    assert fragments == other.fragments()
    assert fragments != mixture.draw(np.random.default_rng(6)).fragments()
    assert [fragment.vector for fragment in fragments] == [tuple(x) for x in one.points.tolist()]
    assert [fragment.label for fragment in fragments] == [f"cluster-{k}" for k in one.clusters]
    assert len({fragment.id for fragment in fragments}) == 30


@pytest.mark.parametrize(
    ("name", "value"), [("points", 0), ("alpha", -1.0), ("lam", float("inf")), ("spread", -0.1)]
)
def test_impossible_parameters_are_refused(name, value):
    with pytest.raises(UsageError, match=name):
        GaussianMixture(**{name: value})  # type: ignore[arg-type]


def features(points: FloatArray, clusters: IntArray) -> tuple[float, ...]:
    """Occupied clusters, share of the largest, median variance within, width of the whole."""
    _, numbers, sizes = np.unique(clusters, return_inverse=True, return_counts=True)
    large = np.flatnonzero(sizes >= 5)
    within = [points[numbers == k].var(axis=0, ddof=1).mean() for k in large]
    return float(len(sizes)), sizes.max() / len(points), float(np.median(within)), points.std()


@pytest.mark.data
def test_the_published_points_are_as_if_drawn_here(data_dir):
    with open(data_dir / "gauss/gauss700.csv", newline="") as file:
        rows = list(csv.DictReader(file))
    points = np.array([[float(row["x"]), float(row["y"])] for row in rows])
    published = features(points, np.array([int(row["label"]) for row in rows]))
    rng = np.random.default_rng(7)
    ours = [GaussianMixture().draw(rng) for _ in range(400)]
    simulated = np.array([features(drawn.points, drawn.clusters) for drawn in ours])
    low, high = np.quantile(simulated, [0.005, 0.995], axis=0)
    assert (low <= published).all()
    assert (published <= high).all()
    # with b as the paper's text has it, no data set is as wide within its clusters
    narrow = [GaussianMixture(b=0.5).draw(rng) for _ in range(200)]
    assert max(features(drawn.points, drawn.clusters)[2] for drawn in narrow) < published[2]
