"""Bridges: a fragment that belongs to two clusters makes one of them, and nothing gets worse."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from kbforge.clustering.session import SmcSession
from kbforge.contracts import Constraints, Decision, Problem
from kbforge.errors import UsageError
from kbforge_plugins.clusterers.sequential import SplitSmc
from kbforge_plugins.likelihoods.gaussian import Gaussian
from tests.clustering.test_constraints import mass
from tests.clustering.test_exactness import BELL_7, represented, vectors
from tests.clustering.test_failures import LIKELIHOODS, RULES, Trap, problem_of
from tests.clustering.test_remove import STAGES, check_session
from tests.clustering.toys import Rule, fragments_of
from tests.profile import examples

ITEMS = fragments_of([(float(i),) for i in range(3)])


def rule(ids: set[str]) -> float:
    """f0 and f1 are strangers; f2 is of both, and a little more of f0."""
    return {2: 2.0 + ("f0" in ids) if "f2" in ids else -5.0, 3: 9.0}.get(len(ids), 0.0)


@pytest.mark.parametrize("stage", STAGES)
@pytest.mark.parametrize("name", LIKELIHOODS)
@examples(8)
@given(rules=st.sampled_from(sorted(RULES)), seed=st.integers(0, 1000))
def test_what_is_held_never_gets_worse(name: str, stage: str, rules: str, seed: int) -> None:
    draw, make = LIKELIHOODS[name]
    items = draw(np.random.default_rng(seed), 16)
    session = SmcSession(
        problem_of(stage, make(items), Trap()), RULES[rules], np.random.default_rng(seed)
    )
    for item in items:
        session.add([item])
        before = mass(session)
        gain = session.bridge(item.id)
        assert gain >= 0
        assert mass(session) - before == pytest.approx(gain, abs=1e-7)
    check_session(session)


@pytest.mark.parametrize("particles", [1, 2, BELL_7])
def test_two_become_one(particles: int) -> None:
    session = SplitSmc(particles=particles).open(Problem(Rule(rule), 0.5), np.random.default_rng(0))
    session.add(ITEMS)
    before = session.posterior().clusters()
    gain = session.bridge("f2")
    assert session.posterior().clusters() == [(0, 1, 2)]
    assert (gain > 0) == (before != [(0, 1, 2)])
    assert session.bridge("f2") == 0


def test_what_is_decided_stays_apart() -> None:
    apart = Constraints((Decision(False, "f0", "f1"),))
    session = SplitSmc(particles=1).open(
        Problem(Rule(rule), 0.5, constraints=apart), np.random.default_rng(0)
    )
    session.add(ITEMS)
    assert session.bridge("f2") == 0
    assert session.posterior().clusters() == [(0, 2), (1,)]


def test_if_all_particles_are_kept_nothing_changes() -> None:
    items = vectors(np.random.default_rng(3), 6)
    session = SplitSmc(particles=BELL_7).open(Problem(Gaussian(), 1.0), np.random.default_rng(0))
    session.add(items)
    before = represented(session.posterior())
    assert [session.bridge(item.id) for item in items] == [0.0] * 6
    assert represented(session.posterior()) == before
    with pytest.raises(UsageError, match='has the id "nobody"'):
        session.bridge("nobody")
