"""The loss of a language model: nats of the right token among the legal ones."""

from __future__ import annotations

import numpy as np
import torch
import torch.nn.functional as F
from numpy.typing import NDArray
from torch import Tensor

from kbforge.grammar.token_table import TokenTable
from kbforge_plugins.likelihoods.gpt.model import GPT
from kbforge_training.lm.batches import Batch


class GrammarLoss:
    """Cross-entropy renormalised over what the grammar allows.

    Args:
        table: legal tokens by state.
        device: where the model is.

    """

    def __init__(self, table: TokenTable, device: torch.device) -> None:
        self._table = table
        self._device = device
        self._illegal = torch.from_numpy(~table.legal).to(device)

    def __call__(self, model: GPT, batch: Batch) -> Tensor:
        """The nats of all tokens of a batch together, a scalar."""
        return self._of_tokens(model, batch)[0].sum()

    def by_row(self, model: GPT, batch: Batch) -> Tensor:
        """The nats of each row's tokens together, [B]."""
        nats, rows = self._of_tokens(model, batch)
        return nats.new_zeros(len(batch.tokens)).index_add(0, rows, nats)

    def _of_tokens(self, model: GPT, batch: Batch) -> tuple[Tensor, Tensor]:
        """The nats of each token, and the row it is in; padding is none."""
        rows, columns = np.nonzero(np.arange(batch.tokens.shape[1] - 1) < batch.lengths[:, None])
        states = states_of(self._table, batch.tokens)[rows, columns]
        tokens = torch.from_numpy(batch.tokens).to(self._device)
        at = (torch.from_numpy(rows).to(self._device), torch.from_numpy(columns).to(self._device))
        logits = model.logits(model(tokens[:, :-1])[at]).float()
        illegal = self._illegal[torch.from_numpy(states).to(self._device)]
        nats = F.cross_entropy(
            logits.masked_fill(illegal, -torch.inf), tokens[:, 1:][at], reduction="none"
        )
        return nats, at[0]


def states_of(
    table: TokenTable, tokens: NDArray[np.int64], first: NDArray[np.int64] | None = None
) -> NDArray[np.int64]:
    """The state before each token after the first column, [B, T-1]; of padding, some state.

    Args:
        table: of the grammar.
        tokens: [B, T], each row begun by the token that begins every sequence.
        first: the state each row begins in, [B]; None is the beginning of a text.

    """
    out = np.empty((tokens.shape[0], tokens.shape[1] - 1), dtype=np.int64)
    state = np.full(len(tokens), table.first_state) if first is None else first
    for column in range(out.shape[1]):
        out[:, column] = state
        state = np.maximum(table.next_state[state, tokens[:, column + 1]], 0)
    return out
