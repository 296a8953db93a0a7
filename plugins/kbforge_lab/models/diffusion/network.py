"""A variational diffusion model of sets of points: a transformer that says what the noise is.

Every point of a set x_1..x_n is blurred with noise of standard deviation s, and the model learns
to tell the noise from what it sees (Kingma et al. 2021; circles of the split-SMC paper):

    y_i = x_i + s e_i,  e_i ~ Normal(0, I),  log s ~ Uniform(log s_0, log s_1)
    loss = log(s_1 / s_0) sum_i |e_i - e'_i(y, s)|^2

That is the variational bound's diffusion term for the linear schedule gamma = 2 log s, in nats. In
these coordinates the probability-flow ODE is dy/ds = e'(y, s).

Points are standardised by the caller: mean 0 and variance B + W = 1 over all clusters, W of it
within a cluster. If everything were Gaussian, a point would be predicted from the others,

    y_i | others ~ Normal(m_i, T),  m_i = sum_{j != i} y_j / (n - 1 + (W + s^2) / B)
    T = B (W + s^2) / (B (n - 1) + W + s^2) + W + s^2

and with the innovation a_i = (y_i - m_i) / sqrt(T) the noise would be s a_i / sqrt(T). The network
learns the rest: e' = c a + sqrt(1 - c^2) F with c = s / sqrt(T), so that F has the same scale at
every noise level.

What point i is told of point j is where it is from i. Nothing that i is told depends on what others
know of i. So d e'_i / d y_i is had by moving the point asked about and leaving it where it is for
the others, all points at once: the divergence is exact and costs two directions (the hollow
networks of Chen and Duvenaud 2019). Sets have no positions, hence no order.

Shapes: K sets, padded to N points in two dimensions, D = width, E = width of what is told, H heads.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

import torch
import torch.nn.functional as F
from torch import Tensor, nn

_EPSILON = 1e-6
_WAVES = (1.0, 2.0, 4.0)  # half turns over the range of noise levels


@dataclass(frozen=True, slots=True)
class Shape:
    """Sizes of a model, and what it takes the points for.

    Attributes:
        width: D.
        layers: of attention and feed-forward.
        heads: H.
        told: E.
        least_noise: s_0, in standardised units.
        most_noise: s_1, so large that all but mean and variance is forgotten.
        within: W, above 0 and below 1.

    """

    width: int
    layers: int
    heads: int
    told: int
    least_noise: float
    most_noise: float
    within: float


class SetDenoiser(nn.Module):
    """What the noise is in sets of noisy points."""

    def __init__(self, shape: Shape) -> None:
        super().__init__()
        self.shape = shape
        d, e = shape.width, shape.told
        self.condition = nn.Sequential(nn.Linear(2 + 2 * len(_WAVES), d), nn.SiLU())
        self.point = nn.Linear(5, d)
        self.pair = nn.Linear(4, 2 * e)
        self.pair_modulation = nn.Linear(d, 4 * e)
        self.told = nn.Linear(2 * e, e)
        self.blocks = nn.ModuleList(Block(shape) for _ in range(shape.layers))
        self.out = nn.Linear(d, 2)
        nn.init.zeros_(self.out.weight)
        nn.init.zeros_(self.out.bias)

    def forward(self, own: Tensor, others: Tensor, log_s: Tensor, real: Tensor) -> Tensor:
        """The noise e', shape [K, N, 2].

        Args:
            own: y, the points asked about, shape [K, N, 2].
            log_s: logarithms of the noise levels, shape [K].
            real: which points are not padding, shape [K, N].

        """
        n = real.sum(dim=1)[:, None, None].to(own.dtype)
        s2 = (2.0 * log_s).exp()[:, None, None]
        spread = self.shape.within + s2
        mean, total = self._predicted(others, real, n, spread)
        innovation = (own - mean) * total.rsqrt()
        condition = self._condition(log_s, n)
        features = (innovation, _length(innovation), own * (1.0 + s2).rsqrt())
        x = self.point(torch.cat(features, dim=-1))
        told = self._told(own, others, (2.0 * spread).rsqrt(), condition)
        heard = real[:, None, :] & ~torch.eye(real.shape[1], dtype=torch.bool, device=real.device)
        for block in self.blocks:
            x = block(x, told, heard[:, :, None], condition)
        certain = s2 / total
        learned: Tensor = self.out(_normed(x))
        return certain.sqrt() * innovation + (1.0 - certain).sqrt() * learned

    def _predicted(
        self, others: Tensor, real: Tensor, n: Tensor, spread: Tensor
    ) -> tuple[Tensor, Tensor]:
        """(m, T), what the others say of each point if all is Gaussian; [K, N, 2] and [K, 1, 1]."""
        between = 1.0 - self.shape.within
        seen = others * real[..., None]
        mean = (seen.sum(dim=1, keepdim=True) - seen) / (n - 1.0 + spread / between)
        return mean, between * spread / (between * (n - 1.0) + spread) + spread

    def _condition(self, log_s: Tensor, n: Tensor) -> Tensor:
        """What noise level and size of the set tell all layers, shape [K, 1, D]."""
        low, high = math.log(self.shape.least_noise), math.log(self.shape.most_noise)
        at = ((log_s - low) / (high - low))[:, None, None]
        waves = math.pi * at * torch.tensor(_WAVES, dtype=at.dtype, device=at.device)
        features = torch.cat((at, n.log(), waves.sin(), waves.cos()), dim=-1)
        condition: Tensor = self.condition(features)
        return condition

    def _told(self, own: Tensor, others: Tensor, scale: Tensor, condition: Tensor) -> Tensor:
        """What each point is told of each other one, shape [K, N, N, E]."""
        offset = (others[:, None] - own[:, :, None]) * scale[..., None]
        length = _length(offset)
        features = torch.cat((offset, length, length / (1.0 + length)), dim=-1)
        gain, shift = self.pair_modulation(condition).chunk(2, dim=-1)  # [K, 1, 2 E]
        # pairs are many and their features few: the gains go to the weights of each set
        weight, bias = self.pair.weight.T * (1.0 + gain), self.pair.bias * (1.0 + gain) + shift
        inner = torch.baddbmm(bias, features.flatten(1, 2), weight)
        told: Tensor = self.told(F.silu(inner)).view(*offset.shape[:3], -1)
        return told


class Block(nn.Module):
    """Attention to what is told of the others, then a feed-forward layer; both add to x."""

    def __init__(self, shape: Shape) -> None:
        super().__init__()
        d, inner = shape.width, shape.heads * shape.told
        self.heads = shape.heads
        self.modulation = nn.Linear(d, 4 * d)
        self.queries = nn.Linear(d, inner)
        self.attended = nn.Linear(inner, d)
        self.up = nn.Linear(d, 2 * d)
        self.down = nn.Linear(2 * d, d)

    def forward(self, x: Tensor, told: Tensor, heard: Tensor, condition: Tensor) -> Tensor:
        """[K, N, D] -> [K, N, D]; `heard` is where attention may go, shape [K, N, 1, N]."""
        gain, shift, gain_up, shift_up = self.modulation(condition).chunk(4, dim=-1)
        x = x + self._attend(torch.addcmul(shift, _normed(x), 1.0 + gain), told, heard)
        inner = self.up(torch.addcmul(shift_up, _normed(x), 1.0 + gain_up))
        added: Tensor = self.down(F.silu(inner))
        return x + added

    def _attend(self, x: Tensor, told: Tensor, heard: Tensor) -> Tensor:
        queries = self.queries(x).unflatten(-1, (self.heads, -1))  # [K, N, H, E]
        logits = queries @ told.transpose(-1, -2) * told.shape[-1] ** -0.5
        logits = logits.masked_fill(~heard, -math.inf)
        # one more place to look, where nothing is: a point may be alone
        nothing = torch.zeros_like(logits[..., :1])
        weights = torch.cat((logits, nothing), dim=-1).softmax(dim=-1)[..., :-1]
        attended: Tensor = self.attended((weights @ told).flatten(-2))
        return attended


def _length(offset: Tensor) -> Tensor:
    # not quite zero at zero, where the square root has no slope
    return (offset.square().sum(dim=-1, keepdim=True) + _EPSILON).sqrt()


def _normed(x: Tensor) -> Tensor:
    """RMSNorm without gains (Zhang and Sennrich 2019)."""
    return x * (x.square().mean(dim=-1, keepdim=True) + _EPSILON).rsqrt()
