"""Revision, its splits and merges, and bridges: nothing that is held gets worse."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from kbforge import registry
from kbforge.clustering.constraints import DecisionGraph
from kbforge.clustering.revise import MOST_TAKEN, move, revisit, split_or_merge
from kbforge.clustering.session import SmcSession
from kbforge.clustering.tables import KernelTable
from kbforge.contracts import (
    Cluster,
    Constraints,
    Decision,
    Fragment,
    Interrupted,
    ModelSpec,
    Progress,
    Session,
)
from kbforge.errors import LikelihoodError, UsageError
from kbforge.indexes.ngrams import Ngrams
from kbforge.testing import UniformLikelihood
from kbforge_plugins.clusterers.sequential import SplitSmc
from kbforge_plugins.likelihoods.gaussian import Gaussian
from tests.clustering.contents import contents
from tests.clustering.invariants import check_session, mass
from tests.clustering.test_exactness import BELL_7, exact_posterior, represented, vectors
from tests.clustering.test_failures import LIKELIHOODS, RULES, Broken, Trap, problem_of, session_of
from tests.clustering.test_remove import STAGES
from tests.clustering.toys import Rule, fragments_of, opened
from tests.installed import BIGRAM
from tests.profile import examples


def best(session: SmcSession) -> float:
    return session.posterior().log_posterior


@pytest.mark.slow
@pytest.mark.parametrize("stage", STAGES)
@pytest.mark.parametrize("name", LIKELIHOODS)
@examples(8)
@given(rules=st.sampled_from(sorted(RULES)), seed=st.integers(0, 1000), passes=st.integers(1, 2))
def test_what_is_held_never_gets_worse(
    name: str, stage: str, rules: str, seed: int, passes: int
) -> None:
    """Step by step: the sum of densities, and the density of the heaviest."""
    draw, make = LIKELIHOODS[name]
    items = draw(np.random.default_rng(seed), 16)
    session = session_of(stage, make(items), Trap(), rules, seed)
    session.add(items)
    if not RULES[rules].keeps_heaviest or RULES[rules].sampled_merges:
        # weights are not densities there, so that the heaviest may not be the densest
        session.revise(1)
    seen = [(mass(session), best(session))]
    revised = session.revise(passes, after_step=lambda: seen.append((mass(session), best(session))))
    masses, heaviest = zip(*seen, strict=True)
    assert (np.diff(masses) >= -1e-8).all()
    if RULES[rules].keeps_heaviest and not RULES[rules].sampled_merges:
        assert (np.diff(heaviest) >= -1e-8).all()
    assert revised.steps == len(seen) - 1
    assert masses[-1] - masses[0] == pytest.approx(revised.gain, abs=1e-7)
    check_session(session)
    other = problem_of(stage, make(items), Trap())
    restored = SmcSession(other, RULES[rules], np.random.default_rng(0), session.snapshot())
    assert contents(restored.snapshot()) == contents(session.snapshot())
    for each in (session, restored):
        each.revise(1)
    assert restored.posterior() == session.posterior()


@pytest.mark.slow
def test_one_particle_finds_the_best_grouping() -> None:
    """Of the greedy runs that end elsewhere, at least half are mended."""
    mended = stuck = 0
    for seed in range(40):
        items = vectors(np.random.default_rng(seed), 7)
        exact = exact_posterior(items, Gaussian(), 1.0)
        top = max(exact.values())
        session = opened(ModelSpec(Gaussian(), 1.0), 1, items)
        at_first = exact[frozenset(session.posterior().clusters())] > top - 1e-6
        session.revise(5)
        at_last = exact[frozenset(session.posterior().clusters())] > top - 1e-6
        assert at_last >= at_first
        stuck += not at_first
        mended += at_last and not at_first
    assert stuck >= 8
    assert mended >= 0.5 * stuck


def test_if_all_particles_are_kept_nothing_changes() -> None:
    items = vectors(np.random.default_rng(3), 6)
    for splits in (True, False):
        session = opened(ModelSpec(Gaussian(), 1.0), BELL_7, items, splits)
        before = represented(session.posterior())
        session.touched()
        revised = session.revise(2)
        assert (revised.changed, revised.gain) == (0, 0.0)
        assert session.touched().changed == ()
        assert represented(session.posterior()) == before


def test_only_some_fragments_are_gone_over() -> None:
    """Those far away are left alone."""
    rng = np.random.default_rng(0)
    points = [(float(c) * 1000 + rng.normal(), rng.normal()) for c in range(8) for _ in range(6)]
    items = [Fragment(f"f{i}", {}, point) for i, point in enumerate(points)]
    session = opened(ModelSpec(Gaussian(), 1.0), 3, items)
    count = session.revise(1, ids=["f0"])
    assert 1 <= count.steps <= 1 + MOST_TAKEN
    with pytest.raises(UsageError, match='has the id "nobody"'):
        session.revise(1, ids=["f0", "nobody"])
    assert session.revise(0).steps == 0
    empty = opened(ModelSpec(Gaussian(), 1.0), 100)
    assert empty.revise(3).steps == 0


def test_a_step_has_a_bound() -> None:
    """Ten thousand equal fragments of one entity are not clustered again."""
    items = [Fragment(f"f{i}", {"n": ("x",)}) for i in range(MOST_TAKEN + 1)]
    session = opened(ModelSpec(UniformLikelihood(), 1e-9), 1, items)
    assert len(session.posterior().clusters()) == 1
    state = session._state
    assert revisit(state, 3, 3) == ([], 0.0)


def test_decisions_are_honoured_on_the_way() -> None:
    items = vectors(np.random.default_rng(5), 30)
    rng = np.random.default_rng(1)
    decisions = [
        Decision(False, items[a].id, items[b].id)
        for a, b in rng.integers(30, size=(40, 2)).tolist()
        if a != b
    ]
    spec = ModelSpec(Gaussian(), 1.0, constraints=Constraints(tuple(decisions)))
    for particles in (1, 20):
        session = opened(spec, particles, items)

        def check(session: SmcSession = session) -> None:  # type: ignore[assignment]
            labels = session.posterior().labels()
            at = {item.id: label for item, label in zip(items, labels, strict=True)}
            assert all(at[each.first] != at[each.second] for each in decisions)

        session.revise(2, after_step=check)


def test_a_move_of_one_fragment() -> None:
    """To the best other cluster, out into its own, or nowhere."""
    points = [(0.0, 0.0), (0.1, 0.1), (9.0, 9.0), (9.1, 9.1), (9.2, 9.0), (0.0, 0.1)]
    items = fragments_of(points)
    spec = ModelSpec(Gaussian(), 0.1)
    session = SmcSession(spec, SplitSmc(particles=1)._rules, np.random.default_rng(0))
    session.constrain([Decision(True, "f0", "f2"), Decision(False, "f0", "f1")])
    session.add(items)
    state = session._state
    assert session.posterior().labels()[0] == session.posterior().labels()[2]
    assert move(state, 0) == 0.0
    state.bind(Constraints(), DecisionGraph([]))
    before = session.posterior().log_posterior
    gain = move(state, 0)
    assert gain > 0
    assert session.posterior().log_posterior == pytest.approx(before + gain, abs=1e-8)
    labels = session.posterior().labels()
    assert labels[0] == labels[1] != labels[2]


def test_a_failure_ends_it_and_leaves_the_session_whole() -> None:
    draw, make = LIKELIHOODS["attributes"]
    items = draw(np.random.default_rng(7), 20)
    trap = Trap()
    session = session_of("black box", make(items), trap, "split-smc")
    session.add(items)
    before = mass(session)
    trap.method, trap.wait = "log_marginal", 2
    with pytest.raises((Broken, LikelihoodError)):
        session.revise(3)
    assert trap.sprung
    check_session(session)
    assert mass(session) >= before - 1e-9
    session.revise(1)
    check_session(session)


def test_a_batch_is_revised_at_its_end() -> None:
    items = vectors(np.random.default_rng(11), 60)
    spec = ModelSpec(Gaussian(), 5.0)
    plain = SplitSmc(particles=2).cluster(items, spec, np.random.default_rng(0))
    steps: list[Progress] = []
    clusterer = SplitSmc(particles=2, revise=2)
    found = clusterer.cluster(items, spec, np.random.default_rng(0), steps.append)
    assert found.log_posterior > plain.log_posterior + 0.1
    assert found.complete
    assert found == clusterer.cluster(items, spec, np.random.default_rng(0))
    assert [step.fragments for step in steps[:60]] == list(range(1, 61))
    assert all(step.fragments == step.total == 60 for step in steps[60:])
    assert len(steps) > 60

    def stop(progress: Progress) -> None:
        steps.append(progress)
        if len(steps) == 70:
            raise Interrupted

    steps.clear()
    cut = clusterer.cluster(items, spec, np.random.default_rng(0), stop)
    assert not cut.complete
    assert cut.n_fragments == 60
    assert cut.log_posterior >= plain.log_posterior
    assert clusterer.cluster([], spec, np.random.default_rng(0)).n_fragments == 0


def test_options_that_do_not_go_together() -> None:
    with pytest.raises(UsageError, match="revise needs the greedy resampler"):
        SplitSmc(resampler="optimal", revise=1)
    with pytest.raises(UsageError, match="expected at least 0"):
        SplitSmc(revise=-1)


NAMES = ["oregon coast", "oregon coasts", "the oregon coast", "lake baikal", "lake baikall"]


def held(spec: ModelSpec, items: list[Fragment], *clusters: Cluster) -> tuple[Session, Any]:
    """A session with one particle that groups like this, whatever the model says."""
    session = SmcSession(spec, SplitSmc(particles=1)._rules, np.random.default_rng(0))
    session.add(items)
    state = session._state
    state.replace(state.plan(state.run.names().tolist(), [[tuple(clusters)]]))
    assert session.posterior().clusters() == list(clusters)
    return session, state


def points(*centres: float) -> list[Fragment]:
    rng = np.random.default_rng(1)
    rows = [(centre + rng.normal(), rng.normal()) for centre in centres for _ in range(10)]
    return [Fragment(f"f{i}", {}, row) for i, row in enumerate(rows)]


def test_two_groups_of_points_are_parted_by_a_direction() -> None:
    session, state = held(ModelSpec(Gaussian(), 1.0), points(-50.0, 50.0), tuple(range(20)))
    before = session.posterior().log_posterior
    gained = [split_or_merge(state, 0) for _ in range(5)]
    assert sum(gained) > 10
    assert session.posterior().log_posterior == pytest.approx(before + sum(gained))
    assert sorted(map(len, session.posterior().clusters())) == [10, 10]
    check_session(session)


@pytest.mark.skipif(not BIGRAM, reason="the package kbforge_lm is not installed")
@pytest.mark.parametrize("index", [None, Ngrams()])
def test_two_names_are_parted_by_what_they_share(index: Ngrams | None) -> None:
    """By n-grams that the likelihood reads, or by the keys of the index."""
    items = [Fragment(f"f{i}", {"name": (name,)}) for i, name in enumerate(NAMES)]
    likelihood = registry.create("likelihoods", "bigram")
    likelihood.fit(items)
    if index is not None:
        index.fit(items)
    session, state = held(ModelSpec(likelihood, 20.0, index=index), items, tuple(range(5)))
    for _ in range(6):
        for fragment in range(len(items)):
            split_or_merge(state, fragment)
    clusters = session.posterior().clusters()
    assert all(not {*cluster} & {0, 1, 2} or not {*cluster} & {3, 4} for cluster in clusters)
    check_session(session)


def test_halves_of_an_entity_become_one() -> None:
    """Two pairs are worth more as one, and no fragment gains anything by going over alone."""

    def rule(ids: set[str]) -> float:
        return 8.0 if len(ids) == 4 else 1.0 if ids in ({"f0", "f1"}, {"f2", "f3"}) else 0.0

    items = [Fragment(f"f{i}", {}, (float(i),)) for i in range(4)]
    session, state = held(ModelSpec(Rule(rule), 0.5), items, (0, 1), (2, 3))
    assert split_or_merge(state, 0) > 0
    assert session.posterior().clusters() == [(0, 1, 2, 3)]


def test_what_was_decided_is_not_undone() -> None:
    items = points(-50.0, 50.0)
    together = Constraints((Decision(True, "f0", "f19"),))
    spec = ModelSpec(Gaussian(), 1.0, constraints=together)
    session = SmcSession(spec, SplitSmc(particles=1)._rules, np.random.default_rng(0))
    session.add(items)
    state = session._state
    for fragment in range(20):
        split_or_merge(state, fragment)
    label = session.posterior().labels()
    assert label[0] == label[19]
    check_session(session)


ITEMS = fragments_of([(float(i),) for i in range(3)])


def rule(ids: set[str]) -> float:
    """f0 and f1 are strangers; f2 is of both, and a little more of f0."""
    return {2: 2.0 + ("f0" in ids) if "f2" in ids else -5.0, 3: 9.0}.get(len(ids), 0.0)


@pytest.mark.parametrize("stage", STAGES)
@pytest.mark.parametrize("name", LIKELIHOODS)
@examples(8)
@given(rules=st.sampled_from(sorted(RULES)), seed=st.integers(0, 1000))
def test_bridges_make_nothing_worse(name: str, stage: str, rules: str, seed: int) -> None:
    draw, make = LIKELIHOODS[name]
    items = draw(np.random.default_rng(seed), 16)
    session = session_of(stage, make(items), Trap(), rules, seed)
    for item in items:
        session.add([item])
        before = mass(session)
        gain = session.bridge(item.id)
        assert gain >= 0
        assert mass(session) - before == pytest.approx(gain, abs=1e-7)
    check_session(session)


def bearers(seed: int) -> list[Fragment]:
    """Fragments of nine people, of whom some have an initial or lack what tells them apart."""
    rng, out = np.random.default_rng(seed), []
    for k in range(60):
        who = int(rng.integers(9))
        first, last = ("Ada", "Bo", "Cleo")[who // 3], ("Byron", "Lane", "Moss")[who % 3]
        stated = {"name": (f"{first[0]}. {last}" if rng.random() < 0.4 else f"{first} {last}",)}
        for name in ("born", "town"):
            if rng.random() < 0.5:
                stated[name] = (f"{name} {who}",)
        out.append(Fragment(f"f{k}", stated))
    return out


@pytest.mark.parametrize("link", [None, "born"])
def test_bridges_are_equal_with_and_without_ratios_of_merges(
    link: str | None, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The kernel's ratio only says beforehand that a merge is in vain."""
    outcomes = []
    for seed in (*range(6), *range(6)):
        if len(outcomes) == 6:
            monkeypatch.setattr(KernelTable, "merge_ratios", lambda self, slot, others: None)
        items = bearers(seed)
        likelihood = registry.create("likelihoods", "attributes")
        likelihood.fit(items)
        constraints = Constraints(link=link)
        spec = ModelSpec(likelihood, 5.0, index=likelihood.index, constraints=constraints)
        session = SmcSession(spec, RULES["split-smc"], np.random.default_rng(0))
        gains = [session.bridge(item.id) for item in items if session.add([item])]
        outcomes.append((gains, contents(session.snapshot())))
    assert any(gain for gains, _ in outcomes for gain in gains)
    assert outcomes[:6] == outcomes[6:]


@pytest.mark.parametrize("particles", [1, 2, BELL_7])
def test_two_become_one(particles: int) -> None:
    session = opened(ModelSpec(Rule(rule), 0.5), particles, ITEMS)
    before = session.posterior().clusters()
    gain = session.bridge("f2")
    assert session.posterior().clusters() == [(0, 1, 2)]
    assert (gain > 0) == (before != [(0, 1, 2)])
    assert session.bridge("f2") == 0


def test_what_is_decided_stays_apart() -> None:
    apart = Constraints((Decision(False, "f0", "f1"),))
    session = opened(ModelSpec(Rule(rule), 0.5, constraints=apart), 1, ITEMS)
    assert session.bridge("f2") == 0
    assert session.posterior().clusters() == [(0, 2), (1,)]


def test_if_all_particles_are_kept_no_bridge_changes_anything() -> None:
    items = vectors(np.random.default_rng(3), 6)
    session = opened(ModelSpec(Gaussian(), 1.0), BELL_7, items)
    before = represented(session.posterior())
    assert [session.bridge(item.id) for item in items] == [0.0] * 6
    assert represented(session.posterior()) == before
    with pytest.raises(UsageError, match='has the id "nobody"'):
        session.bridge("nobody")
