"""Weights as bytes of a bundle, loaded strictly: sizes in bounds, every tensor there and finite."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import torch
from safetensors import SafetensorError
from safetensors.torch import load, save
from torch import Tensor, nn

from kbforge.errors import ModelError, quoted

WEIGHTS = "weights.safetensors"


def weights_of(model: nn.Module, dtype: torch.dtype) -> bytes:
    """The tensors of a model as safetensors."""
    return save(
        {
            name: tensor.detach().to("cpu", dtype).contiguous()
            for name, tensor in model.state_dict().items()
        }
    )


def read_weights(content: bytes, where: str) -> dict[str, Tensor]:
    """Tensors by name.

    Raises:
        ModelError: the content is damaged.

    """
    try:
        return load(content)
    except (SafetensorError, ValueError, KeyError) as error:
        raise ModelError(f"{where}: {WEIGHTS} is damaged: {quoted(str(error), 200)}") from error


def require_sizes(found: Mapping[str, Any], largest: Mapping[str, int], where: str) -> None:
    """Find out whether sizes are whole numbers from one to their largest.

    Args:
        found: what a bundle's recipe says.
        largest: of each size.
        where: how to call the bundle in errors.

    Raises:
        ModelError: the first that is not.

    """
    for name, most in largest.items():
        if type(found[name]) is not int or not 1 <= found[name] <= most:
            raise ModelError(
                f"{where}: shape: {name}: expected 1 to {most:,}, got {quoted(repr(found[name]))}"
            )


def require_weights(
    stored: Mapping[str, Tensor], expected: Mapping[str, Tensor], dtype: torch.dtype, where: str
) -> None:
    """Find out whether tensors are those that a model of its recipe's shape has.

    Args:
        stored: what a bundle holds.
        expected: what a model of its shape has.
        dtype: of all that is stored.
        where: how to call the bundle in errors.

    Raises:
        ModelError: with what differs.

    """
    for name in sorted(stored.keys() ^ expected.keys()):
        what = "has no tensor" if name in expected else "has an unknown tensor"
        raise ModelError(f"{where}: {WEIGHTS} {what} {quoted(name)}")
    for name, tensor in expected.items():
        found = stored[name]
        if found.shape != tensor.shape:
            raise ModelError(
                f"{where}: {WEIGHTS}: {name} has shape {tuple(found.shape)}, its recipe "
                f"says {tuple(tensor.shape)}"
            )
        if found.dtype != dtype:
            raise ModelError(f"{where}: {WEIGHTS}: {name} is {found.dtype}, expected {dtype}")
        if not torch.isfinite(found).all():
            raise ModelError(f"{where}: {WEIGHTS}: {name} holds values that are not finite")
