"""A session of sequential Monte Carlo: it adds fragments one after another and keeps the state."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import replace

import numpy as np

from kbforge.clustering.ahead import LookAhead
from kbforge.clustering.constraints import Closure, called
from kbforge.clustering.core import (
    Core,
    FragmentHomes,
    Ids,
    PagedCore,
    checkpoint_of,
    page_of,
    restore,
    snapshot_of,
)
from kbforge.clustering.decide import add_cornered, bridged, decide, lift, made_one, plan_removal
from kbforge.clustering.pages import posterior_of, settings_of, subproblem_of
from kbforge.clustering.prior import DirichletProcess
from kbforge.clustering.revise import revised
from kbforge.clustering.rules import Rules
from kbforge.clustering.scoring import BlackBoxScorer, SessionScores, make_scorer, shared
from kbforge.clustering.state import State
from kbforge.clustering.step import InfeasibleFragment, consider
from kbforge.contracts import (
    Checkpoint,
    Cluster,
    Constraints,
    Decision,
    Fragment,
    Info,
    Pages,
    Posterior,
    Problem,
    Revision,
    Snapshot,
    Subproblem,
    SubproblemChanges,
)
from kbforge.errors import LikelihoodError, UsageError, quoted


def _nothing() -> None:
    return None


class OnlineSession:
    """See `kbforge.contracts.Session`.

    Args:
        problem: what to cluster by.
        rules: how.
        rng: the session's own.
        snapshot: of a session with the same problem and rules, to go on with.
        pages: of one, likewise, instead.
        sets: of a session that a black box has been asked for; None: it has not.

    Raises:
        UsageError: there is nothing to cluster by, or the snapshot or the pages are of another
            session, or both are given.
        ContradictionError: the problem's decisions cannot all hold.

    """

    def __init__(
        self,
        problem: Problem,
        rules: Rules,
        rng: np.random.Generator,
        snapshot: Snapshot | None = None,
        pages: Pages | None = None,
        sets: SessionScores | None = None,
    ) -> None:
        rules = rules.settled(problem.index is not None)
        settings = self._settings = settings_of(problem, rules)
        problem = shared(problem)
        state = State(DirichletProcess(problem.alpha))
        model = make_scorer(problem, rules.limit)
        if sets is not None and isinstance(model, BlackBoxScorer):
            model.sets = sets
        parts = (
            problem,
            rules,
            rng,
            state,
            model,
            FragmentHomes(state),
            Ids(lambda: model.fragments),
        )
        constraints = problem.constraints
        if pages is None:
            core = self._core = Core(*parts)
            if snapshot is not None:
                restore(core, snapshot, settings)
                constraints = snapshot.totals.constraints
        elif snapshot is None:
            core = self._core = PagedCore(*parts, pages=pages)
            core.begin(settings)
            constraints = pages.totals.constraints
        else:
            raise UsageError("a session continues from a snapshot or from pages, not from both")
        core.bind(constraints, Closure(constraints.decisions))
        # in one subproblem every fragment changes what the next is compared with
        self._ahead = LookAhead(rules.wave if rules.splits else 1)

    @property
    def n_fragments(self) -> int:
        """How many fragments there are."""
        return self._core.n_fragments

    @property
    def fragments(self) -> tuple[Fragment, ...]:
        """Those that there are, in order of arrival."""
        self._core.have_all()
        return tuple(self._core.model.fragments.values())

    @property
    def constraints(self) -> Constraints:
        """Those in force."""
        return self._core.constraints

    def number(self, id: str) -> int:
        """The number of a fragment.

        Raises:
            UsageError: there is none of that id, or there are several.

        """
        self._core.have_ids((id,))
        return self._core.ids.of(id)

    def foresee(self, fragments: Sequence[Fragment]) -> None:
        """These are to be added next."""
        self._ahead.foresee(fragments)

    def add(self, fragments: Sequence[Fragment]) -> list[Info]:
        """Take in fragments, one after another."""
        if fragments and not self._ahead.expects(fragments[0]):
            self._ahead.foresee(fragments)
        return [self._add(fragment) for fragment in fragments]

    def adding(self, fragments: Iterable[Fragment]) -> Iterator[Info]:
        """Take in fragments, each when it is asked for."""
        return map(self._add, fragments)

    def _add(self, x: Fragment) -> Info:
        core, bounds = self._core, None
        self._ahead.before(core, x)
        try:
            core.lead(x)
            if core.bindings is not None:
                core.bindings.require_possible(x)
                bounds = core.bindings.bounds(x)
            try:
                plan = consider(core.state, core.model, x, core.rules, core.rng, bounds)
            except InfeasibleFragment:
                info = add_cornered(core, x)
            else:
                info = core.commit(plan)
                reached = plan.reading.reached
                followed = reached.open if reached else ()
                self._ahead.after(plan.replaced, plan.reading.asked or (), followed)
        except LikelihoodError as error:
            raise LikelihoodError(f'fragment "{quoted(x.id)}": {error}') from error
        core.ids.put({info.fragment: x})
        return info

    def remove(self, ids: Sequence[str]) -> None:
        """Take fragments out again, all of them or, whatever is raised, none."""
        core = self._core
        core.have_ids(ids)
        removed = {self.number(id): id for id in ids}
        if not removed:
            return
        core.have_first(removed)
        core.replace(plan_removal(core, removed))
        core.ids.forget(removed.values())

    def revise(
        self,
        passes: int = 1,
        ids: Sequence[str] | None = None,
        after_step: Callable[[], None] | None = None,
    ) -> Revision:
        """Spend time on old mistakes."""
        if ids is None:
            self._core.have_all()
        else:
            self._core.have_ids(ids)
        anchors = None if ids is None else [self.number(id) for id in ids]
        return revised(self._core, passes, anchors, after_step or _nothing)

    def bridge(self, id: str) -> float:
        """Make one of the clusters that a new fragment belongs to."""
        return bridged(self._core, self.number(id))

    def make_one(self, number: int, others: Sequence[int]) -> float:
        """Make one of a fragment's cluster and others', as `bridge` does where it is worth it.

        Args:
            number: of the fragment.
            others: a fragment of each of the others.

        """
        self._core.have((number, *others))
        return made_one(self._core, number, others)

    def constrain(self, decisions: Sequence[Decision]) -> None:
        """Have these decisions honoured, too, from now on."""
        if not decisions:
            return
        known = self.constraints
        more = Constraints((*known.decisions, *decisions), known.link)
        decide(self._core, more, decisions)

    def lift(self, decisions: Sequence[Decision]) -> None:
        """Honour these decisions no longer."""
        if not decisions:
            return
        left = list(self.constraints.decisions)
        for decision in decisions:
            if decision not in left:
                raise UsageError(f"no such decision is in force: {called(decision)}")
            left.remove(decision)
        lift(self._core, Constraints(tuple(left), self.constraints.link), decisions)

    def subproblem(self, name: int) -> Subproblem:
        """One subproblem, its fragments by their numbers."""
        self._core.have((name,))
        return subproblem_of(page_of(self._core.state, name))

    def clusters(self, name: int) -> tuple[Cluster, ...]:
        """The heaviest particle of one subproblem, its fragments by their numbers."""
        self._core.have((name,))
        state = self._core.state
        block = state.blocks[name]
        return tuple(map(state.members, block.cells[: block.row_start[1]].tolist()))

    def posterior(self) -> Posterior:
        """What is known about the grouping of the fragments that there are."""
        self._core.have_all()
        state, numbers = self._core.state, self._core.model.fragments
        called = None
        if len(numbers) < state.n_fragments:
            called = {number: place for place, number in enumerate(numbers)}.__getitem__
        pages = (page_of(state, name) for name in sorted(state.blocks))
        evaluations = self._core.model.evaluations
        known = posterior_of(pages, state.prior, len(numbers), evaluations, called)
        return replace(known, evaluations_in_vain=self._ahead.in_vain)

    @property
    def since(self) -> Mapping[int, bool]:
        """As of `Core`; empty before the first checkpoint."""
        return self._core.since or {}

    def touched(self) -> SubproblemChanges:
        """The subproblems changed since this was last asked, or else since the opening."""
        changed, gone = self._core.changed, self._core.gone
        out = SubproblemChanges(tuple(sorted(changed)), tuple(sorted(gone)))
        changed.clear()
        gone.clear()
        return out

    def snapshot(self) -> Snapshot:
        """The session as plain data."""
        self._core.have_all()
        self._core.have_keys()
        return snapshot_of(self._core, self._settings)

    def checkpoint(self) -> Checkpoint:
        """What is other than at the last checkpoint."""
        return checkpoint_of(self._core, self._settings)
