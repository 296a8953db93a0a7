"""The generator against the laws of its distribution; fixed seeds, so nothing here is a gamble.

A level of .001 and means within four standard errors: a wrong law fails by orders of magnitude.
"""

from __future__ import annotations

import csv
from pathlib import Path

import numpy as np
import pytest
from scipy import stats

from kbforge.contracts import FloatArray, IntArray
from kbforge.errors import UsageError
from kbforge_lab.suites.gaussian_mixture import GaussianMixture, stick_breaking

LEVEL = 0.001


def near(values: FloatArray, expected: float) -> None:
    """The mean of independent values is the expected one, within four standard errors."""
    error = values.std(ddof=1) / np.sqrt(len(values))
    assert abs(values.mean() - expected) < 4 * error


def test_shares_are_those_of_a_dirichlet_process() -> None:
    rng, alpha = np.random.default_rng(1), 5.0
    shares = np.array([stick_breaking(400, alpha, rng) for _ in range(4000)])
    assert shares.sum(axis=1) == pytest.approx(1.0)
    assert (shares > 0).all()
    for k in range(6):
        near(shares[:, k], (alpha / (1 + alpha)) ** k / (1 + alpha))
    # the probability that two points share a cluster
    near(np.square(shares).sum(axis=1), 1 / (1 + alpha))


def test_numbers_of_clusters_are_those_of_ewens() -> None:
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


def test_each_level_has_its_distribution() -> None:
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


def test_points_are_drawn_by_their_shares() -> None:
    mixture = GaussianMixture(points=50_000, atoms=8, alpha=3.0)
    drawn = mixture.draw(np.random.default_rng(4))
    found = np.bincount(drawn.clusters, minlength=8)
    assert stats.chisquare(found, 50_000 * drawn.weights).pvalue > LEVEL


def test_a_seed_is_a_data_set_and_fragments_say_what_was_drawn() -> None:
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
def test_impossible_parameters_are_refused(name: str, value: float) -> None:
    with pytest.raises(UsageError, match=name):
        GaussianMixture(**{name: value})  # type: ignore[arg-type]


def features(points: FloatArray, clusters: IntArray) -> tuple[float, ...]:
    """Occupied clusters, share of the largest, median variance within, width of the whole."""
    _, numbers, sizes = np.unique(clusters, return_inverse=True, return_counts=True)
    large = np.flatnonzero(sizes >= 5)
    within = [points[numbers == k].var(axis=0, ddof=1).mean() for k in large]
    return float(len(sizes)), sizes.max() / len(points), float(np.median(within)), points.std()


@pytest.mark.data
def test_the_published_points_are_as_if_drawn_here(data_dir: Path) -> None:
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
