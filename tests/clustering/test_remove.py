"""Removal: against the posterior by enumeration, and over random lives of a session."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from kbforge.clustering.session import SmcSession
from kbforge.clustering.state import SessionState
from kbforge.contracts import (
    FloatArray,
    Fragment,
    ModelSpec,
    OnlineClusterer,
)
from kbforge.errors import LikelihoodError, UsageError
from kbforge.testing import UniformLikelihood
from kbforge_plugins.clusterers.sequential import Smc, SplitSmc
from kbforge_plugins.likelihoods.gaussian import Gaussian
from tests.clustering.contents import contents
from tests.clustering.invariants import check_session
from tests.clustering.test_exactness import (
    BELL_7,
    FAMILIES,
    Family,
    check_weights,
    exact_posterior,
    represented,
    vectors,
)
from tests.clustering.test_failures import LIKELIHOODS, RULES, Broken, Trap, problem_of, session_of
from tests.clustering.toys import Chain, Point, Rule, fragments_of, normal, opened
from tests.profile import examples

STAGES = ("conjugate", "indexed", "black box", "surrogate")


def live_of(state: SessionState) -> set[int]:
    """The slots of all clusters."""
    return {
        slot for page in state.pages(state.run.names().tolist()) for slot in page.slots.tolist()
    }


@pytest.mark.parametrize("family", FAMILIES)
@examples(12)
@given(
    n=st.integers(2, 7),
    seed=st.integers(0, 10_000),
    alpha=st.sampled_from([0.05, 1.0, 20.0]),
    split=st.booleans(),
    data=st.data(),
)
def test_if_all_particles_are_kept_the_posterior_is_that_of_the_rest(
    family: str, n: int, seed: int, alpha: float, split: bool, data: st.DataObject
) -> None:
    make_fragments, make_likelihood = FAMILIES[family]
    fragments = make_fragments(np.random.default_rng(seed), n)
    likelihood = make_likelihood(fragments)
    clusterer: OnlineClusterer = SplitSmc(particles=BELL_7) if split else Smc(particles=BELL_7)
    session = clusterer.open(ModelSpec(likelihood, alpha), np.random.default_rng(0))
    session.add(fragments)
    removed = data.draw(st.lists(st.integers(0, n - 1), unique=True, min_size=1, max_size=n - 1))
    at_once = data.draw(st.booleans(), label="at once")
    for some in [removed] if at_once else [[i] for i in removed]:
        session.remove([fragments[i].id for i in some])
    left = [fragment for i, fragment in enumerate(fragments) if i not in removed]
    check_weights(session.posterior(), exact_posterior(left, likelihood, alpha))
    again = [fragments[i] for i in removed]
    session.add(again)
    check_weights(session.posterior(), exact_posterior([*left, *again], likelihood, alpha))


@pytest.mark.parametrize("stage", STAGES)
@pytest.mark.parametrize("name", LIKELIHOODS)
@examples(8)
@given(rules=st.sampled_from(sorted(RULES)), seed=st.integers(0, 1000), data=st.data())
def test_random_lives(name: str, stage: str, rules: str, seed: int, data: st.DataObject) -> None:
    check_random_life(LIKELIHOODS[name], stage, rules, seed, data)


def check_random_life(
    family: Family, stage: str, rules: str, seed: int, data: st.DataObject
) -> None:
    """Fragments come, go and come again; a session restored at any time goes on alike."""
    draw, make = family
    items = draw(np.random.default_rng(seed), 14)
    session = session_of(stage, make(items), Trap(), rules, seed)
    outside = list(items)
    inside: list[Fragment] = []
    for _ in range(data.draw(st.integers(2, 7), label="turns")):
        if inside and (not outside or data.draw(st.booleans(), label="remove")):
            chosen = data.draw(
                st.lists(st.sampled_from(range(len(inside))), unique=True, min_size=1, max_size=4)
            )
            gone = [inside[i] for i in chosen]
            session.remove([item.id for item in gone])
            inside = [item for item in inside if item not in gone]
            outside += gone
        else:
            count = data.draw(st.integers(1, 6), label="add")
            session.add(outside[:count])
            inside += outside[:count]
            outside = outside[count:]
        check_session(session)
        assert list(session.fragments) == inside
        other = problem_of(stage, make(items), Trap())
        snapshot = session.snapshot()
        restored = SmcSession(other, RULES[rules], np.random.default_rng(99), snapshot)
        assert contents(restored.snapshot()) == contents(snapshot)
        assert restored.posterior() == session.posterior()
        if data.draw(st.booleans(), label="go on with the restored one"):
            session.add(outside[:1])
            restored.add(outside[:1])
            inside += outside[:1]
            outside = outside[1:]
            assert restored.posterior() == session.posterior()
            assert contents(restored.snapshot()) == contents(session.snapshot())
            session = restored


def test_the_last_to_come_leaves_as_if_it_had_not_come() -> None:
    """Weights, clusters and what comes after, bit for bit, where no particle was dropped for it."""
    items = vectors(np.random.default_rng(2), 9)
    spec = ModelSpec(Gaussian(), 1.0)
    for cut in range(1, 6):
        never = opened(spec, BELL_7)
        session = opened(spec, BELL_7)
        never.add(items[:cut])
        session.add(items[: cut + 1])
        session.remove([items[cut].id])
        expected, got = never.posterior(), session.posterior()
        assert represented(got).keys() == represented(expected).keys()
        assert got.log_posterior == expected.log_posterior


def test_a_bridge_that_goes_leaves_two_sides() -> None:
    points = [(-3.0,), (3.0,), (-3.1,), (3.1,), (0.0,)]
    session = opened(ModelSpec(Chain(normal(1.0, 6.0)), 1.0), 50, fragments_of(points))
    (whole,) = session.posterior().subproblems
    session.touched()
    session.remove(["f4"])
    parts = session.posterior().subproblems
    assert len(parts) < len(whole.particles)
    groupings = [frozenset(p.clusters) for part in parts for p in part.particles]
    assert len(groupings) == len(set(groupings))
    # f4's cluster of its own on many particles: without it, those equal others
    assert sum(len(part.particles) for part in parts) < len(whole.particles)


def test_the_first_fragment_may_go() -> None:
    """A Gaussian's table reads all others relative to it."""
    items = vectors(np.random.default_rng(1), 30)
    spec = ModelSpec(Gaussian(), 1.0)
    session = opened(spec, 10, items)
    for i in (0, 1, 2, 5):
        session.remove([items[i].id])
        restored = SplitSmc(particles=10).open(spec, np.random.default_rng(0), session.snapshot())
        extra = [Fragment(f"again {i}", {}, items[i].vector)]
        session.add(extra)
        restored.add(extra)
        assert restored.posterior() == session.posterior()


def test_everything_may_go() -> None:
    for splits in (True, False):
        items = vectors(np.random.default_rng(3), 12)
        session = opened(ModelSpec(Gaussian(), 1.0), 5, items, splits)
        session.remove([item.id for item in items])
        assert (session.n_fragments, session.fragments) == (0, ())
        assert session.posterior().subproblems == ()
        assert session.posterior().log_posterior == 0
        # another dimension, even: nothing is left of what was
        others = [Fragment(f"o{i}", {}, (float(i),)) for i in range(4)]
        session.add(others)
        assert session.posterior().n_fragments == 4


def check_live(state: SessionState) -> None:
    """A table in Python holds the clusters of the session, each in a place of its own."""
    places = state.table.live._place[sorted(live_of(state))].tolist()
    assert sorted(state.table.live._table._members) == sorted(places)


@pytest.mark.parametrize("particles", [1, 4, 30])
def test_a_table_that_forgets_nothing(particles: int) -> None:
    """It has no `release` of its own."""
    rng = np.random.default_rng(4)
    items = fragments_of([tuple(p) for p in rng.normal(size=(20, 2)).tolist()])
    spec = ModelSpec(Chain(normal(1.0, 3.0)), 1.0)
    session = SplitSmc(particles=particles).open(spec, rng)
    session.add(items)
    for i in rng.permutation(20)[:15].tolist():
        session.remove([items[i].id])
        check_session(session)
        state = session._state
        check_live(state)


@pytest.mark.parametrize("stage", STAGES)
@pytest.mark.parametrize("method", ["encode", "log_predictive", "log_predictive_new", "keys"])
@pytest.mark.parametrize("nan", [False, True])
def test_a_removal_that_fails_changes_nothing(stage: str, method: str, nan: bool) -> None:
    draw, make = LIKELIHOODS["attributes"]
    items = draw(np.random.default_rng(7), 14)
    for victims in ([0], [3], [2, 9]):
        trap, plain = Trap(), Trap()
        session, clean = (
            session_of(stage, make(items), each, "split-smc") for each in (trap, plain)
        )
        for each in (session, clean):
            each.add(items[:-2])
        before = session.posterior()
        trap.method, trap.wait, trap.nan = method, 0, nan
        if stage == "black box":
            trap.method = "log_marginal"
        try:
            session.remove([items[i].id for i in victims])
        except (Broken, LikelihoodError):
            trap.wait = None
            assert session.posterior() == before
            check_session(session)
            session.remove([items[i].id for i in victims])
        trap.wait = None
        clean.remove([items[i].id for i in victims])
        for each in (session, clean):
            each.add(items[-2:])
        assert session.posterior() == clean.posterior()


def test_a_removal_can_fail() -> None:
    """The property above is not empty."""
    trap = Trap()
    draw, make = LIKELIHOODS["attributes"]
    items = draw(np.random.default_rng(7), 14)
    session = session_of("indexed", make(items), trap, "split-smc")
    session.add(items)
    for method in ("encode", "log_predictive_of", "keys"):
        trap.method, trap.wait = method, 0
        with pytest.raises(Broken):
            session.remove([items[3].id])
    session.remove([items[3].id])


def test_ids_that_are_not_there_or_twice() -> None:
    session = opened(ModelSpec(UniformLikelihood(), 1.0), 100)
    session.add([Fragment("a", {"n": ("1",)}), Fragment("b", {"n": ("1",)})])
    session.remove(["a", "a"])
    with pytest.raises(UsageError, match='no fragment of the session has the id "a"'):
        session.remove(["b", "a"])
    assert session.number("b") == 1
    session.add([Fragment("b", {"n": ("2",)})])
    with pytest.raises(UsageError, match='several fragments of the session have the id "b"'):
        session.remove(["b"])
    session.remove([])
    assert session.n_fragments == 2


def test_sets_with_what_is_gone_are_forgotten_and_still_counted() -> None:
    """A snapshot must not hold scores of sets that none of its fragments make."""
    items = fragments_of([(0.0,), (0.1,), (0.2,), (0.1,)])
    rule = Rule(lambda ids: -float(len(ids)))
    session = opened(ModelSpec(rule, 1.0), 20, items)
    before = session.posterior().model_evaluations
    session.remove(["f1"])  # f3 has its content
    kept = session.snapshot().scores
    session.remove(["f0"])
    assert len(session.snapshot().scores) < len(kept)
    assert all(0 not in of for of in session.snapshot().scores)
    assert session.posterior().model_evaluations >= before


def test_where_the_rest_of_every_particle_is_impossible() -> None:
    """f0 and f1 are only possible together with f2, or each alone."""

    def rule(ids: set[str]) -> float:
        return -np.inf if ids == {"f0", "f1"} else 20.0 * (len(ids) - 1)

    f0, f1, f2, f3 = fragments_of([(float(i),) for i in range(4)])
    for splits in (True, False):
        session = opened(ModelSpec(Rule(rule), 1.0), 1, [f0, f2, f1, f3], splits)
        assert session.posterior().clusters() == [(0, 1, 2, 3)]
        session.remove(["f3"])
        session.remove(["f2"])
        assert session.posterior().clusters() == [(0,), (1,)]
        check_session(session)


def test_what_was_made_in_vain_is_released() -> None:
    """f0 goes, which the table's clusters are relative to, and a cluster that is left of a particle
    is impossible: its slot is free in the new table, too, for the next that comes.
    """

    class Picky(Chain):
        def log_marginal(self, clusters: Sequence[Sequence[Fragment]]) -> FloatArray:
            raise AssertionError("a table is there")

    def predictive(members: Sequence[Point], x: Point) -> float:
        both = sorted((*members, x))
        return -np.inf if both == [(1.0,), (2.0,)] else 0.0

    items = fragments_of([(0.0,), (1.0,), (2.0,), (3.0,), (4.0,)])
    session = opened(ModelSpec(Picky(predictive), 1.0), 60, items[:4])
    session.remove(["f0"])
    check_session(session)
    state = session._state
    check_live(state)
    session.add(items[4:])
    check_session(session)
