"""Constraints: against the posterior by enumeration, and over random lives of a session."""

from __future__ import annotations

import itertools
from collections.abc import Iterable, Sequence
from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from kbforge.clustering.constraints import DecisionGraph, reconciled
from kbforge.clustering.session import SmcSession
from kbforge.clustering.state import SessionState
from kbforge.contracts import (
    Cluster,
    Constraints,
    Decision,
    Fragment,
    ModelSpec,
    OnlineClusterer,
    Posterior,
)
from kbforge.contracts.fragment import AUTHORITY
from kbforge.errors import ContradictionError, LikelihoodError, UsageError
from kbforge.testing import UniformLikelihood
from kbforge_plugins.clusterers.sequential import Smc, SplitSmc
from kbforge_plugins.likelihoods.gaussian import Gaussian
from tests.clustering.contents import contents
from tests.clustering.exact import log_sum_exp
from tests.clustering.invariants import check_session, mass
from tests.clustering.test_exactness import (
    FAMILIES,
    check_weights,
    exact_posterior,
    represented,
    vectors,
)
from tests.clustering.test_failures import LIKELIHOODS, RULES, Trap, problem_of
from tests.clustering.test_remove import STAGES
from tests.clustering.toys import Chain, Rule, fragments_of, normal, opened
from tests.profile import examples

# merges below 1/P are discarded, and constraints leave subproblems that later ones merge
ALL = 10**12
# fragments from these sides stand for entities of an authority, where that is to be honoured
KNOWN = "ab"


def same(a: str, b: str, name: str = "") -> Decision:
    return Decision(True, a, b, name)


def different(a: str, b: str, name: str = "") -> Decision:
    return Decision(False, a, b, name)


def satisfies(
    clusters: Iterable[Cluster], ids: Sequence[str], sides: Sequence[str], given: Constraints
) -> bool:
    """Whether a grouping satisfies what is given, by what is given and nothing derived from it."""
    home = {ids[i]: at for at, cluster in enumerate(clusters) for i in cluster}
    for each in given.decisions:
        if each.first in home and each.second in home:
            together = home[each.first] == home[each.second]
            if together != each.same:
                return False
    known = [home[id] for id, side in zip(ids, sides, strict=True) if id in home and side in KNOWN]
    if given.known and len(set(known)) < len(known):
        return False
    if given.link is None:
        return True
    taken: set[tuple[int, str]] = set()
    for id, side in zip(ids, sides, strict=True):
        if id in home and (home[id], side) in taken:
            return False
        taken.add((home.get(id, -1), side))
    return True


def check_satisfied(session: SmcSession, given: Constraints) -> None:
    """In every particle of every subproblem."""
    state = session._state
    state.have_all()
    items, names = dict(state.here()), state.run.names().tolist()
    ids = {number: x.id for number, x in items.items()}
    for name in names:
        whole = session.subproblem(name)
        here = [ids[number] for number in whole.fragments]
        sides = [items[number].source or "" for number in whole.fragments]
        at = {number: place for place, number in enumerate(whole.fragments)}
        for particle in whole.particles:
            clusters = [tuple(at[number] for number in c) for c in particle.clusters]
            assert satisfies(clusters, here, sides, given)
    # no must-link reaches across subproblems
    home = {ids[n]: name for name in names for n in session.subproblem(name).fragments}
    for each in given.decisions:
        if each.same and each.first in home and each.second in home:
            assert home[each.first] == home[each.second]


def sided(fragments: Sequence[Fragment], sides: Sequence[str]) -> list[Fragment]:
    return [
        Fragment(
            x.id,
            x.properties,
            x.vector,
            source=side,
            metadata={AUTHORITY: x.id} if side in KNOWN else None,
        )
        for x, side in zip(fragments, sides, strict=True)
    ]


def drawn_decisions(data: st.DataObject, ids: Sequence[str], most: int) -> list[Decision]:
    pairs = list(itertools.combinations(ids, 2))
    chosen = data.draw(st.lists(st.tuples(st.sampled_from(pairs), st.booleans()), max_size=most))
    return [Decision(word, a, b, f"decision {i}") for i, ((a, b), word) in enumerate(chosen)]


def possible(given: Constraints, fragments: Sequence[Fragment]) -> bool:
    """By looking at every pair of a component, with components found by brute force."""
    try:
        graph = DecisionGraph(given.decisions)
    except ContradictionError:
        return False
    side = {x.id: x.source for x in fragments}
    for members in graph.members.values():
        sides = [side[id] for id in members if id in side]
        if given.link is not None and len(set(sides)) < len(sides):
            return False
        if given.known and sum((side or "") in KNOWN for side in sides) > 1:
            return False
    return True


@pytest.mark.parametrize("family", FAMILIES)
@examples(20)
@given(
    n=st.integers(2, 6),
    seed=st.integers(0, 10_000),
    split=st.booleans(),
    when=st.sampled_from(["before", "between", "after"]),
    linked=st.booleans(),
    known=st.booleans(),
    data=st.data(),
)
def test_if_all_particles_are_kept_the_posterior_is_conditioned(
    family: str,
    n: int,
    seed: int,
    split: bool,
    when: str,
    linked: bool,
    known: bool,
    data: st.DataObject,
) -> None:
    make_fragments, make_likelihood = FAMILIES[family]
    plain = make_fragments(np.random.default_rng(seed), n)
    likelihood = make_likelihood(plain)
    sides = data.draw(st.lists(st.sampled_from("abcd"), min_size=n, max_size=n), label="sides")
    fragments = sided(plain, sides)
    link = "source" if linked else None
    decisions = drawn_decisions(data, [x.id for x in fragments], 4)
    constraints = Constraints(tuple(decisions), link, known)
    clusterer: OnlineClusterer = SplitSmc(particles=ALL) if split else Smc(particles=ALL)
    at_first = constraints if when == "before" else Constraints((), link, known)
    if not possible(constraints, fragments):
        return
    spec = ModelSpec(likelihood, 0.7, constraints=at_first)
    session = clusterer.open(spec, np.random.default_rng(0))
    cut = data.draw(st.integers(0, n), label="cut") if when == "between" else n
    session.add(fragments[:cut])
    if when != "before":
        session.constrain(decisions)
    session.add(fragments[cut:])
    check_satisfied(session, constraints)
    check_exact(session.posterior(), fragments, likelihood, constraints)


def check_exact(
    posterior: Posterior, fragments: list[Fragment], likelihood: object, given: Constraints
) -> None:
    ids, sides = [x.id for x in fragments], [x.source or "" for x in fragments]
    exact = {
        z: w
        for z, w in exact_posterior(fragments, likelihood, 0.7).items()  # type: ignore[arg-type]
        if satisfies(z, ids, sides, given)
    }
    total = log_sum_exp(exact.values())
    assert not set(represented(posterior)) - set(exact)
    check_weights(posterior, {z: w - total for z, w in exact.items()})


TURNS = ("add", "add", "decide", "decide", "remove", "lift", "revise")


@pytest.mark.parametrize("stage", STAGES)
@pytest.mark.parametrize("name", LIKELIHOODS)
@examples(10)
@given(
    rules=st.sampled_from(sorted(RULES)),
    seed=st.integers(0, 1000),
    begin=st.builds(Constraints, link=st.sampled_from([None, "source"]), known=st.booleans()),
    data=st.data(),
)
def test_no_decision_is_ever_violated(
    name: str, stage: str, rules: str, seed: int, begin: Constraints, data: st.DataObject
) -> None:
    """Fragments come and go, decisions are made and undone, old mistakes are revised."""
    draw, make = LIKELIHOODS[name]
    plain = draw(np.random.default_rng(seed), 12)
    sides = np.random.default_rng(seed).choice(list("abcdef"), size=12).tolist()
    items = sided(plain, sides)
    ids = [item.id for item in items]
    spec = replace(problem_of(stage, make(plain), Trap()), constraints=begin)
    session = SmcSession(spec, RULES[rules], np.random.default_rng(seed))
    outside, inside = list(items), list[Fragment]()
    known = begin
    for _ in range(data.draw(st.integers(3, 9), label="turns")):
        turn = data.draw(st.sampled_from(TURNS))
        if turn == "add" and outside:
            for x in outside[: data.draw(st.integers(1, 5))]:
                if possible(known, [*inside, x]):
                    session.add([x])
                    inside.append(x)
                    outside.remove(x)
                else:
                    before = contents(session)
                    with pytest.raises(ContradictionError):
                        session.add([x])
                    assert contents(session) == before
        elif turn == "decide":
            more = drawn_decisions(data, ids, 3)
            wider = replace(known, decisions=(*known.decisions, *more))
            if possible(wider, inside):
                session.constrain(more)
                known = wider
            else:
                before = contents(session)
                with pytest.raises(ContradictionError):
                    session.constrain(more)
                assert contents(session) == before
        elif turn == "remove" and inside:
            gone = data.draw(st.lists(st.sampled_from(range(len(inside))), unique=True, max_size=3))
            leaving = [inside[i] for i in gone]
            session.remove([x.id for x in leaving])
            inside = [x for x in inside if x not in leaving]
            outside += leaving
        elif turn == "lift" and known.decisions:
            left = list(known.decisions)
            one = data.draw(st.sampled_from(left))
            session.lift([one])
            left.remove(one)
            known = replace(known, decisions=tuple(left))
        elif turn == "revise":
            before_mass = mass(session)
            revised = session.revise(1)
            assert mass(session) == pytest.approx(before_mass + revised.gain, abs=1e-6)
            assert revised.gain >= 0
        assert session.constraints == known
        assert list(session.fragments) == inside
        check_session(session)
        check_satisfied(session, known)
        check_bindings(session)
    other = replace(problem_of(stage, make(plain), Trap()), constraints=Constraints((), None))
    snapshot = session.snapshot()
    restored = SmcSession(other, RULES[rules], np.random.default_rng(99), snapshot)
    assert restored.constraints == known
    assert contents(restored.snapshot()) == contents(snapshot)
    check_bindings(restored)
    for x in outside:
        if possible(known, [*inside, x]):
            assert session.add([x]) == restored.add([x])
            inside.append(x)
    assert restored.posterior() == session.posterior()
    check_satisfied(restored, known)


def check_bindings(session: SmcSession) -> None:
    """What was kept up is what would be made anew."""
    state = session._state
    bindings, fresh = state.bindings, SessionState(state.spec, state.rules, state.rng).bindings
    fresh.bind(bindings.constraints, DecisionGraph(bindings.constraints.decisions), state.here())
    assert fresh._tags == bindings._tags
    stated = [{k: v for k, v in b._stated.items() if v} for b in (fresh, bindings)]
    assert stated[0] == stated[1]


CLOSED = [
    same("a", "b", "decision 1"),
    same("c", "b", "decision 2"),
    different("a", "d", "decision 3"),
]


def test_must_links_close_and_contradictions_name_their_causes() -> None:
    graph = DecisionGraph(CLOSED)
    assert graph.members == {"a": ("a", "b", "c"), "d": ("d",)}
    assert graph.apart == {"a": {"d"}, "d": {"a"}}
    with pytest.raises(ContradictionError) as caught:
        DecisionGraph([*CLOSED, same("x", "y"), different("c", "a", "decision 9")])
    assert caught.value.decisions == ("decision 9", "decision 2", "decision 1")
    assert str(caught.value) == (
        'decision 9 (different "c" "a") contradicts '
        'decision 2 (same "c" "b"), decision 1 (same "a" "b")'
    )
    with pytest.raises(ContradictionError, match=r'different "q" "q" contradicts itself'):
        DecisionGraph([different("q", "q")])
    # a chain of thousands is told by its ends
    chain = [same(f"n{i}", f"n{i + 1}", f"decision {i}") for i in range(3000)]
    with pytest.raises(ContradictionError, match="2994 more") as caught:
        DecisionGraph([*chain, different("n0", "n3000", "the last")])
    assert len(str(caught.value)) < 1000
    assert len(caught.value.decisions) == 3001


def test_what_is_one_by_decision_is_put_into_one_cluster() -> None:
    """Far apart, in two subproblems, with no particle that has them together."""
    points = [(0.0,), (0.1,), (50.0,), (50.1,), (100.0,)]
    spec = ModelSpec(Chain(normal(1.0, 100.0)), 1.0)
    session = opened(spec, 1, fragments_of(points))
    assert session.posterior().clusters() == [(0, 1), (2, 3), (4,)]
    session.touched()
    session.constrain([same("f0", "f2", "decision 1")])
    check_satisfied(session, Constraints((same("f0", "f2"),)))
    clusters = session.posterior().clusters()
    (together,) = [c for c in clusters if 0 in c]
    assert 2 in together
    assert (4,) in clusters, "what was not concerned stays"
    assert 4 not in session.touched().changed


def test_what_is_expelled_finds_its_next_best_place() -> None:
    """Two heaps, and one point between them that went to the nearer one."""
    points = [(0.0,), (0.2,), (0.1,), (3.0,), (3.1,), (2.9,), (1.2,)]
    session = opened(ModelSpec(Chain(normal(0.4, 10.0)), 1e-4), 1, fragments_of(points))
    assert sorted(map(sorted, session.posterior().clusters())) == [[0, 1, 2, 6], [3, 4, 5]]
    session.constrain([different("f6", "f0")])
    assert sorted(map(sorted, session.posterior().clusters())) == [[0, 1, 2], [3, 4, 5, 6]]
    session.lift([different("f6", "f0")])
    assert sorted(map(sorted, session.posterior().clusters())) == [[0, 1, 2, 6], [3, 4, 5]]


def test_a_must_link_across_the_whole_is_honoured_whatever_the_order() -> None:
    items = vectors(np.random.default_rng(8), 40)
    ids = [item.id for item in items]
    decisions = [same(ids[i], ids[i + 1]) for i in range(0, 38, 2)]
    decisions += [different(ids[i], ids[i + 2]) for i in range(0, 36, 4)]
    given = Constraints(tuple(decisions))
    for particles in (1, 5, 50):
        before = opened(ModelSpec(Gaussian(), 1.0, constraints=given), particles, items)
        after = opened(ModelSpec(Gaussian(), 1.0), particles, items)
        after.constrain(decisions)
        for session in (before, after):
            check_satisfied(session, given)
            check_session(session)


def test_a_fragment_that_no_particle_has_a_place_for() -> None:
    """p joins x; then y comes, which is x by decision and of p's table: p has to go."""
    items = [
        Fragment("x", {"n": ("1",)}, source="one"),
        Fragment("p", {"n": ("1",)}, source="two"),
        Fragment("y", {"n": ("1",)}, source="two"),
    ]
    given = Constraints((same("x", "y"),), "source")
    glue = Rule(lambda ids: 10.0 * (len(ids) - 1))
    for clusterer in (SplitSmc(particles=1), Smc(particles=1), SplitSmc(particles=7)):
        session = clusterer.open(ModelSpec(glue, 1e-9, constraints=given), np.random.default_rng(0))
        session.add(items[:2])
        if clusterer.particles == 1:
            assert session.posterior().clusters() == [(0, 1)]
        (step,) = session.add(items[2:])
        assert step.fragment == 2
        assert sorted(session.posterior().clusters()) == [(0, 2), (1,)]
        assert set(step.after) <= set(session.touched().changed)
        assert step.subproblems == len(session.posterior().subproblems)
        check_session(session)
        check_bindings(session)


def test_two_of_one_table_cannot_be_one_by_decision() -> None:
    items = [
        Fragment("a", {"n": ("1",)}, source="left"),
        Fragment("b", {"n": ("1",)}, source="right"),
        Fragment("c", {"n": ("1",)}, source="left"),
    ]
    given = Constraints((same("a", "b", "decision 4"), same("b", "c", "decision 5")), "source")
    spec = ModelSpec(UniformLikelihood(), 1.0, constraints=given)
    session = opened(spec, 100)
    said = 'fragments "a" and "c" have the same "source" and cannot be one entity, but decision 4'
    with pytest.raises(ContradictionError, match=said) as caught:
        session.add(items)
    assert caught.value.decisions == ("decision 4", "decision 5")
    assert session.n_fragments == 2
    session.remove(["a"])
    session.add(items[2:])
    assert len(session.posterior().clusters()) == 1
    # and the same when the decision comes last
    free = replace(spec, constraints=Constraints((), "source"))
    late = opened(free, 100, items)
    late.constrain(given.decisions[:1])
    with pytest.raises(ContradictionError, match=said):
        late.constrain(given.decisions[1:])
    assert late.constraints.decisions == given.decisions[:1]


def test_two_known_entities_are_never_one() -> None:
    """Not by a likelihood that would rather, nor by a decision; what is like both has a doubt."""
    items = [
        Fragment("Q1", {"n": ("1",)}, metadata={AUTHORITY: "Q1"}),
        Fragment("Q2", {"n": ("1",)}, metadata={AUTHORITY: "Q2"}),
        *(Fragment(id, {"n": ("1",)}) for id in "xy"),
    ]
    glue = Rule(lambda ids: 3.0 * (len(ids) - 1))
    spec = ModelSpec(glue, 1.0, constraints=Constraints(known=True))
    session = opened(spec, 1000, items)
    (whole,) = session.posterior().subproblems
    assert {x for p in whole.particles for x in p.clusters if {0, 1} <= set(x)} == set()
    with pytest.raises(ContradictionError, match='entities "Q1" and "Q2" of the authority'):
        session.constrain([same("Q1", "x"), same("x", "Q2")])
    session.constrain([different("Q1", "x"), same("y", "Q2")])
    (taken,) = {frozenset(c) for c in session.posterior().clusters() if 3 in c}
    assert taken == {1, 2, 3}
    # without the constraint the mark says nothing
    free = opened(replace(spec, constraints=Constraints()), 1000, items)
    assert len(free.posterior().clusters()) == 1


def test_a_linking_attribute_may_be_any() -> None:
    """Of an attribute with several values, one in common is enough."""
    given = Constraints((), "year")
    items = [
        Fragment("a", {"year": ("1", "2")}),
        Fragment("b", {"year": ("2", "3", "3")}),
        Fragment("c", {"name": ("x",)}),
        Fragment("d", {"year": ("3",)}, source="2"),
    ]
    assert [given.stated(x) for x in items] == [("1", "2"), ("2", "3"), (), ("3",)]
    assert Constraints((), "source").stated(items[3]) == ("2",)
    glue = Rule(lambda ids: 10.0 * (len(ids) - 1))
    session = opened(ModelSpec(glue, 1e-6, constraints=given), 50, items)
    for part in session.posterior().subproblems:
        for particle in part.particles:
            for cluster in particle.clusters:
                assert not {0, 1} <= set(cluster)
                assert not {1, 3} <= set(cluster)


def test_a_likelihood_that_forbids_what_is_decided() -> None:
    """That is an error of the likelihood, and nothing has changed."""
    rule = Rule(lambda ids: -np.inf if {"f0", "f1"} <= ids else 0.0)
    session = opened(ModelSpec(rule, 1.0), 5)
    session.add(fragments_of([(0.0,), (1.0,), (2.0,)]))
    before = session.posterior()
    with pytest.raises(LikelihoodError, match="forbids what the decisions require"):
        session.constrain([same("f0", "f1")])
    assert session.posterior() == before
    assert session.constraints == Constraints()
    given = Constraints((same("f0", "f1"),))
    session = opened(ModelSpec(rule, 1.0, constraints=given), 5)
    items = fragments_of([(0.0,), (1.0,), (2.0,)])
    session.add(items[:1])
    with pytest.raises(LikelihoodError, match='fragment "f1"'):
        session.add(items[1:2])
    assert session.n_fragments == 1
    (step,) = session.add(items[2:])
    assert step.fragment == 1
    check_session(session)


def test_lifting_what_is_not_in_force() -> None:
    session = opened(ModelSpec(Gaussian(), 1.0), 100)
    session.constrain([same("a", "b", "decision 1")])
    with pytest.raises(UsageError, match=r'no such decision is in force: decision 2 \(same "a"'):
        session.lift([same("a", "b", "decision 2")])
    session.lift([same("a", "b", "decision 1")])
    assert session.constraints == Constraints()
    session.constrain([])
    session.lift([])


def test_a_snapshot_has_its_own_constraints() -> None:
    given = Constraints((same("a", "b"),), "source")
    spec = ModelSpec(Gaussian(), 1.0, constraints=given)
    snapshot = opened(spec, 100).snapshot()
    for each in (spec, ModelSpec(Gaussian(), 1.0)):
        session = SplitSmc().open(each, np.random.default_rng(0), snapshot)
        assert session.constraints == given
    other = ModelSpec(Gaussian(), 1.0, constraints=Constraints((same("a", "c"),)))
    with pytest.raises(UsageError, match="of a session with different constraints"):
        SplitSmc().open(other, np.random.default_rng(0), snapshot)


def test_thousands_of_decisions_on_what_is_there() -> None:
    """They are honoured, and those that say what is so already change nothing."""
    items = [Fragment(f"f{i}", {}, (float(i // 4) * 30, float(i % 4) * 0.1)) for i in range(400)]
    session = opened(ModelSpec(Gaussian(), 1.0), 10, items)
    session.touched()
    decisions = [same(f"f{i}", f"f{i + 1}") for i in range(0, 400, 4)]
    decisions += [different(f"f{i}", f"f{i + 4}") for i in range(396)]
    session.constrain(decisions)
    check_satisfied(session, Constraints(tuple(decisions)))


def can_hold(decisions: Sequence[Decision], sides: dict[str, str]) -> bool:
    """Whether decisions contradict neither each other nor the link."""
    try:
        graph = DecisionGraph(decisions)
    except ContradictionError:
        return False
    together = [[sides[id] for id in ids if id in sides] for ids in graph.members.values()]
    return all(len({*some}) == len(some) for some in together)


@given(
    st.lists(st.tuples(st.booleans(), st.sampled_from("pqrstuv"), st.sampled_from("pqrstuv"))),
    st.dictionaries(st.sampled_from("pqrstuvw"), st.sampled_from("ab")),
)
def test_of_decisions_that_contradict_each_other_the_later_one_holds(
    said: list[tuple[bool, str, str]], sides: dict[str, str]
) -> None:
    decisions = [Decision(is_same, a, b, f"{n}") for n, (is_same, a, b) in enumerate(said)]
    wanted: list[Decision] = []
    for decision in reversed(decisions):
        if can_hold([decision, *wanted], sides):
            wanted.insert(0, decision)
    fragments = [Fragment(id, {"side": (side,)}) for id, side in sides.items()]
    kept, reasons = reconciled(decisions, Constraints(link="side"), fragments)
    assert kept == wanted
    assert bool(reasons) == (len(kept) < len(decisions))
