"""Diffusion models that take no time to train, or were not trained at all."""

from pathlib import Path
from typing import Any

import torch

from kbforge.models.bundle import write_bundle
from kbforge_lab.likelihoods.diffusion import SetDenoiser, SetDiffusion, Shape, Standard, to_bundle
from kbforge_lab.training.diffusion import DiffusionRecipe, read_diffusion_recipe

_RECIPE = """
description = "for tests"
[circles]
radius = 0.6
reach = 2.0
noise = {noise}
[sizes]
largest = 6
few = 3
small = {small}
[shape]
width = {width}
layers = 2
heads = 2
told = 4
most_noise = {most_noise}
[schedule]
tokens = {tokens}
batch_tokens = 128
accumulate = {accumulate}
learning_rate = 0.01
warmup = 0.1
floor = 0.1
weight_decay = 0.01
clip = 1.0
dropout = 0.0
seed = {seed}
optimizer = "{optimizer}"
"""
_DEFAULTS: dict[str, Any] = {
    "noise": 0.1,
    "small": 0.5,
    "width": 8,
    "most_noise": 10.0,
    "tokens": 2_500,
    "accumulate": 1,
    "seed": 7,
    "optimizer": "adamw",
}


def write_recipe(folder: Path, **changes: Any) -> str:
    """A recipe file's path."""
    path = folder / "tiny.toml"
    path.write_text(_RECIPE.format(**{**_DEFAULTS, **changes}), encoding="utf-8")
    return str(path)


def read(folder: Path, **changes: Any) -> DiffusionRecipe:
    return read_diffusion_recipe(write_recipe(folder, **changes))


def untrained(within: float = 0.1, least: float = 0.1) -> SetDenoiser:
    """It takes everything for Gaussian, and is right about that."""
    torch.manual_seed(0)
    return SetDenoiser(Shape(8, 2, 2, 4, least, 10.0, within)).eval()


def random_model(seed: int = 0, size: float = 0.3) -> SetDenoiser:
    """It says something else for every set."""
    denoiser = untrained()
    generator = torch.Generator().manual_seed(seed)
    with torch.no_grad():
        for parameter in denoiser.parameters():
            parameter += size * torch.randn(parameter.shape, generator=generator)
    return denoiser


def diffusion(denoiser: SetDenoiser, scale: float = 2.0) -> SetDiffusion:
    return SetDiffusion(denoiser, Standard((1.0, -0.5), scale), {"steps": 3})


def write(denoiser: SetDenoiser, folder: Path, scale: float = 2.0) -> Path:
    """The folder, which now is the model's bundle."""
    write_bundle(folder, to_bundle(diffusion(denoiser, scale), {}, {}))
    return folder
