"""A session in the compiled kernel.

It takes in fragments, says what is known of their grouping, and makes checkpoints. It may begin
with nothing, go on from a snapshot, or be opened on pages, which it fetches when keys lead there.
Some of the next fragments are read ahead: what the likelihood reads of them, their keys, and, where
subproblems lie elsewhere, those that their keys lead to.

Removals, decisions, bridges and revisions are seldom, and the kernel does not do them: a session of
the reference engine, opened on what this one holds, does, and what it has changed comes back. Both
engines take the same steps to the last bit.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from copy import deepcopy
from ctypes import CDLL
from dataclasses import replace
from itertools import zip_longest
from typing import Any, NamedTuple, TypeAlias, TypeVar

import numpy as np

from kbforge.clustering.ahead import LookAhead
from kbforge.clustering.compiled.pages import CompiledBindings, SessionPages
from kbforge.clustering.compiled.run import CompiledRun, Copies, Records
from kbforge.clustering.compiled.tables import (
    BlackBoxClusters,
    Clusters,
    InKernel,
    InPython,
    Rivals,
    keys_of,
)
from kbforge.clustering.decide import nearest, terms_of_one, union_of
from kbforge.clustering.pages import (
    clusters_of,
    numbers_in,
    require_same,
    settings_of,
    subproblem_of,
)
from kbforge.clustering.prior import DirichletProcess
from kbforge.clustering.rules import Rules
from kbforge.clustering.scoring import FragmentsByNumber, SessionScores, StepDemand, shared
from kbforge.clustering.session import OnlineSession
from kbforge.clustering.step import InfeasibleFragment
from kbforge.contracts import (
    CandidateIndex,
    Checkpoint,
    Cluster,
    CompiledClusters,
    ConjugateLikelihood,
    Constraints,
    Decision,
    FloatArray,
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
from kbforge.errors import LikelihoodError, UsageError, quoted
from kbforge.models.scoring import ScoreCache

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


_AT_ONCE = 512
"""Fragments that are read before the kernel takes them in."""

Note: TypeAlias = Callable[[Sequence[Fragment], Sequence[Info]], None]
"""Is told of fragments that were taken in, and what was done."""


class _Ready(NamedTuple):
    """Fragments that have been read.

    Attributes:
        clusters: the table that they are for.
        fragments: as they came.
        records: as the kernel reads them.
        begin: the place of the first of them among all.

    """

    clusters: Clusters
    fragments: Sequence[Fragment]
    records: Records
    begin: int


class OneByOne:
    """Fragments that are taken in each when its turn has come.

    Args:
        holding: what the session holds.
        whole: whether a step looks at all clusters.
        fragments: in order.

    """

    def __init__(self, holding: SessionPages, whole: bool, fragments: Sequence[Fragment]) -> None:
        self._holding, self._whole, self._fragments = holding, whole, fragments
        self._ready: _Ready | None = None

    def take(self, at: int) -> tuple[Info, Records, int]:
        """Take in a fragment; those before it have been.

        Returns:
            What was done, and where the fragment's record is.

        Raises:
            InfeasibleFragment: constraints leave it no place.
            LikelihoodError: as a session's `add`.
            ContradictionError: likewise.

        """
        x, bindings = self._fragments[at], self._holding.bindings
        try:
            ready = self._read(at)
            k = at - ready.begin
            self._holding.have_ids(bindings.mates(x))
            number = len(self._holding.held)
            contradiction = bindings.expect(number, (x,))[1]
            if contradiction is not None:
                raise contradiction
            try:
                info = self._taken_in(ready, k)
            except BaseException:
                bindings.forget({number: x})
                raise
        except LikelihoodError as error:
            raise LikelihoodError(f'fragment "{quoted(x.id)}": {error}') from error
        return info, ready.records, k

    def _taken_in(self, ready: _Ready, k: int) -> Info:
        info = ready.clusters.add(ready.fragments, ready.records, k)
        if info is None:
            self._holding.reach(ready.records.keys_of(k), closed=True)
            info = ready.clusters.add(ready.fragments, ready.records, k)
        assert info is not None, "what its keys lead to is here"
        return info

    def _read(self, at: int) -> _Ready:
        """Have a fragment read, and some of the next ones."""
        ready = self._ready
        known = ready is not None and at < ready.begin + len(ready.fragments)
        if ready is not None and known and ready.clusters is self._holding.clusters:
            return ready
        part = self._fragments[at : at + _AT_ONCE]
        while len(part) > 1:
            try:
                self._ready = self._made(part, at)
                return self._ready
            except Exception:  # one of them is to be refused, when its turn has come
                part = part[: len(part) // 2]
        self._ready = self._made(part, at)
        return self._ready

    def _made(self, fragments: Sequence[Fragment], begin: int) -> _Ready:
        holding = self._holding
        holding.settle()
        if self._whole:
            holding.have_all()
        records = holding.clusters.read(fragments)
        holding.lead(records.keys)
        return _Ready(holding.clusters, fragments, records, begin)


def together(
    run: CompiledRun,
    holding: SessionPages,
    clusters: InKernel,
    index: CandidateIndex | None,
    fragments: Sequence[Fragment],
    note: Note,
    cornered: Callable[[Fragment], None],
) -> None:
    """Take in fragments by a likelihood of the kernel's own; while it does, the next are read.

    Args:
        run: all subproblems of which are here.
        holding: what the session holds.
        clusters: the table.
        index: of the session.
        fragments: in order.
        note: is told of those that were taken in.
        cornered: takes in a fragment that constraints leave no place.

    Raises:
        LikelihoodError: as a session's `add`.
        ContradictionError: likewise.

    """
    table = clusters.table
    parts = [fragments[i : i + _AT_ONCE] for i in range(0, len(fragments), _AT_ONCE)]
    with ThreadPoolExecutor(1) as beside:
        ahead = [beside.submit(_encoded, clusters, index, part) for part in parts[:1]]
        try:
            for _, following in zip_longest(parts, parts[1:]):
                encoded, refusal = ahead[0].result()
                for one in encoded:
                    table.tell(one.records.encoded)
                del ahead[0]
                if following is not None:
                    ahead.append(beside.submit(_encoded, clusters, index, following))
                for one in encoded:
                    _take_in(run, holding, table, one, note, cornered)
                if refusal is not None:
                    raise refusal
        finally:
            for left in ahead:  # what was encoded has numbers that the kernel must know
                for one in left.result()[0]:
                    table.tell(one.records.encoded)


def _take_in(
    run: CompiledRun,
    holding: SessionPages,
    table: CompiledClusters,
    ready: _Ready,
    note: Note,
    cornered: Callable[[Fragment], None],
) -> None:
    """See `together`."""
    fragments, bindings, at = ready.fragments, holding.bindings, 0
    while at < len(fragments):
        first = len(holding.held)
        some, contradiction = bindings.expect(first, fragments[at:])
        infos, refusal = run.add(table, ready.records, at, at + some)
        left = fragments[at + len(infos) : at + some]
        bindings.forget(dict(enumerate(left, first + len(infos))))
        note(fragments[at : at + len(infos)], infos)
        at += len(infos)
        if isinstance(refusal, InfeasibleFragment):
            cornered(fragments[at])
            at += 1
        elif refusal is not None:
            bad = quoted(fragments[at].id)
            raise LikelihoodError(f'fragment "{bad}": {refusal}')
        elif contradiction is not None:
            raise contradiction


def _encoded(
    clusters: InKernel, index: CandidateIndex | None, fragments: Sequence[Fragment]
) -> tuple[list[_Ready], LikelihoodError | None]:
    """Fragments that the kernel is still to be told of, and why it cannot read the next one."""

    def read(part: Sequence[Fragment]) -> _Ready:
        keys = keys_of(index, part)
        return _Ready(clusters, part, Records(clusters.table.encode(part), *keys), 0)

    try:
        return [read(fragments)], None
    except LikelihoodError:
        encoded: list[_Ready] = []
        for fragment in fragments:
            try:
                encoded.append(read((fragment,)))
            except LikelihoodError as error:
                return encoded, error
        raise


_MARGIN = 1e-6
"""Nats that L of a single fragment differs by at most, however it is worked out."""


class Bridges:
    """What new fragments are bridges to.

    Args:
        holding: what the session holds.
        copies: of the run.
        prior: over partitions.

    """

    def __init__(self, holding: SessionPages, copies: Copies, prior: DirichletProcess) -> None:
        self._holding, self._copies, self._prior = holding, copies, prior

    def of(self, number: int, rivals: Rivals) -> list[int]:
        """The clusters of which each and the fragment's own may be worth more as one.

        What the reference counts as evaluations is counted, up to those of the first of them.

        Args:
            number: of the fragment.
            rivals: where else it could be.

        Returns:
            A fragment of each, the first one of a cluster for which it is so.

        Raises:
            LikelihoodError: as a session's `bridge`.

        """
        if not len(rivals.slots):
            return []
        clusters, most = self._holding.clusters, rivals.weights.max()
        clusters.count(1)
        if rivals.alone is not None and most <= self._prior.log_alpha + rivals.alone - _MARGIN:
            return []
        alone = self._prior.log_terms([(number,)], clusters.score([(number,)]))[0]
        slots = nearest(rivals.slots, rivals.weights, alone)
        others = [self._copies.first(slot) for slot in slots]
        while others and not self._is_worth(number, others[0]):
            del others[0]
        return others

    def _is_worth(self, number: int, other: int) -> bool:
        """Whether one cluster of those of two fragments is; if it is, that was not counted."""
        apart = dict([self._cluster(number), self._cluster(other)])
        if len(apart) < 2 or not self._holding.bindings.allow(union_of(apart)):
            return False
        if terms_of_one(self._prior, apart, self._counted) is None:
            return False
        self._holding.clusters.count(-1)  # whoever makes them one looks again
        return True

    def _cluster(self, number: int) -> tuple[Cluster, float]:
        """The cluster of a fragment in the heaviest particle, and its term."""
        page = self._copies.page(self._copies.homes([number])[0])
        held = list(clusters_of(page).values())
        heaviest = page.cells[: page.rows[0]].tolist()
        at = next(cell for cell in heaviest if number in held[cell])
        return held[at], self._prior.log_terms([held[at]], page.scores[at : at + 1])[0]

    def _counted(self, clusters: Sequence[Cluster]) -> FloatArray:
        self._holding.clusters.count(len(clusters))
        return self._holding.clusters.score(clusters)
