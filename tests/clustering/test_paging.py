"""Paged sessions: one that is closed and opened again against one that never was, bit for bit."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from kbforge.clustering.rules import Rules
from kbforge.clustering.session import OnlineSession
from kbforge.contracts import (
    Checkpoint,
    Constraints,
    Decision,
    Fragment,
    Info,
    Problem,
    Snapshot,
)
from kbforge.errors import ContradictionError, LikelihoodError, UsageError
from kbforge.testing import MemoryPages
from kbforge_plugins.clusterers.split_smc import SplitSmc
from kbforge_plugins.indexes.selective import Selective
from kbforge_plugins.likelihoods.gaussian import Gaussian
from tests.clustering.contents import contents
from tests.clustering.test_constraints import check_bindings, sided
from tests.clustering.test_failures import LIKELIHOODS, RULES, Trap, problem_of
from tests.clustering.test_remove import check_candidates

Open = Callable[[], Problem]
STAGES = ("conjugate", "indexed", "selective", "black box", "black box indexed", "surrogate")
BLACK = ("black box", "black box indexed", "surrogate")


@dataclass
class Twins:
    """A session that is never closed, and one that is, whenever `reopen` says so.

    Attributes:
        problem: makes the problem anew, as another process would.
        rules: of both.
        exact: whether evaluations are the same, as they are but for a black box.

    """

    problem: Open
    rules: Rules
    exact: bool
    known: dict[int, Fragment] = field(default_factory=dict)
    pages: MemoryPages | None = None

    def __post_init__(self) -> None:
        self.whole = OnlineSession(self.problem(), self.rules, np.random.default_rng(5))
        self.paged = OnlineSession(self.problem(), self.rules, np.random.default_rng(5))

    def same(self, act: Callable[[OnlineSession], Any]) -> Any:
        """Do the same to both; they say the same."""
        said = []
        for session in (self.whole, self.paged):
            try:
                said.append(act(session))
            except (LikelihoodError, ContradictionError, UsageError, KeyError) as error:
                said.append((type(error), str(error)))
        assert self.bare(said[0]) == self.bare(said[1])
        return said[0]

    def add(self, items: Sequence[Fragment]) -> None:
        for x in items:
            for info in self.same(lambda session, x=x: session.add([x])):
                if isinstance(info, Info):
                    self.known[info.fragment] = x

    def checkpoint(self) -> Checkpoint:
        """Both make one, and they are the same."""
        one, other = self.whole.checkpoint(), self.paged.checkpoint()
        assert contents(self.bare(one)) == contents(self.bare(other))
        if self.pages is None:
            self.pages = MemoryPages(other, self.known)
        else:
            self.pages.write(other, self.known)
        return other

    def reopen(self) -> None:
        """The one is opened on its pages."""
        self.checkpoint()
        rng = np.random.default_rng(99)
        problem = replace(self.problem(), constraints=Constraints())
        self.paged = OnlineSession(problem, self.rules, rng, pages=self.pages)
        assert self.whole.n_fragments == self.paged.n_fragments
        assert self.whole.constraints == self.paged.constraints

    def check(self) -> None:
        """All that both hold is the same."""
        self.same(lambda session: session.posterior())
        self.same(lambda session: session.fragments)
        one, other = self.whole.snapshot(), self.paged.snapshot()
        assert contents(self.bare(one)) == contents(self.bare(other))

    def bare(self, said: Any) -> Any:
        """Without what may be counted again."""
        if self.exact:
            return said
        if isinstance(said, list):
            return [self.bare(each) for each in said]
        if isinstance(said, Snapshot):
            said = replace(said, scores={})
        if isinstance(said, Checkpoint | Snapshot):
            return replace(said, totals=replace(said.totals, evaluations=0))
        return replace(said, model_evaluations=0) if hasattr(said, "model_evaluations") else said


def opening(name: str, stage: str, items: list[Fragment], link: str | None = None) -> Open:
    """Makes a problem of a likelihood that is fitted to these."""
    _, make = LIKELIHOODS[name]

    def problem() -> Problem:
        likelihood = make(items)
        if stage == "selective":
            index = Selective()
            index.fit(items)
            made = Problem(likelihood, 0.8, index=index)
        elif stage == "black box indexed":
            index = problem_of("indexed", likelihood, Trap()).index  # type: ignore[assignment]
            made = replace(problem_of("black box", likelihood, Trap()), index=index)
        elif stage == "surrogate":
            index = problem_of("indexed", likelihood, Trap()).index  # type: ignore[assignment]
            made = replace(problem_of("surrogate", likelihood, Trap()), index=index)
        else:
            made = problem_of(stage, likelihood, Trap())
        return replace(made, constraints=Constraints((), link))

    return problem


@pytest.mark.parametrize("stage", STAGES)
@pytest.mark.parametrize("name", ["attributes", "bigram", "gaussian"])
@settings(max_examples=15, deadline=None)
@given(
    rules=st.sampled_from(sorted(RULES)),
    seed=st.integers(0, 1000),
    link=st.sampled_from([None, None, "source"]),
    data=st.data(),
)
def test_who_is_opened_on_its_pages_goes_on_as_if_it_had_not_been_closed(
    name: str, stage: str, rules: str, seed: int, link: str | None, data: st.DataObject
) -> None:
    draw, _ = LIKELIHOODS[name]
    plain = draw(np.random.default_rng(seed), 16)
    sides = np.random.default_rng(seed).choice(list("abcdef"), size=16).tolist()
    items = sided(plain, sides)
    ids = [item.id for item in items]
    twins = Twins(opening(name, stage, plain, link), RULES[rules], stage not in BLACK)
    outside = list(items)
    some = st.lists(st.sampled_from(ids), unique=True, max_size=3)
    for _ in range(data.draw(st.integers(3, 12), label="turns")):
        turn = data.draw(
            st.sampled_from(
                ["add", "add", "remove", "decide", "lift", "revise", "look", "write", "reopen"]
            )
        )
        if turn == "add":
            count = data.draw(st.integers(1, 5))
            twins.add(outside[:count])
            outside = outside[count:]
        elif turn == "remove":
            gone = data.draw(some)
            twins.same(lambda session, gone=gone: session.remove(gone))
            outside += [x for x in items if x.id in gone and x not in outside]
            if outside:
                there = twins.whole.fragments
                outside = [x for x in outside if x not in there]
        elif turn == "decide":
            decision = Decision(data.draw(st.booleans()), *data.draw(st.permutations(ids))[:2])
            twins.same(lambda session, one=decision: session.constrain([one]))
        elif turn == "lift" and twins.whole.constraints.decisions:
            decision = data.draw(st.sampled_from(twins.whole.constraints.decisions))
            twins.same(lambda session, one=decision: session.lift([one]))
        elif turn == "revise":
            around = data.draw(st.none() | some)
            twins.same(lambda session, around=around: session.revise(1, around))
        elif turn == "look":
            number = data.draw(st.integers(0, 20))
            twins.same(lambda session, name=number: session.subproblem(name))
            id = data.draw(st.sampled_from(ids))
            twins.same(lambda session, id=id: session.number(id))
        elif turn == "write":
            twins.checkpoint()
        elif turn == "reopen":
            twins.reopen()
        check_held(twins.paged)
        assert twins.whole.n_fragments == twins.paged.n_fragments
    twins.check()


def check_held(session: OnlineSession) -> None:
    """What is here is whole: candidates and bindings know its clusters, and no others."""
    core = session._core
    state = core.state
    live = {slot for block in state.blocks.values() for slot in block.slots.tolist()}
    here = {number for slot in live for number in state.members(slot)}
    assert here == set(core.model.fragments)
    assert all(core.homes.of(number) in state.blocks for number in here)
    if core.model.candidates is not None:
        check_candidates(core.model.candidates, {slot: state.members(slot) for slot in live})
    check_bindings(session)
