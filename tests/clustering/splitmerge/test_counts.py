"""What smart moves count, against sets counted one by one."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from kbforge.clustering.batch.grouping import Grouping
from kbforge.clustering.batch.splitmerge import Buckets, SplitMergeGains
from kbforge.contracts import Problem
from kbforge.testing import UniformLikelihood
from tests.clustering.splitmerge.kernels import alike
from tests.clustering.toys import fragments_of
from tests.profile import examples


def kernel_of(make: Any, n: int) -> Any:
    items, grouping = fragments_of([(float(i),) for i in range(n)]), Grouping(n)
    clusters = SplitMergeGains(UniformLikelihood(), items, grouping, 0.0)
    return make(items, Problem(UniformLikelihood(), 1.0), grouping, clusters)


@st.composite
def parts(draw: Any) -> tuple[int, list[int], list[int]]:
    """How many fragments there are, and two clusters of some of them."""
    n = draw(st.integers(2, 14))
    chosen = draw(st.permutations(range(n)))
    first = draw(st.integers(1, n - 1))
    last = draw(st.integers(first + 1, n))
    return n, sorted(chosen[:first]), sorted(chosen[first:last])


def same(log: float, probability: float) -> bool:
    if not probability:
        return log == -np.inf
    return math.isclose(math.exp(log), probability, rel_tol=1e-9)


@examples(200)
@given(given_parts=parts(), data=st.data())
def test_buckets_of_equal_hashes(given_parts: tuple[int, list[int], list[int]], data: Any) -> None:
    n, a, b = given_parts
    hashes = data.draw(st.lists(st.integers(0, 3), min_size=n, max_size=n))
    buckets = Buckets(np.array(hashes))
    bucket = {u: {v for v in range(n) if hashes[v] == hashes[u]} for u in range(n)}
    for u in range(n):
        others = {buckets.other(u, i) for i in range(len(bucket[u]) - 1)}
        assert others == bucket[u] - {u}
    kernel = kernel_of(alike(hashes), n)
    cluster = {*a, *b}
    leading = sum(cluster & bucket[u] in (set(a), set(b)) for u in cluster)
    log_split = kernel.log_split(np.array(a), np.array(b), buckets)
    assert same(log_split, leading / n)
    merge = 0.0
    for one, other in ((a, b), (b, a)):
        for u in one:
            if len(bucket[u]) > 1:
                merge += len(bucket[u] & {*other}) / (len(bucket[u]) - 1) / n
    assert same(kernel.log_merge(np.array(a), np.array(b), buckets), merge)


@examples(50)
@given(seed=st.integers(0, 1000))
def test_clusters_follow_the_grouping(seed: int) -> None:
    """Whatever moved: every cluster is drawn by one index, and what splits and merges gain."""
    rng, n = np.random.default_rng(seed), 12
    items, grouping = fragments_of([(float(i),) for i in range(n)]), Grouping(n)
    clusters = SplitMergeGains(UniformLikelihood(), items, grouping, 0.0)
    grouping.begin([(i,) for i in range(n)])
    clusters.read(range(n))
    clusters.regrouped(())
    for _ in range(40):
        slot = grouping.slots()[int(rng.integers(grouping.n_clusters))]
        held = grouping.cluster(slot)
        part = held[: int(rng.integers(1, len(held) + 1))]
        others = [s for s in grouping.slots() if s != slot]
        to = -1 if not others or (rng.random() < 0.5 and len(part) < len(held)) else others[0]
        if to == -1 and len(part) == len(held):
            continue
        clusters.moved(part, slot, grouping.move(part, to))
        assert sorted(clusters.slot(i) for i in range(clusters.n)) == grouping.slots()
        if rng.random() < 0.1:
            old = grouping.slots()
            grouping.compact()
            clusters.regrouped(old)
    for slot in grouping.slots():
        assert clusters.members(slot).tolist() == list(grouping.cluster(slot))
