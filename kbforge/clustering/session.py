"""A session of sequential Monte Carlo: fragments come one after another, the state is kept.

`SequentialMonteCarlo` is what its clusterers are but for their options.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence

import numpy as np

from kbforge.clustering.constraints.closure import Closure, called
from kbforge.clustering.core import Core
from kbforge.clustering.online.scoring import make_scorer, shared
from kbforge.clustering.plan import Cornered, consider
from kbforge.clustering.prior import DirichletProcess
from kbforge.clustering.revise.decide import add_cornered, decide, lift
from kbforge.clustering.revise.homes import Homes
from kbforge.clustering.revise.passes import revised
from kbforge.clustering.revise.remove import plan_removal
from kbforge.clustering.rules import Rules
from kbforge.clustering.snapshot import constraints_of, restore, settings_of, snapshot_of
from kbforge.clustering.state import Block, State
from kbforge.contracts import (
    Constraints,
    Decision,
    Fragment,
    Info,
    OnlineClusterer,
    Particle,
    Posterior,
    Problem,
    Revised,
    Snapshot,
    Subproblem,
    Touched,
)
from kbforge.errors import LikelihoodError, UsageError, quoted

_SEVERAL = -1


def _nothing() -> None:
    return None


class SequentialMonteCarlo(OnlineClusterer):
    """What greedy, plain and split clustering share: all but their rules."""

    def __init__(self, rules: Rules) -> None:
        self._rules = rules

    def open(
        self, problem: Problem, rng: np.random.Generator, snapshot: Snapshot | None = None
    ) -> OnlineSession:
        """See `kbforge.contracts.clusterer`."""
        return OnlineSession(problem, self._rules, rng, snapshot)


class OnlineSession:
    """See `kbforge.contracts.Session`.

    Args:
        problem: what to cluster by.
        rules: how.
        rng: the session's own.
        snapshot: of a session with the same problem and rules, to go on with.

    Raises:
        UsageError: there is nothing to cluster by, or the snapshot is of another session.
        ContradictionError: the problem's decisions cannot all hold.

    """

    def __init__(
        self,
        problem: Problem,
        rules: Rules,
        rng: np.random.Generator,
        snapshot: Snapshot | None = None,
    ) -> None:
        rules = rules.settled(problem.index is not None)
        self._settings = settings_of(problem, rules)
        problem = shared(problem)
        state = State(DirichletProcess(problem.alpha))
        model = make_scorer(problem, rules.limit)
        core = self._core = Core(problem, rules, rng, state, model, Homes(state))
        self._numbers: dict[str, int] | None = None
        constraints = problem.constraints
        if snapshot is not None:
            restore(snapshot, self._settings, state, model, rng)
            constraints = constraints_of(snapshot)
            if problem.constraints not in (constraints, Constraints()):
                raise UsageError("the snapshot is of a session with other constraints")
        core.bind(constraints, Closure(constraints.decisions))

    @property
    def n_fragments(self) -> int:
        """How many fragments there are."""
        return len(self._core.model.fragments)

    @property
    def fragments(self) -> tuple[Fragment, ...]:
        """Those that there are, in order of arrival."""
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
        if self._numbers is None:
            self._numbers = {}
            for number, fragment in self._core.model.fragments.items():
                self._count(self._numbers, fragment.id, number)
        found = self._numbers.get(id)
        if found is None:
            raise UsageError(f'no fragment of the session has the id "{quoted(id)}"')
        if found == _SEVERAL:
            raise UsageError(f'several fragments of the session have the id "{quoted(id)}"')
        return found

    def add(self, fragments: Sequence[Fragment]) -> list[Info]:
        """Take in fragments, one after another."""
        return [self._add(fragment) for fragment in fragments]

    def _add(self, x: Fragment) -> Info:
        core, bounds = self._core, None
        try:
            if core.bindings is not None:
                core.bindings.require_possible(x)
                bounds = core.bindings.bounds(x)
            try:
                plan = consider(core.state, core.model, x, core.rules, core.rng, bounds)
            except Cornered:
                info = add_cornered(core, x)
            else:
                info = core.commit(plan)
        except LikelihoodError as error:
            raise LikelihoodError(f'fragment "{quoted(x.id)}": {error}') from error
        if self._numbers is not None:
            self._count(self._numbers, x.id, info.fragment)
        return info

    @staticmethod
    def _count(numbers: dict[str, int], id: str, number: int) -> None:
        numbers[id] = _SEVERAL if id in numbers else number

    def remove(self, ids: Sequence[str]) -> None:
        """Take fragments out again, all of them or, whatever is raised, none."""
        removed = {self.number(id): id for id in ids}
        if not removed:
            return
        core = self._core
        core.replace(plan_removal(core, removed))
        assert self._numbers is not None
        for id in removed.values():
            del self._numbers[id]

    def revise(
        self,
        passes: int = 1,
        ids: Sequence[str] | None = None,
        after_step: Callable[[], None] | None = None,
    ) -> Revised:
        """Spend time on old mistakes."""
        anchors = None if ids is None else [self.number(id) for id in ids]
        return revised(self._core, passes, anchors, after_step or _nothing)

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
        return _subproblem(self._core.state, self._core.state.blocks[name])

    def posterior(self) -> Posterior:
        """What is known about the grouping of the fragments that there are."""
        state, numbers = self._core.state, self._core.model.fragments
        at = None
        if len(numbers) < state.n_fragments:
            at = {number: place for place, number in enumerate(numbers)}
        return posterior_of(state, at, self._core.model.evaluations)

    def touched(self) -> Touched:
        """The subproblems changed since this was last asked, or else since the opening."""
        changed, gone = self._core.changed, self._core.gone
        out = Touched(tuple(sorted(changed)), tuple(sorted(gone)))
        changed.clear()
        gone.clear()
        return out

    def snapshot(self) -> Snapshot:
        """The session as plain data."""
        core = self._core
        return snapshot_of(self._settings, core.constraints, core.state, core.model, core.rng)


def posterior_of(state: State, at: Mapping[int, int] | None, evaluations: int) -> Posterior:
    """The state as plain tuples.

    Args:
        state: is read.
        at: by number, the places of the fragments that there are; None if that is the same.
        evaluations: as `Posterior` counts them.

    """
    blocks = [state.blocks[name] for name in sorted(state.blocks)]
    return Posterior(
        subproblems=tuple(_subproblem(state, block, at) for block in blocks),
        log_posterior=float(
            sum(state.term[block.cells[: block.row_start[1]]].sum() for block in blocks)
        ),
        n_fragments=state.n_fragments if at is None else len(at),
        model_evaluations=evaluations,
    )


def _subproblem(state: State, block: Block, at: Mapping[int, int] | None = None) -> Subproblem:
    cells = block.cells.tolist()
    bounds = block.row_start.tolist()
    members = {slot: state.members(slot) for slot in block.slots.tolist()}
    if at is not None:
        members = {slot: tuple(at[number] for number in held) for slot, held in members.items()}
    particles = tuple(
        Particle(weight, tuple(members[slot] for slot in cells[begin:end]))
        for weight, begin, end in zip(block.weights.tolist(), bounds[:-1], bounds[1:], strict=True)
    )
    fragments = sorted(fragment for cluster in particles[0].clusters for fragment in cluster)
    return Subproblem(tuple(fragments), particles)
