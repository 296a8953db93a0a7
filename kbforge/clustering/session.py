"""A session of sequential Monte Carlo: adds fragments one by one and keeps the state.

The kernel takes the steps. Some of the next fragments are read ahead: their encoding, their keys
and, if subproblems are not in memory, those that their keys lead to.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from itertools import zip_longest
from typing import NamedTuple

import numpy as np

from kbforge.clustering.compiled import EncodedBatch
from kbforge.clustering.constraints import DecisionGraph, called
from kbforge.clustering.decide import (
    add_cornered,
    bridged,
    enforce,
    govern,
    lift,
    plan_removal,
    satisfy,
)
from kbforge.clustering.revise import revised
from kbforge.clustering.rules import InfeasibleFragment, Rules
from kbforge.clustering.scoring import LookAhead, StepDemand
from kbforge.clustering.state import SessionState, numbers_in
from kbforge.clustering.tables import BlackBoxTable, ClusterScorer, keys_of
from kbforge.contracts import (
    Checkpoint,
    Cluster,
    Constraints,
    Decision,
    Fragment,
    ModelSpec,
    OnlineClusterer,
    Pages,
    Posterior,
    Revision,
    Session,
    Snapshot,
    StepResult,
    Subproblem,
    SubproblemChanges,
)
from kbforge.errors import LikelihoodError, UsageError, quoted
from kbforge.kernel.binding import KernelClusters

_AT_ONCE = 512
"""Maximum number of fragments that are read ahead."""


class _Batch(NamedTuple):
    """Fragments encoded for a table; `begin` is the place of the first one among all."""

    table: ClusterScorer
    fragments: Sequence[Fragment]
    records: EncodedBatch
    begin: int


class SmcSession:
    """See `kbforge.contracts.Session`.

    Args:
        spec: what to cluster with.
        rules: how.
        rng: the session's own.
        snapshot: of a session with the same spec and rules, to go on with.
        pages: of one, likewise, instead.

    Raises:
        UsageError: there is nothing to cluster by, or the snapshot or the pages are of another
            session, or both are given.
        ContradictionError: the decisions of the spec cannot all hold.

    """

    def __init__(
        self,
        spec: ModelSpec,
        rules: Rules,
        rng: np.random.Generator,
        snapshot: Snapshot | None = None,
        pages: Pages | None = None,
    ) -> None:
        if snapshot is not None and pages is not None:
            raise UsageError("a session continues from a snapshot or from pages, not from both")
        rules = rules.settled(spec.index is not None)
        state = self._state = SessionState(spec, rules, rng)
        # in one subproblem every fragment changes what the next is compared with
        self._ahead = LookAhead(rules.wave if rules.splits else 1, state.sets, self._coming)
        constraints = spec.constraints
        if snapshot is not None:
            constraints = snapshot.totals.constraints
            state.begin(snapshot.totals, "the snapshot is")
            numbers = numbers_in(snapshot.pages)
            state.put(snapshot.pages, dict(zip(numbers, snapshot.fragments, strict=True)))
            state.run.put_postings(snapshot.postings, changes=False)
            if state.sets is not None:
                state.sets.remember(snapshot.scores)
        elif pages is not None:
            constraints = pages.totals.constraints
            state.begin(pages.totals, "the pages are", pages)
        state.bind(constraints, DecisionGraph(constraints.decisions))

    # -- what is known ------------------------------------------------------------------------

    @property
    def n_fragments(self) -> int:
        return self._state.n_fragments

    @property
    def fragments(self) -> tuple[Fragment, ...]:
        self._state.have_all()
        return tuple(x for _, x in self._state.here())

    @property
    def constraints(self) -> Constraints:
        return self._state.bindings.constraints

    def number(self, id: str) -> int:
        return self._state.number(id)

    def subproblem(self, name: int) -> Subproblem:
        self._require(name)
        return self._state.run.page(name).subproblem()

    def clusters(self, name: int) -> tuple[Cluster, ...]:
        found = self._state.run.heaviest(name)
        if found is None:
            self._require(name)
            found = self._state.run.heaviest(name)
        assert found is not None, "it is here"
        return tuple(found)

    def _require(self, name: int) -> None:
        """Load a subproblem."""
        state = self._state
        state.have((name,))
        if not 0 <= name < len(state.held) or state.home(name) != name:
            raise KeyError(name)

    def posterior(self) -> Posterior:
        state, places = self._state, None
        state.have_all()
        if state.n_fragments < len(state.held):
            there = np.array([x is not None for x in state.held], dtype=np.int64)
            places = np.cumsum(there) - 1
        evaluations, in_vain = state.table.evaluations, self._ahead.in_vain
        return state.run.posterior(places, state.n_fragments, evaluations, in_vain)

    def touched(self) -> SubproblemChanges:
        changed, gone = self._state.changed, self._state.gone
        out = SubproblemChanges(tuple(sorted(changed)), tuple(sorted(gone)))
        changed.clear()
        gone.clear()
        return out

    def snapshot(self) -> Snapshot:
        state, run = self._state, self._state.run
        fragments = self.fragments
        state.have_keys()
        postings = {} if state.spec.index is None else run.postings()
        scores = {} if state.sets is None else state.sets.contents()
        return Snapshot(fragments, state.totals(), tuple(run.pages(run.names())), postings, scores)

    def checkpoint(self) -> Checkpoint:
        state, run, since = self._state, self._state.run, self._state.since
        if since is None:
            there, gone = run.names().tolist(), list[int]()
        else:
            names = sorted(name for name in since if name < len(state.held))
            homes = dict(zip(names, run.homes(names), strict=True))
            there = [name for name in names if homes[name] == name]
            gone = sorted(n for n, was in since.items() if was and homes.get(n) != n)
        state.since = {}
        postings = {} if state.spec.index is None else run.changed_postings()
        return Checkpoint(state.totals(), tuple(state.pages(there)), tuple(gone), postings)

    # -- more fragments -----------------------------------------------------------------------

    def _coming(self, x: Fragment, after: int) -> StepDemand:
        """What a step with x needs now, with `after` fragments before it; may raise."""
        state, table = self._state, self._state.table
        assert isinstance(table, BlackBoxTable)
        records = state.read(x)
        number = len(state.held) + after
        state.bindings.preview(number, x)
        coming = table.coming(number, x, records)
        assert coming is not None, "what its keys lead to is here"
        return coming

    def foresee(self, fragments: Sequence[Fragment]) -> None:
        self._ahead.foresee(fragments)

    def add(self, fragments: Sequence[Fragment]) -> list[StepResult]:
        if fragments and not self._ahead.expects(fragments[0]):
            self._ahead.foresee(fragments)
        state, compiled = self._state, self._state.table.compiled
        alone = state.source is not None or state.rules.draws or len(fragments) < 2
        if alone or compiled is None:
            return list(self.adding(fragments))
        return self._add_together(fragments, compiled)

    def adding(self, fragments: Iterable[Fragment]) -> Iterator[StepResult]:
        given, state, batch = list(fragments), self._state, None
        for at, x in enumerate(given):
            self._ahead.before(x)
            try:
                batch = self._read(given, at, batch)
                step = self._take_in(batch, at - batch.begin)
            except InfeasibleFragment:
                yield self._add_cornered(x)
                continue
            except LikelihoodError as error:
                raise LikelihoodError(f'fragment "{quoted(x.id)}": {error}') from error
            state.took_in((x,), (step.fragment,))
            state.note(step.before, step.after)
            state.last = step.fragment, batch.records, at - batch.begin
            if state.sets is not None:
                keys = () if state.spec.index is None else state.run.open_keys()
                self._ahead.after(step.before, state.table.asked, keys)
            yield step

    def _read(self, given: Sequence[Fragment], at: int, batch: _Batch | None) -> _Batch:
        """Read a fragment, and some of the next ones."""
        state = self._state
        known = batch is not None and at < batch.begin + len(batch.fragments)
        if batch is not None and known and batch.table is state.table:
            return batch
        part = given[at : at + _AT_ONCE]
        while len(part) > 1:
            try:
                return _Batch(state.table, part, state.read_all(part), at)
            except Exception:  # one of them is to be refused, when its turn has come
                part = part[: len(part) // 2]
        records = state.read_all(part)
        return _Batch(state.table, part, records, at)

    def _take_in(self, batch: _Batch, k: int) -> StepResult:
        """Add one of the fragments read, after those before it; errors as those of `add`."""
        state, x = self._state, batch.fragments[k]
        state.have_ids(state.bindings.mates(x))
        state.have_sharing((x,))
        number = len(state.held)
        problem = state.bindings.expect(number, (x,))[1]
        if problem is not None:
            raise problem
        try:
            step = batch.table.add(batch.fragments, batch.records, k)
            if step is None:
                state.reach(batch.records, k, k + 1)
                step = batch.table.add(batch.fragments, batch.records, k)
        except BaseException:
            state.bindings.forget({number: x})
            state.rebind()
            raise
        assert step is not None, "what its keys lead to is here"
        return step

    def _add_cornered(self, x: Fragment) -> StepResult:
        """Add a fragment that constraints leave no place."""
        try:
            return add_cornered(self._state, x)
        except LikelihoodError as error:
            raise LikelihoodError(f'fragment "{quoted(x.id)}": {error}') from error

    def _add_together(
        self, fragments: Sequence[Fragment], compiled: KernelClusters
    ) -> list[StepResult]:
        """Add fragments with a table of the kernel's own, while the next ones are read."""
        steps: list[StepResult] = []
        self._state.last = None
        parts = [fragments[i : i + _AT_ONCE] for i in range(0, len(fragments), _AT_ONCE)]
        with ThreadPoolExecutor(1) as beside:
            ahead = [beside.submit(self._encoded, compiled, part) for part in parts[:1]]
            try:
                for _, following in zip_longest(parts, parts[1:]):
                    batches, refusal = ahead[0].result()
                    for batch in batches:
                        compiled.tell(batch.records.encoded)
                    del ahead[0]
                    if following is not None:
                        ahead.append(beside.submit(self._encoded, compiled, following))
                    for batch in batches:
                        self._take_in_together(batch, compiled, steps)
                    if refusal is not None:
                        raise refusal
            finally:
                for left in ahead:  # what was encoded has numbers that the kernel must know
                    for batch in left.result()[0]:
                        compiled.tell(batch.records.encoded)
        return steps

    def _take_in_together(
        self, batch: _Batch, compiled: KernelClusters, steps: list[StepResult]
    ) -> None:
        state, fragments, at = self._state, batch.fragments, 0
        while at < len(fragments):
            first = len(state.held)
            some, problem = state.bindings.expect(first, fragments[at:])
            taken, refusal = state.run.add(compiled, batch.records, at, at + some)
            left = fragments[at + len(taken) : at + some]
            state.bindings.forget(dict(enumerate(left, first + len(taken))))
            state.took_in(fragments[at : at + len(taken)], [step.fragment for step in taken])
            for step in taken:
                state.note(step.before, step.after)
            steps += taken
            at += len(taken)
            if left or problem is not None:
                state.rebind()
            if isinstance(refusal or problem, InfeasibleFragment):
                steps.append(self._add_cornered(fragments[at]))
                at += 1
            elif refusal is not None:
                raise LikelihoodError(f'fragment "{quoted(fragments[at].id)}": {refusal}')
            elif problem is not None:
                raise problem

    def _encoded(
        self, compiled: KernelClusters, fragments: Sequence[Fragment]
    ) -> tuple[list[_Batch], LikelihoodError | None]:
        """Fragments that the kernel has not received yet, and why it cannot read the next one."""
        state = self._state

        def read(part: Sequence[Fragment]) -> _Batch:
            keys = keys_of(state.spec.index, part)
            return _Batch(state.table, part, EncodedBatch(compiled.read(part), *keys), 0)

        try:
            return [read(fragments)], None
        except LikelihoodError:
            encoded: list[_Batch] = []
            for fragment in fragments:
                try:
                    encoded.append(read((fragment,)))
                except LikelihoodError as error:
                    return encoded, error
            raise

    # -- other changes ------------------------------------------------------------------------

    def remove(self, ids: Sequence[str]) -> None:
        state = self._state
        state.have_ids(ids)
        removed = dict.fromkeys(map(self.number, ids))
        if removed:
            state.have_sharing(map(state.fragment, removed))
            state.replace(plan_removal(state, removed))
            satisfy(state, state.rebind())

    def revise(
        self,
        passes: int = 1,
        ids: Sequence[str] | None = None,
        after_step: Callable[[], None] | None = None,
    ) -> Revision:
        if ids is None:
            self._state.have_all()
        anchors = None if ids is None else [self.number(id) for id in ids]
        return revised(self._state, passes, anchors, after_step or (lambda: None))

    def bridge(self, id: str) -> float:
        state = self._state
        if state.last is not None and state.fragment(state.last[0]).id == id:
            return bridged(state, state.last[0])
        return bridged(state, self.number(id))

    def constrain(self, decisions: Sequence[Decision]) -> None:
        if decisions:
            known = self.constraints
            more = replace(known, decisions=(*known.decisions, *decisions))
            enforce(self._state, more, decisions)

    def govern(self, never: Sequence[str], always: Sequence[str]) -> None:
        known = self.constraints
        wanted = replace(known, never=tuple(never), always=tuple(always))
        if wanted != known:
            govern(self._state, wanted)

    @property
    def contradictions(self) -> Sequence[str]:
        return self._state.bindings.components.unheld

    def lift(self, decisions: Sequence[Decision]) -> None:
        left = list(self.constraints.decisions)
        for decision in decisions:
            if decision not in left:
                raise UsageError(f"no such decision is in force: {called(decision)}")
            left.remove(decision)
        if decisions:
            lift(self._state, replace(self.constraints, decisions=tuple(left)), decisions)


class SequentialMonteCarlo(OnlineClusterer):
    """Common base of greedy, plain and split clustering: all but their rules."""

    def __init__(self, rules: Rules) -> None:
        self._rules = rules

    @property
    def rules(self) -> Rules:
        """Its rules."""
        return self._rules

    def open(
        self,
        spec: ModelSpec,
        rng: np.random.Generator,
        snapshot: Snapshot | None = None,
        pages: Pages | None = None,
    ) -> Session:
        return SmcSession(spec, self._rules, rng, snapshot, pages)

    def finishes_with(self, spec: ModelSpec) -> bool:
        """With a link, fragments are exchanged at the end (`kbforge.clustering.revise`)."""
        linked = spec.constraints.link is not None and self._rules.keeps_heaviest
        return self.finishes or linked

    def finish(self, session: Session, after_step: Callable[[], None]) -> None:
        """Exchange fragments, if a link separates some."""
        session.revise(0, after_step=after_step)
