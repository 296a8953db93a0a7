"""Batches of training sets, and their loss: nats of the right token among the legal ones.

Batches are token arrays of about equal length, in an order that a seed determines. An epoch visits
the entities in random order, a pool at a time. The sets of a pool are drawn, written as tokens,
sorted by length and cut into batches of at most `budget` tokens, padding included; the batches of a
pool come in random order. Each pool has its own seed, so that a killed run resumes without drawing
earlier pools again.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any, TypeAlias

import numpy as np
import torch
import torch.nn.functional as F
from numpy.typing import NDArray
from torch import Tensor

from kbforge.contracts import Fragment
from kbforge.errors import UsageError
from kbforge.grammar.tokens import TokenTable
from kbforge_plugins.likelihoods.gpt.model import GPT, SetTokenizer
from kbforge_training.fitting.run_folder import Place
from kbforge_training.lm.data import Entity, SetRule, draw

Tokens: TypeAlias = NDArray[np.int64]

_POOL = 8_192  # entities; enough for batches of equal length, little to draw again
_DEV_SETS = 1_000


@dataclass(frozen=True, slots=True)
class Batch:
    """Token sequences, padded at the end with 0.

    Attributes:
        tokens: [B, T]; each row begins with 0, the token that begins every sequence.
        lengths: how many tokens follow it in each row, [B].
        fragments: how many fragments the rows hold together.

    """

    tokens: Tokens
    lengths: Tokens
    fragments: int


class Batches:
    """The endless stream of a training run's batches.

    Args:
        entities: what to draw sets from.
        tokenizer: of their texts.
        rule: how sets are drawn.
        budget: most tokens of a batch, padding included.
        context: most tokens of a row; what a longer text has beyond them is left out.
        seed: of everything that is random.

    Raises:
        UsageError: there are no entities.

    """

    def __init__(
        self,
        entities: Sequence[Entity],
        tokenizer: SetTokenizer,
        rule: SetRule,
        budget: int,
        context: int,
        seed: int,
    ) -> None:
        if not entities:
            raise UsageError("expected fragments to train on, got none")
        self._entities = entities
        self._tokenizer = tokenizer
        self._rule = rule
        self._budget = budget
        self._context = context
        self._seed = seed

    def stream(self, place: Place) -> Iterator[tuple[Batch, Place]]:
        """Batches from a place on, each with the place after it."""
        while True:
            order = np.random.default_rng([self._seed, place.epoch]).permutation(
                len(self._entities)
            )
            n_pools = -(-len(order) // _POOL)
            for number in range(place.pool, n_pools):
                batches = self._pool(place.epoch, number, order)
                first = place.batch if number == place.pool else 0
                for at in range(first, len(batches)):
                    last = at + 1 == len(batches)
                    after = Place(place.epoch, number + last, 0 if last else at + 1)
                    yield batches[at], after
            place = Place(place.epoch + 1)

    def _pool(self, epoch: int, number: int, order: NDArray[np.int64]) -> list[Batch]:
        rng = np.random.default_rng([self._seed, epoch, number])
        chosen = order[number * _POOL : (number + 1) * _POOL]
        sets = [one for e in chosen for one in draw(self._entities[e], self._rule, rng)]
        rows = [(encoded(one, self._tokenizer, self._context), len(one)) for one in sets]
        batches = cut(rows, self._budget)
        return [batches[i] for i in rng.permutation(len(batches))]


def encoded(fragments: Sequence[Fragment], tokenizer: SetTokenizer, context: int) -> Tokens:
    """The tokens of a set, as many as fit behind the one that begins every sequence."""
    return np.array(tokenizer.encode(tokenizer.text(fragments))[: context - 1], dtype=np.int64)


def cut(rows: Sequence[tuple[Tokens, int]], budget: int) -> list[Batch]:
    """Batches of rows of about equal length: (tokens, number of fragments) each.

    No batch has more than `budget` tokens, padding included, unless a single row has.
    """
    rows = sorted(rows, key=lambda row: len(row[0]))
    batches, first = [], 0
    for at in range(1, len(rows) + 1):
        # rows are sorted, so row `at` would set the width of the batch it joined
        if at == len(rows) or (at + 1 - first) * (len(rows[at][0]) + 1) > budget:
            batches.append(_batch(rows[first:at]))
            first = at
    return batches


def _batch(rows: Sequence[tuple[Tokens, int]]) -> Batch:
    lengths = np.array([len(tokens) for tokens, _ in rows], dtype=np.int64)
    tokens = np.zeros((len(rows), int(lengths.max()) + 1), dtype=np.int64)
    for row, (content, _) in zip(tokens, rows, strict=True):
        row[1 : len(content) + 1] = content
    return Batch(tokens, lengths, sum(n for _, n in rows))


def dev_batches(
    entities: Sequence[Entity], tokenizer: SetTokenizer, budget: int, context: int
) -> list[Batch]:
    """Sets of held-out entities to validate on, by the published rule and a fixed seed."""
    rng = np.random.default_rng(0)
    rows: list[tuple[Any, int]] = []
    for number in rng.permutation(len(entities)):
        if len(rows) == _DEV_SETS:
            break
        for one in draw(entities[number], SetRule(draws=1), rng):
            tokens = tokenizer.encode(tokenizer.text(one))
            if len(tokens) < context:
                rows.append((np.array(tokens, dtype=np.int64), len(one)))
    return cut(rows, budget)


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
