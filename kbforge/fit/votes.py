"""Votes: which of several candidate groupings put two fragments together, pair by pair.

Pairs on which the same candidates say yes are alike to whoever chooses between the candidates. They
form a *cell*:

| symbol | meaning |
|---|---|
| K | candidates |
| n | fragments of the sample that all candidates group |
| I | probes: the fragments whose pairs are listed |
| C | cells |
| v[c, k] | whether candidate k puts the pairs of cell c together |
| N[i, c] | with how many others probe i makes a pair of cell c |
| a[i, k] | how many fragments the cluster of probe i has in candidate k |

Pairs that no candidate puts together are in no cell. Fragments that are alone in every candidate
are no probes: all candidates do the same for them.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray
from scipy import sparse

from kbforge.contracts import FloatArray, IntArray

MOST_PROBES = 512
_MOST_PAIRS = 200_000  # listed at most, whatever the candidates join
_WORD = 8  # bytes

BoolArray = NDArray[np.bool_]


@dataclass(frozen=True, slots=True)
class Votes:
    """The cells of a sample.

    Attributes:
        cells: v, shape [C, K].
        counts: N, shape [I, C], sparse.
        sizes: a, shape [I, K].
        share: of the sample that the probes stand for, in [0, 1]: those that are not alone in all
            candidates.
        probe: of each listed pair, a number of a fragment, ascending, shape [pairs].
        other: of each listed pair, the other fragment, shape [pairs].
        cell: of each listed pair, shape [pairs].

    """

    cells: BoolArray
    counts: sparse.csr_array
    sizes: FloatArray
    share: float
    probe: IntArray
    other: IntArray
    cell: IntArray


def count_votes(groupings: IntArray, rng: np.random.Generator) -> Votes:
    """The cells of candidate groupings.

    Args:
        groupings: number of each fragment's cluster, shape [K, n].
        rng: draws the probes, where there are too many fragments for all to be one.

    """
    k, n = groupings.shape
    sizes = np.stack([np.bincount(row, minlength=1)[row] for row in groupings])  # [K, n]
    joined = np.flatnonzero((sizes > 1).any(axis=0))
    probes, partners, patterns = [], [], []
    listed = 0
    for i in rng.permutation(joined)[:MOST_PROBES].tolist():
        together = groupings == groupings[:, i, None]  # [K, n]
        together[:, i] = False
        others = np.flatnonzero(together.any(axis=0))
        probes.append(i)
        partners.append(others)
        patterns.append(np.packbits(together[:, others], axis=0).T)  # [others, bytes]
        listed += len(others)
        if listed >= _MOST_PAIRS:
            break
    if not probes:
        nothing = np.zeros(0, np.int64)
        none, nobody = np.zeros((0, k), np.bool_), sparse.csr_array((0, 0))
        return Votes(none, nobody, np.zeros((0, k)), 0.0, nothing, nothing, nothing)
    lengths = np.array([len(others) for others in partners])
    order = np.argsort(probes)
    row = np.repeat(np.argsort(order), lengths)
    bits = np.concatenate(patterns)
    distinct, cell = _distinct(bits)
    cells = np.unpackbits(distinct, axis=1, count=k).astype(np.bool_)
    counts = sparse.csr_array((np.ones(len(row)), (row, cell)), shape=(len(probes), len(cells)))
    counts.sum_duplicates()
    listed_order = np.argsort(row, kind="stable")
    chosen = np.array(probes)[order]
    return Votes(
        cells=cells,
        counts=counts,
        sizes=sizes[:, chosen].T.astype(np.float64),
        share=len(joined) / n,
        probe=chosen[row[listed_order]],
        other=np.concatenate(partners)[listed_order],
        cell=cell[listed_order],
    )


def votes_on(groupings: IntArray, first: IntArray, second: IntArray) -> BoolArray:
    """Which candidates put pairs together, shape [pairs, K]."""
    together: BoolArray = groupings[:, first] == groupings[:, second]
    return together.T


def _distinct(bits: NDArray[np.uint8]) -> tuple[NDArray[np.uint8], IntArray]:
    """The distinct rows, and the number of each row's."""
    padded = np.zeros((len(bits), -(-bits.shape[1] // _WORD) * _WORD), np.uint8)
    padded[:, : bits.shape[1]] = bits
    words = padded.view(">u8")
    order = np.lexsort(words.T[::-1])
    ordered = words[order]
    begins = np.append(True, (ordered[1:] != ordered[:-1]).any(axis=1))
    number = np.empty(len(bits), np.int64)
    number[order] = np.cumsum(begins) - 1
    return bits[order[begins]], number
