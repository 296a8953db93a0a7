"""Batches of training sets, and the losses of tokens and of pairs of sets.

*Batches* are token arrays of about equal length, in an order that a seed determines. An epoch
visits the entities in random order, a pool at a time: its sets are drawn, sorted by length and cut
into batches of at most `budget` tokens, padding included, which come in random order. Each pool has
its own seed: a killed run resumes without drawing earlier pools again, and processes beside each
other draw pools ahead. The loss is the nats of the right token among the legal ones.

*Pairs* are two small sets A and B, drawn from one entity or from two, which often share a word of a
name. The gain

    L(A + B) - L(A) - L(B)

is the log Bayes factor for one entity. The loss is logistic, on the gain less an offset: the log
alpha at which the model will be good.
"""

from __future__ import annotations

import gc
import multiprocessing
import os
import signal
import threading
from collections import deque
from collections.abc import Iterator, Sequence
from concurrent.futures import Future, ProcessPoolExecutor
from dataclasses import dataclass
from itertools import count
from typing import Any, TypeAlias

import numpy as np
import torch
import torch.nn.functional as F
from numpy.typing import NDArray
from torch import Tensor

from kbforge.contracts import Fragment
from kbforge.errors import UsageError
from kbforge_lm.grammar.tokens import TokenTable
from kbforge_lm.likelihoods.gpt.model import GPT, SetTokenizer
from kbforge_training.fitting.run_folder import Place
from kbforge_training.lm.data import Entity, SetRule, draw, viewed

Tokens: TypeAlias = NDArray[np.int64]

_DEV_SETS = 1_000


@dataclass(frozen=True, slots=True)
class Batch:
    """Token sequences, padded at the end with 0."""

    tokens: Tokens  # [B, T]; each row begins with 0, the token that begins every sequence
    lengths: Tokens  # tokens after it, [B]
    fragments: int  # of all rows


@dataclass(frozen=True, slots=True)
class Batches:
    """The endless stream of a run's batches: at most `budget` tokens each, padding included.

    Texts longer than the context are cut. A `pool` of entities gives batches of equal length and
    little to draw again. `workers` processes draw the sets; 0 is this one. Without
    entities it is a UsageError, and with workers also where processes cannot be forked.
    """

    entities: Sequence[Entity]
    tokenizer: SetTokenizer
    rule: SetRule
    budget: int
    context: int
    seed: int
    workers: int = 0
    pool: int = 8_192

    def __post_init__(self) -> None:
        if not self.entities:
            raise UsageError("expected fragments to train on, got none")
        if self.workers and "fork" not in multiprocessing.get_all_start_methods():
            raise UsageError("--workers: expected 0, as this system cannot fork a process")

    def stream(self, place: Place) -> Iterator[tuple[Batch, Place]]:
        """Batches from a place on, each with the place after it."""
        numbers = self._numbers(place)
        drawn = (
            _drawn_ahead(self, numbers, self.workers)
            if self.workers
            else ((epoch, number, self.batches_of(epoch, number)) for epoch, number in numbers)
        )
        first = place.batch
        for epoch, number, batches in drawn:
            for at in range(first, len(batches)):
                last = at + 1 == len(batches)
                yield batches[at], Place(epoch, number + last, 0 if last else at + 1)
            first = 0

    def batches_of(self, epoch: int, number: int) -> list[Batch]:
        """The batches of a pool."""
        order = np.random.default_rng([self.seed, epoch]).permutation(len(self.entities))
        rng = np.random.default_rng([self.seed, epoch, number])
        chosen = order[number * self.pool : (number + 1) * self.pool]
        sets = [one for e in chosen for one in draw(self.entities[e], self.rule, rng)]
        rows = [(encoded(one, self.tokenizer, self.context), len(one)) for one in sets]
        batches = cut(rows, self.budget)
        return [batches[i] for i in rng.permutation(len(batches))]

    def _numbers(self, place: Place) -> Iterator[tuple[int, int]]:
        """Epoch and number of the pools from a place on."""
        first = place.pool
        for epoch in count(place.epoch):
            for number in range(first, -(-len(self.entities) // self.pool)):
                yield epoch, number
            first = 0


def _drawn_ahead(
    batches: Batches, numbers: Iterator[tuple[int, int]], workers: int
) -> Iterator[tuple[int, int, list[Batch]]]:
    """Epoch, number and batches of pools, which `workers` forks of this process draw in advance."""
    # a fork must not wait for threads that it does not have
    os.environ.setdefault("TOKENIZERS_PARALLELISM", "false")
    fork = multiprocessing.get_context("fork")
    executor = ProcessPoolExecutor(workers, fork, _become_worker, (batches,))
    waiting: deque[tuple[int, int, Future[list[Batch]]]] = deque()
    try:
        for epoch, number in numbers:
            waiting.append((epoch, number, executor.submit(_pool_of_worker, epoch, number)))
            if len(waiting) == 2 * workers:
                epoch, number, first = waiting.popleft()
                yield epoch, number, first.result()
    finally:
        executor.shutdown(cancel_futures=True)


_of_worker: Batches | None = None
"""What a worker draws from."""


def _become_worker(batches: Batches) -> None:
    """Draw for the parent process, and end with it, even if it is killed."""
    global _of_worker
    _of_worker = batches
    gc.freeze()  # what was there before the fork is never garbage
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # a terminal sends Ctrl-C to all
    threading.Thread(target=_end_with_parent, daemon=True).start()


def _end_with_parent() -> None:
    parent = multiprocessing.parent_process()
    assert parent is not None
    parent.join()
    os._exit(1)


def _pool_of_worker(epoch: int, number: int) -> list[Batch]:
    assert _of_worker is not None
    return _of_worker.batches_of(epoch, number)


def encoded(fragments: Sequence[Fragment], tokenizer: SetTokenizer, context: int) -> Tokens:
    """The tokens of a set, as many as fit after the one that begins every sequence."""
    return np.array(tokenizer.encode(tokenizer.text(fragments))[: context - 1], dtype=np.int64)


def cut(rows: Sequence[tuple[Tokens, int]], budget: int) -> list[Batch]:
    """Batches of rows (tokens, fragments) of about equal length, within `budget` or of one row."""
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
    """Cross-entropy renormalised over the legal tokens."""

    def __init__(self, table: TokenTable, device: torch.device) -> None:
        self._table = table
        self._device = device
        self._illegal = torch.from_numpy(~table.legal).to(device)

    def __call__(self, model: GPT, batch: Batch) -> Tensor:
        """The sum of the nats of all tokens of a batch, a scalar."""
        return self._of_tokens(model, batch)[0].sum()

    def by_row(self, model: GPT, batch: Batch) -> Tensor:
        """The sum of the nats of each row's tokens, [B]."""
        nats, rows = self._of_tokens(model, batch)
        return nats.new_zeros(len(batch.tokens)).index_add(0, rows, nats)

    def _of_tokens(self, model: GPT, batch: Batch) -> tuple[Tensor, Tensor]:
        """The nats of each token, without padding, and its row."""
        rows, columns = np.nonzero(np.arange(batch.tokens.shape[1] - 1) < batch.lengths[:, None])
        states = states_of(self._table, batch.tokens)[rows, columns]
        tokens = self._placed(batch.tokens)
        at = (self._placed(rows), self._placed(columns))
        read = tokens[:, :-1]
        if len(read) == 1 and self._device.type == "cuda":
            read = read.expand(2, -1)  # a model is compiled once more for a single row
        logits = model.logits(model(read)[at]).float()
        illegal = self._illegal[self._placed(states)]
        nats = F.cross_entropy(
            logits.masked_fill(illegal, -torch.inf), tokens[:, 1:][at], reduction="none"
        )
        return nats, at[0]

    def _placed(self, array: Tokens) -> Tensor:
        if self._device.type != "cuda":
            return torch.from_numpy(array)
        # from pinned memory, a copy does not wait for the work before it
        return torch.from_numpy(array).pin_memory().to(self._device, non_blocking=True)


def states_of(
    table: TokenTable, tokens: NDArray[np.int64], first: NDArray[np.int64] | None = None
) -> NDArray[np.int64]:
    """The state before each token after the first column, [B, T-1]; of padding, some state.

    `first` is that of each row, [B]; by default the beginning of a text.
    """
    out = np.empty((tokens.shape[0], tokens.shape[1] - 1), dtype=np.int64)
    state = np.full(len(tokens), table.first_state) if first is None else first
    for column in range(out.shape[1]):
        out[:, column] = state
        state = np.maximum(table.next_state[state, tokens[:, column + 1]], 0)
    return out


_LARGEST_PART = 3
_CONFUSABLE = 0.8  # share of the pairs of two entities that have a word in common if they can
_TRIES = 8
_BATCH_TOKENS = 4_096


@dataclass(frozen=True, slots=True)
class PairRule:
    """How pairs are learned from."""

    weight: float = 0.0  # of a pair's loss, relative to a token's; 0 uses no pairs
    per_step: int = 32  # pairs a step
    offset: float = 5.0  # the gain, in nats, at which one entity and two are equally likely


@dataclass(frozen=True, slots=True)
class SetPair:
    """Two sets, and whether they are of one entity."""

    a: list[Fragment]
    b: list[Fragment]
    same: bool


class SetPairs:
    """The pairs of a run; those of a step depend on the seed and the step's number."""

    def __init__(self, entities: Sequence[Entity], sets: SetRule, seed: int) -> None:
        self._entities = entities
        self._sets = sets
        self._seed = seed
        self._several = [i for i, entity in enumerate(entities) if len(entity) > 1]
        self._words: dict[str, list[int]] = {}
        for number, entity in enumerate(entities):
            for word in _words(entity):
                self._words.setdefault(word, []).append(number)

    def draw(self, step: int, n: int) -> list[SetPair]:
        """The n pairs of a step."""
        rng = np.random.default_rng([self._seed, step, n])
        return [self._pair(rng) for _ in range(n)]

    def _pair(self, rng: np.random.Generator) -> SetPair:
        from_several = bool(self._several) and rng.random() < 0.5
        first = (
            self._several[rng.integers(len(self._several))]
            if from_several
            else int(rng.integers(len(self._entities)))
        )
        if rng.random() < 0.5:
            return self._one(self._entities[first], rng)
        second = self._other(first, rng)
        # equal parts say nothing
        return SetPair(self._part(first, rng), self._part(second, rng), second == first)

    def _one(self, entity: Entity, rng: np.random.Generator) -> SetPair:
        if len(entity) == 1:
            return SetPair(self._views(entity, rng), self._views(entity, rng), same=True)
        size = int(rng.integers(2, min(len(entity), 2 * _LARGEST_PART) + 1))
        chosen = [entity[i] for i in rng.permutation(len(entity))[:size]]
        middle = int(rng.integers(1, len(chosen)))
        return SetPair(
            self._views(chosen[:middle], rng), self._views(chosen[middle:], rng), same=True
        )

    def _part(self, number: int, rng: np.random.Generator) -> list[Fragment]:
        entity = self._entities[number]
        size = int(rng.integers(1, min(len(entity), _LARGEST_PART) + 1))
        return self._views([entity[i] for i in rng.choice(len(entity), size, replace=False)], rng)

    def _views(self, fragments: Sequence[Fragment], rng: np.random.Generator) -> list[Fragment]:
        return [view for fragment in fragments for view in viewed(fragment, self._sets, rng)]

    def _other(self, number: int, rng: np.random.Generator) -> int:
        """Another entity, most often with a shared word; the same one if there is no other."""
        words = sorted(_words(self._entities[number]))
        confusable = bool(words) and rng.random() < _CONFUSABLE
        for _ in range(_TRIES):
            alike = self._words[words[rng.integers(len(words))]] if confusable else ()
            among = len(alike) or len(self._entities)
            chosen = int(rng.integers(among))
            found = alike[chosen] if alike else chosen
            if found != number:
                return found
            confusable = confusable and rng.random() < 0.5
        return number


@dataclass(frozen=True, slots=True)
class PairLoss:
    """Mean logistic loss of pairs; texts longer than the context are cut."""

    loss: GrammarLoss
    tokenizer: SetTokenizer
    offset: float
    context: int
    budget: int = _BATCH_TOKENS

    def __call__(self, model: GPT, pairs: Sequence[SetPair]) -> Tensor:
        """A scalar, in nats a pair."""
        gains = self.gains(model, pairs)
        same = torch.tensor([float(pair.same) for pair in pairs], device=gains.device)
        return F.binary_cross_entropy_with_logits(gains - self.offset, same)

    def gains(self, model: GPT, pairs: Sequence[SetPair]) -> Tensor:
        """L(A + B) - L(A) - L(B), in nats, [pairs]."""
        sets = [part for pair in pairs for part in ([*pair.a, *pair.b], pair.a, pair.b)]
        rows = [encoded(one, self.tokenizer, self.context) for one in sets]
        order = sorted(range(len(rows)), key=lambda number: len(rows[number]))
        batches = cut([(rows[number], 1) for number in order], max(_BATCH_TOKENS, self.budget))
        nats = torch.cat([self.loss.by_row(model, batch) for batch in batches])
        whole, a, b = nats[np.argsort(order)].view(-1, 3).unbind(1)
        return a + b - whole


def _words(entity: Entity) -> set[str]:
    return {word for f in entity for name in f.names for word in (*name.casefold().split(), name)}
