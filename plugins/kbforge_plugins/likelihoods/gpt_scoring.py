"""Scoring token sequences with the language model, many at once and fast.

What makes it fast, in order of effect: batches hold sequences of about equal length and few tokens,
so that hardly anything is padding and temporaries stay in the processor's cache; logits exist only
for positions that predict something and for a few of them at a time, never as [B, T, V]; the
weights are bfloat16 where a probe finds that faster.

Sequences longer than the model's context are read through windows: the first holds `context`
tokens; each further one begins with a fragment, about half a context before the first token not
yet scored. So every token counts once, given at least the (about) half context that precedes it.
"""

from __future__ import annotations

import copy
import time
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

import numpy as np
import torch
import torch.nn.functional as F
from torch import Tensor

from kbforge.contracts.likelihood import FloatArray
from kbforge.grammar.table import TokenTable
from kbforge_training.gpt import GPT
from kbforge_training.language_model import LanguageModel
from kbforge_training.loss import states_of

CPU_BATCH_TOKENS = 1_024
GPU_BATCH_TOKENS = 16_384

_HEAD_ROWS = 512  # positions whose logits exist at the same time


@dataclass(frozen=True, slots=True)
class Window:
    """A stretch of a sequence that the model reads at once.

    Attributes:
        sequence: number of the sequence.
        tokens: what the model reads after the token that begins every sequence.
        first: the first of them that is scored here.
        state: of the grammar, before the first of them.

    """

    sequence: int
    tokens: Sequence[int]
    first: int
    state: int


class Scorer:
    """Log-probabilities of token sequences under the grammar.

    Args:
        model: with its tokenizer.
        device: where it runs.
        precision: "fp32", "bf16", or "auto" for the faster one.
        batch_tokens: most tokens of a batch, padding included; None is the device's default.

    Attributes:
        precision: what is used, "fp32" or "bf16".

    """

    def __init__(
        self,
        model: LanguageModel,
        device: torch.device,
        precision: str = "auto",
        batch_tokens: int | None = None,
    ) -> None:
        self._device = device
        self._gpt = copy.deepcopy(model.gpt).to(device).eval().requires_grad_(False)
        on_cpu = device.type == "cpu"
        self._budget = batch_tokens or (CPU_BATCH_TOKENS if on_cpu else GPU_BATCH_TOKENS)
        self.precision = self._probe() if precision == "auto" else precision
        if self.precision == "bf16":
            self._gpt = self._gpt.to(torch.bfloat16)
        self._table: TokenTable = model.tokenizer.table
        self._illegal = torch.from_numpy(~self._table.legal).to(device)

    def score(self, sequences: Sequence[Sequence[int]]) -> FloatArray:
        """The log probability of each sequence, nats, shape [len(sequences)]."""
        totals = np.zeros(len(sequences))
        windows = [
            window
            for number, tokens in enumerate(sequences)
            for window in windows_of(number, tokens, self._table, self._gpt.shape.context)
        ]
        with torch.inference_mode():
            for batch in batches_of(windows, self._budget):
                # windows of one sequence come in order, so that sums do not depend on batching
                np.add.at(totals, [w.sequence for w in batch], self._score_batch(batch))
        return totals

    def _score_batch(self, batch: Sequence[Window]) -> FloatArray:
        """The nats of the scored tokens of each window, [len(batch)]."""
        lengths = np.array([len(window.tokens) for window in batch])
        tokens = np.zeros((len(batch), int(lengths.max()) + 1), dtype=np.int64)
        for row, window in enumerate(batch):
            tokens[row, 1 : lengths[row] + 1] = window.tokens
        places = np.arange(tokens.shape[1] - 1)
        first = np.array([window.first for window in batch])
        rows, columns = np.nonzero((places < lengths[:, None]) & (places >= first[:, None]))
        states = states_of(self._table, tokens, np.array([window.state for window in batch]))
        x = torch.from_numpy(tokens).to(self._device)
        at = torch.from_numpy(rows).to(self._device), torch.from_numpy(columns).to(self._device)
        hidden = self._gpt(x[:, :-1])[at]
        nats = self._head(
            hidden, x[:, 1:][at], torch.from_numpy(states[rows, columns]).to(self._device)
        )
        totals: FloatArray = np.bincount(rows, weights=nats, minlength=len(batch)).astype(
            np.float64
        )
        return totals

    def _head(self, hidden: Tensor, targets: Tensor, states: Tensor) -> FloatArray:
        """log p(target | legal tokens) of each position, nats, [N]."""
        parts = []
        for first in range(0, len(hidden), _HEAD_ROWS):
            part = slice(first, first + _HEAD_ROWS)
            logits = self._gpt.logits(hidden[part]).float()
            logits.masked_fill_(self._illegal[states[part]], -torch.inf)
            parts.append(-F.cross_entropy(logits, targets[part], reduction="none"))
        return torch.cat(parts).double().cpu().numpy()

    def _probe(self) -> str:
        """The faster precision here; processors without bfloat16 units emulate it slowly."""
        if self._device.type != "cpu":
            return "bf16"
        tokens = torch.zeros(8, 64, dtype=torch.int64)
        fastest = {
            name: _seconds(copy.deepcopy(self._gpt).to(dtype), tokens)
            for name, dtype in (("fp32", torch.float32), ("bf16", torch.bfloat16))
        }
        return min(fastest, key=lambda name: fastest[name])


def windows_of(
    sequence: int, tokens: Sequence[int], table: TokenTable, context: int
) -> Iterator[Window]:
    """The windows of a sequence; one if it fits into the context."""
    if len(tokens) <= context:
        if tokens:
            yield Window(sequence, tokens, 0, table.first_state)
        return
    states = table.states(tokens)
    begins = 1 + np.flatnonzero(table.may_end[states, tokens])  # where fragments begin
    begin = done = 0
    while done < len(tokens):
        end = min(begin + context, len(tokens))
        yield Window(sequence, tokens[begin:end], done - begin, int(states[begin]))
        done = end
        begin = end - context // 2
        later = begins[(begins >= begin) & (begins < end)]
        if len(later):
            begin = int(later[0])


def batches_of(windows: Sequence[Window], budget: int) -> Iterator[list[Window]]:
    """Windows of about equal length, at most `budget` tokens together, padding included.

    A window that alone exceeds the budget is a batch of its own.
    """
    batch: list[Window] = []
    for window in sorted(windows, key=lambda w: len(w.tokens)):
        # the next window is the longest so far, so it sets the width
        if batch and (len(batch) + 1) * (len(window.tokens) + 1) > budget:
            yield batch
            batch = []
        batch.append(window)
    if batch:
        yield batch


def _seconds(gpt: GPT, tokens: Tensor) -> float:
    """The best of a few forward passes, after one to warm up."""
    with torch.inference_mode():
        gpt(tokens)
        times = []
        for _ in range(3):
            begin = time.perf_counter()
            gpt(tokens)
            times.append(time.perf_counter() - begin)
    return min(times)
