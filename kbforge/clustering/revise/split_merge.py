"""Smart splits and merges as a step of revision: hashes propose them.

A run that clusters again puts fragments one after another, and a move takes one out. Neither parts
a cluster of many in the middle when every part of it holds together. Here its fragments are hashed,
and it is offered as those with the hash of one fragment, and the rest:

- where fragments have keys, of the index or as features that the likelihood compares by, the hash
  is the first of them in a random order (MinHash), so that what shares many keys stays together;
- otherwise, for vectors, the side of a random direction through the cluster's mean.

The best of a few hash functions is taken if the posterior grows by it; else the cluster is offered
as one with the best of those that the fragment could belong to instead. Sampling would accept what
is worse, too (`kbforge.clustering.batch.splitmerge`); revision takes only what is more probable.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence

import numpy as np

from kbforge.clustering.core import Core
from kbforge.clustering.revise.groupings import Row, in_order
from kbforge.clustering.revise.rerun import Rerun
from kbforge.clustering.revise.revisit import (
    LEAST_GAIN,
    MOST_NEIGHBOURS,
    MOST_TAKEN,
    offer,
    rivals,
    slot_of,
)
from kbforge.contracts import Cluster

_HASHES = 4


def split_or_merge(core: Core, fragment: int) -> float:
    """Part a fragment's cluster by hashes, or make it one with another; the gain in log mass.

    Raises:
        LikelihoodError: as a session's `add`; nothing has changed then.

    """
    here = core.state.members(slot_of(core, fragment))
    return _best_offered(core, [here], _parted(core, fragment, here)) or _merged(core, fragment)


def _merged(core: Core, fragment: int) -> float:
    """Make its cluster one with the best of some others; the gain in log mass."""
    own = slot_of(core, fragment)
    slots, weights = rivals(core, fragment, own)
    near = slots[np.argsort(-weights, kind="stable")[:MOST_NEIGHBOURS]].tolist()
    here = core.state.members(own)
    gain = 0.0
    for there in [core.state.members(slot) for slot in near]:
        if not gain and len(here) + len(there) <= MOST_TAKEN:
            gain = _best_offered(core, [here, there], [(tuple(sorted((*here, *there))),)])
    return gain


def _best_offered(core: Core, before: Sequence[Cluster], rows: Sequence[Row]) -> float:
    """Offer the best of some groupings of the fragments of clusters; the gain in log mass."""
    if core.bindings is not None:
        rows = [row for row in rows if core.bindings.allow(row)]
    if not rows:
        return 0.0
    sets = list(dict.fromkeys([*before, *(cluster for row in rows for cluster in row)]))
    scores = core.state.prior.log_terms(sets, core.model.score(sets))
    term = dict(zip(sets, scores.tolist(), strict=True))
    values = [math.fsum(term[cluster] for cluster in row) for row in rows]
    best = int(np.argmax(values))
    if not values[best] - math.fsum(term[cluster] for cluster in before) > LEAST_GAIN:
        return 0.0
    taken = [number for cluster in before for number in cluster]
    return offer(core, taken, Rerun([rows[best]], np.array([values[best]]), term))


def _parted(core: Core, fragment: int, cluster: Cluster) -> list[Row]:
    """The cluster in two, by each of some hash functions that do not hold it together."""
    if not 1 < len(cluster) <= MOST_TAKEN:
        return []
    rows = []
    for bucket in _buckets(core, fragment, cluster):
        inside = tuple(number for number in cluster if number in bucket)
        outside = tuple(number for number in cluster if number not in bucket)
        if outside:
            rows.append(in_order((inside, outside)))
    return list(dict.fromkeys(rows))


def _buckets(core: Core, fragment: int, cluster: Cluster) -> list[set[int]]:
    """The fragments of a cluster with the hash of one of them, by each hash function."""
    keys = _keys(core, cluster)
    if keys.get(fragment):
        place = {
            key: i for i, key in enumerate(dict.fromkeys(k for ks in keys.values() for k in ks))
        }
        at = {number: np.array([place[key] for key in keys[number]]) for number in cluster}
        orders = (core.rng.permutation(len(place)) for _ in range(_HASHES))
        firsts = [{i: order[of].min() for i, of in at.items() if len(of)} for order in orders]
        return [{i for i, key in first.items() if key == first[fragment]} for first in firsts]
    vectors = [core.model.fragments[number].vector for number in cluster]
    if any(vector is None for vector in vectors):
        return []
    x = np.array(vectors)
    sides = (x - x.mean(axis=0)) @ core.rng.normal(size=(x.shape[1], _HASHES)) > 0
    own = sides[cluster.index(fragment)]
    numbers = np.array(cluster)
    return [set(numbers[sides[:, j] == own[j]].tolist()) for j in range(_HASHES)]


def _keys(core: Core, cluster: Cluster) -> Mapping[int, Sequence[int]]:
    """By fragment, what it shares with those that are like it; none if nothing says."""
    if core.model.candidates is not None:
        return core.model.keys(list(cluster))
    fragments = [core.model.fragments[number] for number in cluster]
    features = core.problem.likelihood.features(fragments)
    if features is None:
        return {}
    names = np.split(features.names, features.starts[1:-1])
    return {number: own.tolist() for number, own in zip(cluster, names, strict=True)}
