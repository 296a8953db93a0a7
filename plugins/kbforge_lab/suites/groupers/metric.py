"""A metric learned of examples, by which k-means groups (Xing, Ng, Jordan and Russell 2003).

| symbol | meaning |
|---|---|
| S, D | pairs of examples with the same label, and with different ones |
| d | the difference of a pair |
| A | the metric, positive semidefinite: |d|_A^2 = d' A d |
| W | the sum of d d' over S |
| e, B | W^(-1/2) d and W^(1/2) A W^(1/2) |

The program, diagonal or full, is to maximise the sum over D of |d|_A where the sum over S of
|d|_A^2 is at most 1. (Their form for diagonal A, to minimise the sum over S less the log of the sum
over D, has the same solution up to its length, which k-means does not see. So does a weight C of
that log: it makes A C times as long, and no optimum depends on it but for C = 0, where A is 0.)

In B it is to maximise g(B), the sum over D of sqrt(e' B e), where B has trace 1. Written with
B = L L', g is a sum of lengths |L' e|, which is convex in L. A convex function lies above its
tangents, so L := G L, made to length 1 again, never makes g smaller, where G is the sum over D of
e e' / sqrt(e' B e). That is B := G B G over its trace, with neither a projection nor a step size.

g is concave in B with the gradient G / 2. So no B of trace 1 is better than the present one by more
than half of the largest eigenvalue of G less the trace of G B, and the search ends where that is
little. For diagonal A everything is a diagonal. It starts at A = I, the metric as it was.

The optimum need not be what groups other labels best: it may be about few features. To stop before
it is another way to weigh what was learned, and when to stop can be told from labels that are
hidden.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from kbforge.contracts import FloatArray, Fragment, IntArray
from kbforge.evaluation.scores import compare
from kbforge_lab.contracts.suite import Grouped
from kbforge_lab.suites.groupers.folds import hidden_labels
from kbforge_lab.suites.groupers.vectors import k_means, labels_of, rows_of

_RIDGE = 1e-6
"""Of W's mean diagonal, added to it: features in which no pair of S differs."""
_TINY = 1e-150
GAP, ROUNDS = 1e-4, 500
_TRIED = (0, 1, 2, 3, 5, 10, 30)
_FOLDS, _STARTS = 5, 3


@dataclass(frozen=True)
class XingKMeans:
    """K-means by a learned metric, with as many clusters as the labels have.

    Attributes:
        full: A is full, not diagonal.
        stopped: after as many rounds as do best on hidden labels, not at the optimum.
        pairs: at most so many of D are drawn; all of S are used.

    """

    full: bool = False
    stopped: bool = False
    pairs: int = 20_000

    def group(
        self, examples: Sequence[Fragment], fragments: Sequence[Fragment], seed: int
    ) -> Grouped:
        """See `kbforge_lab.contracts.suite`."""
        rng = np.random.default_rng(seed)
        rows, labels = rows_of(examples), labels_of(examples)
        most = self._rounds(rows, labels, rng) if self.stopped else ROUNDS
        clusters = int(labels_of(fragments).max()) + 1
        transform = self._learned(rows, labels, most, rng)
        return Grouped([k_means(rows_of(fragments) @ transform, clusters, rng)])

    def _learned(
        self, rows: FloatArray, labels: IntArray, rounds: int, rng: np.random.Generator
    ) -> FloatArray:
        apart = differences_apart(rows, labels, self.pairs, rng)
        return learned(scatter_within(rows, labels), apart, self.full, rounds)

    def _rounds(self, rows: FloatArray, labels: IntArray, rng: np.random.Generator) -> int:
        """Those that do best on hidden labels, of equals the fewest."""
        scores = np.zeros(len(_TRIED))
        for left, hidden in hidden_labels(labels, _FOLDS, rng):
            gold = labels[hidden].tolist()
            for at, rounds in enumerate(_TRIED):
                transform = self._learned(rows[left], labels[left], rounds, rng)
                for _ in range(_STARTS):
                    found = k_means(rows[hidden] @ transform, len(set(gold)), rng)
                    scores[at] += compare(found, gold).pairwise_f1
        return _TRIED[int(scores.argmax())]


def scatter_within(rows: FloatArray, labels: IntArray) -> FloatArray:
    """W, shape [F, F]: of a label's n rows, n times their scatter around their mean."""
    out = np.zeros((rows.shape[1], rows.shape[1]))
    for label in np.unique(labels):
        own = rows[labels == label]
        centred = own - own.mean(axis=0)
        out += len(own) * centred.T @ centred
    return out


def differences_apart(
    rows: FloatArray, labels: IntArray, most: int, rng: np.random.Generator
) -> FloatArray:
    """Differences of the pairs of D, or of so many of them drawn evenly, shape [pairs, F]."""
    one, other = np.nonzero(np.triu(labels[:, None] != labels[None, :]))
    chosen = np.sort(rng.permutation(len(one))[:most])
    return np.asarray(rows[one[chosen]] - rows[other[chosen]])


def learned(
    within: FloatArray, apart: FloatArray, full: bool, rounds: int = ROUNDS, gap: float = GAP
) -> FloatArray:
    """A root of A: rows times it have A's distances, but for their scale; shape [F, F].

    Args:
        within: W.
        apart: the differences of D, shape [pairs, F].
        full: whether A is.
        rounds: the search ends after so many.
        gap: or where g is within this share of the best.

    """
    ridge = _RIDGE * max(float(np.trace(within)), _TINY) / len(within)
    if full:
        variances, axes = np.linalg.eigh(within + ridge * np.eye(len(within)))
        scale = np.sqrt(variances)
        whiten = axes / scale
        return np.asarray(whiten @ _best_root(apart @ whiten, (axes * scale).T, rounds, gap))
    scale = np.sqrt(within.diagonal() + ridge)
    weights = _best_weights(np.square(apart / scale), np.square(scale), rounds, gap)
    return np.asarray(np.diag(np.sqrt(weights) / scale))


def _best_root(e: FloatArray, start: FloatArray, rounds: int, gap: float) -> FloatArray:
    """L, of trace(L L') = 1, from a multiple of it on."""
    root = start / np.linalg.norm(start)
    for _ in range(rounds):
        lengths = np.sqrt(np.maximum(np.square(e @ root).sum(axis=1), _TINY))
        g = (e / lengths[:, None]).T @ e
        value = float(lengths.sum())  # the trace of G B, too
        if float(np.linalg.eigvalsh(g)[-1]) - value <= 2 * gap * value:
            break
        root = g @ root
        root /= np.linalg.norm(root)
    return np.asarray(root)


def _best_weights(squares: FloatArray, start: FloatArray, rounds: int, gap: float) -> FloatArray:
    """The diagonal of B, which sums to 1, of the squares of e, shape [pairs, F]."""
    weights = start / start.sum()
    for _ in range(rounds):
        lengths = np.sqrt(np.maximum(squares @ weights, _TINY))
        g = (1 / lengths) @ squares
        value = float(lengths.sum())
        if float(g.max()) - value <= 2 * gap * value:
            break
        weights = weights * np.square(g)
        weights /= weights.sum()
    return np.asarray(weights)
