"""A trained diffusion model of sets of points, and its bundle.

    weights.safetensors   the model's tensors, float32
    metrics.jsonl         what each training step did
    loss.png              the same as a picture, if matplotlib was there
    MODEL_CARD.md         optional

The manifest's recipe has the sizes of the model, the standardisation of the points and how it was
trained; whatever of it does not fit the weights is refused.
"""

from __future__ import annotations

import dataclasses
import math
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

import torch

from kbforge.errors import ModelError, quoted
from kbforge.models.bundle import Bundle
from kbforge_lab.models.diffusion.network import SetDenoiser, Shape
from kbforge_lab.models.diffusion.standard import Standard
from kbforge_plugins.likelihoods.weights import (
    WEIGHTS,
    read_weights,
    require_sizes,
    require_weights,
    weights_of,
)

PLUGIN = "diffusion"

_LARGEST = {"width": 1 << 12, "layers": 1 << 8, "heads": 1 << 8, "told": 1 << 12}
_MEASURES = ("least_noise", "most_noise", "within")


@dataclass(frozen=True)
class SetDiffusion:
    """A model and the coordinates it works in.

    Attributes:
        denoiser: in evaluation mode, float32.
        standard: from the data's coordinates to the model's.
        training: how it was trained (JSON).

    """

    denoiser: SetDenoiser
    standard: Standard
    training: Mapping[str, Any] = field(default_factory=dict)


def to_bundle(model: SetDiffusion, data: Mapping[str, Any], files: Mapping[str, bytes]) -> Bundle:
    """The bundle of a model, with further files such as its metrics."""
    recipe = {
        "shape": dataclasses.asdict(model.denoiser.shape),
        "standard": {"centre": list(model.standard.centre), "scale": model.standard.scale},
        "training": dict(model.training),
    }
    own = {WEIGHTS: weights_of(model.denoiser, torch.float32)}
    return Bundle("likelihoods", PLUGIN, {**own, **files}, recipe, data)


def from_bundle(bundle: Bundle, where: str) -> SetDiffusion:
    """The model of a bundle."""
    bundle.require_of(PLUGIN, where)
    if WEIGHTS not in bundle.files:
        raise ModelError(f"{where} has no {WEIGHTS}: it is not a diffusion model")
    shape = _shape(bundle.recipe.get("shape"), where)
    standard = _standard(bundle.recipe.get("standard"), where)
    stored = read_weights(bundle.files[WEIGHTS], where)
    # without memory of its own until the weights fit: a shape costs nothing, however large
    with torch.device("meta"):
        denoiser = SetDenoiser(shape)
    require_weights(stored, denoiser.state_dict(), torch.float32, where)
    # copies, because what was read is a view of the file
    denoiser.load_state_dict({name: t.clone() for name, t in stored.items()}, assign=True)
    training = bundle.recipe.get("training")
    return SetDiffusion(denoiser.eval(), standard, training if isinstance(training, dict) else {})


def _shape(found: Any, where: str) -> Shape:
    names = (*_LARGEST, *_MEASURES)
    if not isinstance(found, dict) or set(found) != set(names):
        raise ModelError(f"{where}: its recipe should give {', '.join(names)} as its shape")
    require_sizes(found, _LARGEST, where)
    for name in _MEASURES:
        if not _is_measure(found[name]):
            raise ModelError(
                f"{where}: shape: {name}: expected a number above 0, "
                f"got {quoted(repr(found[name]))}"
            )
    shape = Shape(**found)
    if shape.least_noise >= shape.most_noise or shape.within >= 1.0:
        raise ModelError(
            f"{where}: shape: least_noise should be below most_noise, and within below 1"
        )
    return shape


def _standard(found: Any, where: str) -> Standard:
    good = (
        isinstance(found, dict)
        and set(found) == {"centre", "scale"}
        and _is_measure(found["scale"])
        and isinstance(found["centre"], list)
        and len(found["centre"]) == 2
        and all(type(x) in (int, float) and math.isfinite(x) for x in found["centre"])
    )
    if not good:
        raise ModelError(f"{where}: its recipe should give a centre and a scale as its standard")
    x, y = found["centre"]
    return Standard((float(x), float(y)), float(found["scale"]))


def _is_measure(value: Any) -> bool:
    return type(value) in (int, float) and 0 < value < math.inf
