"""Compiled sessions that make checkpoints, are removed from, and go on from what was kept: beside
one of the reference that is never closed, bit for bit.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from kbforge.clustering.propose import Rules
from kbforge.clustering.session import SmcSession
from kbforge.contracts import Fragment, Problem, Session
from kbforge.errors import LikelihoodError
from kbforge.kernel.binding import kernel_library, kernel_status
from kbforge.testing import MemoryPages
from kbforge_plugins.likelihoods.gaussian import Gaussian
from kbforge_plugins.resamplers import Greedy, Multinomial, Optimal, Stratified
from tests.clustering.contents import contents
from tests.clustering.test_candidates import Keys
from tests.clustering.test_constraints import sided
from tests.clustering.test_failures import LIKELIHOODS
from tests.clustering.test_paging import BLACK, STAGES, Twins, opening, play
from tests.clustering.toys import Chain, normal
from tests.profile import examples

KERNEL = kernel_library()
pytestmark = pytest.mark.skipif(KERNEL is None, reason=kernel_status())

RULES = {
    "split": Rules(6, Greedy(), splits=True),
    "floor": Rules(6, Greedy(), splits=True, floor=0.01),
    "greedy": Rules(1, Greedy(), splits=True),
    "plain": Rules(4, Greedy(), splits=False),
    "multinomial": Rules(6, Multinomial(), splits=True, weights="marginal"),
    "stratified": Rules(4, Stratified(), splits=False),
    "optimal": Rules(6, Optimal(), splits=True, floor=1e-4),
    "sampled merges": Rules(6, Greedy(), splits=True, weights="marginal", sampled_merges=True),
    "marginal": Rules(6, Greedy(), splits=True, weights="marginal"),
}


@dataclass
class CompiledTwins(Twins):
    """The session that is closed, if `closes`, is a compiled one."""

    closes: bool = True

    def reopen(self) -> None:
        if self.closes:
            Twins.reopen(self)

    def opened(
        self, problem: Problem, rng: np.random.Generator, pages: MemoryPages | None = None
    ) -> Session:
        assert KERNEL is not None
        return SmcSession(problem, self.rules, rng, pages=pages, kernel=KERNEL)

    def check_held(self) -> None:
        if not isinstance(self.paged, SmcSession):
            return
        core = self.paged._core
        here = {n for n, x in enumerate(core.held) if x is not None}
        names = set(core.run.names().tolist())
        homes = core.run.homes(list(range(len(core.held))))
        assert {n for n, home in enumerate(homes) if home >= 0} == here
        assert {home for home in homes if home >= 0} == names


@pytest.mark.parametrize("stage", STAGES)
@pytest.mark.parametrize("name", sorted(LIKELIHOODS))
@examples(25)
@given(
    rules=st.sampled_from(sorted(RULES)),
    seed=st.integers(0, 1000),
    link=st.sampled_from([None, "source"]),
    closes=st.booleans(),
    data=st.data(),
)
def test_whatever_is_done_is_as_in_the_reference(
    name: str,
    stage: str,
    rules: str,
    seed: int,
    link: str | None,
    closes: bool,
    data: st.DataObject,
) -> None:
    draw, _ = LIKELIHOODS[name]
    plain = draw(np.random.default_rng(seed), 16)
    items = sided(plain, np.random.default_rng(seed).choice(list("abcdef"), size=16).tolist())
    exact = stage not in BLACK or not closes
    twins = CompiledTwins(opening(name, stage, plain, link), RULES[rules], exact, closes=closes)
    play(twins, items, data)


@examples(60)
@given(
    given=st.lists(
        st.tuples(st.lists(st.integers(-2, 3), unique=True, max_size=3), st.integers(0, 5)),
        min_size=12,
        max_size=40,
    ),
    families=st.integers(1, 4),
    shared=st.integers(1, 3),
    compared=st.integers(0, 3),
    every=st.integers(1, 9),
    model=st.sampled_from(["in the kernel", "in Python"]),
)
def test_keys_lead_elsewhere(
    given: list[tuple[list[int], int]],
    families: int,
    shared: int,
    compared: int,
    every: int,
    model: str,
) -> None:
    """Keys that are closed, followed after all, pruned, and new while others lie elsewhere.

    Points far apart make many families of a key.
    """
    fragments = [
        Fragment(f"f{i}", {"key": tuple(map(str, held))} if held else {}, (9.0 * far,))
        for i, (held, far) in enumerate(given)
    ]
    index = Keys(families=families, shared=shared)
    index.compared = compared
    likelihood = Gaussian(lam=1.0) if model == "in the kernel" else Chain(normal(2.0, 3.0))
    problem = Problem(likelihood, 0.5, index=index)
    twins = CompiledTwins(lambda: problem, RULES["split"], exact=True)
    for begin in range(0, len(fragments), every):
        twins.add(fragments[begin : begin + every])
        twins.reopen()
        twins.check_held()
    twins.check()


@pytest.mark.parametrize("name", sorted(LIKELIHOODS))
@pytest.mark.parametrize("stage", ["conjugate", "selective"])
def test_a_snapshot_goes_on_in_the_kernel(name: str, stage: str) -> None:
    draw, _ = LIKELIHOODS[name]
    items = draw(np.random.default_rng(3), 24)
    open_problem = opening(name, stage, items)
    assert KERNEL is not None
    first = SmcSession(open_problem(), RULES["split"], np.random.default_rng(5), kernel=KERNEL)
    first.add(items[:12])
    first.remove([items[0].id, items[5].id])
    kept = first.snapshot()
    sessions: list[Session] = [
        SmcSession(open_problem(), RULES["split"], np.random.default_rng(1), kept),
        SmcSession(open_problem(), RULES["split"], np.random.default_rng(1), kept, None, KERNEL),
    ]
    told = [session.add(items[12:18]) for session in sessions]
    assert told[0] == told[1]
    for session in sessions:
        session.remove([items[1].id, items[13].id])
        session.revise(1)
        told.append(list(session.adding(items[18:])))
    assert told[2] == told[3]
    one, other = (session.snapshot() for session in sessions)
    assert contents(one) == contents(other)
    assert sessions[0].touched() == sessions[1].touched()
    assert contents(sessions[0].checkpoint()) == contents(sessions[1].checkpoint())


def test_one_that_is_refused_leaves_those_before_it() -> None:
    points = [Fragment(f"p{k}", {}, vector=(float(k), 0.0)) for k in range(9)]
    points[6] = Fragment("bad", {}, vector=(1.0, 2.0, 3.0))
    assert KERNEL is not None
    session = SmcSession(
        Problem(Gaussian(), 1.0), RULES["split"], np.random.default_rng(0), kernel=KERNEL
    )
    infos = session.adding(points)
    for number in range(6):
        assert next(infos).fragment == number
    with pytest.raises(LikelihoodError, match='fragment "bad"'):
        next(infos)
    assert session.n_fragments == 6
    assert [info.fragment for info in session.adding(points[7:])] == [6, 7]
