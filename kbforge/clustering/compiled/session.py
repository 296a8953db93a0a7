"""A session in the compiled kernel.

It takes in fragments, and says what is known of their grouping. Whatever else a session can do,
decisions, removals, revisions, is seldom and needs the fragments themselves. The first time that it
is asked for, the run goes over to the reference engine, by a snapshot, and stays there. Both
engines take the same steps to the last bit, so nobody can tell when that was.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from copy import deepcopy
from ctypes import CDLL
from itertools import zip_longest
from typing import Any, NamedTuple

import numpy as np

from kbforge.clustering.compiled.run import CompiledRun
from kbforge.clustering.ids import Ids
from kbforge.clustering.online.scoring import without_model
from kbforge.clustering.paging.reading import subproblem_of
from kbforge.clustering.paging.totals import settings_of
from kbforge.clustering.prior import DirichletProcess
from kbforge.clustering.rules import Rules
from kbforge.clustering.session import OnlineSession
from kbforge.contracts import (
    Checkpoint,
    Cluster,
    CompiledClusters,
    ConjugateLikelihood,
    Constraints,
    Decision,
    Encoded,
    Fragment,
    Info,
    IntArray,
    LiveClusters,
    Posterior,
    Problem,
    Revised,
    Snapshot,
    Subproblem,
    Totals,
    Touched,
)
from kbforge.errors import LikelihoodError, quoted

_AT_ONCE = 512
"""Fragments that are encoded before the kernel takes them in."""


class _Read(NamedTuple):
    """Fragments, what the kernel reads of them, and their keys."""

    fragments: Sequence[Fragment]
    records: Encoded
    keys: tuple[IntArray, IntArray]


def can_compile(problem: Problem, rules: Rules) -> bool:
    """Whether the kernel takes the steps of such a session."""
    return (
        rules.resampler.keeps_heaviest
        and rules.weights == "target"
        and not rules.sampled_merges
        and not problem.constraints
        and (problem.surrogate is None or problem.max_evals == 0)
        and isinstance(without_model(problem).likelihood, ConjugateLikelihood)
    )


class CompiledSession:
    """See `kbforge.contracts.Session`.

    Args:
        kernel: the library.
        problem: what to cluster by; `can_compile` has said yes.
        rules: how.
        rng: for what the reference engine draws.

    """

    def __init__(
        self, kernel: CDLL, problem: Problem, rules: Rules, rng: np.random.Generator
    ) -> None:
        self._rules = rules.settled(problem.index is not None)
        self._problem, self._rng = problem, rng
        self._prior = DirichletProcess(problem.alpha)
        self._settings = settings_of(problem, self._rules)
        self._run = CompiledRun(kernel, self._rules, self._prior, problem.index)
        likelihood = without_model(problem).likelihood
        assert isinstance(likelihood, ConjugateLikelihood)
        self._likelihood = likelihood
        self._compiled = likelihood.compiled_clusters(kernel)
        self._live: LiveClusters | None = None
        self._fragments: list[Fragment] = []
        self._ids = Ids(lambda: dict(enumerate(self._fragments)))
        self._changed: set[int] = set()
        self._gone: set[int] = set()
        self._reference: OnlineSession | None = None

    # -- what the kernel does -----------------------------------------------------------------

    @property
    def n_fragments(self) -> int:
        """How many fragments there are."""
        return self._reference.n_fragments if self._reference else len(self._fragments)

    @property
    def fragments(self) -> tuple[Fragment, ...]:
        """Those that there are, in order of arrival."""
        return self._reference.fragments if self._reference else tuple(self._fragments)

    @property
    def constraints(self) -> Constraints:
        """Those in force."""
        return self._reference.constraints if self._reference else Constraints()

    def number(self, id: str) -> int:
        """The number of a fragment.

        Raises:
            UsageError: there is none of that id, or there are several.

        """
        return self._reference.number(id) if self._reference else self._ids.of(id)

    def foresee(self, fragments: Sequence[Fragment]) -> None:
        """These are to be added next; its likelihoods have nothing to do for several at once."""

    def add(self, fragments: Sequence[Fragment]) -> list[Info]:
        """Take in fragments, one after another."""
        if self._reference is not None:
            return self._reference.add(fragments)
        if self._compiled is None:
            return [self._add(fragment) for fragment in fragments]
        return self._add_ahead(self._compiled, fragments)

    def _add(self, x: Fragment) -> Info:
        """Take in one fragment by a live table in Python."""
        run, index = self._run, self._problem.index
        try:
            live = self._live or self._likelihood.live_clusters()
            seen = live.encode(x)
            slots = run.look_up(() if index is None else index.keys(x))
            if index is None:
                predictive = live.log_predictive(seen, run.n_slots)[slots]
            else:
                predictive = live.log_predictive_of(seen, slots)
            info, parents, children = run.take_in(predictive, live.log_predictive_new(seen))
        except LikelihoodError as error:
            raise LikelihoodError(f'fragment "{quoted(x.id)}": {error}') from error
        self._live = live
        live.extend(seen, parents, children)
        dropped = run.dropped()
        if len(dropped):
            live.release(dropped)
        self._note((x,), (info,))
        return info

    def _add_ahead(self, table: CompiledClusters, fragments: Sequence[Fragment]) -> list[Info]:
        """Take in fragments by a likelihood of the kernel's own.

        While the kernel takes some in, the next ones are encoded.
        """
        parts = [fragments[i : i + _AT_ONCE] for i in range(0, len(fragments), _AT_ONCE)]
        out: list[Info] = []
        with ThreadPoolExecutor(1) as beside:
            ahead = [beside.submit(self._encoded, table, part) for part in parts[:1]]
            try:
                for _, following in zip_longest(parts, parts[1:]):
                    encoded, refusal = ahead[0].result()
                    for one in encoded:
                        table.tell(one.records)
                    del ahead[0]
                    if following is not None:
                        ahead.append(beside.submit(self._encoded, table, following))
                    for one in encoded:
                        infos, wrong = self._run.add(table, one.records, one.keys)
                        self._note(one.fragments[: len(infos)], infos)
                        out += infos
                        if wrong is not None:
                            bad = quoted(one.fragments[len(infos)].id)
                            raise LikelihoodError(f'fragment "{bad}": {wrong}')
                    if refusal is not None:
                        raise refusal
            finally:
                for left in ahead:  # what was encoded has numbers that the kernel must know
                    for one in left.result()[0]:
                        table.tell(one.records)
        return out

    def _encoded(
        self, table: CompiledClusters, fragments: Sequence[Fragment]
    ) -> tuple[list[_Read], LikelihoodError | None]:
        """Fragments as the kernel reads them, and why it cannot read the one that follows these."""
        try:
            return [self._read(table, fragments)], None
        except LikelihoodError:
            encoded: list[_Read] = []
            for fragment in fragments:
                try:
                    encoded.append(self._read(table, (fragment,)))
                except LikelihoodError as error:
                    return encoded, error
            raise

    def _read(self, table: CompiledClusters, fragments: Sequence[Fragment]) -> _Read:
        return _Read(fragments, table.encode(fragments), self._keys(fragments))

    def _keys(self, fragments: Sequence[Fragment]) -> tuple[IntArray, IntArray]:
        """Where each fragment's keys begin, and the keys."""
        index = self._problem.index
        if index is None:
            return np.zeros(len(fragments) + 1, dtype=np.int64), np.zeros(0, dtype=np.int64)
        return index.keys_of(fragments)

    def _note(self, fragments: Sequence[Fragment], infos: Sequence[Info]) -> None:
        self._fragments += fragments
        self._ids.put({info.fragment: x for info, x in zip(infos, fragments, strict=True)})
        for info in infos:
            self._gone.update(info.before)
            self._gone.difference_update(info.after)
            self._changed.difference_update(info.before)
            self._changed.update(info.after)

    def subproblem(self, name: int) -> Subproblem:
        """One subproblem, its fragments by their numbers."""
        if self._reference is not None:
            return self._reference.subproblem(name)
        return subproblem_of(self._run.pages(np.array([name]))[0])

    def clusters(self, name: int) -> tuple[Cluster, ...]:
        """The heaviest particle of one subproblem, its fragments by their numbers."""
        if self._reference is not None:
            return self._reference.clusters(name)
        return self.subproblem(name).particles[0].clusters

    def posterior(self) -> Posterior:
        """What is known about the grouping of the fragments that there are."""
        if self._reference is not None:
            return self._reference.posterior()
        return self._run.posterior()

    def touched(self) -> Touched:
        """The subproblems changed since this was last asked, or else since the opening."""
        if self._reference is not None:
            return self._reference.touched()
        out = Touched(tuple(sorted(self._changed)), tuple(sorted(self._gone)))
        self._changed.clear()
        self._gone.clear()
        return out

    def snapshot(self) -> Snapshot:
        """The session as plain data."""
        if self._reference is not None:
            return self._reference.snapshot()
        run = self._run
        return Snapshot(
            tuple(self._fragments),
            self._totals(),
            tuple(run.pages(run.names())),
            {} if self._problem.index is None else run.led(),
            {},
        )

    def _totals(self) -> Totals:
        known = self._run.totals()
        free: list[int] = known.free[: known.n_free]
        return Totals(
            settings=dict(self._settings),
            constraints=Constraints(),
            n_fragments=known.fragments,
            n_numbers=known.fragments,
            n_slots=known.slots,
            free=np.array(free, dtype=np.int64),
            n_subproblems=known.subproblems,
            log10_effective_particles=known.log10_effective,
            evaluations=known.evaluations,
            rng=_state_of(self._rng),
        )

    # -- what the reference does --------------------------------------------------------------

    def reference(self) -> OnlineSession:
        """The same session in the reference engine."""
        if self._reference is None:
            snapshot = self.snapshot()
            session = OnlineSession(self._problem, self._rules, self._rng, snapshot)
            session.note(self._changed, self._gone)
            self._reference = session
            del self._run, self._compiled, self._live
        return self._reference

    def remove(self, ids: Sequence[str]) -> None:
        """Take fragments out again, all of them or, whatever is raised, none."""
        self.reference().remove(ids)

    def revise(
        self,
        passes: int = 1,
        ids: Sequence[str] | None = None,
        after_step: Callable[[], None] | None = None,
    ) -> Revised:
        """Spend time on old mistakes."""
        return self.reference().revise(passes, ids, after_step)

    def bridge(self, id: str) -> float:
        """Make one of the clusters that a new fragment belongs to."""
        return self.reference().bridge(id)

    def constrain(self, decisions: Sequence[Decision]) -> None:
        """Have these decisions honoured, too, from now on."""
        self.reference().constrain(decisions)

    def lift(self, decisions: Sequence[Decision]) -> None:
        """Honour these decisions no longer."""
        self.reference().lift(decisions)

    def checkpoint(self) -> Checkpoint:
        """What is other than at the last checkpoint."""
        return self.reference().checkpoint()


def _state_of(rng: np.random.Generator) -> Mapping[str, Any]:
    state: Mapping[str, Any] = deepcopy(rng.bit_generator.state)
    return state
