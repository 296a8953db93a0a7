"""Bundles of diffusion models: what is written is read, and nothing else is."""

import math
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from safetensors.torch import load, save
from torch import Tensor

from kbforge.errors import ModelError
from kbforge.models.bundle import Bundle, read_bundle, write_bundle
from kbforge_lab.likelihoods.diffusion import SetDiffusion, from_bundle, to_bundle
from kbforge_lm.likelihoods.gpt.model import WEIGHTS
from tests.lab.training.circles_models import diffusion, random_model, untrained, write

GOOD = to_bundle(diffusion(random_model()), {"simulated": "circles"}, {"metrics.jsonl": b"{}\n"})
Table = dict[str, Any]


def read(bundle: Bundle, folder: Path) -> SetDiffusion:
    write_bundle(folder / "model", bundle)
    return from_bundle(read_bundle(folder / "model"), "the model")


def test_what_is_written_is_read(tmp_path):
    found, model = read(GOOD, tmp_path), diffusion(random_model())
    assert found.standard == model.standard
    assert found.training == model.training
    assert found.denoiser.shape == model.denoiser.shape
    assert not found.denoiser.training
    y, real = torch.randn(2, 3, 2), torch.ones(2, 3, dtype=torch.bool)
    u = torch.tensor([-1.0, 0.5])
    assert torch.equal(found.denoiser(y, y, u, real), model.denoiser(y, y, u, real))


@pytest.mark.parametrize("at", [0, 100, -1])
def test_a_changed_byte_is_found(tmp_path, at):
    path = write(random_model(), tmp_path / "model") / WEIGHTS
    content = bytearray(path.read_bytes())
    content[at] ^= 1
    path.write_bytes(bytes(content))
    with pytest.raises(ModelError, match=r"weights\.safetensors.* has SHA-256"):
        read_bundle(tmp_path / "model")


def recipe(change: Callable[[Table], object]) -> Bundle:
    """A bundle whose recipe was changed and signed anew."""
    shape = dict(GOOD.recipe["shape"])
    standard = dict(GOOD.recipe["standard"])
    table = {**GOOD.recipe, "shape": shape, "standard": standard}
    change(table)
    return replace(GOOD, recipe=table)


@pytest.mark.parametrize(
    ("change", "says"),
    [
        (lambda r: r.pop("shape"), "should give width, layers"),
        (lambda r: r["shape"].pop("told"), "should give width, layers"),
        (lambda r: r["shape"].update(depth=1), "should give width, layers"),
        (lambda r: r["shape"].update(width=0), "width: expected 1 to 4,096, got 0"),
        (lambda r: r["shape"].update(heads=True), "heads: expected 1 to 256, got True"),
        (lambda r: r["shape"].update(layers=10**9), "layers: expected 1 to 256"),
        (lambda r: r["shape"].update(within=0), "within: expected a number above 0, got 0"),
        (lambda r: r["shape"].update(within=1.5), "within below 1"),
        (lambda r: r["shape"].update(least_noise=11.0), "least_noise should be below"),
        (lambda r: r["shape"].update(most_noise="10"), "most_noise: expected a number"),
        (lambda r: r["shape"].update(width=16), r"has shape \(8, 8\), but its recipe says"),
        (lambda r: r["shape"].update(layers=1), "has an unknown tensor blocks.1."),
        (lambda r: r["shape"].update(layers=3), "has no tensor blocks.2."),
        (lambda r: r.pop("standard"), "a centre and a scale"),
        (lambda r: r["standard"].update(scale=0.0), "a centre and a scale"),
        (lambda r: r["standard"].update(centre=[0.0]), "a centre and a scale"),
        (lambda r: r["standard"].update(centre=["0", "0"]), "a centre and a scale"),
    ],
)
def test_a_recipe_that_does_not_fit_is_refused(tmp_path, change, says):
    with pytest.raises(ModelError, match=rf"the model.*{says}"):
        read(recipe(change), tmp_path)


NAME = "blocks.1.up.weight"


@pytest.mark.parametrize(
    ("change", "says"),
    [
        (lambda t: t.pop(NAME), f"has no tensor {NAME}"),
        (lambda t: t.update(more=torch.ones(1)), "has an unknown tensor more"),
        (lambda t: t.update({NAME: torch.ones(3)}), r"shape \(3,\), but its recipe says \(16, 8\)"),
        (lambda t: t.update({NAME: t[NAME].double()}), "torch.float64, expected torch.float32"),
        (lambda t: t[NAME].fill_(torch.nan), "not finite"),
    ],
)
def test_weights_that_do_not_fit_are_refused(tmp_path, change, says):
    tensors = load(GOOD.files[WEIGHTS])
    change(tensors)
    with pytest.raises(ModelError, match=rf"the model: weights\.safetensors.*{says}"):
        read(replace(GOOD, files={**GOOD.files, WEIGHTS: save(tensors)}), tmp_path)


def test_another_kind_of_bundle_is_refused(tmp_path):
    with pytest.raises(ModelError, match="is a model for gpt, expected diffusion"):
        read(replace(GOOD, plugin="gpt"), tmp_path)
    with pytest.raises(ModelError, match=r"has no weights\.safetensors"):
        read(replace(GOOD, files={}), tmp_path)
    with pytest.raises(ModelError, match=r"weights\.safetensors is damaged"):
        read(replace(GOOD, files={WEIGHTS: b"weights"}), tmp_path)


# The denoiser of sets: no order, no padding, a divergence that one may read off.


def noise(y: Tensor, real: Tensor | None = None, log_s: float = -1.0) -> Tensor:
    real = torch.ones(y.shape[:2], dtype=torch.bool) if real is None else real
    with torch.no_grad():
        found: Tensor = random_model()(y, y, torch.full((len(y),), log_s), real)
    return found


def points(k: int, n: int, seed: int = 0) -> Tensor:
    return torch.randn(k, n, 2, generator=torch.Generator().manual_seed(seed))


@settings(max_examples=8)
@given(st.permutations(range(5)), st.floats(-2.0, 2.0))
def test_points_have_no_order(order, log_s):
    y = points(3, 5)
    found = noise(y[:, order], log_s=log_s)
    torch.testing.assert_close(found, noise(y, log_s=log_s)[:, order], rtol=0, atol=1e-5)


def test_every_point_matters_to_every_other():
    y = points(1, 4)
    for i in range(4):
        moved = y.clone()
        moved[0, i] += 0.5
        assert ((noise(moved) - noise(y)).abs().amax(dim=-1) > 1e-4).all()


def test_padding_does_not_matter():
    y, real = points(2, 5), torch.ones(2, 5, dtype=torch.bool)
    real[1, 3:] = False
    padded = noise(y, real)
    torch.testing.assert_close(padded[1:, :3], noise(y[1:, :3]), rtol=0, atol=1e-5)
    torch.testing.assert_close(padded[:1], noise(y[:1]), rtol=0, atol=1e-5)


def test_what_a_point_is_told_does_not_depend_on_where_it_is_for_the_others():
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
def test_untrained_it_is_right_about_gaussians(n, log_s):
    """The score of correlated Gaussian points, by the inverse of their covariance."""
    within = 0.1
    y, s = points(4, n), math.exp(log_s)
    covariance = (1 - within) * torch.ones(n, n) + (within + s * s) * torch.eye(n)
    expected = s * torch.linalg.solve(covariance, y)
    real = torch.ones(4, n, dtype=torch.bool)
    with torch.no_grad():
        found = untrained(within)(y, y, torch.full((4,), log_s), real)
    torch.testing.assert_close(found, expected, rtol=1e-4, atol=1e-5)
