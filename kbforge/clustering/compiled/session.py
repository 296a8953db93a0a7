"""A session in the compiled kernel.

It takes in fragments, says what is known of their grouping, and makes checkpoints. It may begin
with nothing, go on from a snapshot, or be opened on pages, which it fetches when keys lead there.

Removals, decisions, bridges and revisions are seldom, and the kernel does not do them: a session of
the reference engine, opened on what this one holds, does, and what it has changed comes back. Both
engines take the same steps to the last bit, so nobody can tell which it was.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from copy import deepcopy
from ctypes import CDLL
from dataclasses import replace
from typing import Any, TypeVar

import numpy as np

from kbforge.clustering.ahead import LookAhead
from kbforge.clustering.compiled.bindings import CompiledBindings
from kbforge.clustering.compiled.black_box import BlackBoxClusters
from kbforge.clustering.compiled.bridges import Bridges
from kbforge.clustering.compiled.clusters import Clusters, InKernel, InPython, Rivals
from kbforge.clustering.compiled.copies import Copies
from kbforge.clustering.compiled.holding import SessionPages
from kbforge.clustering.compiled.intake import OneByOne, together
from kbforge.clustering.compiled.run import CompiledRun, Records
from kbforge.clustering.online.black_box import FragmentsByNumber, SessionScores, StepDemand
from kbforge.clustering.online.scoring import shared
from kbforge.clustering.paging.codec import numbers_in
from kbforge.clustering.paging.reading import subproblem_of
from kbforge.clustering.paging.totals import require_same, settings_of
from kbforge.clustering.plan import InfeasibleFragment
from kbforge.clustering.prior import DirichletProcess
from kbforge.clustering.rules import Rules
from kbforge.clustering.session import OnlineSession
from kbforge.contracts import (
    Checkpoint,
    Cluster,
    ConjugateLikelihood,
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
    Totals,
)
from kbforge.errors import UsageError
from kbforge.models.score_cache import ScoreCache

_T = TypeVar("_T")


class CompiledSession:
    """See `kbforge.contracts.Session`.

    Args:
        kernel: the library.
        problem: what to cluster by.
        rules: how.
        rng: the session's own.
        snapshot: as of `OnlineSession`.
        pages: likewise.

    Raises:
        UsageError: as `OnlineSession`.

    """

    def __init__(
        self,
        kernel: CDLL,
        problem: Problem,
        rules: Rules,
        rng: np.random.Generator,
        snapshot: Snapshot | None = None,
        pages: Pages | None = None,
    ) -> None:
        if snapshot is not None and pages is not None:
            raise UsageError("a session continues from a snapshot or from pages, not from both")
        rules = self._rules = rules.settled(problem.index is not None)
        self._rng, self._kernel = rng, kernel
        self._prior = DirichletProcess(problem.alpha)
        self._settings = settings_of(problem, rules)
        self._asked = shared(problem)  # what is asked: with M = 0, the surrogate alone
        self.sets: SessionScores | None = None
        if isinstance(self._asked.likelihood, ScoreCache):
            self.sets = SessionScores(self._asked.likelihood)
            problem = replace(problem, likelihood=self._asked.likelihood)
        self._problem = problem
        # in one subproblem every fragment changes what the next is compared with
        self._ahead = LookAhead(rules.wave if rules.splits else 1)
        self._run = CompiledRun(kernel, rules, self._prior, problem.index, rng)
        self._copies = Copies(kernel, self._run.handle, self._prior)
        self._paged = pages is not None
        # whether a step looks at all clusters
        self._whole = problem.index is None or not rules.splits
        self._bindings = CompiledBindings(kernel, self._run.handle)
        self._holding = SessionPages(
            self._run, self._copies, self._bindings, self._made, self._totals
        )
        self._bridges = Bridges(self._holding, self._copies, self._prior)
        self._last: tuple[int, Records, int] | None = None  # a fragment, and where its record is
        self._changed: set[int] = set()
        self._gone: set[int] = set()
        # as of `kbforge.clustering.core.Core`
        self._since: dict[int, bool] | None = None
        constraints = problem.constraints
        if snapshot is not None:
            constraints = snapshot.totals.constraints
            self._begin(snapshot.totals, "the snapshot is", None)
            numbers = numbers_in(snapshot.pages)
            held = dict(zip(numbers, snapshot.fragments, strict=True))
            self._holding.put(snapshot.pages, held)
            self._copies.put_led(snapshot.led, changes=False)
            if self.sets is not None:
                self.sets.remember(snapshot.scores)
        elif pages is not None:
            constraints = pages.totals.constraints
            self._begin(pages.totals, "the pages are", pages)
            self._since = {}
            self._copies.changed_led()  # from now on it is noted what changes
        self._bindings.bind(constraints, self._holding.here())

    def _made(self) -> Clusters:
        """An empty table."""
        problem = self._asked
        if self.sets is None:
            assert isinstance(problem.likelihood, ConjugateLikelihood)
            return self._table(problem.likelihood)
        surrogate = None if problem.surrogate is None else self._table(problem.surrogate)
        limit = self._rules.limit if surrogate is None else problem.max_evals
        return BlackBoxClusters(
            self._run, self.sets, self._fragments, problem.index, surrogate, limit
        )

    def _table(self, likelihood: ConjugateLikelihood) -> InKernel | InPython:
        index, held = self._asked.index, self._fragments
        table = likelihood.compiled_clusters(self._kernel)
        if table is None:
            return InPython(self._run, likelihood, held, index, self._paged)
        return InKernel(self._kernel, self._run, table, likelihood, held, index)

    def _fragments(self) -> FragmentsByNumber:
        return self._holding.held

    def _begin(self, totals: Totals, source: str, pages: Pages | None) -> None:
        require_same(self._problem, self._rng, totals, self._settings, source)
        self._rng.bit_generator.state = deepcopy(dict(totals.rng))
        if self.sets is not None:
            self.sets.resume(totals.evaluations)
        self._holding.follow(totals, pages)

    # -- what the kernel does -----------------------------------------------------------------

    @property
    def n_fragments(self) -> int:
        """How many fragments there are."""
        return self._holding.n_fragments

    @property
    def fragments(self) -> tuple[Fragment, ...]:
        """Those that there are, in order of arrival."""
        self._holding.have_all()
        return tuple(x for x in self._holding.held if x is not None)

    @property
    def constraints(self) -> Constraints:
        """Those in force."""
        return self._bindings.constraints

    def number(self, id: str) -> int:
        """The number of a fragment.

        Raises:
            UsageError: there is none of that id, or there are several.

        """
        self._holding.have_ids((id,))
        return self._holding.ids.of(id)

    def foresee(self, fragments: Sequence[Fragment]) -> None:
        """These are to be added next."""
        self._ahead.foresee(fragments)

    def coming(self, x: Fragment, after: int) -> StepDemand:
        """See `kbforge.clustering.ahead`."""
        holding = self._holding
        clusters = holding.clusters
        assert isinstance(clusters, BlackBoxClusters)
        holding.settle()
        if self._whole:
            holding.have_all()
        records = clusters.read((x,))
        holding.lead(records.keys)
        holding.have_ids(self._bindings.mates(x))
        number = len(holding.held) + after
        self._bindings.preview(number, x)
        coming = clusters.coming(number, x, records)
        if coming is None:
            holding.reach(records.keys, closed=True)
            coming = clusters.coming(number, x, records)
        assert coming is not None, "what its keys lead to is here"
        return coming

    def add(self, fragments: Sequence[Fragment]) -> list[Info]:
        """Take in fragments, one after another."""
        if fragments and not self._ahead.expects(fragments[0]):
            self._ahead.foresee(fragments)
        clusters = self._holding.clusters
        alone = self._paged or self._rules.draws or len(fragments) < 2
        if alone or not isinstance(clusters, InKernel):
            return list(self.adding(fragments))
        out: list[Info] = []

        def note(taken: Sequence[Fragment], infos: Sequence[Info]) -> None:
            self._note(taken, infos)
            out.extend(infos)

        def cornered(x: Fragment) -> None:
            out.append(self._add_cornered(x))

        index = self._problem.index
        together(self._run, self._holding, clusters, index, fragments, note, cornered)
        return out

    def adding(self, fragments: Iterable[Fragment]) -> Iterator[Info]:
        """Take in fragments, each when it is asked for."""
        given = list(fragments)
        ahead = OneByOne(self._holding, self._whole, given)
        for at, x in enumerate(given):
            self._ahead.before(self, x)
            try:
                info, records, k = ahead.take(at)
            except InfeasibleFragment:
                yield self._add_cornered(x)
                continue
            self._note((x,), (info,))
            self._last = info.fragment, records, k
            clusters = self._holding.clusters
            if isinstance(clusters, BlackBoxClusters):
                keys = () if self._problem.index is None else self._run.open_keys()
                self._ahead.after(info.before, clusters.asked, keys)
            yield info

    def _note(self, fragments: Sequence[Fragment], infos: Sequence[Info]) -> None:
        self._holding.took_in(fragments, [info.fragment for info in infos])
        for info in infos:
            self._replaced(info.before, info.after)
            if self._since is not None:
                for name in info.before:
                    self._since.setdefault(name, True)
                for name in info.after:
                    self._since.setdefault(name, False)

    def _replaced(self, before: Iterable[int], after: Iterable[int]) -> None:
        """These subproblems have taken the place of those."""
        self._gone.update(before)
        self._gone.difference_update(after)
        self._changed.difference_update(before)
        self._changed.update(after)

    def subproblem(self, name: int) -> Subproblem:
        """One subproblem, its fragments by their numbers."""
        self._require(name)
        return subproblem_of(self._copies.page(name))

    def clusters(self, name: int) -> tuple[Cluster, ...]:
        """The heaviest particle of one subproblem, its fragments by their numbers."""
        found = self._copies.heaviest(name)
        if found is None:
            self._require(name)
            found = self._copies.heaviest(name)
        assert found is not None, "it is here"
        return tuple(found)

    def _require(self, name: int) -> None:
        """Have a subproblem here.

        Raises:
            KeyError: there is none of that name.

        """
        self._holding.have((name,))
        if self._holding.homes((name,)).get(name) != name:
            raise KeyError(name)

    def posterior(self) -> Posterior:
        """What is known about the grouping of the fragments that there are."""
        holding, places = self._holding, None
        holding.have_all()
        if holding.n_fragments < len(holding.held):
            there = np.array([x is not None for x in holding.held], dtype=np.int64)
            places = np.cumsum(there) - 1
        return self._copies.posterior(
            places, holding.n_fragments, self._evaluations, self._ahead.in_vain
        )

    @property
    def _evaluations(self) -> int:
        """Sets scored."""
        return self._copies.totals().evaluations if self.sets is None else self.sets.evaluations

    def touched(self) -> SubproblemChanges:
        """The subproblems changed since this was last asked, or else since the opening."""
        out = SubproblemChanges(tuple(sorted(self._changed)), tuple(sorted(self._gone)))
        self._changed.clear()
        self._gone.clear()
        return out

    def snapshot(self) -> Snapshot:
        """The session as plain data."""
        copies = self._copies
        fragments = self.fragments
        self._holding.have_keys()
        pages = tuple(copies.pages(copies.names()))
        led = {} if self._problem.index is None else copies.led()
        scores = {} if self.sets is None else self.sets.contents()
        return Snapshot(fragments, self._totals(), pages, led, scores)

    def checkpoint(self) -> Checkpoint:
        """What is other than at the last checkpoint."""
        copies, since = self._copies, self._since
        if since is None:
            there, gone = copies.names(), list[int]()
        else:
            homes = self._holding.homes(list(since))
            there = np.array(sorted(n for n in since if homes.get(n) == n), dtype=np.int64)
            gone = sorted(n for n, was in since.items() if was and homes.get(n) != n)
        self._since = {}
        led = {} if self._problem.index is None else copies.changed_led()
        return Checkpoint(self._totals(), tuple(copies.pages(there)), tuple(gone), led)

    def _totals(self) -> Totals:
        known = self._copies.totals()
        free: list[int] = known.free[: known.n_free]
        return Totals(
            settings=dict(self._settings),
            constraints=self.constraints,
            n_fragments=self._holding.n_fragments,
            n_numbers=len(self._holding.held),
            n_slots=known.slots,
            free=np.array(free, dtype=np.int64),
            n_subproblems=known.subproblems,
            log10_effective_particles=known.log10_effective,
            evaluations=self._evaluations,
            rng=_state_of(self._rng),
        )

    # -- what the reference does --------------------------------------------------------------

    def remove(self, ids: Sequence[str]) -> None:
        """Take fragments out again, all of them or, whatever is raised, none."""
        removed = {self.number(id): id for id in ids}
        if removed:
            self._beside(lambda session: session.remove(ids), removed)

    def revise(
        self,
        passes: int = 1,
        ids: Sequence[str] | None = None,
        after_step: Callable[[], None] | None = None,
    ) -> Revision:
        """Spend time on old mistakes."""
        for id in ids or ():
            self.number(id)

        def act(session: OnlineSession) -> Revision:
            if after_step is None:
                return session.revise(passes, ids)

            def followed() -> None:
                self._follow(session, {})
                after_step()

            return session.revise(passes, ids, followed)

        return self._beside(act)

    def bridge(self, id: str) -> float:
        """Make one of the clusters that a new fragment belongs to."""
        number = self._number_of(id)
        rivals = self._rivals(number)
        if rivals is None:
            return self._beside(lambda session: session.bridge(id))
        others = self._bridges.of(number, rivals)
        return self._beside(lambda session: session.make_one(number, others)) if others else 0.0

    def _number_of(self, id: str) -> int:
        """As `number`; the last fragment's is known."""
        if self._last is not None:
            last = self._holding.held[self._last[0]]
            if last is not None and last.id == id:
                return self._last[0]
        return self.number(id)

    def _rivals(self, number: int) -> Rivals | None:
        """Where else a fragment could be; None: its keys lead to what lies elsewhere."""
        clusters, x = self._holding.clusters, self._holding.held[number]
        assert x is not None
        if self._last is not None and self._last[0] == number:
            return clusters.rivals(number, x, *self._last[1:])
        if self._whole:
            self._holding.have_all()
        records = clusters.read([x])
        self._holding.lead(records.keys)
        return clusters.rivals(number, x, records, 0)

    def constrain(self, decisions: Sequence[Decision]) -> None:
        """Have these decisions honoured, too, from now on."""
        if decisions:
            self._beside(lambda session: session.constrain(decisions))

    def lift(self, decisions: Sequence[Decision]) -> None:
        """Honour these decisions no longer."""
        if decisions:
            self._beside(lambda session: session.lift(decisions))

    def _add_cornered(self, x: Fragment) -> Info:
        """Take in a fragment that constraints leave no place."""
        return self._beside(lambda session: session.add([x])[0], added=x)

    def _beside(
        self,
        act: Callable[[OnlineSession], _T],
        removed: Mapping[int, str] | None = None,
        added: Fragment | None = None,
    ) -> _T:
        """Have the reference do something to what is held; what it has changed comes back.

        Args:
            act: does it.
            removed: the ids of the fragments that it takes out, by number, unless it raises.
            added: the fragment that it takes in, unless it raises.

        """
        problem = replace(self._problem, constraints=self.constraints)
        beside = OnlineSession(problem, self._rules, self._rng, pages=self._holding, sets=self.sets)
        gone: Mapping[int, str] = {}
        try:
            done = act(beside)
            gone = removed or {}
            if added is not None:
                self._holding.took_in((added,), (len(self._holding.held),))
        finally:
            self._follow(beside, gone)
        return done

    def _follow(self, beside: OnlineSession, gone: Mapping[int, str]) -> None:
        """Be as a session of the reference that was opened on this one, or last followed.

        Args:
            beside: has changed something.
            gone: the ids of the fragments that it has taken out, by number.

        """
        since, touched = beside.since, beside.touched()
        self._holding.replace(since, beside.checkpoint(), gone)
        if beside.constraints != self.constraints:
            self._bindings.bind(beside.constraints, self._holding.here())
        self._replaced(touched.gone, touched.changed)
        if self._since is not None:
            self._since = {**since, **self._since}
        self._last = None


def _state_of(rng: np.random.Generator) -> Mapping[str, Any]:
    state: Mapping[str, Any] = deepcopy(rng.bit_generator.state)
    return state
