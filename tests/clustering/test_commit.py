"""Commit: a plan that is written is the slow engine's next state, and the model's, and is told."""

from __future__ import annotations

import math

import numpy as np
import pytest

from kbforge.clustering.rules import Rules
from kbforge.clustering.step import commit
from kbforge.clustering.tables import PythonTable
from kbforge.contracts import Fate, Problem
from kbforge_plugins.resamplers import Greedy
from tests.clustering.both_engines import (
    ALPHA,
    SEEDS,
    add,
    after,
    bridging_stream,
    compare,
    consider,
    reference,
    state_of,
)
from tests.clustering.contents import contents
from tests.clustering.oracle import SlowSmc, Target
from tests.clustering.toys import BlackBox, Chain, ChainTable, fragments_of, normal

PREDICTIVE = normal(1.0, 6.0)


@pytest.mark.parametrize("particles", [1, 3, 10])
@pytest.mark.parametrize("splits", [True, False])
def test_what_is_written_is_the_slow_engines_step_and_is_told(splits: bool, particles: int) -> None:
    """Which subproblems were replaced and by which, found as those that the slow one renewed."""
    fates: set[Fate] = set()
    for seed in SEEDS:
        points = bridging_stream(seed)
        rules = Rules(particles, Greedy(), splits=splits)
        slow = SlowSmc(Target(points, PREDICTIVE, ALPHA), particles, splits=splits)
        core = reference(Problem(Chain(PREDICTIVE), ALPHA), rules)
        for x, fragment in enumerate(fragments_of(points)):
            old = dict(slow.subproblems)
            slow.step(x)
            info = add(core, fragment)
            compare(state_of(core), slow)
            new = slow.subproblems
            kept = {name for name in old if new.get(name) is old[name]}
            assert info.fragment == x
            assert info.before == tuple(sorted(set(old) - kept))
            assert info.after == tuple(sorted(set(new) - kept))
            assert info.fate == (Fate.OPENED, Fate.JOINED, Fate.MERGED)[min(len(info.before), 2)]
            assert info.subproblems == len(new)
            effective = sum(math.log10(len(particles)) for particles in new.values())
            assert info.log10_effective_particles == pytest.approx(effective, abs=1e-9)
            fates.add(info.fate)
    assert (Fate.MERGED in fates) == (splits and particles > 1)
    assert {Fate.OPENED, Fate.JOINED} <= fates


def test_the_table_holds_the_clusters_of_the_state_and_no_others() -> None:
    for seed in SEEDS:
        points = bridging_stream(seed)
        rules = Rules(4, Greedy(), splits=True)
        for n in (1, 12, 14, len(points)):
            problem = Problem(Chain(PREDICTIVE), ALPHA)
            core = after(fragments_of(points[:n]), problem, rules)
            state = state_of(core)
            assert isinstance(core.table, PythonTable)
            assert isinstance(core.table.live, ChainTable)
            target = Target(points, PREDICTIVE, ALPHA)
            live = np.flatnonzero(state.reach[: state.n_slots] > -np.inf).tolist()
            members = {slot: state.members(slot) for slot in live}
            assert core.table.live._members == {
                slot: [points[i] for i in group] for slot, group in members.items()
            }
            assert sorted([*live, *state.free]) == list(range(state.n_slots))
            for slot, group in members.items():
                assert state.score[slot] == pytest.approx(target.score(group))
                assert state.term[slot] == pytest.approx(target.log_posterior(frozenset({group})))
            assert core.held == fragments_of(points[:n])


def test_sets_asked_for_are_counted_when_the_fragment_is_taken_in() -> None:
    rules, items = Rules(4, Greedy(), splits=True), fragments_of(bridging_stream(0)[:14])
    likelihood = BlackBox(PREDICTIVE)
    core = reference(Problem(likelihood, ALPHA), rules)
    for fragment in items:
        counted = core.table.evaluations
        consider(core, fragment)
        assert core.table.evaluations == counted
        info = add(core, fragment)
        assert info.model_evaluations == core.table.evaluations == sum(likelihood.asked)


def test_a_plan_is_written_once() -> None:
    """It holds for the state that it was made of; a later one is left as it is."""
    rules, items = Rules(4, Greedy(), splits=True), fragments_of(bridging_stream(0)[:6])
    core = after(items[:-1], Problem(Chain(PREDICTIVE), ALPHA), rules)
    plan, state = consider(core, items[-1]), state_of(core)
    commit(state, plan)
    before = contents(state)
    with pytest.raises(AssertionError, match="the state it was made of"):
        commit(state, plan)
    assert contents(state) == before
