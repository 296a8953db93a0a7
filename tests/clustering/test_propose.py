"""Propose: every putative particle in canonical order, and the bounds that leave some out."""

from __future__ import annotations

import numpy as np
import pytest

from kbforge.clustering import propose
from kbforge.clustering.propose import Pool, PutativeScores, Rules, propose_joins, with_singletons
from kbforge.clustering.state import DirichletProcess, State
from kbforge.contracts import FloatArray, IntArray, Problem
from kbforge.errors import LikelihoodError
from kbforge_plugins.clusterers.sequential import GreedyClusterer, Smc, SplitSmc
from kbforge_plugins.resamplers import Greedy as GreedyResampler
from tests.clustering import both_engines
from tests.clustering.both_engines import ALPHA, SEEDS, after, bridging_stream, run_both
from tests.clustering.oracle import SlowSmc, Target
from tests.clustering.toys import POINTS, Chain, Rule, categories, fragments_of, normal

CLUSTERERS = [GreedyClusterer, Smc, SplitSmc]


def state_of(seed: int) -> State:
    """Some subproblems of several particles each, many of one, or one of many that tie."""
    rng = np.random.default_rng(seed)
    likelihood, alpha = Chain(normal(1.0, 6.0)), ALPHA
    if seed % 3 == 0:
        points = bridging_stream(seed)[: 12 + seed]
    elif seed % 3 == 1:
        points = [(40.0 * i + d,) for i in range(9) for d in (0.0, 0.5)[: 1 + i % 2]]
        likelihood = Chain(normal(1.0, 100.0))
    else:
        points = [(float(kind),) for kind in rng.integers(0, 3, size=6)]
        likelihood, alpha = Chain(categories()), 1.0
    rules = Rules(10, GreedyResampler(), splits=True)
    return both_engines.state_of(after(fragments_of(points), Problem(likelihood, alpha), rules))


def gains(rng: np.random.Generator, state: State) -> FloatArray:
    """Of joining each slot: in halves, so that many putative particles tie, and some -inf."""
    drawn = rng.integers(-4, 2, size=state.n_slots) / 2
    return np.where(rng.random(state.n_slots) < 0.1, -np.inf, drawn)


def live_slots(state: State) -> IntArray:
    return np.flatnonzero(state.reach[: state.n_slots] > -np.inf)


def every_join(
    state: State, log_predictive: FloatArray, slots: IntArray
) -> list[tuple[float, ...]]:
    """(value, cell, slot, row, subproblem) of all putative particles that join, canonical order."""
    wanted, found = set(slots.tolist()), []
    for name in sorted(state.blocks):
        start = int(state.row_start[name])
        for rank in range(int(state.row_count[name])):
            row = start + rank
            cells = range(int(state.row_begin[row]), int(state.row_end[row]))
            for cell in sorted(cells, key=lambda cell: int(state.first[state.cells[cell]])):
                slot = int(state.cells[cell])
                value = state.row_weight[row] + state.log_size[slot] + log_predictive[slot]
                if slot in wanted and value > -np.inf:
                    found.append((float(value), cell, slot, rank, name))
    return sorted(found, key=lambda one: -one[0])


def listed(pool: Pool) -> list[tuple[float, ...]]:
    columns = (pool.value, pool.cell, pool.slot, pool.row, pool.subproblem)
    return list(zip(*(column.tolist() for column in columns), strict=True))


@pytest.mark.parametrize("large", [False, True])
def test_the_heaviest_joins_in_canonical_order(
    large: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Against all of them sorted; `large` takes the way of problems with many rows."""
    if large:
        monkeypatch.setattr(propose, "_MANY_ROWS", 0)
        monkeypatch.setattr(propose, "_LEADERS", 1)
    ties = cut = 0
    for seed in range(12):
        state, rng = state_of(seed), np.random.default_rng(seed)
        live = live_slots(state)
        some = np.sort(rng.choice(live, size=len(live) // 2, replace=False))
        for slots in (None, some):
            log_predictive = gains(rng, state)
            expected = every_join(state, log_predictive, live if slots is None else slots)
            scores = PutativeScores(log_predictive, slots)
            for limit in (None, 1, 3, 10, len(expected), len(expected) + 1):
                got = listed(propose_joins(state, scores, limit))
                assert got == expected[:limit]
                cut += len(got) < len(expected)
            values = [value for value, *_ in expected]
            ties += len(values) - len(set(values))
    assert ties > 20
    assert cut > 20


def test_rows_in_reach_are_those_that_some_candidate_brings_to_the_floor() -> None:
    left_out = 0
    for seed in range(12):
        state, rng = state_of(seed), np.random.default_rng(seed)
        live = live_slots(state)
        for _ in range(10):
            candidates = rng.choice(live, size=rng.integers(1, len(live)), replace=False)
            log_predictive = gains(rng, state)
            log_predictive[candidates] = np.maximum(log_predictive[candidates], -3.0)
            floor = float(rng.normal(scale=4))
            state.gain[: state.n_slots] = log_predictive
            got = propose._rows_in_reach(state, candidates, floor).tolist()
            reach: dict[int, float] = {}
            for slot in candidates.tolist():
                start = int(state.row_start[state.owner[slot]])
                for row in range(start, start + int(state.row_count[state.owner[slot]])):
                    value = state.row_weight[row] + state.log_size[slot] + log_predictive[slot]
                    reach[row] = max(reach.get(row, -np.inf), value)
            assert len(set(got)) == len(got)
            assert {row for row, value in reach.items() if value >= floor} <= set(got)
            assert set(got) <= {row for row, value in reach.items() if value >= floor - 1e-6}
            left_out += len(reach) - len(got)
    assert left_out > 50


@pytest.mark.parametrize("bad", [float("nan"), float("inf")])
def test_a_predictive_that_is_no_number_is_an_error(bad: float) -> None:
    state = state_of(0)
    log_predictive = np.zeros(state.n_slots)
    log_predictive[live_slots(state)[-1]] = bad
    with pytest.raises(LikelihoodError, match=f"returned {bad}"):
        propose_joins(state, PutativeScores(log_predictive), 5)


def test_singletons_stand_in_the_subproblem_of_the_heaviest_join_after_their_equals() -> None:
    for seed in SEEDS:
        state = state_of(seed)
        joins = propose_joins(
            state, PutativeScores(gains(np.random.default_rng(seed), state)), None
        )
        host = int(joins.subproblem[0])
        weights = state.blocks[host].weights
        # as heavy as the heaviest join, or nearly so
        alone = float(joins.value[0] - weights[0]) - state.prior.log_alpha
        singles = [
            (float(weight) + (state.prior.log_alpha + alone), -1, -1, rank, host)
            for rank, weight in enumerate(weights)
        ]
        expected = sorted(listed(joins) + singles, key=lambda one: -one[0])
        assert listed(with_singletons(state, joins, alone)) == expected


def test_a_singleton_as_heavy_as_a_join_comes_after_it() -> None:
    rules = Rules(5, GreedyResampler(), splits=True)
    core = after(fragments_of([(0.0,)]), Problem(Chain(normal()), 1.0), rules)
    state = both_engines.state_of(core)
    joins = propose_joins(state, PutativeScores(np.array([-2.0])), None)
    pool = with_singletons(state, joins, -2.0)
    assert pool.value.tolist() == [-2.0, -2.0]
    assert pool.slot.tolist() == [0, -1]


def test_no_singleton_without_a_probability_and_no_pool_without_either() -> None:
    state = state_of(1)
    joins = propose_joins(state, PutativeScores(np.zeros(state.n_slots)), 5)
    assert listed(with_singletons(state, joins, -np.inf)) == listed(joins)
    nothing = propose_joins(state, PutativeScores(np.full(state.n_slots, -np.inf)), 5)
    assert not len(nothing)
    with pytest.raises(LikelihoodError, match="no finite assignment"):
        with_singletons(state, nothing, -np.inf)


def test_the_first_fragment_of_all_has_nothing_to_join() -> None:
    empty = State(DirichletProcess(1.0))
    assert not len(propose_joins(empty, PutativeScores(np.zeros(0)), 5))


@pytest.mark.parametrize("particles", [3, 10])
def test_leaving_out_rows_changes_nothing(particles: int, monkeypatch: pytest.MonkeyPatch) -> None:
    """What a large problem switches on, on a small one."""
    monkeypatch.setattr(propose, "_MANY_ROWS", 0)
    monkeypatch.setattr(propose, "_LEADERS", 1)
    predictive = normal(spread=1.0, prior_spread=6.0)
    for seed in SEEDS:
        values = bridging_stream(seed)
        slow = SlowSmc(Target(values, predictive, ALPHA), particles)
        rules = Rules(particles, GreedyResampler(), splits=True)
        run_both(values, slow, Problem(Chain(predictive), ALPHA), rules)


def run(clusterer, likelihood, alpha: float = 1.0):  # type: ignore[no-untyped-def]
    return clusterer().cluster(
        fragments_of(POINTS), Problem(likelihood, alpha), np.random.default_rng(0)
    )


@pytest.mark.parametrize("clusterer", CLUSTERERS)
def test_what_is_impossible_is_not_found(clusterer) -> None:  # type: ignore[no-untyped-def]
    no_joins = Rule(lambda ids: -np.inf if len(ids) > 1 else 0.0)
    assert sorted(run(clusterer, no_joins).clusters()) == [(0,), (1,), (2,), (3,), (4,)]
    no_singletons = Rule(lambda ids: -np.inf if len(ids) == 1 and ids != {"f0"} else 0.0)
    assert run(clusterer, no_singletons).clusters() == [(0, 1, 2, 3, 4)]
