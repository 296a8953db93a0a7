"""A shard: a clustering that holds some of the subproblems, and hands them over when it is told to.

It takes the steps of the reference engine. Fragments have the numbers that the router gave them, so
that names and the order of equals are those of one run; slots are the shard's own, as nothing that
is decided depends on them.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace

import numpy as np

from kbforge.clustering.core import Core
from kbforge.clustering.ids import Ids
from kbforge.clustering.online.scoring import make_scorer, shared
from kbforge.clustering.paging.codec import hold, numbers_in, page_of
from kbforge.clustering.plan import consider
from kbforge.clustering.prior import DirichletProcess
from kbforge.clustering.revise.homes import Homes
from kbforge.clustering.rules import Rules
from kbforge.clustering.sharding.families import ShardCandidates
from kbforge.clustering.sharding.messages import Handed, Report
from kbforge.clustering.sharding.packing import (
    PackedLed,
    PackedPages,
    pack_led,
    pack_pages,
    unpack_led,
    unpack_pages,
)
from kbforge.clustering.state import State
from kbforge.contracts import Fragment, Page, Problem
from kbforge.errors import LikelihoodError, UsageError, quoted


@dataclass(frozen=True, slots=True, eq=False)
class Saved:
    """All of a shard as plain data: with its fragments, what it takes to go on from here.

    Attributes:
        pages: its subproblems.
        led: where keys lead.
        closed: keys that are known to lead too far.
        n_numbers: all fragments that it has seen have smaller numbers.
        evaluations: sets that it has scored.

    """

    pages: PackedPages
    led: PackedLed
    closed: tuple[int, ...]
    n_numbers: int
    evaluations: int

    def numbers(self) -> list[int]:
        """Of its fragments, ascending."""
        found: list[int] = np.unique(self.pages.members).tolist()
        return found


def require_shardable(problem: Problem, rules: Rules) -> None:
    """Refuse what cannot be clustered in parts that know nothing of each other.

    Raises:
        UsageError: plain SMC, a resampler that draws, constraints, or no index.

    """
    if not rules.splits:
        raise UsageError(
            "workers own subproblems, but plain smc has only one; use --clusterer split-smc or "
            "greedy"
        )
    if rules.draws:
        raise UsageError(
            "workers take steps in no fixed order, so no step may draw random numbers; use the "
            "greedy resampler and exact merges"
        )
    if problem.constraints:
        raise UsageError("workers do not support --link yet; leave it out, or the executor")
    if problem.index is None:
        raise UsageError(
            "without an index every fragment is compared with all clusters, so all of them would "
            "be on one worker; name an index with --index, or leave out the executor"
        )


class Shard:
    """Some subproblems of a run.

    Args:
        problem: what to cluster by; `require_shardable` has let it through.
        rules: how.
        first: the first fragment of the run, which may settle what a live table is like.
        saved: to go on from.
        fragments: those of `saved`, by number, ascending.

    """

    def __init__(
        self,
        problem: Problem,
        rules: Rules,
        first: Fragment,
        saved: Saved | None = None,
        fragments: Mapping[int, Fragment] | None = None,
    ) -> None:
        rules = rules.settled(indexed=True)
        problem = shared(problem)
        state = State(DirichletProcess(problem.alpha))
        assert problem.index is not None
        self._candidates = ShardCandidates(problem.index)
        model = make_scorer(problem, rules.limit, self._candidates)
        if model.table is not None:
            model.table.sparse = True
            model.table.begin(first)
        rng = np.random.default_rng(0)  # nobody draws from it
        self._core = Core(
            problem, rules, rng, state, model, Homes(state), Ids(lambda: model.fragments)
        )
        if saved is not None:
            model.resume(saved.evaluations)
            state.count_fragments(saved.n_numbers)
            pages, led = unpack_pages(saved.pages), unpack_led(saved.led)
            self.take(Handed(pages, fragments or {}, led))
            self._candidates.close(saved.closed)

    @property
    def evaluations(self) -> int:
        """Sets that it has scored."""
        return self._core.model.evaluations

    def add(self, number: int, x: Fragment, closed: Iterable[int]) -> Report:
        """Take in a fragment; all that its step may look at is here.

        Args:
            number: of it, larger than those before.
            x: the fragment.
            closed: those of its keys that are known to lead too far.

        Raises:
            LikelihoodError: as `kbforge.contracts.Session.add`.

        """
        core, state = self._core, self._core.state
        state.count_fragments(number - state.n_fragments)
        self._candidates.close(closed)
        try:
            plan = consider(state, core.model, x, core.rules, core.rng)
        except LikelihoodError as error:
            raise LikelihoodError(f'fragment "{quoted(x.id)}": {error}') from error
        info = core.commit(plan)
        assert plan.reading.reached is not None
        return Report(
            number,
            info.before,
            tuple((name, self._families(name)) for name in info.after),
            tuple(sorted(set(plan.new.first.tolist()))),
            tuple(plan.reading.reached.closed),
        )

    def give(self, fragments: Sequence[int]) -> Handed:
        """Hand over the subproblems that hold these fragments; they are here no more."""
        core = self._core
        handed = self._handed(sorted({core.homes.of(number) for number in fragments}))
        families = {family for page in handed.pages for family in self._families(page.name)}
        led = self._candidates.give(sorted(families))
        for page in handed.pages:
            core.state.remove(page.name)
            core.state.release(page.slots)
            core.model.release(page.slots)
        core.homes.forget(handed.fragments)
        core.model.forget(handed.fragments)
        return replace(handed, led=led)

    def take(self, handed: Handed) -> None:
        """Own these subproblems from now on."""
        state = self._core.state
        if not handed.pages:
            return
        state.count_fragments(max(0, max(handed.fragments) + 1 - state.n_fragments))
        hold(self._core, [self._with_slots(page) for page in handed.pages], handed.fragments)
        self._candidates.receive(handed.led)

    def pages(self) -> tuple[Page, ...]:
        """All its subproblems, by ascending name."""
        state = self._core.state
        return tuple(page_of(state, name) for name in sorted(state.blocks))

    def save(self) -> Saved:
        """All of it but its fragments as plain data, which shares nothing with it."""
        candidates = self._candidates
        return Saved(
            pack_pages(self.pages()),
            pack_led(candidates.contents()),
            candidates.closed(),
            self._core.state.n_fragments,
            self.evaluations,
        )

    def _handed(self, names: Sequence[int]) -> Handed:
        pages = tuple(page_of(self._core.state, name) for name in names)
        held = self._core.model.fragments
        return Handed(pages, {number: held[number] for number in numbers_in(pages)}, {})

    def _with_slots(self, page: Page) -> Page:
        """The page in slots of this shard."""
        state = self._core.state
        slots = state.vacant(len(page.slots))
        state.take(len(slots))
        return replace(page, slots=slots)

    def _families(self, name: int) -> tuple[int, ...]:
        """The families that live in a subproblem, ascending."""
        state = self._core.state
        return tuple(sorted(set(state.first[state.blocks[name].slots].tolist())))
