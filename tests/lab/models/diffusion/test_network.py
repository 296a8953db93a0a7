"""The denoiser of sets: no order, no padding, a divergence that one may read off."""

from __future__ import annotations

import math

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from torch import Tensor

from tests.lab.training.circles_models import random_model, untrained


def noise(y: Tensor, real: Tensor | None = None, log_s: float = -1.0) -> Tensor:
    real = torch.ones(y.shape[:2], dtype=torch.bool) if real is None else real
    with torch.no_grad():
        found: Tensor = random_model()(y, y, torch.full((len(y),), log_s), real)
    return found


def points(k: int, n: int, seed: int = 0) -> Tensor:
    return torch.randn(k, n, 2, generator=torch.Generator().manual_seed(seed))


@settings(max_examples=8)
@given(st.permutations(range(5)), st.floats(-2.0, 2.0))
def test_points_have_no_order(order: list[int], log_s: float) -> None:
    y = points(3, 5)
    found = noise(y[:, order], log_s=log_s)
    torch.testing.assert_close(found, noise(y, log_s=log_s)[:, order], rtol=0, atol=1e-5)


def test_every_point_matters_to_every_other() -> None:
    y = points(1, 4)
    for i in range(4):
        moved = y.clone()
        moved[0, i] += 0.5
        assert ((noise(moved) - noise(y)).abs().amax(dim=-1) > 1e-4).all()


def test_padding_does_not_matter() -> None:
    y, real = points(2, 5), torch.ones(2, 5, dtype=torch.bool)
    real[1, 3:] = False
    padded = noise(y, real)
    torch.testing.assert_close(padded[1:, :3], noise(y[1:, :3]), rtol=0, atol=1e-5)
    torch.testing.assert_close(padded[:1], noise(y[:1]), rtol=0, atol=1e-5)


def test_what_a_point_is_told_does_not_depend_on_where_it_is_for_the_others() -> None:
    """The whole Jacobian's diagonal blocks are those of the point asked about alone."""
    denoiser, y = random_model(), points(1, 4)
    real, log_s = torch.ones(1, 4, dtype=torch.bool), torch.tensor([-1.0])
    whole = torch.autograd.functional.jacobian(lambda z: denoiser(z, z, log_s, real), y)
    asked = torch.autograd.functional.jacobian(lambda z: denoiser(z, y, log_s, real), y)
    for i in range(4):
        torch.testing.assert_close(whole[0, i, :, 0, i], asked[0, i, :, 0, i])
        for j in set(range(4)) - {i}:
            assert asked[0, i, :, 0, j].abs().max() == 0
            assert whole[0, i, :, 0, j].abs().max() > 0


@pytest.mark.parametrize("n", [1, 2, 5])
@pytest.mark.parametrize("log_s", [-2.0, 0.0, 2.0])
def test_untrained_it_is_right_about_gaussians(n: int, log_s: float) -> None:
    """The score of correlated Gaussian points, by the inverse of their covariance."""
    within = 0.1
    y, s = points(4, n), math.exp(log_s)
    covariance = (1 - within) * torch.ones(n, n) + (within + s * s) * torch.eye(n)
    expected = s * torch.linalg.solve(covariance, y)
    real = torch.ones(4, n, dtype=torch.bool)
    with torch.no_grad():
        found = untrained(within)(y, y, torch.full((4,), log_s), real)
    torch.testing.assert_close(found, expected, rtol=1e-4, atol=1e-5)
