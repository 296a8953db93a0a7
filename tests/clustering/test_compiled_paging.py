"""Compiled sessions that make checkpoints, are removed from, and go on from what was kept: beside
one of the reference that is never closed, bit for bit.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from kbforge.clustering.compiled.session import CompiledSession, can_compile
from kbforge.clustering.rules import Rules
from kbforge.clustering.session import OnlineSession
from kbforge.contracts import Problem, Session
from kbforge.kernel.library import kernel_library, kernel_status
from kbforge.testing import MemoryPages
from kbforge_plugins.resamplers.greedy import Greedy
from tests.clustering.test_failures import LIKELIHOODS
from tests.clustering.test_paging import Twins, opening, play

KERNEL = kernel_library()
pytestmark = pytest.mark.skipif(KERNEL is None, reason=kernel_status())

RULES = {
    "split": Rules(6, Greedy(), splits=True),
    "floor": Rules(6, Greedy(), splits=True, floor=0.01),
    "greedy": Rules(1, Greedy(), splits=True),
    "plain": Rules(4, Greedy(), splits=False),
}


@dataclass
class CompiledTwins(Twins):
    """The session that is closed is a compiled one wherever the kernel takes the steps."""

    def opened(
        self, problem: Problem, rng: np.random.Generator, pages: MemoryPages | None = None
    ) -> Session:
        assert KERNEL is not None
        begun = None if pages is None else pages.totals
        if not can_compile(problem, self.rules, begun):
            return OnlineSession(problem, self.rules, rng, pages=pages)
        return CompiledSession(KERNEL, problem, self.rules, rng, pages=pages)

    def check_held(self) -> None:
        if not isinstance(self.paged, CompiledSession) or self.paged._reference is not None:
            return
        holding = self.paged._holding
        here = {n for n, x in enumerate(holding.held) if x is not None}
        names = set(holding._copies.names().tolist())
        homes = holding._copies.homes(list(range(len(holding.held))))
        assert {n for n, home in enumerate(homes) if home >= 0} == here
        assert {home for home in homes if home >= 0} == names


@pytest.mark.parametrize("stage", ["conjugate", "indexed", "selective"])
@pytest.mark.parametrize("name", sorted(LIKELIHOODS))
@settings(max_examples=25, deadline=None)
@given(
    rules=st.sampled_from(sorted(RULES)),
    seed=st.integers(0, 1000),
    data=st.data(),
)
def test_whatever_is_done_is_as_in_the_reference(
    name: str, stage: str, rules: str, seed: int, data: st.DataObject
) -> None:
    draw, _ = LIKELIHOODS[name]
    items = draw(np.random.default_rng(seed), 16)
    play(CompiledTwins(opening(name, stage, items), RULES[rules], exact=True), items, data)
