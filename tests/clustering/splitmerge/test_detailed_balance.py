"""MinSM leaves the posterior as it is: all of its ways enumerated, to rounding."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
import pytest

from kbforge.clustering.batch.splitmerge import SplitMergeKernel
from tests.clustering.oracle import Grouping as Partition
from tests.clustering.oracle import partitions
from tests.clustering.splitmerge.choices import every_way
from tests.clustering.splitmerge.kernels import Make, alike, chain_of
from tests.clustering.test_chains_are_exact import SEEDS, problem_of
from tests.clustering.test_chains_are_exact import put as bring
from tests.clustering.test_exactness import FAMILIES, exact_posterior
from tests.clustering.test_split_merge import after

Flow = dict[tuple[Partition, Partition], float]

# hashes of five fragments: two buckets, three of which one is of one, one bucket, all apart
HASHES = [(0, 0, 1, 1, 1), (4, 4, 9, 7, 7), (0, 0, 0, 0, 0), (0, 1, 2, 3, 4), (2, 0, 0, 0, 1)]


def flow_of(make: Make, family: str, n: int) -> tuple[Flow, dict[Partition, float]]:
    """How much of the posterior goes from each grouping to each other one in a move."""
    fragments, problem = problem_of(family, SEEDS[family], n)
    log_exact = exact_posterior(fragments, problem.likelihood, problem.alpha)
    exact = {z: math.exp(w) for z, w in log_exact.items()}
    chain, kernel = chain_of(make, fragments, problem)
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
def test_every_move_and_its_way_back_are_as_frequent(family: str) -> None:
    # every split and every merge of some table: 52 groupings of five have 180 splits
    check_balance([alike(hashes) for hashes in HASHES], family, 5, least=150)


def test_dumb_and_smart_moves_each_are_followed_now_and_then() -> None:
    """Otherwise the balance would hold of nothing."""
    check_all_followed(alike(HASHES[0]), 5)


def check_all_followed(make: Make, n: int) -> None:
    """Each of the four kinds of moves is followed now and then."""
    fragments, problem = problem_of("gaussian", SEEDS["gaussian"], n)
    chain, kernel = chain_of(make, fragments, problem)
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


def test_a_wrong_ratio_is_noticed() -> None:
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


def test_the_ways_sum_to_one() -> None:
    def walk(draws: Any) -> tuple[int, ...]:
        first = draws.below(3)
        return first, *([draws.below(2)] if draws.happens(0.3) else draws.shuffled(range(first)))

    ways = list(every_way(walk))
    assert math.isclose(sum(p for _, p in ways), 1.0)
    assert dict.fromkeys(way for way, _ in ways).keys() == {
        *((i, j) for i in range(3) for j in range(2)),
        *((0,), (1, 0), (2, 0, 1), (2, 1, 0)),
    }
