"""A byte 5-gram model of sets of fragments: the yardstick of the language models that read.

It reads a text as the grammar's symbols and the bytes inside its strings. What the grammar forces
costs nothing and takes no place in the context; the rest is renormalised over what the grammar
allows, and the end of a text is not scored. So nats can be compared.

The model is interpolated modified Kneser-Ney (Chen and Goodman 1999, "An empirical study of
smoothing techniques for language modeling", equations 20 to 26), down to the uniform distribution:

    P_k(w | c) = [a(cw) - D(a(cw))] / a(c.) + g(c) P_{k-1}(w | c'),   P_0 = 1 / V

    a     count of a 5-gram; of a shorter gram, the number of different tokens before it (its count
          if it begins a text, where nothing else can stand before it)
    D     discount of a gram that was seen once, twice, or more often; one set per length
    g(c)  what the discounts took from context c, as a part of a(c.)
    c'    c without its first token
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Self

import numpy as np
from numpy.typing import NDArray

from kbforge import registry
from kbforge.contracts import Fragment, Serializer
from kbforge_grammars import Grammar
from kbforge_lm.grammar.skeleton import Edge, compile_skeleton
from kbforge_lm.grammar.tokens import START, compile_table

Ints = NDArray[np.int64]
Floats = NDArray[np.float64]

ORDER = 5
_COUNTED_AT_ONCE = 10_000_000  # tokens; bounds the memory of counting, not what is counted
_SCORED_AT_ONCE = 8_192  # positions, a row of V probabilities each
_NO_COUNTS_OF_COUNTS = (0.5, 0.5, 0.5)  # discounts where there are too few grams to estimate them


class ByteTexts:
    """Sets of fragments as symbols and bytes; byte b is token `table.first_piece + b`."""

    def __init__(self, grammar: Grammar) -> None:
        self._skeleton = compile_skeleton(grammar.rules, f"grammar {grammar.name}")
        self.table = compile_table(self._skeleton, [bytes([b]) for b in range(256)])
        self._serializer: Serializer = registry.create("serializers", grammar.name)
        # characters above a byte's stand for symbols while a text is put together
        self._characters = {s: chr(255 + token) for s, token in self.table.symbols.items()}
        self._choices = self.table.legal.sum(axis=1) > 1

    def read(self, fragments: Sequence[Fragment]) -> tuple[Ints, Ints]:
        """The tokens of a set where there is a choice, and the grammar's state at each."""
        parts = []
        for part in self._skeleton.read(self._serializer.serialize(fragments)):
            if isinstance(part, Edge):
                parts.append(self._characters[part.symbol])
            else:
                parts.append(" " + part.encode().decode("latin-1"))
        codes = np.frombuffer("".join(parts).encode("utf-16-le"), dtype="<u2").astype(np.int64)
        tokens = np.where(codes < 256, codes + self.table.first_piece, codes - 255)
        states = self.table.states(tokens.tolist()).astype(np.int64)
        chosen = self._choices[states]
        return tokens[chosen], states[chosen]


@dataclass(frozen=True)
class _Level:
    """P_k without what it takes from P_{k-1}; grams and contexts are packed, and sorted."""

    grams: Ints  # cw, [grams]
    shares: Floats  # [a(cw) - D(a(cw))] / a(c.), [grams]
    contexts: Ints  # c, [contexts]
    left: Floats  # g(c), [contexts]


class ByteNgram:
    """The model: a likelihood of sets, and the probabilities it is made of."""

    def __init__(self, texts: ByteTexts, counts: tuple[Ints, Ints], order: int = ORDER) -> None:
        self._texts = texts
        self._order = order
        self._levels = _levels(counts, order, texts.table.n_tokens)

    @classmethod
    def trained(
        cls,
        grammar: Grammar,
        sets: Iterable[Sequence[Fragment]],
        order: int = ORDER,
        at_once: int = _COUNTED_AT_ONCE,
    ) -> Self:
        """A model of the texts of sets; about `at_once` tokens are counted at a time."""
        texts = ByteTexts(grammar)
        return cls(texts, _count(texts, sets, order, at_once), order)

    def log_marginal(self, clusters: Sequence[Sequence[Fragment]]) -> Floats:
        """The nats of each set's text, below zero, [len(clusters)]."""
        read = [self._texts.read(fragments) for fragments in clusters]
        if not read:
            return np.zeros(0)
        vocabulary = self._texts.table.n_tokens
        grams = _grams([tokens for tokens, _ in read], self._order, vocabulary)
        states = np.concatenate([states for _, states in read])
        nats: Floats = np.empty(len(grams))
        for first in range(0, len(grams), _SCORED_AT_ONCE):
            at = slice(first, first + _SCORED_AT_ONCE)
            contexts, tokens = np.divmod(grams[at], vocabulary)
            rows = self.probabilities(contexts, states[at])
            nats[at] = np.log(rows[np.arange(len(rows)), tokens])
        owners = np.repeat(np.arange(len(read)), [len(tokens) for tokens, _ in read])
        return np.bincount(owners, weights=nats, minlength=len(read)).astype(np.float64)

    def probabilities(self, contexts: Ints, states: Ints) -> Floats:
        """The distribution over the tokens that each state allows, [len(contexts), V].

        Args:
            contexts: the tokens before, packed as digits of base V, the last one lowest.
            states: of the grammar.

        """
        vocabulary = self._texts.table.n_tokens
        rows = np.full((len(contexts), vocabulary), 1.0 / vocabulary)
        for length, level in enumerate(self._levels):
            short = contexts % vocabulary**length
            near = np.minimum(np.searchsorted(level.contexts, short), len(level.contexts) - 1)
            rows *= np.where(level.contexts[near] == short, level.left[near], 1.0)[:, None]
            first = np.searchsorted(level.grams, short * vocabulary)
            n = np.searchsorted(level.grams, (short + 1) * vocabulary) - first
            row = np.repeat(np.arange(len(short)), n)
            gram = np.arange(n.sum()) + np.repeat(first - np.cumsum(n) + n, n)
            rows[row, level.grams[gram] % vocabulary] += level.shares[gram]
        rows *= self._texts.table.legal[states]
        return np.asarray(rows / rows.sum(axis=1, keepdims=True))


def _grams(texts: Sequence[Ints], order: int, vocabulary: int) -> Ints:
    """The gram that ends at each token, packed as digits of base V; texts begin after START."""
    padding = np.full(order - 1, START, dtype=np.int64)
    tokens = np.concatenate([part for text in texts for part in (padding, text)])
    n = len(tokens) - order + 1
    grams = np.zeros(n, dtype=np.int64)
    for place in range(order):
        grams = grams * vocabulary + tokens[place : place + n]
    return np.asarray(grams[tokens[order - 1 :] != START])


def _count(
    texts: ByteTexts, sets: Iterable[Sequence[Fragment]], order: int, at_once: int
) -> tuple[Ints, Ints]:
    """The different grams of full length, sorted, and how often each occurs."""
    counts = np.zeros(0, dtype=np.int64), np.zeros(0, dtype=np.int64)
    waiting: list[Ints] = []
    n_waiting = 0
    for fragments in sets:
        waiting.append(texts.read(fragments)[0])
        n_waiting += len(waiting[-1])
        if n_waiting >= at_once:
            counts = _with(counts, _grams(waiting, order, texts.table.n_tokens))
            waiting, n_waiting = [], 0
    return _with(counts, _grams(waiting, order, texts.table.n_tokens)) if waiting else counts


def _with(counts: tuple[Ints, Ints], grams: Ints) -> tuple[Ints, Ints]:
    more, times = np.unique(grams, return_counts=True)
    all_grams, place = np.unique(np.concatenate([counts[0], more]), return_inverse=True)
    sums = np.bincount(place, weights=np.concatenate([counts[1], times]))
    return all_grams, sums.astype(np.int64)


def _levels(counts: tuple[Ints, Ints], order: int, vocabulary: int) -> list[_Level]:
    """P_1 to P_order."""
    grams, times = counts
    levels = [_level(grams, times, vocabulary)]
    for length in range(order - 1, 0, -1):
        shorter, place = np.unique(grams % vocabulary**length, return_inverse=True)
        times = np.bincount(place, weights=times).astype(np.int64)
        before = np.bincount(place)
        begins = (shorter // vocabulary ** (length - 1) == START) & (length > 1)
        grams = shorter
        levels.append(_level(grams, np.where(begins, times, before), vocabulary))
    return levels[::-1]


def _level(grams: Ints, a: Ints, vocabulary: int) -> _Level:
    contexts, first, n = np.unique(grams // vocabulary, return_index=True, return_counts=True)
    totals = np.add.reduceat(a, first)
    discounts = np.array([0.0, *_discounts(a)])[np.minimum(a, 3)]
    left = np.add.reduceat(discounts, first) / totals
    return _Level(grams, (a - discounts) / np.repeat(totals, n), contexts, left)


def _discounts(a: Ints) -> tuple[float, float, float]:
    """Of grams seen once, twice, and more often, from the counts of counts."""
    n1, n2, n3, n4 = (int((a == times).sum()) for times in (1, 2, 3, 4))
    if not min(n1, n2, n3, n4):
        return _NO_COUNTS_OF_COUNTS
    y = n1 / (n1 + 2 * n2)
    found = 1 - 2 * y * n2 / n1, 2 - 3 * y * n3 / n2, 3 - 4 * y * n4 / n3
    return found if min(found) > 0 else _NO_COUNTS_OF_COUNTS
