"""The parts of a session, and the subproblems that it has in memory.

Pages may be stored elsewhere; a session loads those that it needs. If all clusters that a step
compares are in memory, the result is the same as with all others.

The first fragment that a live table encodes determines what it reads, so the table encodes the
session's first fragment before any page is loaded. Clusters keep their slots, and a page lists them
in the order in which they are to be freed, because slots determine the order of sums over
particles. A page omits what can be computed again to the same bits: membership masks, terms, and
live tables, which are filled again along the clusters' lineage. It includes a black box's scores,
because a network may return other last bits in another batch.
"""

from __future__ import annotations

import math
from collections.abc import Collection, Iterable, Mapping, Sequence
from copy import deepcopy
from dataclasses import replace
from typing import Any

import numpy as np

from kbforge.clustering.compiled import CompiledRun, EncodedBatch
from kbforge.clustering.constraints import Bindings, DecisionGraph, keys_of_values
from kbforge.clustering.regroup import (
    Replacement,
    Row,
    fallen_apart,
    postings_after,
    settled_pages,
)
from kbforge.clustering.rules import DirichletProcess, Rules
from kbforge.clustering.scoring import ScoreCache, SessionScores, shared
from kbforge.clustering.tables import (
    BlackBoxTable,
    ClusterScorer,
    ConjugateTable,
    KernelTable,
    PythonTable,
    Rivals,
    RuledIndex,
    keys_of,
)
from kbforge.contracts import (
    Cluster,
    ConjugateLikelihood,
    Constraints,
    Fragment,
    KeyFamilies,
    ModelSpec,
    Pages,
    SubproblemData,
    Totals,
)
from kbforge.errors import UsageError, quoted
from kbforge.kernel.binding import KernelClusters, kernel_library

_WINDOW = 64
"""How many numbers to search for the first fragment at once; doubled until one is found."""
_AT_ONCE = 10_000
"""Maximum number of pages fetched together."""
_SEVERAL = -1


class SessionState:
    """A session without its interface.

    Args:
        spec: what to cluster with.
        rules: the settled rules.
        rng: the session's own.

    Attributes:
        held: fragments by number; None if it is not in memory.
        n_fragments: the number of fragments, in memory or elsewhere.
        source: where the other subproblems are; None if all are in memory.
        last: the last added fragment, and its record; None if the table has read other fragments
            since.
        changed: names of subproblems that are new since the last query.
        gone: names of those that no longer exist.
        since: the subproblems replaced or new since the last checkpoint, by name, and whether that
            name existed then; None before the first checkpoint.
    """

    def __init__(
        self,
        spec: ModelSpec,
        rules: Rules,
        rng: np.random.Generator,
    ) -> None:
        self.spec, self.rules, self.rng = shared(spec), rules, rng
        self.prior = DirichletProcess.of(spec)
        self.settings = settings_of(spec, rules)
        # whether a step looks at all clusters
        self._whole = spec.index is None or not rules.splits
        self.run = CompiledRun(kernel_library(), rules, self.prior, spec.index, rng)
        self._index = None if spec.index is None else RuledIndex(spec.index, Constraints())
        self.spec = replace(self.spec, index=self._index)
        self.sets: SessionScores | None = None
        if isinstance(self.spec.likelihood, ScoreCache):
            self.sets = SessionScores(self.spec.likelihood)
        self.bindings = Bindings(self.run)
        self.held: list[Fragment | None] = []
        self.n_fragments = 0
        self.table = self._new_table()
        self.source: Pages | None = None
        self.last: tuple[int, EncodedBatch, int] | None = None
        self.changed, self.gone = set[int](), set[int]()
        self.since: dict[int, bool] | None = None
        self._settled = True
        self._numbers: dict[str, int] | None = None  # by id; made when it is first asked for
        self._known: set[int] = set()  # keys, of a session with a source
        self._asked: set[str] = set()  # ids that were looked up in it
        self._shared: set[tuple[str, str]] = set()  # values of rules whose fragments are here
        self._absent: set[int] = set()  # numbers that no fragment has, as far as they are known
        self._searched = 0  # no fragment has a smaller number

    def _new_table(self) -> ClusterScorer:
        """An empty table."""
        spec = self.spec
        if self.sets is None:
            assert isinstance(spec.likelihood, ConjugateLikelihood)
            return self._conjugate_table(spec.likelihood)
        surrogate = None if spec.surrogate is None else self._conjugate_table(spec.surrogate)
        limit = self.rules.limit if surrogate is None else spec.max_evals
        return BlackBoxTable(self.run, self.sets, lambda: self.held, spec.index, surrogate, limit)

    def _conjugate_table(self, likelihood: ConjugateLikelihood) -> ConjugateTable:
        run, index, held = self.run, self.spec.index, lambda: self.held
        live = likelihood.live_clusters()
        if isinstance(live, KernelClusters):
            return KernelTable(run, live, likelihood, held, index)
        return PythonTable(run, likelihood, held, index)

    def begin(self, totals: Totals, said: str, source: Pages | None = None) -> None:
        """Continue, while empty, from another session's totals; its pages come later or from
        `source`.

        Raises:
            UsageError: as `require_same`; the message calls the totals `said`.
        """
        require_same(self.spec, self.rng, totals, self.settings, said)
        self.rng.bit_generator.state = deepcopy(dict(totals.rng))
        if self.sets is not None:
            self.sets.resume(totals.evaluations)
        self.held = [None] * totals.n_numbers
        self.n_fragments, self.source = totals.n_fragments, source
        self._settled = source is None
        self.run.resume(totals, source is not None)
        if source is not None:
            self.since, self._numbers = {}, {}
            self.run.changed_postings()  # from now on it is noted what changes

    def bind(self, constraints: Constraints, graph: DecisionGraph) -> list[int]:
        """Apply these constraints from now on; the particles stay.

        Returns the fragments that rules bind in another way now.
        """
        every = any((constraints.link, constraints.known, *constraints.rules))
        some = None if every else self.with_ids(graph.component)
        changed = self.bindings.bind(constraints, graph, self.here(some))
        if self._index is not None:
            self._index.constraints = constraints
        return [n for n in changed if self.ruled and n < len(self.held) and self.held[n]]

    def rebind(self) -> list[int]:
        """The same after fragments have gone, or were announced and have not come."""
        return self.bind(self.bindings.constraints, self.bindings.graph) if self.ruled else []

    @property
    def ruled(self) -> bool:
        """Whether rules are in force."""
        return any(self.bindings.constraints.rules)

    # -- what is known ------------------------------------------------------------------------

    def here(self, among: Iterable[int] | None = None) -> Iterable[tuple[int, Fragment]]:
        """The fragments in memory, by ascending number, of all or `among` ascending numbers."""
        numbers = range(len(self.held)) if among is None else among
        return ((number, x) for number in numbers if (x := self.held[number]) is not None)

    def with_ids(self, ids: Collection[str]) -> list[int]:
        """The fragments in memory with one of these ids, ascending."""
        known = self._numbers
        found = [_SEVERAL] if known is None else [known[id] for id in ids if id in known]
        if _SEVERAL in found:
            return [number for number, x in self.here() if x.id in ids]
        return sorted(found)

    def fragment(self, number: int) -> Fragment:
        """A fragment in memory."""
        x = self.held[number]
        assert x is not None
        return x

    def number(self, id: str) -> int:
        """The number of a fragment.

        Raises:
            UsageError: there is none with that id, or there are several.

        """
        self.have_ids((id,))
        if self._numbers is None:
            self._numbers = {}
            self._put_ids(dict(self.here()))
        found = self._numbers.get(id)
        if found is None:
            raise UsageError(f'no fragment of the session has the id "{quoted(id)}"')
        if found == _SEVERAL:
            raise UsageError(f'several fragments of the session have the id "{quoted(id)}"')
        return found

    def _put_ids(self, fragments: Mapping[int, Fragment]) -> None:
        if self._numbers is not None:
            for number, x in fragments.items():
                self._numbers[x.id] = _SEVERAL if x.id in self._numbers else number

    def home(self, number: int) -> int:
        """The subproblem of a fragment in memory."""
        return self.run.homes([number])[0]

    def pages(self, names: Iterable[int]) -> list[SubproblemData]:
        """Subproblems in memory."""
        return self.run.pages(np.array(list(names), dtype=np.int64))

    def cluster_of(self, number: int) -> tuple[Cluster, float]:
        """A fragment's cluster in the heaviest particle, and log alpha + e lgamma(|C|) + L(C)."""
        (cluster,), score = self.run.clusters(np.array([self.run.slot_of(number)]))
        return cluster, float(self.prior.log_terms([cluster], score)[0])

    def rivals(self, number: int, lone: bool = True) -> Rivals:
        """Other places for a fragment; `lone`: even if it is alone in its cluster."""
        x = self.fragment(number)
        if self.last is not None and self.last[0] == number:
            records, k = self.last[1:]
        else:
            records, k = self.read(x), 0
        found = self.table.rivals(number, x, records, k, lone)
        if found is None:
            records, k = self.read(x), 0
            found = self.table.rivals(number, x, records, k, lone)
        assert found is not None, "what its keys lead to is here"
        return found

    def keys(self, numbers: Sequence[int]) -> dict[int, list[int]]:
        """The keys of fragments in the index; their families are loaded."""
        if self.spec.index is None:
            return {}
        starts, flat = keys_of(self.spec.index, [self.fragment(n) for n in numbers])
        self.know(flat.tolist())
        bounds, keys = starts.tolist(), flat.tolist()
        return {n: keys[bounds[k] : bounds[k + 1]] for k, n in enumerate(numbers)}

    def totals(self) -> Totals:
        """The data outside the subproblems."""
        known = self.run.totals()
        return Totals(
            settings=dict(self.settings),
            constraints=self.bindings.constraints,
            n_fragments=self.n_fragments,
            n_numbers=len(self.held),
            n_slots=known.slots,
            free=np.array(known.free, dtype=np.int64),
            n_subproblems=known.subproblems,
            log10_effective_particles=known.log10_effective,
            evaluations=self.table.evaluations,
            rng=deepcopy(self.rng.bit_generator.state),
        )

    # -- have it here -------------------------------------------------------------------------

    def settle(self) -> None:
        """Make a table that has encoded the first fragment. May raise."""
        if self._settled:
            return
        first = self._first()
        if first is not None:
            assert self.source is not None
            self.table.show(self.held[first] or self.source.fragments([first])[first])
        self._settled = True

    def know(self, keys: Iterable[int]) -> None:
        """Load the families of these keys."""
        if self.source is None:
            return
        unknown = [key for key in dict.fromkeys(keys) if key not in self._known]
        if unknown:
            self.run.put_postings(self.source.postings(unknown), changes=False)
            self._known.update(unknown)

    def have(self, numbers: Iterable[int]) -> None:
        """Load the subproblems of those of the fragments that exist."""
        wanted = [number for number in numbers if self._is_elsewhere(number)]
        if not wanted:
            return
        assert self.source is not None
        homes = self.source.homes(wanted)
        nowhere = [number for number in wanted if number not in homes]
        self._absent.update(nowhere)
        self.run.absent(nowhere)
        self._fetch(sorted(set(homes.values())))

    def have_ids(self, ids: Iterable[str]) -> None:
        """Load the same for the fragments with these ids."""
        if self.source is None:
            return
        unknown = [id for id in ids if id not in self._asked]
        if unknown:
            self.have(sorted(self.source.numbers(unknown).values()))
            self._asked.update(unknown)

    def have_sharing(self, fragments: Iterable[Fragment]) -> None:
        """Load those that rules or decisions may merge with some fragments, and so on."""
        always, ahead = self.bindings.constraints.always, list(fragments)
        while self.source is not None and always and ahead:
            self.have_ids([id for x in ahead for id in self.bindings.mates(x)])
            values = {v for x in ahead for v in self.bindings.constraints.shared(x)} - self._shared
            self._shared |= values
            keys = np.array(keys_of_values(values), dtype=np.int64)
            self.know(keys.tolist())
            self.have(self.run.elsewhere(keys))
            ahead = [self.fragment(n) for n in self.bindings.holders(values)]

    def put_shared(self) -> None:
        """Let the keys of values that rules compare lead to the fragments in memory."""
        leads: dict[int, dict[int, None]] = {}
        for page in self.pages(self.run.names().tolist() if self._index else ()):
            for cluster in sorted(page.clusters().values()):
                for x in map(self.fragment, cluster):
                    for key in keys_of_values(self.bindings.constraints.shared(x)):
                        leads.setdefault(key, {})[cluster[0]] = None
        postings = {key: KeyFamilies(tuple(led), False) for key, led in leads.items()}
        self.run.put_postings(postings, changes=True)
        self._known.update(postings)

    def have_all(self) -> None:
        """Load all subproblems."""
        if self.source is not None:
            self._fetch([name for name in self.source.names() if self._is_elsewhere(name)])

    def have_keys(self) -> None:
        """Load the families of all keys."""
        if self.source is not None:
            self.know(self.source.keys())

    def read(self, x: Fragment) -> EncodedBatch:
        """The encoded fragment for a step; loads what it may be compared with."""
        records = self.read_all((x,))
        self.have_ids(self.bindings.mates(x))
        return records

    def read_all(self, fragments: Sequence[Fragment]) -> EncodedBatch:
        """The same for several fragments, except those that decisions merge with them."""
        self.settle()
        if self._whole:
            self.have_all()
        self.last = None
        records = self.table.read(fragments)
        if self.source is not None:
            self.know(records.keys.tolist())
            self.reach(records, 0, len(fragments))
        return records

    def reach(self, records: EncodedBatch, begin: int, end: int) -> None:
        """Load what some fragments, whose keys are known, may be compared with."""
        before: list[int] = []
        while (missing := self.run.missing(records, begin, end)) != before:
            self.have(missing)
            before = missing

    def _fetch(self, names: Sequence[int]) -> None:
        assert self.source is not None
        for begin in range(0, len(names), _AT_ONCE):
            pages = self.source.pages(names[begin : begin + _AT_ONCE])
            self.put(pages, self.source.fragments(numbers_in(pages)))

    def put(self, pages: Sequence[SubproblemData], fragments: Mapping[int, Fragment]) -> None:
        """Add these subproblems; if an error is raised, nothing has changed."""
        if not pages:
            return
        self.settle()
        self.last = None
        new = {number: fragments[number] for number in numbers_in(pages)}
        self.table.hold(pages, new)
        changed = self.bindings.take_in(new)
        self.run.hold(pages)
        for number, x in new.items():
            self.held[number] = x
        self._put_ids(new)
        if changed:
            self.rebind()

    def _is_elsewhere(self, number: int) -> bool:
        """Whether a fragment may exist that is not in memory."""
        return (
            self.source is not None
            and 0 <= number < len(self.held)
            and self.held[number] is None
            and number not in self._absent
        )

    def _first(self, removed: Collection[int] = ()) -> int | None:
        """The smallest number of an existing fragment, in memory or elsewhere, except some."""
        width, begin = _WINDOW, self._searched
        while begin < len(self.held):
            stop = min(begin + width, len(self.held))
            window = [number for number in range(begin, stop) if number not in removed]
            found = {number for number in window if self.held[number] is not None}
            left = [number for number in window if self._is_elsewhere(number)]
            if left and self.source is not None:
                found.update(self.source.homes(left))
            if found:
                return min(found)
            if not removed:
                self._searched = stop
            begin, width = stop, 2 * width
        return None

    # -- what becomes of it -------------------------------------------------------------------

    def took_in(self, fragments: Sequence[Fragment], numbers: Sequence[int]) -> None:
        """Record that these were added; their numbers are the next ones."""
        self.held += fragments
        self.n_fragments += len(fragments)
        self._put_ids(dict(zip(numbers, fragments, strict=True)))

    def note(self, before: Iterable[int], after: Iterable[int]) -> None:
        """Record that these subproblems were replaced."""
        self.gone.update(before)
        self.gone.difference_update(after)
        self.changed.difference_update(before)
        self.changed.update(after)
        if self.since is not None:
            for name in before:
                self.since.setdefault(name, True)
            for name in after:
                self.since.setdefault(name, False)

    def plan(
        self,
        gone: Collection[int],
        parts: Sequence[Sequence[Row]],
        removed: Collection[int] = (),
    ) -> Replacement:
        """Plan the replacement of subproblems. If an error is raised, nothing has changed.

        The rows of one part group the same fragments, and all parts together group those of `gone`
        without `removed`.

        Raises:
            ImpossibleError: every row of a part is impossible.
            LikelihoodError: a likelihood is NaN.
            Exception: any error of the model or the index.
        """
        self.last = None
        pages, score = self.pages(gone), dict[int, float]()
        before: dict[Cluster, int] = {}
        for page in pages:
            before |= {cluster: slot for slot, cluster in page.clusters().items()}
            score |= dict(zip(page.slots.tolist(), page.scores.tolist(), strict=True))
        wanted = {cluster for rows in parts for row in rows for cluster in row}
        unknown = sorted(wanted.difference(before))
        new = dict(zip(self._vacant(len(unknown)), unknown, strict=True))
        slot_of = {cluster: slot for cluster, slot in before.items() if cluster in wanted}
        slot_of |= {cluster: slot for slot, cluster in new.items()}
        keys = self.keys(numbers_in(pages))
        table, others = self._table_after(removed, slot_of, gone)
        score |= table.make(new, {s: c for s, c in others.items() if s not in new})
        try:
            clusters = list(slot_of)
            scores = np.array([score[slot_of[cluster]] for cluster in clusters])
            terms = self.prior.log_terms(clusters, scores).tolist()
            term = dict(zip(clusters, terms, strict=True))
            now = settled_pages(slot_of, fallen_apart(parts, term, self.rules), score)
        except BaseException:
            table.release(np.array(sorted(new), dtype=np.int64))
            raise
        held = {slot for page in now for slot in page.slots.tolist()}
        postings = self.run.postings_of(
            list(dict.fromkeys(key for own in keys.values() for key in own))
        )
        families = {cluster[0] for cluster in before}
        live = [cluster for cluster, slot in slot_of.items() if slot in held]
        dropped = [slot for slot in [*before.values(), *new] if slot not in held]
        filled = dropped if table is self.table else [s for s in dropped if s in new or s in others]
        return Replacement(
            tuple(sorted(gone)),
            now,
            new,
            dropped,
            np.array(filled, dtype=np.int64),
            postings_after(postings, families, live, keys) if keys else {},
            removed,
            table,
        )

    def _vacant(self, count: int) -> list[int]:
        """The slots for the next clusters: the latest freed first, then new ones."""
        known = self.run.totals()
        reused = known.free[: -count - 1 : -1] if count else []
        return [*reused, *range(known.slots, known.slots + count - len(reused))]

    def _table_after(
        self, removed: Collection[int], slot_of: Mapping[Cluster, int], gone: Collection[int]
    ) -> tuple[ClusterScorer, dict[int, Cluster]]:
        """The table for the clusters, and the clusters to fill it with.

        It is a new one if the first fragment, which determined what the table reads, is removed.
        """
        if not removed or self._first() not in removed:
            return self.table, {}
        table, first = self._new_table(), self._first(removed)
        if first is not None:
            self.have([first])
            table.show(self.fragment(first))
        others = {slot: cluster for cluster, slot in slot_of.items()}
        for page in self.pages(name for name in self.run.names().tolist() if name not in gone):
            others |= page.clusters()
        return table, others

    def replace(self, plan: Replacement) -> None:
        """Write a planned replacement of subproblems."""
        removed = {number: self.fragment(number) for number in plan.removed}
        plan.table.adopt(plan.new, removed)
        self.table = plan.table
        gone, run = self.pages(plan.gone), self.run
        known = run.totals()
        reused, effective = min(len(plan.new), len(known.free)), known.log10_effective
        for page in gone:
            effective -= math.log10(len(page.rows))
        for page in plan.pages:
            effective += math.log10(len(page.rows))
        run.drop(plan.gone)
        totals = replace(
            self.totals(),
            n_slots=known.slots + len(plan.new) - reused,
            free=np.array([*known.free[: len(known.free) - reused], *plan.dropped], dtype=np.int64),
            n_subproblems=known.subproblems - len(gone) + len(plan.pages),
            log10_effective_particles=effective,
            evaluations=known.evaluations,
        )
        run.resume(totals, elsewhere=False)
        self._forget(removed)
        if plan.pages:
            run.hold(plan.pages)
        plan.table.release(plan.released)
        run.put_postings(plan.postings, changes=True)
        if self.source is not None:
            self._known.update(plan.postings)
        self.note(plan.gone, [page.name for page in plan.pages])

    def _forget(self, removed: Mapping[int, Fragment]) -> None:
        self.bindings.forget(removed)
        for number, x in removed.items():
            self.held[number] = None
            if self._numbers is not None:
                self._numbers.pop(x.id, None)
        self.n_fragments -= len(removed)
        self._absent.update(removed)
        self.run.absent(removed)

    def unnumber(self) -> None:
        """Release the last number, whose fragment was not added."""
        self.held.pop()
        self._absent.discard(len(self.held))
        self.run.resume(self.totals(), elsewhere=False)


def settings_of(spec: ModelSpec, rules: Rules) -> dict[str, Any]:
    """Settings that must match when a session continues."""
    return {
        "alpha": spec.alpha,
        "exponent": spec.exponent,
        "max_evals": spec.max_evals,
        "surrogate": spec.surrogate is not None,
        "index": spec.index is not None,
        "particles": rules.particles,
        "resampler": rules.resampler.__name__.capitalize(),  # as stores have it
        "splits": rules.splits,
        "weights": rules.weights,
        "sampled_merges": rules.sampled_merges,
        "floor": rules.floor,
    }


def require_same(
    spec: ModelSpec,
    rng: np.random.Generator,
    totals: Totals,
    settings: Mapping[str, Any],
    source: str,
) -> None:
    """Refuse to continue from a session that does not match.

    Raises:
        UsageError: the totals are of a session with different settings, constraints or kind of
            random numbers; the message calls them `source`.
    """
    before = {"exponent": 1.0, **totals.settings}  # older stores do not name it
    for name, value in settings.items():
        if before.get(name) != value:
            raise UsageError(
                f"{source} of a session with {name} {quoted(before.get(name))}, "
                f"but this one has {quoted(value)}"
            )
    kind = type(rng.bit_generator).__name__
    if totals.rng.get("bit_generator") != kind:
        raise UsageError(
            f"{source} of random numbers by {quoted(totals.rng.get('bit_generator'))}, "
            f"but these are by {kind}"
        )
    wanted, held = spec.constraints, totals.constraints
    # decisions may have been made since; the rules of the whole stay
    if wanted and wanted not in (held, replace(held, decisions=())):
        raise UsageError(f"{source} of a session with different constraints")


def numbers_in(pages: Sequence[SubproblemData]) -> list[int]:
    """The numbers of their fragments, ascending."""
    return sorted({number for page in pages for number in page.members.tolist()})
