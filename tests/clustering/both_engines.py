"""The fast engine and the slow one side by side, and states as runs leave them."""

from __future__ import annotations

import itertools
from collections.abc import Sequence
from dataclasses import replace
from unittest import mock

import numpy as np

import kbforge.clustering.reference
from kbforge.clustering.core import Core
from kbforge.clustering.propose import PutativeScores, Rules
from kbforge.clustering.reference import ReferenceRun
from kbforge.clustering.state import State
from kbforge.clustering.step import Plan
from kbforge.clustering.tables import PythonTable
from kbforge.contracts import Fragment, Info, Problem
from tests.clustering.invariants import check_invariants
from tests.clustering.oracle import SlowSmc
from tests.clustering.toys import Point, fragments_of

SEEDS = range(6)
ALPHA = 0.01


def bridging_stream(seed: int) -> list[Point]:
    """Loose groups at the corners of a simplex, then points between two, three and four of them.

    The groups have one random shape, turned to each corner, so that a point in the middle of
    some is equally far from each and connects them; they are loose enough to keep several
    particles each. Further points at the corners make the connection implausible again.
    """
    rng = np.random.default_rng(seed)
    corners = np.eye(4)
    shape = 0.7 * rng.normal(size=(3, 2))
    inside = [
        (5 + along) * corners[i] + across / 2 * (1 - corners[i])
        for along, across in shape
        for i in rng.permutation(4)
    ]
    between = [5 * corners[:k].mean(axis=0) for k in (4, 3, 2)]
    again = [(5 + 0.3 * along) * c for along in rng.normal(size=2) for c in corners]
    points = [*inside, *between, *again, between[1], between[0]]
    return [tuple((p + 0.03 * rng.normal(size=4)).tolist()) for p in points]


def compare(state: State, slow: SlowSmc) -> None:
    assert sorted(state.blocks) == sorted(slow.subproblems)
    for name, particles in slow.subproblems.items():
        block = state.blocks[name]
        bounds = block.row_start.tolist()
        rows = [
            frozenset(state.members(slot) for slot in block.cells[a:b].tolist())
            for a, b in itertools.pairwise(bounds)
        ]
        assert rows == [grouping for _, grouping in particles]
        np.testing.assert_allclose(block.weights, [w for w, _ in particles], atol=1e-9)


def reference(problem: Problem, rules: Rules, rng: np.random.Generator | None = None) -> Core:
    """A session of the reference engine without its interface, before the first fragment."""
    settled = rules.settled(problem.index is not None)
    return Core(problem, settled, rng or np.random.default_rng(7))


def state_of(core: Core) -> State:
    assert isinstance(core.run, ReferenceRun)
    return core.run.state


def add(core: Core, x: Fragment) -> Info:
    """Take in a fragment."""
    info = core.table.add((x,), core.table.read((x,)), 0)
    assert info is not None
    core.took_in((x,), (info.fragment,))
    return info


def scores_of(core: Core, x: Fragment) -> PutativeScores:
    """What a table in Python says of a fragment."""
    assert isinstance(core.table, PythonTable)
    records = core.table.read((x,))
    slots = core.run.look_up(core.run.n_numbers, records.keys_of(0))
    assert slots is not None
    by_slot = np.zeros(core.run.n_slots)
    by_slot[slots] = core.table.predictive(x, records, 0, slots)
    assert core.table._shown is not None
    return PutativeScores(by_slot, slots, core.table._shown.log_predictive_new(core.table._seen))


class Planned(Exception):
    """A plan, which is not written."""


def consider(core: Core, x: Fragment) -> Plan:
    """What would become of a fragment."""

    def stop(state: State, plan: Plan) -> None:
        raise Planned(plan)

    with mock.patch.object(kbforge.clustering.reference, "commit", stop):
        try:
            add(core, x)
        except Planned as planned:
            plan: Plan = planned.args[0]
            return plan
    raise AssertionError("nothing was decided")


def run_both(
    values: list[Point],
    slow: SlowSmc,
    problem: Problem,
    rules: Rules,
    fragments: list[Fragment] | None = None,
) -> None:
    core = reference(problem, replace(rules, floor=rules.floor or 0.0))
    slow.rng = np.random.default_rng(7)
    for x, fragment in enumerate(fragments or fragments_of(values)):
        add(core, fragment)
        slow.step(x)
        compare(state_of(core), slow)
        check_invariants(state_of(core))


def after(fragments: Sequence[Fragment], problem: Problem, rules: Rules) -> Core:
    """What there is when these have been taken in."""
    core = reference(problem, rules)
    for fragment in fragments:
        add(core, fragment)
    return core
