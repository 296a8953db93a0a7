"""Rules: against the posterior by enumeration, over random lives of a session, and in pages."""

from __future__ import annotations

import itertools
from collections.abc import Collection, Iterable, Sequence
from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from kbforge.clustering.constraints import DecisionGraph, components_of
from kbforge.clustering.session import SmcSession
from kbforge.clustering.state import SessionState
from kbforge.contracts import (
    CandidateIndex,
    Cluster,
    Constraints,
    Decision,
    Fragment,
    Likelihood,
    ModelSpec,
    OnlineClusterer,
)
from kbforge.contracts.clusterer import comparable
from kbforge.errors import ContradictionError, UsageError
from kbforge_plugins.clusterers.batch import Batch
from kbforge_plugins.clusterers.sequential import Smc, SplitSmc
from kbforge_plugins.likelihoods.gaussian import Gaussian
from tests.clustering.exact import log_sum_exp
from tests.clustering.invariants import check_session
from tests.clustering.test_constraints import ALL, drawn_decisions, possible
from tests.clustering.test_exactness import (
    attributes,
    check_weights,
    exact_posterior,
    records,
    represented,
    vectors,
)
from tests.clustering.test_failures import RULES
from tests.clustering.test_rounds import OneKey
from tests.clustering.toys import MemoryPages, Rule
from tests.profile import examples

VATS = ((), ("A1",), ("a 1",), ("B2",), ("A1", "B2"), ("C3", "b2"), ("n/a",))
PASSPORTS = ((), ("p",), ("P",), ("q",), ("p", "q"), ("-",))
GIVEN = st.builds(
    Constraints,
    link=st.sampled_from([None, "source"]),
    never=st.sampled_from([(), ("vat",)]),
    always=st.sampled_from([(), ("passport",)]),
)


class Halves(CandidateIndex):
    """Few fragments are compared."""

    def keys(self, fragment: Fragment) -> Sequence[int]:
        return [int(fragment.id[1:]) % 3]


class Nowhere(CandidateIndex):
    """None are."""

    def keys(self, fragment: Fragment) -> Sequence[int]:
        return []


def stating(
    plain: Sequence[Fragment], data: st.DataObject, sources: str = "abcd"
) -> list[Fragment]:
    """Fragments with a source, and what rules look at."""
    out = []
    for x in plain:
        more = {
            "vat": data.draw(st.sampled_from(VATS)),
            "passport": data.draw(st.sampled_from(PASSPORTS)),
        }
        said = {name: values for name, values in more.items() if values}
        source = data.draw(st.sampled_from(sources))
        out.append(replace(x, properties={**x.properties, **said}, source=source))
    return out


def stated(x: Fragment, attribute: str) -> set[str]:
    return set(comparable(x.properties.get(attribute, ())))


class Wanted:
    """What the contract's words say of fragments, by looking at all pairs."""

    def __init__(self, given: Constraints, fragments: Sequence[Fragment]) -> None:
        self.given, self.fragments = given, fragments
        self.graph = DecisionGraph(given.decisions)
        self.apart = {frozenset((d.first, d.second)) for d in given.decisions if not d.same}
        # decisions first: what they merge by way of fragments that are not there is one, too
        named = [self.graph.component.get(x.id, x.id) for x in fragments]
        self.group = [named.index(name) for name in named]
        self.exempt = {g for g in self.group if not self.agree(self.of(g), self.of(g), ())}
        for k, x in enumerate(fragments):
            for attribute in given.always:
                for value in comparable(x.properties.get(attribute, ())):
                    for other in range(k):
                        if value in stated(fragments[other], attribute):
                            self.merge(self.group[other], self.group[k])

    def of(self, group: int) -> list[int]:
        return [k for k, g in enumerate(self.group) if g == group]

    def merge(self, group: int, other: int) -> None:
        ones, others = self.of(group), self.of(other)
        if group == other or not self.agree(ones, others, self.exempt & {group, other}):
            return
        for a, b in itertools.product(ones, others):
            if self.forbidden(a, b):
                return
        if other in self.exempt:
            self.exempt.add(group)
        self.group = [group if g == other else g for g in self.group]

    def agree(self, ones: Iterable[int], others: Iterable[int], exempt: Collection[int]) -> bool:
        """Whether no two of them differ, unless a group is exempt."""
        for a, b in itertools.product(ones, others) if not exempt else ():
            for name in self.given.never:
                one, other = (stated(self.fragments[k], name) for k in (a, b))
                if one and other and one.isdisjoint(other):
                    return False
        return True

    def forbidden(self, a: int, b: int) -> bool:
        """Whether decisions, or a link, keep two apart."""
        one, other = self.fragments[a], self.fragments[b]
        if self.given.link and one.source == other.source:
            return True
        named = [self.graph.component.get(x.id) for x in (one, other)]
        return any({self.graph.component[id] for id in pair} == set(named) for pair in self.apart)

    def satisfied(self, clusters: Iterable[Cluster]) -> bool:
        """By a grouping of the fragments, by place."""
        home = {k: at for at, cluster in enumerate(clusters) for k in cluster}
        for a, b in itertools.combinations(home, 2):
            one = self.group[a] == self.group[b]
            if home[a] != home[b]:
                if one:
                    return False
            elif not one and (
                self.forbidden(a, b)
                or not self.agree([a], [b], self.exempt & {self.group[a], self.group[b]})
            ):
                return False
        return True


def check_satisfied(session: SmcSession, given: Constraints) -> None:
    """In every particle of every subproblem; what is one is in one subproblem."""
    state = session._state
    state.have_all()
    items = dict(state.here())
    fragments = list(items.values())
    place = {number: k for k, number in enumerate(items)}
    names = state.run.names().tolist()
    wanted = Wanted(given, fragments)
    homes: dict[int, set[int]] = {}
    for name in names:
        for number in session.subproblem(name).fragments:
            homes.setdefault(wanted.group[place[number]], set()).add(name)
    assert all(len(of) == 1 for of in homes.values())
    heaviest = {name: session.subproblem(name).particles[0].clusters for name in names}
    for name in names:
        for particle in session.subproblem(name).particles:
            whole = [c for n in names for c in (particle.clusters if n == name else heaviest[n])]
            assert wanted.satisfied([tuple(place[i] for i in c) for c in whole])


def check_bindings(session: SmcSession) -> None:
    """What was kept up is what would be made anew."""
    state = session._state
    bindings, fresh = state.bindings, SessionState(state.spec, state.rules, state.rng).bindings
    fresh.bind(bindings.constraints, DecisionGraph(bindings.constraints.decisions), state.here())
    parts = [
        {frozenset(n for n in b._tags if b.component_of(n) == b.component_of(i)) for i in b._tags}
        for b in (fresh, bindings)
    ]
    assert parts[0] == parts[1]
    plain = [
        {n: tags._replace(component=None) for n, tags in b._tags.items()} for b in (fresh, bindings)
    ]
    assert plain[0] == plain[1]


@examples(60)
@given(
    n=st.integers(2, 6),
    seed=st.integers(0, 10_000),
    split=st.booleans(),
    late=st.booleans(),
    given=GIVEN,
    data=st.data(),
)
def test_if_all_particles_are_kept_the_posterior_is_conditioned(
    n: int, seed: int, split: bool, late: bool, given: Constraints, data: st.DataObject
) -> None:
    fragments = stating(vectors(np.random.default_rng(seed), n), data)
    likelihood = Gaussian()
    likelihood.fit(fragments)
    decisions = drawn_decisions(data, [x.id for x in fragments], 3)
    given = replace(given, decisions=tuple(decisions))
    if not possible(given, fragments):
        return
    clusterer: OnlineClusterer = SplitSmc(particles=ALL) if split else Smc(particles=ALL)
    first = replace(given, never=(), always=()) if late else given
    session = clusterer.open(
        ModelSpec(likelihood, 0.7, constraints=first), np.random.default_rng(0)
    )
    session.add(fragments)
    assert isinstance(session, SmcSession)
    session.govern(given.never, given.always)
    check_satisfied(session, given)
    wanted = Wanted(given, fragments)
    exact = {
        z: w for z, w in exact_posterior(fragments, likelihood, 0.7).items() if wanted.satisfied(z)
    }
    posterior = session.posterior()
    assert not set(represented(posterior)) - set(exact)
    total = log_sum_exp(exact.values())
    check_weights(posterior, {z: w - total for z, w in exact.items()})


TURNS = ("add", "add", "add", "decide", "remove", "lift", "revise", "govern", "reopen")


@pytest.mark.parametrize("rules", sorted(RULES))
@examples(40)
@given(seed=st.integers(0, 1000), begin=GIVEN, indexed=st.booleans(), data=st.data())
def test_no_rule_is_ever_violated(
    rules: str, seed: int, begin: Constraints, indexed: bool, data: st.DataObject
) -> None:
    """Fragments come and go, decisions and rules are made and withdrawn, pages are read again."""
    items = stating(vectors(np.random.default_rng(seed), 12), data, "abcdef")
    likelihood: Likelihood = Gaussian()
    likelihood.fit(items)
    index = Halves() if indexed else None
    spec = ModelSpec(likelihood, 0.7, index=index, constraints=begin)
    session = SmcSession(spec, RULES[rules], np.random.default_rng(seed))
    outside, inside, known = list(items), list[Fragment](), begin
    pages: MemoryPages | None = None
    numbers: dict[int, Fragment] = {}
    for _ in range(data.draw(st.integers(3, 9), label="turns")):
        turn = data.draw(st.sampled_from(TURNS))
        if turn == "add":
            for x in outside[: data.draw(st.integers(1, 5))]:
                if possible(known, [*inside, x]):
                    (step,) = session.add([x])
                    numbers[step.fragment] = x
                    inside.append(x)
                    outside.remove(x)
                else:
                    with pytest.raises(ContradictionError):
                        session.add([x])
        elif turn == "decide":
            more = drawn_decisions(data, [x.id for x in items], 3)
            wider = replace(known, decisions=(*known.decisions, *more))
            if possible(wider, inside):
                session.constrain(more)
                known = wider
        elif turn == "remove" and inside:
            gone = data.draw(
                st.lists(st.sampled_from(inside), unique_by=lambda x: x.id, max_size=3)
            )
            session.remove([x.id for x in gone])
            inside = [x for x in inside if x not in gone]
            outside += gone
        elif turn == "lift" and known.decisions:
            one = data.draw(st.sampled_from(known.decisions))
            session.lift([one])
            left = list(known.decisions)
            left.remove(one)
            known = replace(known, decisions=tuple(left))
        elif turn == "revise":
            session.revise(1)
        elif turn == "govern":
            other = data.draw(GIVEN)
            session.govern(other.never, other.always)
            known = replace(known, never=other.never, always=other.always)
        elif turn == "reopen":
            point = session.checkpoint()
            if pages is None:
                pages = MemoryPages(point, numbers)
            else:
                pages.write(point, numbers)
            again = replace(spec, constraints=Constraints())
            session = SmcSession(again, RULES[rules], np.random.default_rng(9), pages=pages)
        assert session.constraints == known
        if turn != "reopen":
            assert list(session.fragments) == inside
            check_session(session)
            check_satisfied(session, known)
            check_bindings(session)


@examples(40)
@given(n=st.integers(2, 30), seed=st.integers(0, 1000), given=GIVEN, data=st.data())
def test_a_file_in_rounds_honours_rules(
    n: int, seed: int, given: Constraints, data: st.DataObject
) -> None:
    fragments = stating(records(np.random.default_rng(seed), n), data, "abcdefgh")
    likelihood = attributes(fragments)
    decisions = drawn_decisions(data, [x.id for x in fragments], 4)
    given = replace(given, decisions=tuple(decisions))
    if not possible(given, fragments):
        return
    spec = ModelSpec(likelihood, 2.0, index=OneKey(), constraints=given)
    run = Batch()
    posterior = run.cluster(fragments, spec, np.random.default_rng(0))
    wanted = Wanted(given, fragments)
    for s in posterior.subproblems:
        for particle in s.particles:
            others = [
                c for t in posterior.subproblems for c in t.particles[0].clusters if t is not s
            ]
            assert wanted.satisfied([*particle.clusters, *others])
    snapshot = run.begun(fragments, spec, np.random.default_rng(0))
    session = run.open(spec, np.random.default_rng(0), snapshot)
    assert isinstance(session, SmcSession)
    check_satisfied(session, given)


def test_a_key_leads_to_what_shares_a_value_on_other_pages() -> None:
    """Many that must stay apart share it, and one comes to each."""
    apart = [Fragment(f"a{i}", {"vat": (f"v{i}",), "passport": ("p",)}) for i in range(30)]
    later = [Fragment(f"b{i}", {"vat": (f"V {i}",), "passport": ("p",)}) for i in range(30)]
    given = Constraints(never=("vat",), always=("passport",))
    spec = ModelSpec(
        Rule(lambda ids: -5.0 * (len(ids) - 1)), 1.0, index=Nowhere(), constraints=given
    )
    session = SmcSession(spec, RULES["split-smc"], np.random.default_rng(0))
    numbers = {step.fragment: x for x in apart for step in session.add([x])}
    pages = MemoryPages(session.checkpoint(), numbers)
    again = SmcSession(spec, RULES["split-smc"], np.random.default_rng(0), pages=pages)
    again.add(later)
    assert sorted(again.posterior().clusters()) == [(i, i + 30) for i in range(30)]
    sentences = again.contradictions
    assert sentences[0] == 'fragments "a0" and "a1" share "passport" and stay apart: "vat" differs'
    assert sentences[-1].startswith("rules do not hold for ")


def test_decisions_win_and_it_is_said() -> None:
    fragments = [
        Fragment("a", {"vat": ("1",)}),
        Fragment("b", {"vat": ("2",)}),
        Fragment("c", {"vat": ("3",)}),
    ]
    given = Constraints((Decision(True, "a", "b"),), never=("vat",))
    components = components_of(given, fragments)
    assert components.of("a") == components.of("b")
    assert components.reasons == [
        'fragments "a" and "b" are one entity although "vat" differs: decisions say so'
    ]
    assert not components.tags(fragments[0]).sets
    assert components.tags(fragments[2]).sets


def test_a_value_that_many_share_is_no_identifier() -> None:
    many = [Fragment(f"a{i}", {"vat": (str(i),), "land": ("x",)}) for i in range(1100)]
    with pytest.raises(UsageError, match='"land" is no identifier'):
        components_of(Constraints(never=("vat",), always=("land",)), many)


def test_values_are_compared_without_case_spaces_and_placeholders() -> None:
    assert comparable(["DE 123", "de123", "\uff24\uff25 123", " ", "-", "N/A", "x y"]) == [
        "de123",
        "xy",
    ]
