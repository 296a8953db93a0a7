"""Scores of one labelling of n items against another, from their contingency table.

| symbol | meaning |
|---|---|
| n_ij | items in predicted cluster i and gold cluster j; only non-zero cells are stored |
| a_i, b_j | sizes of predicted and gold clusters |
| C2(k) | k (k - 1) / 2, the number of pairs among k items |

B-cubed (Bagga and Baldwin 1998) gives item x in cell ij the precision n_ij / a_i and the recall
n_ij / b_j. The literature calls two numbers B-cubed F1, so both are given by name. One is
the mean over items of the item's own F1, 2 n_ij / (a_i + b_j). The other is the harmonic mean of
mean precision and mean recall. Rand index: Rand 1971; adjusted: Hubert and Arabie 1985; variation
of information: Meila 2007.

The edit distance (Pantel 2003; Daume and Marcu 2005, section 6.3) is the smallest number of
operations that turn the predicted clusters into the gold ones. An operation merges two clusters, or
moves one item to another cluster or to a new one; none splits a cluster. Every predicted cluster
keeps the items of its largest gold cluster; the others move, and the kept parts of one gold cluster
are merged:

    n - (sum over i of max_j n_ij) + predicted clusters - m

where m is the maximum number of gold clusters that predicted ones can keep, each choosing among its
largest cells: a maximum matching.

An empty ratio counts as perfect. So pairwise precision without predicted pairs
is 1, pairwise recall without gold pairs is 1, and both Rand indices of a single item are 1. The VI
of a single item is 0, normalised or not. An F1 whose precision and recall are both 0 is 0.

To evaluate a knowledge base, its entities are compared with the labels of the fragments, matched by
id.
"""

from __future__ import annotations

import math
from collections.abc import Hashable, Iterable, Sequence
from dataclasses import asdict, dataclass
from typing import Any

import numpy as np
from scipy.sparse import csr_array
from scipy.sparse.csgraph import maximum_bipartite_matching

from kbforge.contracts import Entity, FloatArray, Fragment, IntArray
from kbforge.errors import UsageError, counted, option, quoted


@dataclass(frozen=True, slots=True)
class Scores:
    """A comparison of a predicted clustering with gold; scores are in [0, 1] unless noted."""

    items: int
    clusters: int
    gold_clusters: int
    exact_clusters: int  # gold clusters that are predicted exactly
    bcubed_precision: float
    bcubed_recall: float
    bcubed_f1_item_mean: float  # of the items' own F1
    bcubed_f1_harmonic: float  # of the two means
    pairwise_precision: float  # predicted pairs that are gold pairs
    pairwise_recall: float  # gold pairs that are predicted
    pairwise_f1: float
    rand: float  # pairs on which the two agree
    adjusted_rand: float  # corrected for chance; in (-1, 1]
    vi: float  # nats, H(predicted | gold) + H(gold | predicted)
    normalised_vi: float  # VI / log n, its largest value; the SCDP paper prints 1 less this
    edit_distance: int
    normalised_edit_score: float  # 1 less the mean of the distances there and back, over n

    def to_json(self) -> dict[str, int | float]:
        """The scores by name, in the order of the attributes."""
        return asdict(self)


def compare(predicted: Sequence[Hashable], gold: Sequence[Hashable]) -> Scores:
    """Score `predicted` against `gold`, one label per item and at least one item, in O(n log n)."""
    if len(predicted) != len(gold):
        raise ValueError(f"{len(predicted)} predicted labels for {len(gold)} gold labels")
    if not predicted:
        raise ValueError("no items to compare")
    table = _tabulate(predicted, gold)
    precision, recall, item_f1 = _bcubed(table)
    # pairs together in both, in the prediction, in gold; Python's integers, as products outgrow 64
    # bits
    both, in_predicted, in_gold = (
        int((sizes * (sizes - 1) // 2).sum())
        for sizes in (table.cells, table.cluster_sizes, table.gold_sizes)
    )
    all_pairs = table.n * (table.n - 1) // 2
    pair_precision, pair_recall = _ratio(both, in_predicted), _ratio(both, in_gold)
    by_chance = 2 * in_predicted * in_gold
    vi = _variation_of_information(table)
    there = _edit_distance(table.n, table.rows, table.columns, table.cells)
    back = _edit_distance(table.n, table.columns, table.rows, table.cells)
    exact = (table.cells == table.a) & (table.cells == table.b)
    return Scores(
        items=table.n,
        clusters=len(table.cluster_sizes),
        gold_clusters=len(table.gold_sizes),
        exact_clusters=int(np.count_nonzero(exact)),
        bcubed_precision=precision,
        bcubed_recall=recall,
        bcubed_f1_item_mean=item_f1,
        bcubed_f1_harmonic=_harmonic(precision, recall),
        pairwise_precision=pair_precision,
        pairwise_recall=pair_recall,
        pairwise_f1=_harmonic(pair_precision, pair_recall),
        rand=_ratio(all_pairs - in_predicted - in_gold + 2 * both, all_pairs),
        # (both - chance) / (mean of predicted and gold - chance), multiplied out to integers
        adjusted_rand=_ratio(
            2 * both * all_pairs - by_chance, (in_predicted + in_gold) * all_pairs - by_chance
        ),
        vi=vi,
        normalised_vi=vi / math.log(table.n) if table.n > 1 else 0.0,
        edit_distance=there,
        normalised_edit_score=1 - (there + back) / (2 * table.n),
    )


@dataclass(frozen=True, slots=True)
class _ContingencyTable:
    """The non-zero cells, by number k."""

    n: int
    rows: IntArray  # i
    columns: IntArray  # j
    cells: IntArray  # n_ij
    a: IntArray  # a_i
    b: IntArray  # b_j
    cluster_sizes: IntArray
    gold_sizes: IntArray


def _tabulate(predicted: Sequence[Hashable], gold: Sequence[Hashable]) -> _ContingencyTable:
    rows, columns = _numbered(predicted), _numbered(gold)
    width = int(columns.max()) + 1
    codes, cells = np.unique(rows * width + columns, return_counts=True)
    cluster_sizes, gold_sizes = np.bincount(rows), np.bincount(columns)
    row, column = codes // width, codes % width
    a, b = cluster_sizes[row], gold_sizes[column]
    return _ContingencyTable(len(rows), row, column, cells, a, b, cluster_sizes, gold_sizes)


def _numbered(labels: Sequence[Hashable]) -> IntArray:
    """Labels as 0, 1, 2, ... in order of first appearance."""
    numbers: dict[Hashable, int] = {}
    return np.fromiter(
        (numbers.setdefault(label, len(numbers)) for label in labels), np.int64, len(labels)
    )


def _bcubed(table: _ContingencyTable) -> tuple[float, float, float]:
    """Mean precision, mean recall and mean item F1; the n_ij items of a cell share each value."""
    squares: FloatArray = table.cells.astype(np.float64) ** 2
    precision = _sum(squares / table.a) / table.n
    recall = _sum(squares / table.b) / table.n
    item_f1 = _sum(2 * squares / (table.a + table.b)) / table.n
    return precision, recall, item_f1


def _variation_of_information(table: _ContingencyTable) -> float:
    cells = table.cells.astype(np.float64)
    nats = cells * (np.log(table.a / cells) + np.log(table.b / cells))
    return _sum(nats) / table.n


def _edit_distance(n: int, rows: IntArray, columns: IntArray, cells: IntArray) -> int:
    """Operations that turn the clusters of the rows into those of the columns."""
    n_rows = int(rows.max()) + 1
    most = np.zeros(n_rows, np.int64)
    np.maximum.at(most, rows, cells)
    largest = cells == most[rows]
    shape = n_rows, int(columns.max()) + 1
    may_keep = csr_array((cells[largest], (rows[largest], columns[largest])), shape)
    kept = int(np.count_nonzero(maximum_bipartite_matching(may_keep) >= 0))
    return n - int(most.sum()) + n_rows - kept


def _sum(values: FloatArray) -> float:
    # exactly rounded, so that the order of the items cannot show in the last digit
    return math.fsum(values.tolist())


def _ratio(part: int, whole: int) -> float:
    return part / whole if whole else 1.0


def _harmonic(precision: float, recall: float) -> float:
    total = precision + recall
    return 2 * precision * recall / total if total else 0.0


@dataclass(frozen=True, slots=True)
class Evaluation:
    """The scores, and the number of fragments left out."""

    scores: Scores  # over the fragments that have an entity and a label
    unlabelled: int  # gold gives them no label
    only_in_kb: int  # gold does not know them
    only_in_gold: int  # no entity has them

    def to_json(self) -> dict[str, Any]:
        """The scores by name, then the three counts."""
        return {**self.scores.to_json(), **{k: v for k, v in asdict(self).items() if k != "scores"}}


def score_entities(
    entities: Iterable[Entity], gold: Iterable[Fragment], partial: bool = False
) -> Evaluation:
    """Compare the grouping of fragments into entities with their labels.

    Fragments without a label are left out and counted; with `partial`, so are those that one side
    lacks, which are otherwise an error.
    """
    entity_of = {f: number for number, entity in enumerate(entities) for f in entity.fragments}
    predicted: list[int] = []
    labels: list[str] = []
    known = unlabelled = 0
    missing: list[str] = []
    for fragment in gold:
        number = entity_of.get(fragment.id)
        if number is None:
            missing.append(fragment.id)
            continue
        known += 1
        # emptied as it is matched: what remains is what gold does not know
        del entity_of[fragment.id]
        if fragment.label is None:
            unlabelled += 1
        else:
            predicted.append(number)
            labels.append(fragment.label)
    if not partial:
        demand_none(missing, "the gold file", "the knowledge base")
        demand_none(list(entity_of), "the knowledge base", "the gold file")
    if not known:
        raise UsageError("the knowledge base and the gold file have no fragment id in common")
    if not labels:
        raise UsageError("no fragment of the knowledge base has a label in the gold file")
    return Evaluation(compare(predicted, labels), unlabelled, len(entity_of), len(missing))


def demand_none(missing: Sequence[str], has: str, lacks: str) -> None:
    """Refuse fragments that one side lacks."""
    if missing:
        count = counted(len(missing), "fragment")
        raise UsageError(
            f'{has} has {count} that {lacks} lacks, first "{quoted(missing[0])}"; '
            f"use {option('partial')} to evaluate the fragments that both have"
        )
