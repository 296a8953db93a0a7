"""The language model's likelihood written out: slow, obvious, in float64, one set at a time.

It shares no code with the model or the scorer but the weights, the tokenizer and the table of legal
tokens, which it walks one token at a time.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from kbforge_lm.grammar.tokens import START, TokenTable
from kbforge_lm.likelihoods.gpt.model import GPT

Array = NDArray[np.float64]


class Reference:
    """Log-probabilities of tokens, from the definition.

    Args:
        gpt: whose weights.
        table: of the grammar.

    """

    def __init__(self, gpt: GPT, table: TokenTable) -> None:
        self.shape = gpt.shape
        self.table = table
        self.weights: dict[str, Array] = {
            name: tensor.double().numpy() for name, tensor in gpt.state_dict().items()
        }

    def score(self, tokens: list[int]) -> float:
        """Nats of a sequence; one longer than the context is read through windows."""
        context, scored, begin, nats = self.shape.context, 0, 0, 0.0
        while scored < len(tokens):
            end = min(begin + context, len(tokens))
            nats += sum(
                self.of_tokens(tokens[begin:end], self.state(tokens[:begin]))[scored - begin :]
            )
            scored = end
            begin = self.next_window(tokens, end)
        return nats

    def next_window(self, tokens: list[int], end: int) -> int:
        """Half a context before `end`, or up to a quarter earlier if a fragment begins there."""
        half = end - self.shape.context // 2
        for begin in range(half, 0, -1):
            if begin > end - 0.75 * self.shape.context and self.fragment_begins(tokens, begin):
                return begin
        return half

    def fragment_begins(self, tokens: list[int], at: int) -> bool:
        """Whether a text can end right before the token."""
        return bool(self.table.may_end[self.state(tokens[: at - 1]), tokens[at - 1]])

    def state(self, tokens: list[int]) -> int:
        """Of the grammar, after the tokens."""
        state = self.table.first_state
        for token in tokens:
            state = int(self.table.next_state[state, token])
        return state

    def of_tokens(self, tokens: list[int], state: int) -> list[float]:
        """log p of each token given those before it, renormalised over the legal ones."""
        logits = self.logits([START, *tokens[:-1]])
        nats = []
        for token, row in zip(tokens, logits, strict=True):
            legal = [self.table.next_state[state, t] >= 0 for t in range(self.table.n_tokens)]
            nats.append(float(row[token] - np.log(np.exp(row[legal]).sum())))
            state = int(self.table.next_state[state, token])
        return nats

    def logits(self, tokens: list[int]) -> Array:
        """Full next-token logits [T, V]."""
        w, t = self.weights, len(tokens)
        x = w["embedding.weight"][tokens]
        for number in range(self.shape.n_layers):
            block = {
                name.removeprefix(f"blocks.{number}."): tensor
                for name, tensor in w.items()
                if name.startswith(f"blocks.{number}.")
            }
            normed = rms_norm(x) * block["norm_attention.weight"]
            heads = (normed @ block["queries_keys_values.weight"].T).reshape(
                t, 3, self.shape.n_heads, -1
            )
            attended = np.stack(
                [
                    attention(*heads[:, :, head].transpose(1, 0, 2))
                    for head in range(heads.shape[2])
                ],
                axis=1,
            )
            x = x + attended.reshape(t, -1) @ block["attended.weight"].T
            normed = rms_norm(x) * block["norm_feed_forward.weight"]
            gate, up = np.split(normed @ block["gate_and_up.weight"].T, 2, axis=1)
            x = x + (gate / (1 + np.exp(-gate)) * up) @ block["down.weight"].T
        hidden = rms_norm(x) * w["norm.weight"]
        out: Array = hidden @ w["embedding.weight"].T
        return out


def rms_norm(x: Array) -> Array:
    out: Array = x / np.sqrt((x**2).mean(axis=1, keepdims=True) + 1e-5)
    return out


def attention(q: Array, k: Array, v: Array) -> Array:
    """One head: every position looks at itself and those before it, [T, width]."""
    scores = turned(q) @ turned(k).T / np.sqrt(q.shape[1])
    scores[np.triu_indices(len(q), 1)] = -np.inf
    weights = np.exp(scores - scores.max(axis=1, keepdims=True))
    out: Array = weights / weights.sum(axis=1, keepdims=True) @ v
    return out


def turned(x: Array) -> Array:
    """Rotary positions: feature pairs (i, i + half) as complex numbers, turned by the position."""
    half = x.shape[1] // 2
    angles = np.outer(np.arange(len(x)), 10_000.0 ** (-np.arange(half) / half))
    z = (x[:, :half] + 1j * x[:, half:]) * np.exp(1j * angles)
    return np.concatenate([z.real, z.imag], axis=1)
