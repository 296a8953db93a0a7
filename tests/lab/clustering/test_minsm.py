"""MinSM leaves the posterior as it is: what it counts, all of its ways enumerated, long runs."""

from __future__ import annotations

import itertools
import math
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from typing import Any, TypeVar

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from kbforge import registry
from kbforge.contracts import Fragment, ModelSpec
from kbforge.errors import UsageError
from kbforge.testing import UniformLikelihood
from kbforge_lab.batch.chain import MarkovChain
from kbforge_lab.batch.grouping import Grouping
from kbforge_lab.batch.splitmerge import (
    AlikeKernel,
    Buckets,
    RandomChoices,
    Rotation,
    SplitMergeGains,
    SplitMergeKernel,
)
from tests.clustering.exact import Grouping as Partition
from tests.clustering.exact import partitions
from tests.clustering.test_exactness import exact_posterior
from tests.clustering.toys import fragments_of
from tests.lab.clustering.chains import bring, total_variation
from tests.lab.clustering.chains import chain_of as begun
from tests.lab.clustering.test_chains_are_exact import SEEDS, problem_of
from tests.lab.clustering.test_moves import after
from tests.lab.families import FAMILIES
from tests.profile import examples

T = TypeVar("T")


# Draws that are enumerated: every way that a random function can go, with its probability.


def every_way(function: Callable[[Any], T]) -> Iterator[tuple[T, float]]:
    """What a function of draws can return, and how likely each way is; they sum to 1."""
    script: list[int] = []
    while True:
        draws = _Script(script)
        found = function(draws)
        assert len(draws.taken) >= len(script), "the function draws something else now"
        yield found, draws.probability
        script = draws.taken
        while script and script[-1] + 1 == draws.options[len(script) - 1]:
            script.pop()
        if not script:
            return
        script[-1] += 1


class _Script:
    """Takes the options that a script says, and the first ones from there on."""

    def __init__(self, script: Sequence[int]) -> None:
        self._script = script
        self.taken: list[int] = []
        self.options: list[int] = []
        self.probability = 1.0

    def _take(self, options: Sequence[tuple[Any, float]]) -> Any:
        possible = [(value, p) for value, p in options if p > 0]
        place = len(self.taken)
        chosen = self._script[place] if place < len(self._script) else 0
        self.taken.append(chosen)
        self.options.append(len(possible))
        value, p = possible[chosen]
        self.probability *= p
        return value

    def below(self, n: int) -> int:
        return int(self._take([(i, 1 / n) for i in range(n)]))

    def happens(self, p: float) -> bool:
        return bool(self._take([(True, p), (False, 1 - p)]))

    def coins(self, n: int) -> Any:
        ways = itertools.product((False, True), repeat=n)
        return self._take([(np.array(way, dtype=bool), 0.5**n) for way in ways])


# The kernel over small problems, with hashes that are given.

Make = Callable[[Sequence[Fragment], ModelSpec, Grouping, SplitMergeGains], SplitMergeKernel]


def fixed(table: Any) -> Rotation[Any]:
    """One table for ever, already made: nothing is drawn but which of one it is."""
    rotation: Rotation[Any] = Rotation(lambda seed: table, n_fragments=1 << 60, kept=1)
    rotation.next(RandomChoices(np.random.default_rng(0)))
    return rotation


def alike(hashes: Sequence[int]) -> Make:
    buckets = Buckets(np.array(hashes))
    return lambda items, spec, grouping, clusters: AlikeKernel(clusters, fixed(buckets))


def chain_of(
    make: Make, fragments: Sequence[Fragment], spec: ModelSpec, seed: int = 5
) -> tuple[MarkovChain, Any]:
    def make_kernel(
        fragments: Sequence[Fragment], spec: ModelSpec, grouping: Grouping, log_alpha: float
    ) -> SplitMergeKernel:
        clusters = SplitMergeGains(spec.likelihood, fragments, grouping, log_alpha)
        return make(fragments, spec, grouping, clusters)

    return begun(make_kernel, fragments, spec, seed)


# What smart moves count, against sets counted one by one.


def kernel_of(make: Any, n: int) -> Any:
    items, grouping = fragments_of([(float(i),) for i in range(n)]), Grouping(n)
    clusters = SplitMergeGains(UniformLikelihood(), items, grouping, 0.0)
    return make(items, ModelSpec(UniformLikelihood(), 1.0), grouping, clusters)


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
def test_buckets_of_equal_hashes(given_parts, data):
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
def test_clusters_follow_the_grouping(seed):
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


# All ways enumerated.

Flow = dict[tuple[Partition, Partition], float]

# hashes of five fragments: two buckets, three of which one is of one, one bucket, all apart
HASHES = [(0, 0, 1, 1, 1), (4, 4, 9, 7, 7), (0, 0, 0, 0, 0), (0, 1, 2, 3, 4), (2, 0, 0, 0, 1)]


def flow_of(make: Make, family: str, n: int) -> tuple[Flow, dict[Partition, float]]:
    """How much of the posterior goes from each grouping to each other one in a move."""
    fragments, spec = problem_of(family, SEEDS[family], n)
    log_exact = exact_posterior(fragments, spec.likelihood, spec.alpha)
    exact = {z: math.exp(w) for z, w in log_exact.items()}
    chain, kernel = chain_of(make, fragments, spec)
    flow: Flow = {}
    for before in partitions(range(n)):
        bring(chain, before)
        total = 0.0
        for suggestion, share in every_way(lambda d: kernel.suggest(chain.grouping, d)):
            total += share
            if suggestion is None:
                continue
            step = before, after(chain.grouping, suggestion.move)
            assert step[0] != step[1]
            gain = log_exact[step[1]] - log_exact[before]
            assert suggestion.move.gain == pytest.approx(gain, abs=1e-7)
            followed = math.exp(min(suggestion.log_ratio, 0.0))
            flow[step] = flow.get(step, 0.0) + exact[before] * share * followed
        assert total == pytest.approx(1.0, abs=1e-12)
    return flow, exact


def check_balance(made: list[Make], family: str, n: int, least: int) -> None:
    """Every move and its way back are as frequent, and more than `least` moves are possible."""
    steps: set[tuple[Partition, Partition]] = set()
    for make in made:
        flow, exact = flow_of(make, family, n)
        for (before, later), rate in flow.items():
            assert rate == pytest.approx(flow.get((later, before), 0.0), rel=0, abs=1e-10)
        # so the posterior after a move is the posterior
        for z, p in exact.items():
            into = sum(rate for (_, later), rate in flow.items() if later == z)
            out = sum(rate for (before, _), rate in flow.items() if before == z)
            assert p + into - out == pytest.approx(p, abs=1e-10)
        steps |= {step for step, rate in flow.items() if rate > 0}
    assert len(steps) > least


@pytest.mark.parametrize("family", FAMILIES)
def test_every_move_and_its_way_back_are_as_frequent(family):
    # every split and every merge of some table: 52 groupings of five have 180 splits
    check_balance([alike(hashes) for hashes in HASHES], family, 5, least=150)


def test_dumb_and_smart_moves_each_are_followed_now_and_then():
    """Otherwise the balance would hold of nothing."""
    check_all_followed(alike(HASHES[0]), 5)


def check_all_followed(make: Make, n: int) -> None:
    """Each of the four kinds of moves is followed now and then."""
    fragments, spec = problem_of("gaussian", SEEDS["gaussian"], n)
    chain, kernel = chain_of(make, fragments, spec)
    followed: dict[int, float] = {}

    def one_way(draws: object) -> tuple[int, float]:
        watched = _FirstOfFour(draws)
        suggestion = kernel.suggest(chain.grouping, watched)  # type: ignore[arg-type]
        ratio = -np.inf if suggestion is None else suggestion.log_ratio
        return watched.first, math.exp(min(ratio, 0.0))

    for before in partitions(range(n)):
        bring(chain, before)
        for (kind, ratio), share in every_way(one_way):
            followed[kind] = followed.get(kind, 0.0) + share * ratio
    assert sorted(followed) == [0, 1, 2, 3]
    assert min(followed.values()) > 1e-3


class _FirstOfFour:
    """Draws that remember which of the four moves was drawn."""

    def __init__(self, draws: object) -> None:
        self._draws = draws
        self.first = -1

    def __getattr__(self, name: str) -> object:
        return getattr(self._draws, name)

    def below(self, n: int) -> int:
        drawn: int = self._draws.below(n)  # type: ignore[attr-defined]
        if n == 4 and self.first < 0:
            self.first = drawn
        return drawn


def test_a_wrong_ratio_is_noticed():
    """A kernel that forgets that either part of a split may have been the bucket."""

    class Forgetful(SplitMergeKernel):
        def __init__(self, inner: SplitMergeKernel) -> None:
            super().__init__(inner._clusters)
            self._inner = inner

        def suggest(self, grouping: object, draws: object) -> object:  # type: ignore[override]
            found = self._inner.suggest(grouping, draws)  # type: ignore[arg-type]
            return found and found._replace(log_ratio=found.log_ratio + 0.01)

    make: Make = lambda *given: Forgetful(alike(HASHES[0])(*given))  # noqa: E731
    flow, _ = flow_of(make, "gaussian", 5)
    wrong = [abs(rate - flow.get(step[::-1], 0.0)) for step, rate in flow.items()]
    assert max(wrong) > 1e-6


def test_the_ways_sum_to_one():
    def walk(draws: Any) -> tuple[int, ...]:
        first = draws.below(3)
        return first, *([draws.below(2)] if draws.happens(0.3) else draws.coins(first).tolist())

    ways = list(every_way(walk))
    assert math.isclose(sum(p for _, p in ways), 1.0)
    assert dict.fromkeys(way for way, _ in ways).keys() == {
        *((i, j) for i in range(3) for j in range(2)),
        *((0,), (1, False), (1, True)),
        *((2, *way) for way in itertools.product((False, True), repeat=2)),
    }


# MinSM as users get it.


def partition(slots: tuple[int, ...]) -> Partition:
    return frozenset(tuple(i for i, slot in enumerate(slots) if slot == own) for own in set(slots))


def distance(name: str, family: str, length: int, **options: Any) -> float:
    """Total variation between the states after every move and the posterior."""
    fragments, spec = problem_of(family, SEEDS[family], 5)
    exact = exact_posterior(fragments, spec.likelihood, spec.alpha)
    # hundreds of moves a sweep are as good as several sweeps, and hash functions change as often
    clusterer = registry.create("clusterers", name, {"moves": 500, **options})
    chain, _ = begun(clusterer.make_kernel, fragments, spec, 17)
    visits: Counter[tuple[int, ...]] = Counter()
    while visits.total() < length:
        for _ in chain.sweep():
            visits[tuple(chain.grouping.slot_of)] += 1
    states: Counter[Partition] = Counter()
    for slots, times in visits.items():  # which slot a cluster is in says nothing
        states[partition(slots)] += times
    return total_variation(states, exact)


@pytest.mark.parametrize(
    "family", ["gaussian", "dirichlet-multinomial", "beta-bernoulli", "bigram"]
)
def test_long_runs_have_the_exact_distribution(family):
    assert distance("minsm", family, 120_000) < 0.02


def test_gibbs_sampling_by_turns_leaves_it_so():
    assert distance("minsm", "gaussian", 40_000, moves=10, gibbs=2) < 0.02


def test_a_kernel_that_only_moves_what_has_a_place_cannot_start_sequentially():
    fragments, spec = problem_of("gaussian", SEEDS["gaussian"], 4)
    chain, _ = chain_of(alike(HASHES[0][:4]), fragments, spec)
    with pytest.raises(UsageError, match="cannot start sequentially"):
        list(chain.start(None))
