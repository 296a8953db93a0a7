"""Made-up groupings, one of them gold, for tests of what answers choose."""

from __future__ import annotations

import numpy as np

from kbforge.contracts import IntArray


def path_through(gold: IntArray, rng: np.random.Generator, splits: int, joins: int) -> IntArray:
    """Groupings from fine to coarse, gold in the middle, shape [splits + 1 + joins, n]."""
    finer = [gold]
    for _ in range(splits):
        parted = finer[0].copy()
        for cluster in np.unique(parted):
            members = np.flatnonzero(parted == cluster)
            if len(members) > 1 and rng.random() < 0.4:
                parted[members[: len(members) // 2]] = parted.max() + 1
        finer.insert(0, parted)
    coarser = [gold]
    for _ in range(joins):
        joined = coarser[-1].copy()
        clusters = rng.permutation(np.unique(joined))
        for one, other in zip(clusters[0::5], clusters[1::5], strict=False):
            joined[joined == other] = one
        coarser.append(joined)
    return np.stack([*finer, *coarser[1:]])


def world(seed: int) -> tuple[IntArray, int]:
    """Candidates of two paths, one of them wrong all along, and the number of gold's."""
    rng = np.random.default_rng(seed)
    gold = np.repeat(np.arange(60), rng.integers(1, 5, 60))
    rng.shuffle(gold)
    right = path_through(gold, rng, 4, 4)
    shaken = np.where(rng.random(len(gold)) < 0.25, rng.permutation(gold), gold)
    return np.concatenate([path_through(shaken, rng, 3, 3), right]), 7 + 4
