"""The laws of sessions: a clustering goes on from where it stands, however it got there."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import fields, replace
from typing import ClassVar

import numpy as np
import pytest

from kbforge.contracts import (
    CandidateIndex,
    Checkpoint,
    ConjugateLikelihood,
    Decision,
    Fragment,
    ModelSpec,
    Posterior,
    Session,
    StepResult,
    Subproblem,
    SubproblemData,
    Totals,
)
from kbforge.errors import ContradictionError, LikelihoodError, UsageError
from kbforge.testing import Categorical, ClustererContract
from kbforge.testing.clusterer import check_partition, forbidding
from tests.clustering.toys import MemoryPages
from tests.contracts.conftest import Plugins


class TestOnlineClusterers(ClustererContract):
    """And a session: it goes on from where it stands, to the same bits however it got there."""

    plugins: ClassVar[Plugins] = [
        "greedy",
        ("smc", {"particles": 20}),
        ("batch", {"particles": 20}),
        ("split-smc", {"particles": 20}),
        ("split-smc", {"particles": 10, "weights": "marginal", "merge": "multinomial"}),
        ("split-smc", {"particles": 10, "resampler": "stratified"}),
    ]

    def open(self, spec: ModelSpec) -> Session:
        """A new session, with the seed of `posterior`."""
        session: Session = self.make().open(spec, np.random.default_rng(10))
        return session

    def test_portions_do_not_matter(self) -> None:
        items = self.fragments()
        for spec in self.specs().values():
            whole = self.posterior(spec)
            at_once, one_by_one = self.open(spec), self.open(spec)
            steps = at_once.add(items)
            assert steps == [step for item in items for step in one_by_one.add([item])]
            assert [step.fragment for step in steps] == list(range(len(items)))
            assert at_once.posterior() == one_by_one.posterior() == whole

    def test_what_was_foreseen_need_not_come(self) -> None:
        items = self.fragments()
        for spec in self.specs().values():
            alone, hinted, misled = self.open(spec), self.open(spec), self.open(spec)
            steps = alone.add(items)
            hinted.foresee(items)
            assert [step for item in items for step in hinted.add([item])] == steps
            misled.foresee(items[::-1])
            assert misled.add(items) == steps
            assert hinted.posterior() == misled.posterior() == alone.posterior()

    def test_a_snapshot_goes_on_as_if_nothing_had_been(self) -> None:
        items = self.fragments()
        for spec in self.specs().values():
            for cut in (0, 1, len(items) // 2, len(items)):
                first = self.open(spec)
                first.add(items[:cut])
                snapshot = first.snapshot()
                steps = first.add(items[cut:])
                rng = np.random.default_rng(99)
                second = self.make().open(spec, rng, snapshot)
                assert second.n_fragments == cut
                assert second.add(items[cut:]) == steps
                assert second.posterior() == first.posterior() == self.posterior(spec)

    def test_a_refused_fragment_never_came(self) -> None:
        items = self.fragments()
        odd = replace(items[0], id="the-odd-one", properties={"colour": ("no such",)})
        spec = ModelSpec(forbidding("no such"), alpha=1.0)
        for at in (0, 1, len(items) // 2, len(items)):
            session = self.open(spec)
            with pytest.raises(LikelihoodError, match="the-odd-one"):
                session.add([*items[:at], odd, *items[at:]])
            assert session.n_fragments == at
            session.add(items[at:])
            assert session.posterior() == self.posterior(spec, items)

    def test_touched_tells_what_changed(self) -> None:
        session, known = self.open(self.specs()["conjugate"]), dict[int, object]()
        for item in self.fragments():
            session.add([item])
            touched = session.touched()
            now = {block.fragments[0]: block for block in session.posterior().subproblems}
            for name in touched.gone:
                del known[name]
            for name in touched.changed:
                known[name] = now[name]
            assert known == now
        assert session.touched() == type(touched)((), ())

    def test_what_is_left_after_a_removal_is_whole(self) -> None:
        items = self.fragments()
        for spec in self.specs().values():
            session = self.open(spec)
            session.add(items)
            for removed in (items[:1], items[5:9], items[-1:], items[1:4]):
                session.touched()
                session.remove([item.id for item in removed])
                left = session.fragments
                assert list(left) == [item for item in items if item in left]
                assert not any(item in left for item in removed)
                assert session.n_fragments == len(left)
                check_partition(session.posterior(), len(left))
                for name in session.touched().changed:
                    _check_target(session.subproblem(name), spec, items)
            session.remove([item.id for item in session.fragments])
            assert session.posterior().subproblems == ()
            session.add(items)
            check_partition(session.posterior(), len(items))

    def test_a_removed_fragment_may_come_again(self) -> None:
        items = self.fragments()
        for spec in self.specs().values():
            session = self.open(spec)
            session.add(items)
            session.remove([items[3].id])
            (step,) = session.add([items[3]])
            assert step.fragment == session.number(items[3].id) == len(items)
            assert session.fragments == (*items[:3], *items[4:], items[3])
            check_partition(session.posterior(), len(items))

    def test_a_snapshot_goes_on_after_a_removal(self) -> None:
        items = self.fragments()
        for spec in self.specs().values():
            first = self.open(spec)
            first.add(items[:-4])
            first.remove([items[0].id, items[6].id])
            snapshot = first.snapshot()
            steps = first.add(items[-4:])
            second = self.make().open(spec, np.random.default_rng(99), snapshot)
            assert second.fragments == tuple(snapshot.fragments)
            assert second.add(items[-4:]) == steps
            second.remove([items[2].id])
            first.remove([items[2].id])
            assert second.posterior() == first.posterior()

    def test_a_session_that_is_opened_on_its_pages_goes_on_as_if_it_had_not_been_closed(
        self,
    ) -> None:
        items, indexed = self.fragments(), ModelSpec(Categorical(), alpha=0.5, index=_ByColour())
        for spec in (*self.specs().values(), indexed):
            whole, paged = self.open(spec), self.open(spec)
            known: dict[int, Fragment] = {}
            pages: MemoryPages | None = None
            for turn, begin in enumerate(range(0, len(items), 4)):
                for session in (whole, paged):
                    _live(session, turn, items)
                portion = items[begin : begin + 4]
                steps = whole.add(portion)
                assert _plain(paged.add(portion), spec) == _plain(steps, spec)
                known.update((step.fragment, x) for step, x in zip(steps, portion, strict=True))
                mark = whole.checkpoint()
                assert _plain(paged.checkpoint(), spec) == _plain(mark, spec)
                if pages is None:
                    pages = MemoryPages(mark, known)
                else:
                    pages.write(mark, known)
                if turn % 3 != 1:  # else it goes on
                    pages.fetched.clear()
                    paged = self.make().open(spec, np.random.default_rng(99), pages=pages)
                    assert pages.fetched == []
                    assert paged.n_fragments == whole.n_fragments
            for name in whole.touched().changed:
                assert paged.subproblem(name) == whole.subproblem(name)
            assert _plain(paged.posterior(), spec) == _plain(whole.posterior(), spec)
            assert paged.fragments == whole.fragments

    def test_touched_tells_what_a_removal_changed(self) -> None:
        session, items = self.open(self.specs()["conjugate"]), self.fragments()
        session.add(items)
        known = {name: session.subproblem(name) for name in session.touched().changed}
        for item in items[::3]:
            session.remove([item.id])
            touched = session.touched()
            for name in touched.gone:
                del known[name]
            for name in touched.changed:
                known[name] = session.subproblem(name)
            left = [session.number(other.id) for other in session.fragments]
            assert sorted(i for block in known.values() for i in block.fragments) == left
        blocks = session.posterior().subproblems
        assert [len(known[name].fragments) for name in sorted(known)] == [
            len(block.fragments) for block in blocks
        ]

    def test_fragments_come_each_when_it_is_asked_for(self) -> None:
        items = self.fragments()
        for spec in self.specs().values():
            sessions = self.open(spec), self.open(spec)
            steps = sessions[0].adding(items)
            for count, item in enumerate(items, 1):
                assert [next(steps)] == sessions[1].add([item])
                assert sessions[0].n_fragments == count
                assert sessions[0].touched() == sessions[1].touched()
            assert next(steps, None) is None

    def test_decisions_are_honoured_whenever_they_come(self) -> None:
        items = self.fragments()
        ids = [item.id for item in items]
        decisions = [Decision(True, ids[i], ids[i + 7]) for i in (0, 7, 2)]
        decisions += [Decision(False, ids[i], ids[i + 3]) for i in (0, 4, 11)]
        for spec in self.specs().values():
            for at in (0, len(items) // 2, len(items)):
                session = self.open(spec)
                session.add(items[:at])
                session.constrain(decisions)
                session.add(items[at:])
                assert session.constraints.decisions == tuple(decisions)
                found = session.posterior()
                check_partition(found, len(items))
                _check_decisions(found, ids, decisions)
                session.revise(1)
                _check_decisions(session.posterior(), ids, decisions)
                with pytest.raises(ContradictionError, match=f'"{ids[0]}" "{ids[14]}"'):
                    session.constrain([Decision(False, ids[0], ids[14])])
                session.lift(decisions)
                assert not session.constraints
                check_partition(session.posterior(), len(items))

    def test_a_revision_never_makes_the_point_estimate_worse(self) -> None:
        items = self.fragments()
        for spec in self.specs().values():
            session = self.open(spec)
            session.add(items)
            session.revise(1)  # a stochastic resampler may not have had the heaviest first
            before = session.posterior().log_posterior
            revised = session.revise(1)
            check_partition(session.posterior(), len(items))
            assert revised.gain >= 0
            assert session.posterior().log_posterior >= before - 1e-8

    def test_what_is_not_there_cannot_be_removed(self) -> None:
        session, items = self.open(self.specs()["conjugate"]), self.fragments()
        session.add(items)
        before = session.posterior()
        with pytest.raises(UsageError, match='no fragment of the session has the id "nobody"'):
            session.remove([items[0].id, "nobody"])
        assert session.posterior() == before


class _ByColour(CandidateIndex):
    """Fragments with the same first letter of a colour share a key."""

    def keys(self, fragment: Fragment) -> Sequence[int]:
        return [ord(colour[0]) for colour in fragment.properties["colour"]]


def _live(session: Session, turn: int, items: Sequence[Fragment]) -> None:
    """What may happen to a session between its fragments, by turn."""
    if turn == 2:
        session.remove([items[0].id, items[5].id])
    elif turn == 3:
        session.constrain([Decision(True, items[1].id, items[13].id)])
    elif turn == 4:
        session.revise(1, [items[2].id])
    elif turn == 5:
        session.lift([Decision(True, items[1].id, items[13].id)])


def _plain(thing: object, spec: ModelSpec) -> object:
    """What can be compared, without how often a black box was asked."""
    if isinstance(thing, np.ndarray):
        return thing.dtype.str, thing.tobytes()
    if isinstance(thing, Mapping):
        return {key: _plain(value, spec) for key, value in thing.items()}
    if isinstance(thing, list | tuple):
        return [_plain(each, spec) for each in thing]
    if not isinstance(thing, Checkpoint | StepResult | SubproblemData | Posterior | Totals):
        return thing
    counted = isinstance(spec.likelihood, ConjugateLikelihood)
    names = [each.name for each in fields(thing)]
    left = [name for name in names if counted or name not in ("evaluations", "model_evaluations")]
    return {name: _plain(getattr(thing, name), spec) for name in left}


def _check_decisions(found: Posterior, ids: Sequence[str], decisions: Sequence[Decision]) -> None:
    home = {i: n for n, block in enumerate(found.subproblems) for i in block.fragments}
    place = {id: i for i, id in enumerate(ids)}
    for each in decisions:
        first, second = place[each.first], place[each.second]
        assert home[first] == home[second] or not each.same
        for particle in found.subproblems[home[first]].particles:
            (cluster,) = [c for c in particle.clusters if first in c]
            assert (second in cluster) == each.same


def _check_target(subproblem: Subproblem, spec: ModelSpec, items: Sequence[Fragment]) -> None:
    """Log weights differ as the unnormalised log posteriors do."""
    densities = []
    for particle in subproblem.particles:
        sets = [[items[i] for i in cluster] for cluster in particle.clusters]
        prior = sum(math.log(spec.alpha) + math.lgamma(len(c)) for c in sets)
        densities.append(prior + float(spec.likelihood.log_marginal(sets).sum()))
    total = np.logaddexp.reduce(densities)
    for particle, density in zip(subproblem.particles, densities, strict=True):
        assert particle.log_weight == pytest.approx(density - total, abs=1e-6)
