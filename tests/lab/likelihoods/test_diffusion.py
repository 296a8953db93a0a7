"""The diffusion likelihood: against closed forms, normalised, one score a set, errors."""

import math

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy.integrate import quad
from scipy.stats import multivariate_normal
from torch import Tensor

from kbforge.contracts import FloatArray, Fragment
from kbforge.errors import LikelihoodError, ModelError, UsageError
from kbforge.models.bundle import make_likelihood
from kbforge_lab.circles import Circles
from kbforge_lab.likelihoods.diffusion import (
    Diffusion,
    SetDenoiser,
    SetDensity,
    adams_bashforth,
    estimated_flow,
    exact_flow,
    in_order,
    integrate,
    probe_directions,
    shipped_model,
)
from kbforge_plugins.likelihoods.gaussian import Gaussian
from tests.lab.training.circles_models import diffusion, random_model, untrained, write

SCALE = 2.0


def density(denoiser: SetDenoiser, steps: int = 12, probes: int = 0, batch: int = 64) -> SetDensity:
    return SetDensity(diffusion(denoiser, SCALE), steps, probes, batch)


def sets(sizes: list[int], seed: int = 0) -> list[FloatArray]:
    rng = np.random.default_rng(seed)
    return [rng.normal((1.0, -0.5), 2.0, (n, 2)) for n in sizes]


def fragments(points: FloatArray) -> list[Fragment]:
    return [Fragment(f"p{i}", {}, tuple(x)) for i, x in enumerate(points.tolist())]


# --- the right number -----------------------------------------------------------------------------


@pytest.mark.parametrize("n", [1, 2, 3, 10])
def test_the_density_of_gaussians_is_the_closed_form(n):
    """An untrained model has the exact score of Gaussian clusters: their density must come out."""
    within, least = 0.1, 0.1
    drawn = sets([n] * 5, seed=n)
    covariance = (1 - within) * np.ones((n, n)) + (within + least**2) * np.eye(n)
    expected = [
        sum(
            multivariate_normal.logpdf((x[:, axis] - mean) / SCALE, cov=covariance)
            - n * math.log(SCALE)
            for axis, mean in ((0, 1.0), (1, -0.5))
        )
        for x in drawn
    ]
    coarse, fine = (density(untrained(within, least), steps)(drawn) for steps in (12, 60))
    np.testing.assert_allclose(coarse, expected, rtol=0.02, atol=0.1)
    np.testing.assert_allclose(fine, expected, rtol=1e-3, atol=1e-3)


def test_the_divergence_is_integrated_by_simpson_s_rule():
    """Exact for a polynomial of third degree, which no trapezoids are."""

    def flow(y: Tensor, u: float, _: int) -> tuple[Tensor, Tensor]:
        # what is integrated over u is exp(u) times the divergence
        return torch.zeros_like(y), torch.tensor(
            [math.exp(-u) * (u**3 + u**2)], dtype=torch.float64
        )

    _, gained = integrate(flow, torch.zeros(1, 1, 2), -1.0, 2.0, 4)
    assert float(gained) == pytest.approx((2.0**4 - 1) / 4 + (2.0**3 + 1) / 3, rel=1e-12)


def grid(reach: float, cells: int) -> tuple[FloatArray, float]:
    side = (np.arange(cells) + 0.5) / cells * 2 * reach - reach
    places = np.stack(np.meshgrid(1.0 + side, -0.5 + side, indexing="ij"), axis=-1).reshape(-1, 2)
    return places, (2 * reach / cells) ** 2


def test_the_density_of_one_point_is_normalised():
    """Whatever the weights: a flow makes and destroys no probability."""
    places, area = grid(16.0, 32)
    one_each = [x[None] for x in places]
    scores = density(random_model(size=0.05), steps=24, batch=1_024)(one_each)
    assert scores.max() > density(untrained())([np.array([[1.0, -0.5]])])[0] + 0.5
    assert np.exp(scores).sum() * area == pytest.approx(1.0, abs=0.02)


def test_the_density_of_two_points_is_normalised():
    """By importance sampling from a wide Gaussian."""
    n = 8_000
    wide = multivariate_normal(np.tile((1.0, -0.5), 2), cov=7.0)
    pairs = wide.rvs(n, random_state=1)
    scores = density(random_model(size=0.02), batch=2_000)(list(pairs.reshape(-1, 2, 2)))
    weights = np.exp(scores - wide.logpdf(pairs))
    error = weights.std() / n**0.5
    assert error < 0.05
    assert weights.mean() == pytest.approx(1.0, abs=3 * error)


def test_the_divergence_is_that_of_the_whole_map():
    denoiser, u = random_model(), -0.7
    y = torch.randn(3, 4, 2, generator=torch.Generator().manual_seed(1))
    real = torch.ones(3, 4, dtype=torch.bool)
    real[1, 2:] = False
    y = y * real[..., None]
    noise, divergence = exact_flow(denoiser, real)(y, u, 0)
    for k, n in enumerate((4, 2, 4)):
        one, level = y[k : k + 1, :n], torch.tensor([u])
        there = torch.ones(1, n, dtype=torch.bool)
        jacobian = torch.autograd.functional.jacobian(
            lambda z, level=level, there=there: denoiser(z, z, level, there), one
        )
        expected = jacobian.reshape(2 * n, 2 * n).trace()
        assert float(divergence[k]) == pytest.approx(float(expected), rel=1e-4, abs=1e-4)
        torch.testing.assert_close(noise[k, :n], denoiser(one, one, level, there)[0])


def test_estimates_of_the_divergence_are_right_on_average():
    denoiser, drawn = random_model(), sets([3, 5])
    y, real = torch.zeros(2, 5, 2), torch.ones(2, 5, dtype=torch.bool)
    real[0, 3:] = False
    for row, one in enumerate(drawn):
        y[row, : len(one)] = torch.from_numpy(one)
    noise, expected = exact_flow(denoiser, real)(y, -0.5, 0)
    estimates = []
    for probes in (1, 400):
        directions = probe_directions(drawn, 5, probes, 1)
        assert (directions[0, :, 0, 3:] == 0).all()
        assert (directions[0, :, 0, :3].abs() == 1).all()
        again, estimate = estimated_flow(denoiser, real, directions)(y, -0.5, 0)
        torch.testing.assert_close(again, noise)
        estimates.append((estimate - expected).abs())
    assert (estimates[1] < 0.25 * expected.abs().clamp(min=1.0)).all()
    assert (estimates[1] < estimates[0]).all()


@pytest.mark.parametrize("order", [1, 2, 3])
@pytest.mark.parametrize("h", [0.1, 0.5])
def test_weights_integrate_polynomials_exactly(order, h):
    weights = adams_bashforth(order, h)
    for degree in range(order):
        expected, _ = quad(lambda v, d=degree: math.exp(v) * v**d, 0.0, h)
        found = sum(weight * (-h * i) ** degree for i, weight in enumerate(weights))
        assert found == pytest.approx(expected, rel=1e-9)


# --- one score a set ------------------------------------------------------------------------------


@pytest.mark.parametrize("probes", [0, 2])
@settings(max_examples=6)
@given(st.lists(st.integers(1, 7), min_size=1, max_size=9), st.randoms(use_true_random=False))
def test_alone_or_in_a_batch_in_any_order(probes, sizes, rng):
    score = density(random_model(), probes=probes, batch=12)
    drawn = sets(sizes)
    together = score(drawn)
    shuffled = list(range(len(sizes)))
    rng.shuffle(shuffled)  # type: ignore[attr-defined]
    again = score([drawn[i][::-1] for i in shuffled])
    np.testing.assert_allclose(again, together[shuffled], rtol=0, atol=2e-3)
    np.testing.assert_allclose(score(drawn[:1]), together[:1], rtol=0, atol=2e-3)


def test_points_are_put_in_one_order():
    points = np.array([[1.0, 2.0], [0.0, 2.0], [5.0, -1.0], [1.0, 2.0]])
    for seed in range(5):
        shuffled = np.random.default_rng(seed).permutation(points)
        assert in_order(shuffled).tolist() == in_order(points).tolist()


@pytest.fixture
def folder(tmp_path):
    return write(random_model(), tmp_path / "model")


def test_a_score_is_computed_once(folder, monkeypatch):
    likelihood = Diffusion(str(folder))
    points = fragments(sets([4])[0])
    first = likelihood.log_marginal([points, points[::-1], [], points[:2]])
    assert first[0] == first[1] != first[3]
    assert first[2] == 0.0

    def refuse(*_: object) -> None:
        raise AssertionError("computed again")

    monkeypatch.setattr(SetDensity, "_score", refuse)
    assert likelihood.log_marginal([points[:2], points[::-1]]).tolist() == [first[3], first[0]]


def test_a_bundle_by_path_and_by_option(folder):
    drawn = [fragments(one) for one in sets([3, 1])]
    by_option = make_likelihood("diffusion", {"model": str(folder)}).log_marginal(drawn)
    by_path = make_likelihood(str(folder)).log_marginal(drawn)
    assert by_option.tolist() == by_path.tolist()
    finer = make_likelihood(str(folder), {"steps": 40}).log_marginal(drawn)
    assert finer.tolist() != by_path.tolist()
    np.testing.assert_allclose(finer, by_path, rtol=0, atol=0.5)
    estimated, again = (
        make_likelihood(str(folder), {"probes": 1}).log_marginal(drawn).tolist() for _ in range(2)
    )
    assert estimated == again != by_path.tolist()


@pytest.mark.parametrize("far", [1e6, 1e30, 1e300])
def test_points_that_are_absurdly_far_have_no_probability(folder, far):
    near, away = fragments(np.array([[0.0, 0.0], [far, 0.0]]))
    scores = Diffusion(str(folder)).log_marginal([[near], [near] * 3, [away], [near, away]])
    assert np.isfinite(scores[:2]).all()  # of points that coincide, too
    assert scores[2:].tolist() == [-math.inf, -math.inf]


def test_errors_are_sentences(folder, tmp_path):
    likelihood = Diffusion(str(folder))
    with pytest.raises(LikelihoodError, match='"a" has no vector, which the diffusion likelihood'):
        likelihood.log_marginal([[Fragment("a", {"name": ("x",)})]])
    with pytest.raises(LikelihoodError, match='"b" has a vector of 3 numbers'):
        likelihood.log_marginal([[Fragment("b", {}, (1.0, 2.0, 3.0))]])
    with pytest.raises(UsageError, match="steps must be even, 2 or more, got 7"):
        Diffusion(str(folder), steps=7)
    with pytest.raises(UsageError, match="cannot be negative"):
        Diffusion(str(folder), probes=-1)
    with pytest.raises(ModelError, match="there is no model bundle"):
        Diffusion(str(tmp_path / "nowhere"))


# --- the model that ships -------------------------------------------------------------------------


def test_the_model_that_ships_knows_circles():
    """Its card: within two nats of the evidence on average, deviations of at most about one."""
    folder = shipped_model()
    assert sum(file.stat().st_size for file in folder.iterdir()) < 2 * 2**20
    rng = np.random.default_rng(3)
    circles, shipped = Circles(noise=0.05), Diffusion()
    for n in (1, 3, 10, 20):
        drawn = circles.points(circles.centres(12, rng), n, rng)
        scores = shipped.log_marginal([fragments(points) for points in drawn])
        exact = np.array([circles.log_evidence(points, cells=150) for points in drawn])
        assert -2.5 < (scores - exact).mean() < 0.5
        assert (scores - exact).std() < 1.5


def test_twelve_steps_are_enough_for_the_model_that_ships():
    rng, circles = np.random.default_rng(6), Circles()
    drawn = [circles.points(circles.centres(1, rng), n, rng)[0] for n in (1, 2, 10, 29) * 2]
    few, many = (Diffusion(steps=s).log_marginal(list(map(fragments, drawn))) for s in (12, 96))
    assert np.abs(few - many).max() < 0.5


def test_the_model_that_ships_tells_a_circle_from_a_disc():
    rng = np.random.default_rng(4)
    circles = Circles(noise=0.05)
    (ring,) = circles.points(np.zeros((1, 2)), 12, rng)
    disc = ring * rng.random((12, 1)) ** 0.5
    on, within = Diffusion().log_marginal([fragments(ring), fragments(disc)])
    assert on > within + 10


def test_its_surrogate_is_as_good_as_the_published_one():
    rng = np.random.default_rng(5)
    circles, surrogate = Circles(), Diffusion().surrogate
    published = Gaussian(a=(1400, 1700), b=(270, 300), mu=(-0.096, -0.032), lam=(0.021, 0.020))
    for n in (2, 5, 20):
        drawn = [fragments(x) for x in circles.points(circles.centres(300, rng), n, rng)]
        ours, theirs = surrogate.log_marginal(drawn), published.log_marginal(drawn)
        assert ours.mean() == pytest.approx(theirs.mean(), abs=0.2)
        assert (ours - theirs).std() < 0.5
