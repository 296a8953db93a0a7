"""Groupers of the suite `supervised`: with and without training, and chains.

What is tuned is tuned by cross-validation over labels, so that it is judged by clusters that were
not seen. `Coarse`, `Fine` and `KMeans`, which is told the true number, learn nothing.

*Binary* is a classifier of pairs, and the tree of what it says (Cohen and Richman 2002). A support
vector machine with a radial kernel learns from the absolute differences of pairs which ones share a
label; its decision f gives the distance 1 / (1 + exp f), and the tree of these distances is cut
where the examples say. The kernel's width and C tell most pairs of hidden labels right; linkage and
threshold have the best F on hidden labels. The paper searches by golden section, here it is a grid.

*XingKMeans*: k-means by a metric learned of examples (Xing, Ng, Jordan and Russell 2003).

| symbol | meaning |
|---|---|
| S, D | pairs of examples with the same label, and with different ones |
| d | the difference of a pair |
| A | the metric, positive semidefinite: |d|_A^2 = d' A d |
| W | the sum of d d' over S |
| e, B | W^(-1/2) d and W^(1/2) A W^(1/2) |

The program, diagonal or full, is to maximise the sum over D of |d|_A where the sum over S of
|d|_A^2 is at most 1. (Their form for diagonal A, to minimise the sum over S less C times the log of
the sum over D, has the same solution up to its length, which k-means does not see, unless C = 0.)

In B it is to maximise g(B), the sum over D of sqrt(e' B e), where B has trace 1. Written with
B = L L', g is a sum of lengths |L' e|, which is convex in L and so lies above its tangents:
L := G L, made to length 1 again, never makes g smaller, where G is the sum over D of
e e' / sqrt(e' B e). That is B := G B G over its trace, with neither a projection nor a step size.

g is concave in B with the gradient G / 2. So no B of trace 1 is better than the present one by more
than half of the largest eigenvalue of G less the trace of G B, and the search ends where that is
little. It starts at A = I. The optimum may be about few features: to stop before it, when hidden
labels say so, is another way to weigh what was learned.

*Chain* is one of clustering with the Dirichlet process, supervised or not; *Chosen* is one
whose model is chosen by labelled examples that are hidden from it in turn.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from functools import lru_cache
from itertools import product
from types import ModuleType
from typing import Any, Literal, TypeAlias

import numpy as np
from numpy.typing import NDArray
from scipy.cluster.hierarchy import fcluster, linkage
from scipy.special import expit

from kbforge.contracts import FloatArray, Fragment, IntArray
from kbforge.errors import KBForgeError, quoted
from kbforge.evaluation.scores import compare
from kbforge.registry import install_command
from kbforge_lab.scdp.gaussian import Near
from kbforge_lab.scdp.references import References, references
from kbforge_lab.scdp.run import Trace, run, scored, warmed_up
from kbforge_lab.scdp.sampler import Scdp, start
from kbforge_lab.suites.plan import GroupingSample


def rows_of(fragments: Sequence[Fragment]) -> FloatArray:
    """The vectors, shape [n, features]."""
    expected = max((len(fragment.vector or ()) for fragment in fragments), default=0)
    for fragment in fragments:
        if not 0 < len(fragment.vector or ()) == expected:
            raise KBForgeError(
                f'fragment "{quoted(fragment.id)}": expected a vector of {max(expected, 1)} '
                f"numbers, as others have, got {len(fragment.vector or ())}"
            )
    return np.array([fragment.vector for fragment in fragments], dtype=np.float64)


def labels_of(fragments: Sequence[Fragment]) -> IntArray:
    """The labels as 0, 1, ..., by their names, shape [n]."""
    return np.unique([str(f.label) for f in fragments], return_inverse=True)[1].reshape(-1)


def scikit_learn() -> ModuleType:
    """The package `sklearn`, which comes with an extra."""
    try:
        import sklearn
    except ImportError as error:
        raise KBForgeError(
            f"the suite supervised needs scikit-learn: {install_command('supervised')}"
        ) from error
    return sklearn  # type: ignore[no-any-return]


def k_means(rows: FloatArray, clusters: int, rng: np.random.Generator) -> list[int]:
    """A label for each row, from one start."""
    scikit_learn()
    from sklearn.cluster import KMeans

    seed = int(rng.integers(2**31))
    found: list[int] = KMeans(clusters, n_init=1, random_state=seed).fit_predict(rows).tolist()
    return found


Fold: TypeAlias = tuple[NDArray[np.bool_], NDArray[np.bool_]]
"""Which examples are left, and which are hidden."""


def hidden_labels(labels: IntArray, folds: int, rng: np.random.Generator) -> Iterator[Fold]:
    """Folds that hide about half of the labels each, at least two, and leave at least two."""
    known = np.unique(labels)
    if len(known) < 4:
        raise KBForgeError(
            "what is tuned on labels that are hidden from it: expected at least 4 labels among "
            f"the examples, got {len(known)}"
        )
    for _ in range(folds):
        hidden = np.isin(labels, rng.permutation(known)[: len(known) // 2])
        yield ~hidden, hidden


@dataclass(frozen=True)
class Coarse:
    """One cluster."""

    def group(
        self, examples: Sequence[Fragment], fragments: Sequence[Fragment], seed: int
    ) -> GroupingSample:
        return GroupingSample([[0] * len(fragments)])


@dataclass(frozen=True)
class Fine:
    """Every fragment by itself."""

    def group(
        self, examples: Sequence[Fragment], fragments: Sequence[Fragment], seed: int
    ) -> GroupingSample:
        return GroupingSample([range(len(fragments))])


@dataclass(frozen=True)
class KMeans:
    """K-means from one start, with as many clusters as the labels have."""

    def group(
        self, examples: Sequence[Fragment], fragments: Sequence[Fragment], seed: int
    ) -> GroupingSample:
        clusters = int(labels_of(fragments).max()) + 1
        return GroupingSample([k_means(rows_of(fragments), clusters, np.random.default_rng(seed))])


_LINKAGES = ("single", "complete", "average")
_CS = (0.3, 3.0, 30.0)
_WIDTHS = (0.1, 0.3, 1.0)
"""Gamma of the kernel, over the number of features."""
_AT_ONCE = 20_000


@dataclass(frozen=True)
class Binary:
    """A classifier of pairs, then agglomeration."""

    pairs: int = 3000  # at most so many learn, half of them with the same label
    folds: int = 5
    judged: int = 120  # at most so many hidden examples of a fold are agglomerated

    def group(
        self, examples: Sequence[Fragment], fragments: Sequence[Fragment], seed: int
    ) -> GroupingSample:
        scikit_learn()
        rng = np.random.default_rng(seed)
        rows, labels = rows_of(examples), labels_of(examples)
        folds = list(hidden_labels(labels, self.folds, rng))
        c, width = self._machine(rows, labels, folds, rng)
        kind, threshold = self._tree(rows, labels, folds, c, width, rng)
        machine = _fitted(*drawn_pairs(rows, labels, self.pairs, rng), c, width)
        tree = linkage(_distances(machine, rows_of(fragments)), kind)
        return GroupingSample([fcluster(tree, threshold, "distance").tolist()])

    def _machine(
        self, rows: FloatArray, labels: IntArray, folds: Sequence[Fold], rng: np.random.Generator
    ) -> tuple[float, float]:
        """C and the width that tell most pairs of hidden labels right."""
        parts = [
            [drawn_pairs(rows[some], labels[some], self.pairs // 2, rng) for some in fold]
            for fold in folds
        ]

        def right(c: float, width: float) -> float:
            return float(
                np.mean([_fitted(*left, c, width).score(*hidden) for left, hidden in parts])
            )

        return max(product(_CS, _WIDTHS), key=lambda setting: right(*setting))

    def _tree(
        self,
        rows: FloatArray,
        labels: IntArray,
        folds: Sequence[Fold],
        c: float,
        width: float,
        rng: np.random.Generator,
    ) -> tuple[str, float]:
        """The linkage and the threshold whose cuts have the best mean F on hidden labels."""
        held: list[tuple[FloatArray, IntArray]] = []
        for left, hidden in folds:
            machine = _fitted(*drawn_pairs(rows[left], labels[left], self.pairs, rng), c, width)
            few = rng.permutation(np.flatnonzero(hidden))[: self.judged]
            held.append((_distances(machine, rows[few]), labels[few]))
        best, found = -1.0, (_LINKAGES[0], 0.5)
        for kind in _LINKAGES:
            trees = [(linkage(distances, kind), gold) for distances, gold in held]
            heights = np.concatenate([tree[:, 2] for tree, _ in trees])
            for threshold in np.unique(np.quantile(heights, np.linspace(0, 1, 101))).tolist():
                f = float(np.mean([_f1(tree, threshold, gold) for tree, gold in trees]))
                if f > best:
                    best, found = f, (kind, threshold)
        return found


def drawn_pairs(
    rows: FloatArray, labels: IntArray, most: int, rng: np.random.Generator
) -> tuple[FloatArray, NDArray[np.bool_]]:
    """Absolute differences of pairs [pairs, F], and whether they share a label, as half should."""
    one, other = np.triu_indices(len(rows), 1)
    alike = labels[one] == labels[other]
    chosen = np.concatenate(
        [rng.permutation(np.flatnonzero(alike == same))[: most // 2] for same in (True, False)]
    )
    return np.abs(rows[one[chosen]] - rows[other[chosen]]), alike[chosen]


def _fitted(pairs: FloatArray, alike: NDArray[np.bool_], c: float, width: float) -> Any:
    from sklearn.svm import SVC

    return SVC(C=c, gamma=width / pairs.shape[1]).fit(pairs, alike)


def _distances(machine: Any, rows: FloatArray) -> FloatArray:
    """Of all pairs, as `scipy.spatial.distance` orders them."""
    one, other = np.triu_indices(len(rows), 1)
    parts = [
        expit(-machine.decision_function(np.abs(rows[one[some]] - rows[other[some]])))
        for begin in range(0, len(one), _AT_ONCE)
        for some in [slice(begin, begin + _AT_ONCE)]
    ]
    return np.concatenate(parts)


def _f1(tree: FloatArray, threshold: float, gold: IntArray) -> float:
    return compare(fcluster(tree, threshold, "distance").tolist(), gold.tolist()).pairwise_f1


_RIDGE = 1e-6
"""Of W's mean diagonal, added to it: features in which no pair of S differs."""
_TINY = 1e-150
GAP, ROUNDS = 1e-4, 500
_TRIED = (0, 1, 2, 3, 5, 10, 30)
_FOLDS, _STARTS = 5, 3


@dataclass(frozen=True)
class XingKMeans:
    """K-means by a learned metric, with as many clusters as the labels have."""

    full: bool = False
    stopped: bool = False  # after the rounds that do best on hidden labels
    pairs: int = 20_000  # at most so many of D; all of S are used

    def group(
        self, examples: Sequence[Fragment], fragments: Sequence[Fragment], seed: int
    ) -> GroupingSample:
        rng = np.random.default_rng(seed)
        rows, labels = rows_of(examples), labels_of(examples)
        most = self._rounds(rows, labels, rng) if self.stopped else ROUNDS
        clusters = int(labels_of(fragments).max()) + 1
        transform = self._learned(rows, labels, most, rng)
        return GroupingSample([k_means(rows_of(fragments) @ transform, clusters, rng)])

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
    """A root of A: rows times it have A's distances up to scale; shape [F, F]."""
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


Start: TypeAlias = Literal["together", "apart", "twenty", "turns"]
"""The first grouping: one cluster, every fragment by itself, twenty clusters at random, or these in
turns, so that chains which look alike have met."""

_TURNS: tuple[Start, ...] = ("together", "apart", "twenty")
_KEPT = 20


@dataclass(frozen=True)
class Chain:
    """The end of a chain: the second half of what follows the warm-up."""

    model: Scdp
    first: Start
    sweeps: int
    trained: bool = True  # whether it sees the examples

    def group(
        self, examples: Sequence[Fragment], fragments: Sequence[Fragment], seed: int
    ) -> GroupingSample:
        used = len(examples) if self.trained else 0
        data = references(rows_of(examples)[:used], labels_of(examples)[:used], rows_of(fragments))
        rng = np.random.default_rng(seed)
        first = _TURNS[seed % len(_TURNS)] if self.first == "turns" else self.first
        trace = visited(self.model, data, first, self.sweeps, rng)
        return GroupingSample(trace.groupings.tolist(), trace.log_joint.tolist())


def visited(
    model: Scdp, data: References, first: Start, sweeps: int, rng: np.random.Generator
) -> Trace:
    """What a chain visits in the end; a quarter of the sweeps are a warm-up."""
    state = start(data, first_grouping(first, len(data.test), rng))
    state = warmed_up(model, data, state, sweeps // 4, rng)
    return run(model, data, state, sweeps - sweeps // 4, _KEPT, rng)[1]


def first_grouping(first: Start, n: int, rng: np.random.Generator) -> IntArray:
    """Clusters 0, 1, ..., none empty, shape [n]."""
    if first == "together":
        return np.zeros(n, dtype=np.int64)
    if first == "apart":
        return np.arange(n)
    return np.unique(rng.integers(0, 20, n), return_inverse=True)[1].reshape(-1)


_TRIAL = 4
"""Of the sweeps of a chain, one in so many are those of a trial."""


@dataclass(frozen=True)
class Chosen:
    """The end of a chain of the model whose adjusted Rand index on hidden examples is best."""

    models: tuple[Scdp, ...]
    first: Start
    sweeps: int
    hidden: int = 3

    def group(
        self, examples: Sequence[Fragment], fragments: Sequence[Fragment], seed: int
    ) -> GroupingSample:
        rows, labels = rows_of(examples), labels_of(examples)
        model = _best(self, rows.tobytes(), labels.tobytes(), rows.shape[1])
        return Chain(model, self.first, self.sweeps).group(examples, fragments, seed)


@lru_cache(maxsize=8)
def _best(of: Chosen, rows: bytes, labels: bytes, features: int) -> Scdp:
    """The model for these examples."""
    train = np.frombuffer(rows).reshape(-1, features)
    known = np.frombuffer(labels, dtype=np.int64)
    sweeps = max(4, of.sweeps // _TRIAL)

    def trial(model: Scdp, data: References) -> IntArray:
        rng = np.random.default_rng(0)
        return visited(model, data, "together", sweeps, rng).groupings

    found = scored(of.models, train, known, of.hidden, trial, _adjusted_rand)
    return _in_earnest(of.models[int(found.argmax())], of.hidden, len(np.unique(known)))


def _in_earnest(model: Scdp, hidden: int, labelled: int) -> Scdp:
    """The model with all labels back: model 3's rate falls as publications grow in number."""
    if not isinstance(model.separation, Near):
        return model
    rate = model.separation.rate * (labelled - hidden) / labelled
    return replace(model, separation=Near(rate))


def _adjusted_rand(grouping: IntArray, gold: IntArray) -> float:
    return compare(grouping.tolist(), gold.tolist()).adjusted_rand
