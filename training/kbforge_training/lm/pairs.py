"""Pairs of parts: one entity or two? What clustering asks of a likelihood, as a training loss.

A pair is two small sets A and B, drawn from one entity or from two. Two entities often share a name
or a word of one, as those that clustering has to tell apart do. The gain

    L(A + B) - L(A) - L(B)

is the log Bayes factor for one entity. The loss is logistic, on the gain less an offset: clustering
joins where the gain exceeds about log alpha, so the offset is the log alpha that the model will be
good at.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import torch
import torch.nn.functional as F
from torch import Tensor

from kbforge.contracts import Fragment
from kbforge_plugins.likelihoods.gpt.model import GPT, SetTokenizer
from kbforge_training.lm.batches import Batch, GrammarLoss, Tokens, cut, encoded
from kbforge_training.lm.data import Entity, SetRule, viewed

_LARGEST_PART = 3
_CONFUSABLE = 0.8  # of the pairs of two entities, those that have to share a word if they can
_TRIES = 8
_BATCH_TOKENS = 4_096


@dataclass(frozen=True, slots=True)
class PairRule:
    """How much pairs teach.

    Attributes:
        weight: of a pair's loss beside a token's; 0 is no pairs.
        per_step: pairs a step.
        offset: the gain, in nats, at which one entity and two are as likely.

    """

    weight: float = 0.0
    per_step: int = 32
    offset: float = 5.0


@dataclass(frozen=True, slots=True)
class SetPair:
    """Two sets and whether they are of one entity."""

    a: list[Fragment]
    b: list[Fragment]
    same: bool


class SetPairs:
    """Pairs of a run, each step's a function of the seed and the step's number.

    Args:
        entities: what to draw from.
        sets: how fragments become views.
        seed: of everything that is random.

    """

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
        # equal parts say nothing, whoever they are of
        return SetPair(self._part(first, rng), self._part(second, rng), second == first)

    def _one(self, entity: Entity, rng: np.random.Generator) -> SetPair:
        if len(entity) == 1:  # two views of it
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
        """Another entity, most often one with a word in common; the same if there is no other."""
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


class PairLoss:
    """Mean logistic loss of pairs.

    Args:
        loss: of sequences.
        tokenizer: of their texts.
        offset: see `PairRule`.
        context: most tokens of a sequence; what a longer one has beyond them is left out.

    """

    def __init__(
        self, loss: GrammarLoss, tokenizer: SetTokenizer, offset: float, context: int
    ) -> None:
        self._loss = loss
        self._tokenizer = tokenizer
        self._offset = offset
        self._context = context

    def __call__(self, model: GPT, pairs: Sequence[SetPair]) -> Tensor:
        """A scalar, in nats a pair."""
        gains = self.gains(model, pairs)
        same = torch.tensor([float(pair.same) for pair in pairs], device=gains.device)
        return F.binary_cross_entropy_with_logits(gains - self._offset, same)

    def gains(self, model: GPT, pairs: Sequence[SetPair]) -> Tensor:
        """L(A + B) - L(A) - L(B), in nats, [pairs]."""
        sets = [part for pair in pairs for part in ([*pair.a, *pair.b], pair.a, pair.b)]
        rows = [
            (encoded(one, self._tokenizer, self._context), number)
            for number, one in enumerate(sets)
        ]
        parts, order = [], []
        for batch, numbers in _cut(rows):
            parts.append(self._loss.by_row(model, batch))
            order += numbers
        nats = torch.cat(parts)
        whole, a, b = nats[np.argsort(order)].view(-1, 3).unbind(1)
        return a + b - whole


@dataclass(frozen=True, slots=True)
class LearnPairs:
    """The pairs of a run with their loss, as a training loop asks for it."""

    pairs: SetPairs
    loss: PairLoss
    rule: PairRule

    @property
    def weight(self) -> float:
        """How much a pair counts beside a token."""
        return self.rule.weight

    def __call__(self, model: GPT, step: int) -> Tensor:
        """The mean loss of a step's pairs."""
        return self.loss(model, self.pairs.draw(step, self.rule.per_step))


def _cut(rows: list[tuple[Tokens, int]]) -> list[tuple[Batch, list[int]]]:
    """Batches of rows, each with the rows' numbers."""
    rows = sorted(rows, key=lambda row: len(row[0]))
    out, at = [], 0
    for batch in cut([(tokens, 1) for tokens, _ in rows], _BATCH_TOKENS):
        n = len(batch.lengths)
        out.append((batch, [number for _, number in rows[at : at + n]]))
        at += n
    return out


def _words(entity: Entity) -> set[str]:
    return {word for f in entity for name in f.names for word in (*name.casefold().split(), name)}
