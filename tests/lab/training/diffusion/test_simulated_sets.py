"""Simulated sets to learn from: how large, how noisy, where a run goes on; and the bound."""

import math
from itertools import islice

import numpy as np
import pytest
import torch

from kbforge_lab.circles import Circles
from kbforge_lab.training.diffusion import (
    DiffusionLoss,
    SetBatches,
    SizeRule,
    standard_of,
    truth,
)
from kbforge_training.fitting.run_folder import Place
from tests.lab.training.circles_models import untrained

CIRCLES = Circles(reach=2.0, noise=0.1)
SIZES = SizeRule(largest=6, few=2, small=0.5)


def batches(seed: int = 3, circles: Circles = CIRCLES) -> SetBatches:
    standard, within = standard_of(circles)
    return SetBatches(circles, standard, untrained(within).shape, SIZES, 200, seed)


def test_the_stream_goes_on_from_any_place():
    whole = list(islice(batches().stream(Place()), 6))
    for i, (_, place) in enumerate(whole[:-1]):
        again, _ = next(batches().stream(place))
        assert torch.equal(again.points, whole[i + 1][0].points)
        assert torch.equal(again.noise, whole[i + 1][0].noise)
        assert torch.equal(again.log_s, whole[i + 1][0].log_s)
    other, _ = next(batches(seed=4).stream(Place()))
    assert other.points.shape != whole[0][0].points.shape or not torch.equal(
        other.points, whole[0][0].points
    )


def test_batches_are_of_one_size_and_small_ones_are_frequent():
    drawn = [batch for batch, _ in islice(batches().stream(Place()), 200)]
    sizes = [int(batch.lengths[0]) for batch in drawn]
    assert set(sizes) == set(range(1, 7))
    # half of the batches have 1 or 2 points by the rule, a third of the others by chance
    assert 0.55 < np.mean(np.array(sizes) <= 2) < 0.78
    for batch, n in zip(drawn, sizes, strict=True):
        assert batch.points.shape == batch.noise.shape == (200 // n, n, 2)
        assert batch.fragments == 200 // n * n


def test_points_are_standardised_and_on_rims():
    standard, within = standard_of(CIRCLES)
    drawn = [batch.points for batch, _ in islice(batches().stream(Place()), 100)]
    everything = torch.cat([one.reshape(-1, 2) for one in drawn])
    assert everything.mean(dim=0).abs().max() < 0.1
    torch.testing.assert_close(everything.var(dim=0), torch.ones(2), rtol=0, atol=0.1)
    pairs = torch.cat([one for one in drawn if one.shape[1] == 2])
    between = 0.5 * (pairs[:, 0] - pairs[:, 1]).square().mean(dim=0)
    torch.testing.assert_close(between, torch.full((2,), within), rtol=0.15, atol=0)
    apart = (pairs[:, 0] - pairs[:, 1]).norm(dim=-1).max() * standard.scale
    assert apart <= 2 * CIRCLES.radius + 1e-5


def test_noise_levels_are_spread_evenly():
    batch, _ = next(batches().stream(Place()))
    shape = untrained().shape
    low, high = math.log(shape.least_noise), math.log(shape.most_noise)
    strata = ((batch.log_s.sort().values - low) / (high - low) * len(batch.log_s)).floor()
    assert strata.tolist() == list(range(len(batch.log_s)))


def test_the_bound_of_a_gaussian_is_its_entropy():
    """Standard normal points, one a set, by the model that is right about them."""
    denoiser = untrained(within=0.1, least=0.1)
    generator, batch = torch.Generator().manual_seed(0), None
    for batch, _ in batches().stream(Place()):
        if batch.lengths[0] == 1:
            break
    assert batch is not None
    standard, _ = standard_of(CIRCLES)
    loss = DiffusionLoss(denoiser.shape, standard, torch.device("cpu"))
    bounds = []
    for _ in range(40):
        x = torch.randn(batch.points.shape, generator=generator)
        e = torch.randn(batch.points.shape, generator=generator)
        batch = type(batch)(x, e, batch.log_s, batch.lengths)
        with torch.no_grad():
            bounds.append(float(loss(denoiser, batch)) / batch.fragments)
    variance = (1 + 0.1**2) * standard.scale**2
    entropy = 1 + math.log(2 * math.pi * variance)
    assert np.mean(bounds) == pytest.approx(entropy, abs=4 * np.std(bounds) / 40**0.5 + 0.01)


def test_the_truth_of_single_points_is_the_entropy_of_the_square():
    wide = Circles(radius=0.01, reach=3.0, noise=0.01)
    assert truth(wide, [1] * 20, seed=0) == pytest.approx(math.log(36.0), abs=0.02)
