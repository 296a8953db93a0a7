"""Optimisers of networks: AdamW, or Muon for the matrices inside the blocks.

AdamW (Loshchilov and Hutter 2019) scales each number by its own history. Muon (Jordan et al. 2024)
replaces the averaged gradient of a matrix by the nearest matrix whose singular values are about
one, so that no direction of it is neglected. It is scaled as Liu et al. (2025, "Muon is scalable
for LLM training") do and takes AdamW's learning rates. Embeddings and norms, which are no maps
between features, stay with AdamW.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import torch
from torch import Tensor, nn

OPTIMIZERS = ("adamw", "muon")

_BETAS = (0.9, 0.95)
_EPSILON = 1e-8
_MOMENTUM = 0.95
_NEWTON_SCHULZ = (3.4445, -4.7750, 2.0315)  # Jordan et al.: the fastest to come near one
_ITERATIONS = 5
_LIKE_ADAMW = 0.2  # root mean square of AdamW's usual step, in learning rates


def make_optimizer(
    name: str, model: nn.Module, learning_rate: float, weight_decay: float
) -> torch.optim.Optimizer:
    """The optimiser of a recipe; vectors are not decayed.

    Args:
        name: one of OPTIMIZERS.
        model: whose parameters it changes.
        learning_rate: of its first step.
        weight_decay: of matrices.

    """
    matrices = [p for p in model.parameters() if p.dim() >= 2]
    vectors = [p for p in model.parameters() if p.dim() < 2]
    if name == "adamw":
        groups = [
            {"params": matrices, "weight_decay": weight_decay},
            {"params": vectors, "weight_decay": 0.0},
        ]
        return torch.optim.AdamW(groups, lr=learning_rate, betas=_BETAS, fused=True)
    layers = [layer for layer in model.modules() if isinstance(layer, nn.Embedding)]
    embeddings = [p for layer in layers for p in layer.parameters()]
    apart = set(embeddings)
    maps = [p for p in matrices if p not in apart]
    return Muon(maps, embeddings, vectors, learning_rate, weight_decay)


def moments(optimizer: torch.optim.Optimizer) -> dict[nn.Parameter, tuple[str, ...]]:
    """What an optimiser remembers of each parameter, once it has made a step."""
    return {
        parameter: ("exp_avg", "step")
        if group.get("orthogonal")
        else ("exp_avg", "exp_avg_sq", "step")
        for group in optimizer.param_groups
        for parameter in group["params"]
    }


class Muon(torch.optim.Optimizer):
    """Muon for maps between features, AdamW for the rest.

    Args:
        maps: matrices [out, in].
        embeddings: decayed, but not orthogonalised.
        vectors: neither.
        lr: learning rate, of AdamW's size.
        weight_decay: of maps and embeddings.

    """

    def __init__(
        self,
        maps: list[nn.Parameter],
        embeddings: list[nn.Parameter],
        vectors: list[nn.Parameter],
        lr: float,
        weight_decay: float,
    ) -> None:
        groups = [
            {"params": maps, "weight_decay": weight_decay, "orthogonal": True},
            {"params": embeddings, "weight_decay": weight_decay, "orthogonal": False},
            {"params": vectors, "weight_decay": 0.0, "orthogonal": False},
        ]
        super().__init__(groups, {"lr": lr})

    @torch.no_grad()
    def step(self, closure: Callable[[], float] | None = None) -> None:  # type: ignore[override]
        """Change every parameter that has a gradient."""
        for group in self.param_groups:
            for parameter in group["params"]:
                if parameter.grad is None:
                    continue
                state = self._state(parameter, group["orthogonal"])
                state["step"] += 1
                update = _muon if group["orthogonal"] else _adam
                direction = update(parameter.grad, state)
                parameter.mul_(1.0 - group["lr"] * group["weight_decay"])
                parameter.sub_(direction, alpha=group["lr"])

    def _state(self, parameter: nn.Parameter, orthogonal: bool) -> dict[str, Any]:
        state: dict[str, Any] = self.state[parameter]
        if not state:
            state["step"] = torch.zeros((), device=parameter.device)
            state["exp_avg"] = torch.zeros_like(parameter)
            if not orthogonal:
                state["exp_avg_sq"] = torch.zeros_like(parameter)
        return state


def _muon(gradient: Tensor, state: dict[str, Any]) -> Tensor:
    average: Tensor = state["exp_avg"].lerp_(gradient, 1.0 - _MOMENTUM)
    ahead = gradient.lerp(average, _MOMENTUM)  # Nesterov
    return orthogonalised(ahead).mul_(_LIKE_ADAMW * max(gradient.shape) ** 0.5)


def _adam(gradient: Tensor, state: dict[str, Any]) -> Tensor:
    (first, second), step = _BETAS, float(state["step"])
    average: Tensor = state["exp_avg"].lerp_(gradient, 1.0 - first)
    square: Tensor = state["exp_avg_sq"].lerp_(gradient.square(), 1.0 - second)
    root = (square / (1.0 - second**step)).sqrt_().add_(_EPSILON)
    direction: Tensor = average / (1.0 - first**step) / root
    return direction


def orthogonalised(matrix: Tensor) -> Tensor:
    """U V' of a matrix U S V', about: its singular values come to lie between .7 and 1.2.

    Five Newton-Schulz iterations with a quintic polynomial (Jordan et al. 2024).
    """
    a, b, c = _NEWTON_SCHULZ
    tall = matrix.shape[0] > matrix.shape[1]
    x = matrix.T if tall else matrix
    x = x / (torch.linalg.matrix_norm(x) + 1e-7)
    for _ in range(_ITERATIONS):
        gram = x @ x.T
        x = torch.addmm(x, torch.addmm(gram, gram, gram, beta=b, alpha=c), x, beta=a)
    return x.T if tall else x
