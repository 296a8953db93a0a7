"""Clustering in rounds, held against plain Python and against enumeration."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import replace

import numpy as np
import pytest
from hypothesis import assume, given
from hypothesis import strategies as st

from kbforge.clustering.constraints import rule_of
from kbforge.clustering.rounds import Agglomeration, DoubtRules
from kbforge.contracts import (
    CandidateIndex,
    Constraints,
    Decision,
    Ending,
    Fragment,
    Interrupted,
    Likelihood,
    ModelSpec,
    Posterior,
    Progress,
)
from kbforge.files.columns import Taken
from kbforge.indexes.selective import by_content
from kbforge.kernel.binding import WORKERS, MergingClusters
from kbforge.testing.clusterer import check_partition
from kbforge_plugins.clusterers.batch import Batch
from tests.clustering.exact import log_sum_exp, partitions
from tests.clustering.test_exactness import attributes, bigram, records
from tests.installed import BIGRAM
from tests.profile import examples

ALPHA = 2.0


class OneKey(CandidateIndex):
    """Compares all."""

    families = 1 << 30
    shared = 1
    compared = 1 << 30

    def keys(self, fragment: Fragment) -> Sequence[int]:
        return [0]


def some_records(seed: int, n: int) -> list[Fragment]:
    return records(np.random.default_rng(seed), n)


def spec_of(likelihood: Likelihood, **changes: object) -> ModelSpec:
    return replace(ModelSpec(likelihood, alpha=ALPHA, index=OneKey()), **changes)  # type: ignore[arg-type]


def merges_in_rounds(
    items: Sequence[Fragment], spec: ModelSpec, floors: Sequence[float] = (0.0,)
) -> list[tuple[float, frozenset[frozenset[int]]]]:
    """What the merges of the rounds gain, and what they merge, by plain sets."""
    clusters = [frozenset([i]) for i in range(len(items))]
    merges, left = [], list(floors)

    def score(cluster: frozenset[int]) -> float:
        own = spec.likelihood.log_marginal([[items[i] for i in sorted(cluster)]])[0]
        return math.log(spec.alpha) + spec.exponent * math.lgamma(len(cluster)) + float(own)

    while left:
        best: dict[frozenset[int], tuple[float, frozenset[int]]] = {}
        for one in clusters:
            for other in clusters:
                if one is other:
                    continue
                gain = score(one | other) - score(one) - score(other)
                known = best.get(one, (left[0], one))[0]
                assume(abs(gain - known) > 1e-3)  # equal gains are ordered by lot
                if gain > known:
                    best[one] = gain, other
        pairs = {frozenset([a, b]) for a, (_, b) in best.items() if b in best and best[b][1] == a}
        if not pairs:
            del left[0]
        merges += [(best[next(iter(pair))][0], pair) for pair in pairs]
        gone = {cluster for pair in pairs for cluster in pair}
        clusters = [c for c in clusters if c not in gone]
        clusters += [frozenset().union(*pair) for pair in pairs]
    return merges


def merged_in_rounds(items: Sequence[Fragment], spec: ModelSpec) -> set[frozenset[str]]:
    """The clusters of the rounds, by plain sets."""
    clusters = {frozenset([i]) for i in range(len(items))}
    for _, pair in merges_in_rounds(items, spec):
        clusters = clusters - pair | {frozenset().union(*pair)}
    return {frozenset(items[i].id for i in cluster) for cluster in clusters}


def found(posterior: Posterior, items: Sequence[Fragment]) -> set[frozenset[str]]:
    return {frozenset(items[i].id for i in cluster) for cluster in posterior.clusters()}


def distinct(items: Sequence[Fragment]) -> list[Fragment]:
    """The first of those that state the same, so that no two gains are equal."""
    known = {str(sorted(x.properties.items())): x for x in reversed(items)}
    return list(known.values())


@given(st.integers(0, 10_000), st.integers(2, 14), st.sampled_from([1.0, 0.5]))
@examples(25)
def test_rounds_are_those_of_plain_sets(seed: int, n: int, exponent: float) -> None:
    items = distinct(some_records(seed, n))
    spec = spec_of(attributes(items), exponent=exponent)
    run = Agglomeration(items, spec, DoubtRules(), by_content(items))
    list(run.run())
    merged = run.without_doubt()
    assert found(merged, items) == merged_in_rounds(items, spec)
    assert run.log_posterior == pytest.approx(merged.log_posterior, abs=1e-9)


@given(st.integers(0, 10_000), st.integers(2, 7), st.sampled_from(["attributes", *BIGRAM]))
@examples(25)
def test_probabilities_of_pairs_are_those_of_enumeration(seed: int, n: int, model: str) -> None:
    items = some_records(seed, n)
    spec = spec_of(attributes(items) if model == "attributes" else bigram(items))
    groupings = {}
    for grouping in partitions(range(n)):
        marginals = spec.likelihood.log_marginal([[items[i] for i in g] for g in sorted(grouping)])
        prior = sum(math.log(ALPHA) + math.lgamma(len(g)) for g in grouping)
        groupings[grouping] = prior + float(marginals.sum())
    total = log_sum_exp(groupings.values())
    exact = np.zeros((n, n))
    for grouping, weight in groupings.items():
        for group in grouping:
            exact[np.ix_(group, group)] += math.exp(weight - total)
    doubt = DoubtRules(particles=2000, floor=1e-9, nats=12.0)
    run = Agglomeration(items, spec, doubt, by_content(items))
    list(run.run())
    assert pairs_of(run.posterior(), n) == pytest.approx(exact, abs=1e-6)
    # with the defaults, contracted where it is certain
    usual = Batch().cluster(items, spec, np.random.default_rng(0))
    assert np.abs(pairs_of(usual, n) - exact).mean() < 0.1


def pairs_of(posterior: Posterior, n: int) -> np.ndarray:
    """By pair of places, the probability that both are one entity, shape [n, n]."""
    out = np.zeros((n, n))
    for subproblem in posterior.subproblems:
        for particle in subproblem.particles:
            for cluster in particle.clusters:
                out[np.ix_(cluster, cluster)] += math.exp(particle.log_weight)
    return out


@given(st.integers(0, 10_000), st.integers(2, 40))
@examples(15)
def test_neither_order_nor_threads_matter(seed: int, n: int) -> None:
    items = some_records(seed, n)
    spec = spec_of(attributes(items))
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv(WORKERS, "1")
        one = Batch().cluster(items, spec, np.random.default_rng(0))
        patch.setenv(WORKERS, "3")
        assert Batch().cluster(items, spec, np.random.default_rng(0)) == one
        other = np.random.default_rng(seed).permutation(n)
        again = [items[i] for i in other]
        turned = Batch().cluster(again, spec, np.random.default_rng(0))
    assert found(turned, again) == found(one, items)
    assert pairs_of(turned, n) == pytest.approx(pairs_of(one, n)[np.ix_(other, other)], abs=1e-12)
    assert turned.log_posterior == pytest.approx(one.log_posterior, abs=1e-9)


@given(st.integers(0, 10_000), st.integers(2, 30), st.integers(1, 40))
@examples(15)
def test_the_log_posterior_is_that_of_the_clusters(seed: int, n: int, largest: int) -> None:
    items = some_records(seed, n)
    spec = spec_of(attributes(items))
    for posterior in (
        Batch(largest=largest).cluster(items, spec, np.random.default_rng(0)),
        interrupted(items, spec),
    ):
        check_partition(posterior, n)
        clusters = posterior.clusters()
        marginals = spec.likelihood.log_marginal([[items[i] for i in c] for c in clusters])
        prior = sum(math.log(ALPHA) + math.lgamma(len(c)) for c in clusters)
        assert posterior.log_posterior == pytest.approx(prior + marginals.sum(), abs=1e-6)


def interrupted(items: Sequence[Fragment], spec: ModelSpec) -> Posterior:
    def stop(progress: Progress) -> None:
        raise Interrupted

    posterior = Batch().cluster(items, spec, np.random.default_rng(0), stop)
    assert posterior.ended is Ending.INTERRUPTED
    assert all(len(s.particles) == 1 for s in posterior.subproblems)
    return posterior


@given(st.integers(0, 10_000), st.integers(4, 20), st.data())
@examples(25)
def test_constraints_are_honoured(seed: int, n: int, data: st.DataObject) -> None:
    items = some_records(seed, n)
    tables = data.draw(st.lists(st.sampled_from("ab"), min_size=n, max_size=n))
    items = [replace(x, source=table) for x, table in zip(items, tables, strict=True)]
    of_table = {table: [x.id for x in items if x.source == table] for table in "ab"}
    decisions: list[Decision] = []
    for k in range(data.draw(st.integers(0, 3))):
        # a star around one fragment cannot contradict itself, and has one of each table at most
        same = k == 0 and bool(of_table["a"]) and bool(of_table["b"])
        first, second = (of_table["a"][0], of_table["b"][0]) if same else (f"f{k}", f"f{n - 1}")
        if first != second and (same or not decisions):
            decisions.append(Decision(same, first, second, f"decision {k}"))
    link = data.draw(st.sampled_from([None, "source"]))
    constraints = Constraints(tuple(decisions), link)
    spec = spec_of(attributes(items), constraints=constraints)
    posterior = Batch().cluster(items, spec, np.random.default_rng(0))
    check_partition(posterior, n)
    allowed = rule_of(constraints, items)
    for subproblem in posterior.subproblems:
        for particle in subproblem.particles:
            assert allowed(particle.clusters)
    together = {x: k for k, cluster in enumerate(found(posterior, items)) for x in cluster}
    for decision in decisions:
        assert (together[decision.first] == together[decision.second]) == decision.same


@given(st.integers(0, 10_000), st.integers(1, 40), st.data())
@examples(25)
def test_what_is_read_at_once_is_what_is_read_one_by_one(
    seed: int, n: int, data: st.DataObject
) -> None:
    items = [*some_records(seed, n), Fragment("blank", {"name": ("n/a",), "other": ("x",)})]
    places = np.array(data.draw(st.lists(st.integers(0, n), min_size=1, max_size=50)))
    seen = items[: max(1, n // 2)]  # other values are new
    one, each = (attributes(seen).live_clusters() for _ in range(2))
    assert isinstance(one, MergingClusters)
    assert isinstance(each, MergingClusters)
    found = one.read_all(Taken(items, places))
    expected = MergingClusters.read_all(each, [items[place] for place in places.tolist()])
    for got, of_each in zip(found[:3], expected[:3], strict=True):
        assert got.tolist() == of_each.tolist()
        assert got.dtype == of_each.dtype


def test_a_bound_on_subproblems_cuts_and_says_so() -> None:
    items = some_records(3, 60)
    spec = spec_of(attributes(items))
    free = Agglomeration(items, spec, DoubtRules(nats=9.0), by_content(items))
    tight = Agglomeration(items, spec, DoubtRules(nats=9.0, most=3), by_content(items))
    for run in (free, tight):
        list(run.run())
        check_partition(run.posterior(), len(items))
    assert free.cut == 0.0 < tight.cut == tight.posterior().merges_cut
    assert free.in_doubt >= tight.in_doubt > 0
