"""Circle clusters: the geometry, and the exact evidence against other ways to the same number."""

from __future__ import annotations

import math

import numpy as np
import pytest
from scipy.special import i0e, logsumexp
from scipy.stats import multivariate_normal

from kbforge.errors import UsageError
from kbforge_lab.suites.circle import Circles


def test_points_lie_on_the_rim_all_around() -> None:
    circles, rng = Circles(), np.random.default_rng(0)
    centres = circles.centres(50, rng)
    assert np.abs(centres).max() <= 5
    assert np.abs(centres).max() > 4
    points = circles.points(centres, 200, rng)
    assert points.shape == (50, 200, 2)
    away = points - centres[:, None]
    np.testing.assert_allclose(np.hypot(away[..., 0], away[..., 1]), 0.6)
    assert np.abs(away.mean(axis=(0, 1))).max() < 0.03


def test_evidence_of_one_point_is_the_density_far_from_the_edge() -> None:
    """One point of a circle that may be anywhere is itself uniform, but near the border."""
    circles = Circles(noise=0.05)
    assert circles.log_evidence(np.array([[0.3, -2.0]])) == pytest.approx(-math.log(100), abs=1e-3)
    assert circles.log_evidence(np.array([[9.0, 0.0]])) == -math.inf


def test_evidence_is_what_simulation_estimates() -> None:
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
def test_evidence_leaves_out_no_centre_that_matters(noise: float) -> None:
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
def test_parameters_out_of_range_are_refused(wrong: dict[str, float]) -> None:
    with pytest.raises(UsageError, match="circles: "):
        Circles(**wrong)


def test_without_noise_there_is_no_density() -> None:
    with pytest.raises(UsageError, match="no density"):
        Circles().log_evidence(np.zeros((2, 2)))
