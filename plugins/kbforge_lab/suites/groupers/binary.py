"""A classifier of pairs, and the tree of what it says (Cohen and Richman 2002).

A pair is the absolute differences of its two vectors. A support vector machine with a radial kernel
learns from pairs of examples which ones share a label; its decision f gives the distance
1 / (1 + exp f) of two fragments, and the tree of these distances is cut where the examples say.

Everything is tuned by cross-validation over labels, so that what is judged are clusters that were
not seen: each fold hides some of the labels. The kernel's width and the machine's C are those that
tell most pairs of hidden labels right; linkage and threshold are those whose cut has the best F on
hidden labels. The paper searches by golden section, here it is a grid.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import product
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy.cluster.hierarchy import fcluster, linkage
from scipy.special import expit

from kbforge.contracts import FloatArray, Fragment, IntArray
from kbforge.evaluation.scores import compare
from kbforge_lab.contracts.suite import Grouped
from kbforge_lab.suites.groupers.folds import Fold, hidden_labels
from kbforge_lab.suites.groupers.vectors import labels_of, rows_of, scikit_learn

_LINKAGES = ("single", "complete", "average")
_CS = (0.3, 3.0, 30.0)
_WIDTHS = (0.1, 0.3, 1.0)
"""Gamma of the kernel, over the number of features."""
_AT_ONCE = 20_000


@dataclass(frozen=True)
class Binary:
    """A classifier of pairs, then agglomeration.

    Attributes:
        pairs: at most so many learn, half of them with the same label.
        folds: of the cross-validation.
        judged: at most so many hidden examples of a fold are agglomerated.

    """

    pairs: int = 3000
    folds: int = 5
    judged: int = 120

    def group(
        self, examples: Sequence[Fragment], fragments: Sequence[Fragment], seed: int
    ) -> Grouped:
        """See `kbforge_lab.contracts.suite`."""
        scikit_learn()
        rng = np.random.default_rng(seed)
        rows, labels = rows_of(examples), labels_of(examples)
        folds = list(hidden_labels(labels, self.folds, rng))
        c, width = self._machine(rows, labels, folds, rng)
        kind, threshold = self._tree(rows, labels, folds, c, width, rng)
        machine = _fitted(*drawn_pairs(rows, labels, self.pairs, rng), c, width)
        tree = linkage(_distances(machine, rows_of(fragments)), kind)
        return Grouped([fcluster(tree, threshold, "distance").tolist()])

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
    """Absolute differences of pairs, shape [pairs, F], and whether they share a label.

    Half of them do, as far as there are so many.
    """
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
