"""The fast engine and the slow one side by side, and states as runs leave them."""

from __future__ import annotations

import itertools
from collections.abc import Sequence

import numpy as np

from kbforge.clustering.prior import DirichletProcess
from kbforge.clustering.rules import Rules
from kbforge.clustering.scoring import make_scorer
from kbforge.clustering.state import State
from kbforge.clustering.step import commit, consider
from kbforge.clustering.table import Scorer
from kbforge.contracts import Fragment, Problem
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


def run_both(
    values: list[Point],
    slow: SlowSmc,
    problem: Problem,
    rules: Rules,
    fragments: list[Fragment] | None = None,
) -> None:
    state = State(DirichletProcess(problem.alpha))
    scorer = make_scorer(problem, rules.particles)
    rng = np.random.default_rng(7)
    slow.rng = np.random.default_rng(7)
    for x, fragment in enumerate(fragments or fragments_of(values)):
        commit(state, scorer, consider(state, scorer, fragment, rules, rng))
        slow.step(x)
        compare(state, slow)
        check_invariants(state)


def after(fragments: Sequence[Fragment], problem: Problem, rules: Rules) -> tuple[State, Scorer]:
    """The state and the model when these have been taken in."""
    state = State(DirichletProcess(problem.alpha))
    scorer = make_scorer(problem, rules.limit)
    rng = np.random.default_rng(7)
    for fragment in fragments:
        commit(state, scorer, consider(state, scorer, fragment, rules, rng))
    return state, scorer
