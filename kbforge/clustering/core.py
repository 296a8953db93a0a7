"""The parts of a session, and how whole subproblems are replaced.

A step changes state, model and bindings together, and so does a replacement. Here they are in one
place, with all that must be kept up beside them.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable
from dataclasses import dataclass, field

import numpy as np

from kbforge.clustering.commit import commit
from kbforge.clustering.constraints.bindings import Bindings
from kbforge.clustering.constraints.closure import Closure
from kbforge.clustering.ids import Ids
from kbforge.clustering.online.black_box import BlackBoxScorer, SessionScores, StepDemand
from kbforge.clustering.online.scoring import ConjugateScorer
from kbforge.clustering.plan import Plan
from kbforge.clustering.revise.homes import FragmentHomes
from kbforge.clustering.revise.replace import Replacement, put_in_place
from kbforge.clustering.rules import Rules
from kbforge.clustering.state import State
from kbforge.contracts import Constraints, Fragment, Info, Problem


@dataclass(slots=True)
class Core:
    """A session without its interface.

    Attributes:
        problem: what to cluster by; a black box is a cache of scores, for all to share.
        rules: how.
        rng: the session's own.
        state: particles.
        model: scores.
        homes: where fragments are.
        ids: the numbers of fragments by id.
        bindings: what constraints say of the clusters; None where there are no constraints.
        changed: names of subproblems that are new since this was last asked.
        gone: names of those that are no more.
        since: by name, the subproblems that were replaced or came since the last checkpoint, and
            whether there was one of that name then; None: there was no checkpoint.

    """

    problem: Problem
    rules: Rules
    rng: np.random.Generator
    state: State
    model: ConjugateScorer | BlackBoxScorer
    homes: FragmentHomes
    ids: Ids
    bindings: Bindings | None = None
    changed: set[int] = field(default_factory=set)
    gone: set[int] = field(default_factory=set)
    since: dict[int, bool] | None = None

    # -- what is looked at is to be here; a session without pages has all of it ---------------

    def lead(self, x: Fragment) -> None:
        """Have here what a step looks at that takes in x, or that puts it elsewhere."""

    def have(self, numbers: Iterable[int]) -> None:
        """Have here the subproblems of fragments, of those that there are."""

    def have_ids(self, ids: Iterable[str]) -> None:
        """The same, of the fragments with these ids."""

    def have_all(self) -> None:
        """Have here all subproblems."""

    def have_keys(self) -> None:
        """Have it known where all keys of the index lead."""

    def have_first(self, gone: Collection[int]) -> None:
        """Have here the first fragment that there is without some, if one of these is the first.

        It is if it is the first of those that are here; then it is so of all.
        """

    # -----------------------------------------------------------------------------------------

    @property
    def n_fragments(self) -> int:
        """How many there are."""
        return len(self.model.fragments) + self.state.fragments_elsewhere

    @property
    def constraints(self) -> Constraints:
        """Those in force."""
        return Constraints() if self.bindings is None else self.bindings.constraints

    @property
    def sets(self) -> SessionScores | None:
        """What a black box was asked; None: the likelihood is none."""
        return self.model.sets if isinstance(self.model, BlackBoxScorer) else None

    def coming(self, x: Fragment, after: int) -> StepDemand:
        """See `kbforge.clustering.ahead`."""
        assert isinstance(self.model, BlackBoxScorer)
        self.lead(x)
        bounds = None if self.bindings is None else self.bindings.bounds(x)
        return self.model.coming(self.state, x, bounds)

    def commit(self, plan: Plan) -> Info:
        """Write what was decided of a new fragment."""
        info = commit(self.state, self.model, plan)
        if self.bindings is not None:
            self.bindings.follow(plan)
        self._note(info.before, info.after)
        if info.before == info.after and len(info.after) == 1:
            self.homes.put(info.fragment, info.after[0])
        else:
            self.homes.follow(info.after)
        return info

    def replace(self, replacement: Replacement) -> None:
        """Write what was decided of subproblems."""
        regrouped = replacement.regrouped
        removed = {number: self.model.fragments[number] for number in regrouped.removed}
        put_in_place(self.state, self.model, replacement)
        if self.bindings is not None:
            self.bindings.forget(removed)
            self.bindings.regroup(regrouped.before.tolist(), regrouped.clusters)
        self._note(replacement.gone, replacement.blocks)
        self.homes.follow(replacement.blocks)
        self.homes.forget(removed)

    def bind(self, constraints: Constraints, closure: Closure) -> None:
        """From now on these constraints are in force; the particles are as they were."""
        self.bindings = None
        if not constraints:
            return
        bindings = Bindings(constraints, closure)
        names: Iterable[int] = self.state.blocks
        if constraints.link is None:
            bound = sorted(i for i, x in self.model.fragments.items() if x.id in closure.component)
            names = sorted({self.homes.of(number) for number in bound})
        else:
            bound = sorted(self.model.fragments)
        for number in bound:
            bindings.require_possible(self.model.fragments[number])
            bindings.take_in(number, self.model.fragments[number])
        state = self.state
        for name in names:
            slots = state.blocks[name].slots.tolist()
            bindings.regroup((), {slot: state.members(slot) for slot in slots})
        self.bindings = bindings

    def _note(self, before: Collection[int], after: Collection[int]) -> None:
        """These subproblems have taken the place of those."""
        self.gone.update(before)
        self.gone.difference_update(after)
        self.changed.difference_update(before)
        self.changed.update(after)
        if self.since is not None:
            for name in before:
                self.since.setdefault(name, True)
            for name in after:
                self.since.setdefault(name, False)
