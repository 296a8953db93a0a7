"""The language model: a decoder-only transformer over tokens of a grammar.

Pre-norm blocks of causal self-attention and SwiGLU, RMSNorm, rotary positions, tied embeddings, no
biases (split-SMC paper, appendix D.2.1; Shazeer 2020; Su et al. 2024; Zhang and Sennrich 2019).

Shapes: B sequences of T tokens, D = d_model, H heads, V tokens in the vocabulary.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

import torch
import torch.nn.functional as F
from torch import Tensor, nn

_ROTARY_BASE = 10_000.0
_EPSILON = 1e-5


@dataclass(frozen=True, slots=True)
class Shape:
    """Sizes of a model.

    Attributes:
        n_tokens: V.
        d_model: D, a multiple of twice n_heads.
        n_layers: blocks.
        n_heads: H.
        d_ff: width of the feed-forward layer.
        context: the most tokens a sequence is trained and scored with.

    """

    n_tokens: int
    d_model: int = 256
    n_layers: int = 10
    n_heads: int = 8
    d_ff: int = 768
    context: int = 1024

    @property
    def parameters(self) -> int:
        """How many numbers a model of these sizes is made of."""
        d = self.d_model
        return self.n_tokens * d + self.n_layers * (4 * d * d + 3 * d * self.d_ff + 2 * d) + d


class GPT(nn.Module):
    """Hidden states and next-token logits of token sequences."""

    def __init__(self, shape: Shape, dropout: float = 0.0) -> None:
        super().__init__()
        self.shape = shape
        self.embedding = nn.Embedding(shape.n_tokens, shape.d_model)
        self.blocks = nn.ModuleList(Block(shape, dropout) for _ in range(shape.n_layers))
        self.norm = nn.RMSNorm(shape.d_model, eps=_EPSILON)
        self.dropout = dropout
        self.apply(self._initialise)

    def _initialise(self, module: nn.Module) -> None:
        if isinstance(module, nn.Embedding | nn.Linear):
            # what a block adds to the stream is scaled by its depth, so that depth does not
            # change the stream's variance (GPT-2)
            deep = math.sqrt(2 * self.shape.n_layers) if isinstance(module, Addition) else 1.0
            nn.init.normal_(module.weight, std=0.02 / deep)

    def forward(self, tokens: Tensor) -> Tensor:
        """Hidden states [B, T, D] of tokens [B, T]; padding at the end does no harm."""
        x = F.dropout(self.embedding(tokens), self.dropout, self.training)
        rotation = rotary(tokens.shape[1], self.shape.d_model // self.shape.n_heads, x)
        for block in self.blocks:
            x = block(x, rotation)
        hidden: Tensor = self.norm(x)
        return hidden

    def logits(self, hidden: Tensor) -> Tensor:
        """Next-token logits [..., V] of hidden states [..., D]."""
        return F.linear(hidden, self.embedding.weight)


class Addition(nn.Linear):
    """The last layer of what a block adds to the stream."""


class Block(nn.Module):
    """x + attention(norm(x)), then x + feed_forward(norm(x))."""

    def __init__(self, shape: Shape, dropout: float) -> None:
        super().__init__()
        d, f = shape.d_model, shape.d_ff
        self.n_heads = shape.n_heads
        self.dropout = dropout
        self.norm_attention = nn.RMSNorm(d, eps=_EPSILON)
        self.queries_keys_values = nn.Linear(d, 3 * d, bias=False)
        self.attended = Addition(d, d, bias=False)
        self.norm_feed_forward = nn.RMSNorm(d, eps=_EPSILON)
        self.gate_and_up = nn.Linear(d, 2 * f, bias=False)
        self.down = Addition(f, d, bias=False)

    def forward(self, x: Tensor, rotation: tuple[Tensor, Tensor]) -> Tensor:
        """[B, T, D] -> [B, T, D]."""
        x = x + self._drop(self._attend(self.norm_attention(x), rotation))
        gate, up = self.gate_and_up(self.norm_feed_forward(x)).chunk(2, dim=-1)
        return x + self._drop(self.down(F.silu(gate) * up))

    def _attend(self, x: Tensor, rotation: tuple[Tensor, Tensor]) -> Tensor:
        b, t, d = x.shape
        split = self.queries_keys_values(x).view(b, t, 3, self.n_heads, d // self.n_heads)
        q, k, v = split.permute(2, 0, 3, 1, 4)  # each [B, H, T, D/H]
        y = F.scaled_dot_product_attention(
            rotate(q, rotation), rotate(k, rotation), v, is_causal=True
        )
        attended: Tensor = self.attended(y.transpose(1, 2).reshape(b, t, d))
        return attended

    def _drop(self, x: Tensor) -> Tensor:
        return F.dropout(x, self.dropout, self.training)


def rotary(length: int, width: int, like: Tensor) -> tuple[Tensor, Tensor]:
    """Cosines and sines [T, width/2] of the angles by which positions turn pairs of features."""
    half = width // 2
    frequency = _ROTARY_BASE ** (-torch.arange(half, device=like.device) / half)
    angles = torch.outer(torch.arange(length, device=like.device), frequency)
    return angles.cos().to(like.dtype), angles.sin().to(like.dtype)


def rotate(x: Tensor, rotation: tuple[Tensor, Tensor]) -> Tensor:
    """Turn the feature pairs (i, i + width/2) of x [B, H, T, width] by their position's angle."""
    cos, sin = rotation
    a, b = x.chunk(2, dim=-1)
    return torch.cat((a * cos - b * sin, b * cos + a * sin), dim=-1)
