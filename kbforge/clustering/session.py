"""A session of sequential Monte Carlo: fragments come one after another, the state is kept.

`SequentialMonteCarlo` is what its clusterers are but for their options.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence

import numpy as np

from kbforge.clustering.commit import commit
from kbforge.clustering.online.scoring import make_scorer
from kbforge.clustering.plan import consider
from kbforge.clustering.prior import DirichletProcess
from kbforge.clustering.revise.homes import Homes
from kbforge.clustering.revise.remove import plan_removal
from kbforge.clustering.revise.replace import Replacement, put_in_place
from kbforge.clustering.rules import Rules
from kbforge.clustering.snapshot import restore, settings_of, snapshot_of
from kbforge.clustering.state import Block, State
from kbforge.contracts import (
    Fragment,
    Info,
    OnlineClusterer,
    Particle,
    Posterior,
    Problem,
    Snapshot,
    Subproblem,
    Touched,
)
from kbforge.errors import LikelihoodError, UsageError, quoted

_SEVERAL = -1


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

    """

    def __init__(
        self,
        problem: Problem,
        rules: Rules,
        rng: np.random.Generator,
        snapshot: Snapshot | None = None,
    ) -> None:
        self._rules = rules.settled(problem.index is not None)
        self._state = State(DirichletProcess(problem.alpha))
        self._model = make_scorer(problem, self._rules.limit)
        self._rng = rng
        self._settings = settings_of(problem, self._rules)
        self._changed: set[int] = set()
        self._gone: set[int] = set()
        self._numbers: dict[str, int] | None = None
        if snapshot is not None:
            restore(snapshot, self._settings, self._state, self._model, rng)
        self._homes = Homes(self._state)

    @property
    def n_fragments(self) -> int:
        """How many fragments there are."""
        return len(self._model.fragments)

    @property
    def fragments(self) -> tuple[Fragment, ...]:
        """Those that there are, in order of arrival."""
        return tuple(self._model.fragments.values())

    def number(self, id: str) -> int:
        """The number of a fragment.

        Raises:
            UsageError: there is none of that id, or there are several.

        """
        if self._numbers is None:
            self._numbers = {}
            for number, fragment in self._model.fragments.items():
                known = self._numbers.setdefault(fragment.id, number)
                if known != number:
                    self._numbers[fragment.id] = _SEVERAL
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
        try:
            plan = consider(self._state, self._model, x, self._rules, self._rng)
        except LikelihoodError as error:
            raise LikelihoodError(f'fragment "{quoted(x.id)}": {error}') from error
        info = commit(self._state, self._model, plan)
        if self._numbers is not None:
            several = x.id in self._numbers
            self._numbers[x.id] = _SEVERAL if several else info.fragment
        self._note(info.before, info.after)
        if info.before == info.after and len(info.after) == 1:
            self._homes.put(info.fragment, info.after[0])
        else:
            self._homes.follow(info.after)
        return info

    def remove(self, ids: Sequence[str]) -> None:
        """Take fragments out again, all of them or, whatever is raised, none."""
        removed = {self.number(id): id for id in ids}
        if not removed:
            return
        replacement = plan_removal(self._state, self._model, self._rules, self._homes, removed)
        self._replace(replacement)
        self._homes.forget(removed)
        assert self._numbers is not None
        for id in removed.values():
            del self._numbers[id]

    def subproblem(self, name: int) -> Subproblem:
        """One subproblem, its fragments by their numbers."""
        return _subproblem(self._state, self._state.blocks[name])

    def posterior(self) -> Posterior:
        """What is known about the grouping of the fragments that there are."""
        numbers = self._model.fragments
        at = None
        if len(numbers) < self._state.n_fragments:
            at = {number: place for place, number in enumerate(numbers)}
        return posterior_of(self._state, at, self._model.evaluations)

    def touched(self) -> Touched:
        """The subproblems changed since this was last asked, or else since the opening."""
        out = Touched(tuple(sorted(self._changed)), tuple(sorted(self._gone)))
        self._changed.clear()
        self._gone.clear()
        return out

    def snapshot(self) -> Snapshot:
        """The session as plain data."""
        return snapshot_of(self._settings, self._state, self._model, self._rng)

    def _replace(self, replacement: Replacement) -> None:
        put_in_place(self._state, self._model, replacement)
        self._note(replacement.gone, replacement.blocks)
        self._homes.follow(replacement.blocks)

    def _note(self, before: Collection[int], after: Collection[int]) -> None:
        """These subproblems have taken the place of those."""
        self._gone.update(before)
        self._gone.difference_update(after)
        self._changed.difference_update(before)
        self._changed.update(after)


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
