"""The transformer as scoring needs it: reading on from what was read before.

The same function as `network.GPT`, arranged for inference. The keys and values of
earlier tokens come in and those of new ones go out, so that a text is not read again for what
follows it. The feature pairs that a position turns lie side by side, as complex numbers. In
bfloat16 are the layers' weights, what goes through them, and keys and values; the stream that they
add to, and the logits, stay in float32.

Shapes: B rows of at most S new tokens after at most P read before, N new tokens in all; D =
d_model, H heads of width W, L layers.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import torch
import torch.nn.functional as F
from numpy.typing import NDArray
from torch import Tensor

from kbforge.contracts.likelihood import FloatArray, IntArray
from kbforge_plugins.models.gpt.network import GPT, Block, rotary

_EPSILON = 1e-5
_HEAD_ROWS = 512  # positions whose logits exist at the same time


@dataclass(frozen=True, slots=True)
class _Layer:
    """The weights of a block, [out, in] each; the norms' [in], in float32."""

    norm_attention: Tensor
    queries_keys_values: Tensor
    attended: Tensor
    norm_feed_forward: Tensor
    gate: Tensor
    up: Tensor
    down: Tensor


class Reader:
    """Hidden states of token sequences, given the keys and values of what precedes them."""

    def __init__(self, gpt: GPT, device: torch.device, dtype: torch.dtype) -> None:
        shape = gpt.shape
        self._heads, self._width = shape.n_heads, shape.d_model // shape.n_heads
        self._device, self._dtype = device, dtype
        self._embedding = gpt.embedding.weight.detach().to(device)
        self._norm = gpt.norm.weight.detach().to(device)
        self._layers = [_layer(block, device, dtype) for block in gpt.blocks]  # type: ignore[arg-type]
        cos, sin = rotary(shape.context, self._width, torch.zeros(0, device=device))
        self._turns = torch.complex(cos, sin)  # [context, W/2]

    def room(self, rows: int, length: int) -> Tensor:
        """Keys and values of so many tokens, all zero, [L, 2, B, length, H, W]."""
        sizes = (len(self._layers), 2, rows, length, self._heads, self._width)
        return torch.zeros(sizes, device=self._device, dtype=self._dtype)

    def read(
        self, tokens: Tensor, rows: Tensor, columns: Tensor, known: Tensor, before: Tensor
    ) -> Tensor:
        """Read on.

        Args:
            tokens: of all rows, without padding, [N].
            rows: the row of each, [N].
            columns: its place among the row's new tokens, [N].
            known: keys and values, [L, 2, B, P + S, H, W]: of the tokens before, which end at P,
                and room for those of the new ones, which are put there.
            before: how many tokens there are before, [B].

        Returns:
            Hidden states, [N, D].

        """
        b, length = known.shape[2:4]
        s = int(columns.max()) + 1
        p = length - s
        turns = self._turns[before[rows] + columns, None]
        place = rows * s + columns  # among the queries; and among the keys:
        key_place = rows * length + p + columns
        mask = self._mask(p, s, before) if p else None
        x = self._embedding[tokens]
        for layer, keys_values in zip(self._layers, known, strict=True):
            q, k, v = self._project(layer, _normed(x, layer.norm_attention).to(self._dtype), turns)
            for new, held in zip((k, v), keys_values, strict=True):
                held.view(b * length, *k.shape[1:]).index_copy_(0, key_place, new)
            queries = q.new_zeros(b * s, *q.shape[1:]).index_copy_(0, place, q)
            attended = _attention(queries.view(b, s, *q.shape[1:]), keys_values, mask)
            x += F.linear(attended.view(b * s, -1)[place], layer.attended)
            y = _normed(x, layer.norm_feed_forward).to(self._dtype)
            x += F.linear(F.silu(F.linear(y, layer.gate)).mul_(F.linear(y, layer.up)), layer.down)
        return _normed(x, self._norm)

    def _project(self, layer: _Layer, x: Tensor, turns: Tensor) -> tuple[Tensor, Tensor, Tensor]:
        """Queries and keys, turned, and values, [N, H, W] each, of [N, D]."""
        h = self._heads
        split = F.linear(x, layer.queries_keys_values).view(len(x), 3 * h, self._width)
        turned = _turned(split[:, : 2 * h], turns)
        return turned[:, :h], turned[:, h:], split[:, 2 * h :]

    def _mask(self, p: int, s: int, before: Tensor) -> Tensor:
        """What each new token must not see, as -inf, [B, 1, S, P + S]."""
        device = before.device
        mask = torch.zeros(len(before), 1, s, p + s, device=device, dtype=self._dtype)
        nothing = torch.arange(p, device=device) < p - before[:, None]
        mask[..., :p].masked_fill_(nothing[:, None, None], -torch.inf)
        later = torch.ones(s, s, dtype=torch.bool, device=device).triu_(1)
        mask[..., p:].masked_fill_(later, -torch.inf)
        return mask


class Head:
    """log p(token | legal tokens); each state of the grammar has the rows of its legal tokens."""

    def __init__(self, gpt: GPT, legal: NDArray[np.bool_], device: torch.device) -> None:
        weights = gpt.embedding.weight.detach().to(device)
        self._device = device
        self._weights = [weights[torch.from_numpy(row).to(device)] for row in legal]
        self._column = np.cumsum(legal, axis=1) - 1  # of each token among its state's legal ones

    def nats(self, hidden: Tensor, targets: IntArray, states: IntArray) -> FloatArray:
        """log p of each target, [N], from hidden states [N, D]."""
        out = np.empty(len(targets))
        order = np.argsort(states, kind="stable")
        groups = np.split(order, np.flatnonzero(np.diff(states[order])) + 1)
        columns = self._column[states, targets]
        for group in groups:
            weights = self._weights[states[group[0]]]
            for first in range(0, len(group), _HEAD_ROWS):
                part = group[first : first + _HEAD_ROWS]
                logits = F.linear(hidden[torch.from_numpy(part).to(self._device)], weights)
                target = torch.from_numpy(columns[part]).to(self._device)
                out[part] = -F.cross_entropy(logits, target, reduction="none").cpu().numpy()
        return out


def _layer(block: Block, device: torch.device, dtype: torch.dtype) -> _Layer:
    def placed(weights: Tensor) -> Tensor:
        return weights.detach().to(device, dtype).contiguous()

    d = block.norm_attention.weight.shape[0]
    q, k, v = block.queries_keys_values.weight.view(3, block.n_heads, -1, d)
    gate, up = block.gate_and_up.weight.chunk(2)
    return _Layer(
        block.norm_attention.weight.detach().to(device),
        placed(torch.cat((_side_by_side(q), _side_by_side(k), v)).reshape(3 * d, d)),
        placed(block.attended.weight),
        block.norm_feed_forward.weight.detach().to(device),
        placed(gate),
        placed(up),
        placed(block.down.weight),
    )


def _side_by_side(rows: Tensor) -> Tensor:
    """Rows [H, W, D] of features 0, W/2, 1, W/2 + 1, ... of each head."""
    h, w, d = rows.shape
    return rows.view(h, 2, w // 2, d).transpose(1, 2).reshape(h, w, d)


def _normed(x: Tensor, weights: Tensor) -> Tensor:
    square = torch.linalg.vector_norm(x, dim=-1, keepdim=True).square_()
    scale: Tensor = square.div_(x.shape[-1]).add_(_EPSILON).rsqrt_()
    return (x * scale).mul_(weights)


def _attention(queries: Tensor, keys_values: Tensor, mask: Tensor | None) -> Tensor:
    """[B, S, H, W] of queries [B, S, H, W] and keys and values [2, B, P + S, H, W]."""
    q, k, v = (t.transpose(1, 2) for t in (queries, *keys_values))
    y = F.scaled_dot_product_attention(q, k, v, mask, is_causal=mask is None)
    return y.transpose(1, 2).contiguous()


def _turned(x: Tensor, turns: Tensor) -> Tensor:
    """Feature pairs of x [N, heads, W] turned by [N, 1, W/2]."""
    pairs = torch.view_as_complex(x.float().reshape(*x.shape[:-1], -1, 2))
    return torch.view_as_real(pairs * turns).flatten(-2).to(x.dtype)
